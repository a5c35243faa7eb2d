"""Which files git tracks, by its index and without git (gitformat-index(5)): they count though a pattern ignores them.

The index is the project's: what is not understood of it counts as nothing, and its size is bounded.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

from odek import safefile

_INDEX_BYTES = 64 << 20
_MOST = 200_000
_PATH_BYTES = 4096
_PATHS_BYTES = 64 << 20
"""of all paths together: in version 4 a few bytes say a long one"""
_STAT_BYTES = 40
_DIGESTS = (20, 32)
"""bytes of SHA-1 and SHA-256; the index does not say which"""


@dataclass(slots=True)
class Tracked:
    """The files that git tracks in a folder of a checkout; the index is read when it is first asked about one."""

    path: str = ""
    """of the index; "" for none"""
    inner: str = ""
    """the folder's path in the checkout, "" for the checkout itself"""
    _names: list[bytes] | None = field(default=None)
    """the files by their paths in the folder, sorted; not their folders, which may be a thousand times as many"""

    @property
    def stamp(self) -> str:
        """tells one state of the index from another"""
        try:
            status = os.stat(self.path)
        except (OSError, ValueError):  # a NUL in it
            return ""
        return f"{status.st_mtime_ns:x}-{status.st_size:x}-{status.st_ino:x}"

    def holds(self, path: str) -> bool:
        """Return whether git tracks the file `path`, or one in the folder `path`."""
        if self._names is None:
            self._names = sorted(self._read())
        name = os.fsencode(path)
        inside = name + b"/"
        return self._from(name) == name or self._from(inside).startswith(inside)

    def _from(self, name: bytes) -> bytes:
        """Return the first path that does not come before `name`."""
        assert self._names is not None
        place = bisect_left(self._names, name)
        return self._names[place] if place < len(self._names) else b""

    def _read(self) -> list[bytes]:
        try:
            data = safefile.read_regular(self.path, limit_bytes=_INDEX_BYTES) if self.path else b""
        except OSError:
            return []
        before = os.fsencode(self.inner) + b"/" if self.inner else b""
        return [path[len(before) :] for path in read_index(data) if path.startswith(before)]


def tracked_in(folder: str, checkout: str) -> Tracked:
    """Return what git tracks in `folder`, which is in `checkout` or the same."""
    git = os.path.join(checkout, ".git")
    try:  # of a worktree or submodule
        kind, _, place = safefile.read_regular(git, limit_bytes=4096).rstrip(b"\r\n").partition(b": ")
        git = os.path.join(checkout, os.fsdecode(place)) if kind == b"gitdir" else git
    except OSError:
        pass
    inner = os.path.relpath(folder, checkout)
    return Tracked(os.path.join(git, "index"), "" if inner == "." else inner)


def read_index(data: bytes) -> tuple[bytes, ...]:
    """Return the paths in git's index, none where it is not one, or too large. Pure."""
    version, count = int.from_bytes(data[4:8], "big"), int.from_bytes(data[8:12], "big")
    if data[:4] != b"DIRC" or version not in (2, 3, 4) or count > _MOST:
        return ()
    for size in _DIGESTS:
        try:
            return tuple(_paths(data, version, count, _STAT_BYTES + size))
        except (ValueError, IndexError):
            continue
    return ()


def _paths(data: bytes, version: int, count: int, flags: int) -> Iterator[bytes]:
    """Yield the paths; `flags` is the place of an entry's flags in it. Raises ValueError and IndexError."""
    at, before, size = 12, b"", 0
    for _ in range(count):
        start = at
        at += flags + (4 if data[at + flags] & 0x40 else 2)  # with further flags, or without
        kept = b""
        if version == 4:
            dropped, at = _number(data, at)
            if dropped > len(before):
                raise ValueError
            kept = before[: len(before) - dropped]
        end = data.index(b"\0", at)
        path = kept + data[at:end]
        size += len(path)
        if len(path) > _PATH_BYTES or size > _PATHS_BYTES:  # each may be longer than the one before
            raise ValueError
        if path <= before and data[start + flags] & 0x30 == 0:  # sorted, but for the sides of a conflict
            raise ValueError
        yield path
        before = path
        at = end + 1 if version == 4 else start + ((end - start + 8) & ~7)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a place, and the place behind it."""
    value = data[at] & 127
    while data[at] & 128:
        at += 1
        value = (value + 1 << 7) + (data[at] & 127)
        if value > 1 << 20:
            raise ValueError
    return value, at + 1
