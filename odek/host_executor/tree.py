"""Looking into folders of a workspace on the host, without leaving it.

As in files.py, every folder is opened relative to the one before and never through a link, so a
tree that changes meanwhile leads nowhere else (R-44).
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice

from odek.cancel import current_token
from odek.errors import FileAccessDenied
from odek.executor import DirScan, Entry, Kind, ScanOptions, kind_of, sorted_entries
from odek.host_executor.files import PathWalk, access_reason
from odek.text import visible

_SCAN_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_MAX_PROBLEMS = 20


class WorkspaceTree:
    """Lists what is below one folder."""

    def __init__(self, root: str, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Look below `root` (absolute, links resolved)."""
        self._root = root
        self._clock = clock

    def stat(self, path: str) -> Entry:
        """Return what is at `path`, a link as a link. Raises FileAccessDenied."""
        with self._end_of(path, follow=False) as (walk, name):
            return _entry(walk.path if name is None else walk.place_of(name), _status(walk, name))

    def walk(self, path: str, how: ScanOptions) -> DirScan:
        """Return `path` and what lies below it; see executor.Executor. Raises FileAccessDenied."""
        with self._end_of(path, follow=True) as (walk, name):
            status = _status(walk, name)
            place = walk.path if name is None else walk.place_of(name)
            top = _entry(place, status)
            if top.kind != "folder" or how.depth < 1:
                return DirScan(top=top)
            if name is not None:
                walk.enter(name)
            scan = _Scan(how, self._clock() + how.timeout_s, self._clock)
            scan.visit(os.open(".", _SCAN_FLAGS, dir_fd=walk.folder), place, 1)
        return DirScan(
            top=top,
            entries=sorted_entries(scan.entries),
            complete=scan.complete,
            problems=tuple(scan.problems[:_MAX_PROBLEMS]),
        )

    @contextmanager
    def _end_of(self, path: str, *, follow: bool) -> Iterator[tuple[PathWalk, str | None]]:
        shown = f'"{visible(path)}"'
        walk = PathWalk(self._root, shown, create=False)
        try:
            yield walk, walk.to_end(path, follow=follow)
        except OSError as error:
            raise FileAccessDenied(f"{shown} {access_reason(error)}") from error
        finally:
            walk.close()


class _Scan:
    """One walk: what it has found, and whether it may go on."""

    def __init__(self, how: ScanOptions, deadline: float, clock: Callable[[], float]) -> None:
        self.entries: list[Entry] = []
        self.problems: list[str] = []
        self.complete = True
        self._how = how
        self._deadline = deadline
        self._clock = clock

    def visit(self, descriptor: int, place: str, depth: int) -> None:
        """Collect what is in the open folder `descriptor`, which is closed in the end."""
        try:
            for entry in self._read(descriptor, place):
                if entry.kind == "folder" and depth < self._how.depth and not self._how.passes_over(entry.name):
                    self._descend(descriptor, entry, depth)
        finally:
            os.close(descriptor)

    def _descend(self, descriptor: int, entry: Entry, depth: int) -> None:
        try:
            inner = os.open(entry.name, _SCAN_FLAGS, dir_fd=descriptor)
        except OSError as error:
            self.problems.append(f'"{visible(entry.path)}" {access_reason(error)}')
            return
        self.visit(inner, entry.path, depth + 1)

    def _read(self, descriptor: int, place: str) -> list[Entry]:
        """Return the entries of one folder, as far as the limits allow, sorted by name."""
        current_token().raise_if_cancelled()
        room = self._how.count - len(self.entries)
        if room <= 0 or self._clock() > self._deadline:
            self.complete = False
            return []
        with os.scandir(descriptor) as listed:
            found = list(islice(listed, room + 1))
            if len(found) > room:
                self.complete = False
                found.pop()
            entries = [entry for item in found if (entry := _listed(item, place)) is not None]
        self.entries += entries
        return sorted(entries, key=lambda entry: entry.name)


def _listed(item: os.DirEntry[str], place: str) -> Entry | None:
    try:
        status = item.stat(follow_symlinks=False)
    except OSError:  # gone meanwhile
        return None
    return _entry(f"{place}/{item.name}" if place else item.name, status)


def _status(walk: PathWalk, name: str | None) -> os.stat_result:
    return os.fstat(walk.folder) if name is None else os.stat(name, dir_fd=walk.folder, follow_symlinks=False)


def _entry(path: str, status: os.stat_result) -> Entry:
    kind: Kind = kind_of(status.st_mode)
    return Entry(
        path=path,
        kind=kind,
        mode=stat.S_IMODE(status.st_mode),
        size_bytes=status.st_size,
        mtime_s=int(status.st_mtime),
    )
