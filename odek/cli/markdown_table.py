"""Tables of Markdown: columns that line up where they fit, otherwise a row after the other, cell by cell. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from odek.cli.wrap import Span, width_of
from odek.patterns import pattern

_DELIMITER_ROW = pattern(r" *\|?(?: *:?-+:? *\|)+(?: *:?-+:? *)?|(?: *:?-+:? *\|)+ *:?-+:? *")
_CELL = pattern(r"(?:\\.|`[^`]*`|[^|\\`]|[\\`])*")

Cell = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class TableLine:
    """A line of a rendered table."""

    spans: tuple[Span, ...]
    wraps: bool = False
    """whether it may be wider than the terminal"""


def is_delimiter_row(row: str) -> bool:
    """Return whether `row` is the line between the head of a table and its body."""
    return _DELIMITER_ROW.fullmatch(row.strip()) is not None


def render_table(
    rows: Sequence[str], spans_of: Callable[[str], Cell], *, columns: int, shapes: bool
) -> Iterator[TableLine]:
    """Yield the lines of the table whose second row is its delimiter row."""
    head, body = _cells(rows[0], spans_of), [_cells(row, spans_of) for row in rows[2:]]
    sides = [_side(cell) for cell in split_row(rows[1])]
    count = max(map(len, (head, *body)), default=0)
    lines = [(*cells, *(((),) * (count - len(cells)))) for cells in (head, *body)]
    widths = [max(_width(line[place]) for line in lines) for place in range(count)]
    bar = "│" if shapes else "|"
    if sum(widths) + 3 * (count - 1) > columns:
        yield from _one_by_one(lines[0], lines[1:])
        return
    sides += ["left"] * (count - len(sides))
    for number, line in enumerate(lines):
        yield TableLine(_aligned(line, widths, sides, bar, ("bold",) if not number else ()))
        if not number:
            cross, dash = ("─┼─", "─") if shapes else ("-|-", "-")
            yield TableLine(((cross.join(dash * max(width, 1) for width in widths), ("dim",)),))


def split_row(row: str) -> list[str]:
    """Return the cells of a row; a bar in code, or behind a backslash, is a part of one."""
    text = row.strip()
    cells, position = [], 1 if text.startswith("|") else 0
    while position <= len(text):
        found = _CELL.match(text, position)
        end = found.end() if found else position
        cells.append(text[position:end].strip())
        position = end + 1
    return cells[:-1] if text.endswith("|") and len(cells) > 1 and not cells[-1] else cells


def _cells(row: str, spans_of: Callable[[str], Cell]) -> tuple[Cell, ...]:
    return tuple(spans_of(cell) for cell in split_row(row))


def _side(cell: str) -> str:
    if cell.endswith(":"):
        return "center" if cell.startswith(":") else "right"
    return "left"


def _width(cell: Cell) -> int:
    return sum(width_of(text) for text, _ in cell)


def _aligned(
    line: Sequence[Cell], widths: Sequence[int], sides: Sequence[str], bar: str, styles: tuple[str, ...]
) -> tuple[Span, ...]:
    spans: list[Span] = []
    for place, (cell, width, side) in enumerate(zip(line, widths, sides, strict=True)):
        room = width - _width(cell)
        before = {"left": 0, "right": room}.get(side, room // 2)
        if place:
            spans.append((f" {bar} ", ("dim",)))
        spans.append((" " * before, ()))
        spans += [(text, (*styles, *own)) for text, own in cell]
        if place < len(widths) - 1:
            spans.append((" " * (room - before), ()))
    return tuple(spans)


def _one_by_one(head: Sequence[Cell], body: Sequence[Sequence[Cell]]) -> Iterator[TableLine]:
    """Yield a line for each cell, headed by the name of its column."""
    if not body:
        yield TableLine(tuple(span for cell in head for span in (*cell, (" ", ()))), wraps=True)
    for number, line in enumerate(body):
        if number:
            yield TableLine(())
        for name, cell in zip(head, line, strict=True):
            if name or cell:
                title = tuple((text, (*own, "bold")) for text, own in name)
                yield TableLine((*title, (": ", ()), *cell), wraps=True)
