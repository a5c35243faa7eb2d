"""What the tools that list folders share: which folders they skip, and how they render what they found."""

from __future__ import annotations

from collections.abc import Sequence

from odek.executor import DirScan, Entry, ScanOptions
from odek.text import plural, truncate, visible
from odek.tools.workspace import Workspace, usable

SKIPPED_FOLDERS = frozenset(
    ("node_modules", "vendor", "__pycache__", "target", "dist", "build", ".next", ".venv", ".git")
)
DEFAULT_SCAN = ScanOptions(skip=SKIPPED_FOLDERS, hidden=False)
SHOWN_LIMIT_CHARACTERS = 60_000
LISTED = 10  # skipped things that are named; the rest is counted
SKIP_RULE = (
    "Hidden folders and those that hold what tools made (node_modules, vendor, build, dist, target, …) are "
    "skipped unless path names one."
)


def scan(workspace: Workspace, path: str, options: ScanOptions = DEFAULT_SCAN) -> DirScan:
    """Return what is below `path` as the model gave it, "" being the workspace. Raises FileAccessDenied."""
    return workspace.shown.walk(usable(path) if path else path, options)


def relative_to(entry: Entry, top: Entry) -> str:
    """Return the path of `entry` seen from `top`; of `top` itself, its name."""
    if entry is top:
        return entry.name
    return entry.path[len(top.path) + 1 :] if top.path else entry.path


def truncate_lines(lines: Sequence[str], limit: int = SHOWN_LIMIT_CHARACTERS) -> str:
    """Return `lines` in at most about `limit` characters; what is left out is counted."""
    for index, line in enumerate(lines):
        limit -= len(line) + 1
        if limit < 0:
            return "\n".join((*lines[:index], f"[{plural(len(lines) - index, 'line')} left out]"))
    return "\n".join(lines)


def render_scan(
    found: DirScan,
    shown: str,
    endings: Sequence[str] = (),
    *,
    options: ScanOptions = DEFAULT_SCAN,
    incomplete: Sequence[str] = (),
) -> str:
    """Return the text of a result: `shown`, then `endings` and the notes on the scan.

    `incomplete` are reasons why not everything was searched (B124). They come first, as does a scan that was cut
    short: a model that reads "no match" believes it.
    """
    too_many = () if found.complete else ("there are too many files here to look at all of them; name a folder",)
    why = "; ".join((*incomplete, *too_many))
    beginning = [f"not all was searched: {why}"] if why else []
    return "\n".join((*beginning, shown, *endings, *_notes(found, options)))


def truncation_note(count: int, limit: int) -> list[str]:
    """Return the line that says that only `limit` of `count` things are shown, none if all are."""
    return [f"shown: {limit}; raise limit, or be more precise"] if count > limit else []


def _notes(found: DirScan, options: ScanOptions) -> list[str]:
    skipped = [
        f"{visible(entry.path)}/"
        for entry in found.entries
        if entry.kind == "folder"
        and options.passes_over(entry.name)
        and relative_to(entry, found.top).count("/") + 1 < options.depth
    ]
    notes = []
    if skipped:
        more = f" and {len(skipped) - LISTED} more" if len(skipped) > LISTED else ""
        notes.append(f"folders skipped: {truncate(', '.join(skipped[:LISTED]), 1000)}{more}")
    return [*notes, *(f"note: {problem}" for problem in found.problems)]
