"""The proof that the container sees the user's own folder, and not one of the same name elsewhere (R-37)."""

from __future__ import annotations

import os
import stat
import time

from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.workdir import open_workdir

_PREFIX = ".odek-nonce-"
_STALE_S = 60.0


class NonceFile:
    """An empty file in the workspace that exists while the container proves that it sees it.

    Where the folder may only be read, the proof is the folder's inode number instead.
    """

    def __init__(self, folder: str, nonce: str, *, identity: tuple[int, int] | None = None) -> None:
        """`identity`: device and inode that `folder` must have; None: any."""
        self._folder = folder
        self._identity = identity
        self._descriptor: int | None = None
        self.nonce = nonce
        self.name = f"{_PREFIX}{nonce}"
        self._made = False
        self.inode = ""
        """set when no file could be made"""
        self.status: os.stat_result | None = None
        """of the folder, from `make` on"""
        self.owners: tuple[int | None, int | None] = (None, None)
        """of odek's file and of the container's, as they were when removed"""

    @property
    def folder(self) -> int:
        """descriptor of the folder, between `make` and `remove`"""
        assert self._descriptor is not None
        return self._descriptor

    def make(self) -> None:
        """Make the file, or learn the inode. Raises SandboxConfigError when the folder is gone or another."""
        folder = self._descriptor = open_workdir(self._folder, self._identity)
        self.status = os.fstat(folder)
        try:
            _remove_stale(folder)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            os.close(os.open(self.name, flags, 0o644, dir_fd=folder))
            self._made = True
        except OSError:
            self.inode = str(self.status.st_ino)

    def remove(self) -> None:
        """Remove the file, and the one that the container has made beside it (scripts.CHECK).

        What cannot be removed is swept by a later start in this folder.
        """
        folder, self._descriptor = self._descriptor, None
        if folder is None:
            return
        made, self._made = self._made, False
        self.owners = (_owner(self.name, folder) if made else None, _owner(f"{self.name}.w", folder))
        for name in (self.name, f"{self.name}.w")[0 if made else 1 :]:
            try:
                os.unlink(name, dir_fd=folder)
            except OSError:
                pass
        os.close(folder)


def require_known_owner(owners: tuple[int | None, int | None], uid: str) -> None:
    """Compare the owner of the container's file, as this machine sees it, with `uid`, that of the commands there. Pure.

    Raises SandboxConfigError when it is neither that one nor the one of odek's own files: such an engine maps users,
    and the folder would fill with files of a stranger's (R-31, B11).
    """
    own, theirs = owners
    if theirs is None or theirs == own or str(theirs) == uid:
        return
    raise SandboxConfigError(
        f"files that commands make would belong to user {theirs} of this machine, and not to {uid}: "
        "this Docker engine maps users to others",
        hint="leave sandbox_user out, and use an engine of your own, without userns-remap",
    )


def _owner(name: str, folder: int) -> int | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_uid
    except OSError:
        return None


def _remove_stale(folder: int) -> None:
    """Remove what an odek that was killed in the act has left in this folder."""
    readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        with os.scandir(readable) as entries:
            stale = [entry.name for entry in entries if entry.name.startswith(_PREFIX) and _is_stale(entry)]
    finally:
        os.close(readable)
    for name in stale:
        try:
            os.unlink(name, dir_fd=folder)
        except OSError:  # another odek was faster, or it is somebody else's
            pass


def _is_stale(entry: os.DirEntry[str]) -> bool:
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size == 0 and time.time() - status.st_mtime > _STALE_S
