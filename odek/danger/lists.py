"""Lists of names, written as text."""

from __future__ import annotations


def words_of(text: str) -> frozenset[str]:
    """Return the words of `text`."""
    return frozenset(text.split())
