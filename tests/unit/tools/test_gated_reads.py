"""Reading tools behind the gate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from fakes.executor import FakeExecutor, command_result
from fakes.gates import FakeGate
from fakes.tools import call_tool, workspace

from odek.app.tools import TOOLS
from odek.approval.operation import Operation
from odek.model.types import ToolCall
from odek.tools.batch import BATCH_READ
from odek.tools.diff import DIFF
from odek.tools.files import READ_FILE
from odek.tools.registry import Tool, Toolbox, ToolResult
from odek.tools.search import SEARCH_FILES
from odek.tools.workspace import FOLDER, PATH, PATH_KEYS

FILES = {"a": b"PAYLOAD\n", ".env": b"TOKEN=1\n"}
SHOWN = command_result(b"PAYLOAD\n", stderr=b"")


@pytest.mark.parametrize(
    ("tool", "arguments", "paths"),
    [
        (READ_FILE, {"path": "./a"}, ["a"]),
        (READ_FILE, {"path": "/workspace/x/../.env"}, [".env"]),
        (BATCH_READ, {"files": [{"path": "a"}, {"path": ".env"}, {"path": "./a"}]}, ["a", ".env"]),
        (DIFF, {"path_a": "a", "path_b": ".env"}, ["a", ".env"]),
        (SEARCH_FILES, {"pattern": "x", "path": ".env"}, [".env"]),
        (SEARCH_FILES, {"pattern": "x"}, []),
        (READ_FILE, {"path": "/etc/passwd"}, []),
        (READ_FILE, {"path": "/ctx/notes"}, []),
        (READ_FILE, {"path": "~/.ssh/id_rsa"}, []),
    ],
)
def test_every_file_of_the_workspace_is_asked_about(tool: Tool, arguments: dict[str, Any], paths: list[str]) -> None:
    """Runtime 5.4: each once, by its plain path; what lies outside the executor refuses."""
    gate = FakeGate()
    executor = FakeExecutor(files=FILES)
    assert tool.operations(workspace(executor, gate), arguments) == tuple(
        Operation(kind="read", subject=path) for path in paths
    )
    call_tool(tool, executor, gate, **arguments)
    assert gate.subjects == paths


def test_refusal_refuses_the_whole_call() -> None:
    """Nothing of it is read."""
    executor = FakeExecutor(files=FILES)
    refused = call_tool(BATCH_READ, executor, FakeGate({".env": "not that"}), files=["a", ".env"])
    assert refused == ToolResult(text='{"error":"not that"}', failed=True)
    assert executor.reads == []


def test_what_is_refused_without_a_question_is_refused_first() -> None:
    """Nobody is asked about a call that cannot run."""
    gate = FakeGate(forbidden={".env": "never"})
    assert call_tool(BATCH_READ, FakeExecutor(files=FILES), gate, files=["a", ".env"]).failed
    assert gate.subjects == [".env"]


def test_what_is_let_through_is_read_at_the_same_time_as_other_calls() -> None:
    """Asked before, in the main thread; the reading asks nobody."""
    gate = FakeGate()
    tools = Toolbox((READ_FILE,), workspace(FakeExecutor(files=FILES), gate))
    (prepared,) = tools.prepare([ToolCall(id="1", name="read_file", arguments='{"path":"a"}')])
    authorized = tools.authorize(prepared)
    count = len(gate.asked)
    assert ("1|PAYLOAD" in tools.run(authorized).text, len(gate.asked), prepared.parallel) == (True, count, True)


CALLS: dict[str, dict[str, Any]] = {
    "shell": {"command": "cat a"},
    "parallel_shell": {"commands": ["cat a", "true"]},
    "read_file": {"path": "a"},
    "batch_read": {"files": ["a", ".env"]},
    "write_file": {"path": "a", "content": "x"},
    "patch": {"path": "a", "old_string": "PAYLOAD", "new_string": "x"},
    "batch_patch": {"patches": [{"path": "a", "old_string": "PAYLOAD", "new_string": "x"}]},
    "search_files": {"pattern": "."},
    "glob": {"pattern": "**"},
    "file_info": {"path": "a"},
    "tree": {},
    "diff": {"path": "a", "content": ""},
    "config_view": {},
}


def path_arguments(schema: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of the arguments, at any depth, that are described as a file or a folder."""
    for name, inner in schema.get("properties", {}).items():
        if inner in (PATH, FOLDER):
            yield name
        yield from path_arguments(inner)
    if "items" in schema:
        yield from path_arguments(schema["items"])


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_each_argument_that_is_a_path_is_known_as_one(tool: Tool) -> None:
    """R-84, B112: read_operations asks about those alone, and localized translates no other."""
    assert set(path_arguments(tool.parameters)) - set(PATH_KEYS) == set()


def test_an_argument_that_is_not_known_as_a_path_is_found() -> None:
    parameters = {"properties": {"moves": {"items": {"properties": {"from": PATH, "path": PATH}}}, "to": FOLDER}}
    assert list(path_arguments(parameters)) == ["from", "path", "to"]


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_no_tool_acts_on_what_the_gate_refuses(tool: Tool) -> None:
    """R-84: no command runs, no file is written, no line is shown; for every tool there is."""
    commands = {"cat a": SHOWN, "true": SHOWN}
    executor = FakeExecutor(files=FILES, commands=commands)
    result = call_tool(tool, executor, FakeGate(answer="no"), **CALLS[tool.name])
    assert ("PAYLOAD" in result.text, "TOKEN" in result.text) == (False, False)
    assert (executor.files, executor.runs) == (FILES, [])
    allowed = call_tool(tool, FakeExecutor(files=FILES, commands=commands), **CALLS[tool.name])
    assert not allowed.failed, "the table's call is one that works where it may"
