"""What a project's MCP servers ask the operator for: to be started, and to have their tools offered (R-192).

An approval is for exactly what was shown: its key is a digest of all that decides what runs, and each tool has one of
all that the model gets of it. What differs in anything is another server, or another tool, and is asked about.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from odek.approval.display import command_rows, field, value
from odek.approval.request import PROJECT_FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerRequest:
    """A project asks to have a program started whose tools the model gets."""

    folder: str
    """the project's; absolute, links resolved"""
    name: str
    command: str
    args: tuple[str, ...]
    env: tuple[tuple[str, str], ...]
    """as the project wrote it, variables not replaced"""
    reads: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """names in `env` whose values read variables of the host, and which"""
    place: str
    """where it would run, for people; an approval is for any sandbox"""

    @property
    def key(self) -> str:
        """the 64 hex digits that an approval of this request has"""
        return _digest([self.folder, self.name, self.command, list(self.args), [list(pair) for pair in self.env]])


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedTool:
    """A tool as the model would get it."""

    name: str
    """as its server has it"""
    description: str
    schema: str
    """JSON"""
    claims: tuple[str, ...] = ()
    """what its author says that it does not do ("read-only"); it grants nothing (P-30), but with `--plan` a tool that
    does not claim it is not offered"""

    @property
    def digest(self) -> str:
        """the 64 hex digits that an approval of this tool has"""
        # what was approved before claims counted stays approved where there are none
        claims: list[object] = [list(self.claims)] if self.claims else []
        return _digest([self.name, self.description, self.schema, *claims])


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolsRequest:
    """A project's server that runs asks to have tools offered that were not approved."""

    server: ServerRequest
    tools: tuple[OfferedTool, ...]
    known: int
    """how many of its tools were approved before"""


def describe_server(request: ServerRequest) -> tuple[str, ...]:
    """Return the rows of the question about a start, every foreign text made visible; each argument by itself."""
    reads = dict(request.reads)
    literal = [pair for pair in request.env if pair[0] not in reads]
    return (
        *field("server", value(request.name)),
        *field("runs in", request.place),
        *field("command", value(request.command)),
        *(row for argument in request.args for row in field("argument", value(argument))),
        *(row for name, text in literal for row in field("sets", value(f"{name}={text}"))),
        *(row for name, _ in request.reads for row in _interpolation(name, dict(request.env)[name], reads[name])),
    )


def describe_tools(request: ToolsRequest) -> tuple[str, ...]:
    """Return the rows of the question about tools: all that the model would get of each."""
    return tuple(row for tool in request.tools for row in _tool_rows(tool))


def heading_of_server(request: ServerRequest | ToolsRequest) -> str:
    """Return the line that says who asks for what."""
    if isinstance(request, ServerRequest):
        return f"WARNING: project config ({PROJECT_FILE}) asks to start an MCP server:"
    offers = "1 tool" if len(request.tools) == 1 else f"{len(request.tools)} tools"
    changed = ", new or changed since they were approved" if request.known else ""
    return f"WARNING: the project's MCP server {value(request.server.name)} offers the model {offers}{changed}:"


def _tool_rows(tool: OfferedTool) -> tuple[str, ...]:
    claims = f" (its author says: {', '.join(tool.claims)})" if tool.claims else ""
    return (
        *field("tool", value(tool.name) + claims),
        *(command_rows(tool.description) if tool.description else ()),
        *command_rows(tool.schema),
    )


def _interpolation(name: str, text: str, variables: tuple[str, ...]) -> tuple[str, ...]:
    got = ", ".join(map(value, variables))
    return (*field("sets", value(f"{name}={text}")), *field("reads", f"{value(name)} gets {got} of this host"))


def _digest(parts: list[object]) -> str:
    text = json.dumps(parts, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()
