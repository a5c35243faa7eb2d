"""odek continue: the next turn of a session, where the session was begun (R-2, R-85)."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from odek.app.config import load, redactor_of
from odek.app.conversation import open_conversation
from odek.app.stored_sessions import open_session, open_store, resume_session
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
from odek.host import Host

_PINNED = "is not a flag of continue: a session goes on where it was begun"
_POLICY = '"sandbox" in ~/.odek/config.json, or ODEK_SANDBOX, decides for all sessions; `odek run` begins a new one'


def parser() -> CommandParser:
    """Return the parser of `odek continue`."""
    made = CommandParser(
        "continue",
        COMMANDS["continue"][1],
        usage="[--id ID] [--fork] [--here] [OPTION…] TASK…",
        examples=(
            'odek continue "now do the same for the tests"',
            'odek continue --id 20260715-0000 "and what about Windows?"',
            'odek continue --plan "and how would you split the parser?"',
            'odek continue --fork "try it with a queue instead"',
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
    made.add_argument(
        "--fork", action="store_true", help="go on with a copy of the session, and leave the session as it is"
    )
    made.add_argument(
        "--plan",
        action="store_true",
        help="change nothing and answer with a plan, read-only; without it the plan is done",
    )
    made.refuse("--no-sandbox", _PINNED, hint=_POLICY)
    made.refuse("--sandbox", _PINNED, hint=_POLICY)
    add_fail_on_refused(made)
    add_output_flags(made)
    made.add_settings()
    return made


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Do the task with all that was said before, and print the answer on stdout."""
    reader = parser()
    parsed, rest = reader.read(arguments)
    words = [*parsed.task, *rest]
    task = read_task(words, command="continue", terminal=terminal)
    config = load(host, reader.flags(parsed), terminal)
    settings = config.settings
    store = open_store(host, redactor_of(config, host), warn=terminal.warn)
    runtime = terminal_runtime(host, terminal, as_json=settings.json)
    if task.startswith("/"):
        from odek.app.own_commands import called_command  # few tasks are one

        task = called_command(task, runtime)
    attachments = read_attachments(task, settings.ctx, host, terminal, words=words, images=settings.images)
    terminal.exact = parsed.output_schema is not None
    sink = choose_sink(settings, terminal, partial(redactor_of, config, host))
    with silent_typing(), open_output(parsed.output, host) as output, ExitStack() as stack:
        recorder = stack.enter_context(
            open_session(store, parsed.id, config, runtime, command="continue", fork=parsed.fork, here=parsed.here)
        )
        resumed = resume_session(
            recorder, config, runtime, command="continue", here=parsed.here, attachments=attachments
        )
        profile = with_answer_format(resumed.profile, parsed.output_schema, host)
        sandboxed, turn = recorder.transcript.header.sandbox, resumed.turn
        print_session_header(settings, terminal, recorder.id, turn=turn, sandboxed=sandboxed)
        conversation = stack.enter_context(
            open_conversation(
                replace(profile, planning=parsed.plan),
                resumed.config,
                runtime,
                sink=sink,
                attachments=attachments,
                resumed=resumed,
                first=task,
            )
        )
        stack.callback(warn_refused, conversation.agent, terminal)
        because = conversation.workspace.on_host_because
        print_session_event(settings, terminal, recorder.id, turn=turn, on_host_because=because)
        with (
            warn_unread_stdin(words, settings.ctx, terminal),
            signals.turn(),
            shown_output(sink, conversation, host),
        ):
            answer = conversation.send(task, files=attachments)
        output.answer = answer
        show_answer(sink, terminal, answer)
        if parsed.plan and host.stdout_is_terminal and not settings.json:
            from odek.cli.plan import carry_out  # few turns plan

            output.answer = carry_out(conversation, sink, host, terminal) or answer
        conversation.require_saved()
    return exit_code(conversation.agent, fail_on_refused=parsed.fail_on_refused)
