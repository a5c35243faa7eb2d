"""Command lines: the flags are those of the options table, and nothing that is misspelt gets through."""

from __future__ import annotations

import argparse
import importlib

import pytest

from odek.cli.main import COMMANDS as PROGRAM
from odek.cli.parser import CommandParser
from odek.config.settings import BY_KEY, OPTIONS, flag_options
from odek.errors import UsageError

HELP = "`odek run --help` lists the options"
COMMANDS = ("run", "continue", "repl", "serve", "mcp")


def parser_for(command: str) -> CommandParser:
    parser = CommandParser(command, "do something", usage="[OPTION…] TASK…")
    parser.add_argument("task", nargs="*")
    parser.add_settings()
    return parser


def flags_of(command: str, *arguments: str) -> tuple[list[str], dict[str, object]]:
    parser = parser_for(command)
    parsed, rest = parser.read(list(arguments))
    return [*parsed.task, *rest], parser.flags(parsed)


@pytest.mark.parametrize("command", COMMANDS)
def test_flags_are_those_of_the_table(command: str) -> None:
    """R-12: not one more and not one less, each under the key of its option."""
    offered = {
        flag: action.dest
        for action in parser_for(command)._actions
        for flag in action.option_strings
        if action.dest != "help"
    }
    wanted: dict[str, str] = {}
    for option in flag_options(command):
        for flag in (option.flag, option.short, option.off_flag_for(command)):
            if flag:
                wanted[flag] = option.key
    assert offered == wanted


@pytest.mark.parametrize("option", [option for option in OPTIONS if option.flag], ids=lambda option: option.key)
def test_flag_sets_its_option_and_no_other(option: object) -> None:
    """R-12: what is not given is not there, so that weaker layers count."""
    row = BY_KEY[getattr(option, "key")]  # noqa: B009 - the parameter is typed for the ids
    command = row.commands[0]
    given = [row.flag] if row.is_switch else [row.flag, "value"]
    expected: object = True if row.is_switch else ["value"] if row.kind.is_list else "value"
    assert flags_of(command, "task", *given) == (["task"], {row.key: expected})


@pytest.mark.parametrize(
    ("arguments", "task", "flags"),
    [
        ("a b", ["a", "b"], {}),
        ("--model m a b", ["a", "b"], {"model": "m"}),
        ("a --model m b", ["a", "b"], {"model": "m"}),
        ("a b --model=m", ["a", "b"], {"model": "m"}),
        ("--sandbox a", ["a"], {"sandbox": True}),
        ("--no-sandbox a", ["a"], {"sandbox": False}),
        ("--ctx x,y --ctx z a", ["a"], {"ctx": ["x,y", "z"]}),
        ("-c x a", ["a"], {"ctx": ["x"]}),
        ("-- --model m", ["--model", "m"], {}),
        ("a -- --no-sandbox", ["a", "--no-sandbox"], {}),
        ("-- a -- b", ["a", "--", "b"], {}),
        ("a -", ["a", "-"], {}),
        ("--sandbox-image= a", ["a"], {"sandbox_image": ""}),
    ],
)
def test_flags_and_words_may_be_mixed(arguments: str, task: list[str], flags: dict[str, object]) -> None:
    """R-80, F-25, F-26."""
    assert flags_of("run", *arguments.split()) == (task, flags)


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (
            ("--sandbox-netwrok", "none"),
            "unrecognized arguments: --sandbox-netwrok none",
            "did you mean --sandbox-network?",
        ),
        (("--no-sand",), "unrecognized arguments: --no-sand", "did you mean --no-sandbox?"),
        (("--mod", "m"), "unrecognized arguments: --mod m", "did you mean --model?"),
        (("--foo",), "unrecognized arguments: --foo", HELP),
        (("--zzz",), "unrecognized arguments: --zzz", HELP),
        (("--model",), "argument -m/--model: expected one argument", HELP),
        (
            ("--sandbox=no",),
            "argument --sandbox: ignored explicit argument 'no'",
            HELP,
        ),
        (("--\x1b[2J",), "unrecognized arguments: --\\x1b[2J", HELP),
        (("--\u202e",), "unrecognized arguments: --\\u202e", HELP),
    ],
)
def test_what_is_no_flag_is_refused(arguments: tuple[str, ...], message: str, hint: str) -> None:
    """R-80, F-25, R-64: never part of the task; with the nearest one, and shown harmlessly."""
    with pytest.raises(UsageError) as raised:
        flags_of("run", "task", *arguments)
    assert (raised.value.message, raised.value.hint, raised.value.exit_code) == (message, hint, 2)


def test_no_abbreviation_of_any_flag_is_accepted() -> None:
    """R-80: every proper prefix that is no flag itself."""
    flags = {option.flag for option in flag_options("run")} | {"--no-sandbox", "--help"}
    prefixes = {flag[:length] for flag in flags for length in range(3, len(flag))} - flags
    parser = parser_for("run")
    for prefix in sorted(prefixes):
        with pytest.raises(UsageError):
            parser.read(["task", prefix])


def test_continue_has_no_flag_that_leaves_the_sandbox() -> None:
    """R-2."""
    with pytest.raises(UsageError):
        flags_of("continue", "--no-sandbox", "task")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_names_every_flag(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """R-80: on stdout, with 0."""
    with pytest.raises(SystemExit) as ended:
        flags_of(command, "--help")
    words = capsys.readouterr().out.replace(",", " ").split()
    assert (ended.value.code, {option.flag for option in flag_options(command)} - set(words)) == (0, set())


@pytest.mark.parametrize("command", PROGRAM)
def test_help_fits_a_terminal_of_80_columns(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """R-80: of each command and each of its actions, examples and all."""
    monkeypatch.setenv("COLUMNS", "80")
    module = importlib.import_module(PROGRAM[command][0])
    actions = getattr(module, "ACTIONS", {})
    for made in [action.parser() for action in actions.values()] or [module.parser()]:
        assert [line for line in made.format_help().splitlines() if len(line) > 80] == []


def test_percent_signs_in_help_are_harmless() -> None:
    parser = parser_for("run")
    assert isinstance(parser, argparse.ArgumentParser)
    assert parser.format_help()
