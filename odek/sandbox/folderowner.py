"""Whose the working directory is, where the commands' user may not use it: the way out is to run as its owner (A20).

root in a folder of somebody else's (sudo, a runner in CI) has no capability in the sandbox, and is a stranger there.
"""

from __future__ import annotations

import os
import stat

from odek.sandbox.engine import Engine


def is_closed_to(status: os.stat_result, user: str, engine: Engine) -> bool:
    """Return whether a folder of `status` cannot be entered by `user`, "uid:gid". Pure.

    A user by name is not judged. In an engine that maps users no uid of this machine is one of a container's.
    """
    uid, _, gid = user.partition(":")
    if engine.rootless or engine.remapped or not uid.isdecimal() or int(uid) == status.st_uid:
        return False
    group_enters = status.st_mode & stat.S_IXGRP and gid in ("", str(status.st_gid))
    return not (group_enters or status.st_mode & stat.S_IXOTH)


def other_owner(status: os.stat_result, user: str, engine: Engine) -> str:
    """Return "uid:gid" of who owns the folder and could write it in the sandbox, "" when that is `user` or root. Pure.

    root is never proposed.
    """
    if engine.rootless or engine.remapped or not status.st_mode & stat.S_IWUSR:
        return ""
    owner = f"{status.st_uid}:{status.st_gid}"
    return "" if status.st_uid == 0 or user.partition(":")[0] == str(status.st_uid) else owner
