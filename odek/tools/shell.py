"""The tools `shell` and `parallel_shell`: output in untrusted tags, and always the exit code (F-65)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from odek.approval.operation import Operation
from odek.executor import Executor
from odek.model.types import ToolSpec
from odek.process import CommandRequest, CommandResult, Output
from odek.text import truncate, visible
from odek.tools.registry import Gate, ToolResult, Work, Wrap, failure

_KEPT_CONTROLS = "\n\t"
_ESCAPES = {
    code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in _KEPT_CONTROLS
} | dict.fromkeys(range(0xDC80, 0xDD00), "\ufffd")
"""control characters, and the bytes that are no UTF-8 as `surrogateescape` represents them"""


def render_output(output: Output, *, limit: int) -> str:
    """Return `output` in at most about `limit` characters: all of it, or head, marker and tail.

    The marker tells how many bytes are left out. Line ends become LF; other control characters
    are shown as escapes, bytes that are no UTF-8 as U+FFFD.
    """
    if output.omitted_bytes == 0:
        text = _decode(output.data)
        shown = _render(text)
        if len(shown) <= limit:
            return shown
        head = _prefix(text, limit // 2)
        tail = _suffix(text[len(head) :], limit // 2)
    else:
        head = _prefix(_decode(output.head).rstrip(_HALF_CHARACTERS), limit // 2)
        tail = _suffix(_decode(output.tail).lstrip(_HALF_CHARACTERS), limit // 2)
    omitted = output.size_bytes - _size_bytes(head) - _size_bytes(tail)
    return f"{_render(head)}\n[… {omitted} bytes left out …]\n{_render(tail)}"


_HALF_CHARACTERS = "".join(map(chr, range(0xDC80, 0xDD00)))


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _size_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))


def _render(text: str) -> str:
    return text.replace("\r\n", "\n").translate(_ESCAPES)


def _prefix(text: str, limit: int) -> str:
    """Return as much of the beginning of `text` as fits into `limit` characters when rendered."""
    room = limit
    for index, character in enumerate(text):
        room -= len(_ESCAPES.get(ord(character), character))
        if room < 0:
            return text[:index]
    return text


def _suffix(text: str, limit: int) -> str:
    return _prefix(text[::-1], limit)[::-1]


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


MAX_COMMANDS = 8
PARALLEL_TIMEOUT_S = 30
_TITLE_LENGTH = 100

_PARALLEL_DESCRIPTION = f"""\
Run up to {MAX_COMMANDS} independent shell commands at the same time, in the same place and under the same rules as \
shell. Each has its own exit code, and its standard output and error apart; of long output the middle is left out. \
If one command is refused, none is run."""

_PARALLEL_PARAMETERS: Mapping[str, Any] = {
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
                        "description": f"seconds until it is stopped; {PARALLEL_TIMEOUT_S} unless given",
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
        return ToolSpec(name="parallel_shell", description=_PARALLEL_DESCRIPTION, parameters=_PARALLEL_PARAMETERS)

    def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Ask about all commands first, then run all of them; failed when one of them is."""
        commands: Sequence[Mapping[str, Any]] = arguments["commands"]
        refused = self._find_refusal(commands)
        if refused is not None:
            return failure(f"{refused}\nNone of the commands was run.")
        requests = tuple(
            CommandRequest(command=entry["command"], timeout_s=entry.get("timeout", PARALLEL_TIMEOUT_S))
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
