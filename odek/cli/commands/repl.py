"""odek repl: a conversation, turn by turn (R-80)."""

from __future__ import annotations

from contextlib import ExitStack

from odek import __version__
from odek.app.attachments import Attachment
from odek.app.bootstrap import CommandProfile
from odek.app.secrets import collect_secrets
from odek.cli.box import Box
from odek.cli.console import StreamingRenderer, print_session_header
from odek.cli.conversation import earlier_files, find_session, model_layer, open_store, require_place
from odek.cli.keeper import Keeper
from odek.cli.kept import Kept
from odek.cli.main import COMMANDS
from odek.cli.parser import CommandParser
from odek.cli.prompt_input import InputHistory, LineReader, complete, open_line_reader
from odek.cli.repl import COMMANDS as SLASH_COMMANDS
from odek.cli.repl import Repl
from odek.cli.terminal import Terminal
from odek.config.layers import read_layers
from odek.config.options import Source
from odek.config.resolve import resolve
from odek.config.settings import Settings
from odek.errors import UsageError
from odek.events import ignore
from odek.host import Host
from odek.model.types import Message
from odek.redact import Redactor
from odek.session.groups import history
from odek.session.recorder import Recorder
from odek.state import StateFolder


def parser() -> CommandParser:
    """Return the parser of `odek repl`."""
    made = CommandParser(
        "repl",
        COMMANDS["repl"][1],
        usage="[--id ID] [--here] [OPTION…]",
        examples=(
            "odek repl",
            "odek repl --sandbox-image python:3.12-slim --sandbox-network bridge",
            "odek repl --id 20260715-0000",
            "printf '%s\\n' 'list the files' 'explain the largest one' | odek repl",
        ),
    )
    made.add_argument(
        "--id", metavar="ID", default="", help="go on with this session; the beginning of its id is enough"
    )
    made.add_argument(
        "--here", action="store_true", help="with --id: let its sandbox have this folder instead of its own"
    )
    made.add_settings()
    return made


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Talk with whoever is at the terminal, or answer each line of a pipe."""
    reader = parser()
    parsed = reader.read_flags(arguments)
    *layers, flags = read_layers(host, reader.flags(parsed))
    settings = resolve((*layers, flags))
    if settings.no_color:
        terminal.without_color()
    redact = Redactor(collect_secrets(settings, host))
    store = open_store(host, terminal, redact)
    narrator = _narrator(settings, host, terminal)
    keeper = Keeper(narrator or ignore, terminal.warn)
    with ExitStack() as stack:
        kept = Kept(store, keeper, stack, terminal, cwd=host.cwd)
        profile = CommandProfile(command="repl")
        before: tuple[Message, ...] = ()
        files: tuple[Attachment, ...] = ()
        if parsed.id:
            recorder = stack.enter_context(store.open(find_session(store, parsed.id, warn=terminal.warn)))
            profile = _resume(recorder, settings, host, terminal, here=parsed.here)
            kept.go_on(recorder)
            before = history(recorder.transcript)
            files = earlier_files(recorder.transcript, (), host, warn=terminal.warn).files
            layers += model_layer(recorder.transcript)
        log = InputHistory(StateFolder(host.operator_home), redact=redact, warn=terminal.warn)
        box = Box(profile, (*layers, flags), host, terminal, sink=keeper, files=files)
        stack.enter_context(box.open(before))
        lines = _lines(log, host, terminal)
        if lines.interactive:
            terminal.line(f"odek {__version__}; /help lists the commands")
        return Repl(
            box=box,
            kept=kept,
            lines=lines,
            host=host,
            terminal=terminal,
            narrator=narrator if isinstance(narrator, StreamingRenderer) else None,
            remember=log.add if lines.interactive else lambda _: None,
        ).run()


def _resume(recorder: Recorder, settings: Settings, host: Host, terminal: Terminal, *, here: bool) -> CommandProfile:
    """Return how the session goes on (R-2). Raises OdekError when it cannot, here or like this."""
    transcript = recorder.transcript
    sandboxed = transcript.header.sandbox
    if sandboxed and settings.sandbox.enabled is False and settings.source_of("sandbox") is Source.FLAG:
        raise UsageError(
            "--no-sandbox cannot be given for this session: it is pinned to the sandbox",
            hint='leave it out; "sandbox" in ~/.odek/config.json, or ODEK_SANDBOX, decides for all sessions',
        )
    profile = CommandProfile(command="repl", pinned=sandboxed)
    require_place(transcript, profile, settings, host, here=here, warn=terminal.warn)
    print_session_header(settings, terminal, recorder.id, turn=transcript.state.turns + 1, sandboxed=sandboxed)
    return profile


def _narrator(settings: Settings, host: Host, terminal: Terminal) -> StreamingRenderer | None:
    """Return who tells of the turns; None for nobody."""
    if settings.interaction_mode == "off":
        return None
    return StreamingRenderer(terminal, verbose=settings.interaction_mode == "verbose", streams=host.stdout_is_terminal)


def _lines(log: InputHistory, host: Host, terminal: Terminal) -> LineReader:
    commands = tuple(SLASH_COMMANDS)
    return open_line_reader(
        log.read,
        lambda word: complete(word, commands=commands, cwd=host.cwd),
        at_terminal=host.stdin_is_terminal,
        edited=host.stdin_is_terminal and host.stdout_is_terminal,
        ask=terminal.ask,
    )
