"""What the tools that look around in folders share: where they do not go, and how they tell what they saw."""

from __future__ import annotations

from collections.abc import Sequence

from odek.executor import DirScan, Entry, Executor, ScanOptions
from odek.text import plural, truncate, visible
from odek.tools.workspace import inside

SKIPPED_FOLDERS = frozenset(
    ("node_modules", "vendor", "__pycache__", "target", "dist", "build", ".next", ".venv", ".git")
)
ORDINARY = ScanOptions(skip=SKIPPED_FOLDERS, hidden=False)
SHOWN_LIMIT_CHARACTERS = 60_000
LISTED = 10  # skipped things that are named; the rest is counted
SKIP_RULE = (
    "Hidden folders and those that hold what tools made (node_modules, vendor, build, dist, target, …) are passed "
    "over unless path names one."
)


def look(executor: Executor, path: str, how: ScanOptions) -> DirScan:
    """Return what is below `path` as a tool got it, "" being the workspace. Raises FileAccessDenied."""
    return executor.walk(inside(path) if path else path, how)


def relative_to(entry: Entry, top: Entry) -> str:
    """Return the path of `entry` seen from `top`; of `top` itself, its name."""
    if entry is top:
        return entry.name
    return entry.path[len(top.path) + 1 :] if top.path else entry.path


def bounded(lines: Sequence[str], limit: int) -> str:
    """Return `lines` in at most about `limit` characters; what is left out is counted."""
    for index, line in enumerate(lines):
        limit -= len(line) + 1
        if limit < 0:
            return "\n".join((*lines[:index], f"[{plural(len(lines) - index, 'line')} left out]"))
    return "\n".join(lines)


def listing_notes(listing: DirScan, how: ScanOptions = ORDINARY) -> list[str]:
    """Return what must be said of a walk besides what it found."""
    passed = [
        f"{visible(entry.path)}/"
        for entry in listing.entries
        if entry.kind == "folder"
        and how.passes_over(entry.name)
        and relative_to(entry, listing.top).count("/") + 1 < how.depth
    ]
    notes = []
    if passed:
        more = f" and {len(passed) - LISTED} more" if len(passed) > LISTED else ""
        notes.append(f"folders passed over: {truncate(', '.join(passed[:LISTED]), 1000)}{more}")
    return [*notes, *(f"note: {problem}" for problem in listing.problems)]


def beginning(listing: DirScan, *reasons: str) -> list[str]:
    """Return the line that a result begins with when not everything was looked at (B124), none otherwise.

    It stands first, because a model that reads "no match" believes it.
    """
    too_many = () if listing.complete else ("there are too many files here to look at all of them; name a folder",)
    why = "; ".join((*reasons, *too_many))
    return [f"not all was searched: {why}"] if why else []


def left_out(count: int, limit: int) -> list[str]:
    """Return the line that tells of `count` things that only `limit` are shown, if so."""
    return [f"shown: {limit}; raise limit, or be more precise"] if count > limit else []
