"""From the first word of a command to the program that the rules know. Pure."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass
from typing import Literal

from odek.danger.call import Call, RuleContext
from odek.danger.paths import has_ordinary_home, is_below, names_secret, resolve, writable_root
from odek.danger.risk import RiskClass
from odek.danger.rules.interpreters import check_feed
from odek.danger.rules.registry import rules
from odek.danger.shell import abstract_text
from odek.danger.shell.expand import Fields
from odek.danger.shell.state import ShellState
from odek.patterns import pattern

_SYSTEM_FOLDERS = frozenset(
    """
    /bin /usr/bin /sbin /usr/sbin /usr/local/bin /usr/local/sbin /opt/homebrew/bin /snap/bin /opt/local/bin
    /home/linuxbrew/.linuxbrew/bin /lib /lib64 /usr/lib /usr/lib64
    """.split()
)
_VERSION = pattern(r"-?[0-9]+(?:\.[0-9]+)*t?$")
_LOADER = pattern(r"ld-(?:linux|musl)[\w.-]*\.so(?:\.[0-9]+)*$|ld\.so$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program as the rules see it."""

    name: str
    """the name that the rules know, or the plain name"""
    known: bool
    origin: Literal["path", "system", "file"]
    """found through PATH, in a directory of the system, or a file of the user's own"""


def identify_program(word: str, known: Container[str]) -> Program:
    """Return what `word` names; versioned names (`python3.11`, `clang-18`) are known by their base."""
    folder, slash, base = word.rpartition("/")
    origin: Literal["path", "system", "file"] = (
        "path" if not slash else "system" if folder in _SYSTEM_FOLDERS else "file"
    )
    if _LOADER.fullmatch(base):
        return Program(name="ld.so", known=True, origin=origin)
    if base in known:
        return Program(name=base, known=True, origin=origin)
    plain = _VERSION.sub("", base)
    if plain and plain != base and plain in known:
        return Program(name=plain, known=True, origin=origin)
    return Program(name=base, known=False, origin=origin)


_SHOWN = 40  # characters of a program's name in a reason
_VERSION_OPTIONS = ("--version", "--help", "-version", "-V")


def check_call(
    context: RuleContext, state: ShellState, fields: Fields, stdin: str | None, secrets: frozenset[str]
) -> str:
    """Check a command of at least one word; return what it prints, as far as that is known."""
    word = fields[0]
    if not abstract_text.is_exact(word) or not word:
        context.add(RiskClass.UNKNOWN, "program.computed", "runs a program whose name cannot be known beforehand")
        for argument in fields[1:]:
            context.read(argument, state, "mention")
        return abstract_text.ANY
    program = identify_program(word, rules())
    call = Call(context=context, state=state, program=program.name, argv=fields, stdin=stdin, secrets=secrets)
    context.note((program.name, *fields[1:]))
    if program.origin == "file":
        _check_file(call)
    if program.origin != "file" and _is_harmless_form(program.name, fields):
        context.add(RiskClass.SAFE, program.name, "only shows what there is")
        call.read(*call.arguments)
        return call.output
    if program.known and not (program.origin != "file" and _asks_version(call)):
        rules()[program.name](call)
        check_feed(call)
    elif not program.known and program.origin != "file":
        _check_unknown(call)
    if _names_network_device(fields):
        context.add(RiskClass.NETWORK_EGRESS, "redirect.network", "opens a network connection")
    return call.output


def trusted_output(fields: Fields, output: str) -> str:
    """Return what a command prints, as far as it cannot be made to print something else.

    A rule says of `date` that it prints a word, and of `find` that it prints paths; `date "+-rf /"` and
    `find -printf` print what they are given.
    """
    if abstract_text.NAME in output and fields[0] != "mktemp" and not _PRINTS_A_WORD.fullmatch(" ".join(fields)):
        return abstract_text.ANY
    if abstract_text.BELOW in output and not _PRINTS_PATHS.fullmatch(" ".join(fields)):
        return abstract_text.ANY
    return output


def _is_harmless_form(program: str, fields: Fields) -> bool:
    """Return whether it is the one harmless form of a program that can do much (F18)."""
    words = (program, *fields[1:])
    return not any(re.search(r"[\s\0-\6]", word) for word in words) and bool(_HARMLESS.fullmatch(" ".join(words)))


_HARMLESS = pattern(
    r"crontab -l|(?:node|nodejs|npm|npx|tsc|ruby|perl|php|make|gcc|g\+\+|cc|clang|docker|podman) -v|(?:python|pypy) -V|"
    r"sqlite3(?: -(?:readonly|header|csv|json|line|table|box))* (?!-)\S+ \.(?:tables|schema|databases|indexes)(?: \w+)?"
)
_PRINTS_A_WORD = pattern(
    r"date( -u)?( \+%[%\w:.-]*)?|nproc|uname( -[smrn])?|arch|hostname|whoami|id -(u|g|un|gn)|uuidgen|"
    r"git (rev-parse( --short(=\d+)?)? HEAD|describe( --tags| --always| --abbrev=\d+)*)|getconf [A-Z_]+"
)
_PRINTS_PATHS = pattern(
    r"find (?!.*-(?:printf|ls)\b)(?!-)[^\0-\6]*|fd(find)?\b(?!.* -l)[^\0]*|git ls-files\b(?!.* -[stv])[^\0]*|"
    r"git grep\b.* -l\b.*|e?grep .*-\w*[lL]\w*\b.*|rg .*(?:-l|--files)\b.*|ls( -[1aAtrS]+)*( [^-\0]*)?|"
    r"(?:sort|uniq|head|tail|shuf|tac|cat)\b[^\0]*|e?grep\b[^\0]*"
)


def _names_network_device(fields: Fields) -> bool:
    """Return whether a word names one of bash's network devices."""
    return any("/dev/tcp/" in field or "/dev/udp/" in field for field in fields)


def _asks_version(call: Call) -> bool:
    return len(call.argv) == 2 and call.argv[1] in _VERSION_OPTIONS


def _check_file(call: Call) -> None:
    """Check a program given by a path outside the directories of the system."""
    word = call.argv[0]
    place = call.context.place
    own = [*place.temp, *((writable_root(place),) if len(writable_root(place)) > 1 else ())]
    if has_ordinary_home(place):
        own.append(place.home)
    files = [resolve(word, cwd) for cwd in call.state.cwds]
    if all(any(is_below(file, folder) for folder in own) for file in files):
        call.context.add(RiskClass.CODE_EXECUTION, "program.file", f"runs the program {_shown(word)} of the project")
    else:
        call.context.add(RiskClass.UNKNOWN, "program.foreign", f"runs the program {_shown(word)}, which no rule knows")
    if call.program not in rules():
        _scan_arguments(call)


def _check_unknown(call: Call) -> None:
    call.context.add(RiskClass.UNKNOWN, "program.unknown", f"no rule knows the program {_shown(call.argv[0])}")
    _scan_arguments(call)


def _scan_arguments(call: Call) -> None:
    call.read(*call.arguments, how="mention")
    if any(names_secret(argument) for argument in call.arguments):
        call.context.add(RiskClass.SYSTEM_WRITE, "read.secret", "names a file that may hold secrets")


def _shown(word: str) -> str:
    return word if len(word) <= _SHOWN else word[: _SHOWN - 1] + "…"
