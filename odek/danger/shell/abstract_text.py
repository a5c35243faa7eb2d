"""Characters that mark what is unknown about the text of an expanded word.

No command that holds one of them literally is examined, so an expanded word is simply a `str`.
"""

from __future__ import annotations

import re
from functools import lru_cache

from odek.patterns import pattern

ANY = "\0"
"""some text, perhaps none"""
STAR = "\1"
"""an active `*`"""
ONE = "\2"
"""an active `?` or `[…]`"""
SPLIT = "\3"
"""as ANY, but outside of quotes: may be no word, one or several"""
NAME = "\4"
"""some text without slash and blank that is neither empty nor an option: a number, a date"""
BELOW = "\5"
"""a relative path that does not leave its directory, as `find` and `git ls-files` print them"""

EITHER = "\6"
"""separates two texts of which one is printed, depending on the shell"""

SOME = ANY + NAME
"""some text that is not empty"""

UNKNOWN = frozenset((ANY, SPLIT))
GLOBS = frozenset((STAR, ONE))
ALL = frozenset((ANY, STAR, ONE, SPLIT, NAME, BELOW, EITHER))

_MARK = pattern("[\0-\6]")
_SHOWN = {ANY: "…", STAR: "*", ONE: "?", SPLIT: "…", NAME: "…", BELOW: "…", EITHER: "…"}


def is_exact(text: str) -> bool:
    """Return whether nothing about `text` is unknown."""
    return not _MARK.search(text)


def holds_unknown(text: str) -> bool:
    """Return whether part of `text` could be anything."""
    return ANY in text or SPLIT in text


def emptied(text: str) -> str:
    """Return what `text` is where all that is unknown of it is empty; "" where nothing is left, or it cannot be."""
    if not holds_unknown(text) or NAME in text or BELOW in text:
        return ""
    return text.replace(ANY, "").replace(SPLIT, "")


def may_equal(text: str, wanted: str) -> bool:
    """Return whether `text` is, or with its unknown parts may be, `wanted`."""
    if is_exact(text):
        return text == wanted
    return bool(_pattern(text).fullmatch(wanted))


@lru_cache(maxsize=256)
def _pattern(text: str) -> re.Pattern[str]:
    collapsed = re.sub("[\0\1\3-\6]+", ANY, text)
    if collapsed.count(ANY) > 3:  # more wildcards would make matching slow: anything between the outer ones
        collapsed = collapsed[: collapsed.index(ANY) + 1] + collapsed[collapsed.rindex(ANY) + 1 :]
    parts = {ANY: ".*", ONE: "."}
    return re.compile("".join(parts.get(character) or re.escape(character) for character in collapsed), re.DOTALL)


def rendered(text: str) -> str:
    """Return `text` for people, unknown parts as an ellipsis."""
    return _MARK.sub(lambda match: _SHOWN[match[0]], text)
