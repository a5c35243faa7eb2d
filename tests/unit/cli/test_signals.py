"""Signals in a process of its own: the second one, and the end of a stop."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from odek.errors import EXIT_BUDGET

SLOW = """
import time
from odek.cli import signals
from odek.errors import Interrupted
signals.install()
try:
    print("ready", flush=True)
    time.sleep(60)
except Interrupted:
    print("first", flush=True)
    time.sleep(60)
"""
STOPPED = """
import time
from odek.cli import signals
from odek.errors import Interrupted
signals.install()
try:
    with signals.resumption():
        print("ready", flush=True)
        time.sleep(60)
except signals.Resumed:
    print("resumed", flush=True)
except Interrupted:
    print("ended", flush=True)
"""
TURN = """
import os, time
from odek import cancel
from odek.cli import signals
from odek.errors import Interrupted, OdekError
signals.install()
try:
    with signals.turn() as token:
        print("ready", flush=True)
        WORK
    print("not raised", flush=True)
except Interrupted as error:
    print(f"stopped by {error.signal_number}", flush=True)
signals.rearm()
try:
    with signals.turn() as token:
        cancel.sleep(0)
    print("next turn", flush=True)
    time.sleep(60)
except Interrupted as error:
    print(f"raised {error.signal_number}", flush=True)
"""


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """The two ends of a pseudo-terminal."""
    ends = pty.openpty()
    yield ends
    for end in ends:
        os.close(end)


def started(program: str, stderr: int) -> subprocess.Popen[str]:
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=stderr, text=True)
    assert line_of(child) == "ready\n"
    return child


def line_of(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline()


def test_second_signal_ends_at_once_and_says_so_at_a_terminal(terminal: tuple[int, int]) -> None:
    """B08: what is left on the line stays readable, and the shell's prompt stands on one of its own."""
    master, slave = terminal
    child = started(SLOW, slave)
    child.send_signal(signal.SIGINT)
    assert line_of(child) == "first\n"
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=20)
    assert child.returncode == 130
    os.set_blocking(master, False)
    assert os.read(master, 1000) == b"\r\nodek: stopped at once by SIGINT\r\n"


def test_second_signal_says_nothing_in_a_pipe() -> None:
    child = started(SLOW, subprocess.PIPE)
    child.send_signal(signal.SIGINT)
    assert line_of(child) == "first\n"
    time.sleep(0.2)
    child.send_signal(signal.SIGTERM)
    assert (child.communicate(timeout=20)[1], child.returncode) == ("", 143)


@pytest.mark.parametrize(
    ("sent", "told"),
    [((signal.SIGCONT,), "resumed\n"), ((signal.SIGTERM, signal.SIGCONT), "ended\n")],
    ids=["alone", "behind the end"],
)
def test_end_of_a_stop_is_told_unless_odek_ends(sent: tuple[signal.Signals, ...], told: str) -> None:
    """`timeout` and shells send SIGCONT behind the signal that ends, also to a process that is stopped."""
    child = started(STOPPED, subprocess.PIPE)
    child.send_signal(signal.SIGSTOP)
    for number in sent:
        child.send_signal(number)
    assert (line_of(child), child.wait(timeout=20)) == (told, 0)
    child.communicate()


@pytest.mark.parametrize(
    "work",
    [
        "cancel.sleep(60)",
        "while not token.cancelled: time.sleep(0.01)",
        "while not token.cancelled: time.sleep(0.01)\n        raise OdekError('the container is gone')",
    ],
    ids=["a wait", "never looked at", "an error that came of it"],
)
def test_signal_cancels_a_turn_and_the_next_one_has_a_first_one_again(work: str) -> None:
    """R-100: no exception in the middle of it, yet none is lost; outside of a turn it is an exception as ever."""
    child = started(TURN.replace("WORK", work), subprocess.PIPE)
    child.send_signal(signal.SIGTERM)
    assert (line_of(child), line_of(child)) == ("stopped by 15\n", "next turn\n")
    time.sleep(0.2)
    child.send_signal(signal.SIGINT)
    assert (line_of(child), child.wait(timeout=20)) == ("raised 2\n", 0)
    child.communicate()


def test_second_signal_ends_a_turn_at_once() -> None:
    child = started(TURN.replace("WORK", "time.sleep(60)"), subprocess.PIPE)
    child.send_signal(signal.SIGINT)
    time.sleep(0.2)
    child.send_signal(signal.SIGTERM)
    child.communicate(timeout=20)
    assert child.returncode == 143


def test_turn_that_does_not_hear_is_left_at_last() -> None:
    """R-38: it may hang in a write into a pipe that nobody reads; a single SIGTERM ends odek nevertheless."""
    child = started(TURN.replace("WORK", "while True: os.write(1, b'x' * (1 << 16))"), subprocess.PIPE)
    child.send_signal(signal.SIGTERM)
    assert child.wait(timeout=30) == 143
    child.communicate()


def test_turn_that_does_not_hear_its_time_limit_is_left_at_last() -> None:
    """R-102, R-38: as for a signal; a sandbox whose odek waits for a reader would stay for ever."""
    work = "with cancel.time_limit(token, 0.1):\n            while True: os.write(1, b'x' * (1 << 16))"
    child = started(TURN.replace("WORK", work), subprocess.PIPE)
    assert child.wait(timeout=30) == EXIT_BUDGET
    child.communicate()
