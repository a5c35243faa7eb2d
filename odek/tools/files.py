"""The tools `read_file`, `write_file` and `patch`.

They reach files through the executor alone and so see what commands see, no more (R-44). They work
on bytes: what an edit does not name keeps its encoding mark, its line ends and its last newline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from odek.approval.operation import Operation
from odek.errors import FileAccessDenied
from odek.redact import MARK
from odek.text import visible
from odek.tools.arguments import boolean, integer, record, string
from odek.tools.edit import (
    Change,
    EditError,
    apply_changes,
    compare_texts,
    find_changes,
    render_diff,
    require_no_new_marks,
)
from odek.tools.registry import Arguments, Tool, ToolResult, failure, render_json
from odek.tools.workspace import FILE_LIMIT_BYTES, PATH, Workspace, decode_text, read_operations

DEFAULT_LINES = 500
MAX_LINES = 2000
LINE_LIMIT_CHARACTERS = 10_000
BOM = "\ufeff"
CONTENT_LIMIT_BYTES = 1 << 20
SHOWN_LIMIT_CHARACTERS = 100_000  # of one read: 2000 lines of 50 characters
DIFF_LIMIT_CHARACTERS = 20_000
SHOWN_CHANGE_LINES = 1000  # on both sides; comparing more takes a time that is noticed
WHOLE_DIFF = 1 << 40  # characters; a file has at most 10 MiB

FIRST_LINE = integer("first line, from 1")
PATCH_PARAMETERS: Mapping[str, Any] = record(
    {
        "path": PATH,
        "old_string": string("the passage as it is in the file"),
        "new_string": string('what takes its place; "" removes it'),
        "replace_all": boolean("replace every occurrence; false unless given"),
    },
    required=("path", "old_string"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Excerpt:
    """A part of a text."""

    lines: tuple[str, ...]
    """as "NUMBER|TEXT" """
    notes: tuple[str, ...]
    """how many lines there are, which are shown, and unusual things about them"""


def _lines_of(text: str) -> list[str]:
    """Return the lines of `text` without their ends; a lone CR or a form feed ends no line."""
    lines = text.removeprefix(BOM).split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def take_excerpt(text: str, *, offset: int, count: int, limit: int) -> Excerpt | str:
    """Return at most `count` lines of `text` from line `offset` on, in about `limit` characters, but at
    least one; or the error that there is no such line."""
    lines = _lines_of(text)
    if not lines:
        return Excerpt(lines=(), notes=("total_lines: 0",))
    if offset > len(lines):
        return f"offset {offset} is behind the last line; total_lines is {len(lines)}"
    shown = tuple(_number_lines(lines, offset, count, limit))
    return Excerpt(lines=shown, notes=tuple(_notes(text, len(lines), offset, offset + len(shown) - 1)))


def _cut_line(line: str) -> str:
    """Return `line`, or its head when it is very long."""
    omitted = len(line) - LINE_LIMIT_CHARACTERS
    return line if omitted <= 0 else f"{line[:-omitted]}[{omitted} characters left out]"


def _number_lines(lines: list[str], offset: int, count: int, limit: int) -> list[str]:
    shown: list[str] = []
    for number, line in enumerate(lines[offset - 1 : offset - 1 + count], offset):
        text = f"{number}|{_cut_line(line)}"
        limit -= len(text) + 1
        if limit < 0 and shown:
            break
        shown.append(text)
    return shown


def _notes(text: str, total: int, first: int, last: int) -> list[str]:
    notes = [f"total_lines: {total}"]
    if first > 1 or last < total:
        notes.append(f"shown: {first}-{last}" + (f"; go on with offset {last + 1}" if last < total else ""))
    if text.startswith(BOM):
        notes.append("note: the file starts with a UTF-8 byte order mark")
    crlf, lf = text.count("\r\n"), text.count("\n")
    if crlf:
        notes.append("note: line ends are CRLF" if crlf == lf else f"note: {crlf} of {lf} line ends are CRLF")
    if not text.endswith("\n"):
        notes.append("note: no newline at the end of the file")
    return notes


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """What one patch makes of a text."""

    before: str
    after: str
    changes: tuple[Change, ...]


def edit_file(text: str, patch: Mapping[str, Any]) -> Edited:
    """Return what `patch` (PATCH_PARAMETERS) makes of `text`. Raises EditError when it cannot be done exactly, or
    would put the mark of a secret in the place of one."""
    changes = find_changes(
        text, patch["old_string"], patch.get("new_string", ""), replace_all=patch.get("replace_all", False)
    )
    after = apply_changes(text, changes)
    if after == text:
        raise EditError("it reads like this already")
    require_no_new_marks(text, after)
    if len(after.encode()) > FILE_LIMIT_BYTES:
        raise EditError(f"it would have more than {FILE_LIMIT_BYTES} bytes")
    return Edited(before=text, after=after, changes=changes)


def _read_file(workspace: Workspace, arguments: Arguments) -> ToolResult:
    """Return the lines asked for between tags, then the notes on them."""
    path: str = arguments["path"]
    excerpt = take_excerpt(
        workspace.read_text(path),
        offset=arguments.get("offset", 1),
        count=arguments.get("limit", DEFAULT_LINES),
        limit=SHOWN_LIMIT_CHARACTERS,
    )
    if isinstance(excerpt, str):
        return failure(excerpt)
    lines = workspace.wrap("\n".join(excerpt.lines), source=workspace.absolute(path))
    return ToolResult(text="\n".join((lines or "(empty file)", *excerpt.notes)))


def _write_file(workspace: Workspace, arguments: Arguments) -> ToolResult:
    """Write exactly the bytes of `content` as UTF-8."""
    path, content = arguments["path"], arguments["content"]
    data = content.encode()
    if len(data) > CONTENT_LIMIT_BYTES:
        return failure(f"content has {len(data)} bytes; at most {CONTENT_LIMIT_BYTES} can be written at once")
    try:
        require_no_new_marks(_present_text(workspace, path) if MARK in content else "", content)
    except EditError as error:
        return failure(f'"{visible(path)}" is not written: {error}')
    before = _present_text(workspace, path) if workspace.shows_changes else None
    workspace.write(path, data, replacing=None, change=content)
    text = render_json({"success": True, "path": workspace.absolute(path), "bytes": len(data)})
    return ToolResult(text=text, diffs=() if before is None else ((path, _whole_diff(before, content)),))


def _whole_diff(before: str, after: str) -> str:
    """Return how a file that was written as a whole differs, "" where that takes too long to find out."""
    try:
        changes = compare_texts(before, after, most=SHOWN_CHANGE_LINES)
    except EditError:
        return ""
    return render_diff(before, changes, limit=DIFF_LIMIT_CHARACTERS) if changes else ""


def _present_text(workspace: Workspace, path: str) -> str:
    """Return the text of a file, "" when there is none that can be read."""
    try:
        return workspace.read_bytes(path).decode(errors="replace")
    except FileAccessDenied:
        return ""


def _write_operations(workspace: Workspace, arguments: Arguments) -> tuple[Operation, ...]:
    path = workspace.relative_to_root(arguments["path"])
    return (Operation(kind="write", subject=path, change=arguments["content"]),)


def _patch(workspace: Workspace, arguments: Arguments) -> ToolResult:
    """Make the edit, if the file is still what was read, and return the diff between tags."""
    path: str = arguments["path"]
    workspace.require_read(path)  # the diff, and an error, show lines of it
    before = workspace.read_bytes(path)
    try:
        edited = edit_file(decode_text(before, path), arguments)
    except EditError as error:
        return failure(f'"{visible(path)}" is unchanged: {error}')
    whole = render_diff(edited.before, edited.changes, limit=WHOLE_DIFF)  # who is asked sees all of it
    workspace.write(path, edited.after.encode(), replacing=before, change=whole)
    diff = render_diff(edited.before, edited.changes, limit=DIFF_LIMIT_CHARACTERS)
    shown = workspace.wrap(diff, source=f"patch:{workspace.absolute(path)}")
    return ToolResult(text=f"{shown}\nreplaced: {len(edited.changes)}", diffs=((path, diff),))


READ_FILE = Tool(
    name="read_file",
    description=(
        "Show a text file with line numbers, as NUMBER|TEXT. The number and the bar are not part of the file. Long "
        "files come in parts: go on with offset."
    ),
    parameters=record(
        {
            "path": PATH,
            "offset": FIRST_LINE,
            "limit": integer(f"number of lines; {DEFAULT_LINES} unless given", maximum=MAX_LINES),
        },
        required=("path",),
    ),
    run=_read_file,
    operations=read_operations,
    parallel=True,
    advice="- read_file shows a file with line numbers; use it rather than cat, and in parts when it is long.",
)
WRITE_FILE = Tool(
    name="write_file",
    description=(
        "Write a file: content becomes all of it. Missing folders are made, the mode of an existing file is kept. At "
        "most 1 MiB."
    ),
    parameters=record({"path": PATH, "content": string("the whole new content")}, required=("path", "content")),
    run=_write_file,
    operations=_write_operations,
)
PATCH = Tool(
    name="patch",
    description=(
        "Replace old_string, which must occur exactly once in the file, by new_string, and return the diff. Give "
        "old_string as read_file shows it, without line numbers. Line ends of the file are kept."
    ),
    parameters=PATCH_PARAMETERS,
    run=_patch,
    advice="- patch replaces one passage of a file; prefer it to rewriting a whole file.",
)
