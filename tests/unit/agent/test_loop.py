from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from fakes.model import NO_USAGE, ScriptedModel, text_reply
from fakes.tools import FakeToolbox

from odek.agent.budget import Budget
from odek.agent.calls import RESULT_LIMIT_CHARACTERS
from odek.agent.context_window import estimate_tokens
from odek.agent.loop import Agent
from odek.cancel import CancelToken, current_token, use_token
from odek.errors import BudgetExhausted, Interrupted, OdekError, TimeLimitReached
from odek.events import (
    Event,
    Finished,
    ModelReplied,
    RequestStarted,
    TextDelta,
    TextVoided,
    ToolFinished,
    ToolStarted,
    WarningIssued,
)
from odek.model.errors import ModelError, ModelRejected
from odek.model.pairing import interrupted_result
from odek.model.types import CallBegun, Message, Reply, ToolCall, ToolSpec, Usage
from odek.tools.registry import ToolResult

SPECS = (ToolSpec(name="echo", description="", parameters={"type": "object", "properties": {}}),)
SYSTEM = Message(role="system", content="system text")
TASK = Message(role="user", content="task")
NO_REPLY = Message(role="assistant", content="[odek] The turn ended before there was a reply.")
CUT = "[odek] The reply was cut off here: the turn ended before it was complete."
INTERRUPTED = interrupted_result(ToolCall(id="x", name="x", arguments="{}")).content


class Tools(FakeToolbox):
    """Answers calls by id; an exception is raised."""

    def __init__(
        self, outcomes: dict[str, ToolResult | BaseException], parallel: Callable[[ToolCall], bool] = lambda _: False
    ) -> None:
        super().__init__(self.answer, parallel=parallel, specs=SPECS)
        self.outcomes = outcomes

    def answer(self, call: ToolCall) -> ToolResult:
        outcome = self.outcomes.pop(call.id)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome


def calls(*ids: str) -> tuple[ToolCall, ...]:
    return tuple(ToolCall(id=id_, name="echo", arguments="{}") for id_ in ids)


says = text_reply


def asks_for(*ids: str, text: str = "", stop: str = "tool_calls", usage: Usage = NO_USAGE) -> Reply:
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
    outcomes: dict[str, ToolResult | BaseException] | None = None,
    max_iterations: int = 10,
    history: Sequence[Message] = (),
    window: int | None = None,
    **settings: Any,
) -> Bench:
    model, events = ScriptedModel(replies, window=window), list[Event]()
    agent = Agent(
        model=model,
        tools=Tools(outcomes or {}),
        sink=events.append,
        max_iterations=max_iterations,
        system="system text",
        history=history,
        **settings,
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
    b = bench(reply, says("done"), outcomes={"y": ToolResult(text="second"), "x": ToolResult(text="first")})
    b.agent.run("task")
    assert b.requests[1][0] == (SYSTEM, TASK, reply.message, result("x", "first"), result("y", "second"))


class Streaming(ScriptedModel):
    """Says what begins of calls before each reply, and starts over once."""

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSpec], on_text: Callable[[str], None]) -> Reply:
        for piece in ("hm", CallBegun("echo"), "", CallBegun("echo"), CallBegun("other", is_object=True)):
            on_text(piece)
        return super().complete(messages, tools, on_text)


def test_tools_hear_what_begins_of_calls_and_nobody_else() -> None:
    """R-255: all of a reply each time; nothing at its beginning, and when it starts over."""
    b = bench(says("done"))
    b.agent.model = Streaming([says("done")])
    assert b.agent.run("task") == "done"
    assert isinstance(tools := b.agent._tools, Tools)
    assert tools.expected == [(), ("echo",), (), ("echo",), ("echo", "other")]
    shown = [event for event in b.events if isinstance(event, (TextDelta, TextVoided))]
    assert shown == [TextDelta(text="hm"), TextVoided(), TextDelta(text="done")]
    assert b.agent.messages == [SYSTEM, TASK, says("done").message]


def test_run_tells_everything_that_happens_in_order() -> None:
    first = asks_for("x", text="hm", usage=Usage(input_tokens=5, output_tokens=1))
    last = says("done", usage=Usage(input_tokens=7, output_tokens=2, cached_tokens=5))
    b = bench(first, last, outcomes={"x": ToolResult(text="no", failed=True)})
    b.agent.run("task")
    (call,) = calls("x")
    assert b.events == [
        RequestStarted(iteration=1),
        TextDelta(text="hm"),
        ModelReplied(reply=first, iteration=1),
        ToolStarted(call=call, title="echo"),
        ToolFinished(call=call, text="no", failed=True),
        RequestStarted(iteration=2),
        TextDelta(text="done"),
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
    b = bench(Reply(message=message), says("done"), outcomes={"x": ToolResult(text="r")})
    b.agent.run("task")
    assert b.agent.messages[2] == message


def test_run_asks_again_when_the_answer_is_empty() -> None:
    b = bench(says(" \n"), says("done"))
    assert b.agent.run("task") == "done"
    assert b.requests == [((SYSTEM, TASK), SPECS)] * 2
    assert b.agent.messages == [SYSTEM, TASK, says("done").message]


def test_run_fails_when_the_answer_is_empty_twice() -> None:
    b = bench(says(""), says("", stop="odd\x1b_end"))
    with pytest.raises(OdekError) as caught:
        b.agent.run("task")
    assert caught.value.message == 'the model gave an empty answer twice (it stopped with "odd\\x1b_end")'
    assert (caught.value.exit_code, b.agent.messages) == (1, [SYSTEM, TASK, NO_REPLY])


def test_an_empty_answer_counts_again_after_work_was_done() -> None:
    b = bench(says(""), asks_for("x"), says(""), says("done"), outcomes={"x": ToolResult(text="r")})
    assert b.agent.run("task") == "done"


def test_run_ends_with_a_summary_when_the_iterations_are_used_up() -> None:
    """F-49: the work is not lost; the last request offers no tools."""
    b = bench(
        asks_for("x"),
        asks_for("y"),
        says("half done"),
        outcomes={"x": ToolResult(text="1"), "y": ToolResult(text="2")},
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
    b = bench(asks_for("x"), asks_for("z", text="more"), outcomes={"x": ToolResult(text="1")}, max_iterations=1)
    with pytest.raises(OdekError, match="max iterations") as caught:
        b.agent.run("task")
    assert (caught.value.detail, b.agent.messages[-1]) == ("more", Message(role="assistant", content="more"))


def test_a_failed_summary_does_not_hide_the_limit() -> None:
    b = bench(asks_for("x"), OdekError("no connection"), outcomes={"x": ToolResult(text="1")}, max_iterations=1)
    with pytest.raises(OdekError) as caught:
        b.agent.run("task")
    assert (caught.value.message, caught.value.detail) == ("reached max iterations (1) without final answer", "")
    assert b.events[-1] == WarningIssued(text="no summary of the work so far: no connection")


@pytest.mark.parametrize("text", ["", "first I will"])
def test_calls_of_a_reply_that_was_cut_off_are_neither_run_nor_stored(text: str) -> None:
    """B40 (g): half a command must not run, and must not be sent again."""
    b = bench(asks_for("x", text=text, stop="length"), says("done"))
    assert b.agent.run("task") == "done"
    *messages, told = b.requests[1][0]
    assert messages == [SYSTEM, TASK, Message(role="assistant", content=text or CUT)]
    assert (told.role, told.content.split(".")[:2]) == (
        "user",
        ["[odek] Your last reply reached the output limit before it was complete", " None of its tool calls was run"],
    )
    assert (
        WarningIssued(text="the model's reply was cut off at its output limit; its tool calls were not run") in b.events
    )


def test_an_answer_that_was_cut_off_is_returned_with_a_warning() -> None:
    b = bench(says("half", stop="length"))
    assert b.agent.run("task") == "half"
    assert WarningIssued(text="the answer is cut off: it reached the model's output limit") in b.events


@pytest.mark.parametrize("ending", [Interrupted(2), OdekError("the sandbox is gone"), RuntimeError("bug")])
def test_what_ends_a_run_in_a_tool_leaves_complete_pairs(ending: BaseException) -> None:
    """R-85, F-58: every call has a result, also those that were not reached."""
    b = bench(asks_for("x", "y", "z"), outcomes={"x": ToolResult(text="1"), "y": ending, "z": ToolResult(text="3")})
    with pytest.raises(type(ending)):
        b.agent.run("task")
    assert b.agent.messages[3:] == [
        result("x", "1"),
        result("y", INTERRUPTED),
        result("z", INTERRUPTED),
        NO_REPLY,
    ]


class BreakingModel(ScriptedModel):
    """Says a part of each answer before what ends it comes."""

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSpec], on_text: Callable[[str], None]) -> Reply:
        ends = isinstance(self._replies[len(self.requests)], BaseException)
        for piece in ("half ", "an answer") if ends else ():
            on_text(piece)
        return super().complete(messages, tools, on_text)


ENDINGS = (
    Interrupted(2),
    TimeLimitReached(),
    ModelRejected("answered 401", status=401),
    ModelRejected("answered 402", status=402),
    ModelError("answered 500"),
    ModelError("the answer broke off"),
    RuntimeError("bug"),
)


@pytest.mark.parametrize("speaks", [False, True])
@pytest.mark.parametrize("work_before", [False, True])
@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: f"{type(ending).__name__} {ending}")
def test_whatever_ends_a_turn_the_models_word_is_last(
    ending: BaseException, *, work_before: bool, speaks: bool
) -> None:
    """A23: what was said stays, marked; else a note stands there. The next request has the user's turn after it."""
    before = [asks_for("x")] if work_before else []
    kind = BreakingModel if speaks else ScriptedModel
    model = kind([*before, ending, says("done")])
    tools = Tools({"x": ToolResult(text="1")})
    agent = Agent(model=model, tools=tools, sink=lambda _: None, max_iterations=5, system="system text")
    with pytest.raises(BudgetExhausted if isinstance(ending, TimeLimitReached) else type(ending)):
        agent.run("task")
    last = Message(role="assistant", content=f"half an answer\n\n{CUT}") if speaks else NO_REPLY
    assert agent.messages[-1] == last
    assert agent.run("again") == "done"
    assert model.requests[-1].messages[-2:] == (last, Message(role="user", content="again"))


def test_words_that_time_has_cut_off_are_told() -> None:
    model = BreakingModel([TimeLimitReached()])
    agent = Agent(model=model, tools=Tools({}), sink=lambda _: None, max_iterations=5, system="system text")
    with pytest.raises(BudgetExhausted) as caught:
        agent.run("task")
    assert caught.value.detail.startswith("half an answer\n")


@pytest.mark.parametrize("stop", ["content_filter", "refusal", "SAFETY", "RECITATION", "PROHIBITED_CONTENT"])
@pytest.mark.parametrize("text", ["", "first I will"])
@pytest.mark.parametrize("calls_too", [False, True])
def test_reply_that_a_filter_stopped_is_an_error(stop: str, text: str, *, calls_too: bool) -> None:
    """E15: it is said, the exit tells it, no call of it is run, and what there is of it stays."""
    b = bench(asks_for("x", text=text, stop=stop) if calls_too else says(text, stop=stop))
    with pytest.raises(OdekError) as caught:
        b.agent.run("task")
    assert caught.value.message == f'the provider stopped the answer (finish reason "{stop}"); it is not complete'
    assert (caught.value.detail, caught.value.exit_code) == (text, 1)
    last = Message(role="assistant", content=f"{text}\n\n{CUT}") if text else NO_REPLY
    assert b.agent.messages == [SYSTEM, TASK, last]


def test_same_failing_call_ends_the_task_after_a_few() -> None:
    """E16: also when two are made in turn, and when the model is warned before."""
    ids = [f"{letter}{number}" for number in range(9) for letter in "ab"]
    failing: dict[str, ToolResult | BaseException] = {id_: ToolResult(text="no", failed=True) for id_ in ids}

    def ask(id_: str) -> Reply:
        call = ToolCall(id=id_, name="echo", arguments=f'{{"command": "{id_[0]}{" " * int(id_[1])} b"}}')
        return Reply(message=Message(role="assistant", tool_calls=(call,)), stop="tool_calls")

    b = bench(*map(ask, ids), outcomes=failing, max_iterations=90)
    with pytest.raises(OdekError, match=r"the model made the same failing call 6 times: echo") as caught:
        b.agent.run("task")
    assert (len(b.requests), caught.value.exit_code, b.agent.messages[-1]) == (11, 1, NO_REPLY)
    assert "this very call has failed 5 times; once more ends the task" in b.agent.messages[-6].content


def test_failures_between_new_successes_are_work() -> None:
    """E16: tests that fail after each of many edits do not end a task; another task begins anew."""
    replies, outcomes = [], dict[str, ToolResult | BaseException]()
    for number in range(12):
        edit = ToolCall(id=f"e{number}", name="echo", arguments=f'{{"path": "{number}"}}')
        check = ToolCall(id=f"t{number}", name="echo", arguments="{}")
        replies.append(Reply(message=Message(role="assistant", tool_calls=(edit, check)), stop="tool_calls"))
        outcomes |= {edit.id: ToolResult(text="ok"), check.id: ToolResult(text="exit code: 1", failed=True)}
    b = bench(*replies, says("done"), outcomes=outcomes, max_iterations=20)
    assert b.agent.run("task") == "done"


def test_refusals_of_a_turn_are_counted() -> None:
    """A25"""
    tally = {"network_egress": 3}

    class Refusing(Tools):
        def answer(self, call: ToolCall) -> ToolResult:
            tally.update(network_egress=5, destructive=1)
            return super().answer(call)

    events: list[Event] = []
    agent = Agent(
        model=ScriptedModel([asks_for("x"), says("done"), says("more")]),
        tools=Refusing({"x": ToolResult(text="denied", failed=True)}),
        sink=events.append,
        max_iterations=5,
        system="system text",
        refused=tally,
    )
    agent.run("task")
    assert agent.refused == (("destructive", 1), ("network_egress", 2))
    assert isinstance(events[-1], Finished)
    assert events[-1].refused == agent.refused
    agent.run("again")
    assert agent.refused == ()


def test_an_interrupt_after_the_last_result_adds_a_word_of_the_model_alone() -> None:
    b = bench(asks_for("x", "y"), Interrupted(2), outcomes={"x": ToolResult(text="1"), "y": ToolResult(text="2")})
    with pytest.raises(Interrupted):
        b.agent.run("task")
    assert b.agent.messages[3:] == [result("x", "1"), result("y", "2"), NO_REPLY]


def test_the_conversation_can_go_on_after_an_interrupt() -> None:
    """F-57: one Ctrl-C does not spoil later turns."""
    b = bench(asks_for("x"), says("done"), outcomes={"x": Interrupted(2)})
    with pytest.raises(Interrupted):
        b.agent.run("task")
    assert b.agent.run("again") == "done"
    assert b.requests[1][0][-3:] == (result("x", INTERRUPTED), NO_REPLY, Message(role="user", content="again"))


def test_messages_are_complete_whenever_the_model_is_asked() -> None:
    """F-49: whoever stores the session at a RequestStarted stores something that can be continued."""
    b = bench(asks_for("x", "y"), says("done"), outcomes={"x": ToolResult(text="1"), "y": ToolResult(text="2")})
    b.agent.run("task")
    for messages, _ in b.requests:
        wanted = [call.id for message in messages for call in message.tool_calls]
        assert [message.tool_call_id for message in messages if message.role == "tool"] == wanted


def test_the_third_failure_in_a_row_carries_a_hint() -> None:
    ids = ("a", "b", "c")
    outcomes: dict[str, ToolResult | BaseException] = {id_: ToolResult(text="no", failed=True) for id_ in ids}
    b = bench(*(asks_for(id_) for id_ in ids), says("done"), outcomes=outcomes)
    b.agent.run("task")
    texts = [message.content for message in b.agent.messages if message.role == "tool"]
    assert [text.split("\n")[0] for text in texts] == ["no", "no", "no"]
    assert [text.count("hint: echo failed 3 times in a row.") for text in texts] == [0, 0, 1]


def test_a_huge_result_is_cut_in_the_middle() -> None:
    """F-51: the safety cap counts characters, and says what is missing."""
    side = RESULT_LIMIT_CHARACTERS // 2
    b = bench(asks_for("x"), says("done"), outcomes={"x": ToolResult(text="ä" * side + "MIDDLE" + "ö" * side)})
    b.agent.run("task")
    assert b.agent.messages[3].content == "ä" * side + "\n[6 characters left out]\n" + "ö" * side


def test_a_result_at_the_cap_is_whole() -> None:
    b = bench(asks_for("x"), says("done"), outcomes={"x": ToolResult(text="ä" * RESULT_LIMIT_CHARACTERS)})
    b.agent.run("task")
    assert b.agent.messages[3].content == "ä" * RESULT_LIMIT_CHARACTERS


class TogetherTools(Tools):
    """All calls may run together; y ends the run once z is at work, after x and w are done."""

    def __init__(self, outcomes: dict[str, ToolResult | BaseException]) -> None:
        super().__init__(outcomes, lambda _: True)
        self.later = threading.Event()

    def answer(self, call: ToolCall) -> ToolResult:
        if call.id == "z":
            self.later.set()
        if call.id == "y":
            assert self.later.wait(20)
        return super().answer(call)


def test_results_of_calls_that_ran_together_are_kept_when_one_ends_the_run() -> None:
    """B44: finished results are stored, in the order of the calls; the rest is marked interrupted."""
    model = ScriptedModel([asks_for("x", "y", "w", "z")])
    outcomes: dict[str, ToolResult | BaseException] = {
        "x": ToolResult(text="1"),
        "y": OdekError("gone"),
        "w": ToolResult(text="3"),
    }
    tools = TogetherTools({**outcomes, "z": OdekError("gone too")})
    agent = Agent(
        model=model, tools=tools, sink=lambda _: None, max_iterations=5, system="system text", parallel_calls=2
    )
    with pytest.raises(OdekError):
        agent.run("task")
    assert agent.messages[3:] == [
        result("x", "1"),
        result("y", INTERRUPTED),
        result("w", "3"),
        result("z", INTERRUPTED),
        NO_REPLY,
    ]


TOO_LONG = ModelRejected("answered 400", status=400, detail="maximum context length is 8192 tokens")
SIZE = 8000


def steps(count: int) -> tuple[list[Reply], dict[str, ToolResult | BaseException]]:
    """Return replies with one call each, and results of SIZE characters."""
    ids = [f"s{number}" for number in range(count)]
    return [asks_for(id_, text=id_) for id_ in ids], {id_: ToolResult(text="x" * SIZE) for id_ in ids}


def sent(b: Bench, place: int) -> list[str]:
    """Return the words of request `place` without the tools' results."""
    return [message.content.partition("\n")[0] for message in b.requests[place][0] if message.role != "tool"]


def test_conversation_is_trimmed_to_the_window_of_the_model() -> None:
    """F-53, F-54: the task and the newest steps are sent; the conversation itself keeps everything."""
    replies, outcomes = steps(10)
    b = bench(*replies, says("done"), outcomes=outcomes, max_iterations=20, window=12_000)
    b.agent.run("task")
    assert sent(b, 3) == ["system text", "task", "s0", "s1", "s2"]
    assert sent(b, 10) == ["system text", "task", "s6", "s7", "s8", "s9"]
    assert b.requests[10][0][1].content.startswith("task\n\n[odek] 6 earlier steps of this conversation")
    assert [message.content for message in b.agent.messages if message.role == "assistant"] == [
        *(f"s{number}" for number in range(10)),
        "done",
    ]
    assert b.agent.messages[1] == TASK


def test_conversation_is_sent_whole_when_no_window_is_known() -> None:
    replies, outcomes = steps(10)
    b = bench(*replies, says("done"), outcomes=outcomes, max_iterations=20)
    b.agent.run("task")
    assert list(b.requests[10][0]) == b.agent.messages[:-1]


def test_overflow_after_steps_sends_less_and_goes_on() -> None:
    """Runtime 9.5 (10): the task and the latest step are still there, calls have their results."""
    replies, outcomes = steps(3)
    b = bench(*replies, TOO_LONG, says("done"), outcomes=outcomes)
    assert b.agent.run("task") == "done"
    assert sent(b, 3) == ["system text", "task", "s0", "s1", "s2"]
    assert sent(b, 4) == ["system text", "task", "s1", "s2"]
    wanted = [call.id for message in b.requests[4][0] for call in message.tool_calls]
    assert [message.tool_call_id for message in b.requests[4][0] if message.role == "tool"] == wanted == ["s1", "s2"]
    assert (
        b.events.count(WarningIssued(text="the conversation is too long for the model; older parts of it are left out"))
        == 1
    )


def test_overflow_is_remembered_for_the_next_request() -> None:
    replies, outcomes = steps(4)
    b = bench(*replies[:3], TOO_LONG, replies[3], says("done"), outcomes=outcomes)
    b.agent.run("task")
    assert sent(b, 5) == ["system text", "task", "s1", "s2", "s3"]


class LearningModel(ScriptedModel):
    """Learns its window from the refusal, as HttpModel does."""

    def window(self, conversation_tokens: int) -> int | None:
        del conversation_tokens
        return 8192 if any(isinstance(reply, ModelError) for reply in self._replies[: len(self.requests)]) else None


def test_refusal_that_tells_the_window_is_enough_to_fit_into_it() -> None:
    """B42 (3): a long session goes on with a small model, though halving it three times would not do."""
    history = [
        message
        for number in range(400)
        for message in (Message(role="user", content="x" * 2000), Message(role="assistant", content=f"a{number}"))
    ]
    model = LearningModel([TOO_LONG, says("done")])
    agent = Agent(
        model=model, tools=Tools({}), sink=lambda _: None, max_iterations=2, system="system text", history=history
    )
    assert agent.run("task") == "done"
    assert estimate_tokens(model.requests[1].messages, ()) <= 8192 * 3 / 4


def test_task_that_is_too_long_by_itself_is_sent_once() -> None:
    """B42 (4): there is nothing to leave out, and nothing is said to be."""
    events: list[Event] = []
    model = LearningModel([TOO_LONG])
    agent = Agent(model=model, tools=Tools({}), sink=events.append, max_iterations=2, system="system text")
    with pytest.raises(OdekError):
        agent.run("x" * 100_000)
    assert events == [RequestStarted(iteration=1)]


UNKNOWN_REFUSAL = ModelRejected("answered 400", status=400, detail="la limite (max 4096) est dépassée")


def test_refusal_that_is_not_understood_is_tried_once_with_less() -> None:
    """B115"""
    replies, outcomes = steps(3)
    b = bench(*replies, UNKNOWN_REFUSAL, says("done"), outcomes=outcomes)
    assert b.agent.run("task") == "done"
    assert sent(b, 4) == ["system text", "task", "s1", "s2"]


def test_refusal_that_is_not_understood_counts_when_less_is_refused_too() -> None:
    """B115: and nothing is left out afterwards."""
    replies, outcomes = steps(3)
    other = ModelRejected("answered 400 again", status=400, detail="something else")
    b = bench(*replies, UNKNOWN_REFUSAL, other, says("done"), outcomes=outcomes)
    with pytest.raises(ModelRejected) as caught:
        b.agent.run("task")
    assert caught.value is UNKNOWN_REFUSAL
    b.agent.run("more")
    assert sent(b, 5)[:5] == ["system text", "task", "s0", "s1", "s2"]


def test_short_request_is_not_tried_with_less() -> None:
    """B115"""
    b = bench(UNKNOWN_REFUSAL)
    with pytest.raises(ModelRejected):
        b.agent.run("task")
    assert len(b.requests) == 1


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>\n{"name": "echo", "arguments": {"text": "ls"}}\n</tool_call>',
        'I look.\n```json\n{"name": "echo", "arguments": {"text": "ls"}}\n```',
        '{"name": "echo", "parameters": {"text": "ls"}}',
        '[{"function": {"name": "echo", "arguments": "{}"}}]',
        '[TOOL_CALLS][{"name": "echo", "arguments": {}}]',
        "<function=echo><parameter=text>ls</parameter></function>",
        "<|tool_calls_section_begin|>functions.echo:0<|tool_call_argument_begin|>{}",
        '<invoke name="echo"><parameter name="text">ls</parameter></invoke>',
    ],
)
def test_call_that_is_written_as_text_is_asked_for_once_more(text: str) -> None:
    """B110: a model that can do it does; nothing is run from the text."""
    b = bench(says(text), asks_for("a"), says("done"), outcomes={"a": ToolResult(text="ok")})
    assert b.agent.run("task") == "done"
    asked_again = b.requests[1][0][-1]
    assert (asked_again.role, "holds a call of echo as text" in asked_again.content) == ("user", True)


def test_model_that_keeps_writing_its_calls_is_named_as_what_it_is() -> None:
    """B110"""
    text = '<tool_call>{"name": "echo", "arguments": {}}</tool_call>'
    b = bench(says(text), says(text))
    assert b.agent.run("task") == text
    warnings = [event.text for event in b.events if isinstance(event, WarningIssued)]
    assert (len(warnings), "does not know how to call tools" in warnings[0]) == (1, True)


@pytest.mark.parametrize(
    "text",
    [
        "Call echo with {}.",
        '{"name": "nothing", "arguments": {}}',
        '{"name": "echo"}',
        'An example:\n```json\n{"name": "echo", "arguments": {}}\n```\nThat is how it looks.',
        "",
        "<tool_call>",
        "[" * 5000,
    ],
)
def test_text_that_only_speaks_of_calls_is_an_answer(text: str) -> None:
    """B110"""
    b = bench(says(text or "done"))
    assert b.agent.run("task") == (text or "done")


def test_overflow_that_never_ends_is_an_error_after_three_tries() -> None:
    """B42 (4)"""
    replies, outcomes = steps(9)
    b = bench(*replies, *[TOO_LONG] * 4, outcomes=outcomes, max_iterations=20)
    with pytest.raises(OdekError) as caught:
        b.agent.run("task")
    assert (caught.value.message, caught.value.detail) == (
        "the conversation is too long for the model, and nothing more of it can be left out",
        "maximum context length is 8192 tokens",
    )
    assert len(b.requests) == 9 + 4
    b.model.assert_all_used()


def test_overflow_by_the_users_own_words_is_an_error_at_once() -> None:
    """B42 (3)"""
    b = bench(TOO_LONG)
    with pytest.raises(OdekError, match="too long for the model"):
        b.agent.run("task" * 50_000)
    assert len(b.requests) == 1


def test_overflow_by_one_result_cuts_the_result() -> None:
    """B42 (1)"""
    b = bench(asks_for("x"), TOO_LONG, says("done"), outcomes={"x": ToolResult(text="x" * 100_000)})
    b.agent.run("task")
    assert b.requests[2][0][3].content == "x" * 25_000 + "\n[50000 characters left out]\n" + "x" * 25_000
    assert b.agent.messages[3].content == "x" * 100_000


def test_other_refusals_are_not_taken_for_an_overflow() -> None:
    b = bench(ModelRejected("answered 400", status=400, detail="unknown model"))
    with pytest.raises(ModelRejected):
        b.agent.run("task")
    assert len(b.requests) == 1


def exhausted(b: Bench) -> BudgetExhausted:
    with pytest.raises(BudgetExhausted) as caught:
        b.agent.run("task")
    assert caught.value.exit_code == 4
    return caught.value


def test_calls_beyond_the_limit_are_not_run() -> None:
    """Runtime 1.10: exit code 4 and a summary, for which no tool may be used."""
    used = Usage(input_tokens=10, output_tokens=1)
    b = bench(
        asks_for("x", usage=used),
        asks_for("y", "z", usage=used),
        says("half done", usage=used),
        outcomes={"x": ToolResult(text="1"), "y": ToolResult(text="2")},
        budget=Budget(tool_calls=2),
        now=lambda: 5.0,
    )
    error = exhausted(b)
    assert (error.message, error.detail) == (
        "the task has used up its limit of 2 tool calls",
        "half done\nused: 3 model calls, 2 tool calls, 30 tokens in, 3 out, 0 s",
    )
    assert [tools for _, tools in b.requests] == [SPECS, SPECS, ()]
    assert b.agent.messages[5:7] == [
        result("y", "2"),
        result("z", '{"error":"not run: the limit of tool calls for this task is reached"}'),
    ]
    assert b.agent.messages[-1] == Message(role="assistant", content="half done")


def test_a_model_may_answer_with_the_last_call_that_it_had() -> None:
    b = bench(asks_for("x"), says("done"), outcomes={"x": ToolResult(text="1")}, budget=Budget(tool_calls=1))
    assert b.agent.run("task") == "done"


@pytest.mark.parametrize(
    ("budget", "limit"),
    [
        (Budget(input_tokens=100), "100 input tokens"),
        (Budget(output_tokens=8), "8 output tokens"),
    ],
)
def test_tokens_that_are_used_up_end_the_task(budget: Budget, limit: str) -> None:
    """No further request for a summary: the model's last words stand in."""
    usage = Usage(input_tokens=50, output_tokens=4)
    replies = (asks_for("x", text="first I look", usage=usage), asks_for("y", usage=usage))
    b = bench(*replies, outcomes={"x": ToolResult(text="1"), "y": ToolResult(text="2")}, budget=budget, now=lambda: 5.0)
    error = exhausted(b)
    assert error.message == f"the task has used up its limit of {limit}"
    assert error.detail == "first I look\nused: 2 model calls, 2 tool calls, 100 tokens in, 8 out, 0 s"
    assert len(b.requests) == 2


def test_tokens_are_estimated_for_a_server_that_counts_none() -> None:
    b = bench(
        *(asks_for("x"), asks_for("y")),
        outcomes={"x": ToolResult(text="1" * 4000), "y": ToolResult(text="2")},
        budget=Budget(input_tokens=1000),
    )
    assert exhausted(b).message == "the task has used up its limit of 1000 input tokens"
    assert len(b.requests) == 2
    assert b.agent.usage == Usage()


def test_an_answer_beyond_the_limit_is_still_an_answer() -> None:
    b = bench(says("done", usage=Usage(input_tokens=10**6)), budget=Budget(input_tokens=5))
    assert b.agent.run("task") == "done"


def test_every_task_has_its_own_budget() -> None:
    b = bench(
        *(asks_for("x"), says("one"), asks_for("y"), says("two")),
        outcomes={"x": ToolResult(text="1"), "y": ToolResult(text="2")},
        budget=Budget(tool_calls=1),
    )
    assert [b.agent.run("task"), b.agent.run("more")] == ["one", "two"]


def test_time_that_is_over_ends_the_task_before_the_next_request() -> None:
    clock = iter([0.0, 0.0, 10.0, 60.0, 60.0])
    b = bench(
        asks_for("x"), outcomes={"x": ToolResult(text="1")}, budget=Budget(runtime_s=60), now=lambda: next(clock, 60.0)
    )
    assert exhausted(b).message == "the task has used up its limit of 60 seconds"


def test_time_that_is_over_stops_what_is_running() -> None:
    """R-102: the end of the time is that of the task, not of odek, and needs no signal."""
    b = bench(
        asks_for("x", "y", text="I wait", usage=Usage(input_tokens=10, output_tokens=1)),
        outcomes={"x": TimeLimitReached()},
        budget=Budget(runtime_s=60),
        now=lambda: 0.0,
    )
    error = exhausted(b)
    assert (error.message, error.detail) == (
        "the task has used up its limit of 60 seconds",
        "I wait\nused: 1 model call, 0 tool calls, 10 tokens in, 1 out, 0 s",
    )
    assert b.agent.messages[3:] == [result("x", INTERRUPTED), result("y", INTERRUPTED), NO_REPLY]


class WaitingTools(Tools):
    """Calls that wait until a cancel ends them."""

    def __init__(self) -> None:
        super().__init__({})
        self.begun = threading.Event()

    def answer(self, call: ToolCall) -> ToolResult:
        del call
        self.begun.set()
        current_token().wait(600)
        raise AssertionError("nothing has cancelled the call")


@pytest.mark.parametrize("in_thread", [False, True], ids=["main thread", "another thread"])
def test_time_limit_ends_a_task_in_any_thread(*, in_thread: bool) -> None:
    """R-102: by a timer; the next task has a time of its own."""
    model = ScriptedModel([asks_for("x"), says("done")])
    agent = Agent(
        model=model,
        tools=WaitingTools(),
        sink=lambda _: None,
        max_iterations=5,
        system="system text",
        budget=Budget(runtime_s=1),
        now=lambda: 0.0,
    )
    raised: list[str] = []

    def work() -> None:
        try:
            agent.run("task")
        except BudgetExhausted as error:
            raised.append(error.message)

    if in_thread:
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(30)
    else:
        work()
    assert raised == ["the task has used up its limit of 1 second"]
    assert agent.messages[3:] == [result("x", INTERRUPTED), NO_REPLY]
    assert agent.run("again") == "done"


def test_one_of_two_conversations_is_cancelled_and_the_other_goes_on() -> None:
    """R-100: each in a thread of its own; the cancelled one may go on with its next task."""
    tools = WaitingTools()
    first = Agent(
        model=ScriptedModel([asks_for("x"), says("later")]),
        tools=tools,
        sink=lambda _: None,
        max_iterations=5,
        system="system text",
    )
    token = CancelToken()
    raised: list[BaseException] = []

    def work() -> None:
        try:
            first.run("task", cancel=token)
        except Interrupted as error:
            raised.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    assert tools.begun.wait(30)
    second = bench(asks_for("x"), says("done"), outcomes={"x": ToolResult(text="1")})
    token.cancel(partial(Interrupted, 15))
    assert second.agent.run("task", cancel=CancelToken()) == "done"
    thread.join(30)
    assert [type(error) for error in raised] == [Interrupted]
    assert first.messages[3:] == [result("x", INTERRUPTED), NO_REPLY]
    assert first.run("again") == "later"


@pytest.mark.parametrize("given", ["as parameter", "as the thread's"])
def test_nothing_is_begun_once_a_task_is_cancelled(given: str) -> None:
    token = CancelToken()
    token.cancel(partial(Interrupted, 2))
    b = bench()
    with pytest.raises(Interrupted), use_token(token if given == "as the thread's" else CancelToken()):
        b.agent.run("task", cancel=token if given == "as parameter" else None)
    assert b.agent.messages[1:] == [Message(role="user", content="task"), NO_REPLY]
    assert b.requests == []


def test_words_of_an_earlier_task_are_no_summary_of_this_one() -> None:
    b = bench(
        *(says("one", usage=Usage(output_tokens=1)), asks_for("x", usage=Usage(output_tokens=9))),
        outcomes={"x": ToolResult(text="1")},
        budget=Budget(output_tokens=5),
        now=lambda: 0.0,
    )
    b.agent.run("task")
    assert exhausted(b).detail.startswith("used: 1 model call, ")
