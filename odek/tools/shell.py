"""The tools `shell` and `parallel_shell`: output in untrusted tags, and always the exit code (F-65)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from odek.approval.operation import Operation
from odek.executor import CommandRequest, CommandResult
from odek.process import Output
from odek.text import truncate, visible
from odek.tools.arguments import ArgumentError, array, integer, record, string
from odek.tools.registry import Arguments, Tool, ToolResult
from odek.tools.workspace import Workspace

OUTPUT_LIMIT_CHARACTERS = 30_000
DEFAULT_TIMEOUT_S = 300
PARALLEL_TIMEOUT_S = 30
MAX_TIMEOUT_S = 1800
MAX_COMMANDS = 8
_SOURCE_LENGTH = 160  # characters of the command that label its output
_HEADING_LENGTH = 100
_HALF_CHARACTERS = "".join(map(chr, range(0xDC80, 0xDD00)))
_KEPT_CONTROLS = "\n\t"
_ESCAPES = {
    code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0)) if chr(code) not in _KEPT_CONTROLS
} | dict.fromkeys(range(0xDC80, 0xDD00), "\ufffd")
"""control characters, and the bytes that are not UTF-8 as `surrogateescape` represents them"""

_COMMAND = string("the command line, as for sh -c")
_TOGETHER = """
Calls of one reply run at the same time; what must happen in order belongs into one command (a && b)."""


def shell_in(environment_block: str, *, parallel: bool) -> Tool:
    """Return SHELL as a session has it: its description ends with where commands run (R-70).

    `parallel`: commands of one reply may run at the same time.
    """
    text = SHELL.description + _TOGETHER if parallel else SHELL.description
    description = "\n\n".join(part for part in (text, environment_block) if part)
    return replace(SHELL, description=description, parallel=parallel)


def _run(workspace: Workspace, arguments: Arguments) -> ToolResult:
    """Run `command`; a failed or stopped one is a failed result."""
    command, timeout_s = arguments["command"], arguments.get("timeout", DEFAULT_TIMEOUT_S)
    result = workspace.run(command, timeout_s=timeout_s)
    output = render_output(result.output, limit=OUTPUT_LIMIT_CHARACTERS)
    lines = [workspace.wrap(output, source=f"$ {truncate(command, _SOURCE_LENGTH)}") or "(no output)"]
    lines.append(_exit_code(result))
    cause = f"timed out after {timeout_s} s" if result.timed_out else ""
    if cause:
        lines.append(cause)
    elif result.code is None:
        cause = "; ".join(result.notes) or "the command was stopped"
    if result.output.omitted_bytes:
        lines.append(f"the whole output had {result.output.size_bytes} bytes")
    lines += [f"note: {note}" for note in result.notes]
    return ToolResult(text="\n".join(lines), failed=result.code != 0, cause=cause)


def _operations(_: Workspace, arguments: Arguments) -> tuple[Operation, ...]:
    return (_command_operation(arguments),)


def _run_parallel(workspace: Workspace, arguments: Arguments) -> ToolResult:
    """Run all commands; failed when one of them is."""
    requests = tuple(
        CommandRequest(command=entry["command"], timeout_s=entry.get("timeout", PARALLEL_TIMEOUT_S))
        for entry in arguments["commands"]
    )
    results = workspace.run_many(requests)
    limit = OUTPUT_LIMIT_CHARACTERS // len(results)
    pairs = enumerate(zip(requests, results, strict=True))
    return ToolResult(
        text="\n\n".join(_render_one(workspace, index, request, result, limit) for index, (request, result) in pairs),
        failed=any(result.code != 0 for result in results),
    )


def _parallel_operations(_: Workspace, arguments: Arguments) -> tuple[Operation, ...]:
    commands: Sequence[Mapping[str, Any]] = arguments["commands"]
    operations = []
    for index, entry in enumerate(commands):
        try:
            operations.append(_command_operation(entry))
        except ArgumentError as error:
            raise ArgumentError(_explain_refusal(index, str(error))) from error
    return tuple(operations)


def _explain_refusal(index: int, refusal: str) -> str:
    return f"command {index}: {refusal}\nNone of the commands was run."


def _command_operation(arguments: Mapping[str, Any]) -> Operation:
    """Return the operation of the arguments `command` and `description`. Raises ArgumentError."""
    command: str = arguments["command"]
    if not command.strip():
        raise ArgumentError("the command is empty")
    if "\0" in command:
        raise ArgumentError("the command holds a NUL character, which no shell can take")
    return Operation(kind="command", subject=command, reason=arguments.get("description", ""))


def _exit_code(result: CommandResult) -> str:
    return f"exit code: {'none' if result.code is None else result.code}"


def _render_one(workspace: Workspace, index: int, request: CommandRequest, result: CommandResult, limit: int) -> str:
    # tags of its own for each stream: what one command prints cannot pose as another's result
    shown: list[str] = []
    streams: tuple[tuple[str, Output | None], ...] = (("stderr", result.stderr), ("stdout", result.output))
    for count, (name, output) in enumerate(streams):
        text = render_output(output, limit=limit // (2 - count)) if output else ""
        limit -= len(text)
        if text:
            shown.insert(0, workspace.wrap(text, source=f"parallel_shell:{index}:{name}"))
    heading = f"[{index}] {visible(truncate(request.command, _HEADING_LENGTH))}"
    facts = [f"{_exit_code(result)}, {round(result.duration_s * 1000)} ms"]
    if result.timed_out:
        facts.append(f"timed out after {request.timeout_s:.0f} s")
    facts += [
        f"the whole {name} had {output.size_bytes} bytes"
        for name, output in reversed(streams)
        if output is not None and output.omitted_bytes
    ]
    facts += [f"note: {note}" for note in result.notes]
    return "\n".join((heading, *(shown or ("(no output)",)), *facts))


def render_output(output: Output, *, limit: int) -> str:
    """Return `output` in at most about `limit` characters: all of it, or head, marker and tail.

    The marker tells how many bytes are left out. Line ends become LF; other control characters
    are shown as escapes, bytes that are not UTF-8 as U+FFFD.
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


SHELL = Tool(
    name="shell",
    description="""\
Run a shell command with sh -c in the workspace and return its output and exit code.
Standard output and error come together, in the order they were written; of long output the middle is left out.
The command has no input and no terminal. Each call starts a new shell: cd and variables do not last.
A command that takes longer than its timeout is stopped with everything it started. Put a server into the \
background and send its output to a file (server >server.log 2>&1 &), or the output is lost.""",
    parameters=record(
        {
            "command": _COMMAND,
            "description": string("what the command is for, in a few words for the user"),
            "timeout": integer(
                f"seconds until the command is stopped; {DEFAULT_TIMEOUT_S} unless given", maximum=MAX_TIMEOUT_S
            ),
        },
        required=("command",),
    ),
    run=_run,
    operations=_operations,
    title_arguments=("command",),
    advice="- shell runs commands. It has no input and no terminal: give programs their non-interactive flags.",
)
PARALLEL_SHELL = Tool(
    name="parallel_shell",
    description=(
        f"Run up to {MAX_COMMANDS} independent shell commands at the same time, in the same place and under the same "
        "rules as shell. Each has its own exit code, and its standard output and error apart; of long output the "
        "middle is left out. If one command is refused, none is run."
    ),
    parameters=record(
        {
            "commands": array(
                record(
                    {
                        "command": _COMMAND,
                        "description": string("what it is for, in a few words for the user"),
                        "timeout": integer(
                            f"seconds until it is stopped; {PARALLEL_TIMEOUT_S} unless given", maximum=MAX_TIMEOUT_S
                        ),
                    },
                    required=("command",),
                ),
                most=MAX_COMMANDS,
                description="commands that do not need each other's results",
            )
        },
        required=("commands",),
    ),
    run=_run_parallel,
    operations=_parallel_operations,
    expected="object",
    explain_refusal=_explain_refusal,
    title_arguments=(),
)
