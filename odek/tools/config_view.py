"""The tool `config_view`: the settings that are in force in this session, read-only (R-19)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from odek.model.types import ToolSpec
from odek.tools.registry import ToolResult, Wrap, render_json

_DESCRIPTION = """\
Return the settings in force in this session as one JSON object: the model, which commands need approval, the \
container that commands run in with its real network, limits and user, and who set each value. It changes nothing."""
_PARAMETERS: Mapping[str, Any] = {"type": "object", "properties": {}}


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
        del arguments
        return ToolResult(text=self._wrap(render_json(self._applied()), source="config_view"))
