"""Lines of a text as the model gets to read them: numbered, bounded, and with what is odd about them. Pure."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT_LINES = 500
MAX_LINES = 2000
LINE_LIMIT_CHARACTERS = 10_000
BOM = "\ufeff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """A part of a text."""

    lines: tuple[str, ...]
    """as "NUMBER|TEXT" """
    notes: tuple[str, ...]
    """what is to be said besides: how many lines there are, which are shown, what is odd"""


def lines_of(text: str) -> list[str]:
    """Return the lines of `text` without their ends; a lone CR or a form feed ends no line."""
    lines = text.removeprefix(BOM).split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def take_excerpt(text: str, *, offset: int, count: int, limit: int) -> Excerpt | str:
    """Return at most `count` lines of `text` from line `offset` on, in about `limit` characters, at
    least one line; or, in words, that there is no such line."""
    lines = lines_of(text)
    if not lines:
        return Excerpt(lines=(), notes=("total_lines: 0",))
    if offset > len(lines):
        return f"offset {offset} is behind the last line; total_lines is {len(lines)}"
    shown = tuple(_number_lines(lines, offset, count, limit))
    return Excerpt(lines=shown, notes=tuple(_notes(text, len(lines), offset, offset + len(shown) - 1)))


def cut_line(line: str) -> str:
    """Return `line`, or its head when it is very long."""
    omitted = len(line) - LINE_LIMIT_CHARACTERS
    return line if omitted <= 0 else f"{line[:-omitted]}[{omitted} characters left out]"


def _number_lines(lines: list[str], offset: int, count: int, limit: int) -> list[str]:
    shown: list[str] = []
    for number, line in enumerate(lines[offset - 1 : offset - 1 + count], offset):
        text = f"{number}|{cut_line(line)}"
        limit -= len(text) + 1
        if limit < 0 and shown:
            break
        shown.append(text)
    return shown


def _notes(text: str, total: int, first: int, last: int) -> list[str]:
    notes = [f"total_lines: {total}"]
    if first > 1 or last < total:
        notes.append(f"shown: {first}-{last}" + (f"; go on with offset {last + 1}" if last < total else ""))
    if text.startswith(BOM):
        notes.append("note: the file starts with a UTF-8 byte order mark")
    crlf, lf = text.count("\r\n"), text.count("\n")
    if crlf:
        notes.append("note: line ends are CRLF" if crlf == lf else f"note: {crlf} of {lf} line ends are CRLF")
    if not text.endswith("\n"):
        notes.append("note: no newline at the end of the file")
    return notes
