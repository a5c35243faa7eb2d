"""Files of a workspace on the host, read and written without leaving it.

A path is walked one component at a time, each folder opened relative to the one before and never
through a link; links are read and followed here, as long as they stay inside (B13). What is
checked is therefore what is used, however the tree changes meanwhile.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from odek.errors import FileAccessDenied
from odek.text import visible

MAX_LINKS = 40  # what Linux follows before it says ELOOP (path_resolution(7))
_READ_CHUNK = 1 << 20
_FOLDER_FLAGS = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
# O_NONBLOCK: opening a named pipe must not wait for its other end
_FILE_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a path ends: a name in an open folder of the workspace."""

    folder: int
    """descriptor"""
    name: str
    path: str
    """relative to the workspace, free of links"""
    shown: str
    """the path as it was asked for, quoted for messages"""

    def refusal(self, why: str) -> FileAccessDenied:
        return FileAccessDenied(f"{self.shown} {why}")


class WorkspaceFiles:
    """Reads and writes below one folder."""

    def __init__(self, root: str) -> None:
        """Work below `root` (absolute, links resolved)."""
        self._root = root

    def read(self, path: str, *, limit_bytes: int) -> bytes:
        """Return the bytes of the regular file `path`. Raises FileAccessDenied."""
        with self._find(path, create=False) as place:
            return _read_file(place, limit_bytes)

    def write(
        self, path: str, data: bytes, *, replacing: bytes | None, guard: Callable[[str], None] | None = None
    ) -> None:
        """Put `data` at `path` by rename, keeping mode and, where allowed, owner. Raises FileAccessDenied.

        `guard` may raise it too; see executor.Executor.write.
        """
        wanted = self._as_written(path)
        if guard is not None:  # before any folder is made
            guard(wanted)
        with self._find(path, create=replacing is None) as place:
            if guard is not None and place.path != wanted:
                guard(place.path)
            before = _stat_target(place)
            if replacing is not None:
                if before is None:
                    raise place.refusal("does not exist any more")
                if before.st_size != len(replacing) or _read_file(place, len(replacing)) != replacing:
                    raise place.refusal("was changed by another process meanwhile; read it again")
            _replace_file(place, data, before)

    def _as_written(self, path: str) -> str:
        """Return `path` relative to the workspace as its letters say, links not looked at."""
        return os.path.normpath(os.path.join(self._root, path)).removeprefix(self._root).lstrip("/")

    @contextmanager
    def _find(self, path: str, *, create: bool) -> Iterator[_Place]:
        """Walk to the folder of `path`, following links while they stay inside the workspace."""
        shown = f'"{visible(path)}"'
        walk = PathWalk(self._root, shown, create=create)
        try:
            name = walk.to_last(path)  # first, for it is what opens the folder
            yield _Place(folder=walk.folder, name=name, path=walk.place_of(name), shown=shown)
        except OSError as error:
            raise FileAccessDenied(f"{shown} {access_reason(error)}") from error
        finally:
            walk.close()


class PathWalk:
    """A stack of open folders, the workspace at the bottom."""

    def __init__(self, root: str, shown: str, *, create: bool) -> None:
        self._root = root
        self._shown = shown
        self._create = create
        self._links = 0
        self._names: list[str] = []
        try:
            self._stack = [os.open(root, _FOLDER_FLAGS)]
        except OSError as error:
            raise FileAccessDenied(f"the workspace cannot be opened: {error.strerror}") from error

    @property
    def folder(self) -> int:
        """descriptor of the folder on top"""
        return self._stack[-1]

    @property
    def path(self) -> str:
        """the folder on top, relative to the workspace and free of links; "" is the workspace"""
        return "/".join(self._names)

    def place_of(self, name: str) -> str:
        """Return the path of `name` in the folder on top, as `path` has it."""
        return "/".join((*self._names, name))

    def close(self) -> None:
        while self._stack:
            os.close(self._stack.pop())

    def to_last(self, path: str) -> str:
        """Enter every folder of `path`; return the name of its last component, which is not a link."""
        name = self.to_end(path, follow=True)
        if name is None:
            raise FileAccessDenied(f"{self._shown} is a folder")
        return name

    def to_end(self, path: str, *, follow: bool) -> str | None:
        """Enter every folder of `path` but the last; return the name of the last component.

        Links are followed, the last one if `follow`. None: `path` is the folder on top, as "" and
        "a/.." are.
        """
        pending = self._pending(path)
        while pending:
            name = pending.pop()
            if name == "..":
                self._leave()
            elif (pending or follow) and (target := self._read_link(name)) is not None:
                pending += self._pending(target)
            elif pending:
                self.enter(name)
            else:
                return name
        return None

    def _pending(self, path: str) -> list[str]:
        """Return the components of `path`, the next one last; an absolute one starts at the root again."""
        if "\0" in path or not _is_encodable(path):
            raise FileAccessDenied(f"{self._shown} holds a character that no file name can hold")
        if path.startswith("/"):
            if path != self._root and not path.startswith(self._root.rstrip("/") + "/"):
                raise self._leaves()
            path = path[len(self._root) :]
            while len(self._stack) > 1:
                self._pop()
        return [name for name in reversed(path.split("/")) if name not in ("", ".")]

    def _leave(self) -> None:
        if len(self._stack) == 1:
            raise self._leaves()
        self._pop()

    def _read_link(self, name: str) -> str | None:
        try:
            target = os.readlink(name, dir_fd=self.folder)
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):  # no link; not there
                return None
            raise
        self._links += 1
        if self._links > MAX_LINKS:
            raise FileAccessDenied(f"{self._shown} runs through too many links")
        return target

    def enter(self, name: str) -> None:
        """Enter the folder `name` of the one on top; a link is refused by the kernel."""
        try:
            descriptor = os.open(name, _FOLDER_FLAGS, dir_fd=self.folder)
        except FileNotFoundError:
            if not self._create:
                raise
            with suppress(FileExistsError):  # another process was faster; the open shows whether it is a folder
                os.mkdir(name, dir_fd=self.folder)
            descriptor = os.open(name, _FOLDER_FLAGS, dir_fd=self.folder)
        self._stack.append(descriptor)
        self._names.append(name)

    def _pop(self) -> None:
        os.close(self._stack.pop())
        self._names.pop()

    def _leaves(self) -> FileAccessDenied:
        return FileAccessDenied(f"{self._shown} leaves the workspace")


def open_below(root: str, path: str, flags: int) -> int:
    """Return a descriptor of the file `path`, relative to the folder `root` and free of links and "..".

    Raises OSError when it is not there, or a link has been put somewhere on the way.
    """
    *folders, name = path.split("/")
    walk = PathWalk(root, f'"{visible(path)}"', create=False)
    try:
        for folder in folders:
            walk.enter(folder)
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=walk.folder)
    finally:
        walk.close()


def _stat_target(place: _Place) -> os.stat_result | None:
    """Return what is at `place`, None for nothing; refuse what must not be replaced."""
    try:
        status = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _check_regular(place, status)
    try:  # the rename would succeed on a file that an ordinary write may not touch
        os.close(os.open(place.name, os.O_WRONLY | _FILE_FLAGS, dir_fd=place.folder))
    except OSError as error:
        if error.errno != errno.ETXTBSY:  # a program that runs: replacing it is fine
            raise
    return status


def _read_file(place: _Place, limit_bytes: int) -> bytes:
    descriptor = os.open(place.name, os.O_RDONLY | _FILE_FLAGS, dir_fd=place.folder)
    try:
        status = os.fstat(descriptor)
        _check_regular(place, status)
        data = bytearray()
        while len(data) <= limit_bytes:  # not by st_size: files grow, and some in /proc say 0
            chunk = os.read(descriptor, min(_READ_CHUNK, limit_bytes + 1 - len(data)))
            if not chunk:
                return bytes(data)
            data += chunk
    finally:
        os.close(descriptor)
    raise place.refusal(f"is larger than {limit_bytes} bytes ({max(status.st_size, len(data))})")


def _replace_file(place: _Place, data: bytes, before: os.stat_result | None) -> None:
    temporary = f".odek-{os.urandom(8).hex()}.tmp"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE_FLAGS
    # a new file gets its mode from the umask; the old one's must not be open to others meanwhile
    descriptor = os.open(temporary, flags, 0o666 if before is None else 0o600, dir_fd=place.folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if before is not None:
                _copy_owner_and_mode(descriptor, before)
            os.fsync(descriptor)
        os.replace(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    except BaseException:
        with suppress(FileNotFoundError):  # the rename had succeeded
            os.unlink(temporary, dir_fd=place.folder)
        raise


def _copy_owner_and_mode(descriptor: int, before: os.stat_result) -> None:
    mode = stat.S_IMODE(before.st_mode)
    ours = os.fstat(descriptor)
    if (ours.st_uid, ours.st_gid) != (before.st_uid, before.st_gid):
        try:
            os.fchown(descriptor, before.st_uid, before.st_gid)
        except PermissionError:
            mode &= 0o777  # set-id bits would now speak for another owner
    os.fchmod(descriptor, mode)


def _check_regular(place: _Place, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise place.refusal("is a folder")
    if not stat.S_ISREG(status.st_mode):
        raise place.refusal("is not a regular file")


def _is_encodable(path: str) -> bool:
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return True


def access_reason(error: OSError) -> str:
    """Return the words for a failed access, to stand behind the path."""
    if error.errno == errno.ENOENT:
        return "does not exist"
    if error.errno == errno.ELOOP:  # a link that was none a moment ago
        return "changed while it was being opened"
    if error.errno == errno.ENXIO:  # a socket, or a pipe that was none a moment ago
        return "is not a regular file"
    return f"cannot be used: {error.strerror}"
