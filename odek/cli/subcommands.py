"""Commands with actions, such as `odek sandbox image save`: each action has a parser and a help of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from odek.cli.help import help_columns, list_of_terms, wrap
from odek.cli.main import COMMANDS
from odek.cli.parser import CommandParser
from odek.cli.terminal import Terminal
from odek.errors import UsageError
from odek.host import Host
from odek.text import truncate, visible

Main = Callable[[list[str], Host, Terminal], int]


@dataclass(frozen=True, slots=True)
class Subcommand:
    """What carries out an action: `main` of a module, or another function of it, next to its `…_parser`."""

    module: str
    summary: str
    """one line for the list of actions"""
    function: str = "main"

    def parser(self) -> CommandParser:
        """Return its parser. Imports the module."""
        name = "parser" if self.function == "main" else f"{self.function}_parser"
        return cast("CommandParser", getattr(import_module(self.module), name)())

    def run(self, arguments: list[str], host: Host, terminal: Terminal) -> int:
        """Carry it out with what follows its words. Imports the module."""
        return cast("Main", getattr(import_module(self.module), self.function))(arguments, host, terminal)


def run_subcommand(
    command: str, actions: Mapping[str, Subcommand], arguments: list[str], host: Host, terminal: Terminal
) -> int:
    """Carry out the action of `odek COMMAND` that `arguments` name, by its words; flags may precede them."""
    start = next((place for place, word in enumerate(arguments) if not word.startswith("-")), len(arguments))
    for name, action in actions.items():
        words = name.split()
        if arguments[start : start + len(words)] == words:
            return action.run([*arguments[:start], *arguments[start + len(words) :]], host, terminal)
    group = [word for word in arguments if not word.startswith("-")]
    if group[-1:] == ["help"]:
        group, arguments = group[:-1], [*arguments, "--help"]
    inside = {name: action for name, action in actions.items() if name.split()[: len(group)] == group}
    if inside and {"--help", "-h"} & set(arguments):
        terminal.answer(render_actions(" ".join((command, *group)), inside, skip=len(group), columns=help_columns()))
        return 0
    given = truncate(visible(" ".join(arguments)), 60)
    if inside:
        where, rest = " ".join((command, *group)), ", ".join(_rest(name, len(group)) for name in inside)
        raise UsageError(
            f"say what to do: odek {where} ACTION", hint=f"one of: {rest}; `odek {where} --help` explains them"
        )
    if given:
        from odek.cli.other_commands import near_action  # a failing line alone

        near = near_action(arguments[start] if start < len(arguments) else "", actions)
        if near:
            raise UsageError(
                f'"{given}" is not an action of odek {command}',
                hint=f"did you mean `odek {command} {near}`? `odek {command} --help` lists all",
            )
    if len(actions) == 1:
        (only,) = actions
        raise UsageError(
            f'"{given}" is not an action of odek {command}', hint=f"the action comes first: odek {command} {only} …"
        )
    raise UsageError(
        f'"{given}" is not an action of odek {command}',
        hint=f"one of: {', '.join(actions)}; `odek {command} --help` explains them",
    )


def _rest(name: str, skip: int) -> str:
    """Return the words of an action that follow those which were given."""
    return " ".join(name.split()[skip:])


def render_actions(command: str, actions: Mapping[str, Subcommand], *, skip: int, columns: int) -> str:
    """Return what `odek COMMAND --help` prints; of each action the first `skip` words are in `command`."""
    words = command.split()
    what = COMMANDS[words[0]][1].capitalize() if len(words) == 1 else f"Actions of odek {command}"
    listed = [(_rest(name, skip), action.summary) for name, action in actions.items()]
    return "\n".join(
        (
            wrap(f"usage: odek {command} ACTION [OPTION…]", columns),
            "",
            wrap(f"{what}.", columns),
            "",
            *list_of_terms(listed, columns),
            "",
            wrap(f"`odek {command} ACTION --help` explains an action and its options.", columns),
        )
    )
