"""Command lines: the flags are those of the options table, and nothing that is misspelt gets through."""

from __future__ import annotations

import argparse
import importlib
import re

import pytest

from odek.cli.commands import sandbox_explain, sandbox_shell
from odek.cli.commands.danger import describe_parser
from odek.cli.commands.serve import parser as serve_parser
from odek.cli.help import wrap, wrap_example
from odek.cli.main import COMMANDS as PROGRAM
from odek.cli.main import render_overview
from odek.cli.parser import CommandParser
from odek.cli.subcommands import render_actions
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
            "unrecognized arguments: --sandbox-netwrok",
            "did you mean --sandbox-network?",
        ),
        (("--no-sand",), "unrecognized arguments: --no-sand", "did you mean --no-sandbox?"),
        (("--mod", "m"), "unrecognized arguments: --mod", "did you mean --model?"),
        (("--foo",), "unrecognized arguments: --foo", HELP),
        (
            ("--sandbox-env", "A=1"),
            "unrecognized arguments: --sandbox-env",
            '"sandbox_env" has no flag; set it in ~/.odek/config.json',
        ),
        (
            ("--sandbox-volumes=.:/x",),
            "unrecognized arguments: --sandbox-volumes=.:/x",
            '"sandbox_volumes" has no flag; set it in ~/.odek/config.json',
        ),
        (
            ("--require-sandbox",),
            "unrecognized arguments: --require-sandbox",
            '"require_sandbox" has no flag; set ODEK_REQUIRE_SANDBOX',
        ),
        (("--tools-enabled", "x"), "unrecognized arguments: --tools-enabled", "did you mean --tool?"),
        (("--addr", "x:1"), "unrecognized arguments: --addr", "`odek serve` takes --addr, `odek run` does not"),
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


@pytest.mark.parametrize(
    "arguments", [("--port", "8080"), ("--port=8080",), ("--port",), ("--host", "0.0.0.0"), ("--host=x",)]
)
def test_what_other_servers_call_the_address_names_addr(arguments: tuple[str, ...]) -> None:
    """R-419: the first guess of a person who knows other programs."""
    with pytest.raises(UsageError) as raised:
        serve_parser().read_flags(list(arguments))
    assert raised.value.message == f"{arguments[0].partition('=')[0]} is not an option"
    assert raised.value.hint.startswith("--addr HOST:PORT has both")


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


@pytest.mark.parametrize("columns", [40, 60, 80, 120, 200])
@pytest.mark.parametrize("command", PROGRAM)
def test_help_fits_the_terminal(command: str, columns: int) -> None:
    """R-80, C10, R-302: of each command and action; only what is in quotes in an example is longer than a line."""
    module = importlib.import_module(PROGRAM[command][0])
    actions = getattr(module, "ACTIONS", {})
    pages = [made.render_help(columns) for made in (*(action.parser() for action in actions.values()),)]
    pages += (
        [render_actions(command, actions, skip=0, columns=columns)]
        if actions
        else [module.parser().render_help(columns)]
    )
    long = [line.strip().removesuffix(" \\") for page in pages for line in page.splitlines() if len(line) > columns]
    assert [line for line in long if line[0] not in "\"'>#"] == []
    assert columns < 80 or long == []
    if columns == 200:  # nothing is broken that need not be
        assert not [line for page in pages for line in page.splitlines() if line.endswith(" \\")]


@pytest.mark.parametrize("columns", [40, 80])
def test_overview_fits_the_terminal(columns: int) -> None:
    """R-302."""
    long = [line for line in render_overview(columns).splitlines() if len(line) > columns]
    assert [line for line in long if line.strip()[0] != '"'] == []


@pytest.mark.parametrize(
    ("line", "broken"),
    [
        ("  odek run x", "  odek run x"),
        ("  odek run --model m --json task", "  odek run --model m \\\n    --json task"),
        ("  odek run 'a b  c d e f g h i j k l'", "  odek run \\\n    'a b  c d e f g h i j k l'"),
        ("  odek completion # a long comment", "  odek completion \\\n    # a long comment"),
    ],
)
def test_example_is_broken_where_the_shell_goes_on(line: str, broken: str) -> None:
    """R-302."""
    assert wrap_example(line, 24) == broken


def test_words_stay_whole() -> None:
    """R-302: options have hyphens, and are not broken there."""
    assert wrap("set --sandbox-network here", 12) == "set\n--sandbox-network\nhere"


def test_help_says_what_the_command_uses(capsys: pytest.CaptureFixture[str]) -> None:
    """C11: of a command that asks no model, none of its options; a line of `odek run` is taken all the same."""
    used = {
        "danger explain": describe_parser(),
        "sandbox explain": sandbox_explain.parser(),
        "sandbox shell": sandbox_shell.parser(),
    }
    for name, made in used.items():
        text = made.format_help()
        assert not re.search("--model|--temperature|--max-iter|--system|--tool", text), name
        assert "--sandbox-network" in text
        made.parse_args(["--model", "m", "--max-iter", "3"])
    assert "--sandbox-memory" not in used["danger explain"].format_help()


def test_percent_signs_in_help_are_harmless() -> None:
    parser = parser_for("run")
    assert isinstance(parser, argparse.ArgumentParser)
    assert parser.format_help()
