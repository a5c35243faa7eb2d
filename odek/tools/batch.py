"""The tools `batch_read` and `batch_patch`: several files by one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from odek.errors import FileAccessDenied
from odek.executor import Executor
from odek.model.types import ToolSpec
from odek.text import visible
from odek.tools.edit import EditError, render_diff
from odek.tools.files import (
    DEFAULT_LINES,
    MAX_LINES,
    PATCH_PARAMETERS,
    SHOWN_LIMIT_CHARACTERS,
    WHOLE_DIFF,
    Edited,
    Excerpt,
    edit_file,
    take_excerpt,
)
from odek.tools.registry import Gate, ToolResult, Unasked, Wrap
from odek.tools.workspace import FILE_LIMIT_BYTES, PATH, Workspace, decode_text, inside

MAX_FILES = 10
TOTAL_LIMIT_BYTES = 32 << 20
DIFFS_LIMIT_CHARACTERS = 30_000


class BatchReadTool(Unasked):
    """Shows lines of several text files."""

    def __init__(self, *, executor: Executor, wrap: Wrap) -> None:
        self._workspace = Workspace(executor=executor, wrap=wrap)

    @property
    def spec(self) -> ToolSpec:
        """what the model is told"""
        return ToolSpec(
            name="batch_read",
            description=(
                f"Show up to {MAX_FILES} text files at once, each as read_file does. All of them share one result, so "
                "long files come in smaller parts."
            ),
            parameters={
                "type": "object",
                "properties": {
                    "files": {
                        "type": "array",
                        "minItems": 1,
                        "maxItems": MAX_FILES,
                        "items": {
                            "type": "object",
                            "properties": {
                                "path": PATH,
                                "offset": {"type": "integer", "minimum": 1, "description": "first line, from 1"},
                                "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LINES},
                            },
                            "required": ["path"],
                        },
                    }
                },
                "required": ["files"],
            },
        )

    def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Return all files in one fence; failed only when none could be read."""
        files: Sequence[Mapping[str, Any]] = arguments["files"]
        contents = read_all(self._workspace.executor, [entry["path"] for entry in files])
        parts: list[str] = []
        room = SHOWN_LIMIT_CHARACTERS
        failures = 0
        for index, (entry, content) in enumerate(zip(files, contents, strict=True)):
            shown = _excerpt_of(entry, content, room // (len(files) - index))
            failures += isinstance(shown, str)
            part = self._render(entry["path"], shown)
            room -= min(room, len(part))
            parts.append(part)
        # a line of a file begins with its number: none can pose as the heading of the next file
        return ToolResult(
            text=self._workspace.wrap("\n".join(parts), source="batch_read"), failed=failures == len(files)
        )

    def _render(self, path: str, shown: Excerpt | str) -> str:
        heading = f"== {visible(self._workspace.place(path))}"
        if isinstance(shown, str):
            return f"{heading}\nerror: {shown}"
        return "\n".join((heading, *shown.lines, *(f"({note})" for note in shown.notes)))


@dataclass(slots=True)
class _Draft:
    """A file that is being patched."""

    path: str
    before: bytes
    text: str
    patches: list[tuple[int, Edited]] = field(default_factory=list)
    """index of each patch, and what it does"""

    def diff(self, limit: int) -> str:
        return "\n".join(render_diff(edited.before, edited.changes, limit=limit) for _, edited in self.patches)


class BatchPatchTool:
    """Replaces passages in several files."""

    def __init__(self, *, executor: Executor, gate: Gate, wrap: Wrap) -> None:
        self._workspace = Workspace(executor=executor, wrap=wrap)
        self._gate = gate

    @property
    def spec(self) -> ToolSpec:
        """what the model is told"""
        return ToolSpec(
            name="batch_patch",
            description=(
                f"Make up to {MAX_FILES} replacements in one or several files, in the order given, each as patch does. "
                "All are checked first: if one does not fit, nothing is changed. A file gets all of its patches or "
                "none; the first file that cannot be written ends the batch, and the rest is skipped."
            ),
            parameters={
                "type": "object",
                "properties": {
                    "patches": {"type": "array", "minItems": 1, "maxItems": MAX_FILES, "items": PATCH_PARAMETERS}
                },
                "required": ["patches"],
            },
        )

    def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Check every patch, write file by file, stop at the first failure (F-69)."""
        patches: Sequence[Mapping[str, Any]] = arguments["patches"]
        outcomes = ["skipped"] * len(patches)
        drafts, refused = self._draft(patches)
        if refused is not None:
            index, reason = refused
            outcomes[index] = f"failed: {reason}; no file was changed"
            return self._report((), outcomes)
        written: list[_Draft] = []
        for draft in drafts:
            problem = self._write(draft)
            for index, edited in draft.patches:
                outcomes[index] = f"failed: {problem}" if problem else f"replaced: {len(edited.changes)}"
            if problem:
                break
            written.append(draft)
        return self._report(written, outcomes)

    def _draft(self, patches: Sequence[Mapping[str, Any]]) -> tuple[list[_Draft], tuple[int, str] | None]:
        """Return the files as they would become, or the index of the patch that does not fit, and why."""
        drafts: dict[str, _Draft] = {}
        for path, index in {patch["path"]: index for index, patch in reversed([*enumerate(patches)])}.items():
            try:
                self._workspace.require_read(path, self._gate)  # diffs and errors show lines of it
            except FileAccessDenied as refusal:
                return [], (index, refusal.message)
        paths = {self._workspace.place(patch["path"]): patch["path"] for patch in patches}
        contents = dict(zip(paths, read_all(self._workspace.executor, list(paths.values())), strict=True))
        for index, patch in enumerate(patches):
            path, place = patch["path"], self._workspace.place(patch["path"])
            try:
                if place not in drafts:
                    before = _bytes_or_raise(contents[place])
                    drafts[place] = _Draft(path=path, before=before, text=decode_text(before, path))
                draft = drafts[place]
                edited = edit_file(draft.text, patch)
            except FileAccessDenied as refusal:
                return [], (index, refusal.message)
            except EditError as error:
                return [], (index, f'"{visible(path)}": {error}')
            draft.text = edited.after
            draft.patches.append((index, edited))
        return list(drafts.values()), None

    def _write(self, draft: _Draft) -> str:
        """Return "" when the file was written, else why not."""
        try:
            self._workspace.write(
                draft.path,
                draft.text.encode(),
                replacing=draft.before,
                gate=self._gate,
                change=draft.diff(WHOLE_DIFF),  # who is asked sees all of it
            )
        except FileAccessDenied as refusal:
            return refusal.message
        return ""

    def _report(self, written: Sequence[_Draft], outcomes: Sequence[str]) -> ToolResult:
        limit = DIFFS_LIMIT_CHARACTERS // max(len(outcomes), 1)
        # a line of a diff begins with a sign: none can pose as the heading of the next file
        diffs = "\n".join(f"== {visible(self._workspace.place(draft.path))}\n{draft.diff(limit)}" for draft in written)
        lines = [f"[{index}] {outcome}" for index, outcome in enumerate(outcomes)]
        fence = self._workspace.wrap(diffs, source="batch_patch")
        failed = any(not outcome.startswith("replaced") for outcome in outcomes)
        return ToolResult(text="\n".join(part for part in (fence, *lines) if part), failed=failed)


def read_all(executor: Executor, paths: Sequence[str]) -> list[bytes | FileAccessDenied]:
    """Return the bytes of each file, or why they cannot be had."""
    usable: list[str] = []
    found: list[bytes | FileAccessDenied | None] = []
    for path in paths:
        try:
            usable.append(inside(path))
            found.append(None)
        except FileAccessDenied as refusal:
            found.append(refusal)
    contents = iter(executor.read_many(usable, limit_bytes=FILE_LIMIT_BYTES, total_bytes=TOTAL_LIMIT_BYTES))
    return [next(contents) if known is None else known for known in found]


def _excerpt_of(entry: Mapping[str, Any], content: bytes | FileAccessDenied, limit: int) -> Excerpt | str:
    if isinstance(content, FileAccessDenied):
        return content.message
    try:
        text = decode_text(content, entry["path"])
    except FileAccessDenied as refusal:
        return refusal.message
    return take_excerpt(text, offset=entry.get("offset", 1), count=entry.get("limit", DEFAULT_LINES), limit=limit)


def _bytes_or_raise(content: bytes | FileAccessDenied) -> bytes:
    if isinstance(content, FileAccessDenied):
        raise content
    return content
