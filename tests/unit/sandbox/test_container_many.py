"""Several commands, many files and folders in a running container, played with a scripted Docker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from fakes.containers import FACTS, SECRET, SPEC, answer
from fakes.docker import FakeDocker, FakePending

from odek.errors import ExecutableMissing, FileAccessDenied, Interrupted
from odek.executor import CommandRequest, CommandResult, ScanOptions
from odek.sandbox.container import scripts
from odek.sandbox.container.container import Container
from odek.sandbox.container.scripts import pack_text
from odek.sandbox.errors import SandboxLost

MARKS = tuple(letter * 32 for letter in "abcdefgh")
STOPPED = "the command and everything it had started was stopped"


@dataclass
class Box:
    """A container with a lease, and the Docker behind it; nonces are those of MARKS in turn."""

    docker: FakeDocker = field(default_factory=FakeDocker)

    def __post_init__(self) -> None:
        nonces = iter((SECRET, *MARKS))
        self.docker.on("run", hold=True)
        self.lease = self.docker.start("run", hold_stdin=True)
        self.docker.calls.clear()
        self.container = Container(
            self.docker, SPEC, FACTS, lease=self.lease, new_nonce=lambda: next(nonces), clock=self.docker.now
        )

    def run_many(self, *commands: str, timeout_s: float = 60) -> tuple[CommandResult, ...]:
        results = self.container.run_many([CommandRequest(command=text, timeout_s=timeout_s) for text in commands])
        self.docker.assert_no_client_left("run")
        return results

    def stopped(self) -> list[str]:
        """Return the marks of the calls that were stopped, in order."""
        return [call.args[-3] for call in self.docker.calls if scripts.STOP in call.args]


def end(mark: str) -> str:
    return scripts.end_nonce(SECRET, mark)


def both(result: CommandResult) -> tuple[bytes, bytes, int | None, bool]:
    assert result.stderr is not None
    return result.output.data, result.stderr.data, result.code, result.timed_out


def test_streams_come_apart_and_nothing_of_ours_is_in_them() -> None:
    """R-83, R-41: in the order that was asked for."""
    box = Box()
    box.docker.on("exec", react=answer(3, out=b"o", err=b"no line end"), times=1)
    box.docker.on("exec", react=answer(0, err=b"line\n", after=b"a late child\n"), times=1)
    box.docker.on("exec", react=answer(0, out=b"x\n"))
    assert [both(result) for result in box.run_many("1", "2", "3")] == [
        (b"o", b"no line end", 3, False),
        (b"", b"line\na late child\n", 0, False),
        (b"x\n", b"", 0, False),
    ]
    assert [call.stdin for call in box.docker.calls] == [
        pack_text(text, mark, end(mark), umask=0o022, apart=True)
        for text, mark in zip((b"1", b"2", b"3"), MARKS[:3], strict=True)
    ]
    assert [call.args[-2] for call in box.docker.calls] == list(MARKS[:3])


def test_long_stderr_is_kept_at_both_ends_without_our_lines() -> None:
    """R-41."""
    box = Box()
    box.docker.on("exec", react=answer(0, err=b"A" * 300_000 + b"Z"))
    (result,) = box.run_many("x")
    assert result.stderr is not None
    assert (result.stderr.size_bytes, result.stderr.head[:2], result.stderr.tail[-2:]) == (300_001, b"AA", b"AZ")
    assert MARKS[0].encode() not in result.stderr.data


def test_only_what_takes_too_long_is_stopped() -> None:
    """R-40: by its own mark; what the others print is taken meanwhile."""
    box = Box()

    def stop(_client: FakePending) -> None:
        box.docker.clients[1].ended = True

    box.docker.on("exec", has=scripts.STOP, react=stop)
    box.docker.on("exec", hang=True, react=answer(None, out=b"part"), times=1)
    box.docker.on("exec", react=answer(0, out=b"whole"))
    results = box.run_many("sleep 100", "quick", timeout_s=2)
    assert [(both(result), result.notes) for result in results] == [
        ((b"part", b"", None, True), (STOPPED,)),
        ((b"whole", b"", 0, False), ()),
    ]
    assert box.stopped() == [MARKS[0]]


def test_interrupt_stops_all_that_is_still_at_work() -> None:
    """R-40, R-38."""
    box = Box()
    box.docker.on("exec", has=scripts.STOP, react=box.docker.end_commands)
    box.docker.on("exec", react=answer(0), times=1)
    box.docker.on("exec", hang=True, times=1)
    box.docker.on("exec", hang=True, raises_in_pump=Interrupted(2))
    with pytest.raises(Interrupted):
        box.run_many("done", "b", "c")
    assert set(box.stopped()) >= {MARKS[1], MARKS[2]}
    box.docker.assert_no_client_left("run")


def test_command_that_cannot_be_started_takes_the_others_with_it() -> None:
    box = Box()
    box.docker.on("exec", has=scripts.STOP, react=box.docker.end_commands)
    box.docker.on("exec", hang=True, times=1)
    box.docker.on("exec", raises=ExecutableMissing("cannot run docker"))
    with pytest.raises(ExecutableMissing):
        box.run_many("a", "b")
    assert box.stopped() == [MARKS[0]]
    box.docker.assert_no_client_left("run")


def test_command_that_cannot_be_stopped_costs_the_sandbox() -> None:
    """R-42."""
    box = Box()
    box.docker.on("exec", has=scripts.STOP, code=1)
    box.docker.on("exec", has=scripts.STOP_ALL, code=1)
    box.docker.on("exec", hang=True)
    with pytest.raises(SandboxLost, match="could not be stopped"):
        box.run_many("a", "b", timeout_s=1)
    box.docker.assert_no_client_left()


@pytest.mark.parametrize(
    ("command", "noted"),
    [("server & true", True), ("server &", True), ("a && b", False), ("a 2>&1", False), ("a &>f", False), ("a", False)],
)
def test_note_about_background_processes_only_where_there_can_be_one(command: str, noted: bool) -> None:
    """B02."""
    box = Box()
    box.docker.on("exec", hang=True, react=answer(0))
    (result,) = box.run_many(command)
    assert (result.code, len(result.notes)) == (0, int(noted))


LISTED = f"{MARKS[0]} 41ed 4096 1 .\n{MARKS[0]} 81a4 2 1 ./f\n{MARKS[0]} end\n"


@pytest.mark.parametrize(
    ("status", "out", "reason"),
    [
        (scripts.LEFT_WORKSPACE, b"", "it leaves the workspace"),
        (scripts.MISSING, b"", "there is no such file"),
        (scripts.LOOP, b"", "its links go round in circles"),
        (scripts.NO_PROGRAM, b"find", "the image has no find"),
        (9, b"", "status 9"),
    ],
)
def test_walk_that_is_refused_says_why(status: int, out: bytes, reason: str) -> None:
    """R-44, B13, B21: all tools decide alike."""
    box = Box()
    box.docker.on("exec", react=answer(status, out=out))
    with pytest.raises(FileAccessDenied) as refused:
        box.container.walk("a\x1b", ScanOptions())
    assert refused.value.message == f'cannot look at "a\\x1b": {reason}'


def test_walk_that_takes_too_long_is_stopped_and_told_with_what_it_found() -> None:
    """R-40."""
    box = Box()
    box.docker.on("exec", has=scripts.STOP, react=lambda _: setattr(box.docker.clients[1], "ended", True))
    box.docker.on("exec", hang=True, react=answer(None, out=LISTED.encode()[:-40] + b"x"))
    listing = box.container.walk("", ScanOptions(timeout_s=3))
    assert (listing.top.path, listing.complete) == ("", False)
    assert box.stopped() == [MARKS[1]]


@pytest.mark.parametrize("path", ["../x", "/etc", "\0", "\ud800"])
def test_place_that_is_refused_reaches_no_container(path: str) -> None:
    """R-44."""
    box = Box()
    for look in (lambda: box.container.walk(path, ScanOptions()), lambda: box.container.stat(path)):
        with pytest.raises(FileAccessDenied):
            look()
    assert box.docker.calls == []


def refuse(place: str) -> None:
    raise FileAccessDenied(f"no {place}")


def refuse_hooks(place: str) -> None:
    if place.startswith(".git/"):
        refuse(place)


@pytest.mark.parametrize(("guard", "calls"), [(refuse, 0), (refuse_hooks, 1)])
def test_write_that_the_guard_refuses_is_not_made(guard: Any, calls: int) -> None:
    """D-6."""
    box = Box()
    box.docker.on("exec", react=answer(scripts.ELSEWHERE, out=b".git/hooks/x"))
    with pytest.raises(FileAccessDenied, match="no "):
        box.container.write("x", b"x", replacing=None, guard=guard)
    assert len(box.docker.calls) == calls


def test_links_that_change_all_the_time_are_refused() -> None:
    """R-44."""
    box = Box()
    box.docker.on("exec", react=answer(scripts.ELSEWHERE, out=b"y"))
    with pytest.raises(FileAccessDenied, match="its links change all the time"):
        box.container.write("x", b"x", replacing=None, guard=lambda _: None)
    assert len(box.docker.calls) == 3
