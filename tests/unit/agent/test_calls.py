"""The calls of one reply: which run together, in what order things are asked, told and returned."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from fakes.tools import FakeToolbox

from odek.agent.calls import CallRunner
from odek.errors import OdekError
from odek.events import Event, ToolFinished, ToolStarted
from odek.model.types import ToolCall
from odek.tools.registry import ToolResult

PATIENCE_S = 20


Work = Callable[[], ToolResult]


@dataclass
class Bench:
    runner: CallRunner
    tools: FakeToolbox
    results: list[tuple[str, str]] = field(default_factory=list)

    def run(self, *ids: str) -> list[tuple[str, str]]:
        calls = [ToolCall(id=id_, name="t", arguments="{}") for id_ in ids]
        self.runner.run(calls, lambda call, text: self.results.append((call.id, text)))
        return self.results


def bench(work: dict[str, Work], *, parallel: int = 4) -> Bench:
    """Calls named r… may run together, calls named w… may not; `work` is what they do."""

    def carry_out(call: ToolCall) -> ToolResult:
        return work[call.id]()

    tools = FakeToolbox(carry_out, parallel=lambda call: call.id.startswith("r"))

    def sink(event: Event) -> None:
        assert threading.current_thread() is threading.main_thread()
        if isinstance(event, ToolStarted):
            tools.log.append(f"started {event.call.id}")
        elif isinstance(event, ToolFinished):
            tools.log.append(f"finished {event.call.id}")

    return Bench(runner=CallRunner(tools, sink, parallel=parallel), tools=tools)


def gives(text: str) -> Work:
    return lambda: ToolResult(text=text)


def after(event: threading.Event, text: str) -> Work:
    def work() -> ToolResult:
        assert event.wait(PATIENCE_S)
        return ToolResult(text=text)

    return work


def before(event: threading.Event, text: str) -> Work:
    def work() -> ToolResult:
        event.set()
        return ToolResult(text=text)

    return work


def test_results_come_in_the_order_of_the_calls() -> None:
    """Runtime 3.3: the first call ends last."""
    last = threading.Event()
    b = bench({"r1": after(last, "one"), "r2": gives("two"), "r3": before(last, "three")})
    assert b.run("r1", "r2", "r3") == [("r1", "one"), ("r2", "two"), ("r3", "three")]
    assert b.tools.log == [
        "prepared r1 r2 r3",
        *("started r1", "asked r1", "started r2", "asked r2", "started r3", "asked r3"),
        *("finished r1", "finished r2", "finished r3"),
    ]


def test_calls_that_may_not_run_together_run_alone_and_in_between() -> None:
    """A write between two reads stays between them; what a card did not cover is not asked before its turn."""
    meeting = threading.Barrier(2, timeout=PATIENCE_S)

    def meet() -> ToolResult:
        meeting.wait()
        return ToolResult(text="met")

    b = bench({"r1": meet, "r2": meet, "w1": gives("written"), "w2": gives("written"), "r3": meet, "r4": meet})
    assert [id_ for id_, _ in b.run("r1", "r2", "w1", "w2", "r3", "r4")] == ["r1", "r2", "w1", "w2", "r3", "r4"]
    assert b.tools.log[5:13] == [
        *("finished r1", "finished r2", "started w1", "asked w1", "finished w1", "started w2", "asked w2"),
        "finished w2",
    ]


@pytest.mark.parametrize(("parallel", "ids"), [(1, ("r1", "r2")), (4, ("r1",)), (4, ("w1", "r1"))])
def test_a_single_call_runs_in_the_main_thread(parallel: int, ids: tuple[str, ...]) -> None:
    threads: list[threading.Thread] = []

    def work() -> ToolResult:
        threads.append(threading.current_thread())
        return ToolResult(text="")

    bench(dict.fromkeys(ids, work), parallel=parallel).run(*ids)
    assert threads == [threading.main_thread()] * len(ids)


def test_results_out_of_turn_are_kept_when_a_call_ends_the_run() -> None:
    """B44: what is finished is not thrown away. One of the two threads begins r4 when r3 is done."""
    later = threading.Event()

    def fail() -> ToolResult:
        assert later.wait(PATIENCE_S)
        raise OdekError("the sandbox is gone")

    b = bench({"r1": gives("one"), "r2": fail, "r3": gives("three"), "r4": before(later, "four")}, parallel=2)
    with pytest.raises(OdekError, match="gone"):
        b.run("r1", "r2", "r3", "r4")
    assert b.results == [("r1", "one")]
    early = b.runner.take_out_of_order_results()
    assert early in ({"r3": "three"}, {"r3": "three", "r4": "four"})
    assert b.runner.take_out_of_order_results() == {}


def test_nothing_is_left_over_after_a_run_that_ended_well() -> None:
    b = bench({"r1": gives("one"), "r2": gives("two")})
    b.run("r1", "r2")
    assert b.runner.take_out_of_order_results() == {}


def test_failures_are_counted_over_calls_that_ran_together() -> None:
    b = bench(dict.fromkeys(("r1", "r2", "r3"), lambda: ToolResult(text="no", failed=True)))
    texts = [text for _, text in b.run("r1", "r2", "r3")]
    assert [text.count("hint: t failed 3 times in a row.") for text in texts] == [0, 0, 1]
