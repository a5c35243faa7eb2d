"""What one session holds. Types only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from odek.model.types import Message, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptHead:
    """The last line of a session's chain of receipts (receipts.py)."""

    number: int
    """how many lines there are"""
    hash: str
    """hex"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The session that another one was forked from, as it was then."""

    id: str
    turns: int
    receipts: ReceiptHead | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a session is; it never changes."""

    id: str
    created_at: str
    """RFC 3339"""
    task: str
    """label in lists: the beginning of the first task"""
    sandbox: bool
    """whether the session's commands were meant for a sandbox when it was made, a fall back included (R-2, D-24)"""
    origin: Origin | None = None
    """None: it began with its first turn"""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """fields of other tools, kept as they are"""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What a session has come to."""

    updated_at: str
    """RFC 3339"""
    turns: int
    model: str
    cwd: str
    """the working directory; "" for unknown"""
    usage: Usage
    """of all turns"""
    receipts: ReceiptHead | None = None
    """None: nothing was executed yet, or by an odek that kept no receipts"""
    server: str = ""
    """the provider of the model, where it was chosen by its name"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenFile:
    """A file from outside the working directory that was given with a turn, as it was then."""

    path: str
    """absolute, on this machine"""
    sha256: str
    """hex"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One message of the conversation, other than the leading system message."""

    message: Message
    starts_turn: bool = False
    at: str = ""
    """when the turn began, RFC 3339; "" for unknown, or none begins here"""
    files: tuple[GivenFile, ...] = ()
    compacted: Message | None = None
    """what the model gets in place of all that precedes this one; a later entry's counts"""
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A session without its messages."""

    header: Header
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """A whole session."""

    header: Header
    state: State
    system: str
    """"" when there is none"""
    entries: tuple[Entry, ...]


def count_turns(entries: tuple[Entry, ...]) -> int:
    """Return how many turns the user began."""
    return sum(entry.starts_turn for entry in entries)
