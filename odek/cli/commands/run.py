"""odek run: one task, one answer."""

from __future__ import annotations

import sys

from odek.bootstrap import Profile
from odek.cli.main import COMMANDS
from odek.cli.narrator import JsonNarrator, Narrator
from odek.cli.parser import CommandParser
from odek.cli.session import session
from odek.cli.terminal import Terminal
from odek.config.layers import read_layers
from odek.config.resolve import resolve
from odek.config.settings import Settings
from odek.errors import UsageError
from odek.host import Host

PROFILE = Profile(command="run")
_MAX_STDIN_BYTES = 1 << 20


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Do the task and print the answer on stdout."""
    parser = CommandParser(
        "run",
        COMMANDS["run"][1],
        usage="[OPTION…] TASK…",
        examples=(
            'odek run "find out why the tests fail and fix it"',
            'odek run --sandbox-image python:3.12-slim --sandbox-network bridge "update the dependencies"',
            'odek run --base-url http://127.0.0.1:8080/v1 --model local "explain this project"',
            "git diff | odek run - ",
        ),
    )
    parser.add_argument("task", nargs="*", metavar="TASK", help="what to do; - reads it from stdin")
    parser.add_settings()
    parsed, rest = parser.read(arguments)
    task = _task([*parsed.task, *rest])
    layers = read_layers(host, parser.flags(parsed))
    settings = resolve(layers)
    if settings.no_color:
        terminal.without_color()
    sink = _sink(settings, terminal)
    with session(PROFILE, layers, host, terminal, sink=sink) as opened:
        answer = opened.agent.run(task)
        if not settings.json:
            terminal.answer(answer)
    return 0


def _task(words: list[str]) -> str:
    if words == ["-"]:
        data = sys.stdin.buffer.read(_MAX_STDIN_BYTES + 1)
        if len(data) > _MAX_STDIN_BYTES:
            raise UsageError("the task on stdin is larger than 1 MiB", hint="put it into a file and name the file")
        text = data.decode("utf-8", errors="replace")
    else:
        text = " ".join(words)
    if not text.strip():
        raise UsageError("no task provided", hint='say what to do: odek run "explain this project"')
    return text


def _sink(settings: Settings, terminal: Terminal) -> Narrator | JsonNarrator | Quiet:
    if settings.json:
        return JsonNarrator(terminal)
    if settings.interaction_mode == "off":
        return Quiet()
    return Narrator(terminal, verbose=settings.interaction_mode == "verbose")


class Quiet:
    """A sink that tells nothing."""

    def __call__(self, event: object) -> None:
        del event
