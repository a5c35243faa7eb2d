"""Questions to the person at the controlling terminal, asked through /dev/tty (R-64, B32, B33).

Never through stdin, stdout or stderr: `yes | odek run` approves nothing, and a question does not
end up in a pipe. What was typed, pasted or sent by the terminal itself before the question is
discarded; a terminal's late reply in front of an answer is taken off.
"""

from __future__ import annotations

import errno
import os
import termios
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from odek.cancel import wait_readable
from odek.patterns import pattern
from odek.text import visible, visible_lines

TERMINAL = "/dev/tty"
ATTEMPTS = 3
QUIET_S = 0.1  # this long without input, and what was under way (a paste, a terminal's reply) has arrived
_QUIET_ROUNDS = 20
_LINE_LIMIT = 4096  # what the kernel's line discipline takes
_CAUTION = "⚠️"
_PASTE = b"\x1b[200~"
_REPLY = pattern(
    rb"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI, such as a cursor position
    rb"|\x1b[\]P_^][^\x07\x1b]*(?:\x07|\x1b\\)"  # OSC, DCS, APC, PM with their ends
    rb"|\x1bO."  # SS3
)


@dataclass(frozen=True, slots=True)
class Screen:
    """The size of a terminal."""

    columns: int = 80
    rows: int = 24
    is_known: bool = False


class TtyPrompt:
    """Asks at the controlling terminal. One question at a time; nothing stays open in between."""

    def __init__(
        self,
        path: str = TERMINAL,
        *,
        quiet_s: float = QUIET_S,
        alone: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """`quiet_s`: a question is put only after this long without input.

        Within `alone` nothing else writes to the terminal.
        """
        self._path = path
        self._quiet_s = quiet_s
        self._alone = alone

    def screen(self) -> Screen:
        """Return the size of the terminal now, the usual one where it is not known."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            return Screen()
        try:
            columns, rows = os.get_terminal_size(descriptor)
        except OSError:
            return Screen()
        finally:
            os.close(descriptor)
        return Screen(columns, rows, is_known=True) if columns and rows else Screen()

    def ask(self, prompt: str, choices: tuple[str, ...]) -> str | None:
        """Show `prompt` and return the one of `choices` that was typed.

        Other answers ask again, three times in all. None for that, for end of file, Ctrl-C, and a
        terminal that is gone. Whatever ends it, the terminal is left as it was.
        """
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            with self._alone():
                return _ask_in_line_mode(descriptor, prompt, choices, self._quiet_s)
        except (OSError, termios.error, KeyboardInterrupt):
            return None
        finally:
            os.close(descriptor)

    def ask_text(self, prompt: str, *, hidden: bool = False) -> str | None:
        """Show `prompt` and return the line that is typed, without blanks around it; `hidden`: it is not echoed.

        None for end of file, Ctrl-C, and a terminal that is gone.
        """
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            with self._alone():
                return _ask_for_text(descriptor, prompt, hidden=hidden)
        except (OSError, termios.error, KeyboardInterrupt):
            return None
        finally:
            os.close(descriptor)


def find_tty_prompt(
    path: str = TERMINAL, *, alone: Callable[[], AbstractContextManager[None]] = nullcontext
) -> TtyPrompt | None:
    """Return a prompt when there is a terminal to ask at, else None. `alone` as for TtyPrompt."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None
    is_terminal = os.isatty(descriptor)
    os.close(descriptor)
    return TtyPrompt(path, alone=alone) if is_terminal else None


def _ask_in_line_mode(descriptor: int, prompt: str, choices: tuple[str, ...], quiet_s: float) -> str | None:
    before = termios.tcgetattr(descriptor)
    try:
        _set_attributes(descriptor, _line_mode(before))
        return _converse(descriptor, prompt, choices, quiet_s)
    finally:
        try:
            termios.tcsetattr(descriptor, termios.TCSANOW, before)
        except termios.error:
            pass  # hung up: there is nothing left to restore, and the first error must not be lost


def _ask_for_text(descriptor: int, prompt: str, *, hidden: bool) -> str | None:
    before = termios.tcgetattr(descriptor)
    try:
        wanted = _line_mode(before)
        if hidden:
            assert isinstance(wanted[3], int)
            wanted[3] &= ~termios.ECHO
        _set_attributes(descriptor, wanted)
        _write(descriptor, f"{_harmless(prompt)} ")
        line = _read_line(descriptor)
        if hidden or line is None:
            _write(descriptor, "\n")
        return None if line is None else _REPLY.sub(b"", line).decode("utf-8", errors="replace").strip()
    finally:
        try:
            termios.tcsetattr(descriptor, termios.TCSANOW, before)
        except termios.error:
            pass  # hung up


def _set_attributes(descriptor: int, attributes: list[int | list[bytes | int]]) -> None:
    """Set them, and forget pending input. In the background the kernel stops this job; after `fg` it goes on here."""
    while True:
        try:
            return termios.tcsetattr(descriptor, termios.TCSAFLUSH, attributes)
        except termios.error as error:
            if error.args[0] != errno.EINTR:  # by the handler that stops the binary's two processes (build/entry.py)
                raise


def _line_mode(attributes: list[int | list[bytes | int]]) -> list[int | list[bytes | int]]:
    """Return `attributes` with line input, echo and signals on, whatever a crashed program left behind."""
    iflag, oflag, cflag, lflag, *rest = attributes
    assert isinstance(iflag, int)
    assert isinstance(oflag, int)
    assert isinstance(lflag, int)
    iflag = (iflag | termios.ICRNL) & ~(termios.IGNCR | termios.INLCR)
    oflag |= termios.OPOST | termios.ONLCR
    lflag |= termios.ICANON | termios.ECHO | termios.ECHOCTL | termios.ISIG
    return [iflag, oflag, cflag, lflag, *rest]


def _converse(descriptor: int, prompt: str, choices: tuple[str, ...], quiet_s: float) -> str | None:
    body, _, question = _harmless(prompt).rpartition("\n")
    _write(descriptor, f"{body}\n" if body else "")
    for _ in range(ATTEMPTS):
        # discard first, then ask: who answers a question that can be seen is never discarded
        if not _discard_input(descriptor, quiet_s):
            break
        _write(descriptor, f"{question} ")
        line = _read_line(descriptor)
        if line is None:
            _write(descriptor, "\n")
            return None
        answer = _answer(line)
        if answer in choices:
            return answer
        _write(descriptor, f'"{visible(answer)[:40]}" is none of the answers\n')
    _write(descriptor, "no answer: taken as no\n")
    return None


def _harmless(prompt: str) -> str:
    """Return `prompt` without a byte that moves the cursor: the last line of defence, not the only one.

    Our own warning sign carries a variation selector, which is escaped everywhere else.
    """
    return _CAUTION.join(visible_lines(part) for part in prompt.split(_CAUTION))


def _discard_input(descriptor: int, quiet_s: float) -> bool:
    """Throw away pending input until the terminal is quiet; False when it does not become so."""
    for _ in range(_QUIET_ROUNDS):
        termios.tcflush(descriptor, termios.TCIFLUSH)
        if not wait_readable(descriptor, quiet_s):
            termios.tcflush(descriptor, termios.TCIFLUSH)  # half a line does not make it readable
            return True
    return False


def _read_line(descriptor: int) -> bytes | None:
    """Return one line without its end; None for end of file, also in the middle of a line."""
    wait_readable(descriptor)
    line = os.read(descriptor, _LINE_LIMIT)
    return line[:-1] if line.endswith(b"\n") else None


def _answer(line: bytes) -> str:
    if _PASTE in line:  # a paste is not a decision; its marker stays in and matches no choice
        return line.decode("utf-8", errors="replace")
    return _REPLY.sub(b"", line).decode("utf-8", errors="replace").strip().lower()


def _write(descriptor: int, text: str) -> None:
    data = memoryview(text.encode("utf-8", errors="backslashreplace"))
    while data:
        data = data[os.write(descriptor, data) :]
