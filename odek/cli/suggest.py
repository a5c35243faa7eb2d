"""What a word in a conversation may become at the tab key: slash commands, and files after an @."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from odek.text import visible

MOST_FILES = 200
# characters at which a reference ends (odek.app.attachments), or that a terminal would not show as they are
_UNFIT = re.compile(r"[\s)\]},;\"'`]")


def suggest(word: str, *, commands: Sequence[str], cwd: str) -> tuple[str, ...]:
    """Return what may stand in place of `word`, sorted."""
    if word.startswith("/"):
        return tuple(sorted(command for command in commands if command.startswith(word)))
    if word.startswith("@"):
        return suggest_files(word[1:], cwd=cwd)
    return ()


def suggest_files(beginning: str, *, cwd: str) -> tuple[str, ...]:
    """Return "@" and the paths below `cwd` that begin with `beginning`, folders with a slash at their end."""
    folder, _, start = beginning.rpartition("/")
    if beginning.startswith("/") or ".." in folder.split("/"):
        return ()
    prefix = f"{folder}/" if folder else ""
    found: list[str] = []
    try:
        with os.scandir(os.path.join(cwd, folder)) as entries:
            for entry in entries:
                hidden = entry.name.startswith(".") and not start.startswith(".")
                if entry.name.startswith(start) and not hidden and _fits(entry.name):
                    found.append(f"@{prefix}{entry.name}{'/' if entry.is_dir() else ''}")
    except OSError:
        return ()
    return tuple(sorted(found)[:MOST_FILES])


def _fits(name: str) -> bool:
    return not _UNFIT.search(name) and visible(name) == name
