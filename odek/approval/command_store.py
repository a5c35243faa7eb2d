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
from odek.approval.file import ApprovalFile
from odek.patterns import pattern
from odek.state import StateFolder

FILE = "command_approvals.json"
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
        self._file = ApprovalFile(folder, FILE, keys=_DIGEST, clock=clock)

    @property
    def path(self) -> str:
        return self._file.path

    def keys(self) -> frozenset[str]:
        """Return the keys of all that is approved. Raises StateFileError."""
        return frozenset(self._read())

    def entries(self) -> tuple[ApprovedCommand, ...]:
        """Return all approvals, sorted by key. Raises StateFileError."""
        texts = self._read()
        return tuple(ApprovedCommand(key=key, **texts[key]) for key in sorted(texts))

    def remember(self, request: CommandsRequest) -> None:
        """Trust the commands of `request`. Raises StateFileError."""
        with self._file.locked():
            entries = self._read()
            for command in request.commands:
                texts = {"folder": request.folder, "name": command.name, "date": self._file.now()}
                entries[command.key(request.folder)] = texts
            self._file.write(entries)

    def forget(self, keys: Collection[str]) -> None:
        """Remove the approvals with `keys`; unknown ones are ignored. Raises StateFileError."""
        with self._file.locked():
            self._file.write({key: texts for key, texts in self._read().items() if key not in keys})

    def _read(self) -> dict[str, dict[str, str]]:
        return {key: self._texts(key, value) for key, value in self._file.read().items()}

    def _texts(self, key: str, value: object) -> dict[str, str]:
        if not isinstance(value, dict):
            raise self._file.damaged(f"the value of {key} is not an object")
        return {name: value[name] if isinstance(value.get(name), str) else "" for name in _TEXTS}
