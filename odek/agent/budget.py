"""The limits of a task, what it has used, and which limit is reached (exit code 4)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from threading import Lock

from odek.model.types import Usage
from odek.text import plural, render_usd


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The limits of one task; None: no limit."""

    runtime_s: int | None = None
    tool_calls: int | None = None
    input_tokens: int | None = None
    """over all requests"""
    output_tokens: int | None = None
    cost_usd: float | None = None


NO_BUDGET = Budget()


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What a task has used so far."""

    seconds: float = 0.0
    requests: int = 0
    tool_calls: int = 0
    usage: Usage = field(default_factory=Usage)


class Meter:
    """Counts what a task uses, together with the sub-agents that work for it. Any thread may add to it."""

    def __init__(self, parent: Meter | None = None) -> None:
        """What is counted here counts for `parent` as well: its limits are for all together."""
        self._parent = parent
        self._lock = Lock()
        self._spent = Spending()
        self._reported = Usage()
        self._calls_begun = 0

    @property
    def root(self) -> Meter:
        """the meter of the task that all this is for"""
        return self if self._parent is None else self._parent.root

    @property
    def spent(self) -> Spending:
        """what was used so far, without the time"""
        return self._spent

    @property
    def reported(self) -> Usage:
        """the tokens as the provider counted them"""
        return self._reported

    def add_request(self, *, reported: Usage, used: Usage) -> None:
        """Count a request: what the provider says of it, and that or an estimate."""
        with self._lock:
            self._spent = replace(self._spent, requests=self._spent.requests + 1, usage=self._spent.usage + used)
            self._reported = self._reported + reported
        if self._parent is not None:
            self._parent.add_request(reported=reported, used=used)

    def add_call(self) -> None:
        """Count a tool call that has its result."""
        with self._lock:
            self._spent = replace(self._spent, tool_calls=self._spent.tool_calls + 1)
        if self._parent is not None:
            self._parent.add_call()

    def begin_calls(self, budget: Budget, wanted: int) -> int:
        """Return how many of `wanted` tool calls `budget` still allows; they count from now on."""
        if self._parent is not None:
            return self._parent.begin_calls(budget, wanted)
        with self._lock:
            allowed = allowed_calls(budget, replace(self._spent, tool_calls=self._calls_begun), wanted)
            self._calls_begun += allowed
        return allowed


def unpriced(usage: Usage) -> Usage:
    """Return `usage` of a model whose prices are not known."""
    return usage


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
    if budget.cost_usd is not None and spent.usage.cost_usd >= budget.cost_usd:
        return render_usd(budget.cost_usd)
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
    if used.known_cost_usd is not None:
        counts.append(render_usd(used.cost_usd))
    return f"used: {', '.join(counts)}, {spent.seconds:.0f} s"
