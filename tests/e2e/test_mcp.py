"""`odek mcp` as a process, with a client that sees every byte."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from fakes.model_server import ModelServer, calls, text
from support.docker_engine import Engine
from support.fuzz_mcp import fuzz
from support.mcp_client import FORMS, LONG_S, McpClient, modern_meta, text_of
from support.odek_process import Odek

from odek.mcp.messages import LEGACY, MODERN

TOOLS = ["shell", "read_file", "search_files", "glob", "write_file", "patch", "config_view", "sandbox_restart"]


@pytest.fixture
def sandboxed(odek: Odek, docker_engine: Engine, base_image: str) -> Odek:
    """The program, whose operator has the tests' own image."""
    folder = odek.home / ".odek"
    folder.mkdir(mode=0o700)
    (folder / "config.json").write_text(json.dumps({"sandbox_image": base_image}))
    return odek


def processes(engine: Engine, name: str, needle: str) -> list[str]:
    """Return the processes in a container whose command line holds `needle`."""
    listed = engine.run("top", name, check=False).stdout
    return [line for line in listed.splitlines() if needle in line]


def wait_until(condition: Any, *, timeout_s: float = LONG_S) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def own_containers(engine: Engine, pid: int) -> list[str]:
    names = engine.run("ps", "-a", "--format", "{{.Names}}").stdout.split()
    return [name for name in names if name.startswith(f"odek-{pid}-")]


def test_a_client_works_in_one_container(sandboxed: Odek, docker_engine: Engine, base_image: str) -> None:
    """R-171, R-175 to R-178, W-30, W-33: it starts with the first call that needs it and ends with the input."""
    client = McpClient(sandboxed)
    client.initialize()
    listed = client.request("tools/list")["tools"]
    assert [tool["name"] for tool in listed] == TOOLS
    client.call("config_view", part="sandbox")
    name = f"odek-{client.pid}-1"
    assert f"- Container: {name}\n" in listed[0]["description"]
    assert own_containers(docker_engine, client.pid) == []

    assert client.call("shell", command="true") == ("(no output)\nexit code: 0", False)
    hostname = docker_engine.run("inspect", "--format", "{{.Config.Hostname}}", name).stdout.strip()
    text, failed = client.call("shell", command="hostname; pwd; echo problem >&2; echo ü >made")
    assert (text, failed) == (
        f"{hostname}\n/workspace\nproblem\nexit code: 0",
        False,
    )
    assert (sandboxed.cwd / "made").read_text() == "ü\n"
    assert client.request("tools/list")["tools"] == listed
    assert not [message for message in client.messages if message.get("method")]

    assert client.call("shell", command="grep -c x /dev/null") == ("0\nexit code: 1", False)
    text, failed = client.call("shell", command="head -c 10000000 /dev/zero | tr '\\0' a")
    assert not failed
    assert 29_000 < len(text) < 31_000
    assert text.endswith("exit code: 0\nthe whole output had 10000000 bytes")
    text, failed = client.call("shell", command="echo before; sleep 1000", timeout=1)
    assert failed
    assert text.startswith("timed out after 1 s\n\nbefore\n")

    sleeping = client.begin("shell", command="sleep 4321 & sleep 4321")
    beside = client.begin("shell", command="sleep 1; echo beside")
    wait_until(lambda: len(processes(docker_engine, name, "sleep 4321")) >= 2)
    client.notify("notifications/cancelled", {"requestId": sleeping, "reason": "no longer wanted"})
    wait_until(lambda: not processes(docker_engine, name, "sleep 4321"))
    assert text_of(client.answer_to(beside)["result"]) == ("beside\nexit code: 0", False)

    assert client.call("write_file", path="a.txt", content="one\n")[1] is False
    assert client.call("read_file", path="a.txt") == ("1|one\ntotal_lines: 1", False)
    assert client.call("read_file", path="../etc/passwd") == ('"../etc/passwd" leaves the workspace', True)
    assert client.call("shell", cmd="x") == ('invalid arguments: "command" is missing', True)
    refusal, failed = client.call("shell", command="rm -rf .")
    assert failed
    assert refusal.startswith("operation denied (non-interactive mode): rm -rf .\nIt is of class destructive: ")
    assert refusal.endswith('"sandboxed": {"classes": {"destructive": "allow"}}} in ~/.odek/config.json.')
    shown = json.loads(client.call("config_view", part="sandbox")[0])["sandbox"]
    assert (shown["container"], shown["network"], shown["image"]) == (name, "none", base_image)

    client.call("shell", command="echo kept >/tmp/kept")
    assert client.call("sandbox_restart") == (f"a new container runs: odek-{client.pid}-2", False)
    assert client.call("shell", command="cat /tmp/kept") == (
        "cat: can't open '/tmp/kept': No such file or directory\nexit code: 1",
        False,
    )
    client.wait_for(lambda message: message.get("method") == "notifications/tools/list_changed")
    assert f"- Container: odek-{client.pid}-2\n" in client.request("tools/list")["tools"][0]["description"]

    waiting = client.begin("shell", command="sleep 1000")
    wait_until(lambda: processes(docker_engine, f"odek-{client.pid}-2", "sleep 1000"))
    docker_engine.run("kill", f"odek-{client.pid}-2")
    text, failed = text_of(client.answer_to(waiting)["result"])
    assert failed
    assert "sandbox" in text.splitlines()[0]
    assert client.call("shell", command="echo again") == ("again\nexit code: 0", False)
    assert client.end() == 0
    assert own_containers(docker_engine, client.pid) == []
    assert sleeping not in [message.get("id") for message in client.messages]
    lines = [line for line in client.stderr if line.startswith("odek: sandbox")]
    assert lines == [f"odek: sandbox network=none pids=4096 image={base_image}\n"] * 3


def test_a_modern_client_works_without_a_handshake(sandboxed: Odek, docker_engine: Engine) -> None:
    """W-28, W-32, R-179: discover, list, call, progress; a question, its answer, and answers that do not count."""
    client = McpClient(sandboxed)
    meta = modern_meta()
    assert client.request("server/discover", {"_meta": meta})["supportedVersions"] == [MODERN, *LEGACY]
    assert [tool["name"] for tool in client.request("tools/list", {"_meta": meta})["tools"]] == TOOLS
    result = client.answer_to(client.begin("shell", meta=meta, command="echo modern"))["result"]
    assert text_of(result) == ("modern\nexit code: 0", False)
    assert result["resultType"] == "complete"

    (sandboxed.cwd / "victim").mkdir()
    wipe: dict[str, Any] = {"name": "shell", "arguments": {"command": "rm -rf ./*"}, "_meta": modern_meta(FORMS)}
    asked = client.request("tools/call", wipe)
    assert asked["resultType"] == "input_required"
    ((key, question),) = asked["inputRequests"].items()
    assert question["method"] == "elicitation/create"
    assert "rm -rf ./*" in question["params"]["message"]
    assert question["params"]["requestedSchema"]["required"] == ["decision"]

    def retry(state: str, answer: Any, **changed: Any) -> tuple[str, bool]:
        params = {**wipe, **changed, "requestState": state, "inputResponses": {key: answer}}
        outcome = client.request("tools/call", params)
        return text_of(outcome) if outcome["resultType"] == "complete" else ("asked again", True)

    yes = {"action": "accept", "content": {"decision": "allow once"}}
    state = asked["requestState"]
    forged = state[:-1] + ("0" if state[-1] != "0" else "1")
    assert "not one of this server" in retry(forged, yes)[0]
    other = {"name": "shell", "arguments": {"command": "rm -rf /workspace"}}
    assert "of another call" in retry(state, yes, **other)[0]
    assert "declined" in retry(state, {"action": "decline"})[0]
    assert "used before" in retry(state, yes)[0]
    assert (sandboxed.cwd / "victim").is_dir()
    for no in ({"action": "accept", "content": {"decision": "deny"}}, {"action": "cancel"}, {"action": "accept"}, 5):
        text, failed = retry(client.request("tools/call", wipe)["requestState"], no)
        assert failed
        assert text.startswith("operation denied ")
    assert (sandboxed.cwd / "victim").is_dir()
    assert retry(client.request("tools/call", wipe)["requestState"], yes) == ("(no output)\nexit code: 0", False)
    assert not (sandboxed.cwd / "victim").exists()
    assert client.request("tools/call", wipe)["resultType"] == "input_required"  # once is once

    legacy = McpClient(sandboxed)
    legacy.initialize("2025-06-18", FORMS)
    for answer, ending in (
        ({"action": "decline"}, "the client, or its user, declined"),
        ({"action": "accept", "content": {"decision": "ALLOW ONCE"}}, "no valid answer"),
        (yes, "exit code: 0"),
    ):
        calling = legacy.begin("shell", command="rm -rf ./*")
        question = legacy.wait_for(lambda message: message.get("method") == "elicitation/create")
        legacy.messages.remove(question)
        assert "rm -rf ./*" in question["params"]["message"]
        legacy.answer_question(question, answer)
        assert ending in text_of(legacy.answer_to(calling)["result"])[0]
    # a question that nobody answers holds up no other call, and ends with the call
    calling = legacy.begin("shell", command="rm -rf ./*")
    legacy.wait_for(lambda message: message.get("method") == "elicitation/create")
    assert legacy.call("shell", command="echo beside") == ("beside\nexit code: 0", False)
    legacy.notify("notifications/cancelled", {"requestId": calling})
    long = "x" * 3000
    text, failed = legacy.call("shell", command=f"rm -rf ./* # {long}")
    assert failed
    assert "longer than the 2000 characters" in text
    assert (client.end(), legacy.end()) == (0, 0)


def test_nothing_is_left_of_a_server(sandboxed: Odek, docker_engine: Engine) -> None:
    """W-31, P-23, R-180: with calls at work and others waiting, however it ends."""
    clients = {how: McpClient(sandboxed) for how in ("input", "output", "HUP", "INT", "TERM", "KILL")}
    for client in clients.values():
        client.initialize()
        for _ in range(10):
            client.begin("shell", command="sleep 1000")
    pids = [client.pid for client in clients.values()]
    for pid in pids:
        wait_until(lambda pid=pid: processes(docker_engine, f"odek-{pid}-1", "sleep 1000"))
    assert clients["input"].end() == 0
    clients["output"].close_output()
    assert clients["output"].process.wait(LONG_S) in (0, 141)
    for how in ("HUP", "INT", "TERM", "KILL"):
        number = signal.Signals[f"SIG{how}"]
        assert clients[how].kill(number) == (-9 if how == "KILL" else 128 + number)
    for pid in pids:
        wait_until(lambda pid=pid: not own_containers(docker_engine, pid))


def test_starts_that_only_probe_cost_nothing(sandboxed: Odek, docker_engine: Engine) -> None:
    """W-31, P-24: several at once, with an empty input and with an opening only."""
    clients = [McpClient(sandboxed) for _ in range(4)]
    for client in clients[2:]:
        client.initialize()
        client.request("tools/list")
    assert [client.end() for client in clients] == [0] * 4
    assert [client.messages for client in clients[:2]] == [[], []]
    assert all(not own_containers(docker_engine, client.process.pid) for client in clients)


NOWHERE = {"DOCKER_HOST": "tcp://127.0.0.1:1", "DOCKER_CONTEXT": ""}


def test_without_docker_each_call_is_an_error_and_nothing_runs_here(odek: Odek) -> None:
    """W-34, R-170, R-171: the tools are listed all the same, and twice the same."""
    client = McpClient(odek, env=NOWHERE)
    assert client.initialize()["serverInfo"]["name"] == "odek"
    listed = client.request("tools/list")["tools"]
    assert "- Network: none\n- Internet: not reachable\n" in listed[0]["description"]
    assert client.request("tools/list")["tools"] == listed
    for call in (("shell", {"command": "echo here >mark"}), ("write_file", {"path": "mark", "content": "x"})):
        text, failed = client.call(call[0], **call[1])
        assert failed
        assert "Docker" in text[:500]
        assert "\nhint: " in text
    assert json.loads(client.call("config_view", part="sandbox")[0])["sandbox"]["started"] is False
    assert client.end() == 0
    assert list(odek.cwd.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "config", "message"),
    [
        (("--sandbox-network", "hots"), None, "hots"),
        (("--nonsense",), None, "--nonsense"),
        (("--workdir", "nowhere"), None, '--workdir "nowhere" cannot be entered'),
        (("--workdir", "/"), None, "is not shared with a sandbox"),
        ((), {"sandbox_memory": "lots"}, "lots"),
        ((), {"tools": {"enabled": ["shel"]}}, 'there is no tool "shel"'),
        (("--no-sandbox",), None, "ODEK_REQUIRE_SANDBOX"),
    ],
)
def test_a_mistake_ends_the_start_before_a_byte_is_written(
    odek: Odek, arguments: tuple[str, ...], config: object, message: str
) -> None:
    """R-171"""
    if config is not None:
        (odek.home / ".odek").mkdir(mode=0o700)
        (odek.home / ".odek" / "config.json").write_text(json.dumps(config))
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}) + "\n"
    outcome = odek.run("mcp", *arguments, stdin=line, env={"ODEK_REQUIRE_SANDBOX": "1", **NOWHERE})
    assert outcome.code in (1, 2)
    assert outcome.stdout == ""
    assert message in outcome.stderr


def test_a_folder_that_is_not_shared_names_the_flag(odek: Odek) -> None:
    """R-170: clients start servers in the home, or in /."""
    for folder in (odek.home, Path("/")):
        outcome = odek.run("mcp", cwd=folder, env=NOWHERE)
        assert (outcome.code, outcome.stdout) == (1, "")
        assert "hint: --workdir DIR says where to work" in outcome.stderr


@pytest.mark.parametrize("arguments", [("--no-sandbox",), ()])
def test_on_the_host_it_says_so_and_is_strict(odek: Odek, arguments: tuple[str, ...]) -> None:
    """R-170, D-21, R-179: the first line on stderr, the instructions and the description say HOST."""
    client = McpClient(odek, *arguments, env={**NOWHERE, **({} if arguments else {"ODEK_NO_SANDBOX": "1"})})
    opened = client.initialize(capabilities=FORMS)
    assert "HOST" in opened["instructions"]
    listed = client.request("tools/list")["tools"]
    assert [tool["name"] for tool in listed] == TOOLS[:-1]
    assert "HOST" in listed[0]["description"]
    assert listed[0]["annotations"]["openWorldHint"] is True
    assert client.call("shell", command="pwd") == (f"{os.path.realpath(odek.cwd)}\nexit code: 0", False)
    refusal, failed = client.call("shell", command="curl https://example.org")
    assert failed
    assert refusal.startswith("operation denied (non-interactive mode)")
    assert "It would happen on the host, without a sandbox." in refusal
    assert client.end() == 0
    assert not [message for message in client.messages if message.get("method") == "elicitation/create"]
    assert re.match(r"odek: warning: commands of the client run ON THIS HOST", client.stderr[0])


def test_the_operator_may_let_the_client_ask_on_the_host(odek: Odek) -> None:
    """R-179: `mcp.elicitation` true; false asks nowhere."""
    for setting, asks in (("true", True), ("false", False)):
        client = McpClient(odek, "--no-sandbox", env={**NOWHERE, "ODEK_MCP_ELICITATION": setting})
        client.initialize(capabilities=FORMS)
        calling = client.begin("shell", command="curl --version && curl https://127.0.0.1:1/")
        if asks:
            question = client.wait_for(lambda message: message.get("method") == "elicitation/create")
            assert "HOST" in question["params"]["message"]
            client.answer_question(question, {"action": "accept", "content": {"decision": "deny"}})
        text, failed = text_of(client.answer_to(calling)["result"])
        assert failed
        assert text.startswith("operation denied by user" if asks else "operation denied (non-interactive mode)")
        assert client.end() == 0


def test_debug_adds_methods_and_ids_but_no_arguments(odek: Odek) -> None:
    """R-172: stdout stays the protocol."""
    client = McpClient(odek, env={**NOWHERE, "ODEK_DEBUG": "1"})
    client.initialize()
    client.call("shell", command="echo planted-argument")
    assert client.end() == 0
    log = "".join(client.stderr)
    assert "tools/call" in log
    assert "planted-argument" not in log


def test_broken_lines_and_a_chatty_docker_client(odek: Odek, tmp_path: Path) -> None:
    """W-29: the process lives, and stdout holds nothing but messages (each line of it is parsed as it comes)."""
    programs = tmp_path / "bin"
    programs.mkdir()
    noisy = programs / "docker"
    noisy.write_text("#!/bin/sh\necho '{\"noise\": 1}'\necho noise >&2\nexit 1\n")
    noisy.chmod(0o755)
    client = McpClient(odek, env={"PATH": f"{programs}:{os.environ['PATH']}"})
    client.initialize()
    assert client.call("shell", command="true")[1] is True
    assert fuzz(client, seed=11, count=2000) > 1500
    assert client.end() == 0
    assert [line for line in client.stderr if "bug" in line] == []


@pytest.mark.once
def test_stdout_holds_messages_only_while_an_image_is_built(sandboxed: Odek, base_image: str) -> None:
    """W-29, R-172, R-171: with warnings of a start, and what a project asks for approved by the environment."""
    (sandboxed.home / ".odek" / "config.json").write_text('{"surprise": 1}')
    (sandboxed.cwd / "Dockerfile.odek").write_text(f"FROM {base_image}\nRUN echo built-{os.getpid()} >/built\n")
    refused = McpClient(sandboxed)
    refused.initialize()
    text, failed = refused.call("shell", command="cat /built")
    assert failed
    assert "approv" in text[:500]
    assert refused.end() == 0
    client = McpClient(sandboxed, env={"ODEK_APPROVE_PROJECT_SANDBOX": "1"})
    client.initialize()
    assert client.call("shell", command="cat /built") == (f"built-{os.getpid()}\nexit code: 0", False)
    fuzz(client, seed=12, count=300)
    assert client.end() == 0
    assert any("surprise" in line for line in client.stderr)
    assert [line for line in client.stderr if "bug" in line] == []


@pytest.mark.once
def test_a_task_for_the_agent_of_odek(sandboxed: Odek, docker_engine: Engine) -> None:
    """R-175: with --agent only; in a container of its own, narrowed by its fields, ended with the call."""
    plain = McpClient(sandboxed)
    plain.initialize()
    assert "error" in plain.answer_to(plain.begin("run_task", goal="x"))
    assert plain.end() == 0
    with ModelServer(
        calls(("shell", {"command": "cat marker; echo x >made || echo refused"})),
        text("it says seen"),
        calls(("shell", {"command": "sleep 3210"})),
    ) as server:
        (sandboxed.cwd / "marker").write_text("seen\n")
        client = McpClient(sandboxed, "--agent", "--base-url", server.base_url, "--model", "scripted")
        client.initialize()
        listed = client.request("tools/list")["tools"]
        assert [tool["name"] for tool in listed] == [*TOOLS, "run_task"]
        assert client.call("run_task", goal="read the marker", readonly=True) == ("it says seen", False)
        assert not (sandboxed.cwd / "made").exists()
        task = json.dumps(server.requests[0].json["messages"])
        assert "read the marker" in task
        result = json.dumps(server.requests[1].json["messages"][-1])
        assert "seen" in result
        assert "refused" in result
        assert client.call("run_task", aim="x") == ('invalid arguments: "goal" is missing', True)
        assert client.call("run_task", goal="x", colour="red")[1] is True
        waiting = client.begin("run_task", goal="wait")
        wait_until(
            lambda: any(
                processes(docker_engine, name, "sleep 3210") for name in own_containers(docker_engine, client.pid)
            )
        )
        client.notify("notifications/cancelled", {"requestId": waiting})
        wait_until(lambda: own_containers(docker_engine, client.pid) == [])
        assert client.end() == 0
        server.assert_all_used()


def test_a_command_on_the_host_holds_nothing_of_the_server(odek: Odek) -> None:
    """R-113, R-172: neither the client's connection nor the private stdout; its own stdin is empty."""
    (odek.home / ".odek").mkdir(mode=0o700)
    (odek.home / ".odek" / "config.json").write_text('{"dangerous": {"action": "allow"}}')
    client = McpClient(odek, "--no-sandbox", env=NOWHERE)
    client.initialize()
    assert client.process.stdin
    assert client.process.stdout
    ours = {os.readlink(f"/proc/{client.pid}/fd/{number}") for number in ("0",)}
    text, failed = client.call("shell", command="for fd in /proc/$$/fd/*; do readlink $fd; done; cat | wc -c")
    assert not failed, text
    assert not ours & set(text.splitlines())
    assert text.endswith("\n0\nexit code: 0")
    assert len([line for line in text.splitlines() if line.startswith("pipe:")]) <= 2
    assert client.end() == 0
