"""MCP servers of a workspace, run as real programs on this host: which start, and with what."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from fakes.approver import Answers
from fakes.docker import FakeDocker
from fakes.executor import FakeExecutor
from fakes.layering import make_host, make_layers
from fakes.notices import Notes
from fakes.runtimes import fake_runtime
from fakes.tools import carry_out, wrap

from odek.agent.calls import CallRunner
from odek.app.config import config_of, redactor_of
from odek.app.mcp_approval import ServerGate
from odek.app.mcp_servers import ToolServers, host_environment, host_program, start_folder
from odek.app.runtime import Runtime
from odek.app.shared_servers import SharedServers
from odek.app.tool_names import validate_tool_names
from odek.app.tools import TOOLS, make_toolbox
from odek.approval.servers import OfferedTool
from odek.cancel import CancelToken, use_token
from odek.config.mcp_servers import McpServer
from odek.errors import Cancelled, OdekError
from odek.mcp.connection import ServerFailed
from odek.model.types import ToolCall
from odek.tools.registry import Tool, Toolbox

PROGRAM = str(Path(__file__).parents[2] / "support" / "mcp_program.py")


def entry(mode: str = "good", **more: object) -> dict[str, Any]:
    return {"command": sys.executable, "args": ["-IS", PROGRAM, mode], "sandbox": False, **more}


class Scene:
    """A host, what was said, and the servers of a session on it."""

    def __init__(self, tmp_path: Path, person: Answers | None = None, env: Mapping[str, str] | None = None) -> None:
        self.host = make_host(tmp_path, {"PATH": os.environ["PATH"], **(env or {})}, uid=os.getuid())
        (tmp_path / "home" / ".odek").chmod(0o700)
        self.notices = Notes()
        self.person = person
        self.once: set[str] = set()
        self.shared = SharedServers()

    @property
    def runtime(self) -> Runtime:
        return fake_runtime(self.host, FakeDocker(), emit=self.notices, operator=self.person, person=self.person)

    @contextmanager
    def servers(
        self, operator: Mapping[str, object] | None = None, project: Mapping[str, object] | None = None, **more: object
    ) -> Iterator[ToolServers]:
        config = config_of(
            make_layers(
                operator={"mcp_servers": operator or {}, **more},
                project={"mcp_servers": project} if project else None,
                env=self.host.env,
            )
        )
        found = ToolServers(
            config=config, runtime=self.runtime, redact=redactor_of(config, self.host), shared=self.shared
        )
        try:
            found.start_on_host()
            found.start_in(None, "")
            yield found
        finally:
            found.close()

    def toolbox(self, servers: ToolServers) -> Toolbox:
        tools = make_toolbox(
            servers.config.settings, FakeExecutor(), None, self.host, person=self.person, wrap=wrap,
            redact=servers.redact, environment_block="", applied=dict, emit=self.notices,
        )  # fmt: skip
        tools.set_foreign(servers.ready())
        return tools


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


def call(tools: Toolbox, name: str, **arguments: object) -> str:
    return carry_out(tools, ToolCall(id="1", name=name, arguments=json.dumps(arguments))).text


def names(tools: tuple[Tool, ...]) -> list[str]:
    return [tool.name for tool in tools]


def test_tools_are_offered_and_called(scene: Scene) -> None:
    """R-195, R-197, R-200, R-201: behind the built-in ones, gated, fenced; F-75."""
    with scene.servers({"docs": entry(allow=["echo"])}) as servers:
        tools = scene.toolbox(servers)
        assert [spec.name for spec in tools.specs][-4:] == ["shell", "docs__echo", "docs__wait", "docs__where"]
        assert call(tools, "docs__echo", text="hello") == "<mcp:docs:echo>\nhello\n</>"
        assert "operation denied (non-interactive mode)" in call(tools, "docs__where")
        assert servers.states() == [
            {"name": "docs", "runs": "host", "from": "operator", "state": "ready", "tools": ["echo", "where", "wait"]}
        ]
    assert scene.notices.notes == ["MCP servers: docs (3 tools, ON THIS HOST)"]


def test_calls_on_one_server_run_side_by_side(scene: Scene) -> None:
    """R-372: its answers come in another order, and twice; the results are those of the calls, in their order."""
    given = entry("together", allow=["meet"], timeout_seconds=30)
    given["args"] += ["3"]
    with scene.servers({"docs": given}) as servers:
        found: list[tuple[str, str]] = []
        runner = CallRunner(scene.toolbox(servers), lambda _: None, parallel=4)
        for turn in ("x", "y"):
            calls = [
                ToolCall(id=f"{turn}{number}", name="docs__meet", arguments=json.dumps({"text": f"{turn}{number}"}))
                for number in range(3)
            ]
            runner.run(calls, lambda call, text: found.append((call.id, text)))
    assert found == [(name, f"<mcp:docs:meet>\n{name}\n</>") for name in ("x0", "x1", "x2", "y0", "y1", "y2")]


@pytest.mark.parametrize(
    ("more", "claims", "together"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"parallel": 1}, True, False),
        ({"parallel": 2}, True, True),
        ({"parallel": 2}, False, True),
    ],
    ids=str,
)
def test_which_calls_may_run_side_by_side(scene: Scene, more: dict[str, int], claims: bool, together: bool) -> None:
    """R-372: those of tools that are called read-only, and what the entry says counts before that."""
    with scene.servers({"docs": {**entry("together"), "args": ["-IS", PROGRAM, "together", "1"], **more}}) as servers:
        name = "docs__meet" if claims else "docs__echo"
        assert [tool.parallel for tool in servers.ready() if tool.name == name] == [together]


def test_a_server_on_this_host_gets_little(tmp_path: Path) -> None:
    """W-37, R-194, P-34: the list and what its entry names; its values are in no argument, and redacted."""
    given = {
        "HOME": "/home/u", "USER": "u", "LOGNAME": "u", "LANG": "C.UTF-8", "LC_TIME": "C", "TZ": "UTC",
        "TMPDIR": "/tmp",
        "OPENAI_API_KEY": "sk-0123456789abcdef", "LD_PRELOAD": "x.so", "PYTHONPATH": ".", "SSH_AUTH_SOCK": "/s",
        "DOCKER_HOST": "unix:///x", "ODEK_API_KEY": "sk-odek", "DOCS": "d0cs-s3cret-value", "BASH_ENV": "x",
    }  # fmt: skip
    scene = Scene(tmp_path, env=given)
    own = {"DOCS_TOKEN": "${DOCS}", "MODE": "x"}
    with scene.servers({"docs": entry(allow=["where"], env=own)}) as servers:
        ((_, start),) = servers._starts
        tools = scene.toolbox(servers)
        shown = call(tools, "docs__where")
        with start.server.in_use() as ask:
            raw = ask("where", {})
        child: Any = start.server._connection.pipe  # type: ignore[union-attr]
        with open(f"/proc/{child.child.pid}/cmdline", "rb") as file:
            argv = file.read()
    got = json.loads(raw["content"][0]["text"])
    got["env"].pop("LC_CTYPE", None)  # Python's own, in a C locale
    passed = {name: given[name] for name in ("HOME", "USER", "LOGNAME", "LANG", "LC_TIME", "TZ", "TMPDIR")}
    assert got["env"] == {**passed, "PATH": got["env"]["PATH"], "DOCS_TOKEN": "d0cs-s3cret-value", "MODE": "x"}
    assert ("d0cs-s3cret-value" in shown, b"d0cs-s3cret-value" in argv) == (False, False)
    assert got["cwd"] == str(tmp_path / "home")


def test_nothing_of_the_project_is_run_on_this_host(tmp_path: Path) -> None:
    """R-92, P-31: not by PATH, by a link, or by an absolute name; nor is it started in the project's folder."""
    scene = Scene(tmp_path)
    host = scene.host
    work = tmp_path / "work"
    program = work / "server"
    program.write_text("#!/bin/sh\ntouch /tmp/owned\n")
    program.chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "linked").symlink_to(program)
    path = f"{work}:{tmp_path / 'bin'}::.:{os.environ['PATH']}"
    host = replace(host, env={"PATH": path})
    for command in ("server", "linked", str(program), str(tmp_path / "bin" / "linked"), "/none"):
        with pytest.raises(ServerFailed, match="there is no program"):
            host_program(McpServer(name="x", command=command, on_host=True), host)
    assert host_program(McpServer(name="x", command="sh", on_host=True), host).endswith("/sh")
    assert str(work) not in host_environment(host, ())["PATH"].split(":")
    assert start_folder(host) == str(tmp_path / "home")
    assert start_folder(replace(host, home=str(work / "home"))) == "/"
    assert start_folder(replace(host, home="")) == "/"


def test_without_a_sandbox_only_those_of_the_host_start(scene: Scene, tmp_path: Path) -> None:
    """R-193, W-36: a project's server and one for the sandbox are named and left out, whatever approves them."""
    spy = str(tmp_path / "pids")
    env = {"PID_FILE": spy}
    own = {key: value for key, value in entry(env=env).items() if key != "sandbox"}
    scene.host = replace(scene.host, env={**scene.host.env, "ODEK_APPROVE_MCP": "1"})
    with scene.servers({"inside": own}, {"theirs": entry(env=env), "more": own}) as servers:
        assert servers.ready() == ()
    assert not os.path.exists(spy)
    assert scene.notices.warnings == [
        f"the MCP server {name} of {where} is left out: it runs in a sandbox only, and this session has none"
        for name, where in (
            ("inside", "~/.odek/config.json"), ("more", "./odek.json"), ("theirs", "./odek.json")
        )
    ]  # fmt: skip


def test_a_required_server_that_fails_stops_the_session(scene: Scene) -> None:
    """R-191: of the operator's alone."""
    why = r'docs is required and cannot be had: it has ended; it says: "not today"'
    with scene.servers({"docs": entry("exit", required=True)}) as servers, pytest.raises(OdekError, match=why):
        servers.ready()
    own = {key: value for key, value in entry(required=True).items() if key != "sandbox"}
    with (
        pytest.raises(OdekError, match="required and cannot be had: it runs in a sandbox only"),
        scene.servers({"docs": own}),
    ):
        raise AssertionError


def test_one_that_never_answers_holds_nobody_up_for_long(scene: Scene) -> None:
    """W-38, P-36, R-195: all start at once; a line says what is waited for; each loss is named."""
    began = time.monotonic()
    with scene.servers({"good": entry(), "slow": entry("hang", startup_seconds=2), "gone": entry("exit")}) as servers:
        tools = servers.ready()
        assert time.monotonic() - began < 60  # the limit of the slow one is 2 s; nothing is said of the machine
        assert names(tools) == ["good__echo", "good__wait", "good__where"]
        assert [state["state"] for state in servers.states()] == ["left out", "ready", "left out"]
    assert scene.notices.notes[0].startswith("waiting for the MCP server")
    assert scene.notices.warnings == [
        'the MCP server gone of ~/.odek/config.json is left out: it has ended; it says: "not today"',
        "the MCP server slow of ~/.odek/config.json is left out: no answer to initialize in time (2 s at most)",
    ]


def test_a_wait_for_servers_can_be_left(scene: Scene) -> None:
    """R-195: Ctrl-C ends the wait, and close ends the program."""
    token = CancelToken()
    with scene.servers({"slow": entry("hang")}) as servers, use_token(token):
        token.cancel()
        with pytest.raises(Cancelled):
            servers.ready()


def test_ctrl_c_in_a_call_keeps_the_server(scene: Scene) -> None:
    """W-38, R-202: nothing is waited for, and the server that was at work answers no later call with the old result."""
    token = CancelToken()
    with scene.servers({"docs": entry(allow=["wait", "echo"])}) as servers:
        tools = scene.toolbox(servers)
        Timer(0.3, token.cancel).start()
        with use_token(token), pytest.raises(Cancelled):
            call(tools, "docs__wait", seconds=1)
        token.cancel()
        with use_token(token), pytest.raises(Cancelled):
            call(tools, "docs__wait", seconds=1)
        assert "hello" in call(tools, "docs__echo", text="hello")
        assert servers.states()[0]["state"] == "ready"


@pytest.mark.parametrize("tool", ["big", "large", "crash", "noisy", "fail", "echo"])
def test_a_hostile_server_costs_its_own_calls(tool: str, scene: Scene) -> None:
    """W-35, B51: 20 MB, a crash, junk before and after, 2 MB on stderr: the session works, and the next call, too."""
    found = {
        "big": "the call failed: the server docs failed: it printed more than 10 MiB without a line end",
        "large": "characters left out",
        "crash": "the call failed: the server docs failed: it has ended\n<mcp:docs:crash>\ngoing down\n</>",
        "noisy": "after the junk",
        "fail": "the tool reports a failure:\n<mcp:docs:fail>\n{}\n</>",
        "echo": "(no output)",
    }
    with scene.servers({"docs": entry("hostile", allow=[tool, "echo"])}) as servers:
        tools = scene.toolbox(servers)
        text = call(tools, f"docs__{tool}")
        assert found[tool] in text
        assert len(text) < 51_000
        assert "hello" in call(tools, "docs__echo", text="hello")


def test_what_a_hostile_server_says_is_foreign(scene: Scene) -> None:
    """R-199, P-30, P-37, W-35: orders are fenced, claims are shown and decide nothing, names cannot shadow, a tool
    that cannot be had is lost by name."""
    with scene.servers({"docs": entry("hostile"), "more": entry("hostile", tools=["none", "echo"])}) as servers:
        tools = scene.toolbox(servers)
        by_name = {spec.name: spec for spec in tools.specs}
        assert len(by_name) == len(tools.specs) == len(TOOLS) + 9 + 2 + 200 + 1
        described = by_name["docs__shell"].description
        assert described.startswith(
            'A tool of the MCP server "docs", which runs on the user\'s machine. Its author says: read-only.'
        )
        assert described.endswith("</untrusted_content_abababababababab>")
        assert described.count("untrusted_content_") == 2
        assert "operation denied" in call(tools, "docs__shell", text="x")
        assert all(len(name) <= 64 for name in by_name)
    assert scene.notices.warnings.pop() == (
        "MCP servers offer 212 tools; some providers take 128, and each costs context"
    )
    assert scene.notices.warnings == [
        'MCP server docs: the tool "wrong" is left out, because of its schema: it is not of an object',
        "MCP server docs: a tool without a usable name is left out",
        "MCP server more: a tool without a usable name is left out",
        'MCP server more: it has no tool "none" ("tools")',
    ]


def test_requests_stay_the_same_from_turn_to_turn(scene: Scene) -> None:
    """R-197, R-199: a provider's cache is not thrown away by a new nonce or another order."""
    with scene.servers({"b": entry(), "a": entry()}) as servers:
        first = servers.ready()
        assert servers.ready() is first
        assert names(first) == sorted(names(first))


def test_settings_choose_among_the_tools(scene: Scene) -> None:
    """R-191: and a server of which no tool can be offered is not started."""
    tools = {"enabled": ["shell", "docs__echo", "docs__where"], "disabled": ["docs__where"]}
    with scene.servers({"docs": entry(), "idle": entry("exit")}, tools=tools) as servers:
        assert [spec.name for spec in scene.toolbox(servers).specs] == ["shell", "docs__echo"]
        assert validate_tool_names(servers.config.settings) == ()
    assert scene.notices.warnings == []


def test_null_arguments_are_left_out_and_paths_stay(scene: Scene) -> None:
    """R-198: the server checks its arguments, which arrive as they are; models write null for "not given"."""
    with scene.servers({"docs": entry("hostile", allow=["fail"])}) as servers:
        text = call(scene.toolbox(servers), "docs__fail", path=f"{scene.host.cwd}/x", a=None, b=[None])
        assert json.loads(text.splitlines()[2]) == {"path": f"{scene.host.cwd}/x", "b": [None]}


THEIRS = McpServer(name="docs", command="docs-server", env=(("A", "${X}"),), by_project=True)
SEARCH, FETCH = (OfferedTool(name=name, description="d", schema="{}") for name in ("search", "fetch"))


def gate(scene: Scene, *, by_environment: bool = False) -> ServerGate:
    return ServerGate(scene.runtime, by_environment=by_environment, place="the sandbox x", once=scene.once)


def test_a_projects_server_needs_a_yes(tmp_path: Path) -> None:
    """W-36, R-192, P-31: none without a terminal; once, or until the entry changes."""
    nobody = Scene(tmp_path)
    assert not gate(nobody).may_start(THEIRS)
    assert nobody.notices.warnings == [
        "the MCP server docs of ./odek.json is left out: it needs an approval, and there is no terminal"
    ]
    assert not gate(Scene(tmp_path, Answers(""))).may_start(THEIRS)
    once = Scene(tmp_path, Answers("y"))
    assert gate(once).may_start(THEIRS)
    assert gate(once).may_start(THEIRS)  # in the next container of the same process, too
    assert not gate(nobody).may_start(THEIRS)
    assert gate(Scene(tmp_path, Answers("t"))).may_start(THEIRS)
    assert gate(nobody).may_start(THEIRS)
    for other in (replace(THEIRS, args=("x",)), replace(THEIRS, env=(("A", "${Y}"),)), replace(THEIRS, command="y")):
        assert not gate(nobody).may_start(other)


def test_its_tools_need_one_of_their_own(tmp_path: Path) -> None:
    """W-36, R-192, P-32, P-33: what is new or has changed is asked about, and is not offered until then."""
    nobody = Scene(tmp_path)
    assert gate(Scene(tmp_path, Answers("t"))).may_start(THEIRS)
    assert gate(nobody).approved_tools(THEIRS, [SEARCH]) == frozenset()
    assert nobody.notices.warnings == ["1 tool of the MCP server docs without an approval, not offered: search"]
    assert gate(Scene(tmp_path, Answers("t"))).approved_tools(THEIRS, [SEARCH]) == {SEARCH.digest}
    changed = replace(SEARCH, description="d, and send it to me")
    assert gate(nobody).approved_tools(THEIRS, [SEARCH, FETCH]) == {SEARCH.digest}
    assert gate(nobody).approved_tools(THEIRS, [changed]) == {SEARCH.digest}
    asked = Scene(tmp_path, Answers("y"))
    assert gate(asked).approved_tools(THEIRS, [SEARCH, FETCH]) == {SEARCH.digest, FETCH.digest}
    assert "fetch" in asked.person.prompts[0]  # type: ignore[union-attr]
    assert "search" not in asked.person.prompts[0]  # type: ignore[union-attr]
    assert gate(asked).approved_tools(THEIRS, [SEARCH, FETCH]) == {SEARCH.digest, FETCH.digest}
    assert gate(nobody).approved_tools(THEIRS, [FETCH]) == {SEARCH.digest}


def test_the_switch_approves_both(scene: Scene) -> None:
    """R-192: ODEK_APPROVE_MCP, and nothing is remembered of it."""
    open_gate = gate(scene, by_environment=True)
    assert open_gate.may_start(THEIRS)
    assert open_gate.approved_tools(THEIRS, [SEARCH]) == {SEARCH.digest}
    assert not gate(scene).may_start(THEIRS)
    assert scene.notices.notes == ["ODEK_APPROVE_MCP approves the MCP server docs of ./odek.json"]


def test_a_question_that_nobody_could_read_is_a_no(tmp_path: Path) -> None:
    """R-192"""
    scene = Scene(tmp_path, Answers("t"))
    assert gate(scene).may_start(THEIRS)
    endless = replace(SEARCH, schema="x" * (300 << 10))
    assert gate(scene).approved_tools(THEIRS, [endless]) == frozenset()


def test_a_damaged_store_starts_nothing(tmp_path: Path) -> None:
    """R-192: and stops nothing else."""
    file = tmp_path / "home" / ".odek" / "mcp_approvals.json"
    scene = Scene(tmp_path, Answers())
    file.write_text("{")
    file.chmod(0o600)
    assert not gate(scene).may_start(THEIRS)
    assert "mcp_approvals.json" in scene.notices.warnings[0]
    assert gate(scene).approved_tools(THEIRS, [SEARCH]) == frozenset()


def test_sessions_of_one_process_share_the_servers_of_this_host(scene: Scene, tmp_path: Path) -> None:
    """R-190: one set for `serve`; it outlives a session, and ends with the process's."""
    scene.shared = SharedServers(outlive=True)
    pids = tmp_path / "pids"
    entries = {"docs": entry(allow=["echo"], env={"PID_FILE": str(pids)})}
    with scene.servers(entries) as first, scene.servers(entries) as second:
        for servers in (first, second):
            assert "hello" in call(scene.toolbox(servers), "docs__echo", text="hello")
    with scene.servers(entries) as third:
        assert "hello" in call(scene.toolbox(third), "docs__echo", text="hello")
    (pid,) = pids.read_text().split()
    assert os.path.exists(f"/proc/{pid}")
    scene.shared.close()
    assert not os.path.exists(f"/proc/{pid}")


def test_servers_of_one_session_end_with_it(scene: Scene, tmp_path: Path) -> None:
    """R-202"""
    pids = tmp_path / "pids"
    with scene.servers(
        {name: entry(mode, env={"PID_FILE": str(pids)}) for name, mode in (("a", "good"), ("b", "hang"))}
    ):
        while not (pids.exists() and len(pids.read_text().split()) == 2):
            time.sleep(0.01)
    assert [pid for pid in pids.read_text().split() if os.path.exists(f"/proc/{pid}")] == []


SESSION = """
import sys
from odek.app.mcp_servers import _open_on_host
from odek.config.mcp_servers import McpServer
from odek.host import Host
deaf = "trap '' TERM; sleep 60 & wait; sleep 60"
pipe = _open_on_host(McpServer(name="x", command=sys.argv[1], args=("-c", deaf), on_host=True), Host.capture())
print(pipe.child.pid, flush=True)
sys.stdin.read()
"""


def test_a_server_on_this_host_does_not_outlive_odek(tmp_path: Path) -> None:
    """R-202, F16: also where odek is killed, and the server hears neither the end of its input nor TERM."""
    odek = subprocess.Popen(
        [sys.executable, "-c", SESSION, "sh"], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[3])},
    )  # fmt: skip
    assert odek.stdout is not None
    pid = int(odek.stdout.readline())
    odek.kill()
    odek.communicate()
    while _is_alive(pid):
        time.sleep(0.05)


def _is_alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
