"""The tools of a run: which are offered, how a call is checked, what happens to a broken one.

A tool gets arguments that fit its schema and answers with a ToolResult; a file or a command that
fails is a result. FileAccessDenied becomes one too. Any other OdekError means that there is nothing to
work with any more (the sandbox is gone) and ends the run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeVar, runtime_checkable

from odek.approval.operation import Operation
from odek.errors import FileAccessDenied, OdekError
from odek.model.types import ToolCall, ToolSpec
from odek.text import truncate, visible
from odek.tools.arguments import ArgumentError, parse_arguments

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What the model gets to read about a call."""

    text: str
    failed: bool = False


Work = Callable[[], ToolResult]


class Tool(Protocol):
    """Something the model can call."""

    @property
    def spec(self) -> ToolSpec: ...

    def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Carry out one call; `arguments` fit `spec.parameters`, absent ones have no key."""
        ...


@runtime_checkable
class ParallelTool(Tool, Protocol):
    """A tool whose calls may run beside others."""

    @property
    def parallel(self) -> bool:
        """whether they may here and now; the work then happens in another thread and asks nobody"""
        ...

    def prepare(self, arguments: Mapping[str, Any]) -> Work:
        """Check one call, ask whoever must be asked, and return what carries it out."""
        ...


class Unasked:
    """Base of tools that change nothing and ask nobody: their calls may run beside others."""

    parallel = True

    def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """See Tool."""
        raise NotImplementedError

    def prepare(self, arguments: Mapping[str, Any]) -> Work:
        """Return what carries the call out."""
        return partial(self.call, arguments)


class Gate(Protocol):
    """Says what may happen; approval.gatekeeper.Gatekeeper."""

    def check(self, operation: Operation) -> str | None:
        """Return None to let `operation` happen, else what the model is told. May ask somebody and wait."""
        ...

    def is_denied(self, operation: Operation) -> str | None:
        """Return what the model is told when `operation` is refused whatever anybody says; asks nobody."""
        ...

    def allows(self, operation: Operation) -> bool:
        """Return whether `operation` happens without a question; asks nobody."""
        ...

    def foresee(self, calls: Sequence[Sequence[Operation]]) -> None:
        """Ask at once about what several calls of a turn will do, as far as one question can cover it."""
        ...


@runtime_checkable
class Foreseeable(Tool, Protocol):
    """A tool that can tell beforehand what a call of it needs a word for."""

    def operations(self, arguments: Mapping[str, Any]) -> Sequence[Operation]: ...


class Wrap(Protocol):
    """Fences foreign text off (agent.untrusted, with its nonce bound)."""

    def __call__(self, text: str, *, source: str) -> str: ...


class Toolbox:
    """Offers tools to the model and carries out its calls."""

    def __init__(
        self,
        tools: Sequence[Tool],
        *,
        enabled: Collection[str] | None = None,
        disabled: Collection[str] = (),
        gate: Gate | None = None,
        localize: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda arguments: arguments,
    ) -> None:
        """Offer those of `tools` that are in `enabled` (None: all) and not in `disabled`.

        `localize` puts paths in arguments right before anything looks at them.
        `gate` is the one that stands before the tools; with none, nothing is asked beforehand.
        """
        self._gate = gate
        self._localize = localize
        self._tools = {
            tool.spec.name: tool
            for tool in tools
            if (enabled is None or tool.spec.name in enabled) and tool.spec.name not in disabled
        }

    @property
    def gate(self) -> Gate | None:
        """the gate that stands before the tools"""
        return self._gate

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """the tools on offer, in a fixed order"""
        return tuple(tool.spec for tool in self._tools.values())

    def call(self, call: ToolCall) -> ToolResult:
        """Carry out `call`. Failures are results; an OdekError other than FileAccessDenied passes through."""
        return self.prepare(call)()

    def is_parallel(self, call: ToolCall) -> bool:
        """Return whether `call` may run beside others, in another thread."""
        tool = self._tools.get(call.name)
        return isinstance(tool, ParallelTool) and tool.parallel

    def foresee(self, calls: Sequence[ToolCall]) -> None:
        """Ask in one question about what several of the `calls` of a turn will need (R-72)."""
        if self._gate is not None:
            self._gate.foresee([self._operations(call) for call in calls])

    def _operations(self, call: ToolCall) -> Sequence[Operation]:
        tool = self._tools.get(call.name)
        if not isinstance(tool, Foreseeable):
            return ()
        try:
            return tool.operations(self._localize(parse_arguments(call.arguments, tool.spec.parameters)[0]))
        except (ArgumentError, FileAccessDenied):  # the call will say so itself
            return ()

    def prepare(self, call: ToolCall) -> Work:
        """Check `call`, ask whoever must be asked, and return what carries it out; errors as for `call`."""
        tool = self._tools.get(call.name)
        if tool is None:
            offered = ", ".join(self._tools) or "none"
            return _said(failure(f'tool "{visible(truncate(call.name, 64))}" not found; the tools are: {offered}'))
        try:
            arguments, ignored = parse_arguments(call.arguments, tool.spec.parameters)
        except ArgumentError as error:
            return _said(failure(f"invalid arguments: {error}"))
        given = self._localize(arguments)
        work: Work = partial(tool.call, given)
        if isinstance(tool, ParallelTool) and tool.parallel:
            prepared = _guarded(call.name, partial(tool.prepare, given))
            work = _said(prepared) if isinstance(prepared, ToolResult) else prepared
        return partial(_carry_out, call.name, work, ignored)


def _carry_out(name: str, work: Work, ignored: Sequence[str]) -> ToolResult:
    result = _guarded(name, work)
    if not ignored:
        return result
    names = ", ".join(f'"{visible(truncate(name, 64))}"' for name in ignored)
    return ToolResult(text=f"{result.text}\nnote: unknown arguments were ignored: {names}", failed=result.failed)


def _guarded(name: str, step: Callable[[], T]) -> T | ToolResult:
    """Return what `step` does, or a failure in its place."""
    try:
        return step()
    except FileAccessDenied as error:
        return failure(error.message)
    except OdekError:
        raise
    except Exception as error:  # a bug of ours: this call is lost, the run need not be
        return failure(f"bug in tool {name}: {type(error).__name__}: {truncate(visible(str(error)), 500)}")


def _said(result: ToolResult) -> Work:
    """Return work that is done already."""
    return lambda: result


def failure(message: str) -> ToolResult:
    """Return the result of a call that did not do what it should."""
    return ToolResult(text=render_json({"error": message}), failed=True)


def render_json(value: Mapping[str, Any]) -> str:
    """Return compact JSON that keeps `<`, `>`, `&` and letters of every language readable."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


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
