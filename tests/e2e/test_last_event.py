"""The last line of --json: whatever ends a command, a program that reads its output learns of it (C13)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from typing import Any

import pytest
from fakes.model_server import ModelServer, Step, calls, status, text
from support.odek_process import Odek, pid_of_odek
from support.scenario import DEAD_SOCKET

DEAD_MODEL = ("--base-url", "http://127.0.0.1:1/v1")
LAST = {"finished", "error", "result"}
FIELDS = ["message", "hint", "detail", "source", "code", "exit_code", "answer", "usage", "cost_usd", "refused"]
REFUSED = {"classes": {"code_execution": "deny"}}
CALL = calls(("shell", {"command": "python3 -c 1"}), usage={"prompt_tokens": 7, "completion_tokens": 3})


TWO_CALLS = calls(*[("shell", {"command": "python3 -c 1"})] * 2, usage={"prompt_tokens": 7, "completion_tokens": 3})


def events_of(stdout: str) -> list[dict[str, Any]]:
    """Return the lines, of which the last one alone may be of the kinds that end."""
    events: list[dict[str, Any]] = [json.loads(line) for line in stdout.splitlines()]
    assert [event["event"] for event in events[:-1] if event["event"] in LAST] == []
    return events


def write_settings(odek: Odek, **settings: object) -> None:
    folder = odek.home / ".odek"
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(settings))
    (folder / "config.json").chmod(0o600)


def check_error(code: int, stdout: str, stderr: str, expected: tuple[str, str, int]) -> dict[str, Any]:
    """Check what a failed command printed on both streams; `expected`: source, code, exit code."""
    error = events_of(stdout)[-1]
    assert list(error) == ["event", *FIELDS], error
    assert (error["event"], error["source"], error["code"], error["exit_code"]) == ("error", *expected), (error, stderr)
    assert code == expected[2]
    if error["source"] != "signal":
        assert f"odek: error: {error['message']}\n" in stderr
    return error


@pytest.mark.parametrize(
    ("arguments", "env", "expected"),
    [
        (["run", "--json"], {}, ("command line", "usage", 2)),
        (["frobnicate", "--json"], {}, ("command line", "usage", 2)),
        (["--json", "frobnicate"], {}, ("command line", "usage", 2)),
        (["session", "--json", "frobnicate"], {}, ("command line", "usage", 2)),
        (["diff", "--json", "--nope"], {}, ("command line", "usage", 2)),
        (["run", "--nope", "--json", "x"], {}, ("command line", "usage", 2)),
        (["run", "--model", "--json", "x"], {}, ("command line", "usage", 2)),
        (["run", "--json", "--ctx", "/nowhere", "x"], {}, ("command line", "usage", 2)),
        (["continue", "--json", "--no-sandbox", "x"], {}, ("command line", "usage", 2)),
        (["continue", "--json", "x"], {}, ("state", "state", 1)),
        (["continue", "--json", "--id", "nope", "x"], {}, ("state", "state", 1)),
        (["subagent", "--json"], {}, ("command line", "usage", 2)),
        (["session", "show", "--json", "nope"], {}, ("state", "state", 1)),
        (["run", "--json", "x"], {"ODEK_SANDBOX_MEMORY": "lots"}, ("settings", "settings", 1)),
        (["config", "view", "--json"], {"ODEK_SANDBOX_MEMORY": "lots"}, ("settings", "settings", 1)),
        (["run", "--json", "--no-sandbox", "x"], {}, ("settings", "key_missing", 1)),
        (["run", "--json", "--no-sandbox", "x"], {"HOME": "{cwd}"}, ("state", "state", 1)),
        (["run", "--json", *DEAD_MODEL, "--sandbox-image", "NO:1", "x"], {}, ("settings", "settings", 1)),
        (["run", "--json", "--sandbox", *DEAD_MODEL, "x"], {}, ("sandbox", "no_daemon", 1)),
        (["sandbox", "ls", "--json"], {}, ("sandbox", "no_daemon", 1)),
    ],
    ids=str,
)
def test_command_that_cannot_begin(
    arguments: Sequence[str], env: dict[str, str], expected: tuple[str, str, int], odek: Odek
) -> None:
    """R-290, C13: a command line, settings, a key, a session, a daemon; with nothing used, and nothing before it."""
    env = {"DOCKER_HOST": DEAD_SOCKET} | {name: value.format(cwd=odek.cwd) for name, value in env.items()}
    (odek.cwd / ".odek").mkdir(mode=0o700)
    outcome = odek.run(*arguments, env=env)
    error = check_error(outcome.code, outcome.stdout, outcome.stderr, expected)
    assert (error["answer"], error["usage"], error["cost_usd"], error["refused"]) == (None, None, None, [])
    assert len(outcome.stdout.splitlines()) == 1


def test_project_that_is_not_approved(odek: Odek) -> None:
    """R-290, C13."""
    (odek.cwd / "odek.json").write_text('{"sandbox_network": "bridge"}')
    outcome = odek.run("run", "--json", *DEAD_MODEL, "x")
    check_error(outcome.code, outcome.stdout, outcome.stderr, ("approval", "not_approved", 1))


@pytest.mark.parametrize(
    ("script", "flags", "expected", "used"),
    [
        ([status(401, {"error": {"message": "bad key"}})], [], ("model", "model_rejected", 1), 0),
        ([text(" "), text("")], [], ("model", "no_answer", 1), 0),
        ([CALL, text("so far")], ["--max-iter", "1"], ("limits", "max_iterations", 1), 7),
        ([TWO_CALLS, text("so far")], ["--max-tool-calls", "1"], ("limits", "budget", 4), 7),
        ([CALL], ["--max-input-tokens", "5"], ("limits", "budget", 4), 7),
    ],
    ids=["rejected", "no answer", "iterations", "calls", "tokens"],
)
@pytest.mark.parametrize("command", ["run", "continue"])
def test_task_that_fails(
    command: str, script: list[Step], flags: list[str], expected: tuple[str, str, int], used: int, odek: Odek
) -> None:
    """R-290, C13, A25: model and limits; what was used and what was refused stands in it."""
    write_settings(odek, dangerous=REFUSED)
    begun = [text("begun")] if command == "continue" else []
    with ModelServer(*begun, *script) as server:
        base = ("--base-url", server.base_url)
        if begun:
            assert odek.run("run", "--session", "--no-sandbox", *base, "begin").code == 0
        there = () if begun else ("--no-sandbox",)
        outcome = odek.run(command, "--json", *there, *base, *flags, "x")
    error = check_error(outcome.code, outcome.stdout, outcome.stderr, expected)
    assert error["usage"]["input_tokens"] >= used
    calls_made = used and 1
    assert error["refused"] == [{"class": "code_execution", "count": calls_made}] * calls_made
    kinds = [event["event"] for event in events_of(outcome.stdout)]
    assert kinds[0] == "session"
    assert kinds[-2] == "turn_ended"


def test_session_that_is_broken(odek: Odek) -> None:
    """R-290, C13: nothing is asked of the model."""
    with ModelServer(text("begun")) as server:
        base = ("--base-url", server.base_url)
        assert odek.run("run", "--session", "--no-sandbox", *base, "begin").code == 0
        for file in next((odek.home / ".odek").glob("sessions*")).iterdir():
            file.write_text("{")
        outcome = odek.run("continue", "--json", *base, "x")
    check_error(outcome.code, outcome.stdout, outcome.stderr, ("state", "state", 1))


def waiting(odek: Odek, server: ModelServer, *arguments: str) -> subprocess.Popen[str]:
    """Start a run and return when its model has been asked."""
    process = odek.start(*arguments, "--base-url", server.base_url, "x")
    deadline = time.monotonic() + 60
    while not server.requests and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_run_that_a_signal_ends(number: signal.Signals, odek: Odek) -> None:
    """R-290, C13."""
    with ModelServer(text("late", delay_s=30)) as server:
        process = waiting(odek, server, "run", "--json", "--no-sandbox")
        os.kill(pid_of_odek(process.pid), number)
        stdout, stderr = process.communicate(timeout=60)
    check_error(process.returncode, stdout, stderr, ("signal", number.name, 128 + number))


def test_time_that_is_over(odek: Odek) -> None:
    """R-290: the limit of time ends a run with the same line."""
    with ModelServer(text("late", delay_s=30)) as server:
        process = waiting(odek, server, "run", "--json", "--no-sandbox", "--max-runtime", "1")
        stdout, stderr = process.communicate(timeout=60)
    check_error(process.returncode, stdout, stderr, ("limits", "budget", 4))


@pytest.mark.parametrize("redirection", [">/dev/full", ">&-"])
@pytest.mark.parametrize("answers", [True, False])
def test_stdout_that_takes_nothing(redirection: str, answers: bool, odek: Odek) -> None:
    """R-290: the exit code tells, and nothing breaks a second time."""
    with ModelServer(text("done") if answers else status(401)) as server:
        argv = ["sh", "-c", f'exec "$@" {redirection}', "sh", *odek.argv, "run", "--json", "--no-sandbox"]
        done = subprocess.run(
            [*argv, "--base-url", server.base_url, "x"],
            stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=odek.cwd, env=odek.env(), timeout=60,
        )  # fmt: skip
    assert (done.returncode, done.stderr.count("odek: error: ")) == (1, 1), done.stderr
    assert "Traceback" not in done.stderr


def test_refused_is_an_answer(odek: Odek) -> None:
    """A25: with --fail-on-refused the exit code tells, `finished` stays the last line, and the statistics say it."""
    write_settings(odek, dangerous=REFUSED)
    with ModelServer(CALL, text("done"), CALL, text("done")) as server:
        base = ("--no-sandbox", "--base-url", server.base_url)
        outcome = odek.run("run", "--json", "--fail-on-refused", *base, "x")
        shown = odek.run("run", *base, "x")
    event = events_of(outcome.stdout)[-1]
    assert (outcome.code, event["event"], event["refused"]) == (
        5,
        "finished",
        [{"class": "code_execution", "count": 1}],
    )
    assert (shown.code, shown.stdout) == (0, "done\n")
    assert " · refused: code_execution 1 · " in shown.stderr


@pytest.mark.parametrize("brief", ['{"goal": "x"}', "{}"])
def test_task_from_outside_that_fails(brief: str, odek: Odek) -> None:
    """R-290, R-230: behind its result."""
    outcome = odek.run("subagent", "--json", *DEAD_MODEL, stdin=brief)
    error = json.loads(outcome.stdout.splitlines()[-1])
    assert (error["event"], error["exit_code"]) == ("error", outcome.code)
