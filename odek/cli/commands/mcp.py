"""odek mcp: odek's container as a tool of any MCP client (R-170 to R-181).

What is imported here is imported before `initialize` is answered; some clients wait for a second and a half.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING

from odek import __version__
from odek.app.config import load
from odek.app.isolation import CommandProfile, decide_sandbox, require_permitted
from odek.app.shareable import require_shareable
from odek.cli.main import COMMANDS
from odek.cli.streams import BROKEN_PIPE_CODE
from odek.cli.terminal import Terminal
from odek.errors import EXIT_OK, Interrupted, OdekError, UsageError
from odek.host import Host
from odek.mcp_server.lines import Writer, read_lines
from odek.mcp_server.server import Server
from odek.mcp_server.service import LazyService
from odek.text import visible

if TYPE_CHECKING:
    from odek.app.config import Config
    from odek.cli.parser import CommandParser
    from odek.mcp_server.tools import Tools

PROFILE = CommandProfile(command="mcp", never_on_host=True, surface="a program; the answer is plain text")
_ENTRY = """\

An entry for the settings of a client:
  {"mcpServers": {"odek": {
    "command": "odek",
    "args": ["mcp",
             "--workdir", "/src/app"]}}}
docs/MCP.md has it for the usual
clients, and how to see stderr and to
try it by hand."""
_FIRST_S = 0.2
_LISTS_S = 1.2
"""for answers that need no sandbox, after the last line of the client"""
_CALLS_S = 0.8
_SANDBOX_S = 1.6
_WRITTEN_S = 0.4


def parser() -> CommandParser:
    """Return the parser of `odek mcp`."""
    from odek.cli.parser import CommandParser

    made = CommandParser(
        "mcp",
        COMMANDS["mcp"][1],
        usage="[OPTION…]",
        examples=(
            "odek mcp --workdir /src/app 2>/tmp/odek-mcp.log",
            "odek mcp --workdir /src/app --sandbox-image node:22 --sandbox-network bridge",
        ),
    )
    made.epilog = _ENTRY
    made.add_argument("--workdir", metavar="DIR", help="the folder to work in; clients often start servers elsewhere")
    made.add_argument(
        "--agent",
        action="store_true",
        help="also offer run_task, which gives a whole task to odek's own agent and model",
    )
    made.add_settings()
    return made


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Serve one client until its input ends."""
    workdir, agent, flags = _read(arguments)
    output = _keep_stdout()
    if workdir is not None:
        host = _enter(workdir)
    config = load(host, flags, terminal)
    settings = config.settings
    decision = decide_sandbox(PROFILE, settings)
    require_permitted(decision, settings)
    if decision.sandboxed:
        _require_workspace(host, named=workdir is not None)
    else:
        terminal.warn(f"commands of the client run ON THIS HOST, without a sandbox ({visible(decision.origin)})")
    if settings.tools_enabled or settings.tools_disabled:
        from odek.app.tool_names import validate_tool_names

        for warning in validate_tool_names(settings):
            terminal.warn(warning)
    if host.stdin_is_terminal:
        terminal.note("waits for the lines of an MCP client (docs/MCP.md); Ctrl-D ends it")
    return _serve(config, host, terminal, output, sandboxed=decision.sandboxed, agent=agent)


def _read(arguments: list[str]) -> tuple[str | None, bool, dict[str, object]]:
    """Return the folder to enter, whether tasks are taken, and what the line says of the settings, by key."""
    match arguments:  # to make the parser takes longer than to read the settings; most entries are one of these
        case []:
            return None, False, {}
        case ["--workdir", folder] if not folder.startswith("-"):
            return folder, False, {}
    reader = parser()
    parsed = reader.read_flags(arguments)
    return parsed.workdir, parsed.agent, reader.flags(parsed)


def _keep_stdout() -> int:
    """Return a descriptor of stdout that nothing else has; what is printed from now on goes to stderr (R-172)."""
    sys.stdout.flush()
    output = os.dup(1)
    os.dup2(2, 1)
    return output


def _enter(folder: str) -> Host:
    try:
        os.chdir(folder)
    except OSError as error:
        raise UsageError(
            f'--workdir "{visible(folder)}" cannot be entered: {str(error.strerror).lower()}',
            hint="name the folder of a project",
        ) from error
    return Host.capture()


def _require_workspace(host: Host, *, named: bool) -> None:
    """Refuse a folder that is not shared with a sandbox (S-6 of SECURITY.md); clients start servers anywhere."""
    try:
        require_shareable(host)
    except OdekError as error:
        hint = error.hint if named else "--workdir DIR says where to work"
        raise type(error)(error.message, hint=hint, detail=error.detail) from error


def _serve(config: Config, host: Host, terminal: Terminal, output: int, *, sandboxed: bool, agent: bool) -> int:
    debug = partial(terminal.note) if "ODEK_DEBUG" in host.env else lambda _: None
    woken, wake = os.pipe()
    writer = Writer(output, on_broken=lambda: os.close(wake))
    service = LazyService(
        config, sandboxed=sandboxed, make_tools=lambda: _make_tools(config, host, terminal, server, agent=agent)
    )
    server = Server(service, version=__version__, write=writer.send, log=terminal.warn, debug=debug)
    code = BROKEN_PIPE_CODE
    try:
        for line in read_lines(0, woken, writer.wait_for_room):
            server.take(line)
            if line and not service.has_begun:
                writer.flush(_FIRST_S)  # what begins now would compete with the answer for the processor
                service.begin()
        code = EXIT_OK
        server.finish_lists(_LISTS_S)
    except Interrupted as interruption:
        code = interruption.exit_code
    server.close(_CALLS_S)
    service.close(_SANDBOX_S)
    writer.close(_WRITTEN_S)
    sys.stderr.flush()
    os._exit(code)  # threads that hang hold up nothing


def _make_tools(config: Config, host: Host, terminal: Terminal, server: Server, *, agent: bool) -> Tools:
    """Import and make the tools, and begin to prepare the sandbox; in a thread."""
    from odek.cli.runtime import client_runtime
    from odek.mcp_server.place import Place
    from odek.mcp_server.tools import Tools

    runtime = client_runtime(host, terminal)
    place = Place(PROFILE, config, runtime, changed=lambda: tools.place_changed())
    tools = Tools(place, agent=agent, ask=server.ask, changed=server.notify_tools_changed)
    place.prepare()
    return tools
