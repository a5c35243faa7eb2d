"""The tool `config_view`: the settings that are in force in this session, read-only (R-19)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from odek.model.types import ToolSpec
from odek.text import visible
from odek.tools.registry import ToolResult, Wrap, failure, render_json

_DESCRIPTION = """\
Return the settings in force in this session as one JSON object: the model, which commands need approval, the \
container that commands run in with its real network, limits and user, and who set each value. It changes nothing."""
# Some servers refuse a tool without any argument, others one without the list of them (B117).
_PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "part": {"type": "string", "description": "one key of the object, to see it alone; all unless given"}
    },
}


class ConfigViewTool:
    """Shows what it was given."""

    def __init__(self, *, applied: Callable[[], Mapping[str, object]], wrap: Wrap) -> None:
        """`applied` returns a value that is fit for JSON and holds no secret."""
        self._applied = applied
        self._wrap = wrap

    @property
    def spec(self) -> ToolSpec:
        """what the model is told"""
        return ToolSpec(name="config_view", description=_DESCRIPTION, parameters=_PARAMETERS)

    def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Return the settings, fenced off: a project or Docker chose some of the names in them."""
        settings = self._applied()
        part = arguments.get("part", "")
        if part and part not in settings:
            return failure(f'there is no part "{visible(part)}"; there are {", ".join(settings)}')
        shown = {part: settings[part]} if part else settings
        return ToolResult(text=self._wrap(render_json(shown), source="config_view"))
