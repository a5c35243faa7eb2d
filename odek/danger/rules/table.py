"""How rules are written down as data, and how one command is looked up in them.

A command is a program with the words that follow it, "git stash drop"; the longest one that fits
gives the class. Options add findings of their own, whatever the class. The entry of the bare program
is what an unknown subcommand means, so it is the severest that is usual.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from odek.danger.call import Call
from odek.danger.options import Arguments, matches, parse_arguments
from odek.danger.paths import Reading, names_secret
from odek.danger.risk import RiskClass

SAFE = RiskClass.SAFE
LOCAL = RiskClass.LOCAL_WRITE
INSTALL = RiskClass.INSTALL
NET = RiskClass.NETWORK_EGRESS
EXEC = RiskClass.CODE_EXECUTION
SYSTEM = RiskClass.SYSTEM_WRITE
DESTROY = RiskClass.DESTRUCTIVE

Path = tuple[str, ...]
Effect = RiskClass | Literal["write", "run", "read"]
"""what an option means: a class, or that its value is a file written, a command run, a file read"""
Operands = Literal["all", "last", "first", "rest"]
"""which operands are files that are written; rest: all after the first"""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionRule:
    """What some options of a command mean."""

    path: Path
    names: tuple[str, ...]
    effect: Effect
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """All data rules together."""

    commands: Mapping[Path, tuple[RiskClass, str]]
    options: Mapping[str, tuple[OptionRule, ...]]
    values: Mapping[str, frozenset[str]]
    """options whose value may be an argument of its own, by program"""
    flags: Mapping[str, frozenset[str]]
    """options in front of a subcommand that take no value, by program"""
    written: Mapping[Path, Operands]
    whole: frozenset[str]
    """programs whose single-dash options are words"""
    branching: frozenset[str]
    """programs with subcommands"""


ALONE = "="
"""stands for no subcommand at all in a row: "yarn =" """

_NAMES_ONLY = frozenset(
    """
    ls exa eza lsd tree stat file du touch mkdir rmdir chmod chgrp basename dirname realpath readlink which whereis
    type namei mountpoint findmnt pathchk md5sum sha1sum sha256sum sha512sum cksum shasum b2sum
    """.split()
)
"""programs that show or change that a file is there, not what is in it"""

_PROSE = ("-m", "--message", "--author", "--title", "-b", "--body", "--notes")
_PATTERNS = ("--exclude", "--include", "--exclude-dir", "--glob", "--iglob")
"""options whose value leaves files out, or in"""
_PROSE_PROGRAMS = ("git", "hg", "svn", "jj", "gh", "glab")

CommandRow = tuple[RiskClass, str, str]
"""class, reason, commands separated by commas"""
OptionRow = tuple[Effect, str, str]
"""effect, reason, commands with their options, separated by commas"""


def build_commands(rows: Iterable[CommandRow]) -> dict[Path, tuple[RiskClass, str]]:
    """Return the rows by command; the severest wins where one stands twice."""
    commands: dict[Path, tuple[RiskClass, str]] = {}
    for level, reason, names in rows:
        for name in names.split(","):
            path = tuple(name.split())
            if path and (path not in commands or commands[path][0] < level):
                commands[path] = (level, reason)
    return commands


def build_options(rows: Iterable[OptionRow]) -> dict[str, tuple[OptionRule, ...]]:
    """Return the option rules by program."""
    found: dict[str, list[OptionRule]] = {}
    for effect, reason, names in rows:
        for name in names.split(","):
            words = name.split()
            if not words:
                continue
            path = tuple(word for word in words if not word.startswith(("-", "+")))
            options = tuple(word for word in words if word.startswith(("-", "+")))
            found.setdefault(path[0], []).append(OptionRule(path=path, names=options, effect=effect, reason=reason))
    return {program: tuple(rules) for program, rules in found.items()}


def build_words(rows: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """Return rows of "program program": "-x --long" by program."""
    return {program: frozenset(options.split()) for programs, options in rows.items() for program in programs.split()}


def build_written(rows: Mapping[Operands, str]) -> dict[Path, Operands]:
    """Return which operands are written, by command."""
    return {tuple(name.split()): role for role, names in rows.items() for name in names.split(",") if name.split()}


def read_arguments(table: Table, call: Call) -> Arguments:
    """Return the arguments of a call, parsed as the table says."""
    rules = table.options.get(call.program, ())
    takes = {name for rule in rules if isinstance(rule.effect, str) for name in rule.names}
    return parse_arguments(
        call.arguments,
        table.values.get(call.program, frozenset()) | takes,
        whole=call.program in table.whole,
    )


def find_command(table: Table, call: Call, arguments: Arguments) -> Path:
    """Return the longest command of the table that fits; the bare program when options hide which."""
    path: Path = (call.program,)
    if not arguments.operands and (call.program, ALONE) in table.commands:
        return (call.program, ALONE)
    for option in arguments.options:
        if option.index < arguments.rest_index and _hides(table, call, option.name, option.value):
            return path
    for count in range(min(len(arguments.operands), 3), 0, -1):
        longer = (call.program, *arguments.operands[:count])
        if longer in table.commands:
            return longer
    return path


def check_by_table(table: Table, call: Call) -> tuple[Path, Arguments]:
    """Check a call by data alone; return the command found and its arguments, for rules that add to it."""
    arguments = read_arguments(table, call)
    path = find_command(table, call, arguments)
    level, reason = table.commands[path]
    if arguments.rest_index and len(path) > 1:
        call.context.note((*path, *arguments.operands[len(path) - 1 :]))  # "git -C x push" is "git push" too
    if level is not SAFE:
        call.add(level, ".".join(path[1:]), reason)
    else:
        call.context.add(level, ".".join(path), reason)
    _check_options(table, call, path, arguments)
    _check_operands(table, call, path, arguments)
    values = tuple(option.value for option in arguments.options if option.value and not _is_prose(call, option.name))
    how: Reading = "names" if call.program in _NAMES_ONLY else "contents"
    if level >= EXEC:
        how = "mention"
    call.read(*arguments.operands, *values, how=how)
    if level >= EXEC and any(names_secret(word) for word in call.arguments):
        call.add(SYSTEM, "secret", "names a file that may hold secrets")
    return path, arguments


def check_options(table: Table, call: Call) -> None:
    """Check only the options of a call, for programs whose operands have a rule of their own."""
    _check_options(table, call, (call.program,), read_arguments(table, call))


def check_secrets(call: Call) -> None:
    """Check a command that shows what is put into it."""
    if call.secrets:
        names = ", ".join(sorted(call.secrets)[:3])
        call.add(SYSTEM, "secret", f"shows the value of {names}, which looks like a secret")


def _is_prose(call: Call, option: str) -> bool:
    """Return whether the value of an option is text for people, which names files without meaning them."""
    return (call.program in _PROSE_PROGRAMS and option in _PROSE) or option in _PATTERNS


def _hides(table: Table, call: Call, name: str, value: str | None) -> bool:
    """Return whether an unknown option in front of the subcommand may have taken a word as its value."""
    if call.program not in table.branching:
        return False
    known = table.values.get(call.program, frozenset()) | table.flags.get(call.program, frozenset())
    rules = table.options.get(call.program, ())
    return value is None and not matches(name, known) and not any(matches(name, rule.names) for rule in rules)


def _check_options(table: Table, call: Call, path: Path, arguments: Arguments) -> None:
    words = (call.program, *arguments.operands)
    for rule in table.options.get(call.program, ()):
        if words[: len(rule.path)] != rule.path:
            continue
        for option in arguments.options:
            if not matches(option.name, rule.names):
                continue
            if isinstance(rule.effect, RiskClass):
                call.add(rule.effect, ".".join((*path[1:], option.name.lstrip("-"))), rule.reason)
            elif option.value is not None:
                _check_value(call, rule.effect, option.value, rule.reason)


def _check_value(call: Call, effect: str, value: str, reason: str) -> None:
    if effect == "write":
        call.write(value)
    elif effect == "run":
        call.add(EXEC, "run", reason)
        call.shell(value)


def _check_operands(table: Table, call: Call, path: Path, arguments: Arguments) -> None:
    role = table.written.get(path)
    operands = arguments.operands[len(path) - 1 :]
    unclear = tuple(option.name for option in arguments.options if option.name[:1] in "\0\3")
    if role == "all":
        call.write(*operands, *unclear)
    elif role == "last":
        call.write(*(operands[-1:] or unclear[-1:]))
    elif role == "first":
        call.write(*operands[:1])
    elif role == "rest":
        call.write(*operands[1:], *unclear)
