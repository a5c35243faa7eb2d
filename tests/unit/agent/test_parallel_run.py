"""Batches of work in threads. Nothing here waits for time to pass; threads meet at barriers and events."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType

import pytest

from odek.agent.calls import ParallelRun
from odek.cancel import CancelToken, current_token, use_token
from odek.errors import Cancelled, Interrupted, OdekError, TimeLimitReached

PATIENCE_S = 20


def wait_until_cancelled() -> None:
    """Work as a command does: until a cancel stops it."""
    current_token().wait(600)


def run(batch: ParallelRun[int]) -> list[set[int]]:
    """Return which results were there each time that one was announced."""
    seen: list[set[int]] = []
    batch.run(lambda: seen.append(set(batch.results)))
    return seen


def test_results_stand_at_the_places_of_their_tasks() -> None:
    batch = ParallelRun([lambda: 10, lambda: 11, lambda: 12], limit=2)
    seen = run(batch)
    assert batch.results == {0: 10, 1: 11, 2: 12}
    assert (len(seen), seen[-1]) == (3, {0, 1, 2})


def test_as_many_tasks_as_allowed_run_at_the_same_time() -> None:
    """Each of three waits for the two others: with fewer threads this would never end."""
    meeting = threading.Barrier(3, timeout=PATIENCE_S)
    batch = ParallelRun([meeting.wait] * 6, limit=3)
    run(batch)
    assert sorted(batch.results) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("limit", [1, 2])
def test_never_more_tasks_than_allowed_run_at_the_same_time(limit: int) -> None:
    running, most, lock = 0, 0, threading.Lock()

    def work() -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        threading.Event().wait(0.01)
        with lock:
            running -= 1
        return 0

    run(ParallelRun([work] * 6, limit=limit))
    assert most <= limit


def test_a_result_is_announced_while_others_are_still_at_work() -> None:
    first_seen = threading.Event()
    batch: ParallelRun[bool] = ParallelRun([lambda: True, lambda: first_seen.wait(PATIENCE_S)], limit=2)
    batch.run(first_seen.set)
    assert batch.results == {0: True, 1: True}


@pytest.mark.parametrize("error", [OdekError("the sandbox is gone"), RuntimeError("bug"), Interrupted(9)])
def test_what_a_task_raises_cancels_the_others(error: BaseException) -> None:
    meeting = threading.Barrier(2, timeout=PATIENCE_S)
    stopped: list[type[Cancelled]] = []

    def fail() -> int:
        meeting.wait()
        raise error

    def work() -> int:
        meeting.wait()
        try:
            wait_until_cancelled()
        except Cancelled as error:
            stopped.append(type(error))
            raise
        return 0

    batch = ParallelRun([fail, work, lambda: 5], limit=2)
    with pytest.raises(type(error)) as caught:
        run(batch)
    assert caught.value is error
    assert stopped == [Cancelled]
    assert batch.results == {}  # the third was not begun


def interrupting() -> Callable[[int, FrameType | None], None]:
    def handler(number: int, _frame: FrameType | None) -> None:
        raise Interrupted(number)

    return handler


def test_a_signal_stops_all_and_keeps_what_is_done() -> None:
    """R-40, B44: the exception comes in the main thread; every other one is stopped before it goes on."""
    meeting = threading.Barrier(3, timeout=PATIENCE_S)
    stopped: list[type[Cancelled]] = []

    def work() -> int:
        meeting.wait()
        try:
            wait_until_cancelled()
        except Cancelled as error:
            stopped.append(type(error))
            raise
        return 0

    def send() -> int:
        meeting.wait()
        os.kill(os.getpid(), signal.SIGUSR1)
        return 7

    before = signal.signal(signal.SIGUSR1, interrupting())
    try:
        batch = ParallelRun([work, work, send], limit=3)
        with pytest.raises(Interrupted) as caught:
            run(batch)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert caught.value.signal_number == signal.SIGUSR1
    assert stopped == [Cancelled] * 2
    assert set(batch.results) <= {2}
    assert [thread.name for thread in threading.enumerate() if "_work" in thread.name] == []


@pytest.mark.parametrize("cause", [partial(Interrupted, 15), TimeLimitReached])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_cancel_reaches_a_nested_run(depth: int, cause: Callable[[], Cancelled]) -> None:
    """R-100: a sub-agent in a parallel call, in a thread that no signal reaches, stops its own parallel calls."""
    meeting = threading.Barrier(2**depth + 1, timeout=PATIENCE_S)
    stopped: list[type[Cancelled]] = []

    def work() -> int:
        meeting.wait()
        try:
            wait_until_cancelled()
        except Cancelled as error:
            stopped.append(type(error))
            current_token().raise_if_cancelled()  # once: to stop a command takes waits of its own
            raise
        return 0

    def nest(level: int) -> int:
        if level == 0:
            return work()
        run(ParallelRun([partial(nest, level - 1)] * 2, limit=2))
        return 1

    token = CancelToken()
    raised: list[BaseException] = []

    def outermost() -> None:
        with use_token(token):
            try:
                nest(depth)
            except BaseException as error:
                raised.append(error)
            current_token().raise_if_cancelled()

    thread = threading.Thread(target=outermost, daemon=True)
    thread.start()
    meeting.wait()
    token.cancel(cause)
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert [type(error) for error in raised] == [type(cause())]
    assert stopped == [type(cause())] * 2**depth


def test_run_that_begins_too_late_ends_at_once() -> None:
    """R-100: under a token whose cancel this thread has heard already."""
    token = CancelToken()
    token.cancel(partial(Interrupted, 2))
    with use_token(token):
        with pytest.raises(Interrupted):
            current_token().raise_if_cancelled()
        with pytest.raises(Interrupted):
            run(ParallelRun([lambda: pytest.fail("begun")] * 3, limit=2))


def test_a_cancel_of_one_run_leaves_another_alone() -> None:
    """R-100: two conversations in two threads."""
    meeting = threading.Barrier(3, timeout=PATIENCE_S)
    first, second = CancelToken(), CancelToken()
    released = threading.Event()
    results: dict[str, object] = {}

    def conversation(name: str, token: CancelToken, task: Callable[[], int]) -> None:
        with use_token(token):
            work: ParallelRun[int] = ParallelRun([task, lambda: 7], limit=2)
            try:
                run(work)
                results[name] = work.results
            except Cancelled as error:
                results[name] = type(error)

    def stops() -> int:
        meeting.wait()
        wait_until_cancelled()
        return 0

    def goes_on() -> int:
        meeting.wait()
        released.wait(PATIENCE_S)
        current_token().raise_if_cancelled()
        return 5

    threads = [
        threading.Thread(target=conversation, args=("first", first, stops), daemon=True),
        threading.Thread(target=conversation, args=("second", second, goes_on), daemon=True),
    ]
    for thread in threads:
        thread.start()
    meeting.wait()
    first.cancel(partial(Interrupted, 2))
    threads[0].join(PATIENCE_S)
    released.set()
    threads[1].join(PATIENCE_S)
    assert results == {"first": Interrupted, "second": {0: 5, 1: 7}}


def test_what_the_listener_raises_cancels_the_rest() -> None:
    """The terminal may be gone: BrokenPipeError comes from whoever prints the result."""

    meeting = threading.Barrier(2, timeout=PATIENCE_S)
    stopped: list[type[Cancelled]] = []

    def work() -> int:
        meeting.wait()
        try:
            wait_until_cancelled()
        except Cancelled as error:
            stopped.append(type(error))
            raise
        return 0

    def listen() -> None:
        raise BrokenPipeError

    batch = ParallelRun([meeting.wait, work], limit=2)
    with pytest.raises(BrokenPipeError):
        batch.run(listen)
    assert (sorted(batch.results), stopped) == ([0], [Cancelled])
