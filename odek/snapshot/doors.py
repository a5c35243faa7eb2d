"""What is ours and closed to us, by its mode, opened for a moment: a turn may close what it has changed (R-366).

Nothing is reached by a path: a folder or file is held by a descriptor, its mode is changed through that, and given back
through it. What belongs to others stays closed.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable

from odek import safefile

_MOST = 200
"""folders that are open at the same time; each takes a descriptor"""
_HANDLE = os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)


class Doors:
    """Folders that were opened, until `close`. Methods raise OSError, PermissionError for what stays closed."""

    def __init__(self) -> None:
        self._held: dict[tuple[int, int], tuple[int, int]] = {}
        """device and inode → a descriptor, and the mode that it had"""

    def open(self, name: str, folder: int) -> int:
        """Return a descriptor of the folder `name` in an open one, in which everything can be looked at."""
        try:
            return self._searchable(os.open(name, safefile.FOLDER_FLAGS, dir_fd=folder))
        except PermissionError:
            return self._force(name, folder)

    def open_top(self, path: str, *, require: Callable[[os.stat_result], None]) -> int:
        """The same of the folder at `path`, absolute and without links; `require` raises when it is another one."""
        try:
            top = self._searchable(os.open(path, safefile.FOLDER_FLAGS))
        except PermissionError:
            handle = os.open(path, _HANDLE | os.O_DIRECTORY)
            try:
                require(os.fstat(handle))
                return self._unlock(handle)
            finally:
                os.close(handle)
        try:
            require(os.fstat(top))
        except BaseException:
            os.close(top)
            raise
        return top

    def mode_of(self, status: os.stat_result) -> int:
        """Return the mode that a folder had before it was opened."""
        return self._held.get((status.st_dev, status.st_ino), (0, status.st_mode))[1]

    def forget(self, folder: int) -> None:
        """Let an open folder have the mode that it has now."""
        status = os.fstat(folder)
        descriptor, _ = self._held.pop((status.st_dev, status.st_ino), (-1, 0))
        if descriptor >= 0:
            os.close(descriptor)

    def close(self) -> None:
        """Give every folder its mode back."""
        while self._held:
            _, (descriptor, mode) = self._held.popitem()
            try:
                os.fchmod(descriptor, stat.S_IMODE(mode))
            except OSError:
                pass
            finally:
                os.close(descriptor)

    def _searchable(self, folder: int) -> int:
        try:
            os.stat(".", dir_fd=folder)
        except BaseException:  # its names can be read, and nothing more
            os.close(folder)
            raise
        return folder

    def _force(self, name: str, folder: int) -> int:
        handle = os.open(name, _HANDLE | os.O_DIRECTORY, dir_fd=folder)
        try:
            return self._unlock(handle)
        finally:
            os.close(handle)

    def _unlock(self, handle: int) -> int:
        """Open the folder behind `handle` to us; return a descriptor of it."""
        status = os.fstat(handle)
        if len(self._held) >= _MOST:
            raise _closed()
        descriptor = _opened(handle, status, 0o700, os.O_DIRECTORY)
        self._held[status.st_dev, status.st_ino] = (os.dup(descriptor), status.st_mode)
        return descriptor


def open_file(name: str, folder: int) -> int:
    """Return a descriptor of the regular file `name` in an open folder, to read, with its mode as it was."""
    try:
        return safefile.open_regular(name, dir_fd=folder)
    except PermissionError:
        handle = os.open(name, _HANDLE, dir_fd=folder)
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode):
                raise safefile.NotRegular from None
            descriptor = _opened(handle, status, 0o400, os.O_NONBLOCK | os.O_NOCTTY)
        finally:
            os.close(handle)
    os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
    return descriptor


def _opened(handle: int, status: os.stat_result, wanted: int, flags: int) -> int:
    """Return a descriptor, to read, of what is behind `handle`, whose mode has `wanted` now as well."""
    if status.st_uid != os.geteuid():
        raise _closed()
    way = f"/proc/self/fd/{handle}"
    try:
        os.chmod(way, stat.S_IMODE(status.st_mode) | wanted)
        return os.open(way, os.O_RDONLY | os.O_CLOEXEC | flags)
    except FileNotFoundError as error:  # there is no /proc
        raise _closed() from error


def _closed() -> PermissionError:
    return PermissionError(errno.EACCES, os.strerror(errno.EACCES))
