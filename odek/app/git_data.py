"""Where the data of a folder's git repository is, and whether a sandbox may be given it (A19).

A linked worktree holds a file `.git` that names its data elsewhere. That file is the project's and may name
any repository of this machine, so it is not believed: the data must name this very worktree, as `git worktree
add` writes it down, and must be this user's own.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from odek import safefile
from odek.sandbox.mounts import is_inside
from odek.sandbox.spec import Mount
from odek.sandbox_grammar import WORKSPACE, is_system_target
from odek.text import truncate, visible

_GIT_LINK = b"gitdir:"
_LIMIT_BYTES = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class GitData:
    """The data of a folder's repository."""

    is_outside: bool
    """whether it is not in the folder: of a linked worktree, a submodule, a subfolder"""
    mount: Mount | None = None
    """how it can be shared, read-only, so that git finds it; None where that is not possible"""
    begins: str = ""
    """the folder above in which the repository begins"""
    why_not: str = ""
    """the reason, to be read after "git's data cannot be shared: " """


def find_git_data(workdir: str, *, uid: int) -> GitData:
    """Return where git's data of `workdir` is, which has its links resolved; `uid` is the user's."""
    path = os.path.join(workdir, ".git")
    try:
        status = os.lstat(path)
    except OSError:
        above = next(
            (folder for folder in _folders_above(workdir) if os.path.lexists(os.path.join(folder, ".git"))), ""
        )
        return GitData(is_outside=bool(above), begins=above)
    if not stat.S_ISREG(status.st_mode):
        outside = not is_inside(os.path.realpath(path), workdir)
        return GitData(is_outside=outside, why_not=".git is a link; a linked worktree can share it")
    named = os.fsdecode(_read_link(path))
    own = os.path.realpath(os.path.join(workdir, named))
    if is_inside(own, workdir):
        return GitData(is_outside=False)
    common = os.path.dirname(os.path.dirname(own))
    why_not = _why_not(workdir, own, common, uid)
    target = os.path.dirname(os.path.dirname(os.path.normpath(os.path.join(WORKSPACE, named))))
    if not why_not and is_system_target(target):
        why_not = f"{visible(target)} is a place of the sandbox itself"
    if why_not:
        return GitData(is_outside=True, why_not=why_not)
    return GitData(is_outside=True, mount=Mount(source=common, target=target, readonly=True))


def _why_not(workdir: str, own: str, common: str, uid: int) -> str:
    """Return why `common`, with the worktree's own part `own`, is not shared; "" when it may be."""
    if os.path.dirname(own) != os.path.join(common, "worktrees"):
        return "only that of a linked worktree can be, and this one is of another kind (a submodule?)"
    if is_inside(workdir, common):
        return "this folder lies in it"
    for folder in (common, os.path.dirname(own), own):
        try:
            status = os.lstat(folder)
        except OSError as error:
            return f"{visible(folder)}: {error.strerror}"
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != uid or status.st_mode & stat.S_IWOTH:
            return f"{visible(folder)} is not a folder of this user's own"
    if _named_in(own, "commondir") != common:
        return f"{visible(own)} belongs to another repository"
    if _named_in(own, "gitdir") != os.path.join(workdir, ".git"):
        return f"{visible(truncate(common, 200))} has no worktree at this place (`git worktree repair` may help)"
    return ""


def _named_in(folder: str, name: str) -> str:
    """Return the place that a file of a worktree's data names, "" when there is none."""
    try:
        text = os.fsdecode(safefile.read_regular(os.path.join(folder, name), limit_bytes=_LIMIT_BYTES).strip())
    except OSError:
        return ""
    if not text or "\0" in text:
        return ""
    place = os.path.join(folder, text)
    if name == "gitdir":  # its last part is not followed: `.git` is a file of the project's
        return os.path.join(os.path.realpath(os.path.dirname(place)), os.path.basename(place))
    return os.path.realpath(place)


def _folders_above(folder: str) -> tuple[str, ...]:
    found = []
    while (above := os.path.dirname(folder)) != folder:
        folder = above
        found.append(folder)
    return tuple(found)


def _read_link(path: str) -> bytes:
    """Return what a `.git` file names; b"." when it is another kind of file."""
    try:
        first = safefile.read_regular(path, limit_bytes=_LIMIT_BYTES)
    except OSError:
        return b"."
    named = first.removeprefix(_GIT_LINK).strip()
    return named if first.startswith(_GIT_LINK) and named and b"\0" not in named else b"."
