"""Judges one simple command: finds the rule for its program, and what holds whatever the rule says."""

from __future__ import annotations

import re

from odek.danger.call import Call, Judge
from odek.danger.names import identify_program
from odek.danger.paths import has_ordinary_home, is_below, names_secret, resolve, territory
from odek.danger.risk import RiskClass
from odek.danger.rules.interpreters import judge_feed
from odek.danger.rules.registry import RULES
from odek.danger.shell import marks
from odek.danger.shell.expand import Fields
from odek.danger.shell.scope import Scope

_SHOWN = 40  # characters of a program's name in a reason
_VERSION_OPTIONS = ("--version", "--help", "-version", "-V")


def judge_call(judge: Judge, scope: Scope, fields: Fields, stdin: str | None, secrets: frozenset[str]) -> str:
    """Judge a command of at least one word; return what it prints, as far as that is known."""
    word = fields[0]
    if not marks.is_exact(word) or not word:
        judge.add(RiskClass.UNKNOWN, "program.computed", "runs a program whose name cannot be told beforehand")
        for argument in fields[1:]:
            judge.read(argument, scope, "mention")
        return marks.ANY
    program = identify_program(word, RULES)
    call = Call(judge=judge, scope=scope, program=program.name, argv=fields, stdin=stdin, secrets=secrets)
    judge.note((program.name, *fields[1:]))
    if program.origin == "file":
        _judge_file(call)
    if program.origin != "file" and _is_harmless_form(program.name, fields):
        judge.add(RiskClass.SAFE, program.name, "only tells what there is")
        call.read(*call.arguments)
        return call.output
    if program.known and not (program.origin != "file" and _asks_version(call)):
        RULES[program.name](call)
        judge_feed(call)
    elif not program.known and program.origin != "file":
        _judge_unknown(call)
    if _names_network_device(fields):
        judge.add(RiskClass.NETWORK_EGRESS, "redirect.network", "opens a network connection")
    return call.output


def trusted_output(fields: Fields, output: str) -> str:
    """Return what a command prints, as far as it cannot be made to print something else.

    A rule says of `date` that it prints a word, and of `find` that it prints paths; `date "+-rf /"` and
    `find -printf` print what they are given.
    """
    if marks.NAME in output and fields[0] != "mktemp" and not _PRINTS_A_WORD.fullmatch(" ".join(fields)):
        return marks.ANY
    if marks.BELOW in output and not _PRINTS_PATHS.fullmatch(" ".join(fields)):
        return marks.ANY
    return output


def _is_harmless_form(program: str, fields: Fields) -> bool:
    """Return whether it is the one harmless form of a program that can do much (F18)."""
    words = (program, *fields[1:])
    return not any(re.search(r"[\s\0-\6]", word) for word in words) and bool(_HARMLESS.fullmatch(" ".join(words)))


_HARMLESS = re.compile(
    r"crontab -l|(?:node|nodejs|npm|npx|tsc|ruby|perl|php|make|gcc|g\+\+|cc|clang|docker|podman) -v|(?:python|pypy) -V|"
    r"sqlite3(?: -(?:readonly|header|csv|json|line|table|box))* (?!-)\S+ \.(?:tables|schema|databases|indexes)(?: \w+)?"
)
_PRINTS_A_WORD = re.compile(
    r"date( -u)?( \+%[%\w:.-]*)?|nproc|uname( -[smrn])?|arch|hostname|whoami|id -(u|g|un|gn)|uuidgen|"
    r"git (rev-parse( --short(=\d+)?)? HEAD|describe( --tags| --always| --abbrev=\d+)*)|getconf [A-Z_]+"
)
_PRINTS_PATHS = re.compile(
    r"find (?!.*-(?:printf|ls)\b)(?!-)[^\0-\6]*|fd(find)?\b(?!.* -l)[^\0]*|git ls-files\b(?!.* -[stv])[^\0]*|"
    r"git grep\b.* -l\b.*|e?grep .*-\w*[lL]\w*\b.*|rg .*(?:-l|--files)\b.*|ls( -[1aAtrS]+)*( [^-\0]*)?|"
    r"(?:sort|uniq|head|tail|shuf|tac|cat)\b[^\0]*|e?grep\b[^\0]*"
)


def _names_network_device(fields: Fields) -> bool:
    """Return whether a word names one of bash's network devices."""
    return any("/dev/tcp/" in field or "/dev/udp/" in field for field in fields)


def _asks_version(call: Call) -> bool:
    return len(call.argv) == 2 and call.argv[1] in _VERSION_OPTIONS


def _judge_file(call: Call) -> None:
    """Judge a program given by a path outside the directories of the system."""
    word = call.argv[0]
    place = call.judge.place
    own = [*place.temp, *((territory(place),) if len(territory(place)) > 1 else ())]
    if has_ordinary_home(place):
        own.append(place.home)
    files = [resolve(word, cwd) for cwd in call.scope.cwds]
    if all(any(is_below(file, folder) for folder in own) for file in files):
        call.judge.add(RiskClass.CODE_EXECUTION, "program.file", f"runs the program {_shown(word)} of the project")
    else:
        call.judge.add(RiskClass.UNKNOWN, "program.foreign", f"runs the program {_shown(word)}, which no rule knows")
    if call.program not in RULES:
        _scan_arguments(call)


def _judge_unknown(call: Call) -> None:
    call.judge.add(RiskClass.UNKNOWN, "program.unknown", f"no rule knows the program {_shown(call.argv[0])}")
    _scan_arguments(call)


def _scan_arguments(call: Call) -> None:
    call.read(*call.arguments, how="mention")
    if any(names_secret(argument) for argument in call.arguments):
        call.judge.add(RiskClass.SYSTEM_WRITE, "read.secret", "names a file that may hold secrets")


def _shown(word: str) -> str:
    return word if len(word) <= _SHOWN else word[: _SHOWN - 1] + "…"
