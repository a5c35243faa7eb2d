"""Rows of what a turn does, on stderr: what they begin with, and where they are cut."""

from __future__ import annotations

from dataclasses import dataclass

from odek.cli.look import Look
from odek.cli.terminal import Terminal


@dataclass(frozen=True, slots=True)
class Marks:
    """What begins the rows of a turn."""

    call: str
    row: str
    end: str
    thought: str
    summary: str


SHAPES = Marks("● ", "  │ ", "  └ ", "  ┆ ", "── ")
_ASCII = Marks("* ", "  | ", "  - ", "  : ", "-- ")
_PLAIN = Marks("", "  ", "  ", "  thinking: ", "")


def marks_of(look: Look) -> Marks:
    """Return the marks that a stream can show."""
    return _PLAIN if look.plain else SHAPES if look.shapes else _ASCII


def fit_row(terminal: Terminal, head: str, text: str) -> str:
    """Return `text`, cut so that the terminal's line has room for `head` before it."""
    room = terminal.row_columns
    if len(head) + len(text) <= room // 2:  # whatever it consists of
        return text
    from odek.cli.wrap import fit  # many runs have short results

    return fit(text, room - len(head))
