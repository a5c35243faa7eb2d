from __future__ import annotations

import pytest

from odek.agent.budget import NO_BUDGET, Budget, Spending, allowed_calls, exceeded_limit, render_spending
from odek.model.types import Usage

MUCH = Spending(seconds=1e9, requests=9, tool_calls=10**6, usage=Usage(input_tokens=10**9, output_tokens=10**9))


@pytest.mark.parametrize(
    ("budget", "spent", "limit"),
    [
        (NO_BUDGET, MUCH, ""),
        (Budget(runtime_s=60), Spending(seconds=59.9), ""),
        (Budget(runtime_s=60), Spending(seconds=60.0), "60 seconds"),
        (Budget(runtime_s=1), MUCH, "1 second"),
        (Budget(input_tokens=100), Spending(usage=Usage(input_tokens=99, output_tokens=500)), ""),
        (Budget(input_tokens=100), Spending(usage=Usage(input_tokens=100)), "100 input tokens"),
        (Budget(output_tokens=100), Spending(usage=Usage(output_tokens=101)), "100 output tokens"),
        # calls are counted before they run, so that a model may still answer without one
        (Budget(tool_calls=3), Spending(tool_calls=3), ""),
    ],
)
def test_limit_is_reached(budget: Budget, spent: Spending, limit: str) -> None:
    assert exceeded_limit(budget, spent) == limit


@pytest.mark.parametrize(
    ("limit", "done", "wanted", "allowed"),
    [(None, 10**6, 5, 5), (3, 0, 5, 3), (3, 2, 5, 1), (3, 3, 5, 0), (3, 9, 5, 0), (3, 0, 2, 2)],
)
def test_calls_that_are_still_allowed(limit: int | None, done: int, wanted: int, allowed: int) -> None:
    assert allowed_calls(Budget(tool_calls=limit), Spending(tool_calls=done), wanted) == allowed


@pytest.mark.parametrize(
    ("spent", "text"),
    [
        (Spending(), "used: 0 model calls, 0 tool calls, 0 s"),
        (
            Spending(seconds=61.4, requests=1, tool_calls=2, usage=Usage(input_tokens=5, output_tokens=6)),
            "used: 1 model call, 2 tool calls, 5 tokens in, 6 out, 61 s",
        ),
    ],
)
def test_what_was_used_in_words(spent: Spending, text: str) -> None:
    assert render_spending(spent) == text
