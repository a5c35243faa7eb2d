"""Which of a project's MCP servers start, and which of their tools are offered (R-192).

The operator's own need no approval. A project's is asked about before it starts, and its tools before the model gets
them; without a terminal the remembered approvals and ODEK_APPROVE_MCP decide. What is not approved is left out, and
the session goes on.
"""

from __future__ import annotations

from collections.abc import Sequence

from odek.app.runtime import Runtime
from odek.approval.gate import ProjectAnswer
from odek.approval.server_store import ServerApprovals
from odek.approval.servers import OfferedTool, ServerRequest, ToolsRequest
from odek.config.mcp_servers import McpServer
from odek.config.options import PROJECT_FILE
from odek.config.values import variables_in
from odek.errors import StateFileError
from odek.events import Notice, WarningIssued
from odek.host import Host
from odek.state import StateFolder
from odek.text import plural, visible

SWITCH = "ODEK_APPROVE_MCP"
_QUESTION_CHARACTERS = 256 << 10  # more than can be read before saying yes


def server_request(server: McpServer, folder: str, *, place: str = "") -> ServerRequest:
    """Return what the project in `folder` asks for with `server`. Pure."""
    reads = ((name, variables_in(text)) for name, text in server.env)
    return ServerRequest(
        folder=folder,
        name=server.name,
        command=server.command,
        args=server.args,
        env=server.env,
        reads=tuple((name, variables) for name, variables in reads if variables),
        place=place,
    )


def are_approved(servers: Sequence[McpServer], host: Host) -> bool:
    """Return whether all of a project's among `servers` may be started as they are; a damaged store approves none."""
    theirs = [server for server in servers if server.by_project]
    try:
        approvals = ServerApprovals(StateFolder(host.operator_home))
        return all(approvals.approved(server_request(server, host.cwd)) for server in theirs)
    except StateFileError:
        return not theirs


class ServerGate:
    """Asks the store, the switch, then the operator."""

    def __init__(self, runtime: Runtime, *, by_environment: bool, place: str, once: set[str]) -> None:
        """`by_environment`: the operator set the switch. `place`: where servers would run, for people.

        `once` holds what was approved until odek ends, and is added to.
        """
        self._runtime = runtime
        self._by_environment = by_environment
        self._place = place
        self._once = once

    def may_start(self, server: McpServer) -> bool:
        """Return whether the project's `server` may be started. May ask and wait; says why not."""
        request = self._request(server)
        try:
            if self._by_environment:
                self._runtime.emit(Notice(f"{SWITCH} approves the MCP server {server.name} of {PROJECT_FILE}"))
                return True
            store = self._store()
            if request.key in self._once or store.approved(request):
                return True
            answer = self._ask(request)
            if answer == "trust":
                store.remember(request)
                self._runtime.emit(
                    Notice(f"remembered in {visible(store.path)}; odek asks again when the entry changes")
                )
        except StateFileError as error:
            return self._left_out(server, error.message, error.hint)
        if answer == "no":
            why = "it needs an approval" if self._runtime.operator else "it needs an approval, and there is no terminal"
            return self._left_out(server, why, f"approve it at a terminal, or set {SWITCH}=1 where there is none")
        self._once.add(request.key)
        return True

    def approved_tools(self, server: McpServer, tools: Sequence[OfferedTool]) -> frozenset[str]:
        """Return the digests of those of the project's tools that may be offered. May ask and wait; says which not."""
        if self._by_environment:
            return frozenset(tool.digest for tool in tools)
        request = self._request(server)
        try:
            known = self._known(request)
            fresh = [tool for tool in tools if tool.digest not in known]
            if not fresh:
                return known
            answer = self._ask_tools(ToolsRequest(server=request, tools=tuple(fresh), known=len(tools) - len(fresh)))
            if answer == "trust":
                self._store().remember(request, fresh)
        except StateFileError as error:
            self._left_out(server, error.message, error.hint)
            return frozenset()
        if answer == "no":
            names = ", ".join(visible(tool.name) for tool in fresh[:8]) + (", …" if len(fresh) > 8 else "")
            self._runtime.emit(
                WarningIssued(
                    f"{plural(len(fresh), 'tool')} of the MCP server {server.name} without an approval, "
                    f"not offered: {names}",
                    hint=f"approve them at a terminal, or set {SWITCH}=1 where there is none",
                )
            )
            return known
        self._once.update(f"{request.key}:{tool.digest}" for tool in fresh)
        return known | {tool.digest for tool in fresh}

    def state(self, server: McpServer) -> str:
        """Return what `may_start` would do, in words, without asking. Raises StateFileError."""
        if not server.by_project:
            return "not needed"
        if self._by_environment:
            return "given by the environment"
        if self._store().approved(self._request(server)):
            return "remembered"
        return "asked for" if self._runtime.operator else "impossible"

    def _known(self, request: ServerRequest) -> frozenset[str]:
        stored = self._store().approved(request)
        prefix = f"{request.key}:"
        once = {key.removeprefix(prefix) for key in self._once if key.startswith(prefix)}
        return (stored.tools if stored else frozenset()) | once

    def _ask(self, request: ServerRequest) -> ProjectAnswer:
        operator = self._runtime.operator
        return operator.approve_server(request) if operator else "no"

    def _ask_tools(self, request: ToolsRequest) -> ProjectAnswer:
        operator = self._runtime.operator
        size = sum(len(tool.description) + len(tool.schema) for tool in request.tools)
        return operator.approve_server(request) if operator and size <= _QUESTION_CHARACTERS else "no"

    def _request(self, server: McpServer) -> ServerRequest:
        return server_request(server, self._runtime.host.cwd, place=self._place)

    def _store(self) -> ServerApprovals:
        return ServerApprovals(StateFolder(self._runtime.host.operator_home), clock=self._runtime.clock)

    def _left_out(self, server: McpServer, why: str, hint: str) -> bool:
        self._runtime.emit(
            WarningIssued(f"the MCP server {server.name} of {PROJECT_FILE} is left out: {why}", hint=hint)
        )
        return False
