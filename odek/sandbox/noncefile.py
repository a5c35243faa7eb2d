"""The proof that the container sees the user's own folder, and not one of the same name elsewhere (R-37)."""

from __future__ import annotations

import os
import stat
import time

from odek.sandbox.errors import SandboxConfigError
from odek.text import visible

_PREFIX = ".odek-nonce-"
_STALE_S = 60.0


class NonceFile:
    """An empty file in the workspace that exists while the container proves that it sees it.

    Where the folder may only be read, the proof is the folder's inode number instead.
    """

    def __init__(self, folder: str, nonce: str) -> None:
        self._folder = folder
        self.name = f"{_PREFIX}{nonce}"
        self._made = False
        self.inode = ""
        """set when no file could be made"""

    def make(self) -> None:
        """Make the file, or learn the inode. Raises SandboxConfigError when the folder is gone."""
        try:
            self._remove_stale()
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644))
            self._made = True
        except OSError:
            self.inode = self._read_inode()

    def remove(self) -> None:
        """Remove the file, and the one that the container has made beside it (scripts.CHECK).

        What cannot be removed is swept by a later start in this folder.
        """
        made, self._made = self._made, False
        for path in (self._path, f"{self._path}.w")[0 if made else 1 :]:
            try:
                os.unlink(path)
            except OSError:
                pass

    @property
    def _path(self) -> str:
        return os.path.join(self._folder, self.name)

    def _read_inode(self) -> str:
        try:
            return str(os.stat(self._folder).st_ino)
        except OSError as error:
            raise SandboxConfigError(
                f'the working directory "{visible(self._folder)}" cannot be read: {error.strerror}',
                hint="change into a directory that exists",
            ) from error

    def _remove_stale(self) -> None:
        """Remove what an odek that was killed in the act has left in this folder."""
        with os.scandir(self._folder) as entries:
            stale = [entry.path for entry in entries if entry.name.startswith(_PREFIX) and _is_stale(entry)]
        for path in stale:
            try:
                os.unlink(path)
            except OSError:  # another odek was faster, or it is somebody else's
                pass


def _is_stale(entry: os.DirEntry[str]) -> bool:
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size == 0 and time.time() - status.st_mtime > _STALE_S
