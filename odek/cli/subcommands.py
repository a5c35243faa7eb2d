"""Commands with actions, such as `odek sandbox image save`: each action has a parser and a help of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import cast

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
    if {"--help", "-h"} & set(arguments) or arguments == ["help"]:
        terminal.answer(_overview(command, actions))
        return 0
    given = truncate(visible(" ".join(arguments)), 60)
    raise UsageError(
        f'"{given}" is not an action of odek {command}' if given else f"say what to do: odek {command} ACTION",
        hint=f"one of: {', '.join(actions)}; `odek {command} --help` explains them",
    )


def _overview(command: str, actions: Mapping[str, Subcommand]) -> str:
    width = max(map(len, actions))
    return "\n".join(
        (
            f"usage: odek {command} ACTION [OPTION…]",
            "",
            f"{COMMANDS[command][1].capitalize()}.",
            "",
            *(f"  {name:<{width}}  {action.summary}" for name, action in actions.items()),
            "",
            f"`odek {command} ACTION --help` explains an action and its options.",
        )
    )
