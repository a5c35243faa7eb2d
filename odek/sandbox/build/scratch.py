"""Folders for the copy of a project that is built, and removing those of killed odeks (E13).

A copy holds what its project holds, so it must not outlive the odek that made it. Each folder names its
owner as the labels of a container do, and each start removes those whose owner is certainly dead.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from odek import safefile
from odek.patterns import pattern
from odek.sandbox.container.owner import Owner, choose_leftovers, parse_owner
from odek.sandbox.errors import SandboxConfigError
from odek.text import visible

OWNER_FILE = "owner"
_PREFIX = "odek-build-"
_NAME = pattern(_PREFIX + "[a-z0-9_]{8}")  # as tempfile makes them
_OWNER_BYTES = 1 << 10
_STALE_S = 86_400.0  # for one that names no owner: no build takes that long


@contextmanager
def scratch_folder(owner: Owner) -> Iterator[str]:
    """Make a folder that no other user can look into, for the block. Raises SandboxConfigError."""
    import tempfile  # most starts build nothing

    try:
        made = tempfile.TemporaryDirectory(prefix=_PREFIX)
        with open(os.path.join(made.name, OWNER_FILE), "x", encoding="ascii") as file:
            file.write(owner.line())
    except OSError as error:
        raise SandboxConfigError(
            "no temporary folder can be made for the build",
            hint="make room in /tmp, or let TMPDIR name a folder with room",
            detail=visible(str(error.strerror)),
        ) from error
    with made as folder:
        try:
            yield folder
        finally:
            make_removable(folder)


def sweep_scratch(parent: str, *, me: Owner, start_of: Callable[[int], str | None], now_s: float | None = None) -> None:
    """Remove from `parent` the scratch folders of dead odeks; a failure is not the user's problem.

    `start_of` as in choose_leftovers; `now_s` is wall-clock time. What is looked at belongs to this user and has
    the mode of a folder of tempfile's. A folder without a readable owner is left alone for a day.
    """
    now_s = time.time() if now_s is None else now_s
    with suppress(OSError):
        found = [name for name in os.listdir(parent) if _NAME.fullmatch(name)]
        owners = []
        for name in found:
            path = os.path.join(parent, name)
            status = os.lstat(path)
            if status.st_mode != stat.S_IFDIR | 0o700 or status.st_uid != os.getuid():
                continue
            owner = _read_owner(path)
            owners.append((path, owner))
            if owner is None and now_s - status.st_mtime > _STALE_S:
                _remove(path)
        for path in choose_leftovers(tuple(owners), me=me, start_of=start_of):
            _remove(path)


def make_removable(folder: str) -> None:
    """Let the owner write every folder below `folder`; no other user must be able to write there.

    Pythons from before 2024 would do it at removal and by the names of links as well: what a link in a
    closed folder leads to, anywhere on this machine, got another mode (CVE-2023-6597).
    """
    for parent, names, _ in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            if not os.path.islink(path):
                os.chmod(path, 0o700)


def _read_owner(folder: str) -> Owner | None:
    try:
        data = safefile.read_regular(os.path.join(folder, OWNER_FILE), limit_bytes=_OWNER_BYTES)
    except OSError:
        return None
    return parse_owner(data.decode("ascii", "replace"))


def _remove(path: str) -> None:
    with suppress(OSError):
        make_removable(path)
    import shutil

    shutil.rmtree(path, ignore_errors=True)
