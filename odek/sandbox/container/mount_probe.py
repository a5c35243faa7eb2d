"""Is each mount, /workspace first, the folder that was asked for? By identity, from outside (R-33, R-37, D-22).

`prove_mounts` compares the mounts of the container's first process with the folders that odek holds open
(mounts.py); verify.py calls it before anything runs there as the user.

On a machine of its own, as that of Docker Desktop or of a remote engine, the container's processes are not
visible here. There a file that odek puts into each folder through its own descriptor must be visible at the
target, which the image's shell reports: so an exchanged folder is still found, by an image that does not lie.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from typing import Any

from odek import safefile
from odek.sandbox.argv import SHARED_MEMORY, tmpfs_mounts
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.mounts import Expected, MountPoint, are_of_container, displaced, place_of, read_mounts, shares_memory
from odek.sandbox.spec import Mount, SandboxSpec
from odek.sandbox.workdir import open_source, open_workdir
from odek.text import visible

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
        """Remove the file, and the one that the container has made next to it (scripts.CHECK).

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

    def remove_late(self) -> None:
        """Remove what a check has made after `remove`, which goes on without its client until the container is gone."""
        with suppress(OSError, SandboxConfigError):
            folder = open_workdir(self._folder, self._identity)
            try:
                os.unlink(f"{self.name}.w", dir_fd=folder)
            finally:
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
    readable = os.open(".", safefile.FOLDER_FLAGS, dir_fd=folder)
    try:
        with os.scandir(readable) as entries:
            stale = [entry.name for entry in entries if entry.name.startswith(_PREFIX) and _is_stale(entry)]
    finally:
        os.close(readable)
    for name in stale:
        try:
            os.unlink(name, dir_fd=folder)
        except OSError:  # another odek was faster, or it belongs to another user
            pass


def _is_stale(entry: os.DirEntry[str]) -> bool:
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size == 0 and time.time() - status.st_mtime > _STALE_S


MountsOf = Callable[[int], tuple[MountPoint, ...]]


def prove_mounts(
    spec: SandboxSpec, folder: int, inspected: Mapping[str, Any], cleanup: ExitStack, *, mounts_of: MountsOf, mark: str
) -> tuple[tuple[str, str, str], ...]:
    """Prove the mounts of the running container that `inspect` shows; `folder` is the open working directory.

    Returns what is left for a command inside to look at: for each volume its place below the workspace, its
    target, and a file that must show there, "" where none could be made. They go with `cleanup`.
    Raises SandboxConfigError.
    """
    sources = [_open(folder, volume, spec) for volume in spec.volumes]
    shared = [*sources, *((_open_git(spec.git),) if spec.git else ())]
    for descriptor in shared:
        cleanup.callback(os.close, descriptor)
    inside = _mounts_inside(inspected, mounts_of)
    here = read_mounts("self") if inside else ()
    places = [place_of(descriptor, here) for descriptor in (folder, *shared)]
    if inside:
        expected = tuple(
            Expected(source=mount.source, target=mount.target, readonly=mount.readonly, place=place)
            for mount, place in zip(spec.mounts, places, strict=True)
        )
        tmpfs = tuple(target for target, _ in tmpfs_mounts(spec))
        _require_none(displaced(inside, expected, covered=spec.covered, tmpfs=tmpfs))
        if shares_memory(inside, here, SHARED_MEMORY):
            _require_none((f"{SHARED_MEMORY} is this machine's own",))
        if None not in places:
            return ()
    if spec.git and (not inside or places[-1] is None):
        raise SandboxConfigError(
            f'it cannot be verified that the sandbox shows "{visible(spec.git.source)}" and not another folder',
            hint="leave out --sandbox-git: this engine, or this file system, does not tell what is mounted",
        )
    return tuple(
        (
            os.path.relpath(volume.source, spec.workdir),
            volume.target,
            _put_mark(volume, descriptor, f"{mark}-{n}", cleanup),
        )
        for n, (volume, descriptor) in enumerate(zip(spec.volumes, sources, strict=True))
    )


def exchanged_error(volume: Mount) -> SandboxConfigError:
    """Return the refusal of a volume that is not what lies in the working directory."""
    return SandboxConfigError(
        f'"{visible(volume.target)}" in the sandbox is not "{visible(volume.source)}" of the working directory',
        hint="a folder on the way was exchanged while the sandbox was started, or is closed to its user",
    )


def _mounts_inside(inspected: Mapping[str, Any], mounts_of: MountsOf) -> tuple[MountPoint, ...]:
    """Return the mounts of the container, () where its processes do not show on this machine."""
    state = inspected.get("State")
    pid = state.get("Pid") if isinstance(state, Mapping) else None
    inside = mounts_of(pid) if isinstance(pid, int) and pid > 0 else ()
    return inside if are_of_container(inside, str(inspected.get("Id", ""))) else ()


def _open(folder: int, volume: Mount, spec: SandboxSpec) -> int:
    try:
        return open_source(folder, os.path.relpath(volume.source, spec.workdir))
    except OSError as error:  # a link now, or gone
        raise exchanged_error(volume) from error


def _open_git(mount: Mount) -> int:
    root = os.open("/", safefile.FOLDER_FLAGS)
    try:
        return open_source(root, mount.source)
    except OSError as error:
        raise SandboxConfigError(
            f'git\'s data "{visible(mount.source)}" was exchanged while the sandbox was started',
            hint="start odek again",
        ) from error
    finally:
        os.close(root)


def _require_none(differences: tuple[str, ...]) -> None:
    if differences:
        raise SandboxConfigError(
            "the sandbox shows other folders than those that were asked for: "
            + "; ".join(visible(line) for line in differences),
            hint="either the Docker daemon sees other files under that path than odek does (odek in a container or a "
            "mount namespace), or something was exchanged during the start, or the image has links or volumes there",
        )


def _put_mark(volume: Mount, descriptor: int, mark: str, cleanup: ExitStack) -> str:
    """Return the name of a new file in a folder; "" for a file, and where nothing may be written."""
    status = os.fstat(descriptor)
    if not stat.S_ISDIR(status.st_mode):
        return ""
    marker = NonceFile(volume.source, mark, identity=(status.st_dev, status.st_ino))
    cleanup.callback(marker.remove)
    marker.make()
    return "" if marker.inode else marker.name
