"""Opening a file that others may exchange at the same time: one implementation for all of odek.

Only a regular file is ever opened for reading, through no link, by a name in an open folder; a FIFO
or a device cannot make odek wait or act. Whatever the file system answers is an OSError, which the
caller turns into its own words.
"""

from __future__ import annotations

import errno
import os
import stat

FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# to pass through: a folder that may be entered need not be one that may be listed
WALK_FLAGS = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
MAX_LINKS = 40  # as the kernel has it
_CHUNK_BYTES = 1 << 16


class NotRegular(OSError):
    """The name is that of something other than a regular file."""

    def __init__(self) -> None:
        super().__init__(errno.EINVAL, "not a regular file")


class TooLarge(OSError):
    """The file holds more bytes than the caller takes."""

    def __init__(self) -> None:
        super().__init__(errno.EFBIG, "too large")


class LeavesFolder(OSError):
    """A link leads out of the folder that the file must lie in."""

    def __init__(self) -> None:
        super().__init__(errno.EXDEV, "a link that leaves the folder")


def is_inside(path: str, folder: str) -> bool:
    """Return whether `path` is `folder` or lies in it, by their names alone; both are absolute and normalized."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def open_regular(name: str, *, dir_fd: int | None = None) -> int:
    """Return a descriptor of the regular file `name`, whose last component is not followed. Raises OSError."""
    try:
        # asked before the open: opening a device can act on it
        mode = os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if not stat.S_ISREG(mode):
            raise NotRegular
        descriptor = os.open(name, READ_FLAGS, dir_fd=dir_fd)
    except ValueError as error:  # a NUL in the name
        raise OSError(errno.EINVAL, "not a file name") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):  # pragma: no cover - exchanged since the first look
        os.close(descriptor)
        raise NotRegular
    return descriptor


def read_limited(descriptor: int, limit_bytes: int) -> bytes:
    """Return all that is left to read. Raises TooLarge above `limit_bytes`, OSError when it cannot be read."""
    data = bytearray()
    while chunk := os.read(descriptor, min(limit_bytes + 1 - len(data), _CHUNK_BYTES)):
        data += chunk
        if len(data) > limit_bytes:
            raise TooLarge
    return bytes(data)


def read_regular(name: str, *, dir_fd: int | None = None, limit_bytes: int) -> bytes:
    """Return the bytes of the regular file `name`, through no link. Raises OSError."""
    descriptor = open_regular(name, dir_fd=dir_fd)
    try:
        return read_limited(descriptor, limit_bytes)
    finally:
        os.close(descriptor)


def read_inside(folder: str, name: str, *, limit_bytes: int) -> bytes:
    """Return the bytes of `name` in `folder`; links are followed as long as they stay in there.

    Raises OSError: LeavesFolder for a link that leads out.
    """
    with Inside(folder) as inside:
        return inside.read(name, limit_bytes=limit_bytes)


def chosen_folder(path: str, project: str) -> str:
    """Return `path`, absolute and normalized, without links. Raises OSError for a link in `project`.

    A folder or file that the operator has named: what a checkout holds must not say where else it is.
    """
    here = "/"
    for part in filter(None, path.split("/")):
        entry = os.path.join(here, part)
        if not os.path.islink(entry):
            here = entry
        elif is_inside(here, project):
            raise OSError(errno.ELOOP, f'"{part}" is a link in the project')
        else:
            here = os.path.realpath(entry)
    return here


def open_chosen_folder(path: str, project: str) -> int:
    """Return a descriptor of the folder `path`; see `chosen_folder`. Raises OSError."""
    here = chosen_folder(path, project)
    descriptor = os.open("/", WALK_FLAGS)
    for part in filter(None, here.split("/")):
        above = descriptor
        try:  # what is a link by now was just put there
            descriptor = os.open(part, WALK_FLAGS, dir_fd=above)
        finally:
            os.close(above)
    return descriptor


def create_chosen(path: str, project: str) -> int:
    """Return a descriptor of the new file `path`, of the user alone; see `chosen_folder`. Raises OSError."""
    above, name = os.path.split(os.path.normpath(path))
    folder = open_chosen_folder(above, project)
    try:
        return os.open(name, _NEW_FILE, 0o600, dir_fd=folder)
    finally:
        os.close(folder)


class Inside:
    """A folder in which files are opened by paths that cannot lead out of it, whatever others exchange.

    Every folder on the way is opened by a name that is not followed; what a link says is walked in the
    same manner from the folder that holds it. All methods raise OSError, LeavesFolder among them.
    """

    def __init__(self, folder: str) -> None:
        """`folder` is absolute and without links; an absolute link counts if it begins with it."""
        self._folder = folder.rstrip("/")
        self._stack = [os.open(folder or "/", WALK_FLAGS)]

    def __enter__(self) -> Inside:
        return self

    def __exit__(self, *_: object) -> None:
        while self._stack:
            os.close(self._stack.pop())

    def open_folder(self, path: str) -> int:
        """Return a descriptor of the folder `path`, which the caller closes; "" is the first one."""
        if self._go(path, follow=True):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return os.open(".", FOLDER_FLAGS, dir_fd=self._stack[-1])

    def status(self, path: str, *, follow: bool = False) -> os.stat_result:
        """Return what is at `path`; a link itself, unless `follow`."""
        name = self._go(path, follow=follow)
        return os.stat(name, dir_fd=self._stack[-1], follow_symlinks=False) if name else os.fstat(self._stack[-1])

    def read(self, path: str, *, limit_bytes: int) -> bytes:
        """Return the bytes of the regular file at `path`."""
        name = self._go(path, follow=True)
        if not name:
            raise NotRegular
        return read_regular(name, dir_fd=self._stack[-1], limit_bytes=limit_bytes)

    def _go(self, path: str, *, follow: bool) -> str:
        """Enter every folder of `path`; return the name of what is at its end, "" for a folder, which is entered too.

        With `follow` False a link at the end is not looked behind.
        """
        self._up_to_top()
        pending = _steps(path)
        links = 0
        while pending:
            part = pending.pop()
            if part == "..":
                if len(self._stack) == 1:
                    raise LeavesFolder
                os.close(self._stack.pop())
                continue
            try:
                self._stack.append(os.open(part, WALK_FLAGS, dir_fd=self._stack[-1]))
                continue
            except OSError as error:
                if error.errno not in (errno.ELOOP, errno.ENOTDIR):  # a link, or something that is not a folder
                    raise
            target = self._link_at(part) if pending or follow else ""
            if not target and pending:
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            if not target:
                return part
            links += 1
            if links > MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
            pending += self._steps_of_link(target)
        return ""

    def _up_to_top(self) -> None:
        while len(self._stack) > 1:
            os.close(self._stack.pop())

    def _link_at(self, name: str) -> str:
        """Return where the link `name` leads; "" when it is not one."""
        try:
            return os.readlink(name, dir_fd=self._stack[-1])
        except OSError as error:
            if error.errno == errno.EINVAL:
                return ""
            raise

    def _steps_of_link(self, target: str) -> list[str]:
        if target.startswith("/"):
            if not is_inside(target, self._folder):
                raise LeavesFolder
            target = target[len(self._folder) :]
            self._up_to_top()
        return _steps(target)


def _steps(path: str) -> list[str]:
    """Return the components of `path`, the next one last."""
    if "\0" in path:
        raise OSError(errno.EINVAL, "not a file name")
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]
