"""The settings of sub-agents: how many work at once, and what each may use."""

from __future__ import annotations

from odek.config.options import Option, OptionGroup
from odek.config.values import Kind, Whole


def _subagent(name: str, kind: Kind[int], text: str, *, default: int, env: tuple[str, ...] = ()) -> Option[int]:
    """Return a row of the sub-agents: for the operator's file, and no project's."""
    return Option(f"subagent.{name}", kind, text, default=default, env=env, group="tools")


class SubagentSettings(OptionGroup):
    """What the sub-agents of delegate_tasks may use up."""

    max_concurrency = _subagent(
        "max_concurrency", Whole(1, 8), "How many sub-agents of one call work at once; they share the sandbox's limits",
        default=3, env=("ODEK_MAX_CONCURRENCY",),
    )  # fmt: skip
    max_tasks = _subagent("max_tasks", Whole(1, 1000), "How many tasks a session may give to sub-agents", default=24)
    timeout_s = _subagent(
        "timeout_seconds", Whole(10, 3600), "Seconds that a sub-agent may take, without those in which you are asked",
        default=900,
    )  # fmt: skip
    max_iterations = _subagent(
        "max_iterations", Whole(1, 100), "How often a sub-agent's model is asked before it gives up", default=30
    )
