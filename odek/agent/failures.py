"""Advice for a model that runs against the same wall again and again."""

from __future__ import annotations

import json

from odek.errors import OdekError
from odek.model.types import ToolCall
from odek.text import truncate, visible

FAILURES_BEFORE_HINT = 3
SAME_FAILURES = 6
"""so often the same call may fail while nothing new succeeds"""
_SHOWN_LENGTH = 120  # characters of a call that an error repeats
_WORDS_ABOUT = ("description", "timeout")  # arguments that do not change what a call does

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


class RepeatedFailures:
    """Notices a model that makes the same failing call again and again.

    A call that succeeds and was not made before counts as progress, and all begins anew: tests that fail
    after each of many edits are work. Calls that differ only in blanks, in the order of their arguments or in
    what they are said to be for are the same.
    """

    def __init__(self) -> None:
        self._failed: dict[str, int] = {}
        self._succeeded: set[str] = set()

    def count(self, call: ToolCall, *, failed: bool) -> int:
        """Note one result; return how often this call has failed since there was progress, 0 when it succeeded."""
        key = f"{call.name}\n{_canonical(call.arguments)}"
        if not failed:
            if key not in self._succeeded:
                self._succeeded.add(key)
                self._failed.clear()
            return 0
        self._failed[key] = self._failed.get(key, 0) + 1
        return self._failed[key]


def last_warning(count: int) -> str:
    """Return what the model is told after the failure before the one that ends the task, else ""."""
    return (
        f"hint: this very call has failed {count} times; once more ends the task." if count == SAME_FAILURES - 1 else ""
    )


def same_failure(call: ToolCall, count: int) -> OdekError:
    """Return the error for a `call` that failed too often."""
    shown = visible(truncate(" ".join(f"{call.name} {call.arguments}".split()), _SHOWN_LENGTH))
    return OdekError(
        f"the model made the same failing call {count} times: {shown}",
        hint="say in the task how it can be done, or use another model",
    )


def _canonical(arguments: str) -> str:
    """Return the JSON text `arguments` in one of its many spellings; what is not JSON without its blanks."""
    try:
        value = json.loads(arguments)
        if isinstance(value, dict):
            value = {key: part for key, part in value.items() if key not in _WORDS_ABOUT}
        return json.dumps(_collapsed(value), sort_keys=True)
    except (ValueError, RecursionError):
        return "".join(arguments.split())


def _collapsed(value: object) -> object:
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, dict):
        return {" ".join(key.split()): _collapsed(part) for key, part in value.items()}
    return [_collapsed(part) for part in value] if isinstance(value, list) else value
