"""Foreign text laid out for a person who must decide on it (R-64, B32, B34).

Beyond `text.visible`, which makes every character seen: what is neither ASCII nor a letter, a digit or a
mark on a letter of its script is escaped, letters that are written from right to left are put between
marks that keep their neighbours in order, runs of blanks that push something off the screen are counted instead
of printed, and long text is broken here, not by the terminal, so that no part of it can pose as a line of
the prompt.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from odek.patterns import pattern
from odek.text import escaped, visible

WIDTH = 66
"""of foreign text on a row, for 80 columns: what no terminal shows is laid out so"""
_BESIDE = 14  # what stands beside it at most: the deepest indent, a label and a mark
_LEAST_COLUMNS, _MOST_COLUMNS = 40, 200
BLANK_RUN = 25  # a Python body indented six deep still shows as it is
# tab and the space separators of Unicode, and the empty Braille cell, which is blank but not a space
_BLANKS = pattern(rf"([ \t\xa0\u1680\u2000-\u200a\u202f\u205f\u3000\u2800]{{{BLANK_RUN},}})")
_PLAIN = pattern(r"[A-Za-z0-9_.,:;/@=+%~${}()\[\]-]+")
# The letters in these marks are strong ones from left to right. So a terminal that reorders text (UAX #9) does it
# between them alone, and takes no row for one that runs from the right, since a mark comes before any such letter.
_RTL_BEGIN, _RTL_END = "[rtl]", "[/rtl]"
_RTL_LENGTH = 16  # characters between two marks: no row has to be broken there
_ATOM = pattern(r"\[rtl\][^\[\]]{1,16}\[/rtl\]|.", re.DOTALL)
_LONGEST_ATOM = _RTL_LENGTH + len(_RTL_BEGIN + _RTL_END)
_MOST_MARKS = 2  # on one letter, of those that belong to no script; of its own script a letter may have more
_MOST_OWN_MARKS = 4
_FIRST, _NEXT, _REMARK = "  | ", "  + ", "  * "
_LABEL = 8  # columns of a label with its colon
_layout_width: ContextVar[int] = ContextVar("layout_width", default=WIDTH)


@contextmanager
def laid_out_for(columns: int) -> Iterator[None]:
    """Lay text out in the block for a terminal of so many columns: a row that it would wrap could pose as another."""
    before = _layout_width.set(min(max(columns, _LEAST_COLUMNS), _MOST_COLUMNS) - _BESIDE)
    try:
        yield
    finally:
        _layout_width.reset(before)


def layout_width() -> int:
    """Return how many columns of a row foreign text may have."""
    return _layout_width.get()


def readable(text: str) -> str:
    """Return `text` on one line, long blank runs as "[4000 spaces]", and other characters as described above."""
    pieces = _BLANKS.split(text)  # every second piece is a run
    return "".join(_counted(piece) if index % 2 else _plain(piece) for index, piece in enumerate(pieces))


def _plain(text: str) -> str:
    """Return `text` with everything escaped that a person might overlook or misread."""
    if text.isascii():
        return visible(text)
    shown: list[str] = []
    run: list[str] = []
    base = ""
    marks = 0
    for character in text:
        category = unicodedata.category(character)
        marks = marks + 1 if category.startswith("M") else 0
        base = base if marks else character
        if not _is_kept(character, category, base, marks):
            seen = visible(character)
            part, from_right = escaped(character) if seen == character else seen, False
        else:
            part, from_right = character, unicodedata.bidirectional(base) in ("R", "AL")
        if from_right:
            run.append(part)
        else:
            shown += [*_isolated(run), part]
            run = []
    return "".join([*shown, *_isolated(run)])


def _is_kept(character: str, category: str, base: str, marks: int) -> bool:
    if visible(character) != character:
        return False
    if character.isascii():
        return True
    if category in ("Mn", "Mc"):
        if not base.isalpha():
            return False
        own = _script(character) == _script(base)
        return marks <= _MOST_OWN_MARKS if own else marks <= _MOST_MARKS and _script(character) == "COMBINING"
    # among the modifier letters up to U+02FF are look-alikes of quotes and colons
    return category in ("Lu", "Ll", "Lt", "Lo", "Nd") or (category == "Lm" and character > "\u02ff")


def _script(character: str) -> str:
    return unicodedata.name(character, "").partition(" ")[0]


def _isolated(run: list[str]) -> Iterator[str]:
    room = (layout_width() - len(_RTL_BEGIN + _RTL_END)) // 2
    size = min(_RTL_LENGTH, room)
    for start in range(0, len(run), size):
        yield f"{_RTL_BEGIN}{''.join(run[start : start + size])}{_RTL_END}"


def value(text: str) -> str:
    """Return `text` as `readable` does, in quotes unless it is made of everyday characters only."""
    if _PLAIN.fullmatch(text):
        return text
    return '"' + readable(text).replace('"', '\\"') + '"'


def fold(text: str, width: int = 0) -> tuple[str, ...]:
    """Return `text` in pieces of at most `width` columns, 0: as laid out; always at least one piece."""
    width = width or layout_width()
    pieces: list[str] = []
    piece = ""
    columns = 0
    for atom in _ATOM.findall(text):
        # beyond ASCII two columns are the most a character takes: better a short line than a wrapped one
        size = sum(1 if character < "\x7f" else 2 for character in atom)
        if columns + size > width:
            pieces.append(piece)
            piece, columns = "", 0
        piece += atom
        columns += size
    return (*pieces, piece)


def _fold_words(text: str, width: int) -> tuple[str, ...]:
    """Return what `fold` does, broken behind a blank where that leaves a row half full."""
    rows: list[str] = []
    while len(folded := fold(text[: 2 * width + _LONGEST_ATOM], width)) > 1:
        row = folded[0]
        end = row.rfind(" ") + 1
        if end > width // 2 and _RTL_BEGIN not in row:
            row = row[:end]
        rows.append(row)
        text = text[len(row) :]
    return (*rows, text)


def field(label: str, text: str, *, indent: int = 2, width: int = 0, words: bool = False) -> tuple[str, ...]:
    """Return the lines "  label:   text", what does not fit into `width` on lines that are marked as continued.

    `words`: they are broken between words, for a sentence of ours; a value is shown as it is.
    """
    over = max(len(label) + 1 - _LABEL, 0)
    room = max((width or layout_width()) - over, _RTL_LENGTH)
    first, *rest = _fold_words(text, room) if words else fold(text, room)
    return (f"{' ' * indent}{label + ':':<{_LABEL}} {first}".rstrip(), *(f"         + {piece}" for piece in rest))


def command_rows(command: str) -> tuple[str, ...]:
    """Return `command` as rows of the screen: "|" starts a line of it, "+" continues one, "*" is a remark."""
    rows: list[str] = []
    blank_lines = 0
    for line in (*command.split("\n"), None):
        if line is not None and not line.strip(" \t"):
            blank_lines += 1
            continue
        rows += _blank_rows(blank_lines)
        blank_lines = 0
        if line is not None:
            first, *rest = fold(readable(line))
            rows += [_FIRST + first, *(_NEXT + piece for piece in rest)]
    return tuple(rows)


def _blank_rows(count: int) -> list[str]:
    return [_FIRST.rstrip()] * count if count < 3 else [f"{_REMARK}[{count} blank lines]"]


def _counted(blanks: str) -> str:
    kinds = {" ": "spaces", "\t": "tabs"}
    return f"[{len(blanks)} {kinds.get(blanks[0], 'blanks') if len(set(blanks)) == 1 else 'blanks'}]"
