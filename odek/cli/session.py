"""What every command that works with the agent shares: the real world, opened around a session."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

from odek.app.attachments import Attachment
from odek.app.bootstrap import CommandProfile, Runtime, Session, make_model, open_session
from odek.app.docker_client import ClientFolder
from odek.cli.approval_prompt import find_terminal_user
from odek.cli.console import print_notice
from odek.cli.terminal import Terminal
from odek.config.layers import Layer
from odek.config.settings import Settings
from odek.events import Sink
from odek.host import Host, hide_variables, trusted_path, which
from odek.model.types import Message, Model
from odek.sandbox.container.failure_reasons import find_cause
from odek.sandbox.docker import Docker, DockerCli, NoDocker
from odek.sandbox.errors import SandboxGivenUp, SandboxLost
from odek.secret_names import is_secret_name


@contextmanager
def session(
    profile: CommandProfile,
    layers: Sequence[Layer],
    host: Host,
    terminal: Terminal,
    *,
    sink: Sink,
    history: Sequence[Message] = (),
    attachments: Sequence[Attachment] = (),
    new_model: Callable[[Settings], Model] | None = None,
    trusted: dict[str, set[str]] | None = None,
) -> Iterator[Session]:
    """Open a session in the real world; its container ends with the block, however that ends."""
    user = find_terminal_user(alone=terminal.suspended)
    world = Runtime(
        docker=real_docker(host),
        new_model=new_model or partial(make_model, host=host, notify=terminal.aside),
        operator=user,
        person=user,
        emit=partial(print_notice, terminal),
        random_hex=random_hex,
        trusted={} if trusted is None else trusted,
    )
    hide_variables(is_secret_name)
    began_s = time.time()
    facts = None
    with ExitStack() as stack:
        try:
            terminal.show_status("starting")
            opened = open_session(
                profile, layers, host, world, stack, sink=sink, history=history, attachments=attachments
            )
            terminal.clear_status()
            facts = opened.facts
            yield opened
        except SandboxGivenUp:
            raise
        except SandboxLost as error:
            cause = find_cause(facts.id, world.docker, since_s=began_s, now_s=time.time()) if facts else ""
            if not cause:
                raise
            raise SandboxLost(f"{error.message}; {cause}", hint=error.hint, detail=error.detail) from error


def real_docker(host: Host) -> Docker:
    """Return the docker client of this host; neither it nor what it starts is of the working directory (R-92)."""
    executable = which("docker", host)
    if not executable:
        return NoDocker()
    return DockerCli(executable, {**host.env, "PATH": trusted_path(host)}, settle=ClientFolder(host).environment)


def random_hex(size_bytes: int) -> str:
    """Return new random lower-case hex digits, twice as many as the bytes asked for."""
    import os

    return os.urandom(size_bytes).hex()
