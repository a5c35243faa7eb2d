from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import pytest
from fakes.model import ScriptedModel, text_reply

from odek.agent.calls import RESULT_LIMIT_CHARACTERS
from odek.agent.events import (
    Event,
    Finished,
    ModelAsked,
    ModelReplied,
    TextArrived,
    ToolFinished,
    ToolStarted,
    Warned,
)
from odek.agent.loop import Agent
from odek.errors import Interrupted, OdekError
from odek.model.types import Message, Reply, ToolCall, ToolSpec, Usage

SPECS = (ToolSpec(name="echo", description="", parameters={"type": "object", "properties": {}}),)
SYSTEM = Message(role="system", content="system text")
TASK = Message(role="user", content="task")
INTERRUPTED = '{"error":"interrupted: the run was stopped before this call had a result; it may have had effects"}'


@dataclass(frozen=True)
class Outcome:
    text: str
    failed: bool = False


@dataclass
class Tools:
    """Answers calls by id; an exception is raised."""

    outcomes: dict[str, Outcome | BaseException]
    specs: tuple[ToolSpec, ...] = SPECS

    def is_parallel(self, call: ToolCall) -> bool:  # noqa: ARG002  part of the protocol
        return False

    def prepare(self, call: ToolCall) -> Callable[[], Outcome]:
        return partial(self._call, call)

    def _call(self, call: ToolCall) -> Outcome:
        outcome = self.outcomes.pop(call.id)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


def calls(*ids: str) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(id=id_, name="echo", arguments="{}") for id_ in ids)


says = text_reply


def asks_for(*ids: str, text: str = "", stop: str = "tool_calls", usage: Usage = Usage()) -> Reply:
    return Reply(message=Message(role="assistant", content=text, tool_calls=calls(*ids)), stop=stop, usage=usage)


def result(id_: str, text: str) -> Message:
    return Message(role="tool", content=text, tool_call_id=id_, name="echo")


@dataclass
class Bench:
    """An agent with everything around it."""

    agent: Agent
    model: ScriptedModel
    events: list[Event]

    @property
    def requests(self) -> list[tuple[tuple[Message, ...], tuple[ToolSpec, ...]]]:
        return [(request.messages, request.tools) for request in self.model.requests]


def bench(
    *replies: Reply | BaseException,
    outcomes: dict[str, Outcome | BaseException] | None = None,
    max_iterations: int = 10,
    history: Sequence[Message] = (),
) -> Bench:
    model, events = ScriptedModel(replies), list[Event]()
    agent = Agent(
        model=model,
        tools=Tools(outcomes or {}),
        sink=events.append,
        max_iterations=max_iterations,
        system="system text",
        history=history,
    )
    return Bench(agent=agent, model=model, events=events)


def test_run_returns_the_answer_of_a_model_that_needs_no_tool() -> None:
    """R-81: one request with system prompt, task and tools; the answer is the text."""
    b = bench(says("done"))
    assert b.agent.run("task") == "done"
    assert b.requests == [((SYSTEM, TASK), SPECS)]
    assert b.agent.messages == [SYSTEM, TASK, says("done").message]


def test_run_answers_every_call_in_the_order_of_the_calls() -> None:
    """R-80: one tool message per call, with the id of the call."""
    reply = asks_for("x", "y", text="looking")
    b = bench(reply, says("done"), outcomes={"y": Outcome("second"), "x": Outcome("first")})
    b.agent.run("task")
    assert b.requests[1][0] == (SYSTEM, TASK, reply.message, result("x", "first"), result("y", "second"))


def test_run_tells_everything_that_happens_in_order() -> None:
    first = asks_for("x", text="hm", usage=Usage(input_tokens=5, output_tokens=1))
    last = says("done", usage=Usage(input_tokens=7, output_tokens=2, cached_tokens=5))
    b = bench(first, last, outcomes={"x": Outcome("no", failed=True)})
    b.agent.run("task")
    (call,) = calls("x")
    assert b.events == [
        ModelAsked(iteration=1),
        TextArrived(text="hm"),
        ModelReplied(reply=first, iteration=1),
        ToolStarted(call=call, title="echo"),
        ToolFinished(call=call, text="no", failed=True),
        ModelAsked(iteration=2),
        TextArrived(text="done"),
        ModelReplied(reply=last, iteration=2),
        Finished(answer="done", usage=Usage(input_tokens=12, output_tokens=3, cached_tokens=5), iterations=2),
    ]


def test_run_goes_on_with_the_conversation_for_the_next_task() -> None:
    b = bench(says("one", usage=Usage(input_tokens=9)), says("two", usage=Usage(input_tokens=4)))
    b.agent.run("task")
    b.agent.run("more")
    assert b.requests[1][0] == (SYSTEM, TASK, says("one").message, Message(role="user", content="more"))
    assert b.events[-1] == Finished(answer="two", usage=Usage(input_tokens=4), iterations=1)


def test_history_keeps_its_messages_and_loses_its_system_message() -> None:
    """The prompt of today replaces the one of the stored session (date, folder, container)."""
    history = (Message(role="system", content="old"), Message(role="user", content="a"), says("b").message)
    b = bench(says("done"), history=history)
    b.agent.run("task")
    assert b.requests[0][0] == (SYSTEM, history[1], history[2], TASK)


def test_run_keeps_reasoning_in_the_messages() -> None:
    message = Message(role="assistant", content="", tool_calls=calls("x"), reasoning="because")
    b = bench(Reply(message=message), says("done"), outcomes={"x": Outcome("r")})
    b.agent.run("task")
    assert b.agent.messages[2] == message


def test_run_asks_again_when_the_answer_is_empty() -> None:
    b = bench(says(" \n"), says("done"))
    assert b.agent.run("task") == "done"
    assert b.requests == [((SYSTEM, TASK), SPECS)] * 2
    assert b.agent.messages == [SYSTEM, TASK, says("done").message]


def test_run_fails_when_the_answer_is_empty_twice() -> None:
    b = bench(says(""), says("", stop="content\x1b_filter"))
    with pytest.raises(OdekError) as caught:
        b.agent.run("task")
    assert caught.value.message == 'the model gave an empty answer twice (it stopped with "content\\x1b_filter")'
    assert (caught.value.exit_code, b.agent.messages) == (1, [SYSTEM, TASK])


def test_an_empty_answer_counts_again_after_work_was_done() -> None:
    b = bench(says(""), asks_for("x"), says(""), says("done"), outcomes={"x": Outcome("r")})
    assert b.agent.run("task") == "done"


def test_run_ends_with_a_summary_when_the_iterations_are_used_up() -> None:
    """F-49: the work is not lost; the last request offers no tools."""
    b = bench(
        asks_for("x"),
        asks_for("y"),
        says("half done"),
        outcomes={"x": Outcome("1"), "y": Outcome("2")},
        max_iterations=2,
    )
    with pytest.raises(OdekError) as caught:
        b.agent.run("task")
    error = caught.value
    assert (error.message, error.detail, error.exit_code) == (
        "reached max iterations (2) without final answer",
        "half done",
        1,
    )
    assert [tools for _, tools in b.requests] == [SPECS, SPECS, ()]
    assert [message.role for message in b.agent.messages] == [
        *("system", "user", "assistant", "tool", "assistant", "tool", "user", "assistant"),
    ]
    assert b.agent.messages[-1] == Message(role="assistant", content="half done")


def test_the_summary_may_not_call_tools() -> None:
    b = bench(asks_for("x"), asks_for("z", text="more"), outcomes={"x": Outcome("1")}, max_iterations=1)
    with pytest.raises(OdekError, match="max iterations") as caught:
        b.agent.run("task")
    assert (caught.value.detail, b.agent.messages[-1]) == ("more", Message(role="assistant", content="more"))


def test_a_failed_summary_does_not_hide_the_limit() -> None:
    b = bench(asks_for("x"), OdekError("no connection"), outcomes={"x": Outcome("1")}, max_iterations=1)
    with pytest.raises(OdekError) as caught:
        b.agent.run("task")
    assert (caught.value.message, caught.value.detail) == ("reached max iterations (1) without final answer", "")
    assert b.events[-1] == Warned(text="no summary of the work so far: no connection")


@pytest.mark.parametrize("text", ["", "first I will"])
def test_calls_of_a_reply_that_was_cut_off_are_neither_run_nor_stored(text: str) -> None:
    """B40 (g): half a command must not run, and must not be sent again."""
    b = bench(asks_for("x", text=text, stop="length"), says("done"))
    assert b.agent.run("task") == "done"
    kept = [Message(role="assistant", content=text)] if text else []
    *messages, told = b.requests[1][0]
    assert messages == [SYSTEM, TASK, *kept]
    assert (told.role, told.content.split(".")[:2]) == (
        "user",
        ["[odek] Your last reply reached the output limit before it was complete", " None of its tool calls was run"],
    )
    assert Warned(text="the model's reply was cut off at its output limit; its tool calls were not run") in b.events


def test_an_answer_that_was_cut_off_is_returned_with_a_warning() -> None:
    b = bench(says("half", stop="length"))
    assert b.agent.run("task") == "half"
    assert Warned(text="the answer is cut off: it reached the model's output limit") in b.events


@pytest.mark.parametrize("ending", [Interrupted(2), OdekError("the sandbox is gone"), RuntimeError("bug")])
def test_what_ends_a_run_in_a_tool_leaves_complete_pairs(ending: BaseException) -> None:
    """R-85, F-58: every call has a result, also those that were not reached."""
    b = bench(asks_for("x", "y", "z"), outcomes={"x": Outcome("1"), "y": ending, "z": Outcome("3")})
    with pytest.raises(type(ending)):
        b.agent.run("task")
    assert b.agent.messages[3:] == [result("x", "1"), result("y", INTERRUPTED), result("z", INTERRUPTED)]


def test_an_interrupt_while_the_model_answers_leaves_the_messages_as_sent() -> None:
    b = bench(Interrupted(15))
    with pytest.raises(Interrupted):
        b.agent.run("task")
    assert b.agent.messages == [SYSTEM, TASK]


def test_an_interrupt_after_the_last_result_adds_nothing() -> None:
    b = bench(asks_for("x", "y"), Interrupted(2), outcomes={"x": Outcome("1"), "y": Outcome("2")})
    with pytest.raises(Interrupted):
        b.agent.run("task")
    assert b.agent.messages[3:] == [result("x", "1"), result("y", "2")]


def test_the_conversation_can_go_on_after_an_interrupt() -> None:
    """F-57: one Ctrl-C does not spoil later turns."""
    b = bench(asks_for("x"), says("done"), outcomes={"x": Interrupted(2)})
    with pytest.raises(Interrupted):
        b.agent.run("task")
    assert b.agent.run("again") == "done"
    assert b.requests[1][0][-2:] == (result("x", INTERRUPTED), Message(role="user", content="again"))


def test_messages_are_complete_whenever_the_model_is_asked() -> None:
    """F-49: whoever stores the session at a ModelAsked stores something that can be continued."""
    b = bench(asks_for("x", "y"), says("done"), outcomes={"x": Outcome("1"), "y": Outcome("2")})
    b.agent.run("task")
    for messages, _ in b.requests:
        wanted = [call.id for message in messages for call in message.tool_calls]
        assert [message.tool_call_id for message in messages if message.role == "tool"] == wanted


def test_the_third_failure_in_a_row_carries_a_hint() -> None:
    ids = ("a", "b", "c")
    outcomes: dict[str, Outcome | BaseException] = {id_: Outcome("no", failed=True) for id_ in ids}
    b = bench(*(asks_for(id_) for id_ in ids), says("done"), outcomes=outcomes)
    b.agent.run("task")
    texts = [message.content for message in b.agent.messages if message.role == "tool"]
    assert [text.split("\n")[0] for text in texts] == ["no", "no", "no"]
    assert [text.count("hint: echo failed 3 times in a row.") for text in texts] == [0, 0, 1]


def test_a_huge_result_is_cut_in_the_middle() -> None:
    """F-51: the safety cap counts characters, and says what is missing."""
    side = RESULT_LIMIT_CHARACTERS // 2
    b = bench(asks_for("x"), says("done"), outcomes={"x": Outcome("ä" * side + "MIDDLE" + "ö" * side)})
    b.agent.run("task")
    assert b.agent.messages[3].content == "ä" * side + "\n[6 characters left out]\n" + "ö" * side


def test_a_result_at_the_cap_is_whole() -> None:
    b = bench(asks_for("x"), says("done"), outcomes={"x": Outcome("ä" * RESULT_LIMIT_CHARACTERS)})
    b.agent.run("task")
    assert b.agent.messages[3].content == "ä" * RESULT_LIMIT_CHARACTERS
