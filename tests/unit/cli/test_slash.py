"""The table of slash commands: what is found, refused, completed and listed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from fakes.layering import bare_host
from fakes.terminals import Screen

from odek.cli.slash import COMMANDS, SlashCommand, SlashContext, complete_command, find_command, render_help
from odek.errors import UsageError


def nothing(_: SlashContext, __: str) -> None:
    raise AssertionError("it is not called")


ROWS = (
    SlashCommand(name="/plain", help="takes nothing", handle=nothing),
    SlashCommand(
        name="/maybe", argument="[ON|OFF]", help="may take one", handle=nothing, choices=lambda *_: ("on", "off")
    ),
    SlashCommand(name="/must", argument="NAME", help="takes one", handle=nothing, choices=lambda *_: ("x", "y")),
)


def context(models: tuple[str, ...] = (), commands: tuple[SlashCommand, ...] = ROWS) -> SlashContext:
    unused = cast("Any", None)
    return SlashContext(conversation=unused, terminal=unused, host=unused, commands=commands, models=lambda _: models)


@pytest.mark.parametrize(
    ("word", "argument", "found"),
    [
        *(("/plain", "", True), ("/plain", "x", False)),
        *(("/maybe", "", True), ("/maybe", "x", True)),
        *(("/must", "", False), ("/must", "x", True)),
        *(("/Plain", "", False), ("/", "", False), ("/plai", "", False), ("plain", "", False)),
    ],
)
def test_command_takes_the_argument_of_its_row(word: str, argument: str, found: bool) -> None:
    """R-280: an argument that a command does not take is refused, as is a missing one."""
    if found:
        assert find_command(ROWS, word, argument).name == word
    else:
        with pytest.raises(UsageError) as refused:
            find_command(ROWS, word, argument)
        assert refused.value.message == f'"{f"{word} {argument}".strip()}" is not a command'


def test_tab_offers_what_the_table_has() -> None:
    """R-280: completion is made from the table."""
    at = context()
    assert complete_command(at, "/", "") == ["/exit", "/maybe", "/must", "/plain", "/quit"]
    assert complete_command(at, "/m", "") == ["/maybe", "/must"]
    assert complete_command(at, "/p", "") == ["/plain"]
    assert complete_command(at, "/mu", "") == ["/must "]
    assert complete_command(at, "o", "/maybe ") == ["off", "on"]
    assert complete_command(at, "", "/must ") == ["x", "y"]
    assert complete_command(at, "x", "/plain ") is None
    assert complete_command(at, "/m", "look at ") is complete_command(at, "o", "say /maybe ") is None
    assert complete_command(at, "@f", "") is complete_command(at, "m", "") is None
    models = context(models=("work/glm", "groq/", "work/qwen3"), commands=COMMANDS)
    assert complete_command(models, "wo", "/model ") == ["work/glm", "work/qwen3"]


def test_help_lists_every_row() -> None:
    """R-280: `/help` is made from the table, each row in one line of at most 80 columns."""
    shown = render_help(COMMANDS)
    for command in COMMANDS:
        assert f"  {f'{command.name} {command.argument}'.strip()}  " in shown
        assert command.help in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert len({command.name for command in COMMANDS}) == len(COMMANDS)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_tables_are_folded_between_words(is_terminal: bool) -> None:
    """R-280: on a terminal no row is left for it to cut, and what follows stands below its value."""
    screen = Screen(is_terminal=is_terminal)
    rows = (*COMMANDS, SlashCommand(name="/own", help="wörter " * 20, handle=nothing))
    host = replace(bare_host("/"), stderr_is_terminal=is_terminal)
    find_command(rows, "/help", "").handle(replace(context(commands=rows), terminal=screen.terminal, host=host), "")
    lines = screen.stderr.splitlines()
    own = next(number for number, line in enumerate(lines) if line.startswith("  /own "))
    assert max(map(len, lines[: own + 3])) <= 80 or not is_terminal
    assert lines[own + 1].startswith(" " * 22 + "wörter") == is_terminal
    assert max(map(len, lines[lines.index("") :])) <= 80
