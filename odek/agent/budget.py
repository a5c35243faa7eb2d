"""The limits of a task, what it has used, and which limit is reached (exit code 4). Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from odek.model.types import Usage
from odek.text import plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The limits of one task; None: no limit."""

    runtime_s: int | None = None
    tool_calls: int | None = None
    input_tokens: int | None = None
    """over all requests"""
    output_tokens: int | None = None


NO_BUDGET = Budget()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What a task has used so far."""

    seconds: float = 0.0
    requests: int = 0
    tool_calls: int = 0
    usage: Usage = field(default_factory=Usage)


def exceeded_limit(budget: Budget, spent: Spending) -> str:
    """Return which limit leaves nothing to work with, in words, or "".

    Tokens are known after a request only, so the one that passes a limit is the last.
    """
    limits = (
        (budget.runtime_s, spent.seconds, "second"),
        (budget.input_tokens, spent.usage.input_tokens, "input token"),
        (budget.output_tokens, spent.usage.output_tokens, "output token"),
    )
    for limit, used, noun in limits:
        if limit is not None and used >= limit:
            return plural(limit, noun)
    return ""


def allowed_calls(budget: Budget, spent: Spending, wanted: int) -> int:
    """Return how many of `wanted` tool calls the budget still allows."""
    return wanted if budget.tool_calls is None else max(min(budget.tool_calls - spent.tool_calls, wanted), 0)


def render_spending(spent: Spending) -> str:
    """Return one line about what was used."""
    used = spent.usage
    counts = [plural(spent.requests, "model call"), plural(spent.tool_calls, "tool call")]
    if used.input_tokens or used.output_tokens:
        counts.append(f"{used.input_tokens} tokens in, {used.output_tokens} out")
    return f"used: {', '.join(counts)}, {spent.seconds:.0f} s"
