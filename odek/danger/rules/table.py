"""What commands.txt says about commands and their options, and how one command is looked up in it.

A command is a program with the words that follow it, "git stash drop"; the longest one that fits
gives the class. Options add findings of their own, whatever the class. The entry of the bare program
is what an unknown subcommand means, so it is the severest that is usual.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Literal, cast

import odek.danger.rules
from odek.danger.call import Call
from odek.danger.datafile import read_data, rows_of
from odek.danger.options import Arguments, matches, parse_arguments
from odek.danger.paths import Reading, names_secret
from odek.danger.risk import RiskClass, Scope
from odek.patterns import pattern

SAFE = RiskClass.SAFE
LOCAL = RiskClass.LOCAL_WRITE
INSTALL = RiskClass.INSTALL
NET = RiskClass.NETWORK_EGRESS
EXEC = RiskClass.CODE_EXECUTION
SYSTEM = RiskClass.SYSTEM_WRITE
DESTROY = RiskClass.DESTRUCTIVE
BLOCKED = RiskClass.BLOCKED

Path = tuple[str, ...]
Operands = Literal["all", "last", "first", "rest"]
"""which operands are files that are written; rest: all after the first"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRow:
    """The class of a command."""

    level: RiskClass
    reason: str
    scope: Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionRow:
    """What some options of a command mean: a class, or that the value is a file written or a command run."""

    path: Path
    names: tuple[str, ...]
    effect: CommandRow | Literal["write", "run"]
    reason: str


@dataclass(slots=True)
class Table:
    """The content of commands.txt."""

    commands: dict[Path, CommandRow] = field(default_factory=dict)
    options: dict[str, tuple[OptionRow, ...]] = field(default_factory=dict)
    """by program"""
    values: dict[str, frozenset[str]] = field(default_factory=dict)
    """options whose value may be an argument of its own, by program"""
    flags: dict[str, frozenset[str]] = field(default_factory=dict)
    """options in front of a subcommand that take no value, by program"""
    wrapper: dict[str, frozenset[str]] = field(default_factory=dict)
    """options in front of the command that a program runs which take a value, by program"""
    written: dict[Path, Operands] = field(default_factory=dict)
    whole: frozenset[str] = frozenset()
    """programs whose single-dash options are words"""
    branching: frozenset[str] = frozenset()
    """programs with subcommands"""


ALONE = "="
"""the program without a subcommand, in a row: "yarn =" """

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
_CLASSES = {level.label: level for level in RiskClass}
_ITEM = pattern(r"\s*([^\s(),]+) \(([^)]*)\)|([^,]+)")


@cache
def table() -> Table:
    """Return the content of commands.txt. The file is read once, when something is asked for."""
    return parse_table(read_data(odek.danger.rules, "commands.txt"))


def parse_table(text: str) -> Table:
    """Return the rows in `text`. Raises ValueError for one that cannot be read, and for a second class of a command."""
    found = Table()
    for row in rows_of(text):
        head, reason, names = (part.strip() for part in row.split("|"))
        kind, _, detail = head.partition(" ")
        if kind == "values":
            for program in _names(reason):
                _add_values(found, program, names.split())
        elif kind == "flags":
            found.flags.update(dict.fromkeys(_names(reason), frozenset(names.split())))
        elif kind == "wrapper":
            found.wrapper.update(dict.fromkeys(_names(reason), frozenset(names.split())))
        elif kind == "whole":
            found.whole = frozenset(_names(names))
        elif kind == "written":
            found.written.update(dict.fromkeys(map(_path, _names(names)), cast("Operands", detail)))
        elif kind == "option":
            for name in _names(names):
                _add_option(found, _option(name, detail, reason))
        else:
            _add_commands(found, _meaning(kind, reason), map(_path, _names(names)))
    found.branching = frozenset(path[0] for path in found.commands if len(path) > 1)
    return found


def _add_option(found: Table, option: OptionRow) -> None:
    program = option.path[0]
    found.options[program] = (*found.options.get(program, ()), option)
    if isinstance(option.effect, str):
        _add_values(found, program, option.names)


def _add_values(found: Table, program: str, options: Iterable[str]) -> None:
    found.values[program] = found.values.get(program, frozenset()).union(options)


def _add_commands(found: Table, meaning: CommandRow, paths: Iterable[Path]) -> None:
    for path in paths:
        if path in found.commands:
            raise ValueError(f"{' '.join(path)} has two classes")
        found.commands[path] = meaning


def _names(text: str) -> Iterator[str]:
    """Yield the names in "a, b (c, d)": a, b c, b d."""
    for program, words, plain in _ITEM.findall(text):
        if program:
            yield from (f"{program} {word.strip()}" for word in words.split(","))
        elif plain.strip():
            yield plain.strip()


def _path(name: str) -> Path:
    return tuple(name.split())


def _meaning(name: str, reason: str) -> CommandRow:
    level, _, scope = name.partition("/")
    return CommandRow(level=_CLASSES[level], reason=reason, scope=Scope(scope) if scope else Scope.WORKSPACE)


def _option(name: str, effect: str, reason: str) -> OptionRow:
    words = _path(name)
    options = tuple(word for word in words if word.startswith(("-", "+")))
    return OptionRow(
        path=words[: len(words) - len(options)],
        names=options,
        effect=cast("Literal['write', 'run']", effect) if effect in ("write", "run") else _meaning(effect, reason),
        reason=reason,
    )


def read_arguments(call: Call) -> Arguments:
    """Return the arguments of a call, parsed as the table says."""
    data = table()
    return parse_arguments(call.arguments, data.values.get(call.program, frozenset()), whole=call.program in data.whole)


def find_command(call: Call, arguments: Arguments) -> Path:
    """Return the longest command of the table that fits; the bare program when options hide which."""
    path: Path = (call.program,)
    if not arguments.operands and (call.program, ALONE) in table().commands:
        return (call.program, ALONE)
    for option in arguments.options:
        if option.index < arguments.rest_index and _hides(call, option.name, option.value):
            return path
    for count in range(min(len(arguments.operands), 3), 0, -1):
        longer = (call.program, *arguments.operands[:count])
        if longer in table().commands:
            return longer
    return path


def check_by_table(call: Call) -> tuple[Path, Arguments]:
    """Check a call by data alone; return the command found and its arguments, for rules that add to it."""
    arguments = read_arguments(call)
    path = find_command(call, arguments)
    row = table().commands[path]
    if arguments.rest_index and len(path) > 1:
        call.context.note((*path, *arguments.operands[len(path) - 1 :]))  # "git -C x push" is "git push" too
    if row.level is not SAFE:
        call.add(row.level, ".".join(path[1:]), row.reason, scope=row.scope)
    else:
        call.context.add(row.level, ".".join(path), row.reason)
    _check_options(call, path, arguments)
    _check_operands(call, path, arguments)
    values = tuple(option.value for option in arguments.options if option.value and not _is_prose(call, option.name))
    how: Reading = "names" if call.program in _NAMES_ONLY else "contents"
    if row.level >= EXEC:
        how = "mention"
    call.read(*arguments.operands, *values, how=how)
    if row.level >= EXEC and any(names_secret(word) for word in call.arguments):
        call.add(SYSTEM, "secret", "names a file that may hold secrets")
    return path, arguments


def check_options(call: Call) -> None:
    """Check only the options of a call, for programs whose operands have a rule of their own."""
    _check_options(call, (call.program,), read_arguments(call))


def check_secrets(call: Call) -> None:
    """Check a command that shows what is put into it."""
    if call.secrets:
        names = ", ".join(sorted(call.secrets)[:3])
        call.add(SYSTEM, "secret", f"shows the value of {names}, which looks like a secret", scope=Scope.SYSTEM)


def _is_prose(call: Call, option: str) -> bool:
    """Return whether the value of an option is text for people, which names files without meaning them."""
    return (call.program in _PROSE_PROGRAMS and option in _PROSE) or option in _PATTERNS


def _hides(call: Call, name: str, value: str | None) -> bool:
    """Return whether an unknown option in front of the subcommand may have taken a word as its value."""
    if call.program not in table().branching:
        return False
    known = table().values.get(call.program, frozenset()) | table().flags.get(call.program, frozenset())
    rules = table().options.get(call.program, ())
    return value is None and not matches(name, known) and not any(matches(name, rule.names) for rule in rules)


def _check_options(call: Call, path: Path, arguments: Arguments) -> None:
    if not arguments.options:
        return
    words = (call.program, *arguments.operands)
    for rule in table().options.get(call.program, ()):
        if words[: len(rule.path)] != rule.path:
            continue
        for option in arguments.options:
            if not matches(option.name, rule.names):
                continue
            if isinstance(rule.effect, CommandRow):
                name = ".".join((*path[1:], option.name.lstrip("-")))
                call.add(rule.effect.level, name, rule.reason, scope=rule.effect.scope)
            elif option.value is not None:
                _check_value(call, rule.effect, option.value, rule.reason)


def _check_value(call: Call, effect: str, value: str, reason: str) -> None:
    if effect == "write":
        call.write(value)
    elif effect == "run":
        call.add(EXEC, "run", reason)
        call.shell(value)


def _check_operands(call: Call, path: Path, arguments: Arguments) -> None:
    role = table().written.get(path)
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
