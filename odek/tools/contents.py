"""The tools `diff`, `head_tail` and `json_query`: parts of contents, and how two differ."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from odek.errors import FileAccessDenied
from odek.executor import Executor
from odek.model.types import ToolSpec
from odek.text import truncate, visible
from odek.tools.batch import read_all
from odek.tools.edit import EditError, compare_texts, render_diff
from odek.tools.files import cut_line, lines_of
from odek.tools.looking import bounded
from odek.tools.registry import ToolResult, Unasked, Wrap, failure
from odek.tools.workspace import PATH, Workspace, decode_text

MAX_FILES = 10
DEFAULT_LINES = 10
MAX_LINES = 100
SHOWN_LIMIT_CHARACTERS = 30_000
_STEP = re.compile(r"\[(-?[0-9]{1,9})\]|\.?([^.\[\]]+)")


class HeadTailTool(Unasked):
    """Shows the first or the last lines of files."""

    def __init__(self, *, executor: Executor, wrap: Wrap) -> None:
        self._workspace = Workspace(executor=executor, wrap=wrap)

    @property
    def spec(self) -> ToolSpec:
        """what the model is told"""
        return ToolSpec(
            name="head_tail",
            description="Show the first or the last lines of text files, as NUMBER|TEXT.",
            parameters={
                "type": "object",
                "properties": {
                    "files": {
                        "type": "array",
                        "minItems": 1,
                        "maxItems": MAX_FILES,
                        "items": {"type": "object", "properties": {"path": PATH}, "required": ["path"]},
                    },
                    "lines": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": MAX_LINES,
                        "description": f"number of lines; {DEFAULT_LINES} unless given",
                    },
                    "mode": {"type": "string", "enum": ["head", "tail"], "description": "head unless given"},
                },
                "required": ["files"],
            },
        )

    def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Return all files in one fence; failed only when none could be read."""
        paths = [entry["path"] for entry in arguments["files"]]
        count: int = arguments.get("lines", DEFAULT_LINES)
        tail = arguments.get("mode") == "tail"
        parts: list[str] = []
        failures = 0
        for path, content in zip(paths, read_all(self._workspace.executor, paths), strict=True):
            heading = f"== {visible(self._workspace.place(path))}"
            try:
                shown = _ends(content, path, count, tail=tail)
            except FileAccessDenied as refusal:
                failures += 1
                shown = [f"error: {refusal.message}"]
            parts.append(bounded([heading, *shown], SHOWN_LIMIT_CHARACTERS // len(paths)))
        return ToolResult(
            text=self._workspace.wrap("\n".join(parts), source="head_tail"), failed=failures == len(paths)
        )


class DiffTool(Unasked):
    """Shows how two texts differ."""

    def __init__(self, *, executor: Executor, wrap: Wrap) -> None:
        self._workspace = Workspace(executor=executor, wrap=wrap)

    @property
    def spec(self) -> ToolSpec:
        """what the model is told"""
        return ToolSpec(
            name="diff",
            description="Show the unified diff of two files (path_a, path_b), or of a file and a text (path, content).",
            parameters={
                "type": "object",
                "properties": {
                    "path_a": PATH,
                    "path_b": PATH,
                    "path": PATH,
                    "content": {"type": "string", "description": "what to compare the file at path with"},
                },
            },
        )

    def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Return the diff in one fence."""
        if "path_a" in arguments and "path_b" in arguments:
            names = (arguments["path_a"], arguments["path_b"])
            texts = (self._text(names[0]), self._text(names[1]))
        elif "path" in arguments and "content" in arguments:
            names = (arguments["path"], "content")
            texts = (self._text(arguments["path"]), arguments["content"])
        else:
            return failure("give path_a and path_b, or path and content")
        try:
            changes = compare_texts(*texts)
        except EditError as error:
            return failure(str(error))
        if not changes:
            return ToolResult(text="no difference")
        source = "|".join(map(visible, names))
        text = render_diff(texts[0], changes, limit=SHOWN_LIMIT_CHARACTERS)
        return ToolResult(text=self._workspace.wrap(text, source=f"diff:{source}"))

    def _text(self, path: str) -> str:
        return decode_text(self._workspace.read(path), path)


class JsonQueryTool(Unasked):
    """Shows a part of a JSON file."""

    def __init__(self, *, executor: Executor, wrap: Wrap) -> None:
        self._workspace = Workspace(executor=executor, wrap=wrap)

    @property
    def spec(self) -> ToolSpec:
        """what the model is told"""
        return ToolSpec(
            name="json_query",
            description="Show the value in a JSON file that a query like scripts.test or items[0].name leads to.",
            parameters={
                "type": "object",
                "properties": {
                    "path": PATH,
                    "query": {"type": "string", "description": "names joined by dots, [N] for the N-th item from 0"},
                },
                "required": ["path"],
            },
        )

    def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Return the value as JSON in one fence, and its type."""
        path, query = arguments["path"], arguments.get("query", "")
        try:
            value = _find(json.loads(decode_text(self._workspace.read(path), path)), query)
            shown = json.dumps(value, ensure_ascii=False, indent=1)
            shown.encode()  # half a surrogate pair is valid JSON, but no text
        except UnicodeEncodeError:
            shown = json.dumps(value)
        except RecursionError:
            return failure(f'"{visible(path)}" is nested too deeply')
        except LookupError as error:
            return failure(f'"{visible(path)}" has no {visible(query)}: {error.args[0]}')
        except ValueError as error:
            return failure(f'"{visible(path)}" is no valid JSON: {truncate(visible(str(error)), 200)}')
        fence = self._workspace.wrap(
            bounded(shown.split("\n"), SHOWN_LIMIT_CHARACTERS), source=self._workspace.place(path)
        )
        return ToolResult(text=f"{fence}\nvalue_type: {_type_name(value)}")


def _ends(content: bytes | FileAccessDenied, path: str, count: int, *, tail: bool) -> list[str]:
    if isinstance(content, FileAccessDenied):
        raise content
    lines = lines_of(decode_text(content, path))
    first = max(0, len(lines) - count) if tail else 0
    shown = [f"{number}|{cut_line(line)}" for number, line in enumerate(lines[first : first + count], first + 1)]
    return [*shown, f"(total_lines: {len(lines)})"]


def _find(value: object, query: str) -> object:
    """Return what `query` names in `value`. Raises LookupError with the reason as its argument."""
    for step in _steps(query):
        if isinstance(step, int):
            if not isinstance(value, list):
                raise LookupError(f"[{step}] is asked of {_type_name(value)}")
            if not -len(value) <= step < len(value):
                raise LookupError(f"[{step}] is beyond its {len(value)} items")
            value = value[step]
        else:
            if not isinstance(value, dict):
                raise LookupError(f'"{visible(step)}" is asked of {_type_name(value)}')
            if step not in value:
                raise LookupError(f'there is no "{visible(step)}"')
            value = value[step]
    return value


def _steps(query: str) -> Sequence[str | int]:
    steps: list[str | int] = []
    rest = query.removeprefix("$").strip()
    while rest:
        match = _STEP.match(rest)
        if match is None:
            raise LookupError("it is no path: use names, dots and [N]")
        steps.append(match.group(2) if match.group(1) is None else int(match.group(1)))
        rest = rest[match.end() :]
    return steps


def _type_name(value: object) -> str:
    if value is None:
        return "null"
    names: dict[type, str] = {
        bool: "boolean",
        str: "string",
        list: "array",
        dict: "object",
        int: "number",
        float: "number",
    }
    return names[type(value)]
