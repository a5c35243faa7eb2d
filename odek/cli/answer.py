"""An answer on its way to stdout: rendered for a person at a terminal, byte for byte into anything else (C3, C4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odek.cli.terminal import Terminal

if TYPE_CHECKING:
    from odek.cli.markdown import Markdown

_COLUMNS = 80  # of a terminal that does not say how wide it is


class AnswerPrinter:
    """Prints the text of one reply while it arrives."""

    def __init__(self, terminal: Terminal, *, shown: str = "") -> None:
        """`shown`: what has been printed of it already."""
        self._terminal = terminal
        self._shown = [shown]
        self._rendered: Markdown | None = None
        self._kept = ""
        """the beginning of a line, where only whole ones are written"""

    def feed(self, text: str) -> None:
        """Print more of the reply, on a terminal."""
        if len(self._shown) == 1 and not self._shown[0]:
            text = text.lstrip("\n")
        if not text:
            return
        self._shown.append(text)
        if self._rendered is None:
            from odek.cli.markdown import Markdown  # a pipe needs none

            terminal = self._terminal
            self._rendered = Markdown(terminal.answer_look, lambda: terminal.answer_columns or _COLUMNS)
        self._write(self._rendered.feed(text))

    def end(self) -> None:
        """Print what is left, and end the line."""
        if self._rendered is not None:
            self._write(self._rendered.end(), is_all=True)

    def has_shown(self, text: str) -> bool:
        """Return whether `text` is on the terminal already."""
        return "".join(self._shown).strip() == text.strip()

    def _write(self, text: str, *, is_all: bool = False) -> None:
        if self._terminal.answer_look.plain:
            whole, end, rest = (self._kept + text).rpartition("\n")
            text, self._kept = (whole + end + rest, "") if is_all else (whole + end, rest)
        if text:
            self._terminal.stream_rendered(text)


def print_answer(terminal: Terminal, answer: str) -> None:
    """Print a whole answer, ending with one line end. Raises OdekError and BrokenPipeError as `Terminal.answer`."""
    if not terminal.shows_answer:
        terminal.answer(answer)
        return
    printer = AnswerPrinter(terminal)
    printer.feed(answer)
    printer.end()
