"""The last line of --json where odek ends without unwinding: a second signal, or a limit that a turn does not hear."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

import pytest

PROGRAM = """
import os, sys, time
from odek.cli import signals
from odek.cli.last_event import LastEvent
from odek.events import Finished
from odek.model.types import Usage

class Output:
    stdout_descriptor = 1
    redact = str
    def answer(self, text):
        os.write(1, (text + "\\n").encode())

signals.install()
last = LastEvent(Output())
"""
DEAF = """
with signals.turn():
    print("ready", file=sys.stderr, flush=True)
    while True:
        time.sleep(0.01)
"""
ANSWER = 'last.finished = Finished(answer="a" * {size}, usage=Usage(), iterations=1)\n'
LIMIT = "signals._leave_at_limit()\n"


def end(program: str, *numbers: signal.Signals, stdout: int = subprocess.PIPE) -> tuple[int, str]:
    """Run a program, send it signals one after the other, and return how it ended and its stdout."""
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM + program], stdout=stdout, stderr=subprocess.PIPE, text=True, bufsize=1
    )
    try:
        if numbers:
            assert child.stderr is not None
            assert child.stderr.readline() == "ready\n"
        for index, number in enumerate(numbers):
            if index:
                with pytest.raises(subprocess.TimeoutExpired):  # a signal is not a part of the same key press
                    child.wait(1)
            child.send_signal(number)
        return (child.wait(30), "" if stdout != subprocess.PIPE else child.communicate()[0])
    finally:
        child.kill()
        child.communicate()


@pytest.mark.parametrize(
    ("program", "numbers", "expected"),
    [
        (DEAF, (signal.SIGINT, signal.SIGTERM), ("signal", "SIGTERM", 143, None)),
        (DEAF, (signal.SIGTERM, signal.SIGINT), ("signal", "SIGINT", 130, None)),
        (ANSWER.format(size=3) + DEAF, (signal.SIGINT, signal.SIGTERM), ("signal", "SIGTERM", 143, "aaa")),
        (LIMIT, (), ("limits", "budget", 4, None)),
        (ANSWER.format(size=9) + LIMIT, (), ("limits", "budget", 4, "a" * 9)),
        (ANSWER.format(size=100_000) + LIMIT, (), ("limits", "budget", 4, None)),
    ],
    ids=["int term", "term int", "with an answer", "limit", "limit with an answer", "more than a pipe takes at once"],
)
def test_program_that_ends_at_once_says_why(
    program: str, numbers: Sequence[signal.Signals], expected: tuple[str, str, int, str | None]
) -> None:
    """R-290, C13: one line, whole, though nothing is unwound and no buffer is written."""
    code, stdout = end(program, *numbers)
    (line,) = stdout.splitlines()
    event = json.loads(line)
    assert (event["event"], event["source"], event["code"], event["exit_code"], event["answer"]) == ("error", *expected)
    assert code == event["exit_code"]


def test_line_is_printed_once() -> None:
    """R-290, C13: a signal behind `finished` adds nothing."""
    code, stdout = end(ANSWER.format(size=3) + "last.succeed()\n" + DEAF, signal.SIGINT, signal.SIGTERM)
    assert (code, [json.loads(line)["event"] for line in stdout.splitlines()]) == (143, ["finished"])


def test_stdout_that_is_full_does_not_hold_it_up() -> None:
    """R-290, C13: a reader that has stopped reading costs the line and not the end."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        with suppress(BlockingIOError):
            while True:
                os.write(writing, b"x" * 4096)
        os.set_blocking(writing, True)
        assert end(LIMIT, stdout=writing) == (4, "")
    finally:
        os.close(reading)
        os.close(writing)
