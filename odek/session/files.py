"""The folder of sessions and its append-only files: the effects, whatever the content.

What is appended is on the disk when `append` returns. What cannot be appended as a whole is cut
away again, so that a full disk costs the new part and nothing of the old (B46).
"""

from __future__ import annotations

import os
import stat

from odek.errors import StateFileError
from odek.operator_home import OperatorHome
from odek.safefile import READ_FLAGS
from odek.state import StateFolder
from odek.text import visible

FOLDER = "sessions"
LIMIT_BYTES = 32 << 20  # what earlier tools accept as a session, and enough for any window of a model
_WRITE_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


class AppendOnlyFile:
    """A file that is open for appending; its owner holds the lock of the session."""

    def __init__(self, descriptor: int, path: str, size_bytes: int) -> None:
        """Take over `descriptor`; what lies behind `size_bytes` is a torn write and is cut away."""
        self.size_bytes = size_bytes
        self._descriptor = descriptor
        self._path = path
        self._torn = True

    def append(self, data: bytes, *, wait: bool = True) -> None:
        """Add `data`, all of it or nothing, and `wait` for the disk. Raises StateFileError."""
        try:
            if os.fstat(self._descriptor).st_nlink == 0:  # what is written now would be gone at the end
                raise StateFileError(
                    f'"{visible(self._path)}" was removed while it was in use', hint="begin a new session"
                )
            self._cut()
            self._torn = True
            _write_at(self._descriptor, data, self.size_bytes)
            if wait:
                os.fsync(self._descriptor)
            self.size_bytes += len(data)
            self._torn = False
        except OSError as error:
            raise StateFileError(
                f'"{visible(self._path)}" cannot be written: {error.strerror}',
                hint="free some space; what was saved before is whole",
            ) from error
        finally:
            self._cut_quietly()

    def read(self) -> bytes:
        """Return all that is in the file. Raises StateFileError."""
        try:
            return _read_at(self._descriptor, self.size_bytes)
        except OSError as error:
            raise StateFileError(
                f'"{visible(self._path)}" cannot be read: {error.strerror}', hint="check the disk"
            ) from error

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)

    def _cut(self) -> None:
        if self._torn:
            os.ftruncate(self._descriptor, self.size_bytes)
            self._torn = False

    def _cut_quietly(self) -> None:
        try:
            self._cut()
        except OSError:  # the next append tries again, and a reader drops the torn part
            pass


class SessionFolder(StateFolder):
    """~/.odek/sessions: what a StateFolder can do, and names, append-only files and removal."""

    def __init__(self, where: OperatorHome, *below: str) -> None:
        """`below` names folders in it, outermost first."""
        super().__init__(where, parts=(FOLDER, *below))

    def below(self, name: str) -> SessionFolder:
        """Return the folder `name` in this one; made on the first write."""
        return SessionFolder(self._where, *self._parts[1:], name)

    def remove_folder(self, name: str) -> None:
        """Remove the folder `name` and the files in it, or the file or link of that name. Raises StateFileError."""
        folder = self._open_folder(make=False)
        if folder is None:
            return
        try:
            if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                inner = self.below(name)
                for file in inner.names():
                    inner.remove(file)
                os.rmdir(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise self._failed(name, "removed", error) from error
        finally:
            os.close(folder)

    def names(self) -> tuple[str, ...]:
        """Return the names of everything in the folder, sorted. Raises StateFileError."""
        folder = self._open_folder(make=False)
        if folder is None:
            return ()
        try:
            return tuple(sorted(os.listdir(folder)))
        except OSError as error:
            raise self._failed("", "listed", error) from error
        finally:
            os.close(folder)

    def exists(self, name: str) -> bool:
        """Return whether there is anything called `name`, a dangling link included. Raises StateFileError."""
        folder = self._open_folder(make=False)
        if folder is None:
            return False
        try:
            os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._failed(name, "found", error) from error
        finally:
            os.close(folder)
        return True

    def read_ends(self, name: str, *, head_bytes: int, tail_bytes: int) -> tuple[bytes, bytes] | None:
        """Return the first and the last bytes of `name`, None when it is missing.

        Raises StateFileError when the file cannot be trusted or read, or is over the limit.
        """
        descriptor = self._open(name, READ_FLAGS)
        if descriptor is None:
            return None
        try:
            size = self._sized(descriptor, name)
            tail_start = max(size - tail_bytes, 0)
            return os.pread(descriptor, head_bytes, 0), os.pread(descriptor, size - tail_start, tail_start)
        except OSError as error:
            raise self._failed(name, "read", error) from error
        finally:
            os.close(descriptor)

    def read_all(self, name: str) -> bytes | None:
        """Return the bytes of `name`, None when it is missing. Raises StateFileError, also over the limit."""
        descriptor = self._open(name, READ_FLAGS)
        if descriptor is None:
            return None
        try:
            return _read_at(descriptor, self._sized(descriptor, name))
        except OSError as error:
            raise self._failed(name, "read", error) from error
        finally:
            os.close(descriptor)

    def require_writable(self, nonce: str) -> None:
        """Make the file `nonce` and remove it again. Raises StateFileError where that is not possible."""
        self.write(nonce, b"odek\n")
        self.remove(nonce)

    def open_for_append(self, name: str, *, size_bytes: int | None = None) -> AppendOnlyFile:
        """Open the existing file `name` to append behind its first `size_bytes`, or behind its end.

        Raises StateFileError.
        """
        descriptor = self._open(name, _WRITE_FLAGS)
        if descriptor is None:
            raise StateFileError(f'"{visible(self.path(name))}" does not exist', hint="see `odek session list`")
        size = os.fstat(descriptor).st_size if size_bytes is None else size_bytes
        return AppendOnlyFile(descriptor, self.path(name), size)

    def remove(self, name: str) -> bool:
        """Remove the file or link `name`; return False when there was none. Raises StateFileError."""
        folder = self._open_folder(make=False)
        if folder is None:
            return False
        try:
            os.unlink(name, dir_fd=folder)
            os.fsync(folder)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._failed(name, "removed", error) from error
        finally:
            os.close(folder)
        return True

    def _open(self, name: str, flags: int) -> int | None:
        folder = self._open_folder(make=False)
        if folder is None:
            return None
        try:
            return self._open_file(folder, name, flags)
        except FileNotFoundError:
            return None
        finally:
            os.close(folder)

    def _sized(self, descriptor: int, name: str) -> int:
        """Return the size of an open file; it is asked before a byte is read (B46)."""
        size = os.fstat(descriptor).st_size
        if size > LIMIT_BYTES:
            raise StateFileError(
                f'"{visible(self.path(name))}" is larger than {LIMIT_BYTES >> 20} MiB',
                hint="look at it, then move it away or remove it",
            )
        return size


def _write_at(descriptor: int, data: bytes, offset: int) -> None:
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view, offset = view[written:], offset + written


def _read_at(descriptor: int, size: int) -> bytes:
    """Return `size` bytes from the start, fewer when the file has become shorter."""
    data = bytearray()
    while len(data) < size:
        chunk = os.pread(descriptor, size - len(data), len(data))
        if not chunk:
            break
        data += chunk
    return bytes(data)
