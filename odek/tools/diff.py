"""The tool `diff`: how two texts differ."""

from __future__ import annotations

from odek.text import visible
from odek.tools.arguments import record, string
from odek.tools.edit import EditError, compare_texts, render_diff
from odek.tools.registry import Arguments, Tool, ToolResult, failure
from odek.tools.workspace import PATH, Workspace, read_operations

SHOWN_LIMIT_CHARACTERS = 30_000


def _diff(workspace: Workspace, arguments: Arguments) -> ToolResult:
    """Return the diff between tags."""
    if "path_a" in arguments and "path_b" in arguments:
        names = (arguments["path_a"], arguments["path_b"])
        texts = (workspace.read_text(names[0]), workspace.read_text(names[1]))
    elif "path" in arguments and "content" in arguments:
        names = (arguments["path"], "content")
        texts = (workspace.read_text(names[0]), arguments["content"])
    else:
        return failure("give path_a and path_b, or path and content")
    try:
        changes = compare_texts(*texts)
    except EditError as error:
        return failure(str(error))
    if not changes:
        return ToolResult(text="no difference")
    diff = render_diff(texts[0], changes, limit=SHOWN_LIMIT_CHARACTERS)
    return ToolResult(text=workspace.wrap(diff, source=f"diff:{'|'.join(map(visible, names))}"))


DIFF = Tool(
    name="diff",
    description="Show the unified diff of two files (path_a, path_b), or of a file and a text (path, content).",
    parameters=record(
        {"path_a": PATH, "path_b": PATH, "path": PATH, "content": string("what to compare the file at path with")}
    ),
    run=_diff,
    operations=read_operations,
    parallel=True,
)
