"""Markdown within a line: emphasis, code and links, as far as they can be told from what has arrived. Pure.

What is not closed is text, and so are markers between letters of a word: 2*3*4 and a_b_c keep theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from odek.cli.wrap import Span
from odek.patterns import pattern

HOLD = 500
"""characters that are kept back at most for a marker that may still be closed"""
_OPEN_AT_ONCE = 8
_MARKERS = frozenset("*_`~[]()!\\\n")
_TOKEN = pattern(
    r"https?://[^\s<>()\[\]`*]+"
    r"|\\[`*_~#|]"
    r"|`+|\*+|_+|~+|!?\[|\]"
)
_BEGINNING = pattern(r"(?:[!\\]|\bh(?:t(?:t(?:p(?:s?(?::/?/?)?)?)?)?)?)\Z")  # of a token
_TARGET = pattern(r"\((?:[^()\n]|\([^()\n]*\))*\)")
_OPENERS = ("*", "_", "`", "~", "[", "![")
_STYLES = {"*": ("italic",), "**": ("bold",), "***": ("bold", "italic"), "~~": ("strike",)}


class Settled(NamedTuple):
    """What is known of the beginning of a text."""

    spans: tuple[Span, ...]
    length: int
    """characters of the text that they stand for"""


def may_settle(kept: str, added: str) -> bool:
    """Return whether `added` can change that what comes before it was `kept` back."""
    return not kept.startswith(_OPENERS) or not _MARKERS.isdisjoint(added)


@dataclass(slots=True)
class _Piece:
    text: str
    start: int
    styles: tuple[str, ...] = ()
    marker: str = ""
    """of a run that opens or closes something, or of a bracket"""
    opens: bool = False
    ends: int = 0
    """the place of the piece that closes what this one opens; 0: none does"""


class _Scan:
    def __init__(self, text: str, before: str, *, is_whole: bool) -> None:
        self.text = text
        self.before = before
        self.is_whole = is_whole
        self.pieces: list[_Piece] = []
        self.open: list[int] = []
        """places of the pieces that wait to be closed"""
        self.waits = len(text)
        """from here on it depends on what is still to come"""

    def run(self) -> Settled:
        position = 0
        while (found := _TOKEN.search(self.text, position)) is not None:
            self._text(position, found.start())
            if found.end() == len(self.text) and not self.is_whole:  # it may go on
                self.waits = found.start()
                return self._settle()
            position = self._token(found[0], found.start(), found.end())
            if position < 0:
                return self._settle()
        loose = None if self.is_whole else _BEGINNING.search(self.text, position)
        self.waits = loose.start() if loose else len(self.text)
        self._text(position, self.waits)
        return self._settle()

    def _text(self, start: int, end: int) -> None:
        if end > start:
            self.pieces.append(_Piece(self.text[start:end], start))

    def _token(self, token: str, start: int, end: int) -> int:
        """Take a token and return where the next may begin; -1: it depends on what comes."""
        kind = token[0]
        if kind == "\\":
            self.pieces.append(_Piece(token[1:], start))
        elif kind == "`":
            return self._code(token, start, end)
        elif kind in "*_~":
            self._run(token, start, end)
        elif token in ("[", "!["):
            self._push(_Piece(token, start, marker="["))
        elif kind == "]":
            return self._bracket(start, end)
        else:
            self.pieces.append(_Piece(token, start))
        return end

    def _push(self, piece: _Piece) -> None:
        self.pieces.append(piece)
        self.open.append(len(self.pieces) - 1)
        if len(self.open) > _OPEN_AT_ONCE:
            self.pieces[self.open.pop(0)].marker = ""

    def _code(self, ticks: str, start: int, end: int) -> int:
        position = end
        while True:
            close = self.text.find(ticks, position)
            if close < 0:
                if not self.is_whole and len(self.text) - start <= HOLD:
                    self.waits = start
                    return -1
                self.pieces.append(_Piece(ticks, start))
                return end
            after = close + len(ticks)
            while after < len(self.text) and self.text[after] == "`":
                after += 1
            if after == len(self.text) and not self.is_whole:
                self.waits = start
                return -1
            if after - close == len(ticks):
                break
            position = after
        code = self.text[end:close]
        if len(code) > 2 and code[0] == code[-1] == " " and code.strip():
            code = code[1:-1]
        self.pieces.append(_Piece(code, start, ("cyan",)))
        return after

    def _run(self, run: str, start: int, end: int) -> None:
        left = self.text[start - 1] if start else self.before
        right = self.text[end : end + 1]
        piece = _Piece(run, start)
        style = _STYLES.get(run.replace("_", "*"))
        if style is None:
            self.pieces.append(piece)
            return
        in_word = (left.isascii() and left.isalnum(), right.isascii() and right.isalnum())
        if run[0] == "_":
            in_word = (left.isalnum(), right.isalnum())
        closes = bool(left) and not left.isspace() and not in_word[1]
        opener = self._opener(run) if closes else None
        if opener is not None:
            place = self.open[opener]
            self.pieces.append(piece)
            self.pieces[place].ends = len(self.pieces) - 1
            self.pieces[place].styles = style
            piece.marker = "close"
            del self.open[opener:]
        elif right and not right.isspace() and not in_word[0]:
            piece.marker, piece.opens = run, True
            self._push(piece)
        else:
            self.pieces.append(piece)

    def _opener(self, run: str) -> int | None:
        for place in range(len(self.open) - 1, -1, -1):
            marker = self.pieces[self.open[place]].marker
            if marker == run:
                return place
            if marker == "[":
                return None
        return None

    def _bracket(self, start: int, end: int) -> int:
        place = next((n for n in range(len(self.open) - 1, -1, -1) if self.pieces[self.open[n]].marker == "["), None)
        if place is None:
            self.pieces.append(_Piece("]", start))
            return end
        opener = self.open[place]
        target = _TARGET.match(self.text, end)
        if target is None:
            waits = self.text[end : end + 1] == "(" and not self.is_whole and "\n" not in self.text[end:]
            if waits and len(self.text) - self.pieces[opener].start <= HOLD:
                self.waits = self.pieces[opener].start
                return -1
            self.pieces[opener].marker = ""
            del self.open[place]
            self.pieces.append(_Piece("]", start))
            return end
        del self.open[place:]
        shown = self.text[self.pieces[opener].start + len(self.pieces[opener].text) : start]
        address = target[0][1:-1]
        self.pieces[opener].styles = ("underline",)
        same = address.strip() == shown.strip()
        self.pieces.append(_Piece("" if same or not address else f" ({address})", start, marker="close"))
        self.pieces[opener].ends = len(self.pieces) - 1
        return target.end()

    def _settle(self) -> Settled:
        """Return the spans up to the first piece that may still be closed."""
        limit = self.waits
        if not self.is_whole:
            waiting = [self.pieces[place].start for place in self.open]
            if len(self.text) > 2 * HOLD:
                waiting = [start for start in waiting if start >= len(self.text) - HOLD]
            limit = min([limit, *waiting])
        spans: list[Span] = []
        styles: list[tuple[str, ...]] = []
        ends: list[int] = []
        for place, piece in enumerate(self.pieces):
            if piece.start >= limit:
                break
            if ends and place == ends[-1]:
                ends.pop()
                styles.pop()
                if piece.text.startswith(" ("):
                    spans.append((piece.text, ("dim",)))
            elif piece.ends:
                ends.append(piece.ends)
                styles.append(piece.styles)
            elif piece.text:
                inherited = tuple(style for outer in styles for style in outer)
                spans.append((piece.text, (*inherited, *piece.styles)))
        return Settled(tuple(spans), limit)


def settle(text: str, *, before: str = "", is_whole: bool) -> Settled:
    """Return the spans of `text` that nothing can change any more; `is_whole`: nothing follows.

    `before` is the character in front of it. No more than about 2 * HOLD characters are left over.
    """
    return _Scan(text, before, is_whole=is_whole).run()
