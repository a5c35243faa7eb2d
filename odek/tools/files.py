"""The tools `read_file`, `write_file` and `patch`.

They reach files through the executor alone and so see what commands see, no more (R-44). They work
on bytes: what an edit does not name keeps its encoding mark, its line ends and its last newline.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from odek.errors import FileRefused
from odek.executor import Executor
from odek.model.types import ToolSpec
from odek.text import visible
from odek.tools.edit import EditError, apply_changes, find_changes, render_diff
from odek.tools.registry import ToolResult, Work, Wrap, failure, render_json

FILE_LIMIT_BYTES = 10 << 20
CONTENT_LIMIT_BYTES = 1 << 20
DEFAULT_LINES = 500
MAX_LINES = 2000
SHOWN_LIMIT_CHARACTERS = 100_000  # of one read: 2000 lines of 50 characters
LINE_LIMIT_CHARACTERS = 10_000
DIFF_LIMIT_CHARACTERS = 20_000
_BOM = "\ufeff"

_PATH = {"type": "string", "description": "the file, relative to the workspace or absolute inside it"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Workspace:
    """What all file tools need."""

    executor: Executor
    wrap: Wrap

    def place(self, path: str) -> str:
        """Return the absolute form of `path`, for labels and results; it decides nothing."""
        return posixpath.normpath(posixpath.join(self.executor.workspace, path))

    def read(self, path: str) -> bytes:
        return self.executor.read(_inside(path), limit_bytes=FILE_LIMIT_BYTES)

    def write(self, path: str, data: bytes, *, replacing: bytes | None) -> None:
        self.executor.write(_inside(path), data, replacing=replacing)


class ReadFileTool:
    """Shows lines of a text file."""

    parallel = True

    def __init__(self, *, executor: Executor, wrap: Wrap) -> None:
        self._workspace = _Workspace(executor=executor, wrap=wrap)

    @property
    def spec(self) -> ToolSpec:
        """what the model is told"""
        return ToolSpec(
            name="read_file",
            description=(
                "Show a text file with line numbers, as NUMBER|TEXT. The number and the bar are not part of the "
                "file. Long files come in parts: go on with offset."
            ),
            parameters={
                "type": "object",
                "properties": {
                    "path": _PATH,
                    "offset": {"type": "integer", "minimum": 1, "description": "first line, from 1"},
                    "limit": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": MAX_LINES,
                        "description": f"number of lines; {DEFAULT_LINES} unless given",
                    },
                },
                "required": ["path"],
            },
        )

    def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Return the lines asked for in one fence, then what there is besides them."""
        return self.prepare(arguments)()

    def prepare(self, arguments: Mapping[str, Any]) -> Work:
        """Return what reads the file; nobody needs to be asked."""
        return partial(self._show, arguments)

    def _show(self, arguments: Mapping[str, Any]) -> ToolResult:
        path: str = arguments["path"]
        offset: int = arguments.get("offset", 1)
        text = decode_text(self._workspace.read(path), path)
        lines = _lines_of(text.removeprefix(_BOM))
        if not lines:
            return ToolResult(text="(empty file)\ntotal_lines: 0")
        if offset > len(lines):
            return failure(f"offset {offset} is behind the last line; total_lines is {len(lines)}")
        shown = _number_lines(lines, offset, arguments.get("limit", DEFAULT_LINES))
        fenced = self._workspace.wrap("\n".join(shown), source=self._workspace.place(path))
        last = offset + len(shown) - 1
        return ToolResult(text="\n".join((fenced, *_ending(text, len(lines), offset, last))))


class WriteFileTool:
    """Makes a file or replaces its content."""

    def __init__(self, *, executor: Executor, wrap: Wrap) -> None:
        self._workspace = _Workspace(executor=executor, wrap=wrap)

    @property
    def spec(self) -> ToolSpec:
        """what the model is told"""
        return ToolSpec(
            name="write_file",
            description=(
                "Write a file: content becomes all of it. Missing folders are made, the mode of an existing file "
                "is kept. At most 1 MiB."
            ),
            parameters={
                "type": "object",
                "properties": {"path": _PATH, "content": {"type": "string", "description": "the whole new content"}},
                "required": ["path", "content"],
            },
        )

    def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Write exactly the bytes of `content` as UTF-8."""
        path: str = arguments["path"]
        data = arguments["content"].encode()
        if len(data) > CONTENT_LIMIT_BYTES:
            return failure(f"content has {len(data)} bytes; at most {CONTENT_LIMIT_BYTES} can be written at once")
        self._workspace.write(path, data, replacing=None)
        return ToolResult(text=render_json({"success": True, "path": self._workspace.place(path), "bytes": len(data)}))


class PatchTool:
    """Replaces a passage of a file."""

    def __init__(self, *, executor: Executor, wrap: Wrap) -> None:
        self._workspace = _Workspace(executor=executor, wrap=wrap)

    @property
    def spec(self) -> ToolSpec:
        """what the model is told"""
        return ToolSpec(
            name="patch",
            description=(
                "Replace old_string, which must occur exactly once in the file, by new_string, and return the diff. "
                "Give old_string as read_file shows it, without line numbers. Line ends of the file are kept."
            ),
            parameters={
                "type": "object",
                "properties": {
                    "path": _PATH,
                    "old_string": {"type": "string", "description": "the passage as it is in the file"},
                    "new_string": {"type": "string", "description": 'what takes its place; "" removes it'},
                    "replace_all": {"type": "boolean", "description": "replace every occurrence; false unless given"},
                },
                "required": ["path", "old_string"],
            },
        )

    def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Make the edit, if the file is still what was read, and return the diff in one fence."""
        path: str = arguments["path"]
        before = self._workspace.read(path)
        text = decode_text(before, path)
        try:
            changes = find_changes(
                text,
                arguments["old_string"],
                arguments.get("new_string", ""),
                replace_all=arguments.get("replace_all", False),
            )
        except EditError as error:
            return failure(f'"{visible(path)}" is unchanged: {error}')
        after = apply_changes(text, changes).encode()
        if after == before:
            return failure(f'"{visible(path)}" is unchanged: it reads like this already')
        if len(after) > FILE_LIMIT_BYTES:
            return failure(f'"{visible(path)}" is unchanged: it would have more than {FILE_LIMIT_BYTES} bytes')
        self._workspace.write(path, after, replacing=before)
        place = self._workspace.place(path)
        diff = self._workspace.wrap(render_diff(text, changes, limit=DIFF_LIMIT_CHARACTERS), source=f"patch:{place}")
        return ToolResult(text=f"{diff}\nreplaced: {len(changes)}")


def decode_text(data: bytes, path: str) -> str:
    """Return `data` as text. Raises FileRefused for a NUL byte or bytes that are no UTF-8 (F-66)."""
    shown = f'"{visible(path)}"'
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise FileRefused(f"{shown} looks like UTF-16, not UTF-8; convert it with iconv in the shell")
    position = data.find(b"\0")
    if position >= 0:
        raise FileRefused(f"{shown} is binary: NUL byte at offset {position}")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise FileRefused(
            f"{shown} is no UTF-8 text: byte 0x{data[error.start]:02x} on line {line}. It is binary or in an older "
            "encoding such as Latin-1; convert it with iconv in the shell"
        ) from error


def _inside(path: str) -> str:
    """Return `path` for the executor; `~` is the shell's word for a place outside (F-61)."""
    if not path.strip():
        raise FileRefused("the path is empty")
    if path == "~" or path.startswith("~/"):
        raise FileRefused(f'"{visible(path)}" leaves the workspace')
    return path


def _lines_of(text: str) -> list[str]:
    """Return the lines of `text` without their ends; a lone CR or a form feed ends no line."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _number_lines(lines: list[str], offset: int, limit: int) -> list[str]:
    """Return at most `limit` lines as "N|text", fewer when they are long, at least one."""
    shown: list[str] = []
    room = SHOWN_LIMIT_CHARACTERS
    for number, line in enumerate(lines[offset - 1 : offset - 1 + limit], offset):
        omitted = len(line) - LINE_LIMIT_CHARACTERS
        text = f"{number}|{line}" if omitted <= 0 else f"{number}|{line[:-omitted]}[{omitted} characters left out]"
        room -= len(text) + 1
        if room < 0:
            break
        shown.append(text)
    return shown


def _ending(text: str, total: int, first: int, last: int) -> list[str]:
    """Return what is to be said below the lines shown."""
    ending = [f"total_lines: {total}"]
    if first > 1 or last < total:
        ending.append(f"shown: {first}-{last}" + (f"; go on with offset {last + 1}" if last < total else ""))
    if text.startswith(_BOM):
        ending.append("note: the file starts with a UTF-8 byte order mark")
    crlf, lf = text.count("\r\n"), text.count("\n")
    if crlf:
        ending.append("note: line ends are CRLF" if crlf == lf else f"note: {crlf} of {lf} line ends are CRLF")
    if not text.endswith("\n"):
        ending.append("note: no newline at the end of the file")
    return ending
