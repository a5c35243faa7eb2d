"""Every command with its options, asked of the parsers themselves: for completion, man page and docs.

A command is called with a word that no command line can hold; its parser answers by handing itself
over before anything else happens. So there is no second list that could differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, cast

from odek.cli.main import COMMANDS
from odek.cli.parser import DESCRIBE, HIDDEN, Action, CommandParser, Described
from odek.config.settings import BY_KEY


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One option of a command."""

    names: tuple[str, ...]
    """as typed, the short one first"""
    metavar: str
    """what stands for its value; "" when it has none"""
    help: str
    choices: tuple[str, ...]

    @property
    def name(self) -> str:
        """the long form"""
        return self.names[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One command, or one action of a command."""

    words: tuple[str, ...]
    """what follows `odek`"""
    summary: str
    usage: str
    """without `odek` and `words`"""
    arguments: tuple[tuple[str, str], ...]
    """name and help of what is no option"""
    groups: tuple[tuple[str, tuple[Flag, ...]], ...]
    """options under their headings"""
    examples: tuple[str, ...]
    actions: tuple[str, ...]
    """words that may follow"""

    @property
    def flags(self) -> tuple[Flag, ...]:
        return tuple(flag for _, flags in self.groups for flag in flags)


def read_pages() -> tuple[Page, ...]:
    """Return a page for every command, those with actions of their own followed by these. Imports all of them."""
    pages: list[Page] = []
    for name, (module_name, summary) in COMMANDS.items():
        module = import_module(module_name)
        actions = getattr(module, "ACTIONS", None)
        if not isinstance(actions, dict):
            pages.append(_page((name,), summary, _parser_of(module.main)))
            continue
        first = tuple(dict.fromkeys(words[0] for words in actions))
        pages.append(
            Page(
                words=(name,),
                summary=summary,
                usage="ACTION [OPTION…]",
                arguments=(),
                groups=(),
                examples=(),
                actions=first,
            )
        )
        for words, (action_module, function, action_summary) in actions.items():
            action = getattr(import_module(action_module), function)
            pages.append(_page((name, *words), action_summary, _parser_of(action)))
    return tuple(pages)


def _parser_of(main: Callable[..., int]) -> CommandParser:
    nothing: Any = None  # a command reads its arguments before it looks at the world
    try:
        main([DESCRIBE], nothing, nothing)
    except Described as answer:
        return answer.parser
    raise AssertionError(f"{main.__module__} does not read its arguments with a CommandParser")


def _page(words: tuple[str, ...], summary: str, parser: CommandParser) -> Page:
    prefix = " ".join(("odek", *words))
    return Page(
        words=words,
        summary=summary,
        usage=(parser.usage or "").removeprefix(prefix).strip(),
        arguments=tuple(
            (str(action.metavar or action.dest), _help(action))
            for action in parser._actions
            if not action.option_strings and action.help is not HIDDEN
        ),
        groups=tuple(_groups(parser)),
        examples=parser.examples,
        actions=parser.actions,
    )


def _groups(parser: CommandParser) -> Iterator[tuple[str, tuple[Flag, ...]]]:
    for group in parser._action_groups:
        flags = tuple(
            _flag(action) for action in group._group_actions if action.option_strings and action.help is not HIDDEN
        )
        if flags:
            yield group.title or "", flags


def _flag(action: Action) -> Flag:
    takes_value = action.nargs != 0
    option = BY_KEY.get(action.dest)
    names = sorted(action.option_strings, key=lambda name: name.startswith("--"))
    return Flag(
        names=tuple(names),
        metavar=cast("str", action.metavar or action.dest.upper()) if takes_value else "",
        help=_help(action),
        choices=option.kind.choices if option else (),
    )


def _help(action: Action) -> str:
    return (action.help or "").replace("%%", "%")
