"""Sentences for the user, and who takes them."""

from __future__ import annotations

from typing import Protocol


class Notices(Protocol):
    """Takes sentences for the user."""

    def note(self, text: str) -> None: ...
    def warn(self, text: str, hint: str = "") -> None: ...


class Silent:
    """Shows nothing: for a check that is made again later, aloud."""

    def note(self, text: str) -> None:
        del text

    def warn(self, text: str, hint: str = "") -> None:
        del text, hint
