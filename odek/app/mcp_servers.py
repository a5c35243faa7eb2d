"""The MCP servers of a workspace: which start, where, and what becomes of them (R-192 to R-195, R-202).

In the sandbox a server is one more command of the container. On this host only those start for which the operator's own
file says `"sandbox": false`; in a session without a sandbox all others are named and left out, never moved.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import odek
from odek import cancel
from odek.app.config import Config
from odek.app.mcp_approval import ServerGate
from odek.app.mcp_tools import READ_ONLY, RunningServer, make_tools, read_offers
from odek.app.runtime import Runtime
from odek.app.shared_servers import SharedServers, StartedServer, end_all
from odek.cancel import CancelToken
from odek.config.mcp_servers import PARALLEL, McpServer
from odek.config.options import GLOBAL_FILE, PROJECT_FILE
from odek.config.values import expand
from odek.errors import ConfigError, ExecutableMissing, OdekError
from odek.events import Notice, WarningIssued
from odek.host import Host, project_root, trusted_path, which
from odek.mcp.connection import Pipe, ServerFailed
from odek.mcp.server import Server
from odek.piped import Piped
from odek.process import Running, start_watcher
from odek.redact import Redactor
from odek.safefile import is_inside
from odek.sandbox.container.container import Container
from odek.sandbox.errors import SandboxError, SandboxLost
from odek.text import plural, visible

if TYPE_CHECKING:
    from odek.tools.registry import Tool

CLIENT: Mapping[str, str] = {"name": "odek", "version": odek.__version__}
_END_WHEN_GONE = 'while read -r _; do :; done; kill -s TERM -- "-$1"; sleep 1; kill -s KILL -- "-$1"'
_PASSED = ("HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR")
_TOLD_AFTER_S = 1.0
MANY_TOOLS = 128


def host_environment(host: Host, entry: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the variables of a server on this host: those of every program, and what its entry names. Pure."""
    passed = {name: value for name, value in host.env.items() if name in _PASSED or name.startswith("LC_")}
    return {**passed, "PATH": trusted_path(host), **dict(entry)}


def host_program(server: McpServer, host: Host) -> str:
    """Return the program of a server on this host: no file of the project (R-92). Raises ServerFailed."""
    found = which(server.command, host)  # an absolute path stays itself
    if found is None:
        place = "outside of this project" if server.command.startswith("/") else "on PATH outside of this project"
        raise ServerFailed(f'there is no program "{visible(server.command)}" {place}')
    return found


def start_folder(host: Host) -> str:
    """Return where a server on this host is started: not in the project, from which some programs load code."""
    return "/" if not host.home or is_inside(host.home, project_root(host)) else host.home


@dataclass(slots=True, kw_only=True)
class ToolServers:
    """The servers of one workspace; used by the thread of its turns."""

    config: Config
    runtime: Runtime
    redact: Redactor
    shared: SharedServers
    """kept by the caller, for the next workspace"""
    planning: bool = False
    """nothing on this host is started, and tools are offered that their author calls read-only (R-281)"""
    _place: str = ""
    _starts: list[tuple[McpServer, StartedServer]] = field(default_factory=list)
    _reported: set[str] = field(default_factory=set)
    """those whose start is over, by name"""
    _running: dict[str, RunningServer] = field(default_factory=dict)
    _left_out: dict[str, str] = field(default_factory=dict)
    """by name: why it is left out"""
    _tools: tuple[Tool, ...] | None = None
    _nonce: str = ""
    _cancel: CancelToken = field(default_factory=CancelToken)

    def start_on_host(self) -> None:
        """Start those that the operator wants on this host."""
        for server in self._wanted():
            if server.on_host:
                open_pipe = partial(_open_on_host, server, self.runtime.host)
                if self.shared.outlive:
                    start = partial(self._started, server, open_pipe, self.shared.token)
                    self._starts.append((server, self.shared.on_host(server.name, start)))
                else:
                    self._starts.append((server, self._started(server, open_pipe, self._cancel)))

    def start_in(self, container: Container | None, place: str) -> None:
        """Start the others in `container`, a project's after its approval; None: there is no sandbox for them.

        `place` is the container, for people. Raises OdekError when a required one cannot start.
        """
        self._place = place
        gate = self._gate()
        for server in self._wanted():
            if server.on_host:
                continue
            if container is None:
                self._leave_out(server, "it runs in a sandbox only, and this session has none")
            elif server.by_project and not gate.may_start(server):
                self._left_out[server.name] = "not approved"
            else:
                self._start_inside(server, container)

    def ready(self) -> tuple[Tool, ...]:
        """Return the tools on offer in the next turn, when all servers are ready or have failed.

        May ask the operator about a project's tools. Raises OdekError when a required server has failed.
        """
        self._await()
        first = self._tools is None
        changed = [self._settle(*start) for start in self._starts if start[0].name not in self._reported]
        changed += [self._refresh(running) for running in self._running.values()] if not first else []
        if first or any(changed):
            self._nonce = self._nonce or self.runtime.random_hex(8)
            self._tools, warnings = make_tools(
                [self._running[name] for name in sorted(self._running)],
                nonce=self._nonce,
                disabled=self.config.settings.withheld_tools,
            )
            for warning in warnings:
                self.runtime.emit(WarningIssued(f"MCP servers: {warning}"))
            if len(self._tools) > MANY_TOOLS:
                hint = 'name those that are needed in "tools" of the servers\' entries'
                count = len(self._tools)
                text = f"MCP servers offer {count} tools; some providers take {MANY_TOOLS}, and each costs context"
                self.runtime.emit(WarningIssued(text, hint=hint))
            if self._running:
                self.runtime.emit(Notice(f"MCP servers: {', '.join(map(_summary, self._running.values()))}"))
        assert self._tools is not None
        return self._tools

    def states(self) -> list[dict[str, object]]:
        """Return name, place, state and tools of every configured server, as JSON values."""
        starting = {server.name for server, _ in self._starts} - self._reported
        found: list[dict[str, object]] = []
        for server in self.config.settings.mcp_servers:
            running = self._running.get(server.name)
            state = "starting" if server.name in starting else "left out"
            if running is not None:
                state = "ready" if running.server.alive else "ended"
            tools = [offer.tool.name for offer in running.offers] if running else []
            found.append(
                {
                    "name": server.name,
                    "runs": "host" if server.on_host else "sandbox",
                    "from": "project" if server.by_project else "operator",
                    "state": state,
                    **(
                        {"reason": self._left_out.get(server.name, "none of its tools is enabled")}
                        if state == "left out"
                        else {}
                    ),
                    "tools": tools,
                }
            )
        return found

    def close(self) -> None:
        """End those of this workspace at the same time; what is left in the container ends with it."""
        self._cancel.cancel()
        end_all([started for server, started in self._starts if not (server.on_host and self.shared.outlive)])

    def _wanted(self) -> list[McpServer]:
        """Return the servers of which a tool could be offered."""
        enabled = self.config.settings.tools_enabled
        servers: tuple[McpServer, ...] = self.config.settings.mcp_servers
        if self.planning:
            self._left_out |= {
                server.name: "it runs on this host, and turns only plan" for server in servers if server.on_host
            }
            servers = tuple(server for server in servers if not server.on_host)
        if enabled is None:
            return list(servers)
        return [server for server in servers if any(name.startswith(f"{server.name}__") for name in enabled)]

    def _gate(self) -> ServerGate:
        settings = self.config.settings
        return ServerGate(
            self.runtime, by_environment=settings.approve_mcp, place=self._place, once=self.shared.approved
        )

    def _start_inside(self, server: McpServer, container: Container) -> None:
        where = f"{PROJECT_FILE}: mcp_servers.{server.name}.env"
        env = server.env
        if server.by_project:
            try:
                env = tuple((name, expand(text, self.runtime.host.env, origin=f"{where}.{name}")) for name, text in env)
            except ConfigError as error:
                self._leave_out(server, error.message)
                return
        self._starts.append(
            (server, self._started(server, partial(_open_inside, server, container, env), self._cancel))
        )

    def _started(self, entry: McpServer, open_pipe: Callable[[], Pipe], token: CancelToken) -> StartedServer:
        server = Server(
            entry.name,
            open_pipe,
            startup_s=entry.startup_s,
            timeout_s=entry.timeout_s,
            limit=entry.parallel or PARALLEL,
            client=CLIENT,
        )
        return StartedServer(server, token)

    def _await(self) -> None:
        """Wait until each server is ready or has failed; what is waited for is said after a second."""
        waiting = [start for start in self._starts if start[0].name not in self._reported]
        if not waiting:
            return
        names = ", ".join(server.name for server, _ in waiting)
        told = time.monotonic() + _TOLD_AFTER_S
        with self.runtime.waiting(f"waiting for MCP servers: {names}"):
            while slow := [start for start in waiting if start[1].starting]:
                cancel.current_token().raise_if_cancelled()
                if told and time.monotonic() > told:
                    told = 0
                    self.runtime.emit(Notice(f"waiting for the MCP {_servers([server.name for server, _ in slow])}"))
                slow[0][1].wait(cancel.POLL_S)

    def _settle(self, server: McpServer, started: StartedServer) -> bool:
        """Take a server in whose start has come to an end; return whether there is one more."""
        self._reported.add(server.name)
        if started.failure is not None:
            self._leave_out(server, str(started.failure))
            return False
        running = RunningServer(settings=server, server=started.server, redact=self.redact)
        self._running[server.name] = running
        self._read(running)
        return True

    def _refresh(self, running: RunningServer) -> bool:
        """Look at the tools again where their server says, or has shown, that they are others; return whether so."""
        try:
            running.server.refresh()
        except SandboxError:  # the first command of the turn finds that, too
            return False
        if running.server.listing is running.listing:
            return False
        before = running.offers
        self._read(running)
        return running.offers != before

    def _read(self, running: RunningServer) -> None:
        """Put on offer what a server lists, of a project's what is approved."""
        settings, listing = running.settings, running.server.listing
        offers, warnings = read_offers(listing.tools, settings, self.redact)
        for warning in (*warnings[:8], *([listing.cut] if listing.cut else ())):
            self.runtime.emit(WarningIssued(f"MCP server {settings.name}: {warning}"))
        if self.planning:
            offers = [offer for offer in offers if READ_ONLY in offer.tool.claims]
        if settings.by_project and offers:
            approved = self._gate().approved_tools(settings, [offer.tool for offer in offers])
            offers = [offer for offer in offers if offer.tool.digest in approved]
        running.listing, running.offers = listing, tuple(offers)

    def _leave_out(self, server: McpServer, why: str) -> None:
        """Name a server that is left out. Raises OdekError for one that is required."""
        self._left_out[server.name] = why
        where = PROJECT_FILE if server.by_project else GLOBAL_FILE
        if server.required:
            raise OdekError(
                f"the MCP server {server.name} is required and cannot be had: {why}",
                hint=f'look at its entry in {where}, or take out "required"',
            )
        self.runtime.emit(WarningIssued(f"the MCP server {server.name} of {where} is left out: {why}"))


@dataclass(frozen=True, slots=True)
class _HostPipe:
    """A server on this host, which gets the time to end by itself."""

    child: Piped
    watcher: Running | None
    """ends it when this process is gone, however that comes"""

    def send_line(self, line: bytes, *, timeout_s: float) -> None:
        self.child.send_line(line, timeout_s=timeout_s)

    def receive_line(self, *, timeout_s: float) -> bytes | None:
        return self.child.receive_line(timeout_s=timeout_s)

    @property
    def stderr_tail(self) -> bytes:
        return self.child.stderr_tail

    def close(self) -> None:
        self.child.end()
        if self.watcher is not None:
            self.watcher.close()


def _open_on_host(server: McpServer, host: Host) -> Pipe:
    argv = (host_program(server, host), *server.args)
    try:
        child = Piped(argv, env=host_environment(host, server.env), cwd=start_folder(host))
        return _HostPipe(child, start_watcher(_END_WHEN_GONE, str(child.pid), env={"PATH": os.defpath}))
    except ExecutableMissing as error:
        raise ServerFailed(error.message) from error


def _open_inside(server: McpServer, container: Container, env: tuple[tuple[str, str], ...]) -> Pipe:
    try:
        return container.open_pipe((server.command, *server.args), env=env)
    except SandboxLost:
        raise
    except (SandboxError, ExecutableMissing) as error:
        raise ServerFailed(error.message, foreign=error.detail) from error


def _summary(running: RunningServer) -> str:
    place = ", ON THIS HOST" if running.settings.on_host else ""
    return f"{running.settings.name} ({plural(len(running.offers), 'tool')}{place})"


def _servers(names: Sequence[str]) -> str:
    return f"server{'s' if len(names) > 1 else ''} {', '.join(names)}"
