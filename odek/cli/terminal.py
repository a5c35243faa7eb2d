"""What odek prints: the answer on stdout, everything else on stderr. Satisfies sandbox_setup.Notices.

Foreign text goes through odek.text before it gets here or on the way; colours obey NO_COLOR, TERM
and whether stderr is a terminal.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import TextIO

from odek.errors import OdekError
from odek.text import visible, visible_lines

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


class Terminal:
    """The two output streams of this process."""

    def __init__(self, stdout: TextIO, stderr: TextIO) -> None:
        self._stdout = stdout
        self._stderr = stderr
        self._color = False
        self.env: Mapping[str, str] = {}
        for stream in (stdout, stderr):
            if hasattr(stream, "reconfigure"):  # LANG=C: degrade instead of failing (B47)
                stream.reconfigure(errors="backslashreplace", newline="\n")

    def configure(self, *, env: Mapping[str, str], is_terminal: bool) -> None:
        self.env = env
        self._color = is_terminal and not env.get("NO_COLOR") and env.get("TERM", "dumb") != "dumb"

    def without_color(self) -> None:
        self._color = False

    def style(self, text: str, *styles: str) -> str:
        """Return `text` in the given styles, or as it is where there are no colours."""
        if not self._color or not text:
            return text
        codes = ";".join(_STYLES[style] for style in styles)
        return f"\x1b[{codes}m{text}\x1b[0m"

    def answer(self, text: str) -> None:
        """Print what the user asked for, on stdout, ending with one line end."""
        self._stdout.write(text if text.endswith("\n") else text + "\n")
        self._stdout.flush()

    def line(self, text: str = "") -> None:
        """Print a line on stderr. A terminal that is gone or full does not end the run."""
        try:
            self._stderr.write(text + "\n")
            self._stderr.flush()
        except (OSError, ValueError):
            pass

    def note(self, text: str) -> None:
        self.line(f"odek: {text}")

    def warn(self, text: str, hint: str = "") -> None:
        self.line(self.style(f"odek: warning: {text}", "yellow"))
        if hint:
            self.line(f"odek: hint: {hint}")

    def error(self, error: OdekError) -> None:
        """Print what is wrong, somebody else's words below it, and what to do."""
        self.line(f"{self.style('odek: error:', 'red', 'bold')} {error.message}")
        if error.detail:
            for detail in visible_lines(error.detail).splitlines():
                self.line(f"    {detail}")
        if error.hint:
            self.line(f"odek: hint: {error.hint}")

    def interrupted(self, number: int) -> None:
        self.line(f"odek: stopped by {signal.Signals(number).name}")

    def bug(self, error: BaseException, *, debug: bool, code: int) -> int:
        """Report what should never happen; return `code`."""
        self.line(f"odek: internal error: {type(error).__name__}: {visible(str(error))}")
        if debug:
            import traceback

            self.line("".join(traceback.format_exception(error)).rstrip())
        else:
            self.line("odek: hint: this is a bug of odek; ODEK_DEBUG=1 shows where it happened")
        return code

    def flush(self) -> None:
        self._stdout.flush()

    def abandon_output(self) -> None:
        """Nobody reads stdout any more: keep the interpreter from complaining about it at exit."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
