"""Runs that go on for long: calls at the same time, windows that fill, budgets, both APIs."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from fakes.model_server import ModelServer, ServedRequest, calls, status, text
from support.docker_engine import Engine
from support.odek_process import Odek
from support.scenario import run_script, tool_results

TOO_LONG = {"error": {"message": "This model's maximum context length is exceeded", "code": "context_length_exceeded"}}
GONE_WITHIN_S = 10.0


@pytest.fixture
def sandboxed(odek: Odek, docker_engine: Engine, base_image: str) -> Odek:
    """The program, whose operator has the tests' own image."""
    return with_settings(odek, sandbox_image=base_image)


def with_settings(odek: Odek, **settings: object) -> Odek:
    folder = odek.home / ".odek"
    folder.mkdir(mode=0o700)
    (folder / "config.json").write_text(json.dumps(settings))
    return odek


@pytest.fixture
def on_host(odek: Odek) -> Odek:
    """The program without a container."""
    return with_settings(odek, sandbox=False)


def shell(*commands: str) -> object:
    return calls(*(("shell", {"command": command}) for command in commands))


def running_with(word: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and word.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                found.append(entry.name)
        except OSError:
            continue
    return found


def test_commands_of_one_reply_run_at_the_same_time(sandboxed: Odek) -> None:
    """Runtime 3.3: each waits for what the other makes; results stand in the order of the calls."""
    meet = "touch {0}; n=0; until [ -e {1} ]; do n=$((n+1)); [ $n -lt 300 ] || exit 9; sleep 0.1; done; echo {0}"
    outcome, server = run_script(sandboxed, shell(meet.format("a", "b"), meet.format("b", "a")), text("done"))
    server.assert_all_used()
    assert (outcome.code, outcome.stdout) == (0, "done\n"), outcome.stderr
    assert [("\na\n" in result, result.endswith("exit code: 0")) for result in tool_results(server)] == [
        (True, True),
        (False, True),
    ]


def test_commands_run_one_after_the_other_when_the_operator_wants_that(sandboxed: Odek) -> None:
    with_two = shell("mkdir one && sleep 0.3 && touch one/x", "ls one")
    config = sandboxed.home / ".odek" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "max_tool_parallel": 1}))
    outcome, server = run_script(sandboxed, with_two, text("done"))
    assert outcome.code == 0, outcome.stderr
    assert "\nx\n" in tool_results(server)[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_signal_stops_every_command_of_a_reply(number: signal.Signals, sandboxed: Odek, docker_engine: Engine) -> None:
    """B44, R-38, R-40: three commands at once, stopped with everything that they had started."""
    word = f"{700 + os.getpid() % 1000}.{time.monotonic_ns() % 10**6:06}"
    script = shell(*(f"touch s{place}; sleep {word} & sleep {word}" for place in range(3)))
    with ModelServer(script) as server:
        process = sandboxed.start("run", "--base-url", server.base_url, "a task")
        deadline = time.monotonic() + 30
        while len(running_with(word)) < 6:
            assert time.monotonic() < deadline, "the commands do not start"
            time.sleep(0.05)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=20)
    if number != signal.SIGKILL:
        assert (process.returncode, stderr.splitlines()[-1]) == (128 + number, f"odek: stopped by {number.name}")
    deadline = time.monotonic() + GONE_WITHIN_S
    while running_with(word) or docker_engine.containers_of(process.pid):
        assert time.monotonic() < deadline, (running_with(word), docker_engine.containers_of(process.pid))
        time.sleep(0.05)


def refuse_beyond(size_bytes: int, answer: object) -> object:
    """Answer a request with `answer`, or as a server whose window is full."""

    def step(request: ServedRequest) -> object:
        return status(400, TOO_LONG) if len(request.body) > size_bytes else answer

    return step


def roles(request: ServedRequest) -> list[str]:
    return [message["role"] for message in request.json["messages"]]


def test_a_file_of_one_huge_line_fits_after_all(on_host: Odek) -> None:
    """B42 (1): the result is cut with a mark and the run goes on."""
    for place in range(8):
        (on_host.cwd / f"big{place}").write_text("x" * 5_000_000)
    reads = calls(*(("read_file", {"path": f"big{place}"}) for place in range(8)))
    done = text("done")
    outcome, server = run_script(on_host, reads, *[refuse_beyond(60_000, done)] * 2)
    assert (outcome.code, outcome.stdout) == (0, "done\n"), outcome.stderr
    assert "characters left out]" in server.requests[-1].body.decode()
    assert len(server.requests) == 3
    server.assert_all_used()


def test_a_long_conversation_is_trimmed_and_goes_on(on_host: Odek) -> None:
    """B42 (2), runtime 9.5 (10): every request is well formed, the task and the newest step are in it."""
    (on_host.cwd / "f").write_text("y" * 3000 + "\n")
    script = [refuse_beyond(60_000, calls(("read_file", {"path": "f"})))] * 44
    outcome, server = run_script(on_host, *script, refuse_beyond(60_000, text("done")))
    assert (outcome.code, outcome.stdout) == (0, "done\n"), outcome.stderr
    refused = [request for request in server.requests if len(request.body) > 60_000]
    assert 1 <= len(refused) <= 4
    for request in server.requests[1:]:
        messages = request.json["messages"]
        assert messages[1]["content"].startswith("a task")
        assert roles(request)[-2:] == ["assistant", "tool"]


def test_a_task_that_is_too_long_is_an_error_at_once(on_host: Odek) -> None:
    """B42 (3)"""
    with ModelServer(refuse_beyond(60_000, text("never"))) as server:
        outcome = on_host.run("run", "--base-url", server.base_url, "-", stdin="word " * 40_000)
    assert (outcome.code, len(server.requests)) == (1, 1)
    assert "odek: error: the conversation is too long for the model, and nothing more of it can be left out" in (
        outcome.stderr
    )


@pytest.mark.parametrize("refusal", [status(400, TOO_LONG), status(413, b"too much")], ids=["400", "413"])
def test_a_server_that_always_finds_it_too_long_ends_the_run(refusal: object, on_host: Odek) -> None:
    """B42 (4), (5): a few attempts, then the cause."""
    (on_host.cwd / "f").write_text("y" * 9000 + "\n")
    steps = [calls(("read_file", {"path": "f"}))] * 9
    outcome, server = run_script(on_host, *steps, *[refusal] * 4)
    server.assert_all_used()
    assert outcome.code == 1
    assert "the conversation is too long for the model" in outcome.stderr


def test_window_is_asked_for_when_the_conversation_grows(on_host: Odek) -> None:
    """F-102: never at the start; then it keeps requests below the window."""
    (on_host.cwd / "f").write_text("y" * 9000 + "\n")
    models = {"data": [{"id": "local", "context_length": 12_000}]}
    with ModelServer(text("short"), models=models) as server:
        assert on_host.run("run", "--base-url", server.base_url, "--model", "local", "hi").code == 0
    assert server.lookups == []
    with ModelServer(*[calls(("read_file", {"path": "f"}))] * 9, text("done"), models=models) as server:
        assert on_host.run("run", "--base-url", server.base_url, "--model", "local", "hi").code == 0
    server.assert_all_used()
    assert len(server.lookups) == 1
    assert max(len(request.body) for request in server.requests) < 12_000 * 4


def test_anthropic_api_from_end_to_end(sandboxed: Odek) -> None:
    """R-82: system prompt beside the messages, results in order, its own key, usage with the cache."""
    with ModelServer(shell("echo one", "echo two"), text("done")) as server:
        outcome = sandboxed.run(
            *(
                "run",
                "--provider",
                "anthropic",
                "--base-url",
                server.base_url,
                "--model",
                "claude-sonnet-4-5",
                "a task",
            ),
            env={"ANTHROPIC_API_KEY": "sk-ant-0123456789", "OPENAI_API_KEY": "sk-not-this-one"},
        )
    server.assert_all_used()
    assert (outcome.code, outcome.stdout) == (0, "done\n"), outcome.stderr
    first, second = (request.json for request in server.requests)
    assert first["system"][0]["text"].endswith("- localhost is the container itself, not the host.")
    assert [block["type"] for block in second["messages"][-1]["content"]] == ["tool_result"] * 2
    assert [
        f"\n{word}\n" in block["content"]
        for word, block in zip(("one", "two"), second["messages"][-1]["content"], strict=True)
    ] == [True, True]
    assert server.requests[0].headers["x-api-key"] == "sk-ant-0123456789"
    assert "authorization" not in server.requests[0].headers


@pytest.mark.parametrize(
    ("flags", "limit", "requests"),
    [
        (("--max-tool-calls", "2"), "2 tool calls", 4),
        (("--max-input-tokens", "250"), "250 input tokens", 3),
        (("--max-output-tokens", "20"), "20 output tokens", 2),
    ],
)
def test_budget_ends_a_task_with_a_code_of_its_own(
    flags: tuple[str, ...], limit: str, requests: int, on_host: Odek
) -> None:
    """Runtime 1.10: exit code 4 and what was done."""
    (on_host.cwd / "f").write_text("y\n")
    read = calls(("read_file", {"path": "f"}), content="I read it")
    script = [read, read, read, text("half done")]
    with ModelServer(*script) as server:
        outcome = on_host.run("run", "--base-url", server.base_url, *flags, "a task")
    assert (outcome.code, outcome.stdout, len(server.requests)) == (4, "", requests), outcome.stderr
    *_, error, words, used, hint = outcome.stderr.splitlines()
    assert error == f"odek: error: the task has used up its limit of {limit}"
    assert words == ("    half done" if requests == 4 else "    I read it")
    assert used.startswith("    used: ")
    assert hint.startswith("odek: hint: ")


def test_runtime_ends_a_command_that_is_running(sandboxed: Odek) -> None:
    """The limit holds while a command runs, and leaves nothing behind."""
    word = f"{800 + os.getpid() % 1000}.{time.monotonic_ns() % 10**6:06}"
    outcome, server = run_script(sandboxed, shell(f"sleep {word}", f"sleep {word}"), flags=("--max-runtime", "2"))
    assert (outcome.code, len(server.requests)) == (4, 1), outcome.stderr
    assert "odek: error: the task has used up its limit of 2 seconds\n" in outcome.stderr
    assert running_with(word) == []


def test_a_project_may_lower_a_limit(on_host: Odek) -> None:
    (on_host.cwd / "odek.json").write_text(json.dumps({"limits": {"max_tool_calls": 1}}))
    read = calls(("read_file", {"path": "odek.json"}))
    with ModelServer(read, read, text("half")) as server:
        outcome = on_host.run("run", "--base-url", server.base_url, "a task")
    assert (outcome.code, len(server.requests)) == (4, 3), outcome.stderr
