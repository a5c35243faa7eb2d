"""Where the lines of a conversation come from: a terminal with editing, a plain one, or a pipe (F-29 to F-31).

`input` and `readline` are used nowhere else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import BinaryIO, Protocol

from odek.cli.signals import Resumed, resumption
from odek.errors import UsageError

LINE_LIMIT_BYTES = 1 << 20
# Every byte of a line is the user's own: nothing is an 8-bit command key, in no locale (B47).
_GNU_SETTINGS = (
    "tab: complete",
    "set enable-bracketed-paste on",  # a paste of several lines is one entry, not several
    "set input-meta on",
    "set output-meta on",
    "set convert-meta off",
    "set bell-style none",
    "set show-all-if-ambiguous on",
)
_DELIMITERS = " \t\n\"'`([{<"

Completer = Callable[[str], Sequence[str]]
"""what a word at the cursor may become"""


class Lines(Protocol):
    """Gives one entry of the user after the other."""

    interactive: bool
    """whether a person sees the prompt"""

    def read(self, prompt: str) -> str | None:
        """Return the next entry without its line end, None at the end. Raises UsageError for one that is too long."""
        ...

    def remember(self, entry: str) -> None:
        """Offer `entry` to the arrow keys."""
        ...


class StreamLines:
    """Lines as they come; one reader for all of them, so that none is lost (F-31)."""

    def __init__(self, stream: BinaryIO, *, interactive: bool, ask: Callable[[str], None]) -> None:
        """`ask` shows the prompt where somebody sees it."""
        self.interactive = interactive
        self._stream = stream
        self._ask = ask

    def read(self, prompt: str) -> str | None:
        if self.interactive:
            self._ask(prompt)
        line = self._stream.readline(LINE_LIMIT_BYTES + 1)
        if len(line) > LINE_LIMIT_BYTES:
            while line and not line.endswith(b"\n"):
                line = self._stream.readline(LINE_LIMIT_BYTES)
            raise UsageError(
                "a line is longer than 1 MiB and was passed over", hint="put it into a file; @FILE attaches it"
            )
        return line.decode("utf-8", errors="replace").rstrip("\r\n") if line else None

    def remember(self, entry: str) -> None:
        del entry


class EditedLines:
    """A terminal with line editing, history and completion; a backslash at the end of a line goes on."""

    interactive = True

    def __init__(self, history: Sequence[str], completer: Completer) -> None:
        import readline

        self._readline = readline
        self._matches: Sequence[str] = ()
        self._completer = completer
        if "libedit" in (readline.__doc__ or ""):
            readline.parse_and_bind("bind ^I rl_complete")
        else:
            for setting in _GNU_SETTINGS:
                readline.parse_and_bind(setting)
        readline.set_completer_delims(_DELIMITERS)
        readline.set_completer(self._complete)
        readline.set_auto_history(False)
        self._last = ""
        for entry in history:
            self.remember(entry)

    def read(self, prompt: str) -> str | None:
        entry = begun = ""
        while True:
            try:
                line = self._input(prompt, begun)
            except EOFError:
                return None
            except Resumed:  # after Ctrl-Z and fg the prompt stands above what the shell wrote
                begun = self._readline.get_line_buffer()
                continue
            if not line.endswith("\\"):
                return entry + line
            entry += line[:-1] + "\n"
            prompt, begun = "… ", ""

    def _input(self, prompt: str, begun: str) -> str:
        """Read a line that begins with `begun`. Raises EOFError, and Resumed after a stop."""
        self._readline.set_startup_hook((lambda: self._readline.insert_text(begun)) if begun else None)
        with resumption():
            return input(prompt)

    def remember(self, entry: str) -> None:
        if entry == self._last:
            return
        self._last = entry
        try:
            self._readline.add_history(entry)
        except UnicodeEncodeError:  # a locale of bytes: hand over the bytes (B47)
            self._readline.add_history(entry.encode("utf-8", "replace").decode("ascii", "surrogateescape"))

    def _complete(self, word: str, state: int) -> str | None:
        if state == 0:
            self._matches = self._completer(word)
        return self._matches[state] if state < len(self._matches) else None


def open_lines(
    history: Callable[[], Sequence[str]],
    completer: Completer,
    *,
    at_terminal: bool,
    edited: bool,
    ask: Callable[[str], None],
) -> Lines:
    """Return the lines of stdin; `edited`: stdin and stdout are the terminal that a person sits at."""
    if edited:
        try:
            return EditedLines(history(), completer)
        except ImportError:  # a Python without readline: the kernel's own line editing has to do
            pass
    return StreamLines(sys.stdin.buffer, interactive=at_terminal, ask=ask)
