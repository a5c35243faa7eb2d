"""No container outlives its odek, and no odek ends another's container."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support.docker_engine import Engine
from support.sandboxes import Boxes, OddImages, clients_of, command_lines, output, this_owner

from odek.errors import Interrupted
from odek.sandbox.docker import DockerCli, DockerProcess

ROOT = Path(__file__).resolve().parents[2]
# A program that starts a sandbox in its working directory, says so, and has a command at work in it.
CHILD = """
import sys
sys.path[:0] = [{root!r}, {tests!r}]
import os, shutil
from pathlib import Path
from support.sandboxes import Boxes
from support.docker_engine import Engine
engine = Engine(client=shutil.which("docker"), version="")
box = Boxes(engine=engine, image={image!r}, workdir=Path.cwd()).start()
print(box.facts.id, flush=True)
box.run("setsid sleep 500 >/dev/null 2>&1 & sleep 600", timeout_s=600)
"""


@dataclass(slots=True)
class Killed:
    """Runs CHILD in the folder of `boxes`, again and again."""

    boxes: Boxes
    _children: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self) -> subprocess.Popen[str]:
        script = CHILD.format(root=str(ROOT), tests=str(ROOT / "tests"), image=self.boxes.image)
        child = subprocess.Popen(
            [sys.executable, "-I", "-c", script],
            cwd=self.boxes.workdir,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._children.append(child)
        return child

    def close(self) -> None:
        for child in self._children:
            child.kill()
            child.communicate()


@pytest.fixture
def killed(boxes: Boxes) -> Iterator[Killed]:
    made = Killed(boxes)
    yield made
    made.close()


# around the moments at which the client starts, the container is made, started, and looked at
@pytest.mark.parametrize("moments_ms", [(0, 30, 60), (100, 140, 180), (220, 260, 320), (400, 500, 700)])
def test_killed_odek_leaves_no_container(moments_ms: tuple[int, ...], killed: Killed) -> None:
    """R-38, B07, B08: SIGKILL after its docker client has started, and at no matter which moment from then on."""
    for moment_ms in moments_ms:
        child = killed.start()
        await_client(child.pid)
        time.sleep(moment_ms / 1000)
        child.kill()
        child.wait()
        killed.boxes.await_gone(child.pid)


def await_client(pid: int) -> None:
    deadline = time.monotonic() + 20
    while not clients_of(pid):
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_killed_odek_with_a_command_at_work_leaves_no_container(killed: Killed) -> None:
    """R-38: with servers and a command in it."""
    child = killed.start()
    assert child.stdout is not None
    assert len(child.stdout.readline().strip()) == 64
    child.kill()
    child.wait()
    killed.boxes.await_gone(child.pid)


# read(2) says that the input has ended; this sh does not care
DEAF = """\
#!/bin/busybox sh
case $2 in 'echo odek-ready'*) echo odek-ready; exec sleep 600 ;; esac
exec /bin/busybox sh "$@"
"""


def test_killed_odek_leaves_no_container_whose_shell_ignores_its_lease(
    boxes: Boxes, killed: Killed, odd_images: OddImages
) -> None:
    """F10: a watcher outside removes it by its ID, and leaves nothing of itself."""
    boxes.image = odd_images.make(files={"bin/sh": DEAF})
    child = killed.start()
    assert child.stdout is not None
    container = child.stdout.readline().strip()
    assert len(container) == 64
    (watcher,) = await_watcher(container)
    assert os.getsid(watcher) != os.getsid(child.pid)  # no key of the terminal reaches it
    child.kill()
    child.wait()
    boxes.await_gone(child.pid)
    await_none(container)
    box = boxes.start()  # one that ends in order calls its watcher off
    assert len(await_watcher(box.facts.id)) == 1
    assert box.close() == ""
    assert watchers_of(box.facts.id) == []


def test_killed_odek_leaves_no_container_that_was_restarted(boxes: Boxes, killed: Killed) -> None:
    """E9: the pipe that ended it is not held by anything any more."""
    child = killed.start()
    assert child.stdout is not None
    container = child.stdout.readline().strip()
    boxes.engine.run("restart", "--time", "0", container)
    child.kill()
    child.wait()
    boxes.await_gone(child.pid)
    await_none(container)


def watchers_of(container: str) -> list[int]:
    """Return the processes that wait for the end of an odek to remove a container."""
    return [pid for pid, words in command_lines() if b"odek-watcher" in words and container.encode() in words]


def await_watcher(container: str) -> list[int]:
    """Return the watchers of a container once there is one; the kernel shows arguments a moment after the exec."""
    deadline = time.monotonic() + 20
    while not (found := watchers_of(container)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def await_none(container: str) -> None:
    deadline = time.monotonic() + 20
    while watchers_of(container):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_stopped_odek_keeps_its_container(killed: Killed) -> None:
    """R-38: a suspended machine or Ctrl-Z is no end."""
    child = killed.start()
    assert child.stdout is not None
    child.stdout.readline()
    child.send_signal(signal.SIGSTOP)
    time.sleep(0.5)
    assert len(killed.boxes.existing(child.pid)) == 1
    child.send_signal(signal.SIGCONT)


def test_killed_client_of_the_lease_ends_the_container(boxes: Boxes) -> None:
    """R-38: odek then says that the sandbox is lost."""
    boxes.start()
    (client,) = clients_of(os.getpid())
    os.kill(client, signal.SIGKILL)
    boxes.await_gone(os.getpid())


def test_closed_sandbox_is_gone_when_close_returns(boxes: Boxes) -> None:
    """R-38."""
    box = boxes.start()
    output(box, "setsid sleep 500 >/dev/null 2>&1 & trap '' TERM; echo up")
    assert box.close() == ""
    assert boxes.existing(os.getpid()) == []
    assert box.close() == ""


class InterruptedClient:
    """Interrupts, once, in a pump of the first call that begins with a word."""

    def __init__(self, docker: DockerCli, word: str, pumps: int) -> None:
        self._docker = docker
        self._word = word
        self._pumps = pumps

    def when_gone(self, *args: str) -> DockerProcess | None:
        return self._docker.when_gone(*args)

    def ahead(self, *_calls: tuple[str, ...]) -> AbstractContextManager[None]:
        return nullcontext()  # each call passes `start` when it is asked for

    def start(self, *args: str, **options: Any) -> DockerProcess:
        pending = self._docker.start(*args, **options)
        if args[0] == self._word:
            self._word = ""
            pump, left = pending.pump, [self._pumps]

            def interrupted(timeout_s: float) -> None:
                left[0] -= 1
                if left[0] == 0:
                    raise Interrupted(signal.SIGINT)
                pump(timeout_s)

            pending.pump = interrupted  # type: ignore[method-assign]
        return pending


@pytest.mark.parametrize(
    ("word", "pumps"), [("run", 1), ("run", 2), ("run", 4), ("inspect", 1), ("exec", 1), ("exec", 2)]
)
def test_interrupted_start_leaves_nothing(word: str, pumps: int, boxes: Boxes) -> None:
    """R-38, B08: the container goes even though its ID was never read."""
    with pytest.raises(Interrupted):
        boxes.start(docker=InterruptedClient(boxes.docker, word, pumps))
    assert boxes.existing(os.getpid()) == []
    assert list(boxes.workdir.iterdir()) == []


DEAD_PID = 4_194_303  # the largest pid there can be: nobody's


@dataclass(slots=True)
class Planted:
    """Containers with labels of odek's, made by hand."""

    engine: Engine
    image: str
    _made: list[str] = field(default_factory=list)

    def plant(self, labels: Mapping[str, str], *, name: str = "") -> str:
        flags = [word for key, value in labels.items() for word in ("--label", f"io.odek.{key}={value}")]
        named = ("--name", name) if name else ()
        container = self.engine.run("create", *named, *flags, self.image, "sh").stdout.strip()
        self._made.append(container)
        return container

    def left(self) -> list[str]:
        existing = self.engine.run("ps", "--all", "--quiet", "--no-trunc").stdout.split()
        return [container for container in self._made if container in existing]

    def close(self) -> None:
        for container in self.left():  # podman removes none of several of which one is gone (M-33)
            self.engine.run("rm", "--force", container, check=False)


@pytest.fixture
def planted(docker_engine: Engine, base_image: str) -> Iterator[Planted]:
    made = Planted(docker_engine, base_image)
    yield made
    made.close()


def test_leftovers_of_dead_odeks_are_swept_and_nothing_else(planted: Planted, boxes: Boxes) -> None:
    """R-38, B07: by process, start, boot, namespace and user; unreadable or foreign labels mean keep."""
    me = this_owner()
    dead = {
        "sandbox": "1", "pid": str(DEAD_PID), "start": "1", "boot": me.boot, "pidns": me.pidns, "uid": str(me.uid),
    }  # fmt: skip
    swept = [planted.plant(dead), planted.plant(dead | {"pid": str(os.getpid()), "start": "1"})]
    victim = planted.plant({})
    kept = [
        victim,
        planted.plant(dead | {"pid": str(me.pid), "start": me.start}),
        planted.plant(dead | {"uid": "54321"}),
        planted.plant(dead | {"boot": "another"}),
        planted.plant(dead | {"pidns": "pid:[1]"}),
        planted.plant(dead | {"uid": str(me.uid + 1)}),
        planted.plant(dead | {"pid": "²"}),
        planted.plant(dead | {"start": ""}),
        planted.plant({key: value for key, value in dead.items() if key != "sandbox"}),
        planted.plant(dead | {"uid": f"0\n{victim}\t" + "\t".join(map(json.dumps, list(dead.values())[1:]))}),
    ]  # fmt: skip
    first = boxes.start()
    assert planted.left() == kept
    assert output(first, "echo alive") == "alive\n"
    assert all(words.startswith("removed ") for words in boxes.said)  # another run may have been faster
    assert [container for container in swept if container in planted.left()] == []


def test_second_odek_leaves_the_first_ones_container_alone(killed: Killed, boxes: Boxes) -> None:
    """B07 (2)."""
    child = killed.start()
    assert child.stdout is not None
    first = child.stdout.readline().strip()
    boxes.start()
    assert [container[:12] for container in killed.boxes.existing(child.pid)] == [first[:12]]
