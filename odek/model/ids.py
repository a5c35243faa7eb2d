"""Ids of calls in the form that a server takes, in calls and results alike. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence

from odek.model.types import ToolCall

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_LENGTH = 9
_SHORT = re.compile(r"[A-Za-z0-9]{9}")
_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")
_LIMIT = 64
Form = Callable[[str, int], str]
"""(the id as it came, how often it was tried) → an id"""


class CallIds:
    """The ids of one conversation, each one once: other providers use the same ones in every reply."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._taken: set[str] = set()
        self._current: dict[str, str] = {}

    def begin(self, calls: Sequence[ToolCall]) -> None:
        """Choose the ids of one message's calls."""
        self._current = {call.id: self._choose(call.id) for call in calls}

    def find(self, call_id: str) -> str:
        """Return the id that was chosen for a call of the last message with calls."""
        return self._current.get(call_id, call_id)

    def _choose(self, wanted: str) -> str:
        attempt = 1
        while (chosen := self._form(wanted, attempt)) in self._taken:
            attempt += 1
        self._taken.add(chosen)
        return chosen


def plain(wanted: str, attempt: int) -> str:
    """Return `wanted` in letters, digits, "_" and "-"."""
    clean = _FORBIDDEN.sub("_", wanted)[:_LIMIT] or "call"
    return clean if attempt == 1 else f"{clean[: _LIMIT - 8]}_{attempt}"


def short(wanted: str, attempt: int) -> str:
    """Return nine letters and digits, which is what the strictest servers take, and everybody else too (B86)."""
    if attempt == 1 and is_short(wanted):
        return wanted
    digest = int.from_bytes(hashlib.sha256(f"{attempt} {wanted}".encode("utf-8", "surrogatepass")).digest(), "big")
    return encode(digest)


def is_short(call_id: str) -> bool:
    """Return whether `call_id` is one that every server takes."""
    return bool(_SHORT.fullmatch(call_id))


def encode(number: int) -> str:
    """Return nine letters and digits that stand for `number`, which may have any size."""
    digits = []
    for _ in range(_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(digits)
