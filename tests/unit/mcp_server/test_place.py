"""The place of the calls, prepared at once and opened when it is needed, and the tools that are shown of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes.docker import FakeDocker
from fakes.layering import make_host, make_layers
from fakes.notices import Notes
from fakes.runtimes import fake_runtime, script_start, spec_of

from odek.app.config import config_of
from odek.app.isolation import CommandProfile
from odek.cancel import CancelToken, use_token
from odek.errors import Cancelled, OdekError
from odek.mcp_server.background import Background
from odek.mcp_server.place import RETRY_S, Place
from odek.mcp_server.server import ToolCall
from odek.mcp_server.service import HOST_INSTRUCTIONS, INSTRUCTIONS
from odek.mcp_server.tools import Tools, result_of
from odek.sandbox.docker import ClientMissing, Docker
from odek.sandbox.errors import SandboxError
from odek.tools.registry import ToolResult, failure

PROFILE = CommandProfile(command="mcp", never_on_host=True)
LONG_S = 60.0
NAMES = ["shell", "read_file", "search_files", "glob", "write_file", "patch", "config_view", "sandbox_restart"]


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Changes:
    """Counts what the client is told."""

    def __init__(self) -> None:
        self.count = 0
        self.came = threading.Event()

    def __call__(self) -> None:
        self.count += 1
        self.came.set()


def make_place(
    tmp_path: Path, docker: Docker, *, clock: Clock | None = None, changed: Any = lambda: None, **settings: object
) -> Place:
    host = make_host(tmp_path, {"PATH": "/usr/bin"}, uid=1000)
    operator: Mapping[str, object] = {"sandbox_image": "some/image:1", **settings}
    config = config_of(make_layers(operator=operator))
    return Place(PROFILE, config, fake_runtime(host, docker), changed=changed, clock=clock or Clock())


def make_tools(place: Place, changed: Any = lambda: None, *, agent: bool = False) -> Tools:
    return Tools(place, agent=agent, ask=lambda *_: None, changed=changed)


def no_client() -> FakeDocker:
    docker = FakeDocker()
    for _ in range(3):
        missing = ClientMissing("docker was not found on PATH")
        docker.on("info", raises=missing).on("version", raises=missing)
    return docker


def test_work_in_the_background_outlives_who_waits_for_it() -> None:
    """R-178: a cancelled call leaves the start of the sandbox to the others."""
    go = threading.Event()
    work = Background(lambda: go.wait(LONG_S) and "done", CancelToken())
    with pytest.raises(TimeoutError):
        work.wait(0.01)
    token = CancelToken()
    token.cancel()
    with use_token(token), pytest.raises(Cancelled):
        work.wait()
    assert not work.done
    go.set()
    assert work.wait() == "done"

    def fail() -> None:
        raise OdekError("no")

    failed = Background(fail, CancelToken())
    for _ in range(2):
        with pytest.raises(OdekError, match="no"):
            failed.wait()
    assert failed.failed


def test_what_fails_is_an_error_of_each_call_and_tried_again_after_a_while(tmp_path: Path) -> None:
    """R-171: five seconds later at the earliest."""
    clock, docker = Clock(), no_client()
    place = make_place(tmp_path, docker, clock=clock)
    place.prepare()
    tools = make_tools(place)
    call = ToolCall(name="shell", arguments={"command": "true"}, forms=False, modern=False, state="", answers={})
    for step in (0.0, 0.0, RETRY_S - 0.1):
        clock.now += step
        with pytest.raises(OdekError, match="docker client was not found"):
            tools.call(call)
    tried = len(docker.calls)
    clock.now += 0.2
    with pytest.raises(OdekError, match="docker client was not found"):
        tools.call(call)
    assert len(docker.calls) > tried
    assert list((tmp_path / "work").iterdir()) == []


def test_the_tools_are_known_before_there_is_a_container(tmp_path: Path) -> None:
    """R-110, R-176: from what is planned; where that is better known later, the client hears of it once."""
    changes = Changes()
    place = make_place(tmp_path, no_client(), changed=lambda: tools.place_changed())
    tools = make_tools(place, changes)
    assert changes.count == 0
    first = tools.listing()
    assert first == tools.listing()
    assert (
        "- Container: odek-1-1\n- Workspace: /workspace\n- User: 1000:0\n- Network: none\n" in first[0]["description"]
    )
    tools.place_changed()
    assert changes.count == 0  # it is as it was shown

    docker = script_start(FakeDocker(), spec_of(place.runtime.host))
    planned = make_place(tmp_path, docker, changed=lambda: others.place_changed(), sandbox_user="7:7")
    others = make_tools(planned, changes)
    place_block = others.listing()[0]["description"]
    assert "- User: 7:7\n" in place_block
    planned.prepare()
    facts = planned.facts(timeout_s=LONG_S)
    assert facts is not None
    assert facts.user == "7:7"
    assert others.listing()[0]["description"] == place_block
    assert changes.count == 0
    planned._facts = replace(facts, name="odek-1-2")
    others.place_changed()
    others.place_changed()
    assert changes.count == 1
    assert "- Container: odek-1-2\n" in others.listing()[0]["description"]


@pytest.mark.parametrize("part", [["sandbox"], {"a": 1}, 5, True])
def test_the_settings_that_are_planned_check_their_argument(tmp_path: Path, part: object) -> None:
    """R-177: before there is a container, too."""
    tools = make_tools(make_place(tmp_path, no_client()))
    call = ToolCall(name="config_view", arguments={"part": part}, forms=False, modern=False, state="", answers={})
    result = tools.call(call)
    assert (result["isError"], result["content"][0]["text"][:38]) == (True, 'invalid arguments: "part" must be text')


def check_schema(schema: Any, where: str) -> None:
    """What clients stumble over (P-21)."""
    assert isinstance(schema, dict), where
    assert not {"$ref", "$schema", "anyOf", "oneOf", "allOf", "not", "if", "outputSchema"} & set(schema), where
    assert all(value is not None for value in schema.values()), where
    if schema.get("type") == "array":
        check_schema(schema["items"], f"{where}[]")
    for name, each in schema.get("properties", {}).items():
        assert each["type"] in ("string", "integer", "boolean", "array", "object"), f"{where}.{name}"
        check_schema(each, f"{where}.{name}")


def test_schemas_are_plain_and_descriptions_short(tmp_path: Path) -> None:
    """R-175, R-176, D-18, P-21, P-22"""
    tools = make_tools(make_place(tmp_path, no_client()), agent=True)
    listed = tools.listing()
    assert [tool["name"] for tool in listed] == [*NAMES, "run_task"]
    for tool in listed:
        assert set(tool) == {"name", "title", "description", "inputSchema", "annotations"}
        assert (tool["inputSchema"]["type"], type(tool["inputSchema"]["required"])) == ("object", list)
        assert set(tool["inputSchema"]["required"]) <= set(tool["inputSchema"]["properties"])
        check_schema(tool["inputSchema"], tool["name"])
        assert len(tool["description"].partition("## Execution environment")[0]) < 1200
        hints = tool["annotations"]
        changes = tool["name"] in ("shell", "write_file", "patch", "sandbox_restart", "run_task")
        assert hints["readOnlyHint"] is not changes
        assert hints.get("destructiveHint", False) is changes
        assert hints["openWorldHint"] is False
    assert max(len(INSTRUCTIONS), len(HOST_INSTRUCTIONS)) < 1500


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"sandbox_readonly": True}, [name for name in NAMES if name not in ("write_file", "patch")]),
        ({"tools": {"enabled": ["glob", "shell"]}}, ["shell", "glob"]),
        ({"tools": {"enabled": []}}, []),
        ({"tools": {"disabled": ["shell", "sandbox_restart"]}}, [n for n in NAMES[1:] if n != "sandbox_restart"]),
        ({"sandbox": False}, NAMES[:-1]),
        ({"sandbox_network": "bridge"}, NAMES),
    ],
)
def test_which_tools_there_are(tmp_path: Path, settings: dict[str, object], names: list[str]) -> None:
    """R-175, R-170: the shell is of an open world where the network is."""
    tools = make_tools(make_place(tmp_path, no_client(), **settings))
    listed = tools.listing()
    assert [tool["name"] for tool in listed] == names
    by_name = {tool["name"]: tool for tool in listed}
    if "shell" in by_name:
        open_world = settings.get("sandbox_network") == "bridge" or settings.get("sandbox") is False
        assert by_name["shell"]["annotations"]["openWorldHint"] is open_world
        assert ("HOST" in by_name["shell"]["description"]) is (settings.get("sandbox") is False)


@pytest.mark.parametrize(
    ("outcome", "text", "failed"),
    [
        (ToolResult(text="out\nexit code: 0"), "out\nexit code: 0", None),
        (ToolResult(text="exit code: 1", failed=True), "exit code: 1", None),
        (failure('no "x"'), 'no "x"', True),
        (ToolResult(text="a\ntimed out", failed=True, cause="timed out"), "timed out\n\na\ntimed out", True),
    ],
)
def test_the_cause_comes_first(outcome: ToolResult, text: str, failed: bool | None) -> None:
    """R-177, D-18, P-29, W-33: `isError` only where the tool did not do its work."""
    result = result_of(outcome)
    assert result["content"] == [{"type": "text", "text": text}]
    assert result.get("isError") is failed


def test_what_docker_said_of_a_start_that_failed_is_on_stderr(tmp_path: Path) -> None:
    """R-171, R-172: the client gets the message and the hint, which refers to Docker's words; once for each try."""
    place = make_place(tmp_path, FakeDocker())
    docker = FakeDocker().on("run", code=125, stderr="no space left on device")
    notes = Notes()
    host = replace(place.runtime.host, uid=os.getuid())
    place.runtime = replace(place.runtime, host=host, docker=script_start(docker, spec_of(host)), emit=notes)
    for _ in range(2):
        with pytest.raises(SandboxError, match="did not start the sandbox"):
            place.workspace()
    assert [note for note in notes.notes if "Docker says" in note] == ["Docker says: no space left on device"]
