"""The real world of a command: Docker, the model, the person at the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from odek.app.model import make_model
from odek.app.runtime import Runtime, random_hex, real_docker
from odek.cli.console import print_notice
from odek.cli.terminal import Terminal
from odek.cli.tty_prompt import TtyPrompt, find_tty_prompt
from odek.events import Event
from odek.host import Host, hide_variables
from odek.secret_names import is_secret_name

if TYPE_CHECKING:
    from odek.approval.card import Answer, Card
    from odek.approval.commands import CommandsRequest
    from odek.approval.gate import ProjectAnswer
    from odek.approval.request import ApprovalRequest
    from odek.approval.servers import ServerRequest, ToolsRequest
    from odek.cli.approval_prompt import TerminalUser


def terminal_runtime(host: Host, terminal: Terminal, *, as_json: bool = False) -> Runtime:
    """Return the effects of a command whose user is at `terminal`. Secrets leave the environment of this process.

    `as_json`: questions and their answers are printed as events of --json.
    """
    hide_variables(is_secret_name)
    prompt = find_tty_prompt(alone=terminal.suspended)
    user = _AtTerminal(prompt) if prompt else None
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


class _AtTerminal:
    """The person at the terminal, in both roles; how a question is laid out is loaded with the first one."""

    def __init__(self, prompt: TtyPrompt) -> None:
        self._prompt = prompt

    def approve_project(self, request: ApprovalRequest) -> ProjectAnswer:
        """See Operator."""
        return self._user.approve_project(request)

    def approve_server(self, request: ServerRequest | ToolsRequest) -> ProjectAnswer:
        """See Operator."""
        return self._user.approve_server(request)

    def approve_commands(self, request: CommandsRequest) -> ProjectAnswer:
        """See Operator."""
        return self._user.approve_commands(request)

    def decide(self, card: Card) -> Answer:
        """See Person."""
        return self._user.decide(card)

    @property
    def _user(self) -> TerminalUser:
        from odek.cli.approval_prompt import TerminalUser

        return TerminalUser(self._prompt.ask, screen=self._prompt.screen)


@contextmanager
def _waiting(terminal: Terminal, what: str) -> Iterator[None]:
    terminal.show_status(what)
    yield
    terminal.clear_status()
