"""How it ends: nothing of odek's is left, and nothing of others is touched."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from fakes.model_server import ModelServer, calls, text
from support.docker_engine import Engine
from support.odek_process import Odek
from support.scenario import run_script, tool_results

GONE_WITHIN_S = 10.0


def wait_until_gone(engine: Engine, pid: int) -> None:
    deadline = time.monotonic() + GONE_WITHIN_S
    while engine.containers_of(pid):
        assert time.monotonic() < deadline, engine.run("ps", "--all").stdout
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_container_is_gone_however_odek_ends(number: signal.Signals, sandboxed: Odek, docker_engine: Engine) -> None:
    """S-16 However odek ends, SIGKILL included, its container is gone a moment later. What a crashed daemon leaves is
    swept at the next start; containers of others are never touched.
    """
    with ModelServer(calls(("shell", {"command": "touch started; trap '' TERM INT HUP; sleep 600"}))) as server:
        process = sandboxed.start("run", "--base-url", server.base_url, "x")
        deadline = time.monotonic() + 30
        while not (sandboxed.cwd / "started").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert len(docker_engine.containers_of(process.pid)) == 1
        process.send_signal(number)
        process.wait(20)
    wait_until_gone(docker_engine, process.pid)


def test_containers_of_others_are_never_touched(sandboxed: Odek, docker_engine: Engine, base_image: str) -> None:
    """S-16: not one with a name like ours, not one whose labels name a living owner or make no sense."""
    run = ("run", "--detach", "--rm", "--init", "--network", "none")
    sleep = (base_image, "sleep", "300")
    living = {"io.odek.sandbox": "1", "io.odek.pid": str(os.getpid()), "io.odek.start": "1", "io.odek.uid": "0"}
    unreadable = {"io.odek.sandbox": "1", "io.odek.pid": "x", "io.odek.boot": "another"}
    made = []
    try:
        for number, labels in enumerate(({}, living, unreadable)):
            flags = [item for key, value in labels.items() for item in ("--label", f"{key}={value}")]
            name = f"odek-{os.getpid()}-{900 + number}"
            made.append(docker_engine.run(*run, "--name", name, *flags, *sleep).stdout.strip())
        outcome, _ = run_script(sandboxed, calls(("shell", {"command": "true"})), text("done"))
        assert outcome.code == 0, outcome.stderr
        states = docker_engine.run("inspect", "--format", "{{.State.Running}}", *made).stdout.split()
    finally:
        docker_engine.run("rm", "--force", *made)
    assert states == ["true"] * 3


STUBBORN = {
    "own session": "setsid sleep {word} & sleep {word}",
    "empty environment": "env -i setsid sleep {word} & sleep {word}",
    "ignores signals": "trap '' TERM INT HUP; sh -c 'trap \"\" TERM INT HUP; sleep {word}; sleep {word}'; sleep {word}",
    "breeds": "f() {{ sleep {word} & f & }}; f; sleep {word}",
}
"""one of each kind; the whole list is tried in the tests of the container"""


def processes_with(word: str) -> list[str]:
    """Return the processes of this machine, containers included, with `word` in their arguments."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if word.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                    found.append(entry.name)
            except OSError:
                continue
    return found


@pytest.mark.parametrize("kind", STUBBORN)
def test_stopped_command_is_stopped_with_all_it_started(kind: str, sandboxed: Odek, docker_engine: Engine) -> None:
    """S-17 A command that is stopped is stopped with everything it started. If that fails the whole sandbox is taken
    down.
    """
    word = f"{700 + list(STUBBORN).index(kind)}.{os.getpid()}"
    left: list[list[str]] = []

    def look(_: object) -> object:
        left.append(processes_with(word))
        return calls(("shell", {"command": "echo usable"}))

    stubborn = calls(("shell", {"command": STUBBORN[kind].format(word=word), "timeout": 1}))
    flags = ("--sandbox-pids-limit", "60")
    outcome, server = run_script(sandboxed, stubborn, look, text("done"), flags=flags)  # type: ignore[arg-type]
    assert (outcome.code, left) == (0, [[]]), outcome.stderr
    first, second = tool_results(server)
    assert ("timed out after 1 s" in first, "note: the command " in first) == (True, True), first
    assert "usable\n" in second
