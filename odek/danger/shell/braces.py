"""Brace expansion of bash, on words that are not expanded yet. Pure.

dash has none; the expanded reading is the one in which more can happen.
"""

from __future__ import annotations

import re

from odek.danger.shell import marks
from odek.danger.shell.syntax import Part, Text, Word

MAX_WORDS = 64
_MAX_DEPTH = 6
_SEQUENCE = re.compile(r"(-?\d+|[A-Za-z])\.\.(-?\d+|[A-Za-z])(?:\.\.-?\d+)?")

_Item = Part | str
"""a part that is left alone, or one character of unquoted text"""


def expand_braces(word: Word) -> tuple[Word, ...]:
    """Return the words that `word` stands for; one unknown word when there are too many."""
    if not any(isinstance(part, Text) and not part.quoted and "{" in part.text for part in word.parts):
        return (word,)
    if sum(len(part.text) for part in word.parts if isinstance(part, Text) and not part.quoted) > 4096:
        return (_UNKNOWN,)
    items: list[_Item] = []
    for part in word.parts:
        if isinstance(part, Text) and not part.quoted:
            items.extend(part.text)
        else:
            items.append(part)
    try:
        return tuple(_joined(expanded) for expanded in _expand(items, 0))
    except OverflowError:
        return (_UNKNOWN,)


_UNKNOWN = Word(parts=(Text(text=marks.SPLIT, quoted=False),))


def _expand(items: list[_Item], depth: int) -> list[list[_Item]]:
    """Return all expansions. Raises OverflowError when there are too many."""
    if depth > _MAX_DEPTH:
        raise OverflowError
    results: list[list[_Item]] = [[]]
    position = 0
    while position < len(items):
        if items[position] != "{":
            for result in results:
                result.append(items[position])
            position += 1
            continue
        end, alternatives = _alternatives(items, position, depth)
        results = [[*result, *alternative] for result in results for alternative in alternatives]
        if len(results) > MAX_WORDS:
            raise OverflowError
        position = end
    return results


def _alternatives(items: list[_Item], start: int, depth: int) -> tuple[int, list[list[_Item]]]:
    """Return where the group at `start` ends and what it stands for; a lone brace is itself."""
    level, begin, end = 0, start + 1, start
    pieces: list[list[_Item]] = []
    while end < len(items):
        item = items[end]
        level += 1 if item == "{" else -1 if item == "}" else 0
        if level == 0 or (level == 1 and item == ","):
            pieces.append(items[begin:end])
            begin = end + 1
            if level == 0:
                break
        end += 1
    else:
        return start + 1, [["{"]]
    if len(pieces) > 1:
        expanded = [alternative for piece in pieces for alternative in _expand(piece, depth + 1)]
        return end + 1, expanded
    text = "".join(item for item in pieces[0] if isinstance(item, str))
    if len(text) == len(pieces[0]) and _SEQUENCE.fullmatch(text):
        return end + 1, [[marks.NAME]]
    return start + 1, [["{"]]


def _joined(items: list[_Item]) -> Word:
    parts: list[Part] = []
    run: list[str] = []
    for item in items:
        if isinstance(item, str):
            run.append(item)
            continue
        if run:
            parts.append(Text(text="".join(run), quoted=False))
            run = []
        parts.append(item)
    if run:
        parts.append(Text(text="".join(run), quoted=False))
    return Word(parts=tuple(parts) or (Text(text="", quoted=False),))
