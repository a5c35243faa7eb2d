"""Commands and files in a running container, played with a scripted Docker."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from fakes.containers import CONTAINER_ID, FACTS, SECRET, SPEC, answer
from fakes.docker import FakeDocker, FakePending

from odek.errors import ExecutableMissing, FileAccessDenied, Interrupted
from odek.executor import CommandResult
from odek.process import Output
from odek.sandbox.container import scripts
from odek.sandbox.container.container import FILE_TIMEOUT_S, OUTPUT_LIMIT_BYTES, Container
from odek.sandbox.container.facts import ContainerFacts
from odek.sandbox.container.failure_reasons import COUNTERS, FORKED
from odek.sandbox.container.scripts import pack_text
from odek.sandbox.errors import SandboxLost
from odek.sandbox.spec import Limits, SandboxSpec

MARK, NEXT_MARK = "m" * 32, "n" * 32
END = scripts.end_nonce(SECRET, MARK)
INSPECT = ("inspect", "--type", "container", "--", CONTAINER_ID)
EXEC = ("exec", "--interactive", "--user", "1000:1000")
HELD = "the output was still held open after the command had ended"


def state(running: object) -> str:
    return json.dumps([{"State": {"Running": running}}])


@dataclass
class Box:
    """A container with a lease, and the Docker behind it."""

    spec: SandboxSpec = SPEC
    facts: ContainerFacts = FACTS
    docker: FakeDocker = field(default_factory=FakeDocker)
    nonces: list[str] = field(default_factory=lambda: [SECRET, MARK, NEXT_MARK, "o" * 32])

    def __post_init__(self) -> None:
        self.docker.on("run", hold=True)
        self.lease = self.docker.start("run", hold_stdin=True)
        self.docker.calls.clear()
        self.container = Container(
            self.docker,
            self.spec,
            self.facts,
            lease=self.lease,
            new_nonce=lambda: self.nonces.pop(0),
            clock=self.docker.now,
        )

    def run(self, command: str = "true", timeout_s: float = 60) -> CommandResult:
        result = self.container.run(command, timeout_s=timeout_s)
        self.docker.assert_no_client_left("run")
        return result


def result(out: bytes, code: int | None = 0, *, timed_out: bool = False, notes: tuple[str, ...] = ()) -> CommandResult:
    output = Output(head=out, tail=b"", size_bytes=len(out))
    return CommandResult(output=output, code=code, timed_out=timed_out, duration_s=0, notes=notes)


@pytest.mark.parametrize("code", [0, 1, 3, 125, 126, 127, 255])
def test_command_gives_its_output_and_the_status_of_the_wrapper(code: int) -> None:
    """R-41, D-10: as the user of the commands, by the full ID, the command on stdin and in no argument."""
    box = Box()
    box.docker.on("exec", code=99, react=answer(status=code, out=b"a\xff\x00b\n"))
    assert box.run("echo secret") == result(b"a\xff\x00b\n", code)
    (call,) = box.docker.calls
    assert call.args == (
        *EXEC, "--env", f"ODEK_CALL={MARK}", CONTAINER_ID, "sh", "-c", scripts.RUN, "sh", MARK, "",
    )  # fmt: skip
    assert call.stdin == pack_text(b"echo secret", MARK, END, umask=0o022, apart=False)


def test_a_killed_command_is_explained_by_what_the_kernel_counted() -> None:
    """R-42: the model reads the cause; what was counted before does not explain the next command."""
    box = Box(replace(SPEC, limits=Limits(pids=64, memory_bytes=8 << 20)))
    box.docker.on("exec", has=COUNTERS, stdout="memory=1\nprocesses=0\n", code=FORKED)
    box.docker.on("exec", react=answer(status=137, out=b"Killed\n"), times=1)
    killed = box.run("make")
    assert killed.code == 137
    assert killed.notes == (
        "the kernel killed a process because the memory limit of 8388608 bytes was reached; use less, or ask the user "
        "to raise sandbox_memory",
    )
    box.docker.on("exec", react=answer(137))
    assert box.run("kill -9 $$").notes == ()


def test_umask_of_the_invoking_process_reaches_the_wrapper() -> None:
    """B10."""
    box = Box(replace(SPEC, umask=0o077))
    box.docker.on("exec", react=answer())
    box.run()
    assert (box.docker.calls[0].stdin or b"").startswith(f"end={END}\nset -- 'joint' '0077' ".encode())


def test_end_of_the_command_is_known_from_pieces_of_the_line() -> None:
    """R-40: the engine may cut the stream anywhere."""
    box = Box()
    whole = f"\n{END} began 4711\nhalf a line\n{END} 17\n".encode()
    pieces = [whole[place : place + 5] for place in range(0, len(whole), 5)]
    box.docker.on("exec", hang=True, react=lambda client: client.out.extend(pieces))
    assert box.run() == result(b"half a line", 17)


@pytest.mark.parametrize(
    "line",
    [f"\nx{END} 0\n", f"\n{END} 0", f"\n{END} -1\n", f"\n{END}0\n", f"\n{MARK} 0\n", f"{END} 0\n", f"\n{END} x\n"],
)
def test_line_that_is_not_exactly_the_end_marker_ends_nothing(line: str) -> None:
    """R-40."""
    box = Box()
    box.docker.on("exec", has=scripts.STOP, react=box.docker.end_commands)
    box.docker.on("exec", hang=True, stdout=line)
    assert box.run(timeout_s=1).timed_out


@pytest.mark.parametrize(("command", "notes"), [("server & echo up", (HELD,)), ("echo up", ())])
def test_command_ends_while_a_child_holds_its_output(command: str, notes: tuple[str, ...]) -> None:
    """R-40, B02: the call ends soon after the shell, with its status and what it printed."""
    box = Box()
    box.docker.on("exec", hang=True, react=answer(status=5, out=b"up\n"))
    before = box.docker.now()
    ended = box.run(command)
    assert (ended.output.data, ended.code, ended.timed_out) == (b"up\n", 5, False)
    assert [note.startswith(start) for note, start in zip(ended.notes, notes, strict=True)] == [True] * len(notes)
    assert box.docker.now() - before < 3
    assert box.docker.called("exec") == box.docker.called(*EXEC)


def test_child_that_goes_on_printing_does_not_hold_the_call() -> None:
    """R-40, B02."""
    box = Box()

    def react(client: FakePending) -> None:
        answer()(client)
        client.out += [b"tick\n"] * 1000

    box.docker.on("exec", hang=True, react=react)
    clients = box.docker.clients
    pump, docker = FakePending.pump, box.docker

    class Ticking(FakePending):
        def pump(self, timeout_s: float) -> None:
            docker.pass_time(0.05)
            pump(self, timeout_s)

    box.docker.make = Ticking
    before = docker.now()
    assert box.run("yes &").code == 0
    assert docker.now() - before < 60
    assert clients[-1].closed


def test_much_output_is_kept_at_both_ends_and_counted() -> None:
    """R-41."""
    box = Box()
    data = bytes(range(256)) * 4096
    box.docker.on("exec", react=answer(out=data))
    output = box.run().output
    side = OUTPUT_LIMIT_BYTES // 2
    assert (output.head, output.tail, output.size_bytes) == (data[:side], data[-side:], len(data))


def test_command_that_takes_too_long_is_stopped() -> None:
    """R-40, B01: by its mark, told from other calls, with what it had printed."""
    box = Box()
    box.docker.on("exec", has=scripts.STOP, react=box.docker.end_commands)
    box.docker.on("exec", hang=True, react=answer(status=None, out=b"start\n"))
    ended = box.run("sleep 100", timeout_s=3)
    assert (ended.output.data, ended.code, ended.timed_out) == (b"start\n", None, True)
    assert ended.notes == ("the command and everything it had started was stopped",)
    assert box.docker.calls[1].args == (*EXEC, CONTAINER_ID, "sh", "-c", scripts.STOP, "sh", MARK, "", "4711")


def test_stop_knows_the_marks_of_other_calls() -> None:
    """R-40: servers of earlier commands carry one, forged marks are none."""
    box = Box()
    box.docker.on("exec", has=scripts.STOP, react=box.docker.end_commands)
    box.docker.on("exec", react=answer(), times=1)
    box.docker.on("exec", hang=True)
    box.run("server &")
    box.run("sleep 100", timeout_s=1)
    assert box.docker.calls[-1].args[-3:] == (NEXT_MARK, MARK, "")


@pytest.mark.parametrize(
    ("codes", "note"),
    [
        ((3,), "the command was stopped, and with it everything else that was running in the sandbox"),
        ((1, 3), "the command was stopped, and with it everything else that was running in the sandbox"),
        ((137, 0), "the command and everything it had started was stopped"),
    ],
)
def test_stop_says_what_it_came_to(codes: tuple[int, ...], note: str) -> None:
    """R-40: the result never claims less than what happened."""
    box = Box()
    box.docker.on("exec", has=scripts.STOP, code=codes[0], times=1, react=box.docker.end_commands)
    box.docker.on("exec", has=scripts.STOP_ALL, code=codes[-1], react=box.docker.end_commands)
    box.docker.on("exec", hang=True)
    assert box.run("b(){ b|b& };b", timeout_s=1).notes == (note,)


def test_a_stop_that_finds_no_room_itself_is_tried_again() -> None:
    """R-42, R-386: where the process table is full, one more exec may not start."""
    box = Box()
    full, refused = "memory=0\nprocesses=9\n", "OCI runtime exec failed: resource temporarily unavailable\n"
    box.docker.on(*INSPECT, stdout=state(True))
    box.docker.on("exec", has=COUNTERS, stdout=full, code=1, times=2)
    box.docker.on("exec", has=COUNTERS, stdout=full, code=FORKED)
    box.docker.on("exec", has=scripts.STOP_ALL, code=255, stderr=refused, times=1)
    box.docker.on("exec", has=scripts.STOP_ALL, code=3)
    box.docker.on("exec", code=255, stderr=refused)
    ended = box.run()
    assert (ended.code, [note[-41:] for note in ended.notes]) == (None, ["was stopped to make room for new commands"])
    assert sum(scripts.STOP_ALL in call.args for call in box.docker.calls) == 2


@pytest.mark.parametrize("code", [0, 3])
def test_a_command_that_the_stop_of_another_has_killed_is_told(code: int) -> None:
    """R-40, R-178: calls run side by side, and a status of 137 alone would look like one of its own."""
    box = Box()
    box.docker.on("exec", has=COUNTERS, stdout="memory=0\nprocesses=0\n", code=FORKED)
    box.docker.on("exec", has=scripts.STOP, code=code, react=box.docker.end_commands)

    def killed_meanwhile(client: FakePending) -> None:
        box.docker.on("exec", hang=True)
        box.container.run("b(){ b|b& };b", timeout_s=1)
        answer(status=137)(client)

    box.docker.on("exec", react=killed_meanwhile, times=1)
    told = box.container.run("make", timeout_s=60).notes
    assert [note[:71] for note in told] == (
        ["it was probably killed when another command had to be stopped, and ever"] if code else []
    )


@pytest.mark.parametrize("answers", [{"code": 1, "stdout": "OCI runtime exec failed: \x1b[2J\r\n"}, {"hang": True}])
def test_command_that_cannot_be_stopped_costs_the_sandbox(answers: dict[str, Any]) -> None:
    """R-40, R-42, B01: it never claims a kill that did not happen."""
    box = Box()
    box.docker.on("exec", has=scripts.STOP, **answers)
    box.docker.on("exec", has=scripts.STOP_ALL, **answers)
    box.docker.on("exec", hang=True)
    with pytest.raises(SandboxLost, match="could not be stopped, so the whole sandbox was taken down"):
        box.run("x", timeout_s=1)
    assert box.lease.released
    assert box.lease.closed
    box.docker.assert_no_client_left()
    with pytest.raises(SandboxLost, match="its container is gone"):
        box.container.run("true", timeout_s=1)


@pytest.mark.parametrize("code", [0, 3])
def test_stop_that_is_only_claimed_costs_the_sandbox(code: int) -> None:
    """R-40, S-17: a command that is root in there has put a program of its own in the place of `sh`."""
    box = Box()
    box.docker.on("exec", has=scripts.STOP, code=code)
    box.docker.on("exec", has=scripts.STOP_ALL, code=code)
    box.docker.on("exec", hang=True)
    with pytest.raises(SandboxLost, match="could not be stopped, so the whole sandbox was taken down"):
        box.run("x", timeout_s=1)
    assert (box.lease.released, len(box.docker.called("exec"))) == (True, 3)


def test_command_that_outlives_its_own_stop_ends_with_everything() -> None:
    """R-40, S-17: such as one that carries the mark of an earlier call."""
    box = Box()
    box.docker.on("exec", has=scripts.STOP)
    box.docker.on("exec", has=scripts.STOP_ALL, code=3, react=box.docker.end_commands)
    box.docker.on("exec", hang=True)
    assert box.run("x", timeout_s=1).notes == (
        "the command was stopped, and with it everything else that was running in the sandbox",
    )


@pytest.mark.parametrize("stop", [{}, {"code": 1}])
def test_interrupted_command_is_stopped_and_the_interrupt_goes_on(stop: dict[str, Any]) -> None:
    """R-40, R-38: whatever came of the stop."""
    box = Box()
    box.docker.on("exec", has=scripts.STOP, react=box.docker.end_commands, **stop)
    box.docker.on("exec", has=scripts.STOP_ALL, react=box.docker.end_commands, **stop)
    box.docker.on("exec", hang=True, raises_in_pump=Interrupted(2))
    with pytest.raises(Interrupted):
        box.run("sleep 100")
    assert box.docker.called(*EXEC, CONTAINER_ID, "sh", "-c", scripts.STOP)
    box.docker.assert_no_client_left("run")
    assert box.lease.released is bool(stop)


def test_stop_waits_for_a_command_that_is_on_its_way() -> None:
    """R-40: cancelled in its first moments, it would begin behind a stop that found nothing."""
    box = Box()
    box.docker.on("exec", has=scripts.STOP, react=box.docker.end_commands)
    box.docker.on("exec", hang=True, raises_in_pump=Interrupted(2), react=answer(status=None))
    with pytest.raises(Interrupted):
        box.run("sleep 100")
    (stop,) = [call.args for call in box.docker.calls if scripts.STOP in call.args]
    assert stop[-3:] == (MARK, "", "4711")


@pytest.mark.parametrize("hangs", [True, False])
def test_cancelled_file_script_may_tidy_up_and_is_stopped_if_it_does_not_end(*, hangs: bool) -> None:
    """R-40: killed at once, it would leave its temporary file in the user's folder."""
    box = Box()
    box.docker.on("exec", has=scripts.STOP, react=box.docker.end_commands)
    box.docker.on("exec", hang=hangs, raises_in_pump=Interrupted(2), react=answer(73))
    with pytest.raises(Interrupted):
        box.container.write("f", b"x", replacing=None)
    assert sum(scripts.STOP in call.args for call in box.docker.calls) == hangs
    box.docker.assert_no_client_left("run")


@pytest.mark.parametrize(("command", "notes"), [("true", 0), ("server &", 1)])
def test_value_of_the_environment_puts_nothing_into_the_background(command: str, notes: int) -> None:
    """B02: only a command that may do so is waited for behind its end."""
    box = Box(replace(SPEC, env=(("URL", "http://x/?a=1&b=2"),)))
    box.docker.on("exec", hang=True, react=answer())
    assert len(box.run(command).notes) == notes


@pytest.mark.parametrize(
    ("code", "out"), [(1, b"No such container"), (137, b""), (255, b""), (126, b"OCI runtime exec failed")]
)
@pytest.mark.parametrize(
    "inspected",
    [{"code": 1, "stdout": "[]"}, {"stdout": state(False)}, {"stdout": "x"}, {"stdout": "{}"}, {"hang": True}],
)
def test_client_that_ends_without_the_wrappers_word_means_loss_when_the_container_is_gone(
    code: int, out: bytes, inspected: dict[str, Any]
) -> None:
    """R-42: the cause in Docker's words, never the host."""
    box = Box()
    box.docker.on("exec", code=code, stderr=out)
    box.docker.on(*INSPECT, **inspected)
    with pytest.raises(SandboxLost, match="the sandbox was lost") as refused:
        box.run()
    assert refused.value.hint == "nothing was moved to the host; start odek again"


def test_client_that_ends_without_the_wrappers_word_is_the_commands_doing_when_the_container_runs() -> None:
    """R-42: `kill -9 $PPID`, out of memory."""
    box = Box()
    box.docker.on("exec", code=137, react=answer(status=None, out=b"half"), times=1)
    box.docker.on(*INSPECT, stdout=state(True))
    box.docker.on("exec", has=COUNTERS, code=FORKED)
    assert box.run() == result(b"half", 137)


BEFORE, AFTER, DOWN = "2026-01-01T00:00:00Z", "2026-01-01T00:00:09Z", ""


@pytest.mark.parametrize("run", ["command", "script", "look"])
@pytest.mark.parametrize(
    ("states", "counted"),
    [
        ((AFTER,), None),
        ((DOWN, DOWN, AFTER), None),
        ((BEFORE,), {"stdout": "processes=0\ninit=777\n", "code": FORKED}),
        ((BEFORE, DOWN, AFTER), {"stderr": "Error response from daemon: container is not running\n", "code": 1}),
        ((BEFORE, AFTER), {"code": 137}),
    ],
)
def test_command_during_which_the_container_was_restarted_says_so_itself(
    states: tuple[str, ...], counted: dict[str, Any] | None, run: str
) -> None:
    """E9: whatever is seen first, and not one command later; the status 137 is not the command's."""
    box = Box(facts=replace(FACTS, started_at=BEFORE, init_start="42"))
    box.docker.on("exec", code=137, react=answer(status=None, out=b"its own output"), times=1)
    for started in states:
        shown = [{"State": {"Running": started != DOWN, "StartedAt": started}}]
        box.docker.on(*INSPECT, stdout=json.dumps(shown), times=1)
    if counted:
        box.docker.on("exec", has=COUNTERS, **counted)
    act = {
        "command": box.run,
        "script": lambda: box.container.read("f", limit_bytes=9),
        "look": lambda: box.container.stat("f"),
    }[run]
    with pytest.raises(SandboxLost, match=r"^the sandbox was lost: its container was restarted from outside$"):
        act()
    assert box.lease.released
    box.docker.assert_all_used()


def test_loss_is_not_explained_by_what_the_command_has_printed() -> None:
    """E9, R-42: only what Docker's client says before a command begins is a reason."""
    box = Box()
    box.docker.on("exec", code=137, react=answer(status=None, out=b"its own output"))
    box.docker.on(*INSPECT, stdout="[]", code=1)
    with pytest.raises(SandboxLost, match=r"^the sandbox was lost: its container is gone$"):
        box.run()


def test_command_in_a_container_that_is_gone_is_not_tried() -> None:
    """R-42: the lease's client ends with the container."""
    box = Box()
    box.lease.ended = True
    box.docker.on(*INSPECT, stdout="[]", code=1)
    with pytest.raises(SandboxLost, match=r"^the sandbox was lost: its container is gone$"):
        box.run()
    assert box.docker.called("exec") == []


@pytest.mark.parametrize("closed_at_once", [True, False])
@pytest.mark.parametrize(("shown", "removed"), [(AFTER, True), (BEFORE, True), (DOWN, True), (None, False)])
def test_container_that_has_lost_its_lease_is_removed(shown: str | None, removed: bool, closed_at_once: bool) -> None:
    """R-400: podman's client ends with a restart, and the container runs on, held by nothing."""
    box = Box(facts=replace(FACTS, started_at=BEFORE))
    box.lease.ended = True
    state = [{"State": {"Running": shown != DOWN, "StartedAt": shown}}]
    box.docker.on(*INSPECT, stdout=json.dumps(state if shown is not None else []), code=int(shown is None))
    box.docker.on("rm", "--force", "--volumes", "--", CONTAINER_ID)
    if not closed_at_once:
        why = "its container was restarted from outside" if shown == AFTER else "its container is gone"
        with pytest.raises(SandboxLost, match=f"^the sandbox was lost: {why}$"):
            box.run()
    assert box.container.close() == ""
    assert bool(box.docker.called("rm")) is removed


def test_paused_container_of_podman_is_told_as_paused() -> None:
    """R-401: podman says that it is paused and that it does not run."""
    box = Box(facts=replace(FACTS, started_at=BEFORE))
    box.docker.on("exec", code=255, stderr="Error: can only create exec sessions on running containers\n")
    shown = {"Status": "paused", "Running": False, "Paused": True, "StartedAt": BEFORE}
    box.docker.on(*INSPECT, stdout=json.dumps([{"State": shown}]))
    ended = box.run()
    note = "the command did not run: the container is paused; `docker unpause odek-7-1` lets it go on"
    assert (ended.code, ended.notes) == (None, (note,))


def test_process_limit_is_named_where_it_can_be_counted_only_after_making_room() -> None:
    """R-402: where the table is full podman starts no exec at all, so nothing is counted before."""
    box = Box()
    box.docker.on("exec", has=COUNTERS, code=255, stderr="Error: procReady not received\n", times=1)
    box.docker.on("exec", has=COUNTERS, code=FORKED, stdout="processes=3\n")
    box.docker.on("exec", has=scripts.STOP_ALL)
    box.docker.on("exec", code=255, stderr="Error: OCI runtime error: runc: exec failed: procReady not received\n")
    box.docker.on(*INSPECT, stdout=state(True))
    ended = box.run()
    note = (
        "the command did not run: the process limit of 4096 was reached; everything that was running in the sandbox "
        "was stopped to make room for new commands"
    )
    assert (ended.code, ended.notes) == (None, (note,))


def test_close_ends_the_container_by_its_lease() -> None:
    """R-38: without another call to Docker; closing again does nothing."""
    box = Box()
    assert (box.container.close(), box.container.close()) == ("", "")
    assert (box.lease.released, box.lease.closed, box.docker.calls) == (True, True, [])


@pytest.mark.parametrize(
    ("removal", "left"),
    [
        ({}, ""),
        ({"code": 1}, "container odek-7-1 may still exist; remove it with `docker rm -f odek-7-1`"),
        ({"hang": True}, "container odek-7-1 may still exist; remove it with `docker rm -f odek-7-1`"),
        (
            {"raises": ExecutableMissing("cannot run docker")},
            "container odek-7-1 may still exist; remove it with `docker rm -f odek-7-1`",
        ),
    ],
)
def test_close_removes_the_container_when_the_lease_does_not_end_it(removal: dict[str, Any], left: str) -> None:
    """R-38, B23: a stuck engine does not block the exit, and the leftover is named."""
    box = Box()
    box.lease.hang = True
    box.docker.on("rm", "--force", "--volumes", "--", CONTAINER_ID, **removal)
    before = box.docker.now()
    assert box.container.close() == left
    assert box.docker.now() - before < 15
    box.docker.assert_no_client_left()


REASONS = [
    (scripts.LEFT_WORKSPACE, "it leaves the workspace"),
    (scripts.MISSING, "there is no such file"),
    (scripts.LOOP, "its links go round in circles"),
    (scripts.NO_FOLDER, "a folder on the way cannot be made"),
    (scripts.NOT_A_FILE, "it is not a regular file"),
    (scripts.NOT_WRITABLE, "it cannot be written"),
    (scripts.CHANGED, "it has changed since it was read"),
]


@pytest.mark.parametrize(("code", "reason"), REASONS)
@pytest.mark.parametrize("doing", ["read", "write"])
def test_refusal_of_a_script_is_put_into_words(doing: str, code: int, reason: str) -> None:
    """R-44, B13: all tools decide alike."""
    box = Box()
    box.docker.on("exec", react=answer(status=code))
    with pytest.raises(FileAccessDenied) as refused:
        access(box, doing, "a\x1b")
    assert refused.value.message == f'cannot {doing} "a\\x1b": {reason}'


@pytest.mark.parametrize("code", [scripts.NOT_WRITABLE, scripts.NO_FOLDER])
def test_refusal_repeats_what_the_programs_say(code: int) -> None:
    """B21 (5): a full disk, a program that the image lacks."""
    box = Box()
    words = b"cat: write error: No space left on device\n\x1b[2J" + b"x" * 500
    box.docker.on("exec", react=answer(code, err=words + b"\n"))
    with pytest.raises(FileAccessDenied, match=r"\(cat: write error: No space left on device; \\x1b\[2Jx+…\)$"):
        access(box, "write")


def access(box: Box, doing: str, path: str = "a") -> None:
    if doing == "read":
        box.container.read(path, limit_bytes=10)
    else:
        box.container.write(path, b"data", replacing=None)


def test_refused_write_names_the_read_only_workspace() -> None:
    """R-43, R-44."""
    box = Box(replace(SPEC, readonly=True))
    box.docker.on("exec", react=answer(status=scripts.NOT_WRITABLE))
    with pytest.raises(FileAccessDenied, match="the workspace is mounted read-only"):
        access(box, "write")


@pytest.mark.parametrize("doing", ["read", "write"])
@pytest.mark.parametrize(
    ("script", "words"),
    [
        ({"react": answer(1, err=b"sh: head: not found\nmore\n")}, "sh: head: not found; more"),
        ({"react": answer(status=127)}, "status 127"),
        ({"hang": True}, "the container took too long"),
    ],
)
def test_access_that_fails_otherwise_says_how(doing: str, script: dict[str, Any], words: str) -> None:
    """B21 (5), R-41."""
    box = Box()
    box.docker.on("exec", **script)
    box.docker.on(*INSPECT, stdout=state(True))
    before = box.docker.now()
    with pytest.raises(FileAccessDenied) as refused:
        access(box, doing)
    assert refused.value.message == f'cannot {doing} "a": {words}'
    assert box.docker.now() - before < FILE_TIMEOUT_S + 1
    box.docker.assert_no_client_left("run")


@pytest.mark.parametrize("doing", ["read", "write"])
def test_access_to_a_container_that_is_gone_is_its_loss(doing: str) -> None:
    """R-42."""
    box = Box()
    box.docker.on("exec", code=1, stderr="Error response from daemon: No such container: x\n")
    box.docker.on(*INSPECT, code=1, stdout="[]")
    with pytest.raises(SandboxLost, match="No such container"):
        access(box, doing)
    box.lease.ended = True
    with pytest.raises(SandboxLost, match="its container is gone"):
        access(box, doing)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "", "d/", "\ud800"])
@pytest.mark.parametrize("doing", ["read", "write"])
def test_path_that_is_refused_reaches_no_container(doing: str, path: str) -> None:
    """R-44."""
    box = Box()
    with pytest.raises(FileAccessDenied):
        access(box, doing, path)
    assert box.docker.calls == []


def test_no_key_of_a_person_detaches_the_terminal() -> None:
    """A28: Ctrl-P belongs to the shell inside, whatever Docker or the user's configuration says."""
    box = Box()
    box.docker.on("exec", react=answer())
    argv = box.container.shell_argv((), terminal=True)
    assert argv[:3] == ("exec", "--tty", "--detach-keys")
    assert len(argv[3].split(",")) == 8
    assert "--detach-keys" not in box.container.shell_argv((), terminal=False)
