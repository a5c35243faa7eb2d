"""A docker that hangs or dawdles in the middle of things: odek can be interrupted, and nothing is left (B08, B23)."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.fake_docker import FakeDockerProgram
from fakes.model_server import ModelServer, text
from support.docker_engine import Engine
from support.odek_process import Odek
from support.scenario import DEAD_REGISTRY

PATIENCE_S = 30
NETWORK = f"odek-e2e-hang-{os.getpid()}"

# what hangs → what odek is asked for, so that it comes to that call
CALLS: dict[str, tuple[str, ...]] = {
    "version": (),
    "info": (),
    "image": (),
    "pull": ("--sandbox-image", DEAD_REGISTRY),
    "network": ("--sandbox-networks", NETWORK),
    "run": (),
    "inspect": (),
    "exec": (),
}


@pytest.fixture(scope="module")
def network(docker_engine: Engine) -> Iterator[str]:
    docker_engine.run("network", "create", "--internal", NETWORK)
    yield NETWORK
    docker_engine.run("network", "rm", NETWORK)


def await_call(program: FakeDockerProgram, word: str) -> None:
    """Wait until docker is called with that word first."""
    deadline = time.monotonic() + PATIENCE_S
    while not any(made.get("argv", [""])[:1] == [word] for made in program.calls()):
        assert time.monotonic() < deadline, f"docker {word} is not called: {[c.get('argv') for c in program.calls()]}"
        time.sleep(0.05)


def assert_gone(engine: Engine, program: FakeDockerProgram, pid: int) -> None:
    """Neither a container of that odek nor a client that it had started is left."""
    deadline = time.monotonic() + PATIENCE_S
    while engine.containers_of(pid) or (clients := [c["pid"] for c in program.calls() if alive(c["pid"])]):
        assert time.monotonic() < deadline, (engine.containers_of(pid), clients)
        time.sleep(0.1)


def alive(pid: int) -> bool:
    """Whether a docker client of a call is still there; its number may be another process's by now."""
    try:
        return b"/docker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@pytest.mark.parametrize(
    "word", [pytest.param(word, marks=pytest.mark.docker_only) if word == "network" else word for word in CALLS]
)
def test_ctrl_c_works_while_docker_hangs(
    word: str, odek: Odek, docker_engine: Engine, base_image: str, network: str, tmp_path: Path
) -> None:
    """B23: at every call of a start; nothing ran on the host, nothing is left; the model was asked where Docker was
    already making the container, and not before (R-251)."""
    real = {"argv": [], "real": docker_engine.client}
    says_nothing = {"argv": ["info"], "code": 1}  # only then the version is asked for
    rules = [{"argv": [word], "hang": True}, *([says_nothing] if word == "version" else []), real]
    program = FakeDockerProgram(tmp_path / "bin", rules)
    with ModelServer() as server:
        flags = CALLS[word] if "--sandbox-image" in CALLS[word] else ("--sandbox-image", base_image, *CALLS[word])
        process = odek.start("run", "--base-url", server.base_url, *flags, "x", env={"PATH": program.path})
        await_call(program, word)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=PATIENCE_S)
        asked = int(word in ("run", "inspect", "exec"))
        assert (process.returncode, stdout, len(server.requests)) == (130, "", asked), stderr
    assert_gone(docker_engine, program, process.pid)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
@pytest.mark.parametrize("word", ["pull", "run"])
def test_signal_while_a_client_dawdles_after_its_work(
    word: str, number: signal.Signals, odek: Odek, docker_engine: Engine, base_image: str, tmp_path: Path
) -> None:
    """B08: the client has done its work and does not return; the container goes though its ID was never read."""
    real = {"argv": [], "real": docker_engine.client}
    program = FakeDockerProgram(tmp_path / "bin", [{**real, "argv": [word], "delay_after_s": 60}, real])
    image = DEAD_REGISTRY if word == "pull" else base_image
    with ModelServer(text("done", delay_s=60)) as server:
        arguments = ("run", "--base-url", server.base_url, "--sandbox-image", image, "x")
        process = odek.start(*arguments, env={"PATH": program.path})
        await_call(program, word)
        time.sleep(0.5)
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, stdout) == (128 + number, ""), stderr
    assert_gone(docker_engine, program, process.pid)


def test_removal_that_hangs_does_not_hold_odek_up(
    odek: Odek, docker_engine: Engine, base_image: str, tmp_path: Path
) -> None:
    """B23: the answer is printed and odek ends; the container goes with its lease."""
    real = {"argv": [], "real": docker_engine.client}
    program = FakeDockerProgram(tmp_path / "bin", [{"argv": ["rm"], "hang": True}, real])
    with ModelServer(text("done")) as server:
        arguments = ("run", "--base-url", server.base_url, "--sandbox-image", base_image, "x")
        process = odek.start(*arguments, env={"PATH": program.path})
        stdout, stderr = process.communicate(timeout=2 * PATIENCE_S)
    assert (process.returncode, stdout) == (0, "done\n"), stderr
    assert_gone(docker_engine, program, process.pid)
