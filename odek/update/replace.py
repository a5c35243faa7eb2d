"""One file in place of another, whole: whatever ends this process, the name leads to the old or the new one.

The new one is written to a private folder next to the old one, on the same file system. That folder has one name, and
is locked by whom it belongs to: what a killed odek left in it is removed by the next one.
"""

from __future__ import annotations

import errno
import fcntl
import os
from contextlib import suppress

from odek.safefile import FOLDER_FLAGS
from odek.text import visible
from odek.update.release import UpdateError

_FOLDER = ".odek-update"
_NAME = "odek"
_Identity = tuple[int, int, int, int]


def _lock(folder: int) -> bool:
    """Return whether no living process holds the lock; a file system without locks has none."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EWOULDBLOCK, errno.EAGAIN)
    return True


class Replacement:
    """A new file for the name of an old one; what `commit` did not put in place is gone at the end of its block."""

    def __init__(self, target: str) -> None:
        """`target` is a regular file, no link on the way."""
        self._target = target
        self._above, self._name = os.path.split(target)
        self._fds: list[int] = []
        self.path = os.path.join(self._above, _FOLDER, _NAME)
        """the new file"""

    def __enter__(self) -> Replacement:
        """Raises UpdateError."""
        try:
            self._open()
        except OSError as error:
            self.__exit__()
            raise self._error(error) from error
        except UpdateError:
            self.__exit__()
            raise
        return self

    def _open(self) -> None:
        above = os.open(self._above, FOLDER_FLAGS)
        self._fds.append(above)
        self._before = self._identity()
        with suppress(FileExistsError):
            os.mkdir(_FOLDER, 0o700, dir_fd=above)
        folder = os.open(_FOLDER, FOLDER_FLAGS, dir_fd=above)
        self._fds.append(folder)
        if os.fstat(folder).st_uid != os.geteuid():
            del self._fds[1:]
            os.close(folder)
            raise UpdateError(
                f"{visible(os.path.dirname(self.path))} is another user's", hint="look at it, and remove it"
            )
        if not _lock(folder) or not os.fstat(folder).st_nlink:
            del self._fds[1:]
            os.close(folder)
            raise UpdateError("another odek is being updated at this place", hint="wait for it")
        os.fchmod(folder, 0o700)
        for name in os.listdir(folder):  # of one that was killed
            os.unlink(name, dir_fd=folder)

    def open_new(self) -> int:
        """Return a descriptor of the new file, which is empty; the caller closes it. Raises UpdateError."""
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            return os.open(_NAME, flags, 0o700, dir_fd=self._fds[1])
        except OSError as error:
            raise self._error(error) from error

    def write(self, descriptor: int, data: bytes) -> None:
        """Write all of `data`. Raises UpdateError."""
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(descriptor, view) :]
        except OSError as error:
            raise self._error(error) from error

    def commit(self) -> None:
        """Put the new file in place, with mode, owner and group of the old one. Raises UpdateError."""
        above, folder = self._fds
        try:
            if self._identity() != self._before:
                raise UpdateError(f"{visible(self._target)} has changed meanwhile", hint="look at it, and try again")
            old = os.stat(self._name, dir_fd=above, follow_symlinks=False)
            new = os.open(_NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            try:
                made = os.fstat(new)
                if (made.st_uid, made.st_gid) != (old.st_uid, old.st_gid):
                    os.fchown(new, old.st_uid, old.st_gid)
                os.fchmod(new, old.st_mode & 0o777)
                os.fsync(new)
            finally:
                os.close(new)
            os.replace(_NAME, self._name, src_dir_fd=folder, dst_dir_fd=above)
        except OSError as error:
            raise self._error(error) from error
        with suppress(OSError):  # it is in place
            os.fsync(above)

    def __exit__(self, *_: object) -> None:
        if len(self._fds) > 1:
            with suppress(OSError):
                os.unlink(_NAME, dir_fd=self._fds[1])
            with suppress(OSError):
                os.rmdir(_FOLDER, dir_fd=self._fds[0])
        while self._fds:
            os.close(self._fds.pop())

    def _identity(self) -> _Identity:
        found = os.stat(self._name, dir_fd=self._fds[0], follow_symlinks=False)
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

    def _error(self, error: OSError) -> UpdateError:
        return UpdateError(
            f"{visible(self._target)} cannot be replaced, and is as it was: {error.strerror}",
            hint=f"nothing is left of the new one; look at {visible(self._above)}: its rights, and its free space",
        )
