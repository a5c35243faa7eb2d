"""What a sub-agent came to, and how its parent's model is shown that. Pure (R-227, P-45)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from odek.agent.context_window import truncate_middle
from odek.delegate.crew import TaskTimeUp
from odek.errors import BudgetExhausted, Cancelled, IterationLimitReached, OdekError
from odek.model.types import Usage
from odek.text import plural, truncate, visible
from odek.tools.workspace import UntrustedWrapper

Status = Literal["done", "failed", "cancelled", "timeout", "budget"]
TOTAL_CHARACTERS = 48_000
MOST_CHARACTERS = 16_000
_MOST_FILES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutcome:
    """How a task ended."""

    status: Status
    reason: str = ""
    """why there is no answer, in a clause; "" when there is one"""
    said: str = ""
    """its answer, or its last words"""
    usage: Usage
    seconds: float
    files: tuple[str, ...] = ()
    """what its file tools wrote, relative to the workspace, sorted"""


def judge(error: BaseException | None, answer: str, last_words: str) -> tuple[Status, str, str]:
    """Return the status of a task, why it has no answer, and what it said; `error` is what ended it."""
    if error is None:
        return ("done", "", answer) if answer.strip() else ("failed", "its answer is empty", "")
    match error:
        case TaskTimeUp():
            status, reason = "timeout", "its time was over before it had an answer"
        case Cancelled():
            status, reason = "cancelled", "it was stopped before it had an answer"
        case BudgetExhausted() | IterationLimitReached():
            status, reason = "budget", error.message
        case OdekError():
            status, reason = "failed", error.message
        case _:
            status, reason = "failed", f"bug in odek: {type(error).__name__}: {truncate(str(error), 300)}"
    said = last_words or (error.detail if isinstance(error, BudgetExhausted | IterationLimitReached) else "")
    return status, visible(reason), said  # type: ignore[return-value]


def render_outcomes(outcomes: Sequence[TaskOutcome], wrap: UntrustedWrapper) -> str:
    """Return the result of the call: each task in order, each with an equal share of the room."""
    share = min(TOTAL_CHARACTERS // len(outcomes), MOST_CHARACTERS)
    count = len(outcomes)
    parts = [_render(number, count, outcome, share, wrap) for number, outcome in enumerate(outcomes, 1)]
    written = Counter(name for outcome in outcomes for name in outcome.files)
    shared = sorted(name for name, times in written.items() if times > 1)
    if shared:
        parts.append(f"written by more than one task: {_listed(shared)}; look at what is there now")
    return "\n\n".join(parts)


def _render(number: int, of: int, outcome: TaskOutcome, share: int, wrap: UntrustedWrapper) -> str:
    used = outcome.usage
    cost = f"{used.input_tokens} tokens in, {used.output_tokens} out, {outcome.seconds:.0f} s"
    lines = [f"task {number} of {of}: {outcome.status} ({cost})"]
    if outcome.reason:
        lines.append(f"no answer: {outcome.reason}")
    if outcome.said.strip():
        lines += [] if outcome.status == "done" else ["its last words:"]
        lines.append(wrap(truncate_middle(outcome.said, share), source=f"sub-agent {number}"))
    if outcome.files:
        lines.append(f"{plural(len(outcome.files), 'file')} written by its tools: {_listed(outcome.files)}")
    return "\n".join(lines)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(f'"{visible(truncate(name, 200))}"' for name in names[:_MOST_FILES])
    return f"{shown} and {len(names) - _MOST_FILES} more" if len(names) > _MOST_FILES else shown
