"""Every command with its options, asked of the parsers themselves: for completion, man page and docs.

Each module of a command makes its parser on request, so that there is no second list that could differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from odek.cli.main import COMMANDS
from odek.cli.parser import HIDDEN, CommandParser, ParserAction
from odek.cli.subcommands import Subcommand
from odek.config.settings import BY_KEY


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One option of a command."""

    names: tuple[str, ...]
    """as typed, the short one first"""
    metavar: str
    """how its value is written; "" when it has none"""
    help: str
    choices: tuple[str, ...]

    @property
    def name(self) -> str:
        """the long form"""
        return self.names[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandDoc:
    """One command, or one action of a command."""

    words: tuple[str, ...]
    """what follows `odek`"""
    summary: str
    usage: str
    """without `odek` and `words`"""
    arguments: tuple[tuple[str, str], ...]
    """name and help of what is not an option"""
    groups: tuple[tuple[str, tuple[Flag, ...]], ...]
    """options under their headings"""
    examples: tuple[str, ...]
    actions: tuple[str, ...]
    """words that may follow"""
    repeats: bool = False
    """whether the last argument may be given more than once"""

    @property
    def flags(self) -> tuple[Flag, ...]:
        return tuple(flag for _, flags in self.groups for flag in flags)


def read_command_docs() -> tuple[CommandDoc, ...]:
    """Return a page for every command, those with actions of their own followed by these. Imports all of them."""
    pages: list[CommandDoc] = []
    for name, (module_name, summary) in COMMANDS.items():
        module = import_module(module_name)
        actions: Mapping[str, Subcommand] = getattr(module, "ACTIONS", {})
        if not actions:
            pages.append(_page((name,), summary, module.parser()))
            continue
        pages.append(
            CommandDoc(
                words=(name,),
                summary=summary,
                usage="ACTION [OPTION…]",
                arguments=(),
                groups=(),
                examples=(),
                actions=tuple(dict.fromkeys(words.split()[0] for words in actions)),
            )
        )
        for words, action in actions.items():
            pages.append(_page((name, *words.split()), action.summary, action.parser()))
    return tuple(pages)


def _page(words: tuple[str, ...], summary: str, parser: CommandParser) -> CommandDoc:
    prefix = " ".join(("odek", *words))
    positional = [each for each in parser._actions if not each.option_strings and each.help is not HIDDEN]
    return CommandDoc(
        words=words,
        summary=summary,
        usage=(parser.usage or "").removeprefix(prefix).strip(),
        arguments=tuple((str(action.metavar or action.dest), _help(action)) for action in positional),
        groups=tuple(_groups(parser)),
        examples=parser.examples,
        actions=parser.actions,
        repeats=bool(positional) and positional[-1].nargs in ("*", "+"),
    )


def _groups(parser: CommandParser) -> Iterator[tuple[str, tuple[Flag, ...]]]:
    for group in parser._action_groups:
        flags = tuple(
            _flag(action) for action in group._group_actions if action.option_strings and action.help is not HIDDEN
        )
        if flags:
            yield group.title or "", flags


def _flag(action: ParserAction) -> Flag:
    takes_value = action.nargs != 0
    option = BY_KEY.get(action.dest)
    names = sorted(action.option_strings, key=lambda name: name.startswith("--"))
    return Flag(
        names=tuple(names),
        metavar=cast("str", action.metavar or action.dest.upper()) if takes_value else "",
        help=_help(action),
        choices=option.kind.choices if option else (),
    )


def _help(action: ParserAction) -> str:
    return (action.help or "").replace("%%", "%")
