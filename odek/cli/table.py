"""Tables that fit a terminal: before a row would wrap, columns are shortened or left out. Pure.

A pipe gets the whole table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odek.cli.wrap import fit, width_of

_GAP = 2


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table."""

    heading: str
    least: int = 0
    """how narrow it may become; 0: it is never shortened"""
    rank: int = 0
    """columns of a higher rank are left out first; 0: never"""


def render_table(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Return the heading, unless all headings are "", and the rows, each at most `width` columns; 0: of any width."""
    table = [tuple(column.heading for column in columns)] if any(column.heading for column in columns) else []
    table += [tuple(row) for row in rows]
    kept = list(range(len(columns)))
    while True:
        natural = [max((width_of(row[place]) for row in table), default=0) for place in kept]
        widths = _shrink(natural, [columns[place].least for place in kept], width)
        if not width or _total(widths) <= width:
            break
        last = max(kept, key=lambda place: (columns[place].rank, place))
        if not columns[last].rank:
            break
        kept.remove(last)
    lines = [
        (" " * _GAP).join(_filled(shorten(row[place], size), size) for place, size in zip(kept, widths, strict=True))
        for row in table
    ]
    return [fit(line.rstrip(), width) if width else line.rstrip() for line in lines]


def shorten(text: str, width: int) -> str:
    """Return `text`, or as many of its words as fit into `width` with a mark; of a long word its beginning."""
    if width_of(text) <= width:
        return text
    head = fit(text, max(width, 1)).removesuffix("…")
    whole = head if text[len(head) : len(head) + 1] == " " else head.rpartition(" ")[0]
    return (whole if width_of(whole) * 2 >= width else head).rstrip() + "…"


def _filled(text: str, width: int) -> str:
    return text + " " * (width - width_of(text))


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _GAP * (len(widths) - 1)


def _shrink(natural: Sequence[int], least: Sequence[int], width: int) -> list[int]:
    """Return widths that fit, the widest column shortened first, or all at their least where none do."""
    widths = list(natural)
    while width and _total(widths) > width:
        able = [place for place, size in enumerate(widths) if least[place] and size > least[place]]
        if not able:
            break
        widths[max(able, key=lambda place: widths[place])] -= 1
    return widths
