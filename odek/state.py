"""Files below ~/.odek: checked before they are read, written whole, locked (R-61, B30, B46).

What lies there decides what a project may do, so a file counts only if it is a regular file of the
invoking user that no other user can read or change, reached through no link. Every path is walked
from an open folder, component by component, so that nothing can be swapped between check and use.
Writing goes to a temporary file next to the old one; a full disk leaves the old one as it was.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from odek import cancel, safefile, strict_json
from odek.errors import StateFileError, StateFileInUse
from odek.operator_home import OperatorHome, enter_folder, open_home, way_out_of
from odek.strict_json import JsonError
from odek.text import visible

LIMIT_BYTES = 1 << 20
LOCK_WAIT_S = 5.0
_POLL_S = 0.02
_REPAIR = "look at it, then repair or remove it"


class StateFolder:
    """~/.odek or a folder below it; made on the first write, with mode 0700 (F-60)."""

    def __init__(self, where: OperatorHome, *, parts: tuple[str, ...] = ()) -> None:
        """`parts` name folders below the operator's, outermost first."""
        for part in parts:
            _check_name(part)
        self._where = where
        self._parts = parts

    def path(self, name: str) -> str:
        """Return the absolute path of the file `name`, for messages."""
        return self._where.path(*self._parts, name)

    def read(self, name: str, *, limit_bytes: int = LIMIT_BYTES) -> bytes | None:
        """Return the bytes of `name`, or None when it does not exist.

        Raises StateFileError when it is a link, no regular file, another user's, open to others,
        larger than `limit_bytes`, or unreadable.
        """
        folder = self._open_folder(make=False)
        if folder is None:
            return None
        try:
            return self._read_from(folder, name, limit_bytes)
        finally:
            os.close(folder)

    def read_json(self, name: str, *, limit_bytes: int = LIMIT_BYTES) -> object:
        """Return the value of the JSON file `name`, or None when it does not exist.

        Raises StateFileError as `read` does, and when the file is not strict JSON (strict_json.py)
        or holds a bare `null`.
        """
        data = self.read(name, limit_bytes=limit_bytes)
        if data is None:
            return None
        try:
            value = strict_json.parse(data)
        except JsonError as error:
            raise StateFileError(f'"{visible(self.path(name))}" is damaged: {error}', hint=_REPAIR) from error
        if value is None:
            raise StateFileError(f'"{visible(self.path(name))}" is damaged: it holds nothing but null', hint=_REPAIR)
        return value

    def write(self, name: str, data: bytes) -> None:
        """Put `data` at `name`, mode 0600, all of it or nothing. Raises StateFileError."""
        _check_name(name)
        folder = self._folder()
        try:
            _replace(folder, name, data)
        except OSError as error:
            raise self._failed(name, "written", error) from error
        finally:
            os.close(folder)

    def write_json(self, name: str, value: object) -> None:
        """Put `value` at `name` as JSON with sorted keys, as `write` does."""
        self.write(name, (json.dumps(value, indent=2, sort_keys=True) + "\n").encode())

    @contextmanager
    def locked(
        self,
        name: str,
        *,
        wait_s: float = LOCK_WAIT_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = cancel.sleep,
    ) -> Iterator[None]:
        """Hold the lock of `name` against every other process and thread.

        The lock is a file of its own, `name`.lock, which stays: removing it would let two holders
        in. The kernel drops the lock of a process that dies. Raises StateFileError after `wait_s`,
        naming the holder.
        """
        descriptor = self._open_lock(name)
        try:
            deadline = clock() + wait_s
            while not self._try_lock(descriptor, name):
                if clock() >= deadline:
                    raise self._busy(descriptor, name)
                sleep(_POLL_S)
            _note_holder(descriptor)
            yield
        finally:
            os.close(descriptor)

    def _read_from(self, folder: int, name: str, limit_bytes: int) -> bytes | None:
        try:
            descriptor = self._open_file(folder, name, safefile.READ_FLAGS)
        except FileNotFoundError:
            return None
        try:
            return safefile.read_limited(descriptor, limit_bytes)
        except safefile.TooLarge as error:
            raise StateFileError(
                f'"{visible(self.path(name))}" is larger than {limit_bytes} bytes', hint=_REPAIR
            ) from error
        except OSError as error:
            raise self._failed(name, "read", error) from error
        finally:
            os.close(descriptor)

    def _open_file(self, folder: int, name: str, flags: int) -> int:
        """Return a descriptor of a trusted file; FileNotFoundError passes through."""
        _check_name(name)
        shown = visible(self.path(name))
        try:
            descriptor = os.open(name, flags, 0o600, dir_fd=folder)
        except FileNotFoundError:
            raise
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise StateFileError(f'"{shown}" is a symbolic link', hint="remove the link") from error
            raise self._failed(name, "opened", error) from error
        try:
            _refuse_untrusted(os.fstat(descriptor), shown, self._where.uid)
        except StateFileError:
            os.close(descriptor)
            raise
        return descriptor

    def _folder(self) -> int:
        folder = self._open_folder(make=True)
        assert folder is not None
        return folder

    def _open_folder(self, *, make: bool) -> int | None:
        """Return a descriptor of this folder; None when it is missing and not to be made."""
        descriptor = open_home(self._where, make=make)
        for depth, part in enumerate(self._parts, start=1):
            if descriptor is None:
                return None
            parent = descriptor
            try:
                descriptor = enter_folder(
                    parent, part, self._where.path(*self._parts[:depth]), self._where.uid, make=make
                )
            finally:
                os.close(parent)
        return descriptor

    def _open_lock(self, name: str) -> int:
        folder = self._folder()
        try:
            return self._open_file(folder, f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError as error:  # the folder was removed since then
            raise self._failed(name, "locked", error) from error
        finally:
            os.close(folder)

    def _try_lock(self, descriptor: int, name: str) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:  # a network file system without locks: stop rather than write unlocked
            raise self._failed(name, "locked", error) from error
        return True

    def holder(self, name: str) -> str | None:
        """Return the process that holds the lock of `name` ("" where it is not known which), None for none.

        Nothing is made. Raises StateFileError.
        """
        folder = self._open_folder(make=False)
        if folder is None:
            return None
        try:
            descriptor = self._open_file(folder, f"{name}.lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        finally:
            os.close(folder)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return _holder_of(descriptor)
        except OSError as error:
            raise self._failed(name, "looked at", error) from error
        finally:
            os.close(descriptor)
        return None

    def _busy(self, descriptor: int, name: str) -> StateFileInUse:
        holder = _holder_of(descriptor)
        by = f"process {visible(holder)}" if holder else "another process"
        return StateFileInUse(
            f'"{visible(self.path(name))}" is in use by {by}',
            hint="wait for it to end, then try again",
            holder=holder,
        )

    def _failed(self, name: str, verb: str, error: OSError) -> StateFileError:
        return StateFileError(
            f'"{visible(self.path(name))}" cannot be {verb}: {error.strerror}',
            hint=way_out_of(error, "check the disk and the file's mode"),
        )


def _holder_of(descriptor: int) -> str:
    return os.pread(descriptor, 20, 0).decode("ascii", errors="replace").strip()


def _check_name(name: str) -> None:
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise StateFileError(f'"{visible(name)}" cannot be the name of a state file', hint="use another name")


def _refuse_untrusted(status: os.stat_result, shown: str, uid: int) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise StateFileError(f'"{shown}" is not a regular file', hint="move it out of the way")
    if status.st_uid != uid:
        raise StateFileError(f'"{shown}" belongs to another user', hint="check HOME, or remove the file")
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        raise StateFileError(
            f'"{shown}" is open to other users (mode {mode:04o})', hint=f'check what it holds, then chmod 600 "{shown}"'
        )


def _replace(folder: int, name: str, data: bytes) -> None:
    temporary = f".tmp-{os.urandom(8).hex()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600, dir_fd=folder)
    try:
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)  # whatever the umask took away
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:  # an interrupt, too, must leave no half file behind
        os.unlink(temporary, dir_fd=folder)
        raise
    os.fsync(folder)


def _note_holder(descriptor: int) -> None:
    """Write who holds the lock; on a full disk the lock holds all the same."""
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
    except OSError:
        pass
