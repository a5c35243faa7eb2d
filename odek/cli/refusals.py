"""Operations that the gate refused in a turn: a warning for people, an exit code for scripts."""

from __future__ import annotations

from collections.abc import Sequence

from odek.agent.loop import Agent
from odek.cli.parser import CommandParser
from odek.cli.terminal import Terminal
from odek.errors import EXIT_OK, EXIT_REFUSED
from odek.text import plural, visible


def add_fail_on_refused(parser: CommandParser) -> None:
    """Give `parser` the flag that turns refusals into an exit code."""
    parser.add_argument(
        "--fail-on-refused",
        action="store_true",
        help=f"end with exit code {EXIT_REFUSED} when there is an answer but operations were refused",
    )


def warn_refused(agent: Agent, terminal: Terminal) -> None:
    """Warn in one line of what was refused in the turn that ended."""
    if terminal.last_event is not None:
        terminal.last_event.refused = agent.refused
    if agent.refused:
        terminal.warn(describe_refused(agent.refused))


def describe_refused(refused: Sequence[tuple[str, int]]) -> str:
    """Return what was refused, by class. One operation can be of several classes: then there is no sum."""
    classes = ", ".join(f"{visible(name)} {count}" for name, count in refused)
    what = plural(refused[0][1], "operation") if len(refused) == 1 else "operations"
    return f"{what} refused, by class: {classes}"


def exit_code(agent: Agent, *, fail_on_refused: bool) -> int:
    """Return the exit code of a turn that has its answer."""
    return EXIT_REFUSED if fail_on_refused and agent.refused else EXIT_OK
