"""Reading tools behind the gate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from fakes.executor import FakeExecutor
from fakes.gates import FakeGate

from odek.approval.operation import Operation
from odek.tools.batch import BatchReadTool
from odek.tools.diff import DiffTool
from odek.tools.files import ReadFileTool
from odek.tools.registry import Tool, ToolResult
from odek.tools.search import SearchFilesTool
from odek.tools.workspace import AskedReads

FILES = {"a": b"one\n", ".env": b"TOKEN=1\n"}


def wrap(text: str, *, source: str) -> str:
    return f"<{source}>\n{text}\n</>" if text else ""


def asked(tool: type[Tool], gate: FakeGate) -> AskedReads:
    executor = FakeExecutor(files=FILES)
    more = {"gate": gate} if tool is SearchFilesTool else {}
    made = tool(executor=executor, wrap=wrap, **more)  # type: ignore[call-arg]
    return AskedReads(made, executor=executor, gate=gate, wrap=wrap)


@pytest.mark.parametrize(
    ("tool", "arguments", "paths"),
    [
        (ReadFileTool, {"path": "./a"}, ["a"]),
        (ReadFileTool, {"path": "/workspace/x/../.env"}, [".env"]),
        (BatchReadTool, {"files": [{"path": "a"}, {"path": ".env"}, {"path": "./a"}]}, ["a", ".env"]),
        (DiffTool, {"path_a": "a", "path_b": ".env"}, ["a", ".env"]),
        (SearchFilesTool, {"pattern": "x", "path": ".env"}, [".env"]),
        (SearchFilesTool, {"pattern": "x"}, []),
        (ReadFileTool, {"path": "/etc/passwd"}, []),
        (ReadFileTool, {"path": "/ctx/notes"}, []),
        (ReadFileTool, {"path": "~/.ssh/id_rsa"}, []),
    ],
)
def test_every_file_of_the_workspace_is_asked_about(
    tool: type[Tool], arguments: Mapping[str, Any], paths: list[str]
) -> None:
    """Runtime 5.4: each once, by its plain path; what lies outside the executor refuses."""
    gate = FakeGate()
    reading = asked(tool, gate)
    assert reading.operations(arguments) == tuple(Operation(kind="read", subject=path) for path in paths)
    reading.prepare(arguments)
    assert gate.subjects == paths


def test_refusal_refuses_the_whole_call() -> None:
    """Nothing of it is read."""
    reading = asked(BatchReadTool, FakeGate({".env": "not that"}))
    assert reading.call({"files": [{"path": "a"}, {"path": ".env"}]}) == ToolResult(
        text='{"error":"not that"}', failed=True
    )


def test_what_is_let_through_is_read_beside_other_calls() -> None:
    """Asked before, in the main thread; the reading asks nobody."""
    gate = FakeGate()
    reading = asked(ReadFileTool, gate)
    work = reading.prepare({"path": "a"})
    count = len(gate.asked)
    assert ("1|one" in work().text, len(gate.asked), reading.parallel) == (True, count, True)
    assert reading.spec == ReadFileTool(executor=FakeExecutor(), wrap=wrap).spec
