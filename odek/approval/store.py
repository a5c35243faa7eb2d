"""Remembered approvals: ~/.odek/project_sandbox_approvals.json (R-61, B30).

A JSON object that maps keys to `true`. A key is the 64 hex digits of `request.fingerprint`, which
older tools write and read as well, or those, a colon and the 64 of `request.digest`. The short form
stands for a request only when it binds all of it; for any other only the long form counts. What a
key was given for stands in a file of its own; see notes.py.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from odek.approval import notes
from odek.approval.notes import Note, note_to_json, parse_notes, take_note
from odek.approval.request import ApprovalRequest, digest, fingerprint, fingerprint_covers
from odek.errors import StateError
from odek.state import StateFolder
from odek.text import clip, visible

FILE = "project_sandbox_approvals.json"
_KEY = re.compile(r"[0-9a-f]{64}(:[0-9a-f]{64})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """One remembered approval."""

    key: str
    note: Note | None
    """None: another tool wrote it, or its description is lost"""


class ApprovalStore:
    """The approvals that were given with "trust this project"."""

    def __init__(self, folder: StateFolder, *, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives seconds since the epoch, for the dates of the notes."""
        self._folder = folder
        self._clock = clock

    @property
    def path(self) -> str:
        return self._folder.path(FILE)

    def holds(self, request: ApprovalRequest) -> bool:
        """Return whether exactly this request was trusted before.

        Raises StateError when the file is linked, open to others, another user's or damaged: a
        file that somebody else may have written approves nothing.
        """
        return approval_key(request) in self._read()

    def remember(self, request: ApprovalRequest) -> None:
        """Trust `request` from now on, keeping what other processes wrote meanwhile. Raises StateError."""
        date = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._clock()))
        with self._folder.locked(FILE):
            keys = self._read() | {approval_key(request)}
            self._write(keys, {**self._read_notes(), approval_key(request): take_note(request, date=date)})

    def entries(self) -> tuple[Remembered, ...]:
        """Return all remembered approvals, sorted by key. Raises StateError as `holds` does."""
        keys, described = self._read(), self._read_notes()
        return tuple(Remembered(key=key, note=described.get(key)) for key in sorted(keys))

    def earlier(self, folder: str) -> Note | None:
        """Return what was trusted last in `folder`, None when nothing was. Raises StateError as `holds` does."""
        known = [entry.note for entry in self.entries() if entry.note is not None and entry.note.folder == folder]
        return max(known, key=lambda note: note.date, default=None)

    def forget(self, keys: Collection[str]) -> None:
        """Ask again for what `keys` stand for; keys that are not there are passed over. Raises StateError."""
        with self._folder.locked(FILE):
            self._write(self._read() - frozenset(keys), self._read_notes())

    def _write(self, keys: frozenset[str], described: dict[str, Note]) -> None:
        self._folder.write_json(FILE, dict.fromkeys(keys, True))
        kept = {key: note_to_json(note) for key, note in described.items() if key in keys}
        try:
            self._folder.write_json(notes.FILE, kept)
        except StateError:  # the approval counts all the same
            pass

    def _read_notes(self) -> dict[str, Note]:
        try:
            return parse_notes(self._folder.read_json(notes.FILE, limit_bytes=notes.LIMIT_BYTES))
        except StateError:  # they only describe: what cannot be trusted is not shown, and replaced
            return {}

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


def approval_key(request: ApprovalRequest) -> str:
    """Return the key under which an approval of `request` is remembered."""
    short = fingerprint(request)
    return short if fingerprint_covers(request) else f"{short}:{digest(request)}"
