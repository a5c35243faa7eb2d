"""Markdown for a terminal: pieces of an answer in, rows to print out; what was printed is not touched again. Pure.

Line ends of the text are kept; rows that are too long break between words, below the place where their words begin.
Code is printed as it is: the terminal breaks its long lines, so that a copied one is whole. Where there are no colours
Markdown is its own notation for people: all markers stay, and only wrapping and tables are done.

Foreign text is made safe here, before anything is styled. Nothing but blanks at the ends of lines, empty lines at the
end of it all, and markers that are shown as a style is ever left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from odek.cli.look import Look
from odek.cli.markdown_inline import HOLD, may_settle, settle
from odek.cli.markdown_table import is_delimiter_row, render_table
from odek.cli.wrap import Span, Wrapper, width_of
from odek.patterns import pattern
from odek.text import visible_prose

# characters that are waited for to see what a line is: by its beginning, and as a row of a table
_BEGINNING_LIMIT = 300
_WHOLE_LINE_LIMIT = 4000
_NESTING_LIMIT = 20
_TABLE_LIMIT = 60_000
_UNDECIDED = pattern(r" *(?:#{1,6} *|`{1,2}|~{1,2}|([-*_])(?: *\1)* *|\+|\d{1,9}[.)]?|>)?")
_RULE = pattern(r" *([-*_])(?: *\1){2,} *")
_HEADING = pattern(r" *(#{1,6})(?: +|$)")
_FENCE = pattern(r" *(`{3,}(?=[^`]*$)|~{3,})(.*)", re.DOTALL)
_ITEM = pattern(r"( *)([-+*]|\d{1,9}[.)])( +(?=\S)| *$)")
_QUOTE = pattern(r" *> ?")
_HEADINGS = {1: ("bold", "underline"), 2: ("bold",)}
_LOWER_HEADING = ("bold", "italic")
_DIFFS = ("diff", "patch", "udiff")
_DIFF_STYLES = {"+": ("green",), "-": ("red",), "@": ("cyan",)}


@dataclass(frozen=True, slots=True)
class _Container:
    """A block quote, or an item of a list, with `offset` columns before its text."""

    offset: int = 0
    """0: a quote"""


@dataclass(frozen=True, slots=True)
class _Fence:
    marker: str
    indent: int
    language: str


class Markdown:
    """Renders one answer. See the module."""

    def __init__(self, look: Look, columns: Callable[[], int]) -> None:
        """`columns` is the width of the terminal now; it is asked whenever a row begins."""
        self._look = look
        self._columns = columns
        self._out: list[str] = []
        self._wrapper = Wrapper(look.style, columns, self._out.append)
        self._half_end = ""
        """a carriage return whose line feed may still come"""
        self._line = ""
        """the beginning of a line of which it is not known yet what it is"""
        self._waits_for_end = False
        """whether that is known at its end only"""
        self._mode = self._begin
        self._text = ""
        """what a marker keeps back"""
        self._before = ""
        """the character before that"""
        self._styles: tuple[str, ...] = ()
        self._containers: list[_Container] = []
        self._heads = ("", "")
        """what is before the first row of this line, and before the others"""
        self._fence: _Fence | None = None
        self._table: list[str] = []
        self._table_size = 0
        self._empty = 0
        """empty lines that are printed when something follows"""
        self._has_begun = False

    def feed(self, text: str) -> str:
        """Take more of the answer; return what can be printed now. The last line may stay open."""
        text = self._half_end + text
        self._half_end = "\r" if text.endswith("\r") else ""
        text = text.removesuffix("\r")
        if not (text.isascii() and text.replace("\n", "").isprintable()):
            text = visible_prose(text)
        *lines, last = text.split("\n")
        for line in lines:
            self._mode(line, True)
            self._mode = self._begin
        if last:
            self._mode(last, False)
        return self._take()

    def end(self) -> str:
        """Return the rest, and the end of an open line."""
        if self._half_end:
            self._half_end = ""
            self._mode("\\r", False)
        if self._line or self._mode != self._begin:
            self._mode("", True)
            self._mode = self._begin
        self._end_table()
        return self._take()

    def _take(self) -> str:
        taken = "".join(self._out)
        self._out.clear()
        return taken

    # the beginning of a line, until it is known what it is

    def _begin(self, piece: str, ends: bool) -> None:
        self._line += piece
        if self._waits_for_end and not ends and len(self._line) < _WHOLE_LINE_LIMIT:
            return
        line = self._line
        if self._fence is not None:
            is_known = self._take_code(self._fence, line, ends)
        else:
            limit = _WHOLE_LINE_LIMIT if self._waits_for_end else _BEGINNING_LIMIT
            is_known = self._take_line(line, ends or len(line) >= limit, ends)
        if is_known:
            self._line, self._waits_for_end = "", False

    def _take_code(self, fence: _Fence, line: str, ends: bool) -> bool:
        """Print a line between fences, or its beginning; False: it may still be the end of the code."""
        for container in self._containers:
            if container.offset:
                line = line[min(container.offset, len(line) - len(line.lstrip(" "))) :]
                continue
            found = _QUOTE.match(line)
            if found is None:
                if not ends and not line.strip():
                    return False
                self._fence = None  # the quote ends, and the code with it
                return self._take_line(self._line, ends, ends)
            line = line[found.end() :]
        bare = line.strip(" ")
        if set(bare) <= {fence.marker[0]} and (not ends or len(bare) >= len(fence.marker)):
            if not ends:
                return False
            self._fence = None
            self._print(self._heads[1], bare, ("dim",))
            return True
        indent = min(fence.indent, len(line) - len(line.lstrip(" ")))
        styles = _DIFF_STYLES.get(line[indent : indent + 1], ()) if fence.language in _DIFFS else ()
        self._styles = styles
        self._out.append(self._look.style(self._heads[1], "dim") if self._heads[1].strip() else self._heads[1])
        self._has_begun = True
        self._mode = self._code
        self._code(line[indent:], ends)
        return True

    def _code(self, piece: str, ends: bool) -> None:
        self._out.append(self._look.style(piece, *self._styles))
        if ends:
            self._out.append("\n")

    def _take_line(self, line: str, decide: bool, ends: bool) -> bool:
        """Print a line or its beginning; False: what it is cannot be told yet, which `decide` forbids."""
        rest, kept, first, hang = self._enter(line.replace("\t", "    "))
        if not decide and _UNDECIDED.fullmatch(rest):
            return False
        if not rest.strip():
            self._end_table()
            return self._empty_line(first, kept)
        while len(kept) < _NESTING_LIMIT and (opened := self._open(rest)) is not None:
            container, head, rest = opened
            kept = (*kept, container)
            first += head
            hang += self._gutter if not container.offset else " " * width_of(head)
            if not decide and _UNDECIDED.fullmatch(rest):
                return False
        bare = rest.lstrip(" ")
        if bare.startswith(("|", "```", "~~~")) and not decide:
            self._waits_for_end = True
            return False
        if bare.startswith("|") and ends and len(line) < _WHOLE_LINE_LIMIT:
            self._containers = list(kept)
            self._take_row(bare, first, hang)
            return True
        self._end_table()
        self._containers, self._heads = list(kept), (first, hang)
        self._leaf(rest, ends)
        return True

    @property
    def _gutter(self) -> str:
        return "│ " if self._look.shapes and self._look.colors else "> "

    def _enter(self, line: str) -> tuple[str, tuple[_Container, ...], str, str]:
        """Return what is left of a line in the containers that go on, these, and what heads its rows."""
        kept: list[_Container] = []
        first = hang = ""
        for container in self._containers:
            if not container.offset:
                found = _QUOTE.match(line)
                if found is None:
                    break
                line = line[found.end() :]
                first, hang = first + self._gutter, hang + self._gutter
            else:
                blanks = len(line) - len(line.lstrip(" "))
                nested = 2 <= blanks < container.offset and _ITEM.match(line) is not None
                if line.strip() and blanks < container.offset and not nested:
                    break
                line = line[min(container.offset, blanks) :]
                first, hang = first + " " * container.offset, hang + " " * container.offset
            kept.append(container)
        return line, tuple(kept), first, hang

    def _open(self, rest: str) -> tuple[_Container, str, str] | None:
        """Return the quote or the item that begins here, what heads its row, and the rest of the line."""
        found = _QUOTE.match(rest)
        if found is not None:
            return _Container(), self._gutter, rest[found.end() :]
        if _RULE.fullmatch(rest):
            return None
        item = _ITEM.match(rest)
        if item is None:
            return None
        before, marker, blanks = item.groups()
        if len(blanks) > 4:
            blanks = " "
        head = f"{before}{marker}{blanks or ' '}"
        return _Container(len(head)), head, rest[len(before) + len(marker) + len(blanks) :]

    def _empty_line(self, first: str, kept: tuple[_Container, ...]) -> bool:
        if any(not container.offset for container in kept):
            self._containers = list(kept)
            self._print("", first.rstrip(), ("dim",))
        else:
            self._empty += 1
        return True

    # what stands in a line

    def _leaf(self, rest: str, ends: bool) -> None:
        fence = _FENCE.fullmatch(rest) if ends else None
        if fence is not None:
            self._fence = _Fence(fence[1], len(rest) - len(rest.lstrip(" ")), fence[2].strip().lower())
            self._print(self._heads[0], rest.strip(" "), ("dim",))
            self._heads = (self._heads[1], self._heads[1])
            return
        if ends and _RULE.fullmatch(rest):
            self._print(self._heads[0], self._rule(rest), ("dim",))
            return
        self._styles = ()
        heading = _HEADING.match(rest)
        if heading is not None:
            self._styles = _HEADINGS.get(len(heading[1]), _LOWER_HEADING)
            if self._look.colors:
                rest = rest[heading.end() :]
        blanks = " " * (len(rest) - len(rest.lstrip(" ")))
        first, hang = self._heads
        self._begin_row(first + blanks, hang + blanks)
        self._mode = self._prose
        self._prose(rest[len(blanks) :], ends)

    def _rule(self, rest: str) -> str:
        if not (self._look.shapes and self._look.colors):
            return rest.strip(" ")
        return "─" * min(max(self._columns() - width_of(self._heads[0]), 3), 60)

    def _prose(self, piece: str, ends: bool) -> None:
        if not self._look.colors:  # the markers are shown as they are
            self._wrapper.feed(((piece, ()),))
        else:
            settles = ends or may_settle(self._text, piece)
            self._text += piece
            if settles or len(self._text) > 2 * HOLD:
                self._settle(is_whole=ends)
        if ends:
            self._wrapper.end()
            self._before = ""

    def _settle(self, *, is_whole: bool) -> None:
        found = settle(self._text, before=self._before, is_whole=is_whole)
        if not found.length and len(self._text) > 4 * HOLD:
            found = settle(self._text, before=self._before, is_whole=True)
        if found.length:
            self._before = self._text[found.length - 1]
            self._text = self._text[found.length :]
        self._wrapper.feed((text, (*self._styles, *styles)) for text, styles in found.spans)

    def _print(self, head: str, text: str, styles: tuple[str, ...]) -> None:
        """Print a line in one piece."""
        self._begin_row(head, "")
        self._wrapper.feed(((text, styles),))
        self._wrapper.end()

    def _begin_row(self, first: str, hang: str) -> None:
        if self._has_begun:
            self._out.append("\n" * self._empty)
        self._empty, self._has_begun = 0, True
        self._wrapper.begin(first, hang, dim=self._gutter in first)

    # tables, which are printed when their last row is known

    def _take_row(self, row: str, first: str, hang: str) -> None:
        if not self._table:
            self._heads = (first, hang)
        self._table.append(row)
        self._table_size += len(row)
        is_table = len(self._table) != 2 or is_delimiter_row(row)
        if not is_table or self._table_size > _TABLE_LIMIT:
            self._end_table()

    def _end_table(self) -> None:
        rows, self._table, self._table_size = self._table, [], 0
        first, hang = self._heads
        if len(rows) < 2 or not is_delimiter_row(rows[1]):
            for row in rows:
                self._begin_row(first, hang)
                self._wrapper.feed(self._spans(row))
                self._wrapper.end()
                first = hang
            return
        room = self._columns() - width_of(hang)
        shapes = self._look.shapes and bool(self._look.colors)
        for line in render_table(rows, self._spans, columns=room, shapes=shapes):
            self._begin_row(first, hang + ("  " if line.wraps else ""))
            self._wrapper.feed(line.spans)
            self._wrapper.end()
            first = hang

    def _spans(self, text: str) -> tuple[Span, ...]:
        return settle(text, is_whole=True).spans if self._look.colors else ((text, ()),)
