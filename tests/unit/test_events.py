from __future__ import annotations

import json
from typing import Any

import pytest

from odek.app.turn_events import shown_turn
from odek.errors import OdekError
from odek.events import (
    ApprovalAnswered,
    ApprovalRequested,
    Event,
    Finished,
    ModelReplied,
    Notice,
    Progress,
    RequestStarted,
    SandboxChanged,
    SandboxStarted,
    TaskEnded,
    TaskEvent,
    TaskStarted,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolOutput,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    WarningIssued,
    to_json,
)
from odek.model.types import Message, Reply, ToolCall, Usage

CALL = ToolCall(id="c1", name="shell", arguments='{"command":"ls"}')
REPLY = Reply(
    message=Message(role="assistant", content="hm", tool_calls=(CALL,), reasoning="secret thoughts"),
    usage=Usage(input_tokens=3, output_tokens=2, cached_tokens=1),
    stop="tool_calls",
)
USAGE = {"input_tokens": 3, "output_tokens": 2, "cached_tokens": 1}
CALL_JSON = {"id": "c1", "name": "shell", "arguments": '{"command":"ls"}'}


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            TurnStarted(turn=2, text="t", files=("a",), at="2026-07-15T00:00:00Z"),
            {"event": "turn_started", "turn": 2, "text": "t", "files": ["a"], "at": "2026-07-15T00:00:00Z"},
        ),
        (
            TurnEnded(turn=2, status="failed", message="m", hint="h", usage=REPLY.usage, seconds=1.23456),
            {
                "event": "turn_ended",
                "turn": 2,
                "status": "failed",
                "error": {"message": "m", "hint": "h"},
                "usage": USAGE,
                "session_usage": {"input_tokens": 0, "output_tokens": 0, "cached_tokens": 0},
                "seconds": 1.235,
            },
        ),
        (RequestStarted(iteration=1), {"event": "model_asked", "iteration": 1}),
        (TextDelta(text="a"), {"event": "text", "text": "a"}),
        (ThinkingDelta(text="a"), {"event": "thinking", "text": "a"}),
        (
            ModelReplied(reply=REPLY, iteration=2),
            {
                "event": "model_replied",
                "iteration": 2,
                "content": "hm",
                "tool_calls": [CALL_JSON],
                "stop": "tool_calls",
                "usage": USAGE,
            },
        ),
        (ToolStarted(call=CALL, title="shell: ls"), {"event": "tool_started", **CALL_JSON, "title": "shell: ls"}),
        (
            ToolFinished(call=CALL, text="out", failed=True),
            {"event": "tool_finished", "id": "c1", "name": "shell", "failed": True, "result": "out"},
        ),
        (
            ToolOutput(call_id="c1", tail="…end", size_bytes=9),
            {"event": "tool_output", "id": "c1", "tail": "…end", "size_bytes": 9},
        ),
        (
            SandboxChanged("lost", "gone"),
            {"event": "sandbox", "state": "lost", "facts": None, "reason": "gone"},
        ),
        (ApprovalRequested(approval={"id": "a"}), {"event": "approval_asked", "approval": {"id": "a"}}),
        (
            ApprovalAnswered(id="a", answer="deny", how="cancelled"),
            {"event": "approval_settled", "id": "a", "answer": "deny", "how": "cancelled"},
        ),
        (WarningIssued(text="w"), {"event": "warning", "text": "w"}),
        (WarningIssued("w", hint="h"), {"event": "warning", "text": "w", "hint": "h"}),
        (Notice("n"), {"event": "notice", "text": "n"}),
        (Progress("p"), {"event": "notice", "text": "p"}),
        (
            SandboxStarted("sandbox network=none", {"container": "odek-1-1"}),
            {"event": "sandbox", "state": "ready", "facts": {"container": "odek-1-1"}, "reason": None},
        ),
        (
            Finished(answer="a", usage=REPLY.usage, iterations=4, refused=(("network_egress", 2),)),
            {
                "event": "finished",
                "answer": "a",
                "iterations": 4,
                "usage": USAGE,
                "refused": [{"class": "network_egress", "count": 2}],
                "cost_usd": None,
            },
        ),
        (
            Finished(answer="a", usage=Usage(input_tokens=2, priced_tokens=2, cost_usd=0.1 + 0.2), iterations=1),
            {
                "event": "finished",
                "answer": "a",
                "iterations": 1,
                "usage": {"input_tokens": 2, "output_tokens": 0, "cached_tokens": 0},
                "refused": [],
                "cost_usd": 0.3,
            },
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_to_json_gives_each_event_its_object(event: Event, expected: dict[str, Any]) -> None:
    """R-81: events for machines."""
    assert to_json(event) == expected
    assert json.loads(json.dumps(to_json(event))) == expected


def test_end_of_a_turn_carries_what_others_said_of_it() -> None:
    """R-129: what the model's server answered is no less needed in a page than in a terminal."""
    seen: list[Event] = []

    def used() -> tuple[Usage, Usage]:
        return Usage(), Usage()

    with (
        pytest.raises(OdekError),
        shown_turn(TurnStarted(turn=1, text="t", files=(), at=""), seen.append, used, clock=lambda: 0.0),
    ):
        raise OdekError("it answered 500", detail="the GPU is on fire")
    assert to_json(seen[-1])["error"] == {"message": "it answered 500", "hint": "", "detail": "the GPU is on fire"}


def test_what_happens_in_a_sub_agent_carries_its_task() -> None:
    """R-225: the fields of the event inside, and the task; those of a start and an end."""
    assert to_json(TaskEvent(task="c1/2", event=ToolStarted(call=CALL, title="shell: ls"))) == {
        "event": "tool_started", **CALL_JSON, "title": "shell: ls", "task": "c1/2",
    }  # fmt: skip
    assert to_json(TaskStarted(task="c1/2", of=3, goal="look", facts=None)) == {
        "event": "task_started", "task": "c1/2", "of": 3, "goal": "look", "facts": None,
    }  # fmt: skip
    ended = TaskEnded(task="c1/2", status="done", usage=REPLY.usage, seconds=1.23456, files=("a.txt",))
    assert to_json(ended) == {
        "event": "task_ended", "task": "c1/2", "status": "done", "usage": USAGE, "seconds": 1.235, "files": ["a.txt"],
    }  # fmt: skip
