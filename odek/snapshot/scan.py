"""Looks at the files of a project: what is as it was last time is not read again.

The project is hostile, and at work meanwhile: every folder is opened by its name in an open folder and through no link,
only regular files are opened, and what vanishes while it is looked at was not there.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field

from odek import safefile
from odek.snapshot.doors import Doors, open_file
from odek.snapshot.ignore import IgnoreRules, parse_patterns
from odek.snapshot.tracked import Tracked
from odek.snapshot.tree import Entry, Folder, Tree, join, state_of

TEMPORARY = ".odek-undo-"
"""beginning of the names under which an undo keeps files for a moment"""
PATTERNS = ".gitignore"
MAX_INODE = 0x7FFF_FFFF_FFFF_FFFF
"""of what is noted, whatever a file system takes"""
_GIT = ".git"
_MAX_DEPTH = 100
_MAX_PATTERN_BYTES = 256 << 10
_COARSE_NS, _FINE_NS = 2_000_000_000, 50_000_000
"""how far a file system's clock may be behind, by whether its times have full milliseconds only"""


class TooManyFiles(Exception):
    """There are more files than are looked at."""


class _NotSearchable(PermissionError):
    """What is in a folder cannot be looked at, whether its names can be read or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What of a project is kept."""

    file_bytes: int
    total_bytes: int
    files: int = 200_000


@dataclass(slots=True)
class Scan:
    """One look at a project. `put` keeps a content; `watch` is called now and then, and may raise to end it."""

    put: Callable[[bytes, bytes], None]
    limits: Limits
    now_ns: int
    """when it begins, by the clock of the files"""
    watch: Callable[[Scan], None] = lambda _: None
    doors: Doors = field(default_factory=Doors)
    tracked: Tracked = field(default_factory=Tracked)
    """what git tracks of the project: looked at before a turn although it is ignored; later the same is looked at"""
    files: int = 0
    read_bytes: int = 0
    _tree: dict[str, Folder] = field(default_factory=dict)
    _cache: Tree = field(default_factory=dict)
    _known: Tree | None = None
    _index: str = ""
    """the state of git's index, which is noted with the rules of the project's folder"""
    _is_stale: bool = False
    """whether git tracked other files at the look before"""
    _device: int = 0
    _kept_bytes: int = 0

    def run(self, top: int, *, cache: Tree, rules: IgnoreRules, known: Tree | None = None) -> dict[str, Folder]:
        """Return the tree of the open folder `top`; `rules` are those around it.

        `cache` is an earlier look. With `known`, the look before the turn, what was in it is never ignored, and
        what git ignored then is not looked at now either: it was there before. Raises OSError and TooManyFiles.
        """
        self._cache, self._known = cache, known
        self._device = os.fstat(top).st_dev
        self._index = self.tracked.stamp if known is None else known[""].rules.partition("@")[2]
        self._is_stale = "" in cache and cache[""].rules.partition("@")[2] != self._index
        self._kept_bytes = sum(entry.size for folder in cache.values() for entry in folder.entries.values() if entry[5])
        self._enter(top, "", rules, rules, "", is_ignored=False)
        return self._tree

    def _enter(
        self, folder: int, path: str, now: IgnoreRules, then: IgnoreRules, key: str, *, is_ignored: bool
    ) -> None:
        """Look at an open folder; `then` are the rules as they were in `known`."""
        self.watch(self)
        status = os.fstat(folder)
        old = self._cache.get(path)
        stamp = (self.doors.mode_of(status), status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        is_same = old is not None and not old.closed and old[:4] == stamp
        names = None if is_same else _names(folder)
        has_patterns = PATTERNS in (old.entries if names is None and old else names or ())
        text = self._read_patterns(folder) if has_patterns else None
        known = self._known.get(path) if self._known is not None else None
        before = known.patterns if known is not None else text
        if text or before:
            key = hashlib.sha256(f"{key}\0{text}\0{before}".encode("latin-1")).hexdigest()[:16]
            now, then = (IgnoreRules(parse_patterns((each or "").encode("latin-1")), outer)
                         for each, outer in ((text, now), (before, then)))  # fmt: skip
        noted = key if path else f"{key}@{self._index}"
        is_current = old is not None and old.rules == noted and not (self._is_stale and old.ignored)
        made = self._again(folder, old) if old is not None and names is None and is_current else None
        if made is None:
            made = self._list(folder, path, names or _names(folder), now, then, known, is_ignored=is_ignored)
            racy = self._is_racy(status)
            made = made._replace(mode=stamp[0], mtime_ns=stamp[1], ctime_ns=0 if racy else stamp[2], inode=stamp[3],
                                 rules=noted, patterns=text)  # fmt: skip
        self._tree[path] = made
        for name in made.folders:
            self._descend(folder, path, name, now, then, key, is_ignored=is_ignored)

    def _descend(
        self, parent: int, path: str, name: str, now: IgnoreRules, then: IgnoreRules, key: str, *, is_ignored: bool
    ) -> None:
        inner = join(path, name)
        status = None
        try:
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if not stat.S_ISDIR(status.st_mode):
                return  # exchanged; the next look sees it
            reason = "on another file system" if status.st_dev != self._device else ""
            reason = "too deep" if path.count("/") >= _MAX_DEPTH else reason
            folder = -1 if reason else self._open(name, parent, inner)
        except FileNotFoundError:
            return
        except OSError as error:
            if status is None and isinstance(error, PermissionError):
                raise _NotSearchable(*error.args) from error
            if status is None:
                return
            reason, folder = f"cannot be read: {error.strerror}", -1
        times = (0, 0) if folder >= 0 or not reason.startswith("cannot") else (status.st_mtime_ns, status.st_ctime_ns)
        closed = Folder(status.st_mode, *times, status.st_ino, key, None, reason, 0, (), {})
        if folder < 0:
            self._tree[inner] = closed
            return
        try:
            raw = os.fsencode(name)
            hidden = is_ignored or now.ignores(raw, is_folder=True) or then.ignores(raw, is_folder=True)
            self._enter(folder, inner, now.enter(raw), then.enter(raw), key, is_ignored=hidden)
        except _NotSearchable as error:
            self._tree[inner] = closed._replace(closed=f"cannot be read: {error.strerror}")
        finally:
            os.close(folder)

    def _open(self, name: str, parent: int, path: str) -> int:
        """Return a descriptor of a folder: one that a turn has closed is opened for the look, no other."""
        then = self._known.get(path) if self._known is not None else None
        if self._known is None or (then is not None and then.closed):
            return os.open(name, safefile.FOLDER_FLAGS, dir_fd=parent)
        return self.doors.open(name, parent)

    def _again(self, folder: int, old: Folder) -> Folder | None:
        """Return a folder whose names and rules are as they were; None: it is to be listed."""
        changed: dict[str, Entry] = {}
        look = os.stat
        try:
            for name, entry in old.entries.items():
                now = look(name, dir_fd=folder, follow_symlinks=False)
                if (
                    entry[2] != now.st_mtime_ns
                    or entry[3] != now.st_ctime_ns
                    or entry[4] != now.st_ino
                    or entry[0] != now.st_mode
                    or entry[1] != now.st_size
                    or (not entry[5] and self._could_be_kept(now))
                ):
                    changed[name] = self._look(folder, name, now, entry)
        except FileNotFoundError:
            return None
        except PermissionError as error:
            raise _NotSearchable(*error.args) from error
        self._count(len(old.entries))
        if all(old.entries[name] == entry for name, entry in changed.items()):
            return old
        return old._replace(entries={**old.entries, **changed})

    def _list(
        self,
        folder: int,
        path: str,
        names: dict[str, bool],
        now: IgnoreRules,
        then: IgnoreRules,
        known: Folder | None,
        *,
        is_ignored: bool,
    ) -> Folder:
        entries: dict[str, Entry] = {}
        folders: list[str] = []
        ignored = 0
        old = self._cache.get(path)
        for name, is_folder in names.items():
            self.watch(self)  # the patterns are many, and the project's
            if name == _GIT or name.startswith(TEMPORARY):
                continue
            if known is None or not (name in known.entries or name in known.folders):
                raw = os.fsencode(name)
                ignores = is_ignored or now.ignores(raw, is_folder=is_folder) or then.ignores(raw, is_folder=is_folder)
                if ignores and (self._known is not None or not self.tracked.holds(join(path, name))):
                    ignored += 1
                    continue
            if is_folder:
                folders.append(name)
                continue
            try:
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except FileNotFoundError:
                continue
            except PermissionError as error:
                raise _NotSearchable(*error.args) from error
            entries[name] = self._look(folder, name, status, old.entries.get(name) if old else None)
        self._count(len(entries) + 1)
        return Folder(0, 0, 0, 0, "", None, "", ignored, tuple(folders), entries)

    def _look(self, folder: int, name: str, status: os.stat_result, old: Entry | None) -> Entry:
        """Return the entry of something that is new or may have changed."""
        stamp = (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ctime_ns, _inode(status))
        if old is not None and old[:5] == stamp and (old.digest or not self._could_be_kept(status)):
            return old
        self.watch(self)
        self._kept_bytes -= old.size if old is not None and old.digest else 0
        digest, is_settled = b"", True
        if stat.S_ISLNK(status.st_mode):
            digest = self._keep_link(folder, name)
        elif self._could_be_kept(status):
            digest, status, is_settled = self._keep_file(folder, name, status, old)
        is_certain = not digest or (is_settled and not self._is_racy(status))
        ctime_ns = status.st_ctime_ns if is_certain else 0
        return Entry(status.st_mode, status.st_size, status.st_mtime_ns, ctime_ns, _inode(status), digest)

    def _could_be_kept(self, status: os.stat_result) -> bool:
        limits = self.limits
        is_small = status.st_size <= min(limits.file_bytes, limits.total_bytes - self._kept_bytes)
        return is_small and stat.S_ISREG(status.st_mode)

    def _keep_link(self, folder: int, name: str) -> bytes:
        try:
            target = os.fsencode(os.readlink(name, dir_fd=folder))
        except OSError:
            return b""
        return self._keep(target)

    def _keep_file(
        self, folder: int, name: str, status: os.stat_result, old: Entry | None
    ) -> tuple[bytes, os.stat_result, bool]:
        """Return what the content is called, b"" where it cannot be read, its status, and whether it stood still."""
        was_closed = self._known is None or (old is not None and not old.digest)
        try:
            descriptor = safefile.open_regular(name, dir_fd=folder) if was_closed else open_file(name, folder)
        except OSError:
            return b"", status, False
        try:
            status = os.fstat(descriptor)
            data = safefile.read_limited(descriptor, self.limits.file_bytes)
            after = os.fstat(descriptor)
        except OSError:
            return b"", status, False
        finally:
            os.close(descriptor)
        seen = (status.st_mtime_ns, status.st_ctime_ns, status.st_size)
        return self._keep(data), status, seen == (after.st_mtime_ns, after.st_ctime_ns, len(data))

    def _keep(self, data: bytes) -> bytes:
        digest = hashlib.sha256(data).digest()
        self.put(digest, data)
        self._kept_bytes += len(data)
        self.read_bytes += len(data)
        return digest

    def _count(self, files: int) -> None:
        self.files += files
        if self.files > self.limits.files:
            raise TooManyFiles

    def _is_racy(self, status: os.stat_result) -> bool:
        newest = max(status.st_mtime_ns, status.st_ctime_ns)
        return newest >= self.now_ns - (_FINE_NS if status.st_ctime_ns % 1_000_000 else _COARSE_NS)

    def _read_patterns(self, folder: int) -> str | None:
        try:
            return safefile.read_regular(PATTERNS, dir_fd=folder, limit_bytes=_MAX_PATTERN_BYTES).decode("latin-1")
        except OSError:
            return None


def _inode(status: os.stat_result) -> int:
    return status.st_ino & MAX_INODE


def _names(folder: int) -> dict[str, bool]:
    """Return the names in an open folder, sorted, each with whether it is a folder."""
    with os.scandir(folder) as found:
        return dict(sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in found))


def not_kept(tree: Tree, limits: Limits) -> tuple[tuple[str, str], ...]:
    """Return the paths that cannot be brought back, each with the reason."""
    found = [(path, folder.closed) for path, folder in tree.items() if folder.closed]
    for path, folder in tree.items():
        for name, entry in folder.entries.items():
            if not state_of(entry).is_kept:
                found.append((join(path, name), _reason(entry, limits)))
    return tuple(sorted(found))


def _reason(entry: Entry, limits: Limits) -> str:
    if not stat.S_ISREG(entry.mode):
        return "not a regular file"
    if entry.size > limits.file_bytes:
        return f"larger than {limits.file_bytes >> 20} MB"
    return f"over {limits.total_bytes >> 20} MB in all, or not readable"
