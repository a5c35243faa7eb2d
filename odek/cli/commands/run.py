"""odek run: one task, one answer."""

from __future__ import annotations

from contextlib import ExitStack

from odek.app.bootstrap import CommandProfile
from odek.cli import signals
from odek.cli.console import choose_sink, print_session_event, print_session_header
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

PROFILE = CommandProfile(command="run")


def parser() -> CommandParser:
    """Return the parser of `odek run`."""
    made = CommandParser(
        "run",
        COMMANDS["run"][1],
        usage="[OPTION…] TASK…",
        examples=(
            'odek run "find out why the tests fail and fix it"',
            'odek run --session "draft the release notes"',
            'odek run --ctx notes.txt,/etc/hosts "compare these with @config.yml"',
            'odek run --sandbox-image python:3.12-slim --sandbox-network bridge "update the dependencies"',
            'odek run --base-url http://127.0.0.1:8080/v1 --model local "explain this project"',
            'git diff | odek run "review this"',
        ),
    )
    made.add_argument("task", nargs="*", metavar="TASK", help="what to do; - reads it from stdin, @FILE attaches FILE")
    made.add_argument("--session", action="store_true", help="keep the conversation, for `odek continue`")
    add_fail_on_refused(made)
    made.add_settings()
    return made


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Do the task and print the answer on stdout."""
    reader = parser()
    parsed, rest = reader.read(arguments)
    words = [*parsed.task, *rest]
    task = read_task(words, command="run")
    layers = read_layers(host, reader.flags(parsed))
    settings = resolve(layers)
    if settings.no_color:
        terminal.without_color()
    attachments = read_attachments(task, settings.ctx, host, terminal, words=words)
    keeper = Keeper(choose_sink(settings, terminal), terminal.warn)
    with (
        session(PROFILE, layers, host, terminal, sink=keeper, attachments=attachments) as opened,
        ExitStack() as stack,
    ):
        keeper.keep(opened.agent, None)
        stack.callback(tell_refused, opened.agent, terminal)
        whole = render(task, attachments, opened, terminal)
        session_id = None
        if parsed.session:
            from odek.cli.conversation import given_files, open_store, tell_where_it_is  # most runs keep nothing

            store = open_store(host, terminal, opened.redact)
            recorder = stack.enter_context(
                store.create(task=task, model=settings.model.model, sandbox=opened.sandbox_wanted, cwd=host.cwd)
            )
            keeper.keep(opened.agent, recorder)
            session_id = recorder.id
            print_session_header(settings, terminal, session_id)
            tell_where_it_is(stack, recorder, keeper, terminal)
        print_session_event(settings, terminal, session_id, on_host_because=opened.on_host_because)
        with unread_stdin(words, settings.ctx, terminal), signals.turn() as cancel:
            answer = keeper.take_turn(
                whole,
                cancel=cancel,
                model=settings.model.model,
                cwd=host.cwd,
                files=given_files(attachments) if parsed.session else (),
            )
        if not settings.json:
            terminal.answer(answer)
        keeper.require_saved()
    return exit_code(opened.agent, fail_on_refused=parsed.fail_on_refused)
