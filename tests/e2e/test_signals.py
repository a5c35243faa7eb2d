"""Signals at any moment: odek ends, and so does everything it started (R-38, R-40, B01, B07, B08)."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest
from fakes.model_server import ModelServer, ServedRequest, Step, calls, text
from support.docker_engine import Engine
from support.odek_process import Odek, pid_of_odek, program_kind

GONE_WITHIN_S = 10.0  # generous: a loaded engine takes its time; what matters is that it happens
SETTLED_S = 1.0  # how long nothing may appear any more: a client that was under way could still create something
SOON_SETTLED_S = 0.2  # where no client was under way
# From before the interpreter is up until the command of the model runs, five moments for each of the
# signals, shifted so that twenty different ones are tried.
MOMENTS_S = (0.02, 0.11, 0.23, 0.46, 0.93)
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


@pytest.fixture
def sleeper(odek: Odek, docker_engine: Engine, base_image: str, tmp_path: Path) -> tuple[Odek, list[str], str]:
    """The program, arguments of a run whose command never ends, and a word of that command's argv."""
    word = f"{600 + os.getpid() % 1000}.{time.monotonic_ns() % 10**6:06}"
    command = f"touch started; sleep {word} & sleep {word}"
    steps = [
        {"odek_replay": 1},
        {"content": "", "tool_calls": [{"name": "shell", "arguments": {"command": command}}]},
        {"content": "never reached"},
    ]
    recording = tmp_path / "sleeper.jsonl"
    recording.write_text("".join(json.dumps(step) + "\n" for step in steps))
    return odek, ["run", "--base-url", f"replay:{recording}", "--sandbox-image", base_image, "x"], word


def running_with(word: str) -> list[int]:
    """Return the processes of this machine, containers included, that have `word` as an argument."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                arguments = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if word.encode() in arguments:
                found.append(int(entry.name))
    return found


def wait_until(condition: object, what: str) -> None:
    deadline = time.monotonic() + GONE_WITHIN_S
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def wait_for_command(odek: Odek, word: str) -> None:
    wait_until(lambda: (odek.cwd / "started").exists() and len(running_with(word)) == 2, "the command does not start")


def assert_all_gone(engine: Engine, pids: list[int], word: str, *, settled_s: float = SOON_SETTLED_S) -> None:
    """Nothing of these runs is left, and nothing of them appears any more."""

    def left() -> list[str]:
        return [identity for pid in pids for identity in engine.containers_of(pid)]

    wait_until(lambda: not left() and not running_with(word), f"left: {left()} {running_with(word)}")
    time.sleep(settled_s)
    assert (left(), running_with(word)) == ([], [])


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_nothing_is_left_whenever_a_signal_arrives(
    number: signal.Signals, sleeper: tuple[Odek, list[str], str], docker_engine: Engine
) -> None:
    """R-38: SIGKILL, SIGTERM, SIGINT and SIGHUP between 20 ms and 1.5 s after the start."""
    odek, arguments, word = sleeper
    pids = []
    for moment_s in MOMENTS_S:
        process = odek.start(*arguments)
        pids.append(process.pid)
        time.sleep(moment_s * (1 + 0.15 * SIGNALS.index(number)))
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=20)
        # in the binary, Python meets a Ctrl-C in PyInstaller's first lines before anything of odek's does
        early = program_kind() == "binary" and number == signal.SIGINT and "pyimod" in stderr
        # the system ends a process that has no handler yet, odek ends itself with the shell's number
        assert early or process.returncode in (-number, 128 + number), (moment_s, stderr)
        assert stdout == ""
        if "ODEK_BIN" in os.environ and not early:  # started from source, an import can be interrupted with a traceback
            assert "Traceback" not in stderr
    assert_all_gone(docker_engine, pids, word, settled_s=SETTLED_S)


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_command_ends_with_odek(
    number: signal.Signals, sleeper: tuple[Odek, list[str], str], docker_engine: Engine
) -> None:
    """Runtime 9.5 (2), R-38, B01: a signal while a command runs ends it inside the container, its children too."""
    odek, arguments, word = sleeper
    process = odek.start(*arguments)
    wait_for_command(odek, word)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=20)
    if number != signal.SIGKILL:
        assert (process.returncode, stderr.splitlines()[-1]) == (128 + number, f"odek: stopped by {number.name}")
    assert_all_gone(docker_engine, [process.pid], word)


@pytest.mark.parametrize("ending", ["ctrl-c", "closed"])
def test_terminal_ends_a_run(ending: str, sleeper: tuple[Odek, list[str], str], docker_engine: Engine) -> None:
    """Runtime 9.5 (2), R-38: Ctrl-C at the terminal, and the terminal that is closed."""
    odek, arguments, word = sleeper
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(odek.cwd)
        os.execvpe(odek.argv[0], [*odek.argv, *arguments], odek.env())
    try:
        wait_for_command(odek, word)
        if ending == "ctrl-c":
            os.write(terminal, b"\x03")
            drain(terminal)
        else:
            os.close(terminal)
            terminal = -1
        _, status = os.waitpid(pid, 0)
    finally:
        if terminal >= 0:
            os.close(terminal)
    wanted = signal.SIGINT if ending == "ctrl-c" else signal.SIGHUP
    assert os.waitstatus_to_exitcode(status) == 128 + wanted
    assert_all_gone(docker_engine, [pid], word)


def drain(terminal: int) -> None:
    """Read until the other side is gone."""
    try:
        while os.read(terminal, 4096):
            pass
    except OSError:
        pass


@pytest.mark.once
def test_signal_while_the_model_is_awaited(odek: Odek, docker_engine: Engine, base_image: str) -> None:
    """R-38: neither a model that says nothing nor one that stops in mid-sentence holds odek up."""
    for script in ((text("late", delay_s=30),), (calls(("shell", {"command": "true"})), text("late", delay_s=30))):
        with ModelServer(*script) as server:
            process = odek.start("run", "--base-url", server.base_url, "--sandbox-image", base_image, "x")
            wait_until(lambda: len(server.requests) == len(script), "the model is not asked")  # noqa: B023
            process.send_signal(signal.SIGTERM)
            _, stderr = process.communicate(timeout=20)
        assert (process.returncode, stderr.splitlines()[-1]) == (143, "odek: stopped by SIGTERM")
        assert_all_gone(docker_engine, [process.pid], "no command at all")


@pytest.mark.once
def test_second_ctrl_c_ends_a_slow_clean_up_at_once(
    odek: Odek, docker_engine: Engine, base_image: str, tmp_path: Path
) -> None:
    """B08: interrupted while `docker run` is on its way, then again; the container is gone all the same."""
    shim = tmp_path / "bin"
    shim.mkdir()
    (shim / "docker").write_text(
        f'#!/bin/sh\ncase $1 in run) touch "{tmp_path}/running"; sleep 2;; esac\nexec {docker_engine.client} "$@"\n'
    )
    (shim / "docker").chmod(0o755)
    with ModelServer() as server:
        process = odek.start(
            *("run", "--base-url", server.base_url, "--sandbox-image", base_image, "x"),
            env={"PATH": f"{shim}:{os.environ['PATH']}"},
        )
        wait_until((tmp_path / "running").exists, "docker run is not called")
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        assert (process.returncode, len(server.requests) <= 1) == (130, True)
    time.sleep(2.5)  # the slow client is through by now
    assert_all_gone(docker_engine, [process.pid], "no command at all")


@pytest.mark.once
def test_ignored_hangup_stays_ignored(odek: Odek, docker_engine: Engine, base_image: str) -> None:
    """nohup: a signal that the caller ignores does not end the run."""
    with ModelServer(text("done", delay_s=1)) as server:
        arguments = ["run", "--base-url", server.base_url, "--sandbox-image", base_image, "x"]
        process = subprocess.Popen(
            ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *odek.argv, *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=odek.cwd, env=odek.env(),
        )  # fmt: skip
        try:
            wait_until(lambda: server.requests, "the model is not asked")
            process.send_signal(signal.SIGHUP)
            stdout, stderr = process.communicate(timeout=30)
        finally:
            process.kill()
            process.wait()
    assert (process.returncode, stdout) == (0, b"done\n"), stderr


@pytest.mark.once
def test_work_of_others_survives_the_sweep(odek: Odek, docker_engine: Engine, base_image: str, tmp_path: Path) -> None:
    """R-38, B07: a run that starts while another one works leaves that one's container alone."""
    others_are_done = threading.Event()

    def wait_for_the_other(_: ServedRequest) -> Step:
        others_are_done.wait(60)
        return text("first")

    with ModelServer(wait_for_the_other, text("second")) as server:
        arguments = ("run", "--base-url", server.base_url, "--sandbox-image", base_image, "x")
        first = odek.start(*arguments)
        wait_until(lambda: server.requests, "the model is not asked")
        second = odek.run(*arguments)
        assert (second.code, second.stdout) == (0, "second\n"), second.stderr
        assert len(docker_engine.containers_of(pid_of_odek(first.pid))) == 1
        others_are_done.set()
        stdout, stderr = first.communicate(timeout=30)
    assert (first.returncode, stdout) == (0, "first\n"), stderr
    assert_all_gone(docker_engine, [first.pid], "no command at all")
