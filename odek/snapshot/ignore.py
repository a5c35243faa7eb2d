"""What git ignores, by its own rules and without git (gitignore(5)). Pure.

Names are bytes, as git compares them. A project writes its patterns, so none may take long: a pattern is cut into
components and these into pieces between asterisks; the leftmost place of a piece is always the right one, and so
nothing is tried twice. One form differs: git takes the `**` of `a**/b`, which means nothing by its manual, for folders.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from odek.patterns import pattern

_BOM = b"\xef\xbb\xbf"
_SPECIAL = frozenset(b"*?[\\")
_ANY_FOLDERS = None
"""in place of a component: any number of them, none included"""
_CLASSES = {
    b"alnum": rb"0-9A-Za-z", b"alpha": rb"A-Za-z", b"blank": rb" \t", b"cntrl": rb"\x00-\x1f\x7f", b"digit": rb"0-9",
    b"graph": rb"\x21-\x7e", b"lower": rb"a-z", b"print": rb"\x20-\x7e",
    b"punct": rb"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e",
    b"space": rb"\x09-\x0d ", b"upper": rb"A-Z", b"xdigit": rb"0-9A-Fa-f",
}  # fmt: skip


class _Broken(Exception):
    """A pattern that matches nothing."""


@dataclass(frozen=True, slots=True)
class _Component:
    """One component of a pattern: the pieces between its asterisks, each with the length of what it matches."""

    pieces: tuple[tuple[re.Pattern[bytes], int], ...]
    literal: bytes | None
    """the only name that it matches, where that is so"""

    def matches(self, name: bytes) -> bool:
        if self.literal is not None:
            return name == self.literal
        (first, size), *rest = self.pieces
        if not rest:
            return len(name) == size and first.match(name) is not None
        if first.match(name) is None:
            return False
        at = size
        *middle, (last, tail) = rest
        for piece, _ in middle:
            found = piece.search(name, at)
            if found is None:
                return False
            at = found.end()
        return len(name) - tail >= at and last.match(name, len(name) - tail) is not None


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line of a file of patterns."""

    components: tuple[_Component | None, ...]
    """`_ANY_FOLDERS` for `**`"""
    anchored: bool
    """whether it is compared with the path from the folder of its file, not with the name alone"""
    folders_only: bool
    includes: bool
    """whether it takes back what earlier ones ignore"""

    def matches(self, path: Sequence[bytes]) -> bool:
        """Return whether it matches the components of a path that begins at the folder of its file."""
        return _matches(self.components, path if self.anchored else path[-1:])


def _matches(parts: Sequence[_Component | None], path: Sequence[bytes]) -> bool:
    """Compare component by component; the last `**` that was passed is the only one to go back to."""
    at = place = 0
    back: tuple[int, int] | None = None
    while place < len(path):
        if at < len(parts) and (part := parts[at]) is not None:
            if part.matches(path[place]):
                at, place = at + 1, place + 1
                continue
        elif at < len(parts):
            if at == len(parts) - 1:
                return True
            back = at, place
            at += 1
            continue
        if back is None:
            return False
        back = back[0], back[1] + 1
        at, place = back[0] + 1, back[1]
    return at == len(parts)


def parse_patterns(data: bytes) -> tuple[Pattern, ...]:
    """Return the patterns of a .gitignore, in their order."""
    lines = data.removeprefix(_BOM).split(b"\n")
    if lines[-1] == b"":
        lines.pop()
    parsed = (_parse(line.removesuffix(b"\r")) for line in lines if not line.startswith(b"#"))
    return tuple(each for each in parsed if each is not None)


def _parse(line: bytes) -> Pattern | None:
    text = _without_trailing_spaces(line)
    includes = text.startswith(b"!")
    text = text[includes:]
    folders_only = text.endswith(b"/")
    text = text[: len(text) - folders_only]
    if not text:
        return None
    anchored = b"/" in text
    try:
        components = tuple(_components(text.removeprefix(b"/"), anchored=anchored))
    except _Broken:
        return None
    return Pattern(components, anchored, folders_only, includes)


def _without_trailing_spaces(line: bytes) -> bytes:
    end = at = 0
    while at < len(line):
        if line[at : at + 1] == b"\\":
            at = end = min(at + 2, len(line))
        else:
            at += 1
            end = at if line[at - 1 : at] != b" " else end
    return line[:end]


def _components(text: bytes, *, anchored: bool) -> Iterator[_Component | None]:
    """Yield the components of a pattern without its leading slash. Raises _Broken."""
    pieces: list[tuple[re.Pattern[bytes], int]] = []
    piece: list[bytes] = []
    at = start = 0

    def end_piece() -> None:
        pieces.append((pattern(b"".join(piece), re.DOTALL), len(piece)))
        piece.clear()

    while at <= len(text):
        if text[at : at + 2] == b"\\/":
            at += 1
        if at == len(text) or text[at : at + 1] == b"/":
            stars = text[start:at]
            if anchored and len(stars) > 1 and not stars.strip(b"*"):
                yield _ANY_FOLDERS
            else:
                end_piece()
                yield _Component(tuple(pieces), None if set(stars) & _SPECIAL else stars)
            pieces, at = [], at + 1
            piece.clear()
            start = at
        elif text[at : at + 1] == b"*":
            end_piece()
            at += 1
        else:
            token, at = _token(text, at)
            piece.append(token)


def _token(text: bytes, at: int) -> tuple[bytes, int]:
    """Return the regular expression of one byte of a name, and the place behind it. Raises _Broken."""
    character = text[at : at + 1]
    if character == b"?":
        return b".", at + 1
    if character == b"[":
        return _bracket(text, at + 1)
    if character == b"\\":
        at += 1
        if at == len(text):
            raise _Broken
        character = text[at : at + 1]
    return re.escape(character), at + 1


def _bracket(text: bytes, at: int) -> tuple[bytes, int]:
    """Return the same of what stands behind a bracket that opens."""
    negated = text[at : at + 1] in (b"!", b"^") and text[at : at + 1] != b""
    at += negated
    members: list[bytes] = []
    before = -1
    first = True
    while first or text[at : at + 1] != b"]":
        first = False
        if at >= len(text):
            raise _Broken
        if text[at : at + 1] == b"-" and before >= 0 and text[at + 1 : at + 2] not in (b"", b"]"):
            end, at = _literal(text, at + 1)
            if end >= before:
                members.append(b"\\x%02x-\\x%02x" % (before, end))
            before = -1
        elif text[at : at + 2] == b"[:" and (close := text.find(b"]", at + 2)) >= 0 and text[close - 1] == ord(":"):
            name = text[at + 2 : close - 1]
            if close - 1 < at + 2 or name not in _CLASSES:
                if close - 1 >= at + 2:
                    raise _Broken
                members.append(rb"\x5b")
                before, at = ord("["), at + 1
                continue
            members.append(_CLASSES[name])
            before, at = -1, close + 1
        elif text[at : at + 2] == b"[:" and b"]" not in text[at + 2 :]:
            raise _Broken
        else:
            before, at = _literal(text, at)
            members.append(b"\\x%02x" % before)
    if not members:
        return (b"." if negated else b"(?!)."), at + 1
    return b"[%s%s]" % (b"^" if negated else b"", b"".join(members)), at + 1


def _literal(text: bytes, at: int) -> tuple[int, int]:
    if text[at : at + 1] == b"\\":
        at += 1
    if at >= len(text):
        raise _Broken
    return text[at], at + 1


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The patterns that count in a folder: those of its own file, then those of the folders around it."""

    patterns: tuple[Pattern, ...] = ()
    outer: IgnoreRules | None = None
    name: bytes = b""
    """of the folder in that of `outer`; "" for the same folder"""

    def enter(self, name: bytes, patterns: tuple[Pattern, ...] = ()) -> IgnoreRules:
        """Return the rules of the folder `name` in this one, whose file has `patterns`."""
        return IgnoreRules(patterns, self, name)

    def ignores(self, name: bytes, *, is_folder: bool) -> bool:
        """Return whether git ignores `name` in this folder, which it does not ignore itself."""
        rules: IgnoreRules | None = self
        path = [name]
        while rules is not None:
            for line in reversed(rules.patterns):
                if (is_folder or not line.folders_only) and line.matches(path):
                    return not line.includes
            if rules.name:
                path.insert(0, rules.name)
            rules = rules.outer
        return False
