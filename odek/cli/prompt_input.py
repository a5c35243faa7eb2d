"""What the user types in a conversation: reading lines, their history, and completion (F-29 to F-32).

Lines come from a terminal with editing, a plain one, or a pipe; `input` and `readline` are used nowhere else. The
history is ~/.odek/repl_history: an entry a line, line ends in it written as \\n and a backslash as \\\\.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import BinaryIO, Protocol

from odek.app.file_names import find_names
from odek.cancel import wait_readable
from odek.cli.signals import Resumed, resumption
from odek.errors import StateFileError, UsageError
from odek.patterns import pattern
from odek.state import StateFolder

LINE_LIMIT_BYTES = 1 << 20
HISTORY_FILE = "repl_history"
MOST_ENTRIES = 500
_LONGEST = 10_000  # characters; bulk pastes are not kept
_LIMIT_BYTES = 8 << 20
_ESCAPE = pattern(r"\\(.)", re.DOTALL)
MOST_FILES = 200
# Every byte of a line is the user's own: nothing is an 8-bit command key, in no locale (B47).
_GNU_SETTINGS = (
    "tab: complete",
    "set enable-bracketed-paste on",  # a paste of several lines is one entry, not several
    "set input-meta on",
    "set output-meta on",
    "set convert-meta off",
    "set bell-style none",
    "set show-all-if-ambiguous on",
    r'"\e[200~": insert-completions',  # calls the completer, which takes the paste
)
_PASTE_ENDS = b"\x1b[201~"
_PASTING = ord("*")  # readline's type of what insert-completions asks for
_PASTE_PATIENCE_S = 0.5
_DELIMITERS = " \t\n\"'`([{<"

Completer = Callable[[str, str], Sequence[str]]
"""word at the cursor, the line up to it → the word's completions"""


class LineReader(Protocol):
    """Returns the entries of the user, one after the other."""

    interactive: bool
    """whether a person sees the prompt"""

    @property
    def unfinished(self) -> str:
        """what had been typed of the entry when `read` was interrupted, as far as that can be known"""
        ...

    def read(self, prompt: str) -> str | None:
        """Return the next entry without its line end, None at the end. Raises UsageError for one that is too long."""
        ...

    def add_history(self, entry: str) -> None:
        """Make `entry` reachable with the arrow keys."""
        ...


class StreamReader:
    """Lines as they come; one reader for all of them, so that none is lost (F-31)."""

    unfinished = ""  # the kernel forgets it with the Ctrl-C

    def __init__(self, stream: BinaryIO, *, interactive: bool, ask: Callable[[str], None]) -> None:
        """`ask` shows the prompt; it is called only if `interactive`."""
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
                "a line is longer than 1 MiB and was ignored", hint="put it into a file; @FILE attaches it"
            )
        return line.decode("utf-8", errors="replace").rstrip("\r\n") if line else None

    def add_history(self, entry: str) -> None:
        del entry


class EditingReader:
    """A terminal with line editing, history and completion; a backslash at the end of a line continues it."""

    interactive = True

    def __init__(self, history: Sequence[str], completer: Completer) -> None:
        import readline

        self._readline = readline
        self._matches: Sequence[str] = ()
        self._completer = completer
        self._editline = getattr(readline, "backend", "") == "editline" or "libedit" in (readline.__doc__ or "")
        if self._editline:
            readline.parse_and_bind("bind ^I rl_complete")
        else:
            for setting in _GNU_SETTINGS:
                readline.parse_and_bind(setting)
        readline.set_completer_delims(_DELIMITERS)
        readline.set_completer(self._complete)
        readline.set_auto_history(False)
        self._last = self._entry = ""
        for entry in history:
            self.add_history(entry)

    @property
    def unfinished(self) -> str:
        return self._entry + self._begun()

    def _begun(self) -> str:
        """Return the line that an interruption left; libedit knows the one before it only."""
        return "" if self._editline else self._readline.get_line_buffer()

    def read(self, prompt: str) -> str | None:
        entry = begun = self._entry = ""
        while True:
            try:
                line = self._input(prompt, begun)
            except EOFError:
                return None
            except Resumed:  # after Ctrl-Z and fg the prompt is above what the shell wrote
                begun = self._begun()
                continue
            if not line.endswith("\\"):
                return entry + line
            entry += line[:-1] + "\n"
            self._entry = entry
            prompt, begun = "… ", ""

    def _input(self, prompt: str, begun: str) -> str:
        """Read a line that begins with `begun`. Raises EOFError, and Resumed after a stop."""
        self._readline.set_startup_hook((lambda: self._readline.insert_text(begun)) if begun else None)
        with resumption():
            return input(prompt)

    def add_history(self, entry: str) -> None:
        if entry == self._last:
            return
        self._last = entry
        try:
            self._readline.add_history(entry)
        except UnicodeEncodeError:  # a locale of bytes: hand over the bytes (B47)
            self._readline.add_history(entry.encode("utf-8", "replace").decode("ascii", "surrogateescape"))

    def _complete(self, word: str, state: int) -> str | None:
        if state == 0 and self._readline.get_completion_type() == _PASTING:
            self._matches = ()
            self._insert(read_paste(sys.stdin.fileno()))
        elif state == 0:
            line = self._readline.get_line_buffer()[: self._readline.get_begidx()]
            self._matches = self._completer(word, line)
        return self._matches[state] if state < len(self._matches) else None

    def _insert(self, text: str) -> None:
        try:
            self._readline.insert_text(text)
        except UnicodeEncodeError:  # as in add_history
            self._readline.insert_text(text.encode("utf-8", "replace").decode("ascii", "surrogateescape"))


def read_paste(descriptor: int) -> str:
    """Return what a terminal sends of a paste behind its beginning, with line feeds as line ends (C6).

    Byte by byte: what follows the paste is not ours. A terminal that breaks off in the middle is not waited for.
    """
    data = bytearray()
    while not data.endswith(_PASTE_ENDS) and wait_readable(descriptor, _PASTE_PATIENCE_S):
        byte = os.read(descriptor, 1)
        if not byte:
            break
        data += byte
    text = data.removesuffix(_PASTE_ENDS).decode("utf-8", errors="replace")
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "")


def open_line_reader(
    history: Callable[[], Sequence[str]],
    completer: Completer,
    *,
    at_terminal: bool,
    edited: bool,
    ask: Callable[[str], None],
) -> LineReader:
    """Return a reader of stdin; `edited`: stdin and stdout are the terminal of a person."""
    if edited:
        try:
            return EditingReader(history(), completer)
        except ImportError:  # a Python without readline: the kernel's line editing has to suffice
            pass
    return StreamReader(sys.stdin.buffer, interactive=at_terminal, ask=ask)


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


class InputHistory:
    """The history of this user; several conversations may write to it at the same time."""

    def __init__(self, folder: StateFolder, *, redact: Callable[[str], str], warn: Callable[[str], None]) -> None:
        self._folder = folder
        self._redact = redact
        self._warn = warn
        self._usable = True

    def read(self) -> tuple[str, ...]:
        """Return the entries, oldest first; a file that cannot be used is warned about and left alone."""
        try:
            data = self._folder.read(HISTORY_FILE, limit_bytes=_LIMIT_BYTES) or b""
        except StateFileError as error:
            self._usable = False
            self._warn(f"what you type is not remembered: {error.message}")
            return ()
        return parse_entries(data.decode("utf-8", errors="replace"))

    def add(self, entry: str) -> None:
        """Keep `entry`; a failure is warned about once and does not end the conversation."""
        if not self._usable:
            return
        try:
            with self._folder.locked(HISTORY_FILE):
                entries = self.read()
                added = add_entry(entries, self._redact(entry))
                if self._usable and added != entries:
                    self._folder.write(HISTORY_FILE, render_entries(added).encode("utf-8", errors="backslashreplace"))
        except StateFileError as error:
            self._usable = False
            self._warn(f"what you type is not remembered: {error.message}")


def complete(word: str, line: str, *, command: Callable[[str, str], Sequence[str] | None], cwd: str) -> tuple[str, ...]:
    """Return the completions of `word`; `line` stands before it. `command` is asked first; None: it knows nothing."""
    found = command(word, line)
    if found is not None:
        return tuple(found)
    return complete_path(word[1:], cwd=cwd) if word.startswith("@") else ()


def complete_path(beginning: str, *, cwd: str) -> tuple[str, ...]:
    """Return the paths below `cwd` that begin with `beginning`, each after "@", folders with a slash at the end."""
    found = find_names(beginning, cwd=cwd, most=MOST_FILES)
    return tuple(f"@{name.path}{'/' if name.is_folder else ''}" for name in found)
