"""Names of files in the folder, for the completion of `@` (R-144): folder by folder, through no link."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from dataclasses import dataclass

from odek.patterns import pattern
from odek.safefile import FOLDER_FLAGS
from odek.text import visible

LIMIT_S = 0.15
# characters at which a reference ends (attachments.py), or that would not be shown as they are
_SPECIAL = pattern(r"[\s)\]},;\"'`]")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundName:
    """A file, a link or a folder."""

    path: str
    """relative to the folder that was looked in"""
    is_folder: bool
    size_bytes: int


def find_names(
    beginning: str, *, cwd: str, most: int, now: Callable[[], float] = time.monotonic
) -> tuple[FoundName, ...]:
    """Return up to `most` names below `cwd` that begin with `beginning`, sorted; what is typed decides the folder.

    Hidden names only when a dot was typed. A folder that cannot be read in time is read in part.
    """
    folder, _, start = beginning.rpartition("/")
    if beginning.startswith("/") or "\0" in beginning:
        return ()
    try:
        opened = _open(cwd, folder.split("/") if folder else [])
    except (OSError, UnicodeEncodeError):
        return ()
    deadline, found = now() + LIMIT_S, []
    try:
        with os.scandir(opened) as entries:
            for entry in entries:
                if now() > deadline:
                    break
                hidden = entry.name.startswith(".") and not start.startswith(".")
                if entry.name.startswith(start) and not hidden and _is_plain(entry.name):
                    found.append(entry)
            found.sort(key=lambda entry: entry.name)
            return tuple(name for entry in found[:most] if (name := _describe(entry, folder)))
    except OSError:
        return ()
    finally:
        os.close(opened)


def _open(cwd: str, folders: list[str]) -> int:
    descriptor = os.open(cwd, FOLDER_FLAGS)
    for name in folders:
        parent = descriptor
        try:
            if name in ("", ".", ".."):
                raise FileNotFoundError
            descriptor = os.open(name, FOLDER_FLAGS, dir_fd=parent)
        finally:
            os.close(parent)
    return descriptor


def _describe(entry: os.DirEntry[str], folder: str) -> FoundName | None:
    """Return None for what is neither, as a socket, and for what has gone meanwhile."""
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return None
    is_folder = stat.S_ISDIR(status.st_mode)
    if not (is_folder or stat.S_ISREG(status.st_mode) or stat.S_ISLNK(status.st_mode)):
        return None
    path = f"{folder}/{entry.name}" if folder else entry.name
    return FoundName(path=path, is_folder=is_folder, size_bytes=0 if is_folder else status.st_size)


def _is_plain(name: str) -> bool:
    return not _SPECIAL.search(name) and visible(name) == name
