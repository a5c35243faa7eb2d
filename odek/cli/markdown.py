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
_UNDECIDED = pattern(r" *(?:#{1,6} *|=+ *|`{1,2}|~{1,2}|([-*_])(?: *\1)* *|\+|\d{1,9}[.)]?|>)?")
_UNDERLINE = pattern(r" *(?:=+|-{2,}) *")
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
        self._joints: list[tuple[str, str]] = []
        """what heads the rows after the line ends that `_text` holds"""
        self._is_open = False
        """whether a line of a paragraph has ended, and a marker in it may be closed by the next"""
        self._title_columns = 0
        """of the line of a paragraph that has just ended, which may be underlined as a heading; 0: there is none"""
        self._row_columns = 0
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
        self._close()
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
        goes_on = kept == tuple(self._containers)
        if not rest.strip():
            self._close()
            self._title_columns = 0
            self._end_table()
            return self._empty_line(first, kept)
        while len(kept) < _NESTING_LIMIT and (opened := self._open(rest)) is not None:
            container, head, rest = opened
            kept = (*kept, container)
            first += head
            hang += self._gutter if not container.offset else " " * width_of(head)
            if not decide and _UNDECIDED.fullmatch(rest):
                return False
            goes_on = False
        bare = rest.lstrip(" ")
        if bare.startswith(("|", "```", "~~~")) and not decide:
            self._waits_for_end = True
            return False
        if bare.startswith("|") and ends and len(line) < _WHOLE_LINE_LIMIT:
            self._close()
            self._title_columns = 0
            self._containers = list(kept)
            self._take_row(bare, first, hang)
            return True
        self._end_table()
        self._containers, self._heads = list(kept), (first, hang)
        if not goes_on:
            self._close()
            self._title_columns = 0
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
        heading = _HEADING.match(rest)
        if (self._title_columns or self._is_open) and self._look.colors and ends and _UNDERLINE.fullmatch(rest):
            self._close()
            self._underline(rest)
            return
        if fence is not None or heading is not None or (ends and _RULE.fullmatch(rest)):
            self._close()
        if fence is not None:
            self._title_columns = 0
            self._fence = _Fence(fence[1], len(rest) - len(rest.lstrip(" ")), fence[2].strip().lower())
            self._print(self._heads[0], rest.strip(" "), ("dim",))
            self._heads = (self._heads[1], self._heads[1])
            return
        if ends and _RULE.fullmatch(rest):
            self._title_columns = 0
            self._print(self._heads[0], self._rule(rest), ("dim",))
            return
        self._styles = ()
        if heading is not None:
            self._styles = _HEADINGS.get(len(heading[1]), _LOWER_HEADING)
            if self._look.colors:
                rest = rest[heading.end() :]
        blanks = " " * (len(rest) - len(rest.lstrip(" ")))
        first, hang = self._heads
        if self._is_open:
            self._joints.append((first + blanks, hang + blanks))
            self._is_open = False
        else:
            self._begin_row(first + blanks, hang + blanks)
        self._mode = self._prose if heading is None else self._heading
        self._mode(rest[len(blanks) :], ends)

    def _underline(self, rest: str) -> None:
        """Print the line below a heading that is marked so: the heading itself is on the terminal already."""
        mark = "═" if "=" in rest else "─"
        room = max(self._columns() - width_of(self._heads[0]), 1)
        text = mark * min(self._title_columns, room) if self._look.shapes else rest.strip(" ")
        self._title_columns = 0
        self._print(self._heads[0], text, ("dim",))

    def _rule(self, rest: str) -> str:
        if not (self._look.shapes and self._look.colors):
            return rest.strip(" ")
        return "─" * min(max(self._columns() - width_of(self._heads[0]), 3), 60)

    def _prose(self, piece: str, ends: bool) -> None:
        if not self._look.colors:  # the markers are shown as they are
            self._wrapper.feed(((piece, ()),))
            if ends:
                self._wrapper.end()
            return
        settles = ends or may_settle(self._text, piece)
        self._text += f"{piece}\n" if ends else piece
        if settles or len(self._text) > 2 * HOLD:
            self._settle(is_whole=False)
        if ends:
            self._is_open = bool(self._text)
            if len(self._text) > HOLD:
                self._close()

    def _heading(self, piece: str, ends: bool) -> None:
        if not self._look.colors:
            self._prose(piece, ends)
            return
        self._text += piece
        if ends or len(self._text) > 2 * HOLD:
            self._settle(is_whole=ends)
        if ends:
            self._wrapper.end()
            self._before = ""
            self._title_columns = self._row_columns = 0

    def _close(self) -> None:
        """Show what a paragraph has kept back for a marker that is not closed, and end its row."""
        if self._is_open:
            self._is_open = False
            self._settle(is_whole=True)

    def _settle(self, *, is_whole: bool) -> None:
        found = settle(self._text, before=self._before, is_whole=is_whole)
        if not found.length and len(self._text) > 4 * HOLD:
            found = settle(self._text, before=self._before, is_whole=True)
        if found.length:
            self._before = self._text[found.length - 1]
            self._text = self._text[found.length :]
        for text, styles in found.spans:
            for number, part in enumerate(text.split("\n")):
                if number:
                    self._end_of_line()
                if part:
                    self._row_columns += width_of(part)
                    self._wrapper.feed(((part, (*self._styles, *styles)),))

    def _end_of_line(self) -> None:
        """End a line of a paragraph, and begin the next if that has come."""
        self._wrapper.end()
        self._title_columns, self._row_columns = max(self._row_columns, 1), 0
        if self._joints:
            self._begin_row(*self._joints.pop(0))

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
