"""Regular expressions whose search takes time in proportion to the text, for patterns and texts of others. Pure.

Python's own go back and try again: `^(a+)+$` takes a lifetime for forty letters. Here a pattern becomes a small
machine that reads each character once. Of ECMA 262, which JSON Schema means, this is the part that such a machine
can do: characters, classes, groups, alternatives, repetition, ^ and $; anything else is refused when it is compiled.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

MAX_STEPS = 2000
"""of a compiled pattern; `{m,n}` is written out"""
_MAX_STATES = 2000
_LAST = 0x10FFFF
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "v": "\v", "0": "\0"}
_DIGITS, _WORD = ((48, 57),), ((48, 57), (65, 90), (95, 95), (97, 122))
_LINE_ENDS = ((10, 10), (13, 13), (0x2028, 0x2029))
_SPACES = (
    *((9, 13), (32, 32), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A)),
    *((0x2028, 0x2029), (0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000), (0xFEFF, 0xFEFF)),
)

Ranges = tuple[tuple[int, int], ...]
"""code points, first and last of each, in order and apart"""


class PatternError(ValueError):
    """The pattern is wrong, or uses what is not understood."""


@dataclass(frozen=True, slots=True)
class _Step:
    """One step of the machine: a character of `ranges`, or ways to other steps, which one of two places may bar."""

    ranges: Ranges = ()
    ways: tuple[int, ...] = ()
    only_at: str = ""
    """"^" or "$" """
    ends: bool = False


class Pattern:
    """A compiled pattern."""

    def __init__(self, text: str) -> None:
        """Raises PatternError."""
        self._steps = _Compiler(text).steps
        self.size = sum(1 + len(step.ways) + len(step.ranges).bit_length() for step in self._steps)
        """what a character of a text costs at most"""
        self._states: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self._begin = self._reach((0,), at_begin=True)
        self._again = self._reach((0,), at_begin=False)

    def is_in(self, text: str) -> bool:
        """Return whether the pattern fits a part of `text`."""
        state = self._begin
        for character in text:
            if any(self._steps[number].ends for number in state):
                return True
            state = self._next(state, character)
        return any(self._steps[number].ends for number in self._reach(state, at_begin=not text, at_end=True))

    def _next(self, state: frozenset[int], character: str) -> frozenset[int]:
        known = self._states.get((state, character))
        if known is not None:
            return known
        code = ord(character)
        taken = (number + 1 for number in state if _holds(self._steps[number].ranges, code))
        found = self._reach(taken, at_begin=False) | self._again
        if len(self._states) >= _MAX_STATES:
            self._states.clear()
        self._states[state, character] = found
        return found

    def _reach(self, numbers: Iterator[int] | tuple[int, ...] | frozenset[int], **place: bool) -> frozenset[int]:
        """Return the steps that are reached from `numbers` without a character."""
        found: set[int] = set()
        pending = list(numbers)
        while pending:
            number = pending.pop()
            if number in found:
                continue
            found.add(number)
            step = self._steps[number]
            if not step.only_at or place.get("at_begin" if step.only_at == "^" else "at_end"):
                pending += step.ways
        return frozenset(found)


def _holds(ranges: Ranges, code: int) -> bool:
    place = bisect_right(ranges, (code, _LAST))
    return place > 0 and code <= ranges[place - 1][1]


def _inverted(ranges: Ranges) -> Ranges:
    found, begin = [], 0
    for first, last in sorted(ranges):
        if first > begin:
            found.append((begin, first - 1))
        begin = max(begin, last + 1)
    return (*found, (begin, _LAST)) if begin <= _LAST else tuple(found)


def _merged(ranges: Ranges) -> Ranges:
    """Return `ranges` in order, as few as there can be."""
    return _inverted(_inverted(ranges))


_Node = tuple[object, ...]
"""("set", ranges), ("at", place), ("all", nodes), ("any", nodes) or ("repeat", node, least, most or None)"""


class _Compiler:
    """Reads a pattern and writes its steps."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._place = 0
        self._depth = 0
        self.steps: list[_Step] = []
        node = self._alternatives()
        if self._place < len(text):
            raise self._error('")" without "("')
        self._write(node)
        self._add(_Step(ends=True))

    def _error(self, what: str) -> PatternError:
        return PatternError(f"{what}, at character {self._place + 1}")

    def _peek(self) -> str:
        return self._text[self._place : self._place + 1]

    def _take(self) -> str:
        character = self._peek()
        if not character:
            raise self._error("it ends too early")
        self._place += 1
        return character

    def _alternatives(self) -> _Node:
        self._depth += 1
        if self._depth > 50:
            raise self._error("it is nested too deeply")
        branches = [self._sequence()]
        while self._peek() == "|":
            self._place += 1
            branches.append(self._sequence())
        self._depth -= 1
        return ("any", branches) if len(branches) > 1 else branches[0]

    def _sequence(self) -> _Node:
        nodes = []
        while self._peek() not in ("", "|", ")"):
            nodes.append(self._repeated(self._atom()))
        return ("all", nodes)

    def _atom(self) -> _Node:
        character = self._take()
        match character:
            case "(":
                return self._group()
            case "[":
                return ("set", self._class())
            case ".":
                return ("set", _inverted(_LINE_ENDS))
            case "^" | "$":
                return ("at", character)
            case "\\":
                return ("set", self._escape())
            case "*" | "+" | "?" | "{" | "}" | "]":
                self._place -= 1
                raise self._error(f'"{character}" has nothing to stand for; write \\{character} for the character')
        return ("set", ((ord(character), ord(character)),))

    def _group(self) -> _Node:
        if self._peek() == "?":
            self._place += 1
            kind = self._take()
            if kind == "<" and self._peek() not in ("=", "!"):
                while self._take() != ">":
                    pass
            elif kind != ":":
                raise self._error("what looks ahead or behind is not understood")
        node = self._alternatives()
        if self._peek() != ")":
            raise self._error('a "(" is not closed')
        self._place += 1
        return node

    def _repeated(self, node: _Node) -> _Node:
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(self._peek(), (-1, None))
        if self._peek() == "{":
            least, most = self._counts()
        elif least < 0:
            return node
        else:
            self._place += 1
        if node[0] == "at":
            raise self._error(f'"{node[1]}" cannot be repeated')
        if self._peek() == "?":  # as few as possible: the same texts fit
            self._place += 1
        return ("repeat", node, least, most)

    def _counts(self) -> tuple[int, int | None]:
        end = self._text.find("}", self._place)
        first, comma, last = self._text[self._place + 1 : max(end, 0)].partition(",")
        if not (first.isascii() and first.isdecimal() and (not last or (last.isascii() and last.isdecimal()))):
            raise self._error("a count is written {3}, {3,} or {3,5}")
        if max(len(first), len(last)) > 4:
            raise self._error("a count is too large")
        self._place = end + 1
        least, most = int(first), (int(last) if last else None) if comma else int(first)
        if most is not None and most < least:
            raise self._error("a count ends below its beginning")
        return least, most

    def _class(self) -> Ranges:
        inverted = self._peek() == "^"
        self._place += inverted
        ranges: list[tuple[int, int]] = []
        while self._peek() != "]":
            first = self._member()
            if self._peek() == "-" and self._text[self._place + 1 : self._place + 2] not in ("]", ""):
                self._place += 1
                last = self._member()
                if len(first) != 1 or len(last) != 1 or first[0][0] != first[0][1] or last[0][0] != last[0][1]:
                    raise self._error("a range needs a character at both ends")
                if last[0][0] < first[0][0]:
                    raise self._error("a range ends below its beginning")
                first = ((first[0][0], last[0][0]),)
            ranges += first
        self._place += 1
        return _inverted(tuple(ranges)) if inverted else _merged(tuple(ranges))

    def _member(self) -> Ranges:
        character = self._take()
        if character != "\\":
            return ((ord(character), ord(character)),)
        if self._peek() == "b":
            self._place += 1
            return ((8, 8),)
        return self._escape()

    def _escape(self) -> Ranges:
        letter = self._take()
        kind = {"d": _DIGITS, "w": _WORD, "s": _SPACES}.get(letter.lower())
        if kind is not None:
            return _inverted(kind) if letter.isupper() else kind
        if letter in _CONTROLS:
            code = ord(_CONTROLS[letter])
        elif letter in ("x", "u"):
            code = self._code(2 if letter == "x" else 4)
        elif letter.isalnum() or ord(letter) >= 128:
            raise self._error(f'"\\{letter}" is not understood')
        else:
            code = ord(letter)
        return ((code, code),)

    def _code(self, length: int) -> int:
        digits = self._text[self._place : self._place + length]
        if len(digits) < length or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
            raise self._error(f"{length} hexadecimal digits are missing")
        self._place += length
        return int(digits, 16)

    def _add(self, step: _Step) -> int:
        if len(self.steps) >= MAX_STEPS:
            raise PatternError("it repeats too much")
        self.steps.append(step)
        return len(self.steps) - 1

    def _write(self, node: _Node) -> None:
        match node:
            case ("set", ranges):
                self._add(_Step(ranges=ranges))  # type: ignore[arg-type]
            case ("at", place):
                self._add(_Step(only_at=str(place), ways=(len(self.steps) + 1,)))
            case ("all", list() as nodes):
                for part in nodes:
                    self._write(part)
            case ("any", list() as nodes):
                self._write_branches(nodes)
            case ("repeat", tuple() as part, int() as least, most):
                for _ in range(least):
                    size = len(self.steps)
                    self._write(part)
                    if len(self.steps) == size:  # () as often as one likes
                        break
                if most is None:
                    self._write_loop(part)
                else:
                    self._write_optional(part, int(str(most)) - least)

    def _write_branches(self, nodes: list[_Node]) -> None:
        ends = []
        for node in nodes[:-1]:
            split = self._add(_Step())
            self._write(node)
            ends.append(self._add(_Step()))
            self.steps[split] = _Step(ways=(split + 1, len(self.steps)))
        self._write(nodes[-1])
        for end in ends:
            self.steps[end] = _Step(ways=(len(self.steps),))

    def _write_loop(self, node: _Node) -> None:
        split = self._add(_Step())
        self._write(node)
        back = self._add(_Step(ways=(split,)))
        self.steps[split] = _Step(ways=(split + 1, back + 1))

    def _write_optional(self, node: _Node, count: int) -> None:
        splits = []
        for _ in range(count):
            splits.append(self._add(_Step()))
            self._write(node)
        for split in splits:
            self.steps[split] = _Step(ways=(split + 1, len(self.steps)))
