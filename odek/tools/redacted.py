"""The toolbox as the agent gets it: no known secret leaves a tool, in a result or in an error (F-50).

The second look: what a tool shows has no secret before it cuts it (tools/unsecret.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from odek.model.types import ToolCall, ToolSpec
from odek.tools.registry import Toolbox, ToolResult, Work


class RedactedToolbox:
    """A Toolbox whose results have gone through `redact`."""

    def __init__(self, tools: Toolbox, redact: Callable[[str], str]) -> None:
        self._tools = tools
        self._redact = redact

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """the tools on offer, in a fixed order"""
        return self._tools.specs

    def call(self, call: ToolCall) -> ToolResult:
        """Carry out `call`; see Toolbox.call."""
        return self.prepare(call)()

    def is_parallel(self, call: ToolCall) -> bool:
        """Return whether `call` may run beside others; see Toolbox.is_parallel."""
        return self._tools.is_parallel(call)

    def foresee(self, calls: Sequence[ToolCall]) -> None:
        """Ask at once about several calls; see Toolbox.foresee."""
        self._tools.foresee(calls)

    def prepare(self, call: ToolCall) -> Work:
        """Check `call` and return what carries it out; see Toolbox.prepare."""
        work = self._tools.prepare(call)

        def redacted() -> ToolResult:
            result = work()
            return replace(result, text=self._redact(result.text))

        return redacted
