"""Takes changes back, or makes them again, in a project that others may be changing at the same time.

A path is touched only if it is as it was left. It is moved aside, looked at there, where nothing can exchange it any
more, and what takes its place is linked to the name, which fails where there is something by then. So nothing that
another program wrote is written over, and no link that is put in the way is followed: every folder is opened by its
name in an open folder.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from odek import safefile
from odek.snapshot.doors import Doors, open_file
from odek.snapshot.scan import MAX_INODE, TEMPORARY
from odek.snapshot.store import NO_LINKS
from odek.snapshot.tree import TOP, Change, Damaged, State

_OWNER_MAY = 0o700
CHANGED = "changed since"
NOT_KEPT = "its content was not kept"
WOULD_BE_LOST = "its content was not kept, so it would be lost"
FULL_FOLDER = "not empty"


class _Conflict(Exception):
    """A path is not as it was left, for this reason; CHANGED unless given."""


@dataclass(slots=True)
class Plan:
    """What an undo would do."""

    todo: list[Change] = field(default_factory=list)
    """from what is there now to what shall be"""
    left: list[tuple[str, str]] = field(default_factory=list)
    """paths that cannot be touched, each with the reason"""


def make_plan(top: int, changes: Sequence[Change], *, file_bytes: int, doors: Doors) -> Plan:
    """Look at what the paths of `changes` are now; each `before` is what should be there, `after` what is wanted.

    What is as it is wanted already is left out.
    """
    plan = Plan()
    for change in changes:
        if _was_closed(change.before) and _was_closed(change.after):
            plan.left.append((change.path, NOT_KEPT))
            continue
        try:
            now = look(top, change.path, file_bytes=file_bytes, doors=doors)
        except OSError as error:  # a folder on the way that cannot be searched
            plan.left.append((change.path, (error.strerror or "it cannot be looked at").lower()))
            continue
        if _is_same(now, change.after):
            continue
        if not _is_same(now, change.before):
            plan.left.append((change.path, CHANGED))
        elif change.after is not None and not change.after.is_kept:
            plan.left.append((change.path, NOT_KEPT))
        elif change.before is not None and not change.before.is_kept:
            plan.left.append((change.path, WOULD_BE_LOST))
        else:
            plan.todo.append(change)
    for change in [each for each in plan.todo if _is_folder(each.before) and each.after is None]:
        if any(path.startswith(f"{change.path}/") for path, _ in plan.left):
            plan.todo.remove(change)
            plan.left.append((change.path, FULL_FOLDER))
    plan.left.sort()
    return plan


def _is_folder(state: State | None) -> bool:
    return state is not None and state.is_folder


def _was_closed(state: State | None) -> bool:
    """Return whether it was a folder that was not looked into."""
    return state is not None and state.is_folder and not state.is_kept


def _is_same(one: State | None, other: State | None) -> bool:
    return one is other is None or (
        one is not None and other is not None and (one.mode, one.digest) == (other.mode, other.digest)
        and (bool(one.digest) or one.is_folder or one.stamp == other.stamp)
    )  # fmt: skip


def look(top: int, path: str, *, file_bytes: int, doors: Doors) -> State | None:
    """Return what is at `path` now, None for nothing, also where something else than a folder is on the way."""
    try:
        with _parent(top, path, doors) as (folder, name):
            return _state_at(folder, name, file_bytes, doors)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise


def _state_at(folder: int, name: str, file_bytes: int, doors: Doors) -> State:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    stamp = (status.st_mtime_ns, status.st_ctime_ns, status.st_ino & MAX_INODE)
    if stat.S_ISDIR(status.st_mode):
        return State(doors.mode_of(status), 0, b"")
    data = content_at(folder, name, status, file_bytes=file_bytes)
    if data is None:
        return State(status.st_mode, status.st_size, b"", stamp)
    return State(status.st_mode, len(data), hashlib.sha256(data).digest())


def content_at(folder: int, name: str, status: os.stat_result, *, file_bytes: int) -> bytes | None:
    """Return what a file of `status` holds, or a link says; None: it cannot be read, or is something else by now.

    Raises FileNotFoundError.
    """
    try:
        if stat.S_ISLNK(status.st_mode):
            return os.fsencode(os.readlink(name, dir_fd=folder))
        if stat.S_ISREG(status.st_mode) and status.st_size <= file_bytes:
            descriptor = open_file(name, folder)
            try:
                return safefile.read_limited(descriptor, file_bytes)
            finally:
                os.close(descriptor)
    except FileNotFoundError:
        raise
    except OSError:
        pass
    return None


@contextmanager
def _parent(top: int, path: str, doors: Doors) -> Iterator[tuple[int, str]]:
    """Yield the open folder of `path`, and its name there. Raises OSError."""
    *folders, name = path.split("/")
    descriptor = os.dup(top)
    try:
        for part in folders:
            inner = doors.open(part, descriptor)
            os.close(descriptor)
            descriptor = inner
        yield descriptor, name
    finally:
        os.close(descriptor)


@dataclass(slots=True)
class Restorer:
    """Carries a plan out. `get` gives the content of a state, and raises Damaged where it is lost."""

    top: int
    get: Callable[[State], bytes]
    file_bytes: int
    mark: str
    """of this undo, in the names of the files that it keeps for a moment"""
    doors: Doors = field(default_factory=Doors)
    done: list[Change] = field(default_factory=list)
    left: list[tuple[str, str]] = field(default_factory=list)
    _failed: set[str] = field(default_factory=set)
    _opened: dict[str, int] = field(default_factory=dict)
    """folders that were made writable, and their modes"""

    def run(self, changes: Sequence[Change]) -> None:
        """Make each path what it shall be; what fails is in `left`, and the others are in `done`."""
        todo = list(enumerate(sorted(changes, key=lambda change: change.path)))
        files = [each for each in todo if not _is_folder(each[1].before)]
        folders = [each for each in todo if _is_folder(each[1].before)]
        for place, change in files:  # those that go, or make room for a folder
            if change.before is not None and (change.after is None or change.after.is_folder):
                self._try(change, self._remove, place, is_last=change.after is None)
        for place, change in reversed(folders):  # the innermost first
            if not _is_folder(change.after):
                self._try(change, self._remove_folder, place, is_last=change.after is None)
        for place, change in files:  # the outermost first
            if _is_folder(change.after):
                self._try(change, self._make_folder, place, is_last=True)
        for place, change in todo:
            if change.after is not None:
                act = self._put if not change.after.is_folder else self._set_folder_mode
                if not change.after.is_folder or _is_folder(change.before):
                    self._try(change, act, place, is_last=True)
        self._close_folders()

    def _try(self, change: Change, act: Callable[[Change, int], None], place: int, *, is_last: bool) -> None:
        if change.path in self._failed:
            return
        try:
            act(change, place)
        except _Conflict as error:
            self._fail(change, str(error) or CHANGED)
        except Damaged as error:
            self._fail(change, str(error))
        except OSError as error:
            reason = {errno.ENOTEMPTY: FULL_FOLDER, errno.EEXIST: CHANGED, errno.ENOENT: CHANGED}
            self._fail(change, reason.get(error.errno or 0, (error.strerror or "failed").lower()))
        else:
            self.done += [change] if is_last else []

    def _fail(self, change: Change, reason: str) -> None:
        self.left.append((change.path, reason))
        self._failed.add(change.path)

    @contextmanager
    def _at(self, path: str) -> Iterator[tuple[int, str]]:
        """Yield the open folder of `path`, in which files can be made, and the name there."""
        with _parent(self.top, path, self.doors) as (folder, name):
            mode = os.fstat(folder).st_mode
            if mode & _OWNER_MAY != _OWNER_MAY:
                self._opened.setdefault(path.rpartition("/")[0] or TOP, stat.S_IMODE(mode))
                os.fchmod(folder, stat.S_IMODE(mode) | _OWNER_MAY)
            yield folder, name

    def _aside(self, place: int) -> str:
        return f"{TEMPORARY}{self.mark}-{place}"

    @contextmanager
    def _taken(self, folder: int, name: str, before: State, place: int) -> Iterator[None]:
        """Move `name` aside, and forget it after the block; put it back where it is not `before`, or the block fails.

        Raises _Conflict, Damaged and OSError.
        """
        self.get(before)  # what could not be brought back again is not taken away
        aside = self._aside(place)
        os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=folder)
        try:
            if not self._is_before(folder, aside, before):
                raise _Conflict
            yield
        except BaseException as error:
            if not put_back(folder, aside, name) and isinstance(error, Exception):
                raise _Conflict(f'{CHANGED}, twice: the first is kept beside it as "{aside}"') from error
            raise
        os.unlink(aside, dir_fd=folder)

    def _is_before(self, folder: int, aside: str, before: State) -> bool:
        return _is_same(_state_at(folder, aside, self.file_bytes, self.doors), before)

    def _remove(self, change: Change, place: int) -> None:
        assert change.before is not None
        with self._at(change.path) as (folder, name), self._taken(folder, name, change.before, place):
            pass

    def _remove_folder(self, change: Change, _: int) -> None:
        with self._at(change.path) as (folder, name):
            os.rmdir(name, dir_fd=folder)
            self._opened.pop(change.path, None)

    def _make_folder(self, change: Change, _: int) -> None:
        assert change.after is not None
        with self._at(change.path) as (folder, name):
            os.mkdir(name, stat.S_IMODE(change.after.mode) | _OWNER_MAY, dir_fd=folder)
            self._opened[change.path] = stat.S_IMODE(change.after.mode)

    def _set_folder_mode(self, change: Change, _: int) -> None:
        assert change.before is not None
        assert change.after is not None
        with _parent(self.top, change.path, self.doors) as (folder, name):
            descriptor = self.doors.open(name, folder)
            try:
                now = stat.S_IMODE(self.doors.mode_of(os.fstat(descriptor)))
                if self._opened.get(change.path, now) != stat.S_IMODE(change.before.mode):
                    raise _Conflict
            finally:
                os.close(descriptor)
        self._opened[change.path] = stat.S_IMODE(change.after.mode)

    def _put(self, change: Change, place: int) -> None:
        """Make a file or a link, in place of the one that is there."""
        before, after = change.before, change.after
        assert after is not None
        data = self.get(after)
        with self._at(change.path) as (folder, name):
            made = f"{self._aside(place)}.new"
            _make(folder, made, after, data)
            try:
                if before is None or before.is_folder:  # which has gone
                    move_to_free(folder, made, name)
                else:
                    with self._taken(folder, name, before, place):
                        move_to_free(folder, made, name)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(made, dir_fd=folder)

    def _close_folders(self) -> None:
        """Give the folders that were made, or made writable, their modes; the innermost first."""
        for path, mode in sorted(self._opened.items(), reverse=True):
            with suppress(OSError), _parent(self.top, f"{path}/.", self.doors) as (folder, _):
                os.fchmod(folder, mode)
                self.doors.forget(folder)


def _make(folder: int, name: str, state: State, data: bytes) -> None:
    """Make the file or link `name`, in place of one that a killed undo has left."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
    if stat.S_ISLNK(state.mode):
        os.symlink(os.fsdecode(data), name, dir_fd=folder)
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o600, dir_fd=folder)
    with open(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fchmod(descriptor, stat.S_IMODE(state.mode))


def move_to_free(folder: int, source: str, name: str) -> None:
    """Call `source` by `name`, if there is nothing of that name. Raises OSError, FileExistsError among them."""
    try:
        os.link(source, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        with suppress(FileNotFoundError):  # a file system without hard links
            os.stat(name, dir_fd=folder, follow_symlinks=False)
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from error
        os.rename(source, name, src_dir_fd=folder, dst_dir_fd=folder)
        return
    os.unlink(source, dir_fd=folder)


def put_back(folder: int, aside: str, name: str) -> bool:
    """Give a file its name back; where that is taken by now, it keeps the other one, so that nothing is lost.

    Return whether nothing has the other one any more.
    """
    with suppress(OSError):
        move_to_free(folder, aside, name)
    with suppress(OSError):
        os.stat(aside, dir_fd=folder, follow_symlinks=False)
        return False
    return True


def repair(top: int, changes: Sequence[Change], mark: str, *, file_bytes: int, doors: Doors) -> None:
    """Give back the names of files that an undo had moved aside when it was killed, and remove what it had made."""
    for place, change in enumerate(sorted(changes, key=lambda each: each.path)):
        with suppress(OSError), _parent(top, change.path, doors) as (folder, name):
            aside = f"{TEMPORARY}{mark}-{place}"
            with suppress(FileNotFoundError):
                os.unlink(f"{aside}.new", dir_fd=folder)
            try:
                move_to_free(folder, aside, name)
            except FileExistsError:  # what takes its place is there already, or another program's
                if _is_same(_state_at(folder, aside, file_bytes, doors), change.before):
                    os.unlink(aside, dir_fd=folder)
