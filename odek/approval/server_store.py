"""Remembered approvals of MCP servers: ~/.odek/mcp_approvals.json (R-192).

A JSON object that maps the key of a server (`ServerRequest.key`) to what was approved of it: `folder`, `name`,
`command`, `date`, and `tools`, the digests of its tools. The key and the digests count; the rest is for people. The
file is kept as the other approvals are: private, whole, locked, and trusted only if no other user can have written it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from odek.approval.file import ApprovalFile
from odek.approval.servers import OfferedTool, ServerRequest
from odek.patterns import pattern
from odek.state import StateFolder
from odek.text import truncate

FILE = "mcp_approvals.json"
_MAX_CHARACTERS = 300
_DIGEST = pattern(r"[0-9a-f]{64}")
_TEXTS = ("folder", "name", "command", "date")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovedServer:
    """One remembered approval."""

    key: str
    folder: str
    name: str
    command: str
    """with its arguments, truncated"""
    date: str
    """when, in UTC: 2026-01-31T12:00:00Z"""
    tools: frozenset[str]
    """digests"""


class ServerApprovals:
    """What was approved with "trust"."""

    def __init__(self, folder: StateFolder, *, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives seconds since the epoch."""
        self._file = ApprovalFile(folder, FILE, keys=_DIGEST, clock=clock)

    @property
    def path(self) -> str:
        return self._file.path

    def approved(self, request: ServerRequest) -> ApprovedServer | None:
        """Return the approval of exactly this request, None when there is none. Raises StateFileError."""
        return self._read().get(request.key)

    def remember(self, request: ServerRequest, tools: Iterable[OfferedTool] = ()) -> None:
        """Trust the server, and `tools` of it besides those that are trusted. Raises StateFileError."""
        with self._file.locked():
            entries = self._read()
            known = entries[request.key].tools if request.key in entries else frozenset()
            digests = known | {tool.digest for tool in tools}
            entries[request.key] = replace(self._entry(request), tools=digests)
            self._write(entries.values())

    def entries(self) -> tuple[ApprovedServer, ...]:
        """Return all approvals, sorted by key. Raises StateFileError."""
        entries = self._read()
        return tuple(entries[key] for key in sorted(entries))

    def forget(self, keys: Collection[str]) -> None:
        """Remove the approvals with `keys`; unknown ones are ignored. Raises StateFileError."""
        with self._file.locked():
            self._write(entry for entry in self._read().values() if entry.key not in keys)

    def _entry(self, request: ServerRequest) -> ApprovedServer:
        return ApprovedServer(
            key=request.key,
            folder=request.folder,
            name=request.name,
            command=truncate(" ".join((request.command, *request.args)), _MAX_CHARACTERS),
            date=self._file.now(),
            tools=frozenset(),
        )

    def _write(self, entries: Iterable[ApprovedServer]) -> None:
        self._file.write({entry.key: _to_json(entry) for entry in entries})

    def _read(self) -> dict[str, ApprovedServer]:
        return {key: self._parse(key, value) for key, value in self._file.read().items()}

    def _parse(self, key: str, value: object) -> ApprovedServer:
        tools = value.get("tools") if isinstance(value, dict) else None
        if not isinstance(value, dict) or not isinstance(tools, list):
            raise self._file.damaged(f"the value of {key} is not an approval")
        if not all(isinstance(digest, str) and _DIGEST.fullmatch(digest) for digest in tools):
            raise self._file.damaged(f"the tools of {key} are not digests")
        folder, name, command, date = (value[each] if isinstance(value.get(each), str) else "" for each in _TEXTS)
        return ApprovedServer(key=key, folder=folder, name=name, command=command, date=date, tools=frozenset(tools))


def _to_json(entry: ApprovedServer) -> dict[str, object]:
    texts = (entry.folder, entry.name, entry.command, entry.date)
    return {**dict(zip(_TEXTS, texts, strict=True)), "tools": sorted(entry.tools)}
