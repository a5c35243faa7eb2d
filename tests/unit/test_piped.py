"""Children that are talked to line by line, and what no child inherits."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from odek.cancel import CancelToken, use_token
from odek.errors import ExecutableMissing, Interrupted
from odek.piped import STDERR_TAIL_BYTES, LineTooLong, Piped
from odek.process import Running, run_attached, start_watcher

LONG_S = 60.0
ENV = {"PATH": os.environ["PATH"]}


@pytest.fixture
def sh() -> Iterator[Callable[..., Piped]]:
    """Starts shell scripts; whatever is left of them is killed."""
    started: list[Piped] = []

    def start(script: str, **options: int) -> Piped:
        started.append(Piped(("sh", "-c", script), env=ENV, **options))
        return started[-1]

    yield start
    for child in started:
        child.close()


def received(child: Piped) -> list[bytes]:
    """Return all lines to the end of the output."""
    lines = []
    while (line := child.receive_line(timeout_s=LONG_S)) is not None:
        lines.append(line)
    return lines


def test_lines_go_in_and_come_out(sh: Callable[..., Piped]) -> None:
    """R-109: as many as one likes, of any bytes but line ends; the last one needs none."""
    child = sh("cat; printf end")
    for line in (b"one", b"", b"\xff\x00two", b"x" * 200_000):
        child.send_line(line, timeout_s=LONG_S)
        assert child.receive_line(timeout_s=LONG_S) == line
    child.release()
    assert received(child) == [b"end"]
    assert child.end() == 0


def test_both_directions_may_be_full_at_the_same_time(sh: Callable[..., Piped]) -> None:
    """A child that prints more than it reads is read while it is written to."""
    child = sh('while read -r line; do echo "$line"; echo "$line"; done')
    for number in range(40):
        child.send_line(b"%d" % number * 5000, timeout_s=LONG_S)
    child.release()
    assert len(received(child)) == 80


def test_output_that_is_not_received_stays_in_the_pipe(sh: Callable[..., Piped], tmp_path: Path) -> None:
    """R-109: a child that prints without end waits; nothing grows but what was asked for."""
    child = sh("exec yes 0123456789", line_limit_bytes=10_000)
    for _ in range(20_000):
        assert child.receive_line(timeout_s=LONG_S) == b"0123456789"
    assert len(child._received) < 10_000 + (1 << 16)
    with pytest.raises(TimeoutError):  # it does not read, so a line that fills its pipe cannot be sent
        child.send_line(b"x" * (1 << 20), timeout_s=0.2)
    assert len(child._received) < 10_000 + (1 << 16)
    with pytest.raises(BrokenPipeError):  # half a line is in the pipe
        child.send_line(b"more", timeout_s=LONG_S)
    assert child.receive_line(timeout_s=LONG_S) == b"0123456789"
    assert child.end(patience_s=0.1) == -signal.SIGTERM


def test_line_without_end_is_refused(sh: Callable[..., Piped]) -> None:
    child = sh("echo short; exec tr '\\0' x </dev/zero", line_limit_bytes=5000)
    assert child.receive_line(timeout_s=LONG_S) == b"short"
    for _ in range(2):
        with pytest.raises(LineTooLong):
            child.receive_line(timeout_s=LONG_S)


def test_line_of_just_the_limit_is_taken(sh: Callable[..., Piped]) -> None:
    child = sh("head -c 4999 /dev/zero | tr '\\0' x; echo; echo more", line_limit_bytes=5000)
    assert received(child) == [b"x" * 4999, b"more"]


def test_end_of_stderr_is_kept(sh: Callable[..., Piped]) -> None:
    """R-109: however much it prints there, and nothing of it is taken for a line."""
    child = sh("head -c 3000000 /dev/zero | tr '\\0' e >&2; echo last words >&2; echo out")
    assert received(child) == [b"out"]
    child.end()
    assert len(child.stderr_tail) == STDERR_TAIL_BYTES
    assert child.stderr_tail.endswith(b"eelast words\n")


def test_silent_child_is_not_waited_for_beyond_the_limit(sh: Callable[..., Piped]) -> None:
    child = sh("exec sleep 600")
    with pytest.raises(TimeoutError):
        child.receive_line(timeout_s=0.05)


def send_for_ever(child: Piped) -> None:
    while True:
        child.send_line(b"x" * (1 << 16), timeout_s=LONG_S)


@pytest.mark.parametrize("closes", ["exec <&-; sleep 600", "exit 0"], ids=["stdin", "everything"])
def test_child_that_takes_no_input_is_said(sh: Callable[..., Piped], closes: str) -> None:
    child = sh(f"echo ready; {closes}")
    assert child.receive_line(timeout_s=LONG_S) == b"ready"
    with pytest.raises(BrokenPipeError):
        send_for_ever(child)  # what was under way may still fit into the pipe
    with pytest.raises(BrokenPipeError):
        child.send_line(b"x", timeout_s=LONG_S)


@pytest.mark.parametrize("doing", ["receive", "send", "end"])
def test_cancel_ends_every_wait(sh: Callable[..., Piped], doing: str) -> None:
    """R-100, R-109."""
    child = sh("trap '' TERM; echo ready; while :; do sleep 1; done")
    assert child.receive_line(timeout_s=LONG_S) == b"ready"
    work: dict[str, Callable[[], object]] = {
        "receive": partial(child.receive_line, timeout_s=LONG_S),
        "send": partial(child.send_line, b"x" * (1 << 20), timeout_s=LONG_S),
        "end": partial(child.end, patience_s=LONG_S),
    }
    token, raised = CancelToken(), list[BaseException]()

    def run() -> None:
        with use_token(token):
            try:
                work[doing]()
            except BaseException as error:
                raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    token.cancel(partial(Interrupted, 15))
    thread.join(30)
    assert [type(error) for error in raised] == [Interrupted]


ENDINGS = {
    "end of its input": ("cat >/dev/null; exit 7", 7),
    "TERM": ("trap 'exit 8' TERM; echo ready; while :; do sleep 0.05; done", 8),
    "KILL": ("trap '' TERM; echo ready; while :; do sleep 0.05; done", -signal.SIGKILL),
}


@pytest.mark.parametrize("by", ENDINGS)
def test_child_is_ended_as_gently_as_it_goes(sh: Callable[..., Piped], by: str) -> None:
    """R-109."""
    script, code = ENDINGS[by]
    child = sh(script)
    if "ready" in script:
        assert child.receive_line(timeout_s=LONG_S) == b"ready"
    assert child.end(patience_s=0.2 if by == "KILL" else LONG_S if by != "TERM" else 1) == code


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("goes_first", [False, True], ids=["at its end", "before its end"])
def test_what_a_child_started_ends_with_it(sh: Callable[..., Piped], *, goes_first: bool) -> None:
    """R-109: its process group, also where the child itself has gone before."""
    child = sh(f"sleep 600 >/dev/null 2>&1 & echo $!; {'exit' if goes_first else 'cat'}")
    pid = int(child.receive_line(timeout_s=LONG_S) or b"0")
    os.kill(pid, 0)
    child.end()
    deadline = time.monotonic() + LONG_S
    while is_alive(pid):  # the killed take a moment to die
        assert time.monotonic() < deadline


def test_child_that_was_closed_has_finished(sh: Callable[..., Piped]) -> None:
    """R-109: whoever asks after its close gets the answers of a child that has ended."""
    child = sh("sleep 1000 & exit 3")
    child.close()
    child.pump(0)
    assert (child.finished, child.exited, child.receive_line(timeout_s=LONG_S)) == (True, True, None)
    with pytest.raises(BrokenPipeError):
        child.send_line(b"more", timeout_s=LONG_S)
    child.release()
    assert child.end() in (3, -signal.SIGKILL)


def test_program_that_is_missing_is_said() -> None:
    with pytest.raises(ExecutableMissing):
        Piped(("/nonexistent/server",), env=ENV)


def run_it(argv: tuple[str, ...]) -> bytes:
    return Running(argv, env=ENV).wait(LONG_S).stdout.data


def pipe_it(argv: tuple[str, ...]) -> bytes:
    child = Piped(argv, env=ENV)
    lines = received(child)
    child.end()
    return b"\n".join(lines)


def watch_it(argv: tuple[str, ...]) -> bytes:
    del argv
    watcher = start_watcher("ls /proc/$$/fd; :", env=ENV)
    assert watcher is not None
    return watcher.wait(LONG_S).stdout.data


@pytest.mark.parametrize("start", [run_it, pipe_it, watch_it])
def test_no_descriptor_is_inherited(start: Callable[[tuple[str, ...]], bytes], tmp_path: Path) -> None:
    """R-113: neither a file, a socket or a pipe of odek's nor the lease of another session, close-on-exec or not."""
    lease = Running(("cat",), env=ENV, hold_stdin=True)
    other = Piped(("cat",), env=ENV)
    descriptor = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.fcntl(descriptor, fcntl.F_SETFD, 0)
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    try:
        found = set(start(("sh", "-c", "ls /proc/$$/fd; :")).decode().split())
        # dash keeps one of its own beyond the streams, for a script it reads
        assert found - {"0", "1", "2", "10", "255"} == set()
    finally:
        lease.close()
        other.close()
        for each in (descriptor, reader, writer):
            os.close(each)


def test_no_descriptor_is_inherited_at_a_terminal_of_ones_own(tmp_path: Path) -> None:
    """R-113: a child that shares the streams of odek gets these and nothing else."""
    out = tmp_path / "out"
    descriptor = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT)
    os.set_inheritable(descriptor, True)
    try:
        assert run_attached(("sh", "-c", f"ls /proc/$$/fd >{out}"), env=ENV) == 0
    finally:
        os.close(descriptor)
    assert set(out.read_text().split()) - {"0", "1", "2", "10", "255"} == set()


def test_input_that_comes_in_pieces_is_asked_for_as_it_is_taken() -> None:
    """R-324: more than fits into a pipe; what its source raises ends the child."""
    pieces = [bytes([65 + number]) * 100_000 for number in range(8)]
    done = Running(("cat",), env=ENV, stdin=iter(pieces)).wait(20)
    assert (done.code, done.stdout.data) == (0, b"".join(pieces))
    assert Running(("cat",), env=ENV, stdin=iter(())).wait(20).stdout.data == b""
    assert Running(("true",), env=ENV, stdin=iter(pieces)).wait(20).code == 0

    def broken() -> Iterator[bytes]:
        yield b"x"
        raise ValueError("source")

    child = Running(("cat",), env=ENV, stdin=broken())
    with pytest.raises(ValueError, match="source"):
        child.wait(20)
    assert child.exited
