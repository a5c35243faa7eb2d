"""Runs the tool calls of one reply: in parallel where the tools allow it, with results in call order.

Which calls may run in parallel, the tools say. What needs an approval is asked before the call runs, in this
thread and one call after the other. A tool that fails again and again earns a hint, and ends the task at last.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

from odek.agent.context_window import truncate_middle
from odek.cancel import POLL_S, CancelToken, current_token, use_token
from odek.errors import OdekError
from odek.events import Sink, ToolFinished, ToolStarted
from odek.model.types import ToolCall
from odek.text import truncate, visible

if TYPE_CHECKING:
    from odek.tools.registry import PreparedCall, Toolbox, ToolResult

T = TypeVar("T")

# Longer than the executors take to stop a command (sandbox/container/exec.py: 15 s for each of two tries).
_STOP_PATIENCE_S = 35.0


class ParallelRun(Generic[T]):
    """Work done by a bounded number of threads for the one that waits for it.

    Whatever ends the waiting cancels the rest and waits until it has stopped, so that no command outlives
    the turn that asked for it.
    """

    def __init__(self, tasks: Sequence[Callable[[], T]], *, limit: int) -> None:
        """Prepare to do `tasks`, at most `limit` at once, begun in their order."""
        self.results: dict[int, T] = {}
        """what is done, by the place of its task"""
        self._tasks = tasks
        self._limit = limit
        self._begun = iter(range(len(tasks)))
        self._begin = threading.Lock()
        self._ended: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()
        self._cancel = CancelToken(current_token())

    def run(self, on_result: Callable[[], None]) -> None:
        """Do the work; `on_result` is called, in this thread, whenever a result has been added.

        What a task or `on_result` raises ends everything and is raised here, as is a cancel of this
        thread's token. `results` may then hold more than `on_result` was called for.
        """
        threads = [threading.Thread(target=self._work, daemon=True) for _ in self._tasks[: self._limit]]
        try:
            for thread in threads:
                thread.start()
            for _ in self._tasks:
                self._wait_for_one()
                on_result()
        except BaseException:
            if not self._cancel.cancelled:  # else they have heard it already, and are stopping their commands
                self._cancel.cancel()
            raise
        finally:
            _join(threads)

    def _wait_for_one(self) -> None:
        """Return when one more task has its result; raise what a task or this thread's token raises."""
        while True:
            current_token().raise_if_cancelled()
            try:
                error = self._ended.get(timeout=POLL_S)
            except queue.Empty:
                continue
            if error is not None:
                current_token().raise_if_cancelled()  # a task may have heard of the same cancel first
                raise error
            return

    def _work(self) -> None:
        with use_token(CancelToken(self._cancel)):
            while True:
                with self._begin:
                    place = next(self._begun, None)
                if place is None:
                    return
                try:
                    current_token().raise_if_cancelled()
                    self.results[place] = self._tasks[place]()
                except BaseException as error:  # raised again in the thread that waits
                    self._ended.put(error)
                    return
                self._ended.put(None)


def _join(threads: Sequence[threading.Thread]) -> None:
    deadline = time.monotonic() + _STOP_PATIENCE_S
    for thread in threads:
        if thread.ident is not None:
            thread.join(max(deadline - time.monotonic(), 0))


FAILURES_BEFORE_HINT = 3
SAME_FAILURES = 6
"""so often the same call may fail while nothing new succeeds"""
_SHOWN_LENGTH = 120  # characters of a call that an error repeats
_WORDS_ABOUT = ("description", "timeout")  # arguments that do not change what a call does

_DEFAULT_HINT = "Stop and compare what you assume with what the results say; try another way, or ask the user."
_HINTS = (
    ("exit code:", "Read the first error of the output, not the last; run a smaller part of the command on its own."),
    ("is a folder", "The path is a folder; list it first, then name a file in it."),
    ("does not exist", "Look where the file really is before you name it again."),
    ("not found", "Look at what is really there before you name it again."),
    ("binary", "The file is not text; look at it with a program made for its format."),
)


class FailureStreak:
    """Counts the failures in a row of each tool."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def hint(self, tool: str, *, failed: bool, text: str) -> str:
        """Note one result; return advice when it is the third failure in a row, else ""."""
        count = self._counts.get(tool, 0) + 1 if failed else 0
        self._counts[tool] = count % FAILURES_BEFORE_HINT
        return choose_hint(tool, text) if count == FAILURES_BEFORE_HINT else ""


def choose_hint(tool: str, text: str) -> str:
    """Return the advice that fits the failure described in `text`."""
    advice = next((hint for words, hint in _HINTS if words in text), _DEFAULT_HINT)
    return f"hint: {tool} failed {FAILURES_BEFORE_HINT} times in a row. {advice}"


class RepeatedFailures:
    """Notices a model that makes the same failing call again and again.

    A call that succeeds and was not made before counts as progress, and the counts start again: tests that fail
    after each of many edits are work. Calls that differ only in blanks, in the order of their arguments or in
    what they are said to be for are the same.
    """

    def __init__(self) -> None:
        self._failed: dict[str, int] = {}
        self._succeeded: set[str] = set()

    def count(self, call: ToolCall, *, failed: bool) -> int:
        """Note one result; return how often this call has failed since there was progress, 0 when it succeeded."""
        key = f"{call.name}\n{_canonical(call.arguments)}"
        if not failed:
            if key not in self._succeeded:
                self._succeeded.add(key)
                self._failed.clear()
            return 0
        self._failed[key] = self._failed.get(key, 0) + 1
        return self._failed[key]


def last_warning(count: int) -> str:
    """Return the warning for the model when one more such failure ends the task, else ""."""
    return (
        f"hint: this very call has failed {count} times; once more ends the task." if count == SAME_FAILURES - 1 else ""
    )


def same_failure(call: ToolCall, count: int) -> OdekError:
    """Return the error for a `call` that failed too often."""
    shown = visible(truncate(" ".join(f"{call.name} {call.arguments}".split()), _SHOWN_LENGTH))
    return OdekError(
        f"the model made the same failing call {count} times: {shown}",
        hint="say in the task how it can be done, or use another model",
    )


def _canonical(arguments: str) -> str:
    """Return the JSON text `arguments` in one of its many spellings; what is not JSON without its blanks."""
    try:
        value = json.loads(arguments)
        if isinstance(value, dict):
            value = {key: part for key, part in value.items() if key not in _WORDS_ABOUT}
        return json.dumps(_collapsed(value), sort_keys=True)
    except (ValueError, RecursionError):
        return "".join(arguments.split())


def _collapsed(value: object) -> object:
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, dict):
        return {" ".join(key.split()): _collapsed(part) for key, part in value.items()}
    return [_collapsed(part) for part in value] if isinstance(value, list) else value


# A net below the caps of the tools (F-51): whatever a tool does, one result cannot fill the window.
RESULT_LIMIT_CHARACTERS = 200_000


class CallRunner:
    """Carries out calls, and remembers how often each tool has failed."""

    def __init__(self, tools: Toolbox, sink: Sink, *, parallel: int) -> None:
        """Run at most `parallel` calls at the same time."""
        self._tools = tools
        self._sink = sink
        self._parallel = parallel
        self._failures = FailureStreak()
        self._repeated = RepeatedFailures()
        self._out_of_order: dict[str, str] = {}

    def begin_task(self) -> None:
        """Forget which calls have failed: another task may need them, and may find them work."""
        self._repeated = RepeatedFailures()

    def run(self, calls: Sequence[ToolCall], on_result: Callable[[ToolCall, str], None]) -> None:
        """Carry out `calls`; `on_result` gets each result, in the order of the calls, as soon as each is available.

        Raises what a tool raises, OdekError for a call that fails again and again, and a cancel;
        `take_out_of_order_results` then has what came out of turn.
        """
        for batch in self._batches(self._tools.prepare(calls)):
            current_token().raise_if_cancelled()
            if len(batch) == 1:
                self._run_one(batch[0], on_result)
            else:
                self._run_parallel(batch, on_result)

    def take_out_of_order_results(self) -> dict[str, str]:
        """Return, by the id of the call, the results that a `run` had when it was ended, and had not published."""
        early, self._out_of_order = self._out_of_order, {}
        return early

    def _batches(self, calls: Sequence[PreparedCall]) -> Iterator[list[PreparedCall]]:
        """Yield the calls in order: neighbours that may run in parallel as one batch, any other alone."""
        batch: list[PreparedCall] = []
        for prepared in calls:
            together = self._parallel > 1 and prepared.parallel
            if batch and not together:
                yield batch
                batch = []
            batch.append(prepared)
            if not together:
                yield batch
                batch = []
        if batch:
            yield batch

    def _authorize(self, prepared: PreparedCall) -> PreparedCall:
        self._sink(ToolStarted(call=prepared.call, title=prepared.title))
        return self._tools.authorize(prepared)

    def _run_one(self, prepared: PreparedCall, on_result: Callable[[ToolCall, str], None]) -> None:
        self._publish(prepared.call, self._tools.run(self._authorize(prepared)), on_result)

    def _run_parallel(self, prepared: Sequence[PreparedCall], on_result: Callable[[ToolCall, str], None]) -> None:
        calls = [each.call for each in prepared]
        tasks = [self._tools.for_thread(self._authorize(each)) for each in prepared]
        batch = ParallelRun(tasks, limit=self._parallel)
        published = 0

        def publish_ready() -> None:
            nonlocal published
            while published in batch.results:
                self._publish(calls[published], batch.results[published], on_result)
                published += 1

        try:
            batch.run(publish_ready)
        finally:
            left = sorted(place for place in batch.results if place >= published)
            self._out_of_order = {calls[place].id: limited(batch.results[place].text) for place in left}

    def _publish(self, call: ToolCall, outcome: ToolResult, on_result: Callable[[ToolCall, str], None]) -> None:
        text = limited(outcome.text)
        if hint := self._failures.hint(call.name, failed=outcome.failed, text=text):
            text = f"{text}\n{hint}"
        count = self._repeated.count(call, failed=outcome.failed)
        if warning := last_warning(count):
            text = f"{text}\n{warning}"
        on_result(call, text)
        self._sink(ToolFinished(call=call, text=text, failed=outcome.failed, diffs=outcome.diffs))
        if count >= SAME_FAILURES:
            raise same_failure(call, count)


def limited(text: str) -> str:
    """Return `text`, without its middle when it is longer than any tool's result should be."""
    return truncate_middle(text, RESULT_LIMIT_CHARACTERS)
