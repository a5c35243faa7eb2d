"""What a parent's model is shown of its sub-agents."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.tools import wrap

from odek.delegate.crew import TaskCancelled, TaskTimeUp
from odek.delegate.outcome import TaskOutcome, judge, render_outcomes
from odek.errors import BudgetExhausted, Interrupted, IterationLimitReached, OdekError
from odek.model.types import Usage

DONE = TaskOutcome(status="done", said="all is well", usage=Usage(input_tokens=5, output_tokens=2), seconds=3.2)


@pytest.mark.parametrize(
    ("error", "answer", "last", "judged"),
    [
        (None, "found it", "", ("done", "", "found it")),
        (None, "", "", ("failed", "its answer is empty", "")),
        (None, " \n", "", ("failed", "its answer is empty", "")),
        (TaskTimeUp(), "", "so far", ("timeout", "its time was over before it had an answer", "so far")),
        (TaskCancelled(), "", "", ("cancelled", "it was stopped before it had an answer", "")),
        (Interrupted(2), "", "", ("cancelled", "it was stopped before it had an answer", "")),
        (BudgetExhausted("used up", detail="sum"), "", "", ("budget", "used up", "sum")),
        (IterationLimitReached("too often", detail="sum"), "", "last", ("budget", "too often", "last")),
        (OdekError("the model\x1b is gone"), "", "", ("failed", "the model\\x1b is gone", "")),
        (ValueError("oops"), "", "", ("failed", "bug in odek: ValueError: oops", "")),
    ],
)
def test_only_an_answer_is_a_success(
    error: BaseException | None, answer: str, last: str, judged: tuple[str, str, str]
) -> None:
    """R-227, P-45: whatever ends a task, and an answer of blanks."""
    assert judge(error, answer, last) == judged


def test_result_names_every_task_in_order() -> None:
    """R-227: status and cost first, then the words in tags, then the files; those of several tasks at the end."""
    late = replace(DONE, status="timeout", reason="too late", said="half", files=("a.txt", "b.txt"))
    silent = replace(DONE, status="failed", reason="its answer is empty", said="", files=("a.txt",))
    assert render_outcomes([DONE, late, silent], wrap).split("\n") == [
        "task 1 of 3: done (5 tokens in, 2 out, 3 s)",
        *wrap("all is well", source="sub-agent 1").split("\n"),
        "",
        "task 2 of 3: timeout (5 tokens in, 2 out, 3 s)",
        "no answer: too late",
        "its last words:",
        *wrap("half", source="sub-agent 2").split("\n"),
        '2 files written by its tools: "a.txt", "b.txt"',
        "",
        "task 3 of 3: failed (5 tokens in, 2 out, 3 s)",
        "no answer: its answer is empty",
        '1 file written by its tools: "a.txt"',
        "",
        'written by more than one task: "a.txt"; look at what is there now',
    ]


@pytest.mark.parametrize(("tasks", "share"), [(1, 16_000), (2, 16_000), (4, 12_000), (8, 6_000)])
def test_long_answers_share_the_room_and_are_cut_in_the_middle(tasks: int, share: int) -> None:
    """R-227."""
    long = replace(DONE, said="begin" + "x" * 50_000 + "end")
    text = render_outcomes([long] * tasks, wrap)
    assert len(text) <= tasks * (share + 300)
    assert text.count("begin") == text.count("end") == tasks
    assert text.count("x") > tasks * (share - 300)
