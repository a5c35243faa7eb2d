"""Work in another thread that is called off, as far as real processes."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from odek import calloff
from odek.calloff import CallOff
from odek.errors import Interrupted
from odek.host_executor.commands import HostExecutor
from odek.process import Running


def in_thread(call_off: CallOff | None, work: object) -> list[BaseException]:
    """Run `work` in a thread that heeds `call_off`; return what it raised."""
    raised: list[BaseException] = []

    def run() -> None:
        if call_off is not None:
            calloff.heed(call_off)
        try:
            work()  # type: ignore[operator]
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    return raised


def test_check_raises_once_in_a_thread_that_was_called_off() -> None:
    call_off = CallOff()
    call_off.call(15)
    seen: list[int] = []

    def work() -> None:
        try:
            calloff.check()
        except Interrupted as error:
            seen.append(error.signal_number)
        calloff.check()  # what stops the command is left alone

    assert (in_thread(call_off, work), seen) == ([], [15])


def test_check_does_nothing_while_the_work_goes_on() -> None:
    assert in_thread(CallOff(), calloff.check) == []


def test_check_does_nothing_in_a_thread_that_heeds_nothing() -> None:
    call_off = CallOff()
    call_off.call(2)
    in_thread(call_off, lambda: None)
    calloff.check()
    assert in_thread(None, calloff.check) == []


def test_every_thread_is_told() -> None:
    call_off = CallOff()
    call_off.call(2)
    assert [len(in_thread(call_off, calloff.check)) for _ in range(3)] == [1, 1, 1]


def test_command_of_a_thread_is_stopped_with_what_it_started(tmp_path: Path) -> None:
    """R-40: a Ctrl-C reaches the commands of other threads too."""
    executor = HostExecutor(cwd=str(tmp_path), env={"PATH": os.environ["PATH"]})
    call_off = CallOff()
    raised: list[BaseException] = []
    thread = threading.Thread(
        target=lambda: raised.extend(
            in_thread(call_off, lambda: executor.run("sleep 77 & echo $! >pid; sleep 78", timeout_s=60))
        )
    )
    thread.start()
    pid_file = tmp_path / "pid"
    while not (pid_file.exists() and pid_file.read_text().strip()):
        assert thread.is_alive()
    call_off.call(2)
    thread.join(30)
    assert [type(error) for error in raised] == [Interrupted]
    state = Path(f"/proc/{int(pid_file.read_text())}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize("threads", [4])
def test_a_child_may_be_looked_after_by_several_threads(threads: int) -> None:
    """The lease of the sandbox: each command asks whether it is still held."""
    running = Running(("/bin/sh", "-c", "head -c 3000000 /dev/zero; sleep 0.1"), env={}, limit_bytes=100)
    raised: list[BaseException] = []

    def pump() -> None:
        while not running.exited:
            running.pump(0)
        for _ in range(5):
            running.pump(0)

    workers = [threading.Thread(target=lambda: raised.extend(in_thread(None, pump))) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(30)
    running.close()
    assert raised == []
