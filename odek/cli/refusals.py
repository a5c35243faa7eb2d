"""Operations that the gate refused in a turn: a warning for people, an exit code for scripts."""

from __future__ import annotations

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
    if agent.refused:
        classes = ", ".join(f"{visible(name)} {count}" for name, count in agent.refused)
        # one operation can be of several classes: their sum is the number of operations where there is one class only
        what = plural(agent.refused[0][1], "operation") if len(agent.refused) == 1 else "operations"
        terminal.warn(f"{what} refused, by class: {classes}")


def exit_code(agent: Agent, *, fail_on_refused: bool) -> int:
    """Return the exit code of a turn that has its answer."""
    return EXIT_REFUSED if fail_on_refused and agent.refused else EXIT_OK
