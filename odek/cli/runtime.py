"""The real world of a command: Docker, the model, the person at the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from threading import Lock

from odek.app.model import make_model
from odek.app.runtime import Runtime, random_hex, real_docker
from odek.cli.approval_prompt import find_terminal_user
from odek.cli.console import print_notice
from odek.cli.terminal import Terminal
from odek.events import Event
from odek.host import Host, hide_variables
from odek.secret_names import is_secret_name


def terminal_runtime(host: Host, terminal: Terminal, *, as_json: bool = False) -> Runtime:
    """Return the effects of a command whose user is at `terminal`. Secrets leave the environment of this process.

    `as_json`: questions and their answers are printed as events of --json.
    """
    hide_variables(is_secret_name)
    user = find_terminal_user(alone=terminal.suspended)
    return Runtime(
        host=host,
        docker=real_docker(host),
        new_model=partial(make_model, host=host, notify=terminal.aside),
        emit=partial(print_notice, terminal, as_json=as_json),
        operator=user,
        person=user,
        random_hex=random_hex,
        waiting=partial(_waiting, terminal),
    )


def client_runtime(host: Host, terminal: Terminal) -> Runtime:
    """Return the effects of a command that serves a client, in several threads: there is nobody at a terminal.

    Secrets leave the environment of this process.
    """
    hide_variables(is_secret_name)
    lock = Lock()

    def emit(event: Event) -> None:
        with lock:
            print_notice(terminal, event)

    return Runtime(
        host=host,
        docker=real_docker(host),
        new_model=partial(make_model, host=host, notify=terminal.aside),
        emit=emit,
        operator=None,
        person=None,
        random_hex=random_hex,
    )


@contextmanager
def _waiting(terminal: Terminal, what: str) -> Iterator[None]:
    terminal.show_status(what)
    yield
    terminal.clear_status()
