"""The tools of a run: a row for each, and the way of a call through them.

A call is parsed and checked once, into a PreparedCall, and goes through three steps: `prepare` for all calls of a
reply, then for each `authorize`, which may ask the user, and `run`, which may happen in another thread.

What goes wrong with a file or a command is a result, and so is FileAccessDenied. Any other OdekError means that there
is nothing left to work with (the sandbox is gone) and ends the run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from odek.approval.operation import NO_GRANT, Grant, Operation
from odek.errors import FileAccessDenied, OdekError
from odek.executor import current_watch, use_watch
from odek.model.types import CallBegun, ToolCall, ToolSpec
from odek.text import plural, truncate, visible
from odek.tools.arguments import ArgumentError, check_arguments, parse_arguments
from odek.tools.workspace import Gate, Workspace, localized

TITLE_LENGTH = 120  # characters; a line of a wide terminal
Arguments = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The result of a call, for the model."""

    text: str
    failed: bool = False
    cause: str = field(default="", compare=False)
    """the part of `text` that says why the tool did not do its work; "" when it did: a command with a bad status ran"""
    diffs: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    """files that were changed, each with its unified diff: for the person, who sees what happens"""


def _no_operations(_: Workspace, __: Arguments) -> tuple[Operation, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One thing that the model can call: all that odek knows of it."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON Schema of the arguments, as arguments.py checks it"""
    run: Callable[[Workspace, Arguments], ToolResult]
    """carries a call out; its arguments fit `parameters`, absent ones have no key"""
    operations: Callable[[Workspace, Arguments], Sequence[Operation]] = _no_operations
    """what a call will do, as far as it is known before. Commands and reads must be allowed before it runs; writes are
    checked by Workspace.write, where the executor knows the place that links lead to; one named here counts there only
    if it is equal, `change` included. Raises ArgumentError when the
    arguments, though they fit, make no sense, and FileAccessDenied"""
    explain_refusal: Callable[[int, str], str] = lambda _, refusal: refusal
    """the place of the refused operation, and the refusal → the error for the model"""
    parallel: bool = False
    """whether calls of one reply may run at the same time, in other threads"""
    expected: Literal["call", "object", ""] = "call"
    """what takes a run or a file access at once: a call, each object in a list of its arguments, or nothing"""
    title_arguments: tuple[str, ...] = ("path",)
    """arguments that say what a call is about, the first that is there"""
    advice: str = ""
    """for the system prompt: when to use it"""
    strict: str = ""
    """what an argument that the tool does not know is answered with, and the call fails; "": it is left out"""
    is_foreign: bool = False
    """whether it is of an MCP server, which checks its arguments itself and knows files by its own names"""

    @property
    def spec(self) -> ToolSpec:
        """the tool as the model sees it"""
        return ToolSpec(name=self.name, description=self.description, parameters=self.parameters)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCall:
    """A call of the model on its way: parsed, checked, and what it will do."""

    call: ToolCall
    title: str
    """one safe line for people: the tool and what it is called for"""
    tool: Tool | None = None
    arguments: Arguments = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    """names of arguments that the tool does not know"""
    operations: tuple[Operation, ...] = ()
    grant: Grant = NO_GRANT
    """the answer to the question about several calls of the reply, where it covers this one"""
    authorized: bool = False
    result: ToolResult | None = None
    """set as soon as the call cannot run: no such tool, wrong arguments, refused"""

    @property
    def parallel(self) -> bool:
        """whether it may run at the same time as others"""
        return self.tool is not None and self.tool.parallel


def choose_tools(
    tools: Sequence[Tool], *, enabled: Collection[str] | None, disabled: Collection[str]
) -> tuple[Tool, ...]:
    """Return those of `tools` that are in `enabled` (None: all) and not in `disabled`."""
    return tuple(tool for tool in tools if (enabled is None or tool.name in enabled) and tool.name not in disabled)


def specs_of(tools: Sequence[Tool]) -> tuple[ToolSpec, ...]:
    """Return `tools` as a model is offered them, in their order."""
    return tuple(tool.spec for tool in tools)


def advice_of(tools: Sequence[Tool]) -> tuple[str, ...]:
    """Return the lines on `tools` for the system prompt."""
    return tuple(tool.advice for tool in tools if tool.advice)


class Toolbox:
    """Offers tools to the model and carries out its calls."""

    def __init__(
        self,
        tools: Sequence[Tool],
        workspace: Workspace,
        *,
        enabled: Collection[str] | None = None,
        disabled: Collection[str] = (),
        project: str | None = None,
        redact: Callable[[str], str] = str,
    ) -> None:
        """Offer those of `tools` that are in `enabled` (None: all) and not in `disabled`.

        `project` is the folder on this machine that the workspace is in the sandbox; results go through `redact`.
        """
        self._workspace = workspace
        self._project = project
        self._redact = redact
        self._enabled = enabled
        self._disabled = disabled
        self._tools = {tool.name: tool for tool in choose_tools(tools, enabled=enabled, disabled=disabled)}

    def offers(self, name: str) -> bool:
        """Return whether the settings let a tool of that name be offered."""
        return (self._enabled is None or name in self._enabled) and name not in self._disabled

    def set_foreign(self, tools: Sequence[Tool]) -> None:
        """Offer `tools` of MCP servers behind the others, in place of those of an earlier call.

        None of them takes the place of another tool.
        """
        own = {name: tool for name, tool in self._tools.items() if not tool.is_foreign}
        found = {tool.name: tool for tool in tools if self.offers(tool.name) and tool.name not in own}
        self._tools = {**own, **found}

    @property
    def gate(self) -> Gate:
        """the gate before the tools"""
        return self._workspace.gate

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """the tools on offer, in a fixed order"""
        return specs_of(tuple(self._tools.values()))

    @property
    def advice(self) -> tuple[str, ...]:
        """lines for the system prompt"""
        return advice_of(tuple(self._tools.values()))

    def expect(self, begun: Sequence[CallBegun]) -> None:
        """Have the executor get ready for the calls of a reply, as far as it has arrived."""
        own = [(self._tools.get(each), each) for each in begun]
        kinds = ["object" if each.is_object else "call" for tool, each in own]
        self._workspace.executor.expect(
            sum(tool is not None and tool.expected == kind for (tool, _), kind in zip(own, kinds, strict=True))
        )

    def prepare(self, calls: Sequence[ToolCall]) -> tuple[PreparedCall, ...]:
        """Check the `calls` of a reply, and ask one question about what several of them need (R-72)."""
        prepared = tuple(map(self._prepare, calls))
        grants = self.gate.preapprove([each.operations for each in prepared])
        return tuple(replace(each, grant=grant) for each, grant in zip(prepared, grants, strict=True))

    def _prepare(self, call: ToolCall) -> PreparedCall:
        tool = self._tools.get(call.name)
        prepared = PreparedCall(call=call, tool=tool, title=call_title(call.name, ""))
        if tool is None:
            offered = ", ".join(self._tools) or "none"
            unknown = f'tool "{visible(truncate(call.name, 64))}" not found; the tools are: {offered}'
            return replace(prepared, result=failure(unknown))
        try:
            values = parse_arguments(call.arguments)
            subject = next((values[key] for key in tool.title_arguments if isinstance(values.get(key), str)), "")
            prepared = replace(prepared, title=call_title(call.name, subject))
            arguments, ignored = (values, ()) if tool.is_foreign else check_arguments(values, tool.parameters)
            if ignored and tool.strict:
                raise ArgumentError(f"there is no {_quoted(ignored)}: {tool.strict}")
        except ArgumentError as error:
            return replace(prepared, result=failure(f"invalid arguments: {error}"))
        if self._project is not None and not tool.is_foreign:
            arguments = localized(arguments, self._project, self._workspace.executor.workspace)
        try:
            operations = tuple(tool.operations(self._workspace, arguments))
        except (ArgumentError, FileAccessDenied) as error:
            return replace(prepared, result=failure(str(error)))
        return replace(prepared, arguments=arguments, ignored=ignored, operations=operations)

    def authorize(self, prepared: PreparedCall) -> PreparedCall:
        """Return the call with the gate's answer: its result, if it was refused. May ask the user and wait."""
        if prepared.tool is None or prepared.result is not None:
            return prepared
        operations = [(place, each) for place, each in enumerate(prepared.operations) if each.kind != "write"]
        if len(operations) > 1:  # no question about a call that is refused anyway
            operations.sort(key=lambda entry: self.gate.is_denied(entry[1]) is None)
        for place, operation in operations:
            refusal = self.gate.check(operation, prepared.grant)
            if refusal is not None:
                return replace(prepared, result=failure(prepared.tool.explain_refusal(place, refusal)))
        return replace(prepared, authorized=True)

    def run(self, prepared: PreparedCall) -> ToolResult:
        """Carry out a call that was authorized. No known secret leaves it, in a result or in an error (F-50)."""
        result = prepared.result or _carry_out(
            prepared, replace(self._workspace, grant=prepared.grant, call_id=prepared.call.id)
        )
        note = ""
        if prepared.ignored:
            note = f"\nnote: unknown arguments were ignored: {_quoted(prepared.ignored)}"
        diffs = tuple((path, self._redact(diff)) for path, diff in result.diffs)
        return replace(result, text=self._redact(result.text + note), cause=self._redact(result.cause), diffs=diffs)

    def for_thread(self, prepared: PreparedCall) -> Callable[[], ToolResult]:
        """Return `run` of a call, for a thread of its own: who watches this one sees what its commands print."""
        watch = current_watch()
        own = watch.of_call(prepared.call.id) if watch else None

        def run() -> ToolResult:
            with use_watch(own):
                return self.run(prepared)

        return run


def _carry_out(prepared: PreparedCall, workspace: Workspace) -> ToolResult:
    if prepared.tool is None or not prepared.authorized:
        raise RuntimeError(f"{prepared.call.name} was not authorized")
    try:
        return prepared.tool.run(workspace, prepared.arguments)
    except FileAccessDenied as error:
        return failure(error.message)
    except OdekError:
        raise
    except Exception as error:  # a bug of ours: this call is lost, the run need not be
        reason = f"{type(error).__name__}: {truncate(visible(str(error)), 500)}"
        return failure(f"bug in tool {prepared.tool.name}: {reason}")


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f'"{visible(truncate(name, 64))}"' for name in names)


def failure(message: str) -> ToolResult:
    """Return the result of a call that did not do what it should."""
    return ToolResult(text=render_json({"error": message}), failed=True, cause=message)


def render_json(value: Mapping[str, Any]) -> str:
    """Return compact JSON that keeps `<`, `>`, `&` and letters of every language readable."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def call_title(name: str, subject: str) -> str:
    """Return "shell: make test", or "shell: cd src (+3 lines)"."""
    first, *rest = subject.strip().split("\n")
    title = f"{name}: {first}" if first else name
    more = f" (+{plural(len(rest), 'line')})" if rest else ""
    return truncate(visible(truncate(title, TITLE_LENGTH)), TITLE_LENGTH - len(more)) + more
