"""Finding the command, and turning every ending into words and an exit code."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module

import pytest
from support.odek_process import ROOT

from odek import __version__
from odek.cli.main import COMMANDS, is_task, main


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_has_a_module_with_main(command: str) -> None:
    """R-80."""
    module, summary = COMMANDS[command]
    assert callable(import_module(module).main)
    assert (summary[0].islower(), summary.endswith(".")) == (True, False)


@pytest.mark.parametrize("arguments", [["version"], ["--version"], ["-V"]])
def test_version(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert (main(arguments), capsys.readouterr()) == (0, (f"odek {__version__}\n", ""))


@pytest.mark.parametrize(("arguments", "code"), [([], 2), (["--help"], 0), (["-h"], 0), (["help"], 0)])
def test_overview(arguments: list[str], code: int, capsys: pytest.CaptureFixture[str]) -> None:
    """R-80: with every command and its line."""
    assert main(arguments) == code
    shown = capsys.readouterr().out
    assert [name for name, (_, summary) in COMMANDS.items() if f"  {name} " not in shown or summary not in shown] == []


@pytest.mark.parametrize(
    ("name", "error", "hint"),
    [
        ("rnu", 'unknown command "rnu"', 'did you mean "run"?'),
        ("zzz", 'unknown command "zzz"', "`odek --help` lists the commands"),
        ("\x1b[2J\u202e\n", 'unknown command "\\x1b[2J\\u202e\\n"', "`odek --help` lists the commands"),
        ("x" * 1000, f'unknown command "{"x" * 59}…"', "`odek --help` lists the commands"),
        ("--git", 'unknown option before a command "--git"', "`odek --help` lists the commands"),
        ("--plain", 'unknown option before a command "--plain"', 'options follow the command: odek run --plain … "…"'),
        ("--zzzzz", 'unknown option before a command "--zzzzz"', "`odek --help` lists the commands"),
    ],
)
def test_unknown_command(name: str, error: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    """R-80, R-64."""
    assert (main([name]), capsys.readouterr()) == (2, ("", f"odek: error: {error}\nodek: hint: {hint}\n"))


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("-p fix", "odek run"), ("--print fix", "odek run"), ("exec fix", "odek run"), ("ask why", "odek run"),
        ("chat", "odek repl"), ("interactive", "odek repl"), ("resume", "odek continue"),
        ("--continue", "odek continue"),
        ("-r 20260715", "odek continue"), ("sessions", "odek session list"), ("login", "odek setup"),
        ("auth", "odek setup"), ("logout", "~/.odek/secrets.env"), ("selfupdate", "odek update"),
        ("upgrade", "odek update"), ("uninstall", "remove it"), ("model", "odek models"), ("-v", "odek version"),
        ("settings", "odek config view"), ("status", "odek doctor"), ("shell", "odek sandbox shell"),
        ("ps", "odek sandbox ls"), ("verify", "odek sandbox verify"), ("explain", "odek danger explain"),
        ("web", "odek serve"), ("/exit", "odek repl"), ("--model m task", "odek run --model"),
        ("--modell m task", "odek run --model"), ("-m m task", "odek run -m"),
        ("--no-sandbox fix", "odek run --no-sandbox"),
        ("fix the tests", "odek run"), ("RUN fix", '"run"'), ("doctr", '"doctor"'), ("session ls", "odek session list"),
        ("session lst", "odek session list"), ("sandbox list", "odek sandbox ls"),
        ("config show", "odek config view"), ("approvals ls", "odek approvals list"),
    ],
)  # fmt: skip
def test_command_of_another_tool_is_answered_with_the_one_of_odek(
    line: str, wanted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """C8, R-301: in one line, with status 2; nothing is carried out."""
    code, (out, err) = main(line.split()), capsys.readouterr()
    (error, hint) = err.splitlines()
    assert (code, out, error.startswith("odek: error: "), wanted in hint) == (2, "", True, True), hint


@pytest.mark.parametrize("word", ["rm", "kill", "stop", "clean", "reset", "purge"])
def test_hint_names_nothing_that_destroys(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    """R-301."""
    assert main([word]) == 2
    assert not re.search("rm|delete|prune|revoke|cleanup|trim", capsys.readouterr().err.partition("hint:")[2])


@pytest.mark.parametrize(
    ("task", "is_one"),
    [
        ("fix it", True), ("rm -rf /", True), ("why?\n", False), ("-p fix it", False), ("--model x", False),
        ("fix\u00a0it", True), (" ", False), ("fix", False),
    ],
)  # fmt: skip
def test_task_in_quotes_is_run(task: str, is_one: bool) -> None:
    """C8, R-301: a task for the model, which is all that runs it; an option in the quotes makes it none."""
    assert is_task(task) is is_one


_INTERRUPTED = """
import sys, types
sys.path.insert(0, sys.argv[1])
from odek.cli import main
from odek.errors import Interrupted

class Named:
    def __set_name__(self, owner, name):
        raise Interrupted(15)

def fail(arguments, host, terminal):
    try:
        type("Made", (), {"field": Named()})
    except Interrupted as interruption:
        raise RuntimeError("Error calling __set_name__") from interruption  # as Python 3.10 and 3.11 do by themselves

module = types.ModuleType("planted")
module.main = fail
sys.modules["planted"] = module
main.COMMANDS["planted"] = ("planted", "")
sys.exit(main.main(["planted"]))
"""


def test_signal_that_comes_while_a_class_is_made_ends_odek_as_any_other() -> None:
    """Python up to 3.11 wraps what `__set_name__` raises, a signal during the imports included."""
    argv = [sys.executable, "-I", "-S", "-c", _INTERRUPTED, str(ROOT)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (143, "", "odek: stopped by SIGTERM\n")


def test_the_entry_imports_next_to_nothing() -> None:
    """`odek version` and `odek --help` are answered before anything that costs time is there."""
    code = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import odek.cli.main; "
        "print(sorted({'typing', 're', 'enum', 'dataclasses', 'argparse', 'json', 'collections'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
