"""Work that is cancelled, in the thread of the test and in others. No test waits for time to pass."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from fakes.homes import operator_home

from odek import cancel
from odek.cancel import CancelToken, current_token, time_limit, use_token
from odek.errors import Cancelled, Interrupted, TimeLimitReached
from odek.host_executor.commands import HostExecutor
from odek.process import Running
from odek.state import StateFolder

PATIENCE_S = 30


def in_thread(token: CancelToken | None, work: Callable[[], object]) -> list[BaseException]:
    """Run `work` in a thread that has `token`; return what it raised."""
    thread, raised = started(token, work)
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    return raised


def started(token: CancelToken | None, work: Callable[[], object]) -> tuple[threading.Thread, list[BaseException]]:
    raised: list[BaseException] = []

    def run() -> None:
        try:
            if token is None:
                work()
            else:
                with use_token(token):
                    work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, raised


def heard(token: CancelToken) -> BaseException | None:
    """Return what `token` raises now."""
    try:
        token.raise_if_cancelled()
    except Cancelled as error:
        return error
    return None


def test_each_cause_is_raised_once() -> None:
    """R-100: what stops a command is left in peace, and a Ctrl-C after a time-out is heard all the same."""
    token = CancelToken()
    assert (heard(token), token.cancelled, token.heard) == (None, False, True)
    token.cancel(TimeLimitReached)
    assert (token.cancelled, token.heard) == (True, False)
    assert isinstance(heard(token), TimeLimitReached)
    assert heard(token) is None
    token.cancel(partial(Interrupted, 15))
    second = heard(token)
    assert isinstance(second, Interrupted)
    assert (second.signal_number, heard(token), token.heard) == (15, None, True)


def test_a_child_hears_its_parent_and_not_the_other_way_round() -> None:
    """R-100: a signal during a time-out counts more, and each thread hears it for itself."""
    parent = CancelToken()
    first, second = CancelToken(parent), CancelToken(parent)
    first.cancel(TimeLimitReached)
    assert (parent.cancelled, second.cancelled) == (False, False)
    parent.cancel(partial(Interrupted, 2))
    assert [type(heard(token)) for token in (first, second)] == [Interrupted, Interrupted]
    assert [heard(token) for token in (first, second)] == [None, None]
    assert parent.heard  # by the children, which do its work
    assert isinstance(heard(CancelToken(parent)), Interrupted)  # work that begins too late


def test_there_is_no_current_token_but_one_that_was_given() -> None:
    current_token().raise_if_cancelled()
    token = CancelToken()
    with use_token(token):
        assert current_token() is token
        assert in_thread(None, lambda: [current_token().cancel()]) == []
        assert not token.cancelled
        with use_token(CancelToken(token)):
            assert current_token() is not token
        assert current_token() is token
    assert current_token() is not token


@pytest.mark.parametrize("before", [True, False], ids=["cancelled before", "cancelled meanwhile"])
def test_callback_is_called_at_a_cancel_of_the_token_or_a_parent(*, before: bool) -> None:
    parent = CancelToken()
    token = CancelToken(parent)
    called: list[str] = []
    if before:
        parent.cancel()
    with token.on_cancel(lambda: called.append("closed")):
        assert called == (["closed"] if before else [])
        if not before:
            parent.cancel()
    parent.cancel()
    token.cancel()
    assert called == ["closed"]


def test_callback_leaves_work_alone_that_goes_on_after_a_cancel() -> None:
    """What was raised is over: an agent that was stopped may take its next task."""
    token = CancelToken()
    token.cancel()
    assert heard(token) is not None
    with token.on_cancel(lambda: pytest.fail("called")):
        pass


WAITS: dict[str, Callable[[Path], object]] = {
    "time": lambda _: cancel.sleep(600),
    "a pipe": lambda _: cancel.wait_readable(os.pipe()[0]),
    "a pipe with a limit": lambda _: cancel.wait_readable(os.pipe()[0], 600),
    "a child": lambda _: Running(("sleep", "600"), env={"PATH": os.environ["PATH"]}).wait(600),
    "a child without pipes": lambda _: Running(
        ("sh", "-c", "exec >&- 2>&-; sleep 600"), env={"PATH": os.environ["PATH"]}
    ).wait(600),
    "a lock": lambda home: with_lock(home),
    "a command": lambda home: HostExecutor(cwd=str(home), env={"PATH": os.environ["PATH"]}).run(
        "sleep 600", timeout_s=600
    ),
}


def with_lock(home: Path) -> None:
    with StateFolder(operator_home(home)).locked("x", wait_s=600):
        pass


@pytest.mark.parametrize("cause", [partial(Interrupted, 2), TimeLimitReached, Cancelled])
@pytest.mark.parametrize("what", WAITS)
def test_every_wait_in_a_thread_ends(what: str, cause: Callable[[], Cancelled], tmp_path: Path) -> None:
    """R-100: they all last ten minutes otherwise."""
    token = CancelToken()
    with StateFolder(operator_home(tmp_path)).locked("x"):
        thread, raised = started(token, lambda: WAITS[what](tmp_path))
        token.cancel(cause)
        thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert [type(error) for error in raised] == [type(cause())]


def test_waits_end_by_themselves_as_well() -> None:
    reader, writer = os.pipe()
    with suppress(OSError):
        assert not cancel.wait_readable(reader, 0)
        os.write(writer, b"x")
        assert cancel.wait_readable(reader, 600)
        assert cancel.wait_readable(reader)
        cancel.sleep(0)
    os.close(reader)
    os.close(writer)


def test_command_of_a_thread_is_stopped_with_what_it_started(tmp_path: Path) -> None:
    """R-40, R-100: a cancel reaches the commands of other threads too."""
    executor = HostExecutor(cwd=str(tmp_path), env={"PATH": os.environ["PATH"]})
    token = CancelToken()
    thread, raised = started(token, lambda: executor.run("sleep 77 & echo $! >pid; sleep 78", timeout_s=60))
    pid_file = tmp_path / "pid"
    while not (pid_file.exists() and pid_file.read_text().strip()):
        assert thread.is_alive()
    token.cancel(partial(Interrupted, 2))
    thread.join(PATIENCE_S)
    assert [type(error) for error in raised] == [Interrupted]
    state = Path(f"/proc/{int(pid_file.read_text())}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def test_time_limit_is_heard_in_any_thread() -> None:
    """R-102."""
    token = CancelToken()

    def work() -> None:
        with time_limit(token, 0.01):
            cancel.sleep(600)

    assert [type(error) for error in in_thread(token, work)] == [TimeLimitReached]


def test_time_limit_does_not_outlive_its_block() -> None:
    token = CancelToken()
    before = set(threading.enumerate())  # threads of earlier tests may end meanwhile
    with time_limit(token, 600):
        assert len(set(threading.enumerate()) - before) == 1
    with time_limit(token, None):
        pass
    for timer in threading.enumerate():
        if isinstance(timer, threading.Timer):
            timer.join(PATIENCE_S)
    assert not token.cancelled


@pytest.mark.parametrize("threads", [4])
def test_a_child_may_be_looked_after_by_several_threads(threads: int) -> None:
    """The lease of the sandbox: each command asks whether it is still held."""
    running = Running(("/bin/sh", "-c", "head -c 3000000 /dev/zero; sleep 0.1"), env={}, limit_bytes=100)

    def pump() -> None:
        while not running.exited:
            running.pump(0)
        for _ in range(5):
            running.pump(0)

    workers = [started(None, pump) for _ in range(threads)]
    for worker, _ in workers:
        worker.join(PATIENCE_S)
    running.close()
    assert [raised for _, raised in workers] == [[]] * threads
