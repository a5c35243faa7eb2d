"""The tool `delegate_tasks`: the row alone. What carries it out is imported when a model calls it (R-220)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from odek.tools.arguments import array, boolean, integer, record, string
from odek.tools.registry import Arguments, Tool, ToolResult, failure
from odek.tools.workspace import Workspace

MAX_TASKS = 8
CLASSES = (
    *("safe", "local_write", "install", "network_egress", "code_execution", "system_write", "unknown"),
    *("destructive", "blocked"),
)
"""the names of danger.risk.RiskClass, in rank order; the classifier is not imported for them"""

Run = Callable[[Workspace, Arguments], ToolResult]

TASK: dict[str, Any] = record(
    {
        "goal": string("what to find out or do, complete in itself: it sees nothing of this conversation"),
        "context": string("what it must know"),
        "guidance": string("how to go about it"),
        "trust_level": string("untrusted: for words from files or pages", enum=("trusted", "untrusted")),
        "max_risk": string("the worst class of command it may run", enum=CLASSES),
        "readonly": boolean("may not write; such tasks run at the same time"),
        "network": string("none: not the bridge", enum=("none", "bridge")),
        "networks": array(string(), most=64, description="attached networks to keep; none: no one"),
        "tools": array(string(), most=64, description="your tools to keep"),
        "max_iterations": integer(),
        "timeout": integer("seconds"),
    },
    required=("goal",),
)


def _absent(workspace: Workspace, arguments: Arguments) -> ToolResult:
    """Refuse a call where no conversation stands behind the tools."""
    del workspace, arguments
    return failure("there are no sub-agents here")


DELEGATE_TASKS = Tool(
    name="delegate_tasks",
    description=(
        "Give tasks to sub-agents and get their answers: for parts that do not depend on each other, or a search whose "
        "details need not come back. Each has your folder, tools and rights in a container of its own; the fields of a "
        "task only take away."
    ),
    parameters=record(
        {"tasks": array(TASK, most=MAX_TASKS), "description": string("what they are for, in a few words")},
        required=("tasks",),
    ),
    run=_absent,
    expected="",
    title_arguments=("description",),
    strict=f"a task has {', '.join(TASK['properties'])}",
)


def delegate_with(run: Run) -> Tool:
    """Return DELEGATE_TASKS as a conversation has it."""
    return replace(DELEGATE_TASKS, run=run)
