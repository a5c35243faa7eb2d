"""odek repl: a conversation, turn by turn (R-80)."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from odek import __version__
from odek.app.config import load, redactor_of
from odek.app.conversation import open_conversation
from odek.app.isolation import CommandProfile
from odek.app.model import ModelNames
from odek.app.stored_sessions import open_session, open_store, resume_session
from odek.cli.console import StreamingRenderer, choose_renderer
from odek.cli.main import COMMANDS
from odek.cli.parser import CommandParser
from odek.cli.prompt_input import InputHistory, LineReader, complete, open_line_reader
from odek.cli.quiet_input import silent_typing
from odek.cli.repl import Repl
from odek.cli.runtime import terminal_runtime
from odek.cli.session_header import print_session_header
from odek.cli.slash import COMMANDS as SLASH_COMMANDS
from odek.cli.slash import SlashContext, complete_command, own_rows
from odek.cli.terminal import Terminal
from odek.errors import KeyMissing, UsageError
from odek.host import Host
from odek.state import StateFolder


def parser() -> CommandParser:
    """Return the parser of `odek repl`."""
    made = CommandParser(
        "repl",
        COMMANDS["repl"][1],
        usage="[--id ID [--fork]] [--here] [OPTION…]",
        examples=(
            "odek repl",
            "odek repl --sandbox-image python:3.12-slim --sandbox-network bridge",
            "odek repl --id 20260715-0000",
            "odek repl --id 20260715-0000 --fork",
            "printf '%s\\n' 'list the files' 'explain the largest one' | odek repl",
        ),
    )
    made.add_argument(
        "--id", metavar="ID", default="", help="go on with this session; the beginning of its id is enough"
    )
    made.add_argument(
        "--here", action="store_true", help="with --id: let its sandbox have this folder instead of its own"
    )
    made.add_argument(
        "--fork", action="store_true", help="go on with a copy of the session, and leave the session as it is"
    )
    made.add_argument("--plan", action="store_true", help="only plan, read-only; /plan off ends that")
    made.add_settings()
    return made


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Talk with the person at the terminal, or answer each line of a pipe."""
    try:
        return _repl(arguments, host, terminal)
    except KeyMissing as error:
        from odek.cli.commands.setup import offer_setup

        if not offer_setup(error, host, terminal):
            raise
    return _repl(arguments, host, terminal)


def _repl(arguments: list[str], host: Host, terminal: Terminal) -> int:
    reader = parser()
    parsed = reader.read_flags(arguments)
    config = load(host, reader.flags(parsed), terminal)
    settings, redact = config.settings, redactor_of(config, host)
    store = open_store(host, redact, warn=terminal.warn)
    renderer = choose_renderer(settings, terminal, lambda: redact)
    if isinstance(renderer, StreamingRenderer):
        renderer.ways = "/diff · /undo"
    runtime, resumed = terminal_runtime(host, terminal), None
    profile = CommandProfile(command="repl", session_needed=False)
    if parsed.fork and not parsed.id:
        raise UsageError("--fork needs --id: the session to copy", hint="odek repl --id ID --fork")
    with ExitStack() as stack:
        if parsed.id:
            recorder = stack.enter_context(
                open_session(store, parsed.id, config, runtime, command="repl", fork=parsed.fork, here=parsed.here)
            )
            resumed = resume_session(recorder, config, runtime, command="repl", here=parsed.here)
            profile, config = resumed.profile, resumed.config
            sandboxed = recorder.transcript.header.sandbox
            print_session_header(settings, terminal, recorder.id, turn=resumed.turn, sandboxed=sandboxed)
        with silent_typing():
            conversation = stack.enter_context(
                open_conversation(
                    replace(profile, planning=parsed.plan),
                    config,
                    runtime,
                    sink=renderer,
                    store=store,
                    resumed=resumed,
                )
            )
        log = InputHistory(StateFolder(host.operator_home), redact=redact, warn=terminal.warn)
        slash = SlashContext(
            conversation=conversation,
            terminal=terminal,
            host=host,
            commands=(*SLASH_COMMANDS, *own_rows(runtime, at_terminal=host.stdin_is_terminal)),
            models=ModelNames(lambda: conversation.config, host),
        )
        lines = _lines(log, slash)
        if lines.interactive:
            terminal.line(f"odek {__version__}; /help lists the commands")
        return Repl(
            slash=slash,
            lines=lines,
            renderer=renderer,
            remember=log.add if lines.interactive else lambda _: None,
        ).run()


def _lines(log: InputHistory, slash: SlashContext) -> LineReader:
    host = slash.host
    is_capable = host.env.get("TERM", "dumb") != "dumb"  # a line editor moves the cursor
    return open_line_reader(
        log.read,
        lambda word, line: complete(word, line, command=partial(complete_command, slash), cwd=host.cwd),
        at_terminal=host.stdin_is_terminal,
        edited=host.stdin_is_terminal and host.stdout_is_terminal and is_capable,
        ask=slash.terminal.ask,
    )
