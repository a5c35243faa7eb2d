"""odek sandbox shell: a person in the box that a run here would get, by the same settings and the same gate."""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial

from odek.app.bootstrap import startup_line
from odek.app.sandbox import build_request, start_sandbox
from odek.cli.approval_prompt import find_terminal_user
from odek.cli.console import print_notice
from odek.cli.parser import CommandParser
from odek.cli.session import random_hex, real_docker
from odek.cli.terminal import Terminal
from odek.config.layers import read_layers
from odek.config.resolve import project_overrides, resolve
from odek.host import Host
from odek.sandbox.docker import DockerCli


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Start the sandbox, run a shell or a command in it, and return its exit code. Never on the host."""
    parser = CommandParser(
        "sandbox shell",
        "open a shell in the sandbox that a run here would get",
        usage="[OPTION of run…] [-- COMMAND…]",
        examples=("odek sandbox shell", "odek sandbox shell --sandbox-image python:3.12-slim -- python3 --version"),
    )
    parser.add_settings(of="run")
    parsed, command = parser.read(arguments)
    layers = read_layers(host, parser.flags(parsed))
    settings = resolve(layers)
    for warning in settings.warnings:
        terminal.warn(warning)
    draft = build_request(settings, host, partial(print_notice, terminal))
    docker = real_docker(host)
    with ExitStack() as stack:
        container = start_sandbox(
            draft,
            settings,
            project_overrides(layers),
            host,
            docker=docker,
            operator=find_terminal_user(),
            emit=partial(print_notice, terminal),
            new_nonce=partial(random_hex, 16),
            sleep=time.sleep,
        )
        stack.callback(lambda: _warn(terminal, container.close()))
        terminal.note(startup_line(container.facts))
        interactive = host.stdin_is_terminal and host.stdout_is_terminal
        assert isinstance(docker, DockerCli)  # without a client start_sandbox has raised
        return docker.attach(*container.shell_argv(tuple(command), terminal=interactive))


def _warn(terminal: Terminal, left: str) -> None:
    if left:
        terminal.warn(left)
