"""What the model wants to do and may have to be approved: a command, or a file to read or write. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from odek.text import truncate, visible

SHOWN_LIMIT = 200  # characters of a refused operation that are repeated to the model


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation; equal ones are the same thing asked for twice."""

    kind: Literal["command", "read", "write"]
    subject: str
    """the command, or the path relative to the workspace"""
    change: str = ""
    """what would be written"""
    reason: str = field(default="", compare=False)
    """what the model says it is for; "" when it says nothing"""

    @property
    def text(self) -> str:
        """what a person has to read before saying yes; of a command exactly what runs"""
        if self.kind == "command":
            return self.subject
        heading = f"{self.kind} {visible(self.subject)}"  # a name with a line end must not pose as content
        return f"{heading}\n{self.change}" if self.change else heading

    @property
    def short(self) -> str:
        """the operation on one line, for the model"""
        text = self.subject if self.kind == "command" else f"{self.kind} {self.subject}"
        return visible(truncate(text, SHOWN_LIMIT))


@dataclass(frozen=True, slots=True)
class Grant:
    """The answer that a person has given beforehand about operations of one call."""

    operations: frozenset[Operation] = frozenset()
    """those that were on the card; the rest of the call is asked about when it comes"""
    allowed: bool = False


NO_GRANT = Grant()


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """Why an operation was allowed."""

    classes: tuple[str, ...]
    """of danger"""
    how: str
    """"policy", "person", "person, with others" on one card, or "person, trusted" earlier"""
