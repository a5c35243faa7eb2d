"""Repair text from JSON that is not valid Unicode: halves of surrogate pairs, alone or in two pieces. Pure."""

from __future__ import annotations


def valid_text(text: str) -> str:
    """Return `text` with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class SurrogateJoiner:
    """Text that arrives in pieces; what is passed on is valid at every moment."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._held = ""

    @property
    def anything(self) -> bool:
        """whether there is any text to pass on"""
        return bool(self._pieces)

    def take(self, piece: str) -> str:
        """Add `piece`; return what may be shown now: the other half of a pair may come with the next one."""
        text = self._held + piece
        self._held = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        text = valid_text(text[: len(text) - len(self._held)])
        if text:
            self._pieces.append(text)
        return text

    def finish(self) -> str:
        """Return the whole text."""
        return "".join(self._pieces) + valid_text(self._held)
