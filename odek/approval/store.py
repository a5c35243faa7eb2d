"""Remembered approvals: ~/.odek/project_sandbox_approvals.json (R-61, B30).

A JSON object that maps keys to `true`. A key is the 64 hex digits of `request.fingerprint`, which
older tools write and read as well, or those, a colon and the 64 of `request.digest`. The short form
stands for a request only when it binds all of it; for any other only the long form counts.
"""

from __future__ import annotations

import re

from odek.approval.request import ApprovalRequest, digest, fingerprint, fingerprint_covers
from odek.errors import StateError
from odek.state import StateFolder
from odek.text import clip, visible

FILE = "project_sandbox_approvals.json"
_KEY = re.compile(r"[0-9a-f]{64}(:[0-9a-f]{64})?")


class ApprovalStore:
    """The approvals that were given with "trust this project"."""

    def __init__(self, folder: StateFolder) -> None:
        self._folder = folder

    @property
    def path(self) -> str:
        return self._folder.path(FILE)

    def holds(self, request: ApprovalRequest) -> bool:
        """Return whether exactly this request was trusted before.

        Raises StateError when the file is linked, open to others, another user's or damaged: a
        file that somebody else may have written approves nothing.
        """
        return _key(request) in self._read()

    def remember(self, request: ApprovalRequest) -> None:
        """Trust `request` from now on, keeping what other processes wrote meanwhile. Raises StateError."""
        with self._folder.locked(FILE):
            keys = self._read() | {_key(request)}
            self._folder.write_json(FILE, dict.fromkeys(keys, True))

    def _read(self) -> frozenset[str]:
        content = self._folder.read_json(FILE)
        if content is None:
            return frozenset()
        if not isinstance(content, dict):
            raise self._damaged("it is no JSON object")
        for key, approved in content.items():
            if not _KEY.fullmatch(key):
                raise self._damaged(f'"{visible(clip(key, 80))}" is no approval key')
            if approved is not True:
                raise self._damaged(f"the value of {key} is not true")
        return frozenset(content)

    def _damaged(self, reason: str) -> StateError:
        return StateError(f'"{visible(self.path)}" is damaged: {reason}', hint="remove the file; odek then asks again")


def _key(request: ApprovalRequest) -> str:
    short = fingerprint(request)
    return short if fingerprint_covers(request) else f"{short}:{digest(request)}"
