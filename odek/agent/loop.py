"""The conversation between a model and its tools, until there is an answer.

The loop knows neither providers nor tools: both are passed in. It owns the messages and keeps them
well formed: whatever ends a run, every call in them has exactly one result, in the order of the
calls.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Protocol

from odek.agent.events import (
    Finished,
    ModelAsked,
    ModelReplied,
    Sink,
    TextArrived,
    ToolFinished,
    ToolStarted,
    Warned,
    call_title,
)
from odek.agent.failures import FailureCounter
from odek.errors import OdekError
from odek.model.types import Message, Model, Reply, ToolCall, ToolSpec, Usage
from odek.text import visible

# A net below the caps of the tools (F-51): whatever a tool does, one result cannot fill the window.
RESULT_LIMIT_CHARACTERS = 200_000

_CUT_OFF = (
    "[odek] Your last reply reached the output limit before it was complete. None of its tool calls was run. "
    "Make the calls again, fewer at a time and with shorter arguments: write long files in several parts."
)
_SUMMARY_REQUEST = (
    "[odek] The limit of model calls for this task is reached and no more tools can be used. "
    "Say briefly what was done, what was found and what is left to do."
)
_INTERRUPTED = "interrupted: the run was stopped before this call had a result; it may have had effects"


class ToolOutcome(Protocol):
    """What a tool gave back."""

    @property
    def text(self) -> str: ...
    @property
    def failed(self) -> bool: ...


class Toolbox(Protocol):
    """The tools of a run. `call` reports failures in the outcome; what it raises ends the run."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]: ...
    def call(self, call: ToolCall) -> ToolOutcome: ...


class Agent:
    """One conversation; `run` may be called again for the next task."""

    def __init__(
        self,
        *,
        model: Model,
        tools: Toolbox,
        sink: Sink,
        max_iterations: int,
        system: str,
        history: Sequence[Message] = (),
    ) -> None:
        """Begin a conversation, or go on with `history` (its own system message is replaced)."""
        self.messages = [
            Message(role="system", content=system),
            *(message for message in history if message.role != "system"),
        ]
        self.usage = Usage()
        """of the present or the last run"""
        self._model = model
        self._tools = tools
        self._sink = sink
        self._max_iterations = max_iterations
        self._failures = FailureCounter()

    def run(self, task: str) -> str:
        """Work on `task` and return the final answer.

        Raises OdekError when there is none: the limit of iterations, two empty answers, a model or
        a sandbox that is gone. Interrupted passes through. `messages` is well formed in any case.
        """
        self.messages.append(Message(role="user", content=task))
        self.usage = Usage()
        try:
            answer, iterations = self._converse()
        finally:
            self._answer_open_calls()
        self._sink(Finished(answer=answer, usage=self.usage, iterations=iterations))
        return answer

    def _converse(self) -> tuple[str, int]:
        empty_before = False
        for iteration in range(1, self._max_iterations + 1):
            reply = self._ask(iteration, self._tools.specs)
            if reply.message.tool_calls:
                self._act(reply)
                empty_before = False
            elif reply.message.content.strip():
                return self._accept(reply), iteration
            elif empty_before:
                raise _no_answer(reply)
            else:
                empty_before = True
        raise self._give_up()

    def _ask(self, iteration: int, tools: tuple[ToolSpec, ...]) -> Reply:
        self._sink(ModelAsked(iteration=iteration))
        reply = self._model.complete(tuple(self.messages), tools, lambda text: self._sink(TextArrived(text=text)))
        self.usage = self.usage + reply.usage
        self._sink(ModelReplied(reply=reply, iteration=iteration))
        return reply

    def _accept(self, reply: Reply) -> str:
        self.messages.append(reply.message)
        if reply.stop == "length":
            self._sink(Warned(text="the answer is cut off: it reached the model's output limit"))
        return reply.message.content

    def _act(self, reply: Reply) -> None:
        """Carry out the calls of `reply`, unless it was cut off: then they may be half a command."""
        if reply.stop == "length":
            # B40: neither run nor stored, for half a call would spoil every later request
            if reply.message.content:
                self.messages.append(Message(role="assistant", content=reply.message.content))
            self.messages.append(Message(role="user", content=_CUT_OFF))
            self._sink(Warned(text="the model's reply was cut off at its output limit; its tool calls were not run"))
            return
        self.messages.append(reply.message)
        for call in reply.message.tool_calls:
            self._sink(ToolStarted(call=call, title=call_title(call)))
            outcome = self._tools.call(call)
            text = _limited(outcome.text)
            if hint := self._failures.hint(call.name, failed=outcome.failed, text=text):
                text = f"{text}\n{hint}"
            self.messages.append(_result(call, text))
            self._sink(ToolFinished(call=call, text=text, failed=outcome.failed))

    def _give_up(self) -> OdekError:
        """Ask for a summary without tools, so that the work so far is not lost without a word."""
        limit = self._max_iterations
        self.messages.append(Message(role="user", content=_SUMMARY_REQUEST))
        try:
            summary = self._ask(limit + 1, ()).message.content.strip()
        except OdekError as error:
            self._sink(Warned(text=f"no summary of the work so far: {error.message}"))
            summary = ""
        if summary:
            self.messages.append(Message(role="assistant", content=summary))
        return OdekError(
            f"reached max iterations ({limit}) without final answer",
            hint="raise the limit with --max-iter, or split the task",
            detail=summary,
        )

    def _answer_open_calls(self) -> None:
        """Give every call without a result the result "interrupted"."""
        answered = {message.tool_call_id for message in self._last_results()}
        caller = self.messages[-1 - len(self._last_results())]
        for call in caller.tool_calls:
            if call.id not in answered:
                error = json.dumps({"error": _INTERRUPTED}, separators=(",", ":"))
                self.messages.append(_result(call, error))

    def _last_results(self) -> list[Message]:
        first = len(self.messages)
        while self.messages[first - 1].role == "tool":
            first -= 1
        return self.messages[first:]


def _result(call: ToolCall, text: str) -> Message:
    return Message(role="tool", content=text, tool_call_id=call.id, name=call.name)


def _limited(text: str) -> str:
    omitted = len(text) - RESULT_LIMIT_CHARACTERS
    if omitted <= 0:
        return text
    side = RESULT_LIMIT_CHARACTERS // 2
    return f"{text[:side]}\n[{omitted} characters left out]\n{text[-side:]}"


def _no_answer(reply: Reply) -> OdekError:
    reason = f' (it stopped with "{visible(reply.stop)}")' if reply.stop else ""
    return OdekError(f"the model gave an empty answer twice{reason}", hint="run the task again, or with another model")
