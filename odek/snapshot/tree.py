"""The files of a project at one moment, and how two moments differ. Pure.

A tree is also a cache, as git's index is: a file whose size, times, mode and inode are as noted has the content that
is noted. What could have changed in the same tick of the clock as it was looked at is noted with no time of change, so
that it never counts as unchanged.
"""

from __future__ import annotations

import json
import os
import stat
import zlib
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

TOP = "."
"""the path of the project's own folder, where that has changed itself"""
DIGEST_BYTES = 32
_NOT_KEPT = bytes(DIGEST_BYTES)
_NUMBERS = 5  # of an entry
_MAGIC = b"odek-files-1"


class Damaged(ValueError):
    """What was stored is not whole."""


class Entry(NamedTuple):
    """A file, a link or something special, as it was last looked at."""

    mode: int
    """its kind, too, as of stat(2)"""
    size: int
    mtime_ns: int
    ctime_ns: int
    """0: it may have changed at the time it was looked at, and is to be read again"""
    inode: int
    digest: bytes
    """SHA-256 of the content of a file, or of what a link says; empty: it is not kept"""


class Folder(NamedTuple):
    """A folder and what is in it, without what git ignores."""

    mode: int
    mtime_ns: int
    ctime_ns: int
    """0: as of an entry"""
    inode: int
    rules: str
    """of all patterns that counted in it; other rules, another list"""
    patterns: str | None
    """the text of its own .gitignore, each byte a character; None: it has none"""
    closed: str
    """why it was not looked into, "" when it was"""
    ignored: int
    """how many of its names git ignores"""
    folders: tuple[str, ...]
    entries: dict[str, Entry]


Tree = Mapping[str, Folder]
"""path from the top, which is "", → folder"""


class State(NamedTuple):
    """What a path is in one moment."""

    mode: int
    size: int
    digest: bytes
    """as of an entry; empty for a folder"""
    stamp: tuple[int, ...] = ()
    """tells the content of one that is not kept from another; a folder that was not looked into has one, too"""

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_kept(self) -> bool:
        """whether it can be brought back"""
        return bool(self.digest) or (self.is_folder and not self.stamp)


@dataclass(frozen=True, slots=True)
class Change:
    """How a path differs; None: there was nothing, or there is nothing any more."""

    path: str
    before: State | None
    after: State | None

    @property
    def reversed(self) -> Change:
        return Change(self.path, self.after, self.before)


def state_of(entry: Entry) -> State:
    """Return what counts of an entry."""
    stamp = () if entry.digest else (entry.mtime_ns, entry.ctime_ns, entry.inode)
    return State(entry.mode, entry.size if entry.digest or stat.S_ISREG(entry.mode) else 0, entry.digest, stamp)


def join(folder: str, name: str) -> str:
    """Return the path of `name` in `folder`."""
    return f"{folder}/{name}" if folder else name


def compare(before: Tree, after: Tree) -> tuple[Change, ...]:
    """Return what differs, by path. Below a folder that one of them does not look into nothing does."""
    found = list(_compare(before, after, "", before[""], after[""]))
    if before[""].mode != after[""].mode:
        found.append(Change(TOP, State(before[""].mode, 0, b""), State(after[""].mode, 0, b"")))
    return tuple(sorted(found, key=lambda change: change.path))


def _compare(before: Tree, after: Tree, path: str, then: Folder | None, now: Folder | None) -> Iterator[Change]:
    if (then is not None and then.closed) or (now is not None and now.closed):
        return
    names = {*(then.folders if then else ()), *(now.folders if now else ())}
    if then is not now:
        names |= {*(then.entries if then else ()), *(now.entries if now else ())}
    for name in names:
        inner = join(path, name)
        old, new = _state_in(before, then, inner, name), _state_in(after, now, inner, name)
        if old != new:
            yield Change(inner, old, new)
        if inner in before or inner in after:
            yield from _compare(before, after, inner, before.get(inner), after.get(inner))


def _state_in(tree: Tree, folder: Folder | None, path: str, name: str) -> State | None:
    if folder is None:
        return None
    entry = folder.entries.get(name)
    if entry is not None:
        return state_of(entry)
    inner = tree.get(path)
    if inner is None:
        return None
    return State(inner.mode, 0, b"", (1, inner.mtime_ns, inner.ctime_ns) if inner.closed else ())


def encode(tree: Tree) -> bytes:
    """Return the tree as bytes that `decode` takes."""
    head = []
    names: list[str] = []
    numbers = array("q")
    digests: list[bytes] = []
    for path, folder in tree.items():
        head.append((path, *folder[:9], len(folder.entries)))
        for name, entry in folder.entries.items():
            names.append(name)
            *fields, digest = entry
            numbers.extend(fields)
            digests.append(digest or _NOT_KEPT)
    parts = (json.dumps(head).encode(), os.fsencode("\0".join(names)), numbers.tobytes(), b"".join(digests))
    body = b"".join(parts)
    sizes = " ".join(str(len(part)) for part in parts)
    return b"%s %s %d\n%s" % (_MAGIC, sizes.encode(), zlib.crc32(body), body)


def _checked(folder: Folder) -> Folder:
    """Return `folder` if its fields are of their types. Raises ValueError."""
    *numbers, rules, patterns, closed, ignored, folders, entries = folder
    if not all(type(each) is int for each in (*numbers, ignored)) or not isinstance(patterns, (str, type(None))):
        raise ValueError
    if not all(isinstance(each, str) for each in (rules, closed, *folders)):
        raise ValueError
    if any("/" in name or name in ("", ".", "..") for name in (*folders, *entries)):
        raise ValueError
    os.fsencode("".join(folders)), (patterns or "").encode("latin-1")
    return folder


def decode(data: bytes) -> dict[str, Folder]:
    """Return the tree that `encode` made bytes of. Raises Damaged."""
    try:
        line, _, body = data.partition(b"\n")
        magic, *words = line.split(b" ")
        *sizes, checksum = map(int, words)
        if magic != _MAGIC or sum(sizes) != len(body) or zlib.crc32(body) != checksum:
            raise Damaged("the list of files is not whole")
        ends = [sum(sizes[: place + 1]) for place in range(4)]
        head = json.loads(body[: ends[0]])
        names = iter(os.fsdecode(body[ends[0] : ends[1]]).split("\0"))
        numbers = array("q", body[ends[1] : ends[2]])
        found = body[ends[2] :]
        digests = (found[at : at + DIGEST_BYTES] for at in range(0, len(found), DIGEST_BYTES))
        columns = (numbers[place::_NUMBERS] for place in range(_NUMBERS))
        kept = (b"" if digest == _NOT_KEPT else digest for digest in digests)
        entries = map(Entry._make, zip(*columns, kept, strict=True))
        tree = {}
        for path, *fields, folders, count in head:
            inner = {next(names): next(entries) for _ in range(count)}
            tree[path] = _checked(Folder._make((*fields, tuple(folders), inner)))
        if tree and "" not in tree:
            raise Damaged("the list of files has no beginning")
        return tree
    except (ValueError, TypeError, StopIteration, RecursionError) as error:
        raise error if isinstance(error, Damaged) else Damaged("the list of files cannot be read") from error
