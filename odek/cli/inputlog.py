"""What was typed in earlier conversations, for the arrow keys: ~/.odek/repl_history (F-32).

One entry a line; line ends inside an entry stand as \\n, a backslash as \\\\.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from odek.errors import StateError
from odek.state import StateFolder

NAME = "repl_history"
MOST_ENTRIES = 500
_LONGEST = 10_000  # characters; what is pasted in bulk is not typed again
_LIMIT_BYTES = 8 << 20
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def parse_entries(text: str) -> tuple[str, ...]:
    """Return the entries of a history file, oldest first. Pure."""
    return tuple(
        _ESCAPE.sub(lambda match: "\n" if match[1] == "n" else match[1], line) for line in text.split("\n") if line
    )


def render_entries(entries: Sequence[str]) -> str:
    """Return the file that holds the last of `entries`. Pure."""
    lines = (entry.replace("\\", "\\\\").replace("\n", "\\n") for entry in entries[-MOST_ENTRIES:])
    return "".join(f"{line}\n" for line in lines)


def add_entry(entries: Sequence[str], entry: str) -> tuple[str, ...]:
    """Return `entries` with `entry` at their end, unless it is there already or too long. Pure."""
    if not entry.strip() or len(entry) > _LONGEST or (entries and entries[-1] == entry):
        return tuple(entries)
    return (*entries, entry)[-MOST_ENTRIES:]


class InputLog:
    """The history of this user; several conversations may write to it at the same time."""

    def __init__(self, folder: StateFolder, *, redact: Callable[[str], str], warn: Callable[[str], None]) -> None:
        self._folder = folder
        self._redact = redact
        self._warn = warn
        self._usable = True

    def read(self) -> tuple[str, ...]:
        """Return the entries, oldest first; a file that cannot be used is told and left alone."""
        try:
            data = self._folder.read(NAME, limit_bytes=_LIMIT_BYTES) or b""
        except StateError as error:
            self._usable = False
            self._warn(f"what you type is not remembered: {error.message}")
            return ()
        return parse_entries(data.decode("utf-8", errors="replace"))

    def add(self, entry: str) -> None:
        """Remember `entry`; a failure is told once and does not end the conversation."""
        if not self._usable:
            return
        try:
            with self._folder.locked(NAME):
                entries = self.read()
                added = add_entry(entries, self._redact(entry))
                if self._usable and added != entries:
                    self._folder.write(NAME, render_entries(added).encode("utf-8", errors="backslashreplace"))
        except StateError as error:
            self._usable = False
            self._warn(f"what you type is not remembered: {error.message}")
