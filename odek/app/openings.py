"""What of the working directory is not shared with a sandbox, and what is shared along with it (F4, F5, A8, A19)."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence

from odek.app.git_data import GitData
from odek.events import Notice, Sink, WarningIssued
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.mounts import KERNEL_KINDS, MountPoint, kind_at, mounts_below
from odek.sandbox.sockets import living_sockets
from odek.text import truncate, visible

_MAX_BELOW = 64
_SHOWN = 8


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


def show_openings(below: Sequence[str], workdir: str, git: GitData, emit: Sink, *, shares_git: bool) -> None:
    """Show the user, in one line each; `shares_git`: sandbox_git is on."""
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
    if git.is_outside:
        emit(Notice(_git_words(git, shares_git=shares_git)))


def _git_words(git: GitData, *, shares_git: bool) -> str:
    if git.mount and shares_git:
        return (
            f"git's data, with all its history and settings, is in the sandbox read-only: {visible(git.mount.source)}"
        )
    words = "git does not work in the sandbox: the data of this folder's repository lies outside of it"
    if git.begins:
        return f"{words}; it begins in {visible(git.begins)}: start odek there"
    if git.mount:
        return f"{words}; --sandbox-git shares it read-only"
    return f"{words}, and cannot be shared: {git.why_not}" if shares_git else words


def shown(paths: Sequence[str]) -> str:
    """Return some paths for a message. Pure."""
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return ", ".join(truncate(visible(path), 100) for path in paths[:_SHOWN]) + more
