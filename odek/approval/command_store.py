"""Remembered approvals of projects' own commands: ~/.odek/command_approvals.json (R-283).

A JSON object that maps the key of a command (`OfferedCommand.key`) to `folder`, `name` and `date`, which are for
people. The file is kept as the other approvals are: private, whole, locked, and trusted only if no other user can have
written it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from odek.approval.commands import CommandsRequest
from odek.errors import StateFileError
from odek.patterns import pattern
from odek.state import StateFolder
from odek.text import truncate, visible

FILE = "command_approvals.json"
_LIMIT_BYTES = 8 << 20
_DIGEST = pattern(r"[0-9a-f]{64}")
_TEXTS = ("folder", "name", "date")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovedCommand:
    """One remembered approval."""

    key: str
    folder: str
    name: str
    date: str
    """when, in UTC: 2026-01-31T12:00:00Z"""


class CommandApprovals:
    """What was approved with "trust"."""

    def __init__(self, folder: StateFolder, *, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives seconds since the epoch."""
        self._folder = folder
        self._clock = clock

    @property
    def path(self) -> str:
        return self._folder.path(FILE)

    def keys(self) -> frozenset[str]:
        """Return the keys of all that is approved. Raises StateFileError."""
        return frozenset(self._read())

    def entries(self) -> tuple[ApprovedCommand, ...]:
        """Return all approvals, sorted by key. Raises StateFileError."""
        texts = self._read()
        return tuple(ApprovedCommand(key=key, **texts[key]) for key in sorted(texts))

    def remember(self, request: CommandsRequest) -> None:
        """Trust the commands of `request`. Raises StateFileError."""
        date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock()))
        with self._folder.locked(FILE):
            entries = self._read()
            for command in request.commands:
                texts = {"folder": request.folder, "name": command.name, "date": date}
                entries[command.key(request.folder)] = texts
            self._folder.write_json(FILE, entries)

    def forget(self, keys: Collection[str]) -> None:
        """Remove the approvals with `keys`; unknown ones are ignored. Raises StateFileError."""
        with self._folder.locked(FILE):
            entries = self._read()
            self._folder.write_json(FILE, {key: texts for key, texts in entries.items() if key not in keys})

    def _read(self) -> dict[str, dict[str, str]]:
        content = self._folder.read_json(FILE, limit_bytes=_LIMIT_BYTES)
        if content is None:
            return {}
        if not isinstance(content, dict):
            raise self._damaged("it is not a JSON object")
        return {key: self._texts(key, value) for key, value in content.items()}

    def _texts(self, key: str, value: object) -> dict[str, str]:
        if not _DIGEST.fullmatch(key) or not isinstance(value, dict):
            raise self._damaged(f'"{visible(truncate(key, 80))}" is not an approval')
        return {name: value[name] if isinstance(value.get(name), str) else "" for name in _TEXTS}

    def _damaged(self, reason: str) -> StateFileError:
        return StateFileError(
            f'"{visible(self.path)}" is damaged: {reason}', hint="remove the file; odek then asks again"
        )
