"""A file of approvals below ~/.odek: one JSON object by the keys of what was approved.

It is private, whole, locked, and trusted only if no other user can have written it (`StateFolder`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from re import Pattern

from odek.errors import StateFileError
from odek.state import StateFolder
from odek.text import truncate, visible

_LIMIT_BYTES = 8 << 20


class ApprovalFile:
    """See the module."""

    def __init__(self, folder: StateFolder, name: str, *, keys: Pattern[str], clock: Callable[[], float]) -> None:
        """`keys`: what each key must match as a whole; `clock` gives seconds since the epoch."""
        self._folder = folder
        self._name = name
        self._keys = keys
        self._clock = clock

    @property
    def path(self) -> str:
        return self._folder.path(self._name)

    def locked(self) -> AbstractContextManager[None]:
        """Keep other processes from writing meanwhile. Raises StateFileError."""
        return self._folder.locked(self._name)

    def read(self) -> dict[str, object]:
        """Return the object, {} where there is no file. Raises StateFileError."""
        content = self._folder.read_json(self._name, limit_bytes=_LIMIT_BYTES)
        if content is None:
            return {}
        if not isinstance(content, dict):
            raise self.damaged("it is not a JSON object")
        for key in content:
            if not self._keys.fullmatch(key):
                raise self.damaged(f'"{visible(truncate(key, 80))}" is not an approval key')
        return content

    def write(self, content: Mapping[str, object]) -> None:
        """Replace the object. Raises StateFileError."""
        self._folder.write_json(self._name, dict(content))

    def now(self) -> str:
        """Return the time in UTC: 2026-01-31T12:00:00Z."""
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock()))

    def damaged(self, reason: str) -> StateFileError:
        """Return the error of a file that approves nothing because of `reason`."""
        return StateFileError(
            f'"{visible(self.path)}" is damaged: {reason}', hint="remove the file; odek then asks again"
        )
