"""Execs that were started ahead: which text goes to one, and that none runs twice or not at all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain, count

import pytest
from fakes.containers import FACTS, SECRET, SPEC, answer, call_of
from fakes.docker import FakeDocker, FakePending

from odek.errors import ExecutableMissing, Interrupted
from odek.executor import CommandRequest, CommandResult
from odek.sandbox.container import scripts
from odek.sandbox.container.container import Container
from odek.sandbox.container.failure_reasons import COUNTERS, FORKED
from odek.sandbox.container.spares import MOST, USUAL, room_for_spares

RUNS = '[{"State": {"Running": true}}]'


def waits(client: FakePending) -> None:
    """Behave as a wrapper that waits: it answers, and runs the text that it is given, to the end."""
    client.err.append(f"\n{call_of(client)} ready\n".encode())
    client.on_send = lambda client, _data: client.err.append(f"\n{call_of(client)} here\n".encode())
    client.on_supply = answer(out=b"by a spare\n")


@dataclass
class Box:
    """A container with up to `most` spares; those started ahead behave as `spare` says, other execs answer."""

    spare: Callable[[FakePending], None] = waits
    most: int = MOST
    docker: FakeDocker = field(default_factory=FakeDocker)

    def __post_init__(self) -> None:
        nonces = chain((SECRET,), (f"{number:032}" for number in count(1)))
        self.docker.on("run", hold=True)
        self.lease = self.docker.start("run", hold_stdin=True)
        self.docker.calls.clear()
        self.container = Container(
            self.docker,
            SPEC,
            FACTS,
            lease=self.lease,
            new_nonce=lambda: next(nonces),
            clock=self.docker.now,
            spares=self.most,
        )
        self.docker.on("inspect", stdout=RUNS)
        self.docker.on("exec", has=COUNTERS, code=FORKED)
        self.docker.on("exec", has=scripts.STOP, react=self.docker.end_commands)
        self.docker.on("exec", has=scripts.RUN, hold=True, react=self._exec)

    def _exec(self, client: FakePending) -> None:
        ahead = client.stdin is None
        client.hold = ahead
        (self.spare if ahead else answer(out=b"by an exec of its own\n"))(client)

    def run(self, command: str = "true") -> CommandResult:
        return self.container.run(command, timeout_s=5)

    @property
    def waiting(self) -> list[FakePending]:
        return [c for c in self.docker.clients if c.hold and not c.released and not c.closed and c.args[0] == "exec"]


def test_command_goes_to_the_exec_that_waits_and_another_one_is_started() -> None:
    box = Box()
    box.container.expect(1)
    (spare,) = box.waiting
    result = box.run("echo secret")
    assert (result.output.data, result.code) == (b"by a spare\n", 0)
    assert spare.sent == b"?\n"
    assert spare.stdin == scripts.pack_text(
        b"echo secret", call_of(spare), scripts.end_nonce(SECRET, call_of(spare)), umask=0o022, apart=False
    )
    assert spare.closed
    assert len(box.waiting) == 1
    assert call_of(box.waiting[0]) != call_of(spare)


def test_without_spares_each_text_has_an_exec_of_its_own() -> None:
    box = Box(most=0)
    box.container.expect(1)
    assert box.run().output.data == b"by an exec of its own\n"
    assert (len(box.docker.called("exec")), box.waiting) == (1, [])


def test_file_goes_to_a_spare_as_well() -> None:
    box = Box()
    box.container.expect(1)
    assert box.container.read("f", limit_bytes=100) == b"by a spare\n"


def test_as_many_wait_as_there_were_texts_at_once_but_not_more_than_four() -> None:
    box = Box()
    box.container.expect(1)
    many = [CommandRequest(command="true", timeout_s=5)] * 3
    results = box.container.run_many(many)
    assert [result.output.data for result in results] == [b"by a spare\n", *[b"by an exec of its own\n"] * 2]
    assert len(box.waiting) == 3
    box.container.run_many(many * 3)
    assert len(box.waiting) == USUAL
    box.run()
    assert len(box.waiting) == USUAL


def test_each_text_that_is_on_its_way_finds_one_that_waits() -> None:
    """R-255: also where they run one after the other; a reply of fewer ends those that are too much."""
    box = Box()
    for texts in range(1, 7):
        box.container.expect(texts)
        assert len(box.waiting) == texts
    for left in range(5, 0, -1):
        assert box.run().output.data == b"by a spare\n"
        assert len(box.waiting) == left
    box.container.expect(3)
    box.container.expect(0)
    assert len(box.waiting) == 1
    box.container.close()
    box.docker.assert_no_client_left()


@pytest.mark.parametrize(
    ("pids", "most"), [(16, 0), (63, 0), (64, 4), (127, 4), (128, 8), (200, 12), (256, 16), (4096, 16)]
)
def test_how_many_may_wait_depends_on_the_process_limit(pids: int, most: int) -> None:
    """R-255."""
    box = Box(most=room_for_spares(pids))
    box.container.expect(100)
    assert len(box.waiting) == most


def test_no_more_are_expected_where_those_that_waited_were_ended() -> None:
    """R-255: they took room that a command had needed."""
    box = Box()
    box.container.expect(5)
    box.container._commands.drop_spares()
    box.run()
    assert len(box.waiting) == 1


def dead(client: FakePending) -> None:
    client.ended = True


def silent(client: FakePending) -> None:
    """As in a container that is paused."""
    client.hang = True


def dies_when_asked(client: FakePending) -> None:
    client.on_send = lambda client, _data: setattr(client, "ended", True)


@pytest.mark.parametrize("spare", [dead, silent, dies_when_asked])
def test_spare_that_does_not_answer_gets_no_text(spare: Callable[[FakePending], None]) -> None:
    """E9: the text goes to an exec of its own, and was given to nothing else before."""
    box = Box(spare)
    box.container.expect(1)
    (useless,) = [client for client in box.docker.clients if client.args[0] == "exec"]
    assert box.run().output.data == b"by an exec of its own\n"
    assert (useless.stdin, useless.closed) == (None, True)


def ends_with(code: int, out: bytes = b"", err: bytes = b"") -> Callable[[FakePending], None]:
    def spare(client: FakePending) -> None:
        waits(client)

        def supplied(client: FakePending) -> None:
            client.code = code
            end = scripts.end_nonce(SECRET, call_of(client))
            client.out = [out.replace(b"END", end.encode())] if out else []
            client.err = [err.replace(b"MARK", call_of(client).encode())] if err else []

        client.on_supply = supplied

    return spare


@pytest.mark.parametrize(
    "spare",
    [ends_with(125, err=b"\nMARK cut\n"), ends_with(2, out=b"forged\n\nEND unrun\n"), ends_with(254, b"\nEND 254\n")],
    ids=["cut", "no process, another wrote to it", "no process, bash"],
)
def test_text_that_a_spare_has_not_begun_runs_once_in_an_exec_of_its_own(spare: Callable[[FakePending], None]) -> None:
    """E1: what it printed is nothing of the text's."""
    box = Box(spare)
    box.container.expect(1)
    result = box.run()
    assert (result.output.data, result.code, result.notes) == (b"by an exec of its own\n", 0, ())


@pytest.mark.parametrize(
    ("spare", "code"),
    [
        (ends_with(137, out=b"\nEND began 1\nhalf"), 137),
        (ends_with(-9, out=b"\nEND began 1\nhalf"), None),
        (ends_with(-9), None),
        (ends_with(0), None),
        (ends_with(1), None),
        (ends_with(137), None),
        (ends_with(255, err=b"error during connect: EOF\n"), None),
    ],
    ids=[
        *("killed its wrapper", "client killed", "client killed at once"),
        *("cut while at work", "cut when it had failed", "killed inside, or cut", "engine silent"),
    ],
)
def test_text_that_a_spare_may_have_begun_is_not_run_again(
    spare: Callable[[FakePending], None], code: int | None
) -> None:
    """E1: exactly once, or not known and said so."""
    box = Box(spare)
    box.container.expect(1)
    result = box.run()
    assert (result.output.data in (b"half", b""), result.code) == (True, code)
    assert bool(result.notes) is (code is None)
    assert b"own" not in result.output.data


def test_stop_knows_the_mark_of_a_spare() -> None:
    """R-40: a spare is no stranger to it, and lives on when another command is stopped."""
    box = Box()
    box.container.run_many([CommandRequest(command="true", timeout_s=5)] * 2)
    used, other = box.waiting
    used.on_supply = lambda client: setattr(client, "hang", True)
    assert box.run("sleep 9").timed_out
    stop = next(call.args for call in box.docker.calls if scripts.STOP in call.args)
    assert (stop[-3], call_of(other) in stop[-2].split()) == (call_of(used), True)


def test_interrupt_while_a_spare_is_asked_leaves_none_behind() -> None:
    def interrupts(client: FakePending) -> None:
        client.on_send = lambda client, _data: setattr(client, "raises_in_pump", Interrupted(2))
        client.hang = True

    box = Box(interrupts)
    box.container.expect(1)
    with pytest.raises(Interrupted):
        box.run()
    box.docker.assert_no_client_left("run")


def test_engine_that_starts_no_spare_is_the_next_commands_matter() -> None:
    box = Box()
    box.docker._rules.clear()
    box.docker.on("exec", raises=ExecutableMissing("cannot run docker"))
    box.container.expect(1)
    with pytest.raises(ExecutableMissing):
        box.run()


def test_close_ends_those_that_wait_and_starts_no_more() -> None:
    """R-38."""
    box = Box()
    box.container.expect(1)
    box.container.close()
    box.container.expect(1)
    box.docker.assert_no_client_left()


def test_threads_share_the_spares_without_giving_one_away_twice() -> None:
    box = Box()
    box.container.run_many([CommandRequest(command="true", timeout_s=5)] * MOST)
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(box.run().output.data)) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 12
    given = [client.stdin for client in box.docker.clients if client.sent]
    assert len(given) == len(set(given))
