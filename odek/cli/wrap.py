"""How wide text is on a terminal, and where its lines break. Pure.

A character takes no column (a combining mark, a joiner), one, or two (East Asian wide ones, emoji). Where terminals
differ, as in emoji that are joined, the greater width counts: a line may end early and is never too long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from odek.patterns import pattern

Span = tuple[str, tuple[str, ...]]
"""a piece of text and its styles"""

_BLANKS = pattern(r"[ \t]+|[^ \t]+")
_WIDE_PRESENTATION = "\ufe0f"
_JOINER = "\u200d"
_CONTEXT = 20  # characters before a place that decide whether a line may break there


def width_of(text: str) -> int:
    """Return how many columns `text`, one line without control characters, takes."""
    if text.isascii():
        return len(text)
    wide = text.count(_WIDE_PRESENTATION)  # what it follows is drawn as an emoji
    return sum(map(_character_width, text)) + wide


def fit(text: str, columns: int) -> str:
    """Return `text`, or its head with a mark where it is wider than `columns`."""
    if width_of(text) <= columns:
        return text
    room, kept = columns - 1, ""
    for unit in _units(text):
        room -= width_of(unit)
        if room < 0:
            break
        kept += unit
    return kept + "…" if columns > 0 else ""


def wrap_rows(text: str, columns: int) -> list[str]:
    """Return a line of text as rows that are not wider than `columns`, the others below the first word of the first."""
    if width_of(text) <= columns:
        return [text]
    out: list[str] = []
    indent = " " * (len(text) - len(text.lstrip(" ")))
    wrapper = Wrapper(lambda part, *_: part, lambda: columns, out.append)
    wrapper.begin(indent, indent)
    wrapper.feed(((text[len(indent) :], ()),))
    wrapper.end()
    return "".join(out).removesuffix("\n").split("\n")


@lru_cache(maxsize=4096)
def _character_width(character: str) -> int:
    if character.isascii():
        return 1
    import unicodedata  # few answers have more than ASCII

    if unicodedata.category(character) in ("Mn", "Me", "Cf") or 0x1160 <= ord(character) <= 0x11FF:
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _units(text: str) -> Iterator[str]:
    """Yield the parts of `text` that cannot be broken: a character with the marks that follow it."""
    if text.isascii():
        yield from text
        return
    unit = ""
    for character in text:
        if unit and (_character_width(character) == 0 or unit[-1] == _JOINER):
            unit += character
            continue
        if unit:
            yield unit
        unit = character
    if unit:
        yield unit


def _breakable(word: str) -> Iterator[str]:
    """Yield the parts of a word between which a line may break: wide scripts are written without blanks."""
    if word.isascii():
        yield word
        return
    import unicodedata

    part, was_wide = "", False
    for unit in _units(word):
        is_wide = unicodedata.east_asian_width(unit[0]) in "WF"
        closes = unicodedata.category(unit[0]) in ("Pe", "Pf", "Po")
        opens = bool(part) and unicodedata.category(part[-1]) in ("Ps", "Pi")
        if part and (is_wide or was_wide) and not closes and not opens:
            yield part
            part = ""
        part += unit
        was_wide = is_wide
    if part:
        yield part


class Wrapper:
    """Breaks one line after the other between words, while their text still arrives."""

    def __init__(self, style: Callable[..., str], columns: Callable[[], int], write: Callable[[str], None]) -> None:
        """`columns` is asked at the beginning of each row; `write` gets what is to be shown, styled by `style`."""
        self._style = style
        self._ask = columns
        self._write = write
        self._columns = 0
        self._column = 0
        self._indent = 0
        """the column at which the words of this row begin"""
        self._hang: tuple[str, int] = ("", 0)
        self._blank = ""
        self._tail = ""
        """the end of the word so far, of which it depends where it may break"""
        self._word: list[Span] = []
        self._word_width = 0

    def begin(self, first: str = "", hang: str = "", *, dim: bool = False) -> None:
        """Begin a line whose first row is headed by `first` and whose others are by `hang`."""
        self._columns = max(self._ask(), 1)
        self._tail = ""
        self._hang = self._head(hang, dim=dim)
        head, self._column = self._head(first, dim=dim)
        self._indent = self._column
        self._write(head)

    def feed(self, spans: Iterable[Span]) -> None:
        """Take more of the line; whole words are shown."""
        for text, styles in spans:
            for found in _BLANKS.finditer(text):
                piece = found[0]
                if piece[0] in " \t":
                    self._place()
                    self._tail = ""
                    self._blank += piece.replace("\t", "    ")
                    continue
                for may_break, part in self._parts(piece):
                    if may_break:
                        self._place()
                    self._add(part, styles)

    def end(self) -> None:
        """Show the rest of the line, and end it."""
        self._place()
        self._blank = ""
        self._write("\n")

    def _parts(self, piece: str) -> Iterator[tuple[bool, str]]:
        """Yield the parts of a piece of a word, and whether the line may break before each."""
        tail = self._tail
        self._tail = (tail + piece)[-_CONTEXT:]
        if tail.isascii() and piece.isascii():
            yield False, piece
            return
        start = -len(tail)
        for part in _breakable(tail + piece):
            end = start + len(part)
            if end > 0:
                yield start >= 0 and bool(start or tail), piece[max(start, 0) : end]
            start = end

    def _head(self, text: str, *, dim: bool) -> tuple[str, int]:
        """Return what heads a row with its width; without its blanks where these would take half of the row."""
        if width_of(text) > self._columns // 2:
            text = text.replace("  ", "")
        if width_of(text) >= self._columns:
            text = ""
        return (self._style(text, "dim") if dim else text), width_of(text)

    def _add(self, text: str, styles: tuple[str, ...]) -> None:
        self._word.append((text, styles))
        self._word_width += width_of(text)
        if self._word_width > self._columns - self._hang[1]:  # it fits on no row
            if self._column > self._indent:
                self._break()
            self._split()

    def _place(self) -> None:
        """Show the word that has ended, on this row or on the next."""
        if not self._word:
            return
        if self._column > self._indent and self._column + len(self._blank) + self._word_width > self._columns:
            self._break()
        elif self._column + len(self._blank) + self._word_width <= self._columns:
            self._write(self._blank)
            self._column += len(self._blank)
        if self._column + self._word_width > self._columns:
            self._split()
        self._show(self._word)
        self._column += self._word_width
        self._blank, self._word, self._word_width = "", [], 0

    def _break(self) -> None:
        self._columns = max(self._ask(), 1)
        head, self._column = self._hang
        self._indent = self._column
        self._blank = ""
        self._write("\n" + head)

    def _split(self) -> None:
        """Show the word that is wider than a row, as far as rows are full; keep the rest of it."""
        row: list[Span] = []
        room = self._columns - self._column - len(self._blank)
        if room <= 0:
            self._blank = ""
            room = self._columns - self._column
        self._write(self._blank)
        self._column += len(self._blank)
        self._blank = ""
        for text, styles in self._word:
            kept = ""
            for unit in _units(text):
                size = width_of(unit)
                if size > room and (row or kept or self._column > self._hang[1]):
                    self._show([*row, (kept, styles)])
                    row, kept = [], ""
                    self._break()
                    room = self._columns - self._column
                kept += unit
                room -= size
            row.append((kept, styles))
        self._word = row
        self._word_width = sum(width_of(text) for text, _ in row)

    def _show(self, spans: Iterable[Span]) -> None:
        for text, styles in spans:
            self._write(self._style(text, *styles))
