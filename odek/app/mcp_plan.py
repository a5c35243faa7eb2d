"""Which MCP servers a run here would start, and where, for `odek sandbox explain`; nothing is started or asked."""

from __future__ import annotations

from collections.abc import Iterator

from odek.app.mcp_approval import ServerGate
from odek.app.mcp_servers import host_program, start_folder
from odek.app.runtime import Runtime
from odek.config.mcp_servers import McpServer
from odek.config.options import GLOBAL_FILE, PROJECT_FILE
from odek.config.settings import Settings
from odek.errors import StateFileError
from odek.mcp.connection import ServerFailed


def plan_servers(settings: Settings, runtime: Runtime, *, sandboxed: bool) -> Iterator[tuple[str, object, str]]:
    """Yield name, plan and origin of each server; `sandboxed`: whether commands would run in a sandbox."""
    gate = ServerGate(runtime, by_environment=settings.approve_mcp, place="", once=set())
    for server in settings.mcp_servers:
        origin = PROJECT_FILE if server.by_project else GLOBAL_FILE
        plan: dict[str, object] = {"starts": _outcome(server, gate, runtime, sandboxed=sandboxed)}
        if server.on_host:
            plan["in"] = start_folder(runtime.host)
        if server.by_project:
            plan["approval"] = _approval(server, gate)
        plan["command"] = [server.command, *server.args]
        if server.env:
            plan["env"] = [name for name, _ in server.env]
        yield server.name, plan, origin


def _outcome(server: McpServer, gate: ServerGate, runtime: Runtime, *, sandboxed: bool) -> str:
    if server.on_host:
        try:
            host_program(server, runtime.host)
        except ServerFailed as error:
            return f"no: {error.reason}"
        return "ON THIS HOST"
    if not sandboxed:
        return "no: it runs in a sandbox only"
    if not server.by_project:
        return "in the sandbox"
    state = _approval(server, gate)
    if state == "asked for":
        return "in the sandbox, when it is approved"
    return "in the sandbox" if state in ("remembered", "given by the environment") else "no: it needs an approval"


def _approval(server: McpServer, gate: ServerGate) -> str:
    try:
        return gate.state(server)
    except StateFileError as error:
        return f"impossible: {error.message}"
