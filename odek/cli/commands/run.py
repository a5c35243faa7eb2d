"""odek run: one task, one answer."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from odek.app.config import load, redactor_of
from odek.app.conversation import open_conversation
from odek.app.isolation import CommandProfile
from odek.cli import signals
from odek.cli.answer_output import add_output_flags, open_output, with_answer_format
from odek.cli.console import choose_sink, show_answer, shown_output
from odek.cli.main import COMMANDS
from odek.cli.parser import CommandParser
from odek.cli.quiet_input import silent_typing
from odek.cli.refusals import add_fail_on_refused, exit_code, warn_refused
from odek.cli.runtime import terminal_runtime
from odek.cli.session_header import print_session_event, print_session_header
from odek.cli.task import read_attachments, read_task, warn_unread_stdin
from odek.cli.terminal import Terminal
from odek.errors import KeyMissing
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
            'odek run --sandbox-image node:22 --sandbox-network bridge "run npm update"',
            'odek run --base-url http://127.0.0.1:8080/v1 -m local "explain this project"',
            'odek run --plan "split the module and keep its tests"',
            'git diff | odek run "review this"',
            "odek run /review src/parser.c",
        ),
    )
    made.add_argument("task", nargs="*", metavar="TASK", help="what to do; - reads it from stdin, @FILE attaches FILE")
    made.add_argument("--session", action="store_true", help="keep the conversation, for `odek continue`")
    made.add_argument(
        "--plan", action="store_true", help="change nothing and answer with a plan; the session is kept to carry it out"
    )
    add_fail_on_refused(made)
    add_output_flags(made)
    made.add_settings()
    return made


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Do the task and print the answer on stdout."""
    try:
        return _run(arguments, host, terminal)
    except KeyMissing as error:
        from odek.cli.commands.setup import offer_setup

        if not offer_setup(error, host, terminal):
            raise
    return _run(arguments, host, terminal)


def _run(arguments: list[str], host: Host, terminal: Terminal) -> int:
    reader = parser()
    parsed, rest = reader.read(arguments)
    words = [*parsed.task, *rest]
    task = read_task(words, command="run", terminal=terminal)
    config = load(host, reader.flags(parsed), terminal)
    settings = config.settings
    runtime = terminal_runtime(host, terminal, as_json=settings.json)
    if task.startswith("/"):
        from odek.app.own_commands import called_command  # few tasks are one

        task = called_command(task, runtime)
    attachments = read_attachments(task, settings.ctx, host, terminal, words=words, images=settings.images)
    profile = with_answer_format(PROFILE, parsed.output_schema, host)
    store = None
    if parsed.session or parsed.plan:
        from odek.app.stored_sessions import open_store  # most runs keep nothing

        store = open_store(host, redactor_of(config, host), warn=terminal.warn)
    terminal.exact = parsed.output_schema is not None
    sink = choose_sink(settings, terminal, partial(redactor_of, config, host))
    with (
        silent_typing(),
        open_output(parsed.output, host) as output,
        open_conversation(
            replace(profile, planning=parsed.plan),
            config,
            runtime,
            sink=sink,
            attachments=attachments,
            store=store,
            first=task,
        ) as conversation,
        ExitStack() as stack,
    ):
        conversation.begin_session(task)
        stack.callback(lambda: warn_refused(conversation.agent, terminal))
        session_id = conversation.session_id
        if session_id:
            print_session_header(settings, terminal, session_id)
        print_session_event(settings, terminal, session_id, on_host_because=conversation.workspace.on_host_because)
        with (
            warn_unread_stdin(words, settings.ctx, terminal),
            signals.turn(),
            shown_output(sink, conversation, host),
        ):
            answer = conversation.send(task, files=attachments)
        output.answer = answer
        show_answer(sink, terminal, answer)
        if parsed.plan and host.stdout_is_terminal and not settings.json:
            from odek.cli.plan import carry_out  # few runs plan

            output.answer = carry_out(conversation, sink, host, terminal) or answer
        conversation.require_saved()
    return exit_code(conversation.agent, fail_on_refused=parsed.fail_on_refused)
