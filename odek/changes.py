"""What changed, while odek ran, of the files that this machine trusts later (B55).

The working directory is looked through before and after, and the two looks are compared by what a
thing is (its inode, and for a file the time of its last change, which nobody inside a container can
set back). So a folder that was moved to another name shows, however old everything in it is.

What runs in the working directory may exchange anything in it meanwhile. So every folder is opened by
a path that cannot lead out of it, and whatever the file system answers is a finding, not an error.
"""

from __future__ import annotations

import os
import posixpath
import stat
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from odek import gitconfig, trusted
from odek.safefile import Inside
from odek.text import truncate, visible

MAX_FOLDERS = 3000  # for each look; a start must not wait for it, and 3000 folders of 20 files take 0.1 s
SLACK_NS = 100_000_000  # file systems stamp with a clock that lags by some ticks
_SHOWN = 12
_FIRST_LEVELS = 2
_MAX_INCLUDES = 8
_IN_GIT = trusted.GIT_FILES | trusted.GIT_FOLDERS
_PASSED_OVER = frozenset(("node_modules", "__pycache__", ".venv", ".tox", ".cache"))
_PASSED_OVER_IN_GIT = trusted.GIT_DATA | {"lfs", "annex"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """What tells a thing from another one."""

    identity: tuple[int, ...]
    """device and inode; for what is no folder the time of its last change, too"""
    ctime_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """The files and folders that count, as they stood at one time."""

    found: Mapping[str, Mark]
    """by path, relative to the folder that was looked through"""
    whole: bool
    """False: there are more than MAX_FOLDERS folders, and some were left out"""
    taken_ns: int
    """wall-clock time before it began"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Folder:
    path: str
    """relative; "" is the first one"""
    is_git: bool = False
    counts: bool = False
    """whether every file in it does"""
    level: int = 0
    """names of the list on the way to it, its own included"""
    goes_first: bool = False


def look(folder: str, *, now_ns: int, since_ns: int | None = None, skipped: frozenset[str] = frozenset()) -> Look:
    """Return what counts in `folder`, an absolute path without links; a folder that cannot be listed counts as such.

    Links are followed where they stand for something that counts and lead to something in `folder`. Of a
    tree too large to look through, the folders nearest to the top are taken; those that count, before all
    others, or a flood of folders beside them would hide them. With `since_ns`, a wall-clock time, programs
    that run as their owner (setuid) and changed after it count as well. `skipped` are folders, relative to
    `folder`, that hold no files: a /proc that is mounted there has more folders than any tree.
    """
    try:
        inside = Inside(folder)
    except OSError:  # gone, or exchanged for a link: there is nothing to look at
        return Look(found={}, whole=True, taken_ns=now_ns)
    with inside:
        walk = _Look(inside=inside, top=folder.rstrip("/"), since_ns=since_ns, skipped=skipped)
        whole = walk.run()
    return Look(found=walk.found, whole=whole, taken_ns=now_ns)


def compare(before: Look, after: Look) -> tuple[str, ...]:
    """Return, sorted, the paths that changed: made, replaced, written or gone. Pure.

    A folder that was put there stands for all that is in it.
    """
    changed = {path for path, mark in after.found.items() if _is_new(path, mark, before)}
    if after.whole:
        changed |= before.found.keys() - after.found.keys()
    return tuple(sorted(path for path in changed if changed.isdisjoint(_folders_above(path))))


def describe(before: Look, after: Look) -> str:
    """Return the sentence for the user, "" when there is nothing to say. Pure."""
    paths = compare(before, after)
    left_out = f"only {MAX_FOLDERS} folders were looked into, there are more{' now' if before.whole else ''}"
    if not paths:
        return "" if after.whole else f"not every file was looked at that this machine may trust later: {left_out}"
    shown = ", ".join(truncate(visible(path), 100) for path in paths[:_SHOWN])
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    rest = "" if after.whole else f" ({left_out})"
    return f"files changed that this machine may run or trust later: {shown}{more}{rest}"


def _is_new(path: str, mark: Mark, before: Look) -> bool:
    if path in before.found:
        return before.found[path].identity != mark.identity
    return before.whole or mark.ctime_ns >= before.taken_ns - SLACK_NS


def _folders_above(path: str) -> Iterator[str]:
    while path := path.rpartition("/")[0]:
        yield path


@dataclass(slots=True, kw_only=True)
class _Look:
    """One look, under way."""

    inside: Inside
    top: str
    since_ns: int | None
    skipped: frozenset[str]
    found: dict[str, Mark] = field(default_factory=dict)
    includes: int = 0

    def run(self) -> bool:
        """Look into one folder after the other; return whether all were."""
        first, others = deque([_Folder(path="")]), deque[_Folder]()
        for _ in range(MAX_FOLDERS):
            if not first and not others:
                break
            for below in self._look_into((first or others).popleft()):
                (first if below.goes_first else others).append(below)
        return not first and not others

    def _look_into(self, here: _Folder) -> Iterator[_Folder]:
        """Add what counts in `here`, and yield the folders in it that are to be looked into."""
        try:
            descriptor = self.inside.open_folder(here.path)
        except (FileNotFoundError, NotADirectoryError):  # gone meanwhile
            return
        except OSError:
            # who knows the name of a file in it, as git and editors do, can open that all the same
            self.found.update((path or ".", _closed(mark)) for path, mark in self._marked(here.path).items())
            return
        try:
            yield from self._look_at(here, descriptor)
        except OSError:
            self.found.update((path or ".", _closed(mark)) for path, mark in self._marked(here.path).items())
        finally:
            os.close(descriptor)

    def _look_at(self, here: _Folder, descriptor: int) -> Iterator[_Folder]:
        with os.scandir(descriptor) as listing:
            entries = [(entry.name.casefold(), entry) for entry in listing]
        is_git = here.is_git or trusted.is_repository(frozenset(name for name, _ in entries))
        if is_git and here.path:  # a repository by any other name counts as well
            self.found.update(self._marked(here.path))
        passed_over = _PASSED_OVER | _PASSED_OVER_IN_GIT if is_git and here.path else _PASSED_OVER
        above = here.path.casefold()
        for name, entry in entries:
            is_named = trusted.may_count(name) and (
                trusted.is_named(name)
                or name == trusted.GIT
                or name in trusted.HOLDERS
                or (is_git and name in _IN_GIT)
                or trusted.is_tail(_join(above, name))
            )
            if is_named or here.counts:
                self.found.update(self._marked(_join(here.path, entry.name)))
            elif self.since_ns is not None:
                self._look_at_rights(here.path, entry)
            if is_named and is_git and name in trusted.GIT_FILES:
                yield from self._named_by(_join(here.path, entry.name), worktree=_worktree(here.path), depth=0)
            level = here.level + is_named
            path = _join(here.path, entry.name)
            if (
                name not in passed_over
                and path not in self.skipped
                and self._is_folder(entry, here.path, follow=is_named and level <= _FIRST_LEVELS)
            ):
                yield _Folder(
                    path=path,
                    is_git=name == trusted.GIT,
                    counts=here.counts
                    or (is_named and (trusted.is_folder(name) or trusted.is_tail(_join(above, name))))
                    or (is_git and name in trusted.GIT_FOLDERS),
                    level=level,
                    # spelt as listed: other spellings can be made without end, and so can folders in each other
                    goes_first=is_named and entry.name == name and level <= _FIRST_LEVELS,
                )

    def _look_at_rights(self, folder: str, entry: os.DirEntry[str]) -> None:
        """Add a program that runs as its owner or group, if it became one since the start."""
        assert self.since_ns is not None
        try:
            if not entry.is_file(follow_symlinks=False):
                return
            status = entry.stat(follow_symlinks=False)
        except OSError:
            return
        if status.st_mode & (stat.S_ISUID | stat.S_ISGID) and status.st_ctime_ns >= self.since_ns - SLACK_NS:
            self.found[_join(folder, entry.name)] = _mark_of(status)

    def _named_by(self, config: str, *, worktree: str, depth: int) -> Iterator[_Folder]:
        """Add what a file of git's settings names in the folder, and yield the folders of it."""
        try:
            text = self.inside.read(config, limit_bytes=gitconfig.LIMIT_BYTES).decode("utf-8", "surrogateescape")
        except OSError:
            return
        for word in gitconfig.named(text):
            for base in dict.fromkeys((worktree, posixpath.dirname(config))):
                path = self._within(word, base)
                # the folder of a whole checkout is no finding: `core.hooksPath = .`
                marks = self._marked(path) if path else {}
                if marks and path not in self.found:
                    self.found.update(marks)
                    yield _Folder(path=path, counts=True, level=_FIRST_LEVELS, goes_first=True)
        for word in gitconfig.included(text):
            path = self._within(word, posixpath.dirname(config))
            if path and depth < _MAX_INCLUDES and self.includes < _MAX_INCLUDES:
                self.includes += 1
                yield from self._named_by(path, worktree=worktree, depth=depth + 1)

    def _within(self, word: str, base: str) -> str:
        """Return the path of what git's settings call `word`, relative to the top; "" when that is outside."""
        if word.startswith("/"):
            path = posixpath.normpath(word)
            return path[len(self.top) + 1 :] if path.startswith(self.top + "/") else ""
        path = posixpath.normpath(_join(base, word))
        return "" if path == "." or path.startswith("../") or path == ".." else path

    def _is_folder(self, entry: os.DirEntry[str], folder: str, *, follow: bool) -> bool:
        try:
            if entry.is_dir(follow_symlinks=False):
                return True
            if not follow or not entry.is_symlink():
                return False
            return stat.S_ISDIR(self.inside.status(_join(folder, entry.name), follow=True).st_mode)
        except OSError:
            return False

    def _marked(self, path: str) -> dict[str, Mark]:
        """Return the mark of what stands at `path`, by that; nothing when it is gone."""
        try:
            status = self.inside.status(path)
        except OSError:
            return {}
        mark = _mark_of(status)
        if stat.S_ISLNK(status.st_mode):
            try:
                target = _mark_of(self.inside.status(path, follow=True))
            except OSError:  # it may lead nowhere, out of the folder, or round
                return {path: mark}
            mark = Mark(identity=(*mark.identity, *target.identity), ctime_ns=max(mark.ctime_ns, target.ctime_ns))
        return {path: mark}


def _worktree(git: str) -> str:
    """Return the folder whose repository is `git`, as paths in its settings mean it."""
    return posixpath.dirname(git) if posixpath.basename(git).casefold() == trusted.GIT else git


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _mark_of(status: os.stat_result) -> Mark:
    # daily work inside of a folder changes its time
    when = () if stat.S_ISDIR(status.st_mode) else (status.st_ctime_ns,)
    return Mark(identity=(status.st_dev, status.st_ino, *when), ctime_ns=status.st_ctime_ns)


def _closed(mark: Mark) -> Mark:
    return replace(mark, identity=(*mark.identity, -1))
