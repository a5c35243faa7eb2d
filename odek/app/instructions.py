"""What a project says to the model: AGENTS.md of the working directory, and of the repository's folders above it.

A file above counts only if no stranger can have put it there: each folder up to the repository's root is the user's
own, on the same file system and below the home if that is above.
"""

from __future__ import annotations

import os
import stat

from odek import safefile
from odek.agent.prompt import Instructions
from odek.events import Notice, Sink, WarningIssued
from odek.host import Host
from odek.text import visible

_NAME = "AGENTS.md"
_MAX_BYTES = 256 << 10
"""of all of them"""


def read_instructions(host: Host, emit: Sink) -> Instructions:
    """Return each AGENTS.md from the repository's root down to the working directory, with its path from there.

    Regular files, not links, of at most 256 KiB together, the nearer ones first. Anything else is left out with a
    warning and stops nothing.
    """
    found: list[tuple[str, str]] = []
    left = _MAX_BYTES
    for number, folder in enumerate((host.cwd, *folders_above(host))):
        path = "../" * number + _NAME
        data = _read(os.path.join(folder, _NAME), path, left, emit)
        if data is not None:
            left -= len(data)
            found.append((path, data.decode("utf-8", errors="replace")))
    above = [path for path, _ in found if path != _NAME]
    if above:
        emit(Notice(f"instructions of the repository: {', '.join(reversed(above))}"))
    return tuple(reversed(found))


def folders_above(host: Host) -> tuple[str, ...]:
    """Return the folders above the working directory up to the root of its repository, the nearest first.

    None where it is a root itself or in no repository, or where one of them is another user's, can be written by
    everybody, lies on another file system, or is the home or above it. Git is not run.
    """
    folder, found = host.cwd, []
    homes = {host.home, os.path.realpath(host.home)} if host.home else set()
    try:
        device = os.lstat(folder).st_dev
        while not _begins_repository(folder, host.uid):
            folder = os.path.dirname(folder)
            status = os.lstat(folder)
            others_write = status.st_uid != host.uid or status.st_mode & stat.S_IWOTH
            if folder == "/" or folder in homes or status.st_dev != device or others_write:
                return ()
            found.append(folder)
    except OSError:
        return ()
    return tuple(found)


def _begins_repository(folder: str, uid: int) -> bool:
    try:
        return os.lstat(os.path.join(folder, ".git")).st_uid == uid
    except FileNotFoundError:
        return False


def _read(file: str, path: str, left_bytes: int, emit: Sink) -> bytes | None:
    try:
        return safefile.read_regular(file, limit_bytes=left_bytes)
    except FileNotFoundError:
        return None
    except safefile.TooLarge:
        which = "it is" if left_bytes == _MAX_BYTES else "with the nearer ones it is"
        reason = f"{which} larger than {_MAX_BYTES >> 10} KiB"
    except safefile.NotRegular:
        reason = "it is not a regular file"
    except OSError as error:
        reason = f"{error.strerror}; it must be a file, not a link"
    emit(WarningIssued(f"{visible(path)} is not read: {reason}"))
    return None
