"""What a task may use up, from the settings."""

from __future__ import annotations

from odek.agent.budget import Budget
from odek.config.settings import Settings


def budget_of(settings: Settings) -> Budget:
    """Return the limits of one task. Pure."""
    limits = settings.limits
    return Budget(
        runtime_s=limits.runtime_s,
        tool_calls=limits.tool_calls,
        input_tokens=limits.input_tokens,
        output_tokens=limits.output_tokens,
        cost_usd=limits.cost_usd,
    )
