"""The tool `diff`: how two texts differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odek.executor import Executor
from odek.model.types import ToolSpec
from odek.text import visible
from odek.tools.edit import EditError, compare_texts, render_diff
from odek.tools.registry import ToolResult, Unasked, Wrap, failure
from odek.tools.workspace import PATH, Workspace, decode_text

SHOWN_LIMIT_CHARACTERS = 30_000


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
