"""Stopping commands, output without end, and the end of the container under way."""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from threading import Timer
from typing import Any

import pytest
from support.docker_engine import Engine
from support.sandboxes import Boxes, output

from odek.cancel import CancelToken, use_token
from odek.errors import Interrupted, TimeLimitReached
from odek.executor import CommandRequest
from odek.sandbox.container import scripts
from odek.sandbox.container.container import Container
from odek.sandbox.docker import Docker, DockerProcess
from odek.sandbox.errors import SandboxLost
from odek.sandbox.spec import Limits

STOPPED = "the command and everything it had started was stopped"
ALL_STOPPED = "the command was stopped, and with it everything else that was running in the sandbox"
QUIET = ">/dev/null 2>&1"

# Every one of them is stopped with all that it has started. NNNN is made unique for each.
HOSTILE = {
    "plain": "sleep NNNN",
    "background": f"sleep NNNN {QUIET} & sleep NNNN",
    "setsid": f"setsid sleep NNNN {QUIET} & setsid sh -c 'setsid sleep NNNN' {QUIET} & sleep NNNN",
    "double fork": f"(setsid sh -c '(sleep NNNN {QUIET} &)' &); sleep NNNN",
    "ignores signals": f"trap '' TERM INT HUP QUIT; nohup sleep NNNN {QUIET} & sleep NNNN",
    "stopped": f"sleep NNNN {QUIET} & kill -STOP $!; kill -STOP $$; sleep NNNN",
    "no environment": f"env -i setsid sleep NNNN {QUIET} & env -i sleep NNNN {QUIET} & sleep NNNN",
    "no environment, chained": f"env -i setsid sh -c 'env -i setsid sleep NNNN & wait' {QUIET} & sleep NNNN",
    "forged mark": f"ODEK_CALL=0123456789abcdef0123456789abcdef setsid sleep NNNN {QUIET} & sleep NNNN",
    "forged mark in a value": f"env -i X=ODEK_CALL= setsid sleep NNNN {QUIET} & sleep NNNN",
    "odd name": f"env -i setsid sh -c 'printf \"a\\nb) S 7 7\" >/proc/$$/comm; sleep NNNN; :' {QUIET} & sleep NNNN",
    "holds its output": "sleep NNNN & sleep NNNN",
    "closed streams": "exec 0<&- 1>&- 2>&-; sleep NNNN",
    "replaced": "exec sleep NNNN",
    "full process limit": f"(while :; do sleep NNNN {QUIET} & done) {QUIET}; while :; do :; done",
    "prints for ever": "yes NNNN",
}  # fmt: skip


def others(boxes: Boxes, box: Container) -> list[str]:
    """Return the command lines in the container that are not the sandbox's own, nor those of an exec that waits."""
    waits = ("runc init", "/usr/bin/runc init", "sh -c mark=$1 ")
    return [line for line in boxes.processes(box) if "odek-ready" not in line and not line.startswith(waits)]


def test_hostile_commands_are_stopped_and_earlier_servers_live_on(boxes: Boxes) -> None:
    """R-40, B01: one after the other in one sandbox, which stays usable."""
    box = boxes.start(limits=Limits(pids=64))
    output(box, f"setsid sleep 777701 {QUIET} & env -i setsid sleep 777702 {QUIET} &")
    servers = ["sleep 777701", "sleep 777702"]
    while sorted(others(boxes, box)) != servers:  # what has no environment is known by its age alone
        time.sleep(0.05)
    for number, (name, command) in enumerate(HOSTILE.items(), start=1000):
        if boxes.kind.podman and name == "full process table":
            continue  # podman starts nothing there, a stop neither: everything ends (M-26)
        done = box.run(command.replace("NNNN", f"8{number}"), timeout_s=0.5)
        assert (name, done.timed_out, done.code, done.notes) == (name, True, None, (STOPPED,))
        assert (name, sorted(others(boxes, box))) == (name, servers)
    assert output(box, "echo usable") == "usable\n"


def test_a_stop_among_hundreds_of_servers_harms_none(boxes: Boxes) -> None:
    """R-40: however long it would take to look at all of their environments."""
    box = boxes.start(limits=Limits(pids=1000))
    count = "ps -o args | grep -c '^sleep 7777' || :"
    filler = "X=" + "x" * 4000
    output(box, f"n=300; while [ $n -gt 0 ]; do {filler} setsid sleep 7777 {QUIET} & n=$((n - 1)); done")
    while output(box, count) != "300\n":
        time.sleep(0.05)
    done = box.run("env -i setsid sleep 8888 & sleep 8888", timeout_s=0.5)
    assert (done.timed_out, done.notes) == (True, (STOPPED,))
    assert output(box, count) == "300\n"
    assert output(box, "ps -o args | grep -c '^sleep 8888' || :") == "0\n"


# each process lives for a moment, has no environment and a session of its own, and starts the next one
RUNNER = "sleep 0.01\nenv -i /bin/setsid /bin/sh /workspace/runner >/dev/null 2>&1 &\n"


@pytest.mark.parametrize(
    "command",
    ["b() { b | b & }; b; while :; do :; done", "for i in 1 2 3 4 5; do sh runner; done; while :; do :; done"],
    ids=["bomb", "runner"],
)
def test_what_breeds_is_stopped_if_need_be_with_everything_else(command: str, boxes: Boxes) -> None:
    """R-40: and the result says which of the two it was."""
    (boxes.workdir / "runner").write_text(RUNNER)
    box = boxes.start(limits=Limits(pids=64))
    done = box.run(command, timeout_s=0.7)
    assert (done.timed_out, done.code) == (True, None)
    assert done.notes in ((STOPPED,), (ALL_STOPPED,))
    assert others(boxes, box) == []
    assert output(box, "echo usable") == "usable\n"


def test_stopped_command_leaves_what_it_had_printed(box: Container) -> None:
    """R-40, B01."""
    done = box.run("echo start; sleep 4321; echo end", timeout_s=0.5)
    assert (done.output.data, done.timed_out) == (b"start\n", True)
    assert output(box, "ps -o args | grep -c '[s]leep 4321' || :") == "0\n"


def test_child_that_holds_the_output_does_not_hold_the_call(boxes: Boxes, box: Container) -> None:
    """R-40, B02: its later words land in no other command's output."""
    done = box.run("(while :; do echo tick; sleep 1; done) & echo up; exit 4", timeout_s=30)
    assert (done.code, done.timed_out, len(done.notes)) == (4, False, 0 if boxes.kind.podman else 1)
    assert set(done.output.data.split()) <= {b"up", b"tick"}
    assert output(box, "sleep 1.2; echo second") == "second\n"


def test_interrupted_command_is_stopped(boxes: Boxes) -> None:
    """R-40, R-100: as by Ctrl-C, in a thread that no signal reaches; the sandbox stays."""
    box = boxes.start()
    token, raised = CancelToken(), list[BaseException]()

    def run() -> None:
        with use_token(token):
            try:
                box.run("sleep 4322", timeout_s=300)
            except BaseException as error:
                raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while not others(boxes, box):
        assert thread.is_alive()
    token.cancel(partial(Interrupted, 2))
    thread.join(60)
    assert [type(error) for error in raised] == [Interrupted]
    assert others(boxes, box) == []
    assert output(box, "echo usable") == "usable\n"


class WatchedDocker:
    """A client that calls `on_start` before each command; everything else is the real one's."""

    def __init__(self, docker: Docker, on_start: Callable[[tuple[str, ...]], None]) -> None:
        self._docker = docker
        self._on_start = on_start
        self.open_pipe, self.when_gone, self.kill_when_gone = (
            docker.open_pipe, docker.when_gone, docker.kill_when_gone
        )  # fmt: skip

    def ahead(self, *_calls: tuple[str, ...]) -> AbstractContextManager[None]:
        return nullcontext()  # each call passes `start` when it is asked for

    def start(self, *args: str, **options: Any) -> DockerProcess:
        self._on_start(args)
        return self._docker.start(*args, **options)


@pytest.mark.parametrize("size", [1, 1 << 20])
def test_command_that_was_not_sent_when_it_is_cancelled_does_not_begin(size: int, boxes: Boxes) -> None:
    """E1, R-100: of commands that are to run at the same time, the cancel comes before the last one is started."""
    starts = 0

    def cancel_at_the_second(args: tuple[str, ...]) -> None:
        nonlocal starts
        starts += scripts.RUN in args
        if starts == 2:
            starts += 1
            raise Interrupted(2)

    box = boxes.start(docker=WatchedDocker(boxes.docker, cancel_at_the_second))
    first = CommandRequest(command="touch began #" + "x" * size, timeout_s=30)
    with pytest.raises(Interrupted):
        box.run_many((first, CommandRequest(command="touch began", timeout_s=30)))
    assert others(boxes, box) == []
    assert output(box, "ls") == ""


def test_another_cancel_while_a_command_is_stopped_leaves_nothing_at_work(boxes: Boxes) -> None:
    """R-40, R-100: a time limit, and Ctrl-C a moment later; the sandbox lives on."""
    token = CancelToken()
    causes = [partial(Interrupted, 2)]

    def cancel_again(args: tuple[str, ...]) -> None:
        if scripts.RUN in args:
            Timer(0.5, token.cancel, (TimeLimitReached,)).start()
        if scripts.STOP in args and causes:
            token.cancel(causes.pop())

    box = boxes.start(docker=WatchedDocker(boxes.docker, cancel_again))
    with use_token(token), pytest.raises(Interrupted):
        box.run("sleep 4323 & sleep 4323", timeout_s=300)
    assert others(boxes, box) == []


def test_root_that_replaces_the_shell_cannot_fake_its_own_stop(boxes: Boxes) -> None:
    """R-40, S-17: the container goes; nothing of the command works on in the workspace."""
    box = boxes.start(user="0:0")
    replace = "cd /bin && printf '#!/bin/busybox true\\n' >x && chmod +x x && mv x sh"
    with pytest.raises(SandboxLost, match="could not be stopped, so the whole sandbox was taken down"):
        box.run(f"{replace} && while :; do echo x >>/workspace/alive; sleep 0.1; done", timeout_s=1)
    boxes.await_gone(os.getpid())
    size = (boxes.workdir / "alive").stat().st_size
    time.sleep(0.3)
    assert (boxes.workdir / "alive").stat().st_size == size


def test_command_that_kills_its_own_wrapper_harms_nobody(box: Container) -> None:
    """R-42: that is the command's doing, not the loss of the sandbox."""
    assert box.run("kill -9 $PPID; sleep 0.1", timeout_s=10).code == 137
    assert box.run("kill -9 -1", timeout_s=10).code == 137
    assert output(box, "echo alive") == "alive\n"


def test_endless_output_is_counted_in_bounded_memory(box: Container) -> None:
    """R-41, B04: 300 MB through a client, both ends kept."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done = box.run("echo first; head -c 300000000 /dev/zero; echo; echo last; exit 3", timeout_s=60)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert (done.output.size_bytes, done.code) == (300_000_012, 3)
    assert (done.output.head[:7], done.output.tail[-7:]) == (b"first\n\0", b"\0\nlast\n")
    assert grown_kib < 32 << 10


def test_small_output_that_comes_late_is_whole(box: Container) -> None:
    """R-41: with the machine busy and the output in many pieces."""
    command = "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done"
    assert output(box, command) == "".join(f"line {number}\n" for number in range(2000))


@pytest.mark.parametrize("doing", ["run", "read", "write"])
def test_container_that_is_removed_under_way_is_lost(doing: str, boxes: Boxes, docker_engine: Engine) -> None:
    """R-42: the next access says so, too; nothing moves to the host."""
    box = boxes.start()
    if doing == "run":
        remover = threading.Thread(target=remove_soon, args=(docker_engine, boxes, box))
        remover.start()
        with pytest.raises(SandboxLost, match="the sandbox was lost"):
            box.run("sleep 4323", timeout_s=30)
        remover.join()
    else:
        docker_engine.run("rm", "--force", box.facts.id)
    with pytest.raises(SandboxLost, match="the sandbox was lost"):
        {
            "run": lambda: box.run("touch HOST", timeout_s=10),
            "read": lambda: box.read("f", limit_bytes=1),
            "write": lambda: box.write("HOST", b"", replacing=None),
        }[doing]()
    assert list(boxes.workdir.iterdir()) == []
    assert box.close() == ""


def remove_soon(engine: Engine, boxes: Boxes, box: Container) -> None:
    while not others(boxes, box):
        time.sleep(0.05)
    engine.run("rm", "--force", box.facts.id)


def test_command_that_runs_out_of_memory_ends_alone(boxes: Boxes) -> None:
    """R-42, R-32."""
    box = boxes.start(limits=Limits(pids=64, memory_bytes=16 << 20))
    assert box.run("x=$(head -c 40000000 /dev/zero | tr '\\0' x); echo ${#x}", timeout_s=30).code != 0
    assert output(box, "echo alive") == "alive\n"


def test_no_client_is_left_after_commands_of_all_kinds(boxes: Boxes) -> None:
    """B02, R-38."""
    box = boxes.start()
    box.run("sleep 100 & echo up", timeout_s=10)
    box.run("sleep 100", timeout_s=0.3)
    box.close()
    boxes.await_gone(os.getpid())
