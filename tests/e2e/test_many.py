"""Fifty sandboxes beside each other and beside other people's containers; some are killed, some interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.docker_engine import Engine
from support.odek_process import Odek, Outcome
from support.recordings import write_recording
from support.sandboxes import command_lines, this_owner
from support.scenario import Scene

SANDBOXES = 50
AT_ONCE = 4
GONE_WITHIN_S = 20
BEGUN_WITHIN_S = 60
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
_LIFE = "{{.Id}} {{.State.Status}} {{.State.StartedAt}} {{.State.FinishedAt}} {{.RestartCount}}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One of the runs."""

    number: int
    sent: signal.Signals | None = None
    """None: it is left alone"""
    begun: bool = False
    """whether the signal waits until a command is at work"""
    after_s: float = 0.0
    """how long it waits then, or from the start"""


def plans() -> tuple[Plan, ...]:
    """Return every second one to be left alone, the others to be hit somewhere between their start and their work."""
    hit = (number for number in range(SANDBOXES) if number % 2)
    made = {
        number: Plan(
            number=number,
            sent=SIGNALS[index % 3],
            begun=index % 2 == 0,
            after_s=(index % 5) * (0.02 + 0.13 * (index % 2)),
        )
        for index, number in enumerate(hit)
    }
    return tuple(made.get(number, Plan(number=number)) for number in range(SANDBOXES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How one of the runs ended."""

    plan: Plan
    pid: int
    outcome: Outcome
    files: frozenset[str]
    """in its working directory, afterwards"""


@dataclass(frozen=True, slots=True)
class Strangers:
    """Containers and a network that are not odek's to touch, some of them very much like its own."""

    engine: Engine
    ids: tuple[str, ...]
    network: str

    def state(self) -> list[str]:
        lines = self.engine.run("inspect", "--type", "container", "--format", _LIFE, *self.ids).stdout.splitlines()
        return [*lines, self.engine.run("network", "inspect", "--format", "{{.Id}} {{.Name}}", self.network).stdout]


@pytest.fixture
def strangers(docker_engine: Engine, base_image: str) -> Iterator[Strangers]:
    me = this_owner()
    elsewhere = {"pid": "1", "start": "1", "boot": "of-another-machine", "pidns": me.pidns, "uid": me.uid}
    alive = {"pid": me.pid, "start": me.start, "boot": me.boot, "pidns": me.pidns, "uid": me.uid}
    another_user = {**alive, "pid": "4194304", "start": "1", "uid": me.uid + 1}
    labels: dict[str, dict[str, object]] = {
        f"odek-{me.pid}-77": {},
        f"odek-{me.pid}-78": {"io.odek.sandbox": "0"},
        "odek-like-another": {"io.odek.sandboxes": "1", "io.odek.nonce": "x"},
        "odek-elsewhere": {"io.odek.sandbox": "1", **{f"io.odek.{key}": value for key, value in elsewhere.items()}},
        "odek-alive": {"io.odek.sandbox": "1", **{f"io.odek.{key}": value for key, value in alive.items()}},
        "odek-of-another": {"io.odek.sandbox": "1", **{f"io.odek.{key}": value for key, value in another_user.items()}},
        "odek-unreadable": {"io.odek.sandbox": "1", "io.odek.pid": "x"},
    }
    network = docker_engine.run("network", "create", "--internal", f"odek-net-{me.pid}").stdout.strip()
    ids = [docker_engine.run("create", "--name", f"odek-stopped-{me.pid}", base_image, "true").stdout.strip()]
    for name, pairs in labels.items():
        flags = [word for key, value in pairs.items() for word in ("--label", f"{key}={value}")]
        command = (*("run", "--detach", "--init", "--network", network, "--name", name), *flags, base_image)
        ids.append(docker_engine.run(*command, "sleep", "600").stdout.strip())
    yield Strangers(docker_engine, tuple(ids), network)
    docker_engine.run("rm", "--force", *ids)
    docker_engine.run("network", "rm", network)


def everything(engine: Engine) -> dict[str, set[str]]:
    """Return the IDs of all containers, networks and volumes."""
    return {
        "containers": set(engine.run("ps", "--all", "--quiet", "--no-trunc").stdout.split()),
        "networks": set(engine.run("network", "ls", "--quiet", "--no-trunc").stdout.split()),
        "volumes": set(engine.run("volume", "ls", "--quiet").stdout.split()),
    }


def run_one(plan: Plan, odek: Odek, folder: Path, image: str) -> Ended:
    """Run odek on a folder of its own, and hit it where that is the plan."""
    work = folder / f"work-{plan.number}"
    work.mkdir()
    (work / "mine").write_text(f"secret of {plan.number}\n")
    commands = ["touch began", "sleep 600"] if plan.sent else ["cp mine copy", "sleep 0.2; cat copy; ls -A"]
    model = write_recording(
        folder / f"{plan.number}.jsonl", *commands, answer=f"answer {plan.number}", expect=f"secret of {plan.number}\n"
    )
    process = odek.start("run", "--sandbox", "--sandbox-image", image, "--base-url", model, "a task", cwd=work)
    if plan.sent:
        deadline = time.monotonic() + BEGUN_WITHIN_S
        while plan.begun and not (work / "began").exists() and time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.02)
        time.sleep(plan.after_s)
        _signal_group(process, plan.sent)
    stdout, stderr = process.communicate(timeout=120)
    outcome = Outcome(code=process.returncode, stdout=stdout, stderr=stderr)
    return Ended(plan=plan, pid=process.pid, outcome=outcome, files=frozenset(os.listdir(work)))


def _signal_group(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Hit all of odek's own processes: as a binary it is two. Docker's clients have groups of their own."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:  # it has ended
        pass


def test_fifty_sandboxes_leave_nothing_and_touch_nobody(
    scene: Scene, docker_engine: Engine, base_image: str, strangers: Strangers, tmp_path: Path
) -> None:
    """R-38, B07, B09: whoever is left alone answers right; of all others nothing stays, and strangers live on."""
    scene.operator()
    before, lives = everything(docker_engine), strangers.state()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        ended = list(pool.map(lambda plan: run_one(plan, scene.odek, tmp_path, base_image), plans()))
    alone = [run for run in ended if run.plan.sent is None]
    hit = [run for run in ended if run.plan.sent is not None]
    assert len(alone) == len(hit) == SANDBOXES // 2
    for run in alone:
        assert (run.outcome.code, run.outcome.stdout) == (0, f"answer {run.plan.number}\n"), run
        assert run.files == {"mine", "copy"}, run
    for run in hit:
        assert (run.outcome.code != 0, run.outcome.stdout) == (True, ""), run
        assert run.files >= ({"mine", "began"} if run.plan.begun else {"mine"}), run
        # who was killed outright leaves the sweeping of a file of no bytes to the next start in that folder
        assert run.plan.sent == signal.SIGKILL or run.files <= {"mine", "began"}, run

    deadline = time.monotonic() + GONE_WITHIN_S
    while (everything(docker_engine) != before or clients(ended)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert (everything(docker_engine), clients(ended)) == (before, [])
    assert strangers.state() == lives


def clients(ended: list[Ended]) -> list[list[bytes]]:
    """Return the command lines of docker clients that still work on a container of ours."""
    labels = {f"io.odek.pid={run.pid}".encode() for run in ended}
    return [words for _, words in command_lines() if labels & set(words)]
