"""Tools as tests call them, and a toolbox that does what a test says."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from fakes.executor import FakeExecutor
from fakes.gates import FakeGate

from odek.executor import Executor
from odek.model.types import CallBegun, ToolCall, ToolSpec
from odek.tools.registry import PreparedCall, Tool, Toolbox, ToolResult
from odek.tools.workspace import Gate, Workspace


def wrap(text: str, *, source: str) -> str:
    """Put `text` between tags that are easy to read."""
    return f"<{source}>\n{text.rstrip(chr(10))}\n</>" if text else ""


def workspace(executor: Executor | None = None, gate: Gate | None = None, **more: Any) -> Workspace:
    """Return the workspace of `executor`, without secrets."""
    executor = executor or FakeExecutor()
    return Workspace(**{"executor": executor, "shown": executor, "gate": gate or FakeGate(), "wrap": wrap, **more})


def run_tool(tool: Tool, executor: Executor | None = None, gate: Gate | None = None, **arguments: Any) -> ToolResult:
    """Return what `tool` makes of a call whose arguments were checked and which was authorized."""
    return tool.run(workspace(executor, gate), arguments)


def call_tool(tool: Tool, executor: Executor | None = None, gate: Gate | None = None, **arguments: Any) -> ToolResult:
    """Return the result of a call of the model, on its whole way through a toolbox."""
    call = ToolCall(id="1", name=tool.name, arguments=json.dumps(arguments))
    return carry_out(Toolbox((tool,), workspace(executor, gate)), call)


def carry_out(tools: Toolbox, call: ToolCall) -> ToolResult:
    """Return the result of one call, after all its steps."""
    (prepared,) = tools.prepare([call])
    return tools.run(tools.authorize(prepared))


class FakeToolbox:
    """Does what agent.calls asks of tools.registry.Toolbox: `work` carries each call out."""

    def __init__(
        self,
        work: Callable[[ToolCall], ToolResult],
        *,
        parallel: Callable[[ToolCall], bool] = lambda _: False,
        specs: tuple[ToolSpec, ...] = (),
    ) -> None:
        self.specs = specs
        self.log: list[str] = []
        """"prepared ID ID …" and "asked ID" """
        self.expected: list[tuple[CallBegun, ...]] = []
        """what had begun of calls, each time that was said"""
        self._work = work
        self._parallel = parallel

    def expect(self, begun: Sequence[CallBegun]) -> None:
        self.expected.append(tuple(begun))

    def prepare(self, calls: Sequence[ToolCall]) -> tuple[PreparedCall, ...]:
        self.log.append(f"prepared {' '.join(call.id for call in calls)}")
        return tuple(PreparedCall(call=call, title=call.name, tool=self._tool(call)) for call in calls)

    def authorize(self, prepared: PreparedCall) -> PreparedCall:
        self.log.append(f"asked {prepared.call.id}")
        return prepared

    def for_thread(self, prepared: PreparedCall) -> Callable[[], ToolResult]:
        return lambda: self.run(prepared)

    def run(self, prepared: PreparedCall) -> ToolResult:
        return self._work(prepared.call)

    def _tool(self, call: ToolCall) -> Tool:
        return Tool(
            name=call.name,
            description="",
            parameters={},
            run=lambda *_: ToolResult(text=""),
            parallel=self._parallel(call),
        )
