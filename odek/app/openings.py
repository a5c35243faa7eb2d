"""What of the working directory is not shared with a sandbox, and what is shared along with it (F4, F5, A8, A19)."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from odek.events import Notice, Sink, WarningIssued
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.mounts import KERNEL_KINDS, MountPoint, is_inside, kind_at, mounts_below
from odek.sandbox.sockets import living_sockets
from odek.text import truncate, visible

_MAX_BELOW = 64
_SHOWN = 8
_GIT_LINK = b"gitdir:"
_GIT_LINK_BYTES = 8192


def below_workdir(workdir: str, here: Sequence[MountPoint]) -> tuple[str, ...]:
    """Return what is mounted below the working directory, relative to it; `here` are the mounts of this process. Pure.

    Raises SandboxConfigError for a folder that is the machine's own, and for more mounts than can be covered.
    """
    kind = kind_at(workdir, here)
    if kind in KERNEL_KINDS:  # of a chroot, for example
        raise SandboxConfigError(
            f'"{visible(workdir)}" shows this machine ({kind}) and is not shared with a sandbox',
            hint="change into the folder of a project",
        )
    below = mounts_below(workdir, here)
    if len(below) > _MAX_BELOW:
        raise SandboxConfigError(
            f"{len(below)} mounts lie below the working directory, {visible(below[0])} among them: too many to cover",
            hint="unmount them, or start odek in another folder",
        )
    return below


def require_leavable(below: Sequence[str], *, rootless: bool) -> None:
    """Refuse what a rootless engine cannot leave out: the kernel keeps its mounts together. Pure.

    Raises SandboxConfigError.
    """
    if rootless and below:
        raise SandboxConfigError(
            f"a rootless engine cannot share this folder without what is mounted below it: {shown(below)}",
            hint="unmount that, or start odek in another folder",
        )


def is_folder(path: str) -> bool:
    """Return whether a mount point is a folder."""
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:  # of another user (FUSE), or its server is away; a file is the rare case
        return True


def git_data_outside(workdir: str) -> bool:
    """Return whether the folder is of a git repository whose data is not in it.

    So it is for a linked worktree and a submodule, whose `.git` is a file that names the place, and for a
    subfolder. The file is the project's and is only read.
    """
    path = os.path.join(workdir, ".git")
    try:
        status = os.lstat(path)
    except OSError:
        return any(os.path.lexists(os.path.join(folder, ".git")) for folder in _folders_above(workdir))
    if stat.S_ISREG(status.st_mode):
        path = os.path.join(workdir, os.fsdecode(_read_link(path)))
    return not is_inside(os.path.realpath(path), workdir)


def show_openings(below: Sequence[str], workdir: str, emit: Sink) -> None:
    """Show the user, in one line each."""
    if below:
        emit(
            WarningIssued(
                f"mounted below this folder, and not in the sandbox: {shown(below)}",
                hint='the sandbox has an empty folder there; to share one: sandbox_volumes ["./FOLDER:/TARGET"]',
            )
        )
    sockets = living_sockets(workdir)
    if sockets:
        emit(
            WarningIssued(
                f"programs of this machine listen in this folder, and the sandbox can talk to them: {shown(sockets)}",
                hint="no network setting closes a socket in a shared folder; end the program, or let it listen "
                "elsewhere",
            )
        )
    if git_data_outside(workdir):
        emit(Notice("git does not work in the sandbox: the data of this folder's repository lies outside of it"))


def shown(paths: Sequence[str]) -> str:
    """Return some paths for a message. Pure."""
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return ", ".join(truncate(visible(path), 100) for path in paths[:_SHOWN]) + more


def _folders_above(folder: str) -> tuple[str, ...]:
    found = []
    while (above := os.path.dirname(folder)) != folder:
        folder = above
        found.append(folder)
    return tuple(found)


def _read_link(path: str) -> bytes:
    """Return what a `.git` file names; b"." when it is another kind of file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b"."
    with open(descriptor, "rb") as file:
        first = file.read(_GIT_LINK_BYTES)
    named = first.removeprefix(_GIT_LINK).strip()
    return named if first.startswith(_GIT_LINK) and named and b"\0" not in named else b"."
