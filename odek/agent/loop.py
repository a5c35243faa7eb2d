"""The agent loop: asks the model and runs its tool calls until there is an answer.

The loop knows neither providers nor tools: both are passed in. It owns the messages and keeps them
well formed: whatever ends a run, every call in them has exactly one result, in the order of the
calls. What is sent to the model may be less than the messages; context_window.py decides.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from odek.agent.budget import NO_BUDGET, Budget, Meter, Spending, exceeded_limit, render_spending, unpriced
from odek.agent.calls import CallRunner
from odek.agent.context_window import (
    ODEK_NOTE,
    Compaction,
    ContextWindow,
    TrimState,
    compacted,
    estimate_tokens,
    take_turns,
)
from odek.cancel import CancelToken, current_token, time_limit, use_token
from odek.errors import (
    AnswerMisfit,
    BudgetExhausted,
    IterationLimitReached,
    NoAnswer,
    OdekError,
    TimeLimitReached,
    UsageError,
)
from odek.events import (
    Finished,
    ModelReplied,
    RequestStarted,
    Sink,
    TextDelta,
    TextVoided,
    ThinkingDelta,
    WarningIssued,
)
from odek.model.errors import ModelError
from odek.model.images import Image
from odek.model.pairing import error_result, group_spans, interrupted_result, tool_result
from odek.model.types import CallBegun, Message, Model, Reply, Thought, ToolCall, ToolSpec, Usage
from odek.model.written import written_call
from odek.text import plural, truncate, visible

if TYPE_CHECKING:
    from odek.agent.compaction import Compacted
    from odek.tools.registry import Toolbox

MAX_SHRINKS = 3
MAX_MISFITS = 3
"""how often a task's model is asked again for an answer of the form that is wanted"""
_LONG_TOKENS = 4000  # no window in use is smaller
_LAST_WORDS = 2000  # characters of the model's last text that a task without a summary ends with

_CUT_OFF = (
    f"{ODEK_NOTE} Your last reply reached the output limit before it was complete. None of its tool calls was run. "
    "Make the calls again, fewer at a time and with shorter arguments: write long files in several parts."
)
_WRITTEN = (
    f"{ODEK_NOTE} Your last reply holds a call of {{name}} as text. Nothing was run. Make the call again through the "
    "function calling that you are offered; if your text was meant to be the answer, repeat it."
)
_MISFIT = (
    f"{ODEK_NOTE} Your last message cannot be used as the answer: {{fault}}. Send the answer again: one JSON value "
    "that fits the schema in the system message, and nothing else. If there is work left to do first, go on with it."
)
_CANNOT_CALL = (
    "the model writes its call of {name} as text instead of making it, so nothing was run: this model, or the template "
    "that its server uses, does not know how to call tools"
)
_SUMMARY_REQUEST = (
    f"{ODEK_NOTE} The limit of {{what}} for this task is reached and no more tools can be used. "
    "Say briefly what was done, what was found and what is left to do."
)
# Parts of the words in which providers say that a filter of theirs stopped the reply: content_filter, refusal,
# SAFETY, RECITATION, PROHIBITED_CONTENT, BLOCKLIST, SPII, guardrail_intervened, ERROR_TOXIC, sensitive, …
_FILTERED = (
    *("filter", "refus", "safety", "recitation", "prohibit", "block", "guardrail", "toxic", "sensitive"),
    *("moderat", "spii", "policy", "violat", "censor", "harm"),
)
_REPLY_CUT = f"{ODEK_NOTE} The reply was cut off here: the turn ended before it was complete."
NO_REPLY = f"{ODEK_NOTE} The turn ended before there was a reply."
IN_PLACE_OF_REPLIES = frozenset((_REPLY_CUT, NO_REPLY))
"""whole messages of odek in the model's name; a model can begin its own in the same way"""
_NOT_ALLOWED = "not run: the limit of tool calls for this task is reached"


def as_it_is(text: str) -> tuple[str, str]:
    """Return `text` as an answer in which nothing is wrong."""
    return text, ""


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
        parallel_calls: int = 1,
        budget: Budget = NO_BUDGET,
        now: Callable[[], float] = time.monotonic,
        refused: Mapping[str, int] | None = None,
        shared: Meter | None = None,
        price: Callable[[Usage], Usage] = unpriced,
        take_answer: Callable[[str], tuple[str, str]] = as_it_is,
        compaction: Compaction | None = None,
    ) -> None:
        """Begin a conversation, or go on with `history` (its own system message is replaced).

        `budget` applies to each task separately; `now` is a monotonic clock. `refused` counts what the gate has refused
        since odek was started, by risk class; the gate adds to it. `shared` is that of the task which this agent works
        for: what it uses counts there, and `budget` is for all of that together. `take_answer` gets the model's last
        text and returns the answer in it, and what is wrong with that: then the model is asked again. `compaction` is
        sent in place of a part of `history`.
        """
        self.messages = [
            Message(role="system", content=system),
            *(message for message in history if message.role != "system"),
        ]
        """all of the conversation; it only grows"""
        self.model = model
        """may be exchanged between two runs"""
        self._take_answer = take_answer
        self.price = price
        """adds to what a request used what that costs; of `model`"""
        self._tools = tools
        self._sink = sink
        self._max_iterations = max_iterations
        self._budget = budget
        self._now = now
        self._refused = {} if refused is None else refused
        self._refused_before: Mapping[str, int] = dict(self._refused)
        self._arrived: list[str] = []
        """the pieces of the reply that is being written"""
        self._begun: tuple[CallBegun, ...] = ()
        """the calls of it"""
        self._runner = CallRunner(tools, sink, parallel=parallel_calls)
        self._window = ContextWindow(lambda size: self.model.window(size), compaction)
        self._started = now()
        self._task_place = len(self.messages)
        self._shared = shared
        self.meter = Meter(shared)
        """of the present or the last run, its sub-agents included"""

    @property
    def usage(self) -> Usage:
        """the tokens of the present or the last run, as the provider counted them"""
        return self.meter.reported

    def run(self, task: str, *, images: tuple[Image, ...] = (), cancel: CancelToken | None = None) -> str:
        """Work on `task`, with `images`, and return the final answer.

        `cancel` ends the work at any time; None: the token of this thread does.
        Raises OdekError when there is none: the limit of iterations or of the budget (BudgetExhausted),
        two empty answers, one that a filter stopped, the same failing call again and again, a model or a sandbox
        that is gone. What `cancel` raises passes through. `messages` is well formed in any case, and ends with
        words of the model or a note in their place.
        """
        self._task_place = len(self.messages)
        self.messages.append(Message(role="user", content=task, images=images))
        self.meter = Meter(self._shared)
        self._started = self._now()
        self._refused_before = dict(self._refused)
        self._runner.begin_task()
        try:
            with use_token(CancelToken(cancel or current_token())) as token, time_limit(token, self._budget.runtime_s):
                answer, iterations = self._loop()
        except TimeLimitReached as error:
            self._close_turn()
            raise self._exhausted(plural(self._budget.runtime_s or 0, "second")) from error
        finally:
            self._close_turn()
        self._sink(Finished(answer=answer, usage=self.usage, iterations=iterations, refused=self.refused))
        return answer

    @property
    def refused(self) -> tuple[tuple[str, int], ...]:
        """what the gate refused in the present or the last run: classes of danger, and how often each"""
        since = ((name, count - self._refused_before.get(name, 0)) for name, count in sorted(self._refused.items()))
        return tuple((name, count) for name, count in since if count)

    @property
    def last_words(self) -> str:
        """the last text of the model in the present or the last run, "" for none"""
        since = self.messages[self._task_place :]
        spoken = (message.content.strip() for message in reversed(since) if message.role == "assistant")
        return next((text for text in spoken if text and not text.startswith(ODEK_NOTE)), "")

    def write_summary(self, words: str, *, nonce: Callable[[], str]) -> Compacted:
        """Have the model summarize the conversation, and return what it can be replaced by; nothing is changed yet.

        `words` of the user say what matters; `nonce` is as for `wrap_untrusted`. Raises OdekError: there is nothing to
        replace, no answer, or nothing gained by it.
        """
        from odek.agent.compaction import Compacted, choose_place, compaction_request, replacement

        specs, window = self._tools.specs, self._window
        place, trim = choose_place(self.messages, window.compaction), window.trim
        before = estimate_tokens(window.view(self.messages, specs), specs)
        if place is None:
            raise UsageError(f"there is nothing to compact: a request takes about {before} tokens")
        view = window.view((*self.messages, compaction_request(words)), ())
        window.trim = trim
        reply = self.model.complete(view, (), lambda _: None)
        summary = reply.message.content.strip()
        if not summary or reply.stop == "length" or _is_filtered(reply.stop):
            raise OdekError(
                "the model gave no whole summary; the conversation is as it was",
                hint="try again, or with another model",
            )
        compaction = Compaction(place=place, message=replacement(self.messages[:place], summary, nonce=nonce))
        after = estimate_tokens(take_turns(compacted(self.messages, compaction)), specs)
        if after >= before:
            raise OdekError("the summary is as long as what it replaces; the conversation is as it was")
        return Compacted(compaction=compaction, before=before, after=after, usage=self.price(reply.usage))

    def use(self, compaction: Compaction | None) -> None:
        """Send `compaction` in the place of what it replaces, from the next request on."""
        self._window = ContextWindow(lambda size: self.model.window(size), compaction)

    def _loop(self) -> tuple[str, int]:
        empty_before = False
        written_before = False
        misfits = 0
        for iteration in range(1, self._max_iterations + 1):
            current_token().raise_if_cancelled()
            self._require_budget()
            reply = self._ask(iteration, self._tools.specs)
            if _is_filtered(reply.stop):
                raise self._filtered(reply)
            written = "" if reply.message.tool_calls else self._written_call(reply)
            if reply.message.tool_calls:
                self._run_tool_calls(reply, iteration)
                empty_before = False
            elif written and not written_before:
                written_before = True
                self.messages += [reply.message, Message(role="user", content=_WRITTEN.format(name=written))]
            elif reply.message.content.strip():
                if written:
                    self._sink(WarningIssued(text=_CANNOT_CALL.format(name=written)))
                answer, fault = self._take_answer(reply.message.content)
                if not fault:
                    self._accept(reply)
                    return answer, iteration
                misfits += 1
                self._reject(reply, fault, misfits)
            elif empty_before:
                raise _no_answer(reply)
            else:
                empty_before = True
        limit = self._max_iterations
        raise IterationLimitReached(
            f"reached max iterations ({limit}) without final answer",
            hint="raise the limit with --max-iter, or split the task",
            detail=self._summary("model calls", limit + 1),
        )

    def _written_call(self, reply: Reply) -> str:
        """Return the tool that the text of `reply` pretends to call, "" for none (B110)."""
        return written_call(reply.message.content, {tool.name for tool in self._tools.specs})

    def _ask(self, iteration: int, tools: tuple[ToolSpec, ...]) -> Reply:
        self._sink(RequestStarted(iteration=iteration))
        view = self._window.view(self.messages, tools)
        reply = self._complete(view, tools)
        used = self.price(_or_estimate(reply, view, tools))
        self.meter.add_request(reported=self.price(reply.usage), used=used)
        self._sink(ModelReplied(reply=reply, iteration=iteration))
        return reply

    def _complete(self, view: tuple[Message, ...], tools: tuple[ToolSpec, ...]) -> Reply:
        """Return the reply; a request that the provider finds too long is shortened and sent again (B42)."""
        shrinks = 0
        doubt: tuple[ModelError, TrimState] | None = None
        while True:
            try:
                return self._send(view, tools)
            except ModelError as error:
                if doubt:  # it was not the length: the first refusal counts
                    self._window.trim = doubt[1]
                    raise doubt[0] from error
                if not error.context_overflow and not (error.maybe_context_overflow and self._is_long(view, tools)):
                    raise
                before = self._window.trim
                smaller = self._window.shrink(self.messages, tools, view) if shrinks < MAX_SHRINKS else None
                if smaller is None:
                    raise (_too_long(error) if error.context_overflow else error) from error
                doubt = None if error.context_overflow else (error, before)
                shrinks += 1
                view = smaller
                self._sink(
                    WarningIssued(text="the conversation is too long for the model; older parts of it are left out")
                )

    def _is_long(self, view: tuple[Message, ...], tools: tuple[ToolSpec, ...]) -> bool:
        """Return whether a refusal of this request may be due to its length."""
        return estimate_tokens(view, tools) >= _LONG_TOKENS

    def _send(self, view: tuple[Message, ...], tools: tuple[ToolSpec, ...]) -> Reply:
        self._arrived = []
        self._expect()
        reply = self.model.complete(view, tools, self._take_text)
        self._arrived = []
        return reply

    def _expect(self, *more: CallBegun) -> None:
        """Note what has begun of the calls of a reply; nothing: a reply begins."""
        self._begun = (*self._begun, *more) if more else ()
        self._tools.expect(self._begun)

    def _take_text(self, text: str) -> None:
        if isinstance(text, CallBegun):
            self._expect(text)
            return
        if isinstance(text, Thought):
            self._sink(ThinkingDelta(text=str(text)))
            return
        if text:
            self._arrived.append(text)
        else:
            self._arrived = []
            self._expect()
        self._sink(TextDelta(text=text) if text else TextVoided())

    def _filtered(self, reply: Reply) -> NoAnswer:
        """Return the error for a reply that a filter of the provider stopped; its text so far is kept.

        Its calls are not run: what they should have come after may be missing.
        """
        self._arrived = [reply.message.content]
        return NoAnswer(
            f'the provider stopped the answer (finish reason "{visible(reply.stop)}"); it is not complete',
            hint="say the task in other words, or use another model",
            detail=reply.message.content.strip(),
        )

    def _accept(self, reply: Reply) -> None:
        self.messages.append(reply.message)
        if reply.stop == "length":
            self._sink(WarningIssued(text="the answer is cut off: it reached the model's output limit"))

    def _reject(self, reply: Reply, fault: str, misfits: int) -> None:
        """Ask for an answer of the form that is wanted, or raise AnswerMisfit when that was done often enough."""
        self.messages.append(reply.message)
        shown = visible(truncate(fault, _LAST_WORDS))
        if misfits > MAX_MISFITS:
            raise AnswerMisfit(
                f"the model's answer does not fit the schema, after {misfits} attempts: {shown}",
                hint="let the schema ask for less, or use another model",
                detail=truncate(reply.message.content.strip(), _LAST_WORDS),
            )
        self._sink(WarningIssued(text=f"the answer does not fit the schema, and is asked for again: {shown}"))
        self.messages.append(Message(role="user", content=_MISFIT.format(fault=shown)))

    def _run_tool_calls(self, reply: Reply, iteration: int) -> None:
        """Run the calls of `reply`, unless it was cut off: then they may be half a command."""
        if reply.stop == "length":
            # B40: neither run nor stored: every later request with half a call in it would be refused
            content = reply.message.content if reply.message.content.strip() else _REPLY_CUT
            self.messages.append(Message(role="assistant", content=content))
            self.messages.append(Message(role="user", content=_CUT_OFF))
            self._sink(
                WarningIssued(text="the model's reply was cut off at its output limit; its tool calls were not run")
            )
            return
        calls = reply.message.tool_calls
        allowed = self.meter.begin_calls(self._budget, len(calls))
        self.messages.append(reply.message)
        self._runner.run(calls[:allowed], self._take_result)
        if allowed < len(calls):
            for call in calls[allowed:]:
                self.messages.append(error_result(call, _NOT_ALLOWED))
            summary = self._summary("tool calls", iteration + 1)
            raise self._exhausted(plural(self._budget.tool_calls or 0, "tool call"), summary)

    def _take_result(self, call: ToolCall, text: str) -> None:
        self.messages.append(tool_result(call, text))
        self.meter.add_call()

    def _spending(self) -> Spending:
        return replace(self.meter.root.spent, seconds=self._now() - self._started)

    def _require_budget(self) -> None:
        limit = exceeded_limit(self._budget, self._spending())
        if limit:
            raise self._exhausted(limit)

    def _exhausted(self, limit: str, summary: str = "") -> BudgetExhausted:
        """Return the error for a task whose budget is used up.

        Without a `summary` the model's last text is used: asking for one would go beyond the limit that is reached.
        """
        words = summary or truncate(self.last_words, _LAST_WORDS)
        return BudgetExhausted(
            f"the task has used up its limit of {limit}",
            hint="raise the limit (`odek config view` shows where it comes from), or split the task",
            detail="\n".join(part for part in (words, render_spending(self._spending())) if part),
        )

    def _summary(self, what: str, iteration: int) -> str:
        """Ask for a summary without tools, so that the user learns what was done so far."""
        self.messages.append(Message(role="user", content=_SUMMARY_REQUEST.format(what=what)))
        try:
            summary = self._ask(iteration, ()).message.content.strip()
        except OdekError as error:
            self._sink(WarningIssued(text=f"no summary of the work so far: {error.message}"))
            summary = ""
        if summary:
            self.messages.append(Message(role="assistant", content=summary))
        return summary

    def _close_turn(self) -> None:
        """End the conversation as the request of a next turn needs it: every call answered, the model's text last.

        Chat templates that want user and model to take turns refuse two messages of the user in a row.
        """
        self._answer_open_calls()
        said, self._arrived = "".join(self._arrived).strip(), []
        if said:
            self.messages.append(Message(role="assistant", content=f"{said}\n\n{_REPLY_CUT}"))
        elif self.messages[-1].role != "assistant":
            self.messages.append(Message(role="assistant", content=NO_REPLY))

    def _answer_open_calls(self) -> None:
        """Give every call without a result the one that it had out of turn, or "interrupted"."""
        first, _ = group_spans(self.messages)[-1]
        answered = {message.tool_call_id for message in self.messages[first + 1 :]}
        finished = self._runner.take_out_of_order_results()
        for call in self.messages[first].tool_calls:
            if call.id not in answered:
                text = finished.get(call.id)
                self.messages.append(interrupted_result(call) if text is None else tool_result(call, text))


def _is_filtered(stop: str) -> bool:
    """Return whether a reply that ended with `stop` was ended by a filter or refused, so that it is not whole."""
    reason = stop.lower()
    return any(part in reason for part in _FILTERED)


def _or_estimate(reply: Reply, view: Sequence[Message], tools: Sequence[ToolSpec]) -> Usage:
    """Return what a request with `view` and its `reply` cost as the provider counted it, estimated when it did not."""
    used = reply.usage
    return Usage(
        input_tokens=used.input_tokens or estimate_tokens(view, tools),
        output_tokens=used.output_tokens or estimate_tokens((reply.message,), ()),
        cached_tokens=used.cached_tokens,
    )


def _no_answer(reply: Reply) -> NoAnswer:
    reason = f' (it stopped with "{visible(reply.stop)}")' if reply.stop else ""
    return NoAnswer(f"the model gave an empty answer twice{reason}", hint="run the task again, or with another model")


def _too_long(error: ModelError) -> NoAnswer:
    return NoAnswer(
        "the conversation is too long for the model, and nothing more of it can be left out",
        hint="use a model with a larger window, or start a local server with a larger context; "
        "long text in the task belongs into a file",
        detail=error.detail or error.message,
    )
