"""Opening a file that others may exchange while it is looked at: one way for all of odek.

Only a regular file is ever opened for reading, through no link, by a name in an open folder; a FIFO
or a device cannot make odek wait or act. Whatever the file system answers is an OSError, which the
caller turns into its own words.
"""

from __future__ import annotations

import errno
import os
import stat

FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
MAX_LINKS = 40  # as the kernel has it
_CHUNK_BYTES = 1 << 16


class NotRegular(OSError):
    """Something else than a regular file has the name."""

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

    Every folder on the way is opened through no link, so none can be exchanged for one meanwhile.
    Raises OSError: LeavesFolder for a link that leads out.
    """
    stack = [os.open(folder, FOLDER_FLAGS)]
    pending = [name]
    links = 0
    try:
        while True:
            part = pending.pop()
            if part == "..":
                if len(stack) == 1:
                    raise LeavesFolder
                os.close(stack.pop())
            elif target := _link_at(part, stack[-1]):
                links += 1
                if links > MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                pending += _steps(target, folder, stack)
            elif pending:
                stack.append(os.open(part, FOLDER_FLAGS, dir_fd=stack[-1]))
            else:
                return read_regular(part, dir_fd=stack[-1], limit_bytes=limit_bytes)
            if not pending:
                raise NotRegular  # the link ends at a folder
    finally:
        for descriptor in stack:
            os.close(descriptor)


def _link_at(name: str, folder: int) -> str:
    """Return where the link `name` leads; "" when it is not one."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno == errno.EINVAL:
            return ""
        raise


def _steps(target: str, folder: str, stack: list[int]) -> list[str]:
    """Return the components of a link's target, the next one last; an absolute one begins again at `folder`."""
    if target.startswith("/"):
        if not target.startswith(folder.rstrip("/") + "/"):
            raise LeavesFolder
        target = target[len(folder.rstrip("/")) :]
        while len(stack) > 1:
            os.close(stack.pop())
    return [part for part in reversed(target.split("/")) if part not in ("", ".")]
