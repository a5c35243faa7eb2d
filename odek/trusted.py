"""Files of the workspace that this machine trusts later: git hooks, editor tasks, odek's own settings (B55).

The sandbox may write the working directory, and a hook that it plants there runs on the host at the
next `git commit`. So a session ends with a list of such files that changed in it. What changed is
read off the inode change time, which nobody inside a container can set back; so a session costs
nothing at its start.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterator
from itertools import pairwise

from odek.text import clip, visible

MAX_FOLDERS = 3000  # a look at the end of a run must not take longer than a person waits
MAX_DEPTH = 6
SLACK_NS = 100_000_000  # file systems stamp with a clock that lags by some ticks
_SHOWN = 12

_ANYWHERE = frozenset(
    (
        ".envrc", ".mise.toml", ".tool-versions", ".pre-commit-config.yaml", ".npmrc", ".gitlab-ci.yml",
        ".git", ".gitattributes", "odek.json", "Dockerfile.odek", "AGENTS.md", "CLAUDE.md", "sitecustomize.py",
    )
)  # fmt: skip
# folders whose every file counts, wherever they stand
_FOLDERS = frozenset((".vscode", ".idea", ".husky", ".circleci", ".devcontainer", ".odek", ".cargo"))
_WORKFLOWS = (".github", "workflows")
# what git itself obeys, inside a repository
_GIT_FILES = frozenset(("config", "config.worktree"))
_GIT_FOLDERS = frozenset(("hooks", "info"))
_ON_THE_WAY = frozenset((".git", ".github"))
_PASSED_OVER = frozenset(("node_modules", "__pycache__", "objects", ".venv", ".tox", ".cache"))


def changed_since(folder: str, start_ns: int) -> tuple[str, ...]:
    """Return, sorted and relative to `folder`, the files that count and changed since `start_ns`.

    A folder whose every file counts stands for itself when it was put there or emptied: what is in it
    may be older. `start_ns` is wall-clock time. Links are not followed. Of a tree too large to look
    through, the folders nearest to the top count, and those that count before all others.
    """
    found = sorted(path for path, status in _candidates(folder) if status.st_ctime_ns >= start_ns - SLACK_NS)
    return tuple(path for path in found if not any(other.startswith(f"{path}/") for other in found))


def describe_changes(paths: tuple[str, ...]) -> str:
    """Return the sentence for the user, "" when there is nothing to say. Pure."""
    if not paths:
        return ""
    shown = ", ".join(clip(visible(path), 100) for path in paths[:_SHOWN])
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return f"files changed that this machine may run or trust later: {shown}{more}"


def counts(path: str) -> bool:
    """Return whether the file at `path`, relative to the workspace, is one that is trusted later. Pure."""
    parts = path.split("/")
    if ".git" in parts[:-1]:
        inner = parts[parts.index(".git") + 1 :]
        return inner[-1] in _GIT_FILES or any(part in _GIT_FOLDERS for part in inner[:-1])
    if parts[-1] in _ANYWHERE or any(part in _FOLDERS for part in parts[:-1]):
        return True
    return _WORKFLOWS in pairwise(parts[:-1])


def holds_trusted(path: str) -> bool:
    """Return whether every file of the folder at `path` counts. Pure."""
    parts = path.split("/")
    if ".git" in parts[:-1]:
        return parts[-1] in _GIT_FOLDERS
    return parts[-1] in _FOLDERS or tuple(parts[-2:]) == _WORKFLOWS


def _candidates(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """Breadth first, so that a bound on the number of folders leaves out the deepest; those on the way to
    what counts go before all others, or a flood of folders beside them would hide them."""
    waiting = deque([""])
    seen = 0
    while waiting and seen < MAX_FOLDERS:
        relative = waiting.popleft()
        seen += 1
        for entry in _entries(os.path.join(folder, relative)):
            path = f"{relative}/{entry.name}" if relative else entry.name
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISDIR(status.st_mode):
                if _goes_first(path):
                    waiting.appendleft(path)
                elif entry.name not in _PASSED_OVER and path.count("/") < MAX_DEPTH:
                    waiting.append(path)
            elif not counts(path) and entry.name not in _ON_THE_WAY and not holds_trusted(path):
                continue  # a link in the place of such a folder counts, wherever it leads
            if holds_trusted(path) or not stat.S_ISDIR(status.st_mode):
                yield path, status


def _goes_first(path: str) -> bool:
    """Whether a folder is one that counts, or leads to one, and is not nested in others of that kind:
    those can be made without end."""
    parts = path.split("/")
    named = sum(part in _FOLDERS or part in _ON_THE_WAY or part in _GIT_FOLDERS for part in parts)
    return named <= 2 and (parts[-1] in _ON_THE_WAY or holds_trusted(path))


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []
