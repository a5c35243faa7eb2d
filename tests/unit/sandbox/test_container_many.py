"""Several commands, many files and folders in a running container, played with a scripted Docker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from fakes.containers import FACTS, SECRET, SPEC, answer
from fakes.docker import FakeDocker, FakePending

from odek.errors import ExecutableMissing, FileAccessDenied, Interrupted
from odek.executor import CommandRequest, CommandResult, ScanOptions
from odek.sandbox.container import file_protocol, scripts
from odek.sandbox.container.container import Container
from odek.sandbox.container.scripts import pack_script, pack_text
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


def test_walk_is_one_call_without_the_names_in_its_arguments() -> None:
    """R-44, B15."""
    box = Box()
    box.docker.on("exec", react=answer(0, out=LISTED.encode()))
    listing = box.container.walk("/workspace/d", ScanOptions(depth=3, skip=frozenset(("node_modules",)), hidden=False))
    assert [entry.path for entry in (listing.top, *listing.entries)] == ["d", "d/f"]
    (call,) = box.docker.calls
    assert call.args[-4:] == (scripts.RUN, "sh", MARKS[1], "")
    assert call.stdin == pack_text(
        (
            f"set -- 'd' '{MARKS[0]}' '1' '8388608' '-mindepth' '1' '-maxdepth' '3' '-print0' '-type' 'd' "
            f"'(' '-name' 'node_modules' '-o' '-name' '.*' ')' '-prune'\n{scripts.LIST}"
        ).encode(),
        MARKS[1],
        end(MARKS[1]),
        umask=0o022,
        apart=True,
    )


def test_stat_asks_for_the_thing_itself() -> None:
    box = Box()
    box.docker.on("exec", react=answer(0, out=f"{MARKS[0]} a1ff 9 5 .\n{MARKS[0]} end\n".encode()))
    entry = box.container.stat("a/../it's")
    assert (entry.path, entry.kind, entry.mode, entry.size_bytes, entry.mtime_s) == ("it's", "link", 0o777, 9, 5)
    sent = file_protocol.list_command("it's", ScanOptions(depth=0), MARKS[0], follow=False)
    assert box.docker.calls[0].stdin == pack_text(sent, MARKS[1], end(MARKS[1]), umask=0o022, apart=True)


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


def test_read_many_is_one_call() -> None:
    """R-44: one refused path costs no other file."""
    box = Box()
    close = f"\n{MARKS[0]} 0\n".encode()
    box.docker.on("exec", react=answer(0, out=b"one" + close + b"\0\xff" + close))
    found = box.container.read_many(["a", "/etc/x", "we\udcff"], limit_bytes=10, total_bytes=100)
    assert [item if isinstance(item, bytes) else item.message for item in found] == [
        b"one",
        '"/etc/x" leaves the workspace',
        b"\0\xff",
    ]
    (call,) = box.docker.calls
    sent = file_protocol.read_command(["a", "we\udcff"], MARKS[0], limit_bytes=10, total_bytes=164)
    assert call.stdin == pack_text(sent, MARKS[1], end(MARKS[1]), umask=0o022, apart=True)


def test_write_without_links_asks_the_guard_once() -> None:
    """D-6."""
    box = Box()
    box.docker.on("exec", react=answer())
    asked: list[str] = []
    box.container.write("/workspace/a/b", b"x", replacing=None, guard=asked.append)
    words = ("a/b", f".odek-{MARKS[0]}.tmp", "1", "", "a/b")
    sent = pack_script(scripts.WRITE, words, MARKS[1], end(MARKS[1]), umask=0o022, data=b"x")
    assert (asked, box.docker.calls[0].stdin) == (["a/b"], sent)


def test_write_through_a_link_asks_about_where_it_leads() -> None:
    """D-6, B55: nothing is written before the guard has agreed to the place itself."""
    box = Box()
    box.docker.on("exec", react=answer(scripts.ELSEWHERE, out=b".git/hooks/pre-commit"), times=1)
    box.docker.on("exec", react=answer())
    asked: list[str] = []
    box.container.write("x", b"x", replacing=None, guard=asked.append)
    assert asked == ["x", ".git/hooks/pre-commit"]
    assert [(call.stdin or b"").partition(b"\n#")[0].rpartition(b" ")[2].decode() for call in box.docker.calls] == [
        f"'{place}'" for place in asked
    ]


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
