"""The tools `batch_read` and `batch_patch`: several files by one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from odek.errors import FileAccessDenied
from odek.text import visible
from odek.tools.arguments import array, integer, record
from odek.tools.edit import EditError, render_diff
from odek.tools.files import (
    DEFAULT_LINES,
    FIRST_LINE,
    MAX_LINES,
    PATCH_PARAMETERS,
    SHOWN_LIMIT_CHARACTERS,
    WHOLE_DIFF,
    Edited,
    Excerpt,
    edit_file,
    take_excerpt,
)
from odek.tools.registry import Arguments, Tool, ToolResult
from odek.tools.workspace import PATH, Workspace, decode_text, read_all, read_operations

MAX_FILES = 10
DIFFS_LIMIT_CHARACTERS = 30_000


def _batch_read(workspace: Workspace, arguments: Arguments) -> ToolResult:
    """Return all files between one pair of tags; failed only when none could be read."""
    files: Sequence[Mapping[str, Any]] = arguments["files"]
    contents = read_all(workspace.shown, [entry["path"] for entry in files])
    parts: list[str] = []
    room = SHOWN_LIMIT_CHARACTERS
    failures = 0
    for index, (entry, content) in enumerate(zip(files, contents, strict=True)):
        shown = _excerpt_of(entry, content, room // (len(files) - index))
        failures += isinstance(shown, str)
        part = _render(workspace.absolute(entry["path"]), shown)
        room -= min(room, len(part))
        parts.append(part)
    # a line of a file begins with its number: none can pose as the heading of the next file
    return ToolResult(text=workspace.wrap("\n".join(parts), source="batch_read"), failed=failures == len(files))


def _render(path: str, shown: Excerpt | str) -> str:
    heading = f"== {visible(path)}"
    if isinstance(shown, str):
        return f"{heading}\nerror: {shown}"
    return "\n".join((heading, *shown.lines, *(f"({note})" for note in shown.notes)))


def _excerpt_of(entry: Mapping[str, Any], content: bytes | FileAccessDenied, limit: int) -> Excerpt | str:
    if isinstance(content, FileAccessDenied):
        return content.message
    try:
        text = decode_text(content, entry["path"])
    except FileAccessDenied as refusal:
        return refusal.message
    return take_excerpt(text, offset=entry.get("offset", 1), count=entry.get("limit", DEFAULT_LINES), limit=limit)


@dataclass(slots=True)
class _PendingEdit:
    """A file that is being patched."""

    path: str
    before: bytes
    text: str
    patches: list[tuple[int, Edited]] = field(default_factory=list)
    """index of each patch, and what it does"""

    def diff(self, limit: int) -> str:
        return "\n".join(render_diff(edited.before, edited.changes, limit=limit) for _, edited in self.patches)


class _Unfit(Exception):
    """A patch that cannot be made: its index, and why."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(index, reason)
        self.index = index
        self.reason = reason


def _batch_patch(workspace: Workspace, arguments: Arguments) -> ToolResult:
    """Check every patch, write file by file, stop at the first failure (F-69)."""
    patches: Sequence[Mapping[str, Any]] = arguments["patches"]
    outcomes = ["skipped"] * len(patches)
    try:
        pending = _plan(workspace, patches)
    except _Unfit as unfit:
        outcomes[unfit.index] = f"failed: {unfit.reason}; no file was changed"
        return _report(workspace, (), outcomes)
    written: list[_PendingEdit] = []
    for edit in pending:
        problem = _write(workspace, edit)
        for index, edited in edit.patches:
            outcomes[index] = f"failed: {problem}" if problem else f"replaced: {len(edited.changes)}"
        if problem:
            break
        written.append(edit)
    return _report(workspace, written, outcomes)


def _plan(workspace: Workspace, patches: Sequence[Mapping[str, Any]]) -> list[_PendingEdit]:
    """Return the files as they would become. Raises _Unfit."""
    for path, index in {patch["path"]: index for index, patch in reversed([*enumerate(patches)])}.items():
        try:
            workspace.require_read(path)  # diffs and errors show lines of it
        except FileAccessDenied as refusal:
            raise _Unfit(index, refusal.message) from refusal
    paths = {workspace.absolute(patch["path"]): patch["path"] for patch in patches}
    contents = dict(zip(paths, read_all(workspace.executor, list(paths.values())), strict=True))
    pending: dict[str, _PendingEdit] = {}
    for index, patch in enumerate(patches):
        path, place = patch["path"], workspace.absolute(patch["path"])
        try:
            if place not in pending:
                before = contents[place]
                if isinstance(before, FileAccessDenied):
                    raise before
                pending[place] = _PendingEdit(path=path, before=before, text=decode_text(before, path))
            edited = edit_file(pending[place].text, patch)
        except FileAccessDenied as refusal:
            raise _Unfit(index, refusal.message) from refusal
        except EditError as error:
            raise _Unfit(index, f'"{visible(path)}": {error}') from error
        pending[place].text = edited.after
        pending[place].patches.append((index, edited))
    return list(pending.values())


def _write(workspace: Workspace, edit: _PendingEdit) -> str:
    """Return "" when the file was written, else why not."""
    whole = edit.diff(WHOLE_DIFF)  # who is asked sees all of it
    try:
        workspace.write(edit.path, edit.text.encode(), replacing=edit.before, change=whole)
    except FileAccessDenied as refusal:
        return refusal.message
    return ""


def _report(workspace: Workspace, written: Sequence[_PendingEdit], outcomes: Sequence[str]) -> ToolResult:
    limit = DIFFS_LIMIT_CHARACTERS // max(len(outcomes), 1)
    # a line of a diff begins with a sign: none can pose as the heading of the next file
    diffs = "\n".join(f"== {visible(workspace.absolute(edit.path))}\n{edit.diff(limit)}" for edit in written)
    lines = [f"[{index}] {outcome}" for index, outcome in enumerate(outcomes)]
    shown = workspace.wrap(diffs, source="batch_patch")
    failed = any(not outcome.startswith("replaced") for outcome in outcomes)
    each = tuple((edit.path, edit.diff(limit)) for edit in written)
    return ToolResult(text="\n".join(part for part in (shown, *lines) if part), failed=failed, diffs=each)


BATCH_READ = Tool(
    name="batch_read",
    description=(
        f"Show up to {MAX_FILES} text files at once, each as read_file does. All of them share one result, so long "
        "files come in smaller parts."
    ),
    parameters=record(
        {
            "files": array(
                record({"path": PATH, "offset": FIRST_LINE, "limit": integer(maximum=MAX_LINES)}, required=("path",)),
                most=MAX_FILES,
            )
        },
        required=("files",),
    ),
    run=_batch_read,
    operations=read_operations,
    parallel=True,
    title_arguments=(),
)
BATCH_PATCH = Tool(
    name="batch_patch",
    description=(
        f"Make up to {MAX_FILES} replacements in one or several files, in the order given, each as patch does. All are "
        "checked first: if one does not fit, nothing is changed. A file gets all of its patches or none; the first "
        "file that cannot be written ends the batch, and the rest is skipped."
    ),
    parameters=record({"patches": array(PATCH_PARAMETERS, most=MAX_FILES)}, required=("patches",)),
    run=_batch_patch,
    title_arguments=(),
)
