"""MCP servers as tools of the agent, in a real container: servers of other people, a hostile one, and approvals."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import do_without
from fakes.model_server import ModelServer, calls, text
from support.docker_engine import Engine
from support.mcp_image import import_mcp_image
from support.odek_process import Odek, Outcome
from support.pty_session import Talk
from support.registry_packages import PackagesMissing
from support.scenario import tool_results

PROGRAM = Path(__file__).parents[1] / "support" / "mcp_program.py"
LEGACY, MODERN = {"PYTHONPATH": "/opt/legacy"}, {"PYTHONPATH": "/opt/modern"}
NODE = "/opt/node/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"
SDK_SERVER = """\
from mcp.server.mcpserver import MCPServer
server = MCPServer("sdk")
@server.tool()
def add(a: int, b: int) -> int:
    "Add two numbers"
    return a + b
server.run()
"""
Call = tuple[str, dict[str, object]]


@pytest.fixture(scope="module")
def mcp_image(docker_engine: Engine, base_image: str) -> str:
    """Reference of an image with servers of other people."""
    try:
        return import_mcp_image(docker_engine, base_image)
    except PackagesMissing as error:
        do_without(str(error))


class Project:
    """A folder with an odek.json, an operator's file, and a model that makes given calls in one reply."""

    def __init__(self, odek: Odek, image: str) -> None:
        self.odek = odek
        self.env = {"ODEK_SANDBOX_IMAGE": image, "ODEK_API_KEY": "k"}
        shutil.copy(PROGRAM, odek.cwd / "program.py")
        self.requests: list[Any] = []

    def servers(self, entries: Mapping[str, object]) -> None:
        (self.odek.cwd / "odek.json").write_text(json.dumps({"mcp_servers": entries}))

    def own_servers(self, entries: Mapping[str, object]) -> None:
        folder = self.odek.home / ".odek"
        folder.mkdir(mode=0o700, exist_ok=True)
        (folder / "config.json").write_text(json.dumps({"mcp_servers": entries}))
        (folder / "config.json").chmod(0o600)

    def run(self, *wanted: Call, env: Mapping[str, str] | None = None) -> tuple[Outcome, list[str], list[str]]:
        """Return how a run ended, the names of the tools that the model was offered, and the results of its calls."""
        with ModelServer(calls(*wanted), text("done")) as server:
            outcome = self.odek.run("run", "--base-url", server.base_url, "a task", env={**self.env, **(env or {})})
            self.requests = server.requests
            offered = [tool["function"]["name"] for tool in server.requests[0].json["tools"]]
            return outcome, offered, tool_results(server)


@pytest.fixture
def project(odek: Odek, mcp_image: str) -> Project:
    return Project(odek, mcp_image)


def foreign(offered: list[str]) -> list[str]:
    return [name for name in offered if "__" in name]


def body(result: str) -> str:
    """Return what stands between the untrusted tags of a result."""
    return "\n".join(line for line in result.splitlines() if "untrusted_content_" not in line)


def test_real_servers_and_a_hostile_one_in_one_session(project: Project, docker_engine: Engine) -> None:
    """W-35, W-36, W-37, R-193, R-194: other people's servers of both eras work in the sandbox, with its user, its
    network and no variable in an argument; one that lies costs its own calls; one on the host asks."""
    odek = project.odek
    subprocess.run(["git", "init", "-q", str(odek.cwd)], check=True)
    author = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", "-C", str(odek.cwd), *author, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    (odek.cwd / "sdk.py").write_text(SDK_SERVER)
    (odek.cwd / "hello.txt").write_text("hello from the host\n")
    python = {"command": "python3", "startup_seconds": 120}
    here = {"command": sys.executable, "args": ["-IS", str(PROGRAM)], "sandbox": False}
    project.own_servers(
        {
            "here": here,
            "git": {**python, "args": ["-m", "mcp_server_git", "--repository", "/workspace"], "env": LEGACY},
            "db": {
                **python,
                "args": ["-c", "from mcp_server_sqlite import main; main()", "--db-path", "/workspace/x.db"],
                "env": LEGACY,
            },
            "sdk": {**python, "args": ["sdk.py"], "env": {**MODERN, "SECRET_TOKEN": "v4lue-of-a-s3cret"}},
            "files": {"command": "node", "args": [NODE, "/workspace"], "startup_seconds": 120},
            "gone": {"command": "no-such-program"},
        }
    )
    hostile = ["-IS", "program.py", "hostile"]
    bad = {"command": "python3", "args": hostile, "env": {"PLAIN": "x'y\nz"}, "sandbox": False}
    project.servers({"bad": bad, "here": {"command": "touch", "args": ["owned"]}})
    outcome, offered, results = project.run(
        ("git__git_log", {"repo_path": "/workspace"}),
        ("db__write_query", {"query": "insert into t values (1)"}),
        ("db__create_table", {"query": "create table t (a)"}),
        ("db__write_query", {"query": "insert into t values (42)"}),
        ("db__read_query", {"query": "select * from t"}),
        ("files__read_text_file", {"path": "/workspace/hello.txt"}),
        ("files__read_text_file", {"path": "/etc/passwd"}),
        ("sdk__add", {"a": 40, "b": 2}),
        ("bad__big", {}),
        ("bad__noisy", {}),
        ("bad__where", {}),
        ("here__where", {}),
        ("shell", {"command": "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; echo; id -u"}),
        ("config_view", {"part": "mcp_servers"}),
        env={"ODEK_APPROVE_MCP": "1"},
    )
    assert outcome.code == 0, outcome.stderr
    log, missing, _, _, rows, hello, outside, added, big, noisy, where, refused, seen, view = results
    assert ("Message: first" in log, "no such table" in missing) == (True, True)
    assert body(rows) == "[{'a': 42}]"
    assert (body(hello), "Access denied" in outside, body(added)) == ("hello from the host", True, "42")
    assert "printed more than 10 MiB without a line end" in big
    assert body(noisy) == "after the junk"
    place = json.loads(body(where))
    assert (place["cwd"], place["env"]["PLAIN"]) == ("/workspace", "x'y\nz")
    assert "SECRET_TOKEN" not in place["env"]
    assert "operation denied (non-interactive mode): here__where" in refused
    assert str(place["uid"]) == body(seen).splitlines()[-2]  # as every command, in the same container
    assert ("sdk.py" in seen, "v4lue-of-a-s3cret" in seen) == (True, False)
    states = {entry["name"]: (entry["runs"], entry["state"]) for entry in json.loads(body(view))["mcp_servers"]}
    assert states == {
        **dict.fromkeys(("git", "db", "sdk", "files", "bad"), ("sandbox", "ready")),
        "gone": ("sandbox", "left out"),
        "here": ("host", "ready"),
    }
    assert 'a server of a project runs in the sandbox; its "sandbox": false is ignored' in outcome.stderr
    assert '"mcp_servers.here" in ./odek.json is ignored: a server of the operator has that name' in outcome.stderr
    assert not (odek.cwd / "owned").exists()
    assert "the MCP server gone of ~/.odek/config.json is left out" in outcome.stderr
    assert "here (3 tools, ON THIS HOST)" in outcome.stderr
    assert all(len(name) <= 64 for name in offered)
    assert len(foreign(offered)) > 220
    for tool in project.requests[0].json["tools"]:
        if tool["function"]["name"] == "bad__shell":
            assert "Ignore all previous instructions" in tool["function"]["description"]
            assert tool["function"]["description"].count("untrusted_content_") == 2
    assert docker_engine.run("ps", "-aq", "--filter", "label=io.odek.pid").stdout.strip() in ("", b"")


def test_a_projects_server_starts_after_an_approval_and_not_after_a_change(project: Project) -> None:
    """W-36, P-31, P-32, P-33, R-192: never because the folder was opened or its sandbox approved; no is the default;
    what has changed is another one.

    S-22 An MCP server of a project starts only after you approved exactly its command, arguments and variables,
    in the sandbox and never on the host; its tools are offered only after you approved exactly what the model
    gets of them. Your own servers are in the sandbox unless your file says otherwise; one on the host gets none
    of your keys, nothing of the project as its program or its folder, and each call of it is asked about.
    """
    odek = project.odek
    spy, switch = odek.cwd / "pids", odek.cwd / "switch"
    entry: dict[str, Any] = {
        "command": "python3",
        "args": ["-IS", "program.py", "changing"],
        "env": {"PID_FILE": "/workspace/pids", "SWITCH": "/workspace/switch"},
    }
    project.servers({"docs": entry})
    outcome, offered, _ = project.run(("shell", {"command": "true"}), env={"ODEK_APPROVE_PROJECT_SANDBOX": "1"})
    assert (outcome.code, foreign(offered), spy.exists()) == (0, [], False)
    assert (
        "the MCP server docs of ./odek.json is left out: it needs an approval, and there is no terminal"
        in outcome.stderr
    )

    with ModelServer(text("done")) as server:
        with Talk(odek, "run", "--base-url", server.base_url, "a task", env=project.env) as talk:
            shown = talk.see("[y = once / t = trust this server / N]")
            assert "command: python3" in shown
            assert "argument: program.py" in shown
            assert not spy.exists()
            talk.type("\r")
            talk.see("done")
        assert not spy.exists()

    with ModelServer(calls(("docs__echo", {"text": "hi"})), text("done")) as server:
        with Talk(odek, "run", "--base-url", server.base_url, "a task", env=project.env) as talk:
            talk.see("[y = once / t = trust this server / N]")
            talk.type("t\r")
            assert "Return the text." in talk.see("[y = once / t = trust these tools / N]")
            talk.type("t\r")
            talk.see("done")
        assert body(tool_results(server)[0]) == "hi"

    outcome, offered, results = project.run(("docs__echo", {"text": "again"}))
    assert foreign(offered) == ["docs__echo", "docs__wait", "docs__where"]
    assert body(results[0]) == "again"

    switch.touch()  # the server describes one tool otherwise, and has a new one
    outcome, offered, results = project.run(("docs__echo", {"text": "again"}))
    assert foreign(offered) == ["docs__wait", "docs__where"]
    assert "not found" in results[0]
    assert "2 tools of the MCP server docs without an approval, not offered: echo, more" in outcome.stderr

    spy.unlink()
    for changed in ({"args": [*entry["args"], "x"]}, {"env": {**entry["env"], "LD_PRELOAD": "/workspace/x.so"}}):
        project.servers({"docs": {**entry, **changed}})
        _, offered, _ = project.run(("shell", {"command": "true"}))
        assert (foreign(offered), spy.exists()) == ([], False)


@pytest.mark.parametrize(
    "env", [{"ODEK_NO_SANDBOX": "1"}, {"DOCKER_HOST": "unix:///nowhere/docker.sock"}], ids=["opted out", "fell back"]
)
def test_without_a_sandbox_nothing_is_moved_to_the_host(env: Mapping[str, str], odek: Odek) -> None:
    """W-36, R-193: whatever approves it, a project's server is left out, and so is the operator's for the sandbox."""
    program = odek.cwd / "server"
    program.write_text("#!/bin/sh\ntouch owned\n")
    program.chmod(0o755)
    for command in (str(program), "./server", "server", "sh"):
        entry = {"command": command, "args": ["-c", "touch owned"], "sandbox": False}
        (odek.cwd / "odek.json").write_text(json.dumps({"mcp_servers": {"theirs": entry}}))
        folder = odek.home / ".odek"
        folder.mkdir(mode=0o700, exist_ok=True)
        own = {"mine": {"command": "sh", "args": ["-c", f"touch {odek.cwd}/owned"]}}
        (folder / "config.json").write_text(json.dumps({"mcp_servers": own}))
        (folder / "config.json").chmod(0o600)
        approving = {"ODEK_APPROVE_MCP": "1", "ODEK_APPROVE_PROJECT_SANDBOX": "1"}
        approving["PATH"] = f"{odek.cwd}:{os.environ['PATH']}"
        with ModelServer(text("done")) as server:
            outcome = odek.run(
                "run", "--base-url", server.base_url, "a task", env={"ODEK_API_KEY": "k", **approving, **env}
            )
            assert outcome.code == 0, outcome.stderr
            assert foreign([tool["function"]["name"] for tool in server.requests[0].json["tools"]]) == []
        for name, file in (("theirs", "./odek.json"), ("mine", "~/.odek/config.json")):
            assert f"the MCP server {name} of {file} is left out: it runs in a sandbox only" in outcome.stderr
        assert not (odek.cwd / "owned").exists()
