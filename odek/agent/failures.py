"""Advice for a model that runs against the same wall again and again."""

from __future__ import annotations

FAILURES_BEFORE_HINT = 3

_DEFAULT_HINT = "Stop and compare what you assume with what the results say; try another way, or ask the user."
_HINTS = (
    ("exit code:", "Read the first error of the output, not the last; run a smaller part of the command on its own."),
    ("is a folder", "The path is a folder; list it first, then name a file in it."),
    ("does not exist", "Look where the file really is before you name it again."),
    ("not found", "Look at what is really there before you name it again."),
    ("binary", "The file is no text; look at it with a program made for its format."),
)


class FailureCounter:
    """Counts the failures in a row of each tool."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def hint(self, tool: str, *, failed: bool, text: str) -> str:
        """Note one result; return advice when it is the third failure in a row, else ""."""
        count = self._counts.get(tool, 0) + 1 if failed else 0
        self._counts[tool] = count % FAILURES_BEFORE_HINT
        return choose_hint(tool, text) if count == FAILURES_BEFORE_HINT else ""


def choose_hint(tool: str, text: str) -> str:
    """Return the advice that fits the failure described in `text`."""
    advice = next((hint for words, hint in _HINTS if words in text), _DEFAULT_HINT)
    return f"hint: {tool} failed {FAILURES_BEFORE_HINT} times in a row. {advice}"
