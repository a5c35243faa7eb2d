"""odek subagent: one task for a sub-agent, from a program outside (R-230)."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from functools import partial

from odek.app.config import load, redactor_of
from odek.app.isolation import CommandProfile
from odek.cli import signals
from odek.cli.console import choose_sink, show_answer
from odek.cli.main import COMMANDS
from odek.cli.parser import CommandParser
from odek.cli.runtime import terminal_runtime
from odek.cli.task import tell_reading
from odek.cli.terminal import Terminal
from odek.delegate.brief import MAX_BRIEF_BYTES, Brief, parse_brief
from odek.errors import EXIT_BUDGET, NoAnswer, UsageError
from odek.host import Host
from odek.tools.arguments import ArgumentError

PROFILE = CommandProfile(command="subagent", never_on_host=True)
_HINT = 'such as {"goal": "find out why the tests fail", "readonly": true}; `odek subagent --help` names the fields'


def parser() -> CommandParser:
    """Return the parser of `odek subagent`."""
    made = CommandParser(
        "subagent",
        COMMANDS["subagent"][1],
        usage="[OPTION…] <TASK.json",
        examples=(
            """echo '{"goal": "list unsafe code", "network": "none"}' | odek subagent""",
            """echo '{"goal": "fix typos", "max_risk": "local_write"}' | odek subagent --json""",
        ),
    )
    made.add_settings(of="run", without=("ctx", "image"))
    return made


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Do the task on stdin and print its answer, or with --json what happens and then the result."""
    reader = parser()
    parsed = reader.read_flags(arguments)
    tell_reading("the task, a JSON object,", terminal)
    brief = read_brief(sys.stdin.buffer.read(MAX_BRIEF_BYTES + 1) if sys.stdin else b"")
    config = load(host, reader.flags(parsed), terminal)
    runtime = replace(terminal_runtime(host, terminal), person=None, operator=None)

    from odek.app.outside_task import do_task, result_json

    sink = choose_sink(config.settings, terminal, partial(redactor_of, config, host))
    with signals.turn():
        outcome = do_task(PROFILE, config, runtime, brief, sink=sink)
    seen = replace(outcome, said=sink.redact(outcome.said), reason=sink.redact(outcome.reason))
    if config.settings.json:
        terminal.answer(json.dumps(result_json(seen)))
        if terminal.last_event is not None:
            terminal.last_event.usage = outcome.usage
    elif outcome.status == "done":
        show_answer(sink, terminal, outcome.said)
    if outcome.status == "done":
        return 0
    error = NoAnswer(f"the task has no answer: {seen.reason}", detail=seen.said)
    if outcome.status in ("timeout", "budget"):
        error.exit_code = EXIT_BUDGET
    raise error


def read_brief(data: bytes) -> Brief:
    """Return the task that `data` is. Raises UsageError."""
    if len(data) > MAX_BRIEF_BYTES:
        raise UsageError(
            f"the task on stdin is larger than {MAX_BRIEF_BYTES >> 20} MiB", hint="put what is long into a file"
        )
    try:
        return parse_brief(data.decode("utf-8"))
    except (ArgumentError, UnicodeDecodeError) as error:
        raise UsageError(f"the task on stdin cannot be used: {error}", hint=_HINT) from error
