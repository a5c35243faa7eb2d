"""Reading tools behind the gate."""

from __future__ import annotations

from typing import Any

import pytest
from fakes.executor import FakeExecutor
from fakes.gates import FakeGate
from fakes.tools import call_tool, workspace

from odek.approval.operation import Operation
from odek.model.types import ToolCall
from odek.tools.batch import BATCH_READ
from odek.tools.diff import DIFF
from odek.tools.files import READ_FILE
from odek.tools.registry import Tool, Toolbox, ToolResult
from odek.tools.search import SEARCH_FILES

FILES = {"a": b"one\n", ".env": b"TOKEN=1\n"}


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
    assert ("1|one" in tools.run(authorized).text, len(gate.asked), prepared.parallel) == (True, count, True)
