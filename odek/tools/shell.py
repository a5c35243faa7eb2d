"""The tool `shell`: one command, its output fenced off, its exit code always told (F-65)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from odek.approval.operation import Operation
from odek.executor import Executor
from odek.model.types import ToolSpec
from odek.process import CommandResult
from odek.text import truncate
from odek.tools.output import render_output
from odek.tools.registry import Gate, ToolResult, Work, Wrap, failure

OUTPUT_LIMIT_CHARACTERS = 30_000
DEFAULT_TIMEOUT_S = 300
MAX_TIMEOUT_S = 1800
_SOURCE_LENGTH = 160  # characters of the command that label its output

_DESCRIPTION = """\
Run a shell command with sh -c in the workspace and return its output and exit code.
Standard output and error come together, in the order they were written; of long output the middle is left out.
The command has no input and no terminal. Each call starts a new shell: cd and variables do not last.
A command that takes longer than its timeout is stopped with everything it started. Put a server into the \
background and send its output to a file (server >server.log 2>&1 &), or the output is lost."""

_TOGETHER = """
Calls of one reply run at the same time; what must happen in order belongs into one command (a && b)."""

_PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "command": {"type": "string", "description": "the command line, as for sh -c"},
        "description": {"type": "string", "description": "what the command is for, in a few words for the user"},
        "timeout": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_TIMEOUT_S,
            "description": f"seconds until the command is stopped; {DEFAULT_TIMEOUT_S} unless given",
        },
    },
    "required": ["command"],
}


class ShellTool:
    """Runs commands where the executor runs them, if the gate lets them through."""

    def __init__(
        self, *, executor: Executor, gate: Gate, wrap: Wrap, environment_block: str, parallel: bool = False
    ) -> None:
        """`environment_block` tells where commands run and ends the tool's description (R-70).

        `parallel`: commands of one reply may run at the same time.
        """
        self.parallel = parallel
        self._executor = executor
        self._gate = gate
        self._wrap = wrap
        self._environment_block = environment_block

    @property
    def spec(self) -> ToolSpec:
        """what the model is told"""
        text = _DESCRIPTION + _TOGETHER if self.parallel else _DESCRIPTION
        description = "\n\n".join(part for part in (text, self._environment_block) if part)
        return ToolSpec(name="shell", description=description, parameters=_PARAMETERS)

    def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Run `command`; a refused, failed or stopped one is a failed result."""
        return self.prepare(arguments)()

    def prepare(self, arguments: Mapping[str, Any]) -> Work:
        """Ask whether `command` may run, and return what runs it."""
        command: str = arguments["command"]
        refusal = refuse_command(command) or self._gate.check(command_operation(arguments))
        if refusal is not None:
            return lambda: failure(refusal)
        return partial(self._run, command, arguments.get("timeout", DEFAULT_TIMEOUT_S))

    def operations(self, arguments: Mapping[str, Any]) -> tuple[Operation, ...]:
        """Return what a call would do."""
        return () if refuse_command(arguments["command"]) else (command_operation(arguments),)

    def _run(self, command: str, timeout_s: int) -> ToolResult:
        result = self._executor.run(command, timeout_s=timeout_s)
        fenced = self._wrap(
            render_output(result.output, limit=OUTPUT_LIMIT_CHARACTERS), source=f"$ {truncate(command, _SOURCE_LENGTH)}"
        )
        lines = (fenced or "(no output)", *render_ending(result, timeout_s))
        return ToolResult(text="\n".join(lines), failed=result.code != 0)


def command_operation(arguments: Mapping[str, Any]) -> Operation:
    """Return the operation that the arguments `command` and `description` stand for."""
    return Operation(kind="command", subject=arguments["command"], reason=arguments.get("description", ""))


def refuse_command(command: str) -> str | None:
    """Return why `command` is none, None when it is one."""
    if not command.strip():
        return "the command is empty"
    if "\0" in command:
        return "the command holds a NUL character, which no shell can take"
    return None


def render_ending(result: CommandResult, timeout_s: int) -> tuple[str, ...]:
    """Return the lines that follow the output: exit code, true size, and what else happened."""
    code = "none" if result.code is None else str(result.code)
    lines = [f"exit code: {code}"]
    if result.timed_out:
        lines.append(f"timed out after {timeout_s} s")
    if result.output.omitted_bytes:
        lines.append(f"the whole output had {result.output.size_bytes} bytes")
    lines += [f"note: {note}" for note in result.notes]
    return tuple(lines)
