"""odek sandbox shell: a person in the sandbox that a run here would get, by the same settings and the same gate."""

from __future__ import annotations

from contextlib import ExitStack

from odek.app.config import load
from odek.app.sandbox import plan_sandbox, start_sandbox
from odek.app.workspace import startup_line
from odek.cli.parser import CommandParser
from odek.cli.runtime import terminal_runtime
from odek.cli.terminal import Terminal
from odek.host import Host
from odek.sandbox.docker import DockerCli


def parser() -> CommandParser:
    """Return the parser of `odek sandbox shell`."""
    made = CommandParser(
        "sandbox shell",
        "open a shell in the sandbox that a run here would get",
        usage="[OPTION of run…] [-- COMMAND…]",
        examples=("odek sandbox shell", "odek sandbox shell --sandbox-image python:3.12-slim -- python3 --version"),
    )
    made.add_settings(of="run", used=("sandbox*", "no_color"))
    return made


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Start the sandbox, run a shell or a command in it, and return its exit code. Never on the host."""
    reader = parser()
    parsed, command = reader.read(arguments)
    config, runtime = load(host, reader.flags(parsed), terminal), terminal_runtime(host, terminal)
    plan = plan_sandbox(config, runtime)
    with ExitStack() as stack:
        container = start_sandbox(plan)
        stack.callback(lambda: _warn(terminal, container.close()))
        terminal.note(startup_line(container.facts))
        interactive = host.stdin_is_terminal and host.stdout_is_terminal
        docker = runtime.docker
        assert isinstance(docker, DockerCli)  # without a client start_sandbox has raised
        return docker.attach(*container.shell_argv(tuple(command), terminal=interactive))


def _warn(terminal: Terminal, left: str) -> None:
    if left:
        terminal.warn(left)
