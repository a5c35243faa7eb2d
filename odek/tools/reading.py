"""Reading tools behind the gate: a file that may hold secrets is asked about before it is shown (runtime 5.4).

Asked in the main thread, before the reading begins beside other calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from odek.approval.operation import Operation
from odek.errors import FileAccessDenied
from odek.executor import Executor
from odek.model.types import ToolSpec
from odek.tools.registry import Gate, Tool, ToolResult, Work, Wrap, failure
from odek.tools.workspace import PATH_KEYS, Workspace


class AskedReads:
    """A tool that shows contents of files, each of which the gate has to let through first."""

    parallel = True

    def __init__(self, tool: Tool, *, executor: Executor, gate: Gate, wrap: Wrap) -> None:
        """`tool` names files by `path`, `path_a`, `path_b`, or by the `path` of each of `files`."""
        self._tool = tool
        self._gate = gate
        self._workspace = Workspace(executor=executor, wrap=wrap)

    @property
    def spec(self) -> ToolSpec:
        """what the model is told"""
        return self._tool.spec

    def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """See Tool."""
        return self.prepare(arguments)()

    def prepare(self, arguments: Mapping[str, Any]) -> Work:
        """Ask about every file, and return what reads them; one refusal refuses the call."""
        for operation in self.operations(arguments):
            refusal = self._gate.check(operation)
            if refusal is not None:
                return partial(failure, refusal)
        return partial(self._tool.call, arguments)

    def operations(self, arguments: Mapping[str, Any]) -> tuple[Operation, ...]:
        """Return what a call would read in the workspace; the executor refuses what lies outside."""
        paths = dict.fromkeys(self._within(path) for path in _paths(arguments))
        return tuple(Operation(kind="read", subject=path) for path in paths if path)

    def _within(self, path: str) -> str:
        try:
            return self._workspace.within(path)
        except FileAccessDenied:
            return ""


def _paths(arguments: Mapping[str, Any]) -> Sequence[str]:
    named = [arguments[key] for key in PATH_KEYS if key in arguments]
    return [*named, *(entry["path"] for entry in arguments.get("files", ()))]
