"""What a look into a folder finds, wherever it was taken. Pure types.

Names are as the file system has them: bytes that are no UTF-8 stand as lone surrogates
(`surrogateescape`), and a name may hold line ends. Whoever shows one shows it through text.visible.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from typing import Literal

Kind = Literal["file", "folder", "link", "other"]

MAX_DEPTH = 64  # each level costs the walk on the host an open descriptor; 256 is the least a process may have


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """How far a walk through folders goes."""

    depth: int = MAX_DEPTH
    """levels below the first folder; 0: only that itself"""
    count: int = 20_000
    """entries to collect at most"""
    timeout_s: float = 20.0
    skip: frozenset[str] = frozenset()
    """names of folders that are listed but not entered"""
    hidden: bool = True
    """whether folders are entered whose names begin with a dot"""

    def passes_over(self, name: str) -> bool:
        """Return whether a folder of that name is not entered."""
        return name in self.skip or (not self.hidden and name.startswith("."))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing in a folder, links not followed."""

    path: str
    """relative to the workspace; "" is the workspace itself"""
    kind: Kind
    mode: int
    """permission bits, as chmod takes them"""
    size_bytes: int
    mtime_s: int
    """seconds since the epoch"""

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What a walk came to."""

    top: Entry
    """what was asked for; a link to it has been followed"""
    entries: tuple[Entry, ...] = ()
    """what lies below, sorted by path"""
    complete: bool = True
    """False: a limit ended the walk, and there is more"""
    problems: tuple[str, ...] = ()
    """folders that could not be read, in words fit to be shown"""


def kind_of(mode: int) -> Kind:
    """Return what `mode` (st_mode, all of it) says that a thing is."""
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "link" if stat.S_ISLNK(mode) else "other"


def sorted_entries(entries: list[Entry]) -> tuple[Entry, ...]:
    """Return `entries` as a person reads a tree: each folder right before what it holds."""
    return tuple(sorted(entries, key=lambda entry: entry.path.split("/")))
