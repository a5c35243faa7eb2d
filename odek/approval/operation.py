"""What the model wants to do and may have to be approved: a command, a file to read or write, a foreign tool. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from odek.text import truncate, visible

SHOWN_LIMIT = 200  # characters of a refused operation that are repeated to the model


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation; equal ones are the same thing asked for twice."""

    kind: Literal["command", "read", "write", "call"]
    subject: str
    """the command, the path relative to the workspace, or a tool of an MCP server with its arguments"""
    change: str = ""
    """what would be written"""
    on_host: bool = False
    """of a call: whether its server runs on this host, wherever commands do"""
    allowed: bool = False
    """of a call on this host: whether the operator lets that tool run without a question"""
    setting: str = field(default="", compare=False)
    """of a call on this host: the setting that would"""
    reason: str = field(default="", compare=False)
    """what the model says it is for; "" when it says nothing"""

    @property
    def text(self) -> str:
        """what a person has to read before saying yes; of a command or a call exactly what runs"""
        if self.kind in ("command", "call"):
            return self.subject
        heading = f"{self.kind} {visible(self.subject)}"  # a name with a line end must not pose as content
        return f"{heading}\n{self.change}" if self.change else heading

    @property
    def short(self) -> str:
        """the operation on one line, for the model"""
        text = self.subject if self.kind in ("command", "call") else f"{self.kind} {self.subject}"
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
