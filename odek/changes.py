"""What changed, while odek ran, of the files that this machine trusts later (B55).

The working directory is looked through before and after, and the two looks are compared by what a
thing is (its inode, and for a file the time of its last change, which nobody inside a container can
set back). So a folder that was moved to another name shows, however old everything in it is.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from odek import trusted
from odek.text import clip, visible

MAX_FOLDERS = 3000  # for each look; a start must not wait for it, and 3000 folders of 20 files take 0.1 s
SLACK_NS = 100_000_000  # file systems stamp with a clock that lags by some ticks
_SHOWN = 12
_FIRST_LEVELS = 2
_NAMES = trusted.FILES | trusted.FOLDERS | {trusted.GIT}
_NAMES_IN_GIT = _NAMES | trusted.GIT_FILES | trusted.GIT_FOLDERS
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


def look(folder: str, *, now_ns: int) -> Look:
    """Return what counts in `folder`, an absolute path without links; a folder that cannot be listed counts as such.

    Links are followed where they stand for something that counts and lead to something in `folder`. Of a
    tree too large to look through, the folders nearest to the top are taken; those that count, before all
    others, or a flood of folders beside them would hide them.
    """
    found: dict[str, Mark] = {}
    first, others = deque([_Folder(path="")]), deque[_Folder]()
    for _ in range(MAX_FOLDERS):
        if not first and not others:
            break
        for below in _look_into((first or others).popleft(), folder, found):
            (first if below.goes_first else others).append(below)
    return Look(found=found, whole=not first and not others, taken_ns=now_ns)


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
    left_out = f"only {MAX_FOLDERS} folders were looked into, there are more now"
    if not paths:
        return f"not every file was looked at that this machine may trust later: {left_out}" if (
            before.whole and not after.whole
        ) else ""  # fmt: skip
    shown = ", ".join(clip(visible(path), 100) for path in paths[:_SHOWN])
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


def _look_into(here: _Folder, top: str, found: dict[str, Mark]) -> Iterator[_Folder]:
    """Put what counts in `here` into `found`, and yield the folders in it that are to be looked into."""
    try:
        with os.scandir(os.path.join(top, here.path)) as listing:
            entries = [(entry.name.casefold(), entry) for entry in listing]
    except PermissionError:
        # who knows the name of a file in it, as git and editors do, can open that all the same
        found.update((path or ".", _closed(mark)) for path, mark in _marked(here.path, top).items())
        return
    except OSError:
        return
    is_git = here.is_git or trusted.is_repository(frozenset(name for name, _ in entries))
    if is_git and here.path:  # a repository by any other name counts as well
        found.update(_marked(here.path, top))
    listed = _NAMES_IN_GIT if is_git else _NAMES
    passed_over = _PASSED_OVER | _PASSED_OVER_IN_GIT if is_git and here.path else _PASSED_OVER
    for name, entry in entries:
        is_named = name in listed
        if is_named or here.counts:
            found.update(_marked(_join(here.path, entry.name), top))
        level = here.level + is_named
        if name not in passed_over and _is_folder(entry, top, follow=is_named and level <= _FIRST_LEVELS):
            yield _Folder(
                path=_join(here.path, entry.name),
                is_git=name == trusted.GIT,
                counts=here.counts or name in trusted.FOLDERS or (is_git and name in trusted.GIT_FOLDERS),
                level=level,
                # spelt as listed: other spellings can be made without end, and so can folders in each other
                goes_first=is_named and entry.name == name and level <= _FIRST_LEVELS,
            )


def _join(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _is_folder(entry: os.DirEntry[str], top: str, *, follow: bool) -> bool:
    try:
        if entry.is_dir(follow_symlinks=False):
            return True
        return follow and entry.is_symlink() and entry.is_dir() and _is_inside(entry.path, top)
    except OSError:
        return False


def _marked(path: str, top: str) -> dict[str, Mark]:
    """Return the mark of what stands at `path`, by that; nothing when it is gone."""
    whole = os.path.join(top, path)
    try:
        status = os.lstat(whole)
    except OSError:
        return {}
    mark = _mark_of(status)
    if stat.S_ISLNK(status.st_mode) and _is_inside(whole, top):
        with suppress(OSError):  # it may lead nowhere
            target = _mark_of(os.stat(whole))
            mark = Mark(identity=(*mark.identity, *target.identity), ctime_ns=max(mark.ctime_ns, target.ctime_ns))
    return {path: mark}


def _mark_of(status: os.stat_result) -> Mark:
    # daily work inside of a folder changes its time
    when = () if stat.S_ISDIR(status.st_mode) else (status.st_ctime_ns,)
    return Mark(identity=(status.st_dev, status.st_ino, *when), ctime_ns=status.st_ctime_ns)


def _closed(mark: Mark) -> Mark:
    return replace(mark, identity=(*mark.identity, -1))


def _is_inside(path: str, top: str) -> bool:
    return os.path.realpath(path).startswith(top.rstrip("/") + "/")
