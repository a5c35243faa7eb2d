"""The tool `config_view`: the settings that are in force in this session, read-only (R-19)."""

from __future__ import annotations

from odek.text import visible
from odek.tools.arguments import record, string
from odek.tools.registry import Arguments, Tool, ToolResult, failure, render_json
from odek.tools.workspace import Workspace


def _config_view(workspace: Workspace, arguments: Arguments) -> ToolResult:
    """Return the settings between tags: a project or Docker chose some of the names in them."""
    settings = workspace.config()
    part = arguments.get("part", "")
    if part and part not in settings:
        return failure(f'there is no part "{visible(part)}"; there are {", ".join(settings)}')
    shown = {part: settings[part]} if part else settings
    return ToolResult(text=workspace.wrap(render_json(shown), source="config_view"))


CONFIG_VIEW = Tool(
    name="config_view",
    description=(
        "Return the settings in force in this session as one JSON object: the model, which commands need approval, the "
        "container that commands run in with its real network, limits and user, and who set each value. It changes "
        "nothing."
    ),
    # Some servers refuse a tool without any argument, others one without the list of them (B117).
    parameters=record({"part": string("one key of the object, to see it alone; all unless given")}),
    run=_config_view,
    expected="",
    title_arguments=(),
)
