"""The tool `parallel_shell`: up to eight commands at the same time, each with its own result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from odek.approval.operation import Operation
from odek.executor import Executor
from odek.model.types import ToolSpec
from odek.process import CommandRequest, CommandResult, Output
from odek.text import truncate, visible
from odek.tools.output import render_output
from odek.tools.registry import Gate, ToolResult, Wrap, failure
from odek.tools.shell import MAX_TIMEOUT_S, OUTPUT_LIMIT_CHARACTERS, command_operation, refuse_command

MAX_COMMANDS = 8
DEFAULT_TIMEOUT_S = 30
_TITLE_LENGTH = 100

_DESCRIPTION = f"""\
Run up to {MAX_COMMANDS} independent shell commands at the same time, in the same place and under the same rules as \
shell. Each has its own exit code, and its standard output and error apart; of long output the middle is left out. \
If one command is refused, none is run."""

_PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "commands": {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_COMMANDS,
            "description": "commands that do not need each other's results",
            "items": {
                "type": "object",
                "properties": {
                    "command": {"type": "string", "description": "the command line, as for sh -c"},
                    "description": {"type": "string", "description": "what it is for, in a few words for the user"},
                    "timeout": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": MAX_TIMEOUT_S,
                        "description": f"seconds until it is stopped; {DEFAULT_TIMEOUT_S} unless given",
                    },
                },
                "required": ["command"],
            },
        }
    },
    "required": ["commands"],
}


class ParallelShellTool:
    """Runs commands beside one another, if the gate lets all of them through."""

    def __init__(self, *, executor: Executor, gate: Gate, wrap: Wrap) -> None:
        self._executor = executor
        self._gate = gate
        self._wrap = wrap

    @property
    def spec(self) -> ToolSpec:
        """what the model is told"""
        return ToolSpec(name="parallel_shell", description=_DESCRIPTION, parameters=_PARAMETERS)

    def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Ask about all commands first, then run all of them; failed when one of them is."""
        commands: Sequence[Mapping[str, Any]] = arguments["commands"]
        refused = self._find_refusal(commands)
        if refused is not None:
            return failure(f"{refused}\nNone of the commands was run.")
        requests = tuple(
            CommandRequest(command=entry["command"], timeout_s=entry.get("timeout", DEFAULT_TIMEOUT_S))
            for entry in commands
        )
        results = self._executor.run_many(requests)
        limit = OUTPUT_LIMIT_CHARACTERS // len(results)
        pairs = enumerate(zip(requests, results, strict=True))
        return ToolResult(
            text="\n\n".join(self._render(index, request, result, limit) for index, (request, result) in pairs),
            failed=any(result.code != 0 for result in results),
        )

    def operations(self, arguments: Mapping[str, Any]) -> tuple[Operation, ...]:
        """Return what a call would do."""
        commands: Sequence[Mapping[str, Any]] = arguments["commands"]
        if any(refuse_command(entry["command"]) for entry in commands):
            return ()
        return tuple(map(command_operation, commands))

    def _find_refusal(self, commands: Sequence[Mapping[str, Any]]) -> str | None:
        """Return which command may not run and why; nobody is asked as long as one is refused anyhow."""
        for index, entry in enumerate(commands):
            refusal = refuse_command(entry["command"]) or self._gate.is_denied(command_operation(entry))
            if refusal is not None:
                return f"command {index}: {refusal}"
        for index, entry in enumerate(commands):
            refusal = self._gate.check(command_operation(entry))
            if refusal is not None:
                return f"command {index}: {refusal}"
        return None

    def _render(self, index: int, request: CommandRequest, result: CommandResult, limit: int) -> str:
        # each stream in a fence of its own: what one command prints cannot pose as another's result
        fences: list[str] = []
        streams: tuple[tuple[str, Output | None], ...] = (("stderr", result.stderr), ("stdout", result.output))
        for count, (name, output) in enumerate(streams):
            text = render_output(output, limit=limit // (2 - count)) if output else ""
            limit -= len(text)
            if text:
                fences.insert(0, self._wrap(text, source=f"parallel_shell:{index}:{name}"))
        code = "none" if result.code is None else str(result.code)
        heading = f"[{index}] {visible(truncate(request.command, _TITLE_LENGTH))}"
        facts = [f"exit code: {code}, {round(result.duration_s * 1000)} ms"]
        if result.timed_out:
            facts.append(f"timed out after {request.timeout_s:.0f} s")
        facts += [
            f"the whole {name} had {output.size_bytes} bytes"
            for name, output in reversed(streams)
            if output is not None and output.omitted_bytes
        ]
        facts += [f"note: {note}" for note in result.notes]
        return "\n".join((heading, *(fences or ("(no output)",)), *facts))
