"""Carrying out the tool calls of one reply: those that may, at the same time; results in their order.

Which calls may run beside others, the tools say. What has to be asked about a call is asked before it
runs, in this thread and one call after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from odek.agent.context import shorten
from odek.agent.events import Sink, ToolFinished, ToolStarted, call_title
from odek.agent.failures import SAME_FAILURES, FailureCounter, RepeatedFailures, last_warning, same_failure
from odek.agent.parallel import Batch
from odek.model.types import ToolCall, ToolSpec

# A net below the caps of the tools (F-51): whatever a tool does, one result cannot fill the window.
RESULT_LIMIT_CHARACTERS = 200_000


class ToolOutcome(Protocol):
    """What a tool gave back."""

    @property
    def text(self) -> str: ...
    @property
    def failed(self) -> bool: ...


class Toolbox(Protocol):
    """The tools of a run. Failures are outcomes; what is raised ends the run."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]: ...

    def is_parallel(self, call: ToolCall) -> bool:
        """Return whether `call` may run beside others, in another thread."""
        ...

    def foresee(self, calls: Sequence[ToolCall]) -> None:
        """Ask at once about what several of the `calls` of one reply will need, before any of them runs."""
        ...

    def prepare(self, call: ToolCall) -> Callable[[], ToolOutcome]:
        """Check `call`, ask whoever must be asked, and return what carries it out."""
        ...


class CallRunner:
    """Carries out calls, and remembers how often each tool has failed."""

    def __init__(self, tools: Toolbox, sink: Sink, *, parallel: int) -> None:
        """Run at most `parallel` calls at the same time."""
        self._tools = tools
        self._sink = sink
        self._parallel = parallel
        self._failures = FailureCounter()
        self._repeated = RepeatedFailures()
        self._early: dict[str, str] = {}

    def begin_task(self) -> None:
        """Forget which calls have failed: another task may need them, and may find them work."""
        self._repeated = RepeatedFailures()

    def run(self, calls: Sequence[ToolCall], on_result: Callable[[ToolCall, str], None]) -> None:
        """Carry out `calls`; `on_result` gets each result, in the order of the calls, as soon as may be.

        Raises what a tool raises, OdekError for a call that fails again and again, and Interrupted;
        `take_early_results` then has what came out of turn.
        """
        self._tools.foresee(calls)
        for batch in self._batches(calls):
            if len(batch) == 1:
                self._run_one(batch[0], on_result)
            else:
                self._run_together(batch, on_result)

    def take_early_results(self) -> dict[str, str]:
        """Return, by the id of the call, the results that a `run` which was ended did not get to hand out."""
        early, self._early = self._early, {}
        return early

    def _batches(self, calls: Sequence[ToolCall]) -> Iterator[list[ToolCall]]:
        """Yield the calls in order: neighbours that may run together as one batch, any other alone."""
        batch: list[ToolCall] = []
        for call in calls:
            together = self._parallel > 1 and self._tools.is_parallel(call)
            if batch and not together:
                yield batch
                batch = []
            batch.append(call)
            if not together:
                yield batch
                batch = []
        if batch:
            yield batch

    def _run_one(self, call: ToolCall, on_result: Callable[[ToolCall, str], None]) -> None:
        self._sink(ToolStarted(call=call, title=call_title(call)))
        self._hand_out(call, self._tools.prepare(call)(), on_result)

    def _run_together(self, calls: Sequence[ToolCall], on_result: Callable[[ToolCall, str], None]) -> None:
        tasks = []
        for call in calls:
            self._sink(ToolStarted(call=call, title=call_title(call)))
            tasks.append(self._tools.prepare(call))
        batch = Batch(tasks, limit=self._parallel)
        handed_out = 0

        def hand_out_ready() -> None:
            nonlocal handed_out
            while handed_out in batch.results:
                self._hand_out(calls[handed_out], batch.results[handed_out], on_result)
                handed_out += 1

        try:
            batch.run(hand_out_ready)
        finally:
            left = sorted(place for place in batch.results if place >= handed_out)
            self._early = {calls[place].id: limited(batch.results[place].text) for place in left}

    def _hand_out(self, call: ToolCall, outcome: ToolOutcome, on_result: Callable[[ToolCall, str], None]) -> None:
        text = limited(outcome.text)
        if hint := self._failures.hint(call.name, failed=outcome.failed, text=text):
            text = f"{text}\n{hint}"
        count = self._repeated.count(call, failed=outcome.failed)
        if warning := last_warning(count):
            text = f"{text}\n{warning}"
        on_result(call, text)
        self._sink(ToolFinished(call=call, text=text, failed=outcome.failed))
        if count >= SAME_FAILURES:
            raise same_failure(call, count)


def limited(text: str) -> str:
    """Return `text`, without its middle when it is longer than any tool's result should be."""
    return shorten(text, RESULT_LIMIT_CHARACTERS)
