"""odek continue: the next turn of a session, where the session was begun (R-2, R-85)."""

from __future__ import annotations

from contextlib import ExitStack

from odek.app.bootstrap import CommandProfile
from odek.app.secrets import collect_secrets
from odek.cli import signals
from odek.cli.console import choose_sink, print_session_event, print_session_header
from odek.cli.conversation import (
    earlier_files,
    find_session,
    given_files,
    model_layer,
    open_store,
    require_place,
    tell_where_it_is,
)
from odek.cli.keeper import Keeper
from odek.cli.main import COMMANDS
from odek.cli.parser import CommandParser
from odek.cli.refusals import add_fail_on_refused, exit_code, tell_refused
from odek.cli.session import session
from odek.cli.task import read_attachments, read_task, render, unread_stdin
from odek.cli.terminal import Terminal
from odek.config.layers import read_layers
from odek.config.resolve import resolve
from odek.host import Host
from odek.redact import Redactor
from odek.session.groups import history

_PINNED = "is not a flag of continue: a session goes on where it was begun"
_POLICY = '"sandbox" in ~/.odek/config.json, or ODEK_SANDBOX, decides for all sessions; `odek run` begins a new one'


def parser() -> CommandParser:
    """Return the parser of `odek continue`."""
    made = CommandParser(
        "continue",
        COMMANDS["continue"][1],
        usage="[--id ID] [--here] [OPTION…] TASK…",
        examples=(
            'odek continue "now do the same for the tests"',
            'odek continue --id 20260715-0000 "and what about Windows?"',
            "odek session list",
        ),
    )
    made.add_argument("task", nargs="*", metavar="TASK", help="what to do; - reads it from stdin, @FILE attaches FILE")
    made.add_argument(
        "--id", metavar="ID", default="", help="the session, or the beginning of its id; the last one unless given"
    )
    made.add_argument(
        "--here", action="store_true", help="let the session's sandbox have this folder instead of its own"
    )
    made.refuse("--no-sandbox", _PINNED, hint=_POLICY)
    made.refuse("--sandbox", _PINNED, hint=_POLICY)
    add_fail_on_refused(made)
    made.add_settings()
    return made


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Do the task with all that was said before, and print the answer on stdout."""
    reader = parser()
    parsed, rest = reader.read(arguments)
    words = [*parsed.task, *rest]
    task = read_task(words, command="continue")
    *layers, flags = read_layers(host, reader.flags(parsed))
    settings = resolve((*layers, flags))
    if settings.no_color:
        terminal.without_color()
    store = open_store(host, terminal, Redactor(collect_secrets(settings, host)))
    attachments = read_attachments(task, settings.ctx, host, terminal, words=words)
    keeper = Keeper(choose_sink(settings, terminal), terminal.warn)
    with ExitStack() as stack:
        recorder = stack.enter_context(store.open(find_session(store, parsed.id, warn=terminal.warn)))
        before = recorder.transcript
        profile = CommandProfile(command="continue", pinned=before.header.sandbox)
        require_place(before, profile, settings, host, here=parsed.here, warn=terminal.warn)
        earlier = earlier_files(before, attachments, host, warn=terminal.warn)
        turn = before.state.turns + 1
        print_session_header(settings, terminal, recorder.id, turn=turn, sandboxed=before.header.sandbox)
        tell_where_it_is(stack, recorder, keeper, terminal)
        opened = stack.enter_context(
            session(
                profile,
                (*layers, *model_layer(before), flags),
                host,
                terminal,
                sink=keeper,
                history=history(before),
                attachments=(*earlier.files, *attachments),
            )
        )
        keeper.keep(opened.agent, recorder)
        stack.callback(tell_refused, opened.agent, terminal)
        whole = earlier.told(render(task, attachments, opened, terminal))
        print_session_event(settings, terminal, recorder.id, turn=turn, on_host_because=opened.on_host_because)
        with unread_stdin(words, settings.ctx, terminal), signals.turn() as cancel:
            answer = keeper.take_turn(
                whole,
                cancel=cancel,
                model=opened.settings.model.model,
                cwd=before.state.cwd or host.cwd,
                files=given_files(attachments),
            )
        if not settings.json:
            terminal.answer(answer)
        keeper.require_saved()
    return exit_code(opened.agent, fail_on_refused=parsed.fail_on_refused)
