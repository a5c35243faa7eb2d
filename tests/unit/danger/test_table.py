"""The data file of the rules."""

from __future__ import annotations

import pytest

from odek.danger.risk import RiskClass, Scope
from odek.danger.rules.registry import check_file_rule, check_table, rules
from odek.danger.rules.table import CommandRow, OptionRow, Table, parse_table, table

TEXT = """\
# a comment
safe | only reads | ls, npm (ls, config get), yarn =,
    cat
system_write/system | manages the system | apt
option destructive | deletes data | git (reset --hard, clean -f -d)
option write | | sort -o
written last | | cp
values | git, hub | -C --git-dir
flags | git | -p
wrapper | nice | -n --adjustment
whole | | find
"""


def test_rows_are_read() -> None:
    reads = CommandRow(level=RiskClass.SAFE, reason="only reads", scope=Scope.WORKSPACE)
    deletes = CommandRow(level=RiskClass.DESTRUCTIVE, reason="deletes data", scope=Scope.WORKSPACE)
    git = frozenset({"-C", "--git-dir"})
    assert parse_table(TEXT) == Table(
        commands={
            **dict.fromkeys((("ls",), ("npm", "ls"), ("npm", "config", "get"), ("yarn", "="), ("cat",)), reads),
            ("apt",): CommandRow(level=RiskClass.SYSTEM_WRITE, reason="manages the system", scope=Scope.SYSTEM),
        },
        options={
            "git": (
                OptionRow(path=("git", "reset"), names=("--hard",), effect=deletes, reason="deletes data"),
                OptionRow(path=("git", "clean"), names=("-f", "-d"), effect=deletes, reason="deletes data"),
            ),
            "sort": (OptionRow(path=("sort",), names=("-o",), effect="write", reason=""),),
        },
        values={"git": git, "hub": git, "sort": frozenset({"-o"})},
        flags={"git": frozenset({"-p"})},
        wrapper={"nice": frozenset({"-n", "--adjustment"})},
        written={("cp",): "last"},
        whole=frozenset({"find"}),
        branching=frozenset({"npm", "yarn"}),
    )


@pytest.mark.parametrize("text", ["safe | a | ls, ls\n", "safe | a | ls\ninstall | b | ls\n"])
def test_command_has_one_class(text: str) -> None:
    with pytest.raises(ValueError, match="ls has two classes"):
        parse_table(text)


@pytest.mark.parametrize("text", ["safe | ls\n", "secure | a | ls\n", "safe/all | a | ls\n"])
def test_row_that_cannot_be_read_raises(text: str) -> None:
    with pytest.raises((ValueError, KeyError)):
        parse_table(text)


def test_no_row_is_without_effect() -> None:
    """A program with a rule of its own has no class in the file, and no row speaks of a program that no rule knows."""
    found = rules()
    assert {path[0] for path in table().commands if found[path[0]] is not check_table} == set()
    spoken_of = {*table().options, *table().values, *table().flags, *(path[0] for path in table().written)}
    assert {name for name in spoken_of if found.get(name) not in (check_table, check_file_rule)} == set()
