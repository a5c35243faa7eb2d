"""Which rule judges which program."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from odek.danger.call import Call, Rule
from odek.danger.lists import words_of
from odek.danger.options import Arguments
from odek.danger.rules import flags, plain, services, tools
from odek.danger.rules.files import FILE_RULES
from odek.danger.rules.finding import FIND_RULES, found_paths
from odek.danger.rules.git import is_harmless_config, judge_git
from odek.danger.rules.interpreters import EXTRA_INTERPRETER_RULES, INTERPRETER_RULES
from odek.danger.rules.network import judge_cloud, judge_containers, judge_github, judge_ssh, judge_transfer
from odek.danger.rules.peers import NearJudge, stays_near
from odek.danger.rules.shell import SHELL_RULES
from odek.danger.rules.table import (
    LOCAL,
    SAFE,
    SYSTEM,
    Path,
    Table,
    build_commands,
    build_options,
    build_words,
    build_written,
    judge_by_table,
    judge_options,
    judge_secrets,
    read_arguments,
)
from odek.danger.rules.wrappers import RUN_SUBCOMMANDS, WRAPPER_RULES, judge_run_subcommand
from odek.danger.shell import marks

_COMMANDS = build_commands((*plain.ROWS, *tools.GIT, *tools.PACKAGES, *services.CONTAINERS, *services.CLOUDS))
TABLE = Table(
    commands=_COMMANDS,
    branching=frozenset(path[0] for path in _COMMANDS if len(path) > 1),
    options=build_options(flags.OPTIONS),
    values=build_words(flags.VALUES),
    flags=build_words(flags.FLAGS),
    written=build_written(flags.WRITTEN),
    whole=flags.WHOLE,
)

_More = Callable[[Call, Path, Arguments], None]
_MORE: Mapping[str, _More] = {
    "git": judge_git,
    **dict.fromkeys(("curl", "wget", "wget2"), judge_transfer),
    **dict.fromkeys(("ssh", "scp", "sftp", "mosh", "autossh", "sshfs"), judge_ssh),
    **dict.fromkeys(words_of("""
        aws gcloud az doctl kubectl oc heroku fly flyctl gsutil bq ibmcloud oci
        """), judge_cloud),
    **dict.fromkeys(("docker", "podman", "nerdctl", "docker-compose"), judge_containers),
    **dict.fromkeys(("gh", "glab"), judge_github),
}  # fmt: skip
_SHOWS_NO_VALUES = frozenset(
    ("ls", "date", "pwd", "which", "basename", "dirname", "realpath", "readlink", "mkdir", "touch")
)
_LISTS_BELOW = words_of("""
    find gfind fd fdfind grep egrep fgrep rg ag ls
    """)
_FILTERS = words_of("""
    sort uniq head tail grep egrep fgrep rg cat tac shuf
    """)
_NUMBERS = frozenset(
    (
        "date",
        "nproc",
        "uname",
        "arch",
        "hostname",
        "wc",
        "id",
        "whoami",
        "uuidgen",
        "getconf",
        "seq",
        "tput",
        "bc",
        "expr",
        "sha256sum",
    )
)


def judge_table(call: Call) -> None:
    """Judge a program by the tables, and by the rule that adds to them."""
    if call.judge.place.peers and stays_near(call, read_arguments(TABLE, call)):
        call.judge = NearJudge(call.judge)
    if call.program == "git" and is_harmless_config_call(call):
        return
    path, arguments = judge_by_table(TABLE, call)
    if call.program == "ps" and any(
        re.fullmatch(r"[A-Za-z]*e[A-Za-z]*|-[A-Za-z]*E[A-Za-z]*", word) for word in call.arguments
    ):
        call.add(SYSTEM, "environment", "shows the environment, which may hold secrets")
    more = _MORE.get(call.program)
    if more:
        more(call, path, arguments)
    extra = EXTRA_INTERPRETER_RULES.get(call.program)
    if extra:
        extra(call)
    if call.program in RUN_SUBCOMMANDS:
        judge_run_subcommand(call)
    level = TABLE.commands[path][0]
    if level <= LOCAL and call.program not in _SHOWS_NO_VALUES:
        judge_secrets(call)
    _tell_output(call, path, arguments)


def is_harmless_config_call(call: Call) -> bool:
    """Judge `git config` of a harmless key; return whether it was one."""
    arguments = read_arguments(TABLE, call)
    if arguments.operands[:1] != ("config",) or any(o.index < arguments.rest_index for o in arguments.options):
        return False
    if not is_harmless_config(arguments):
        return False
    writes = len(arguments.operands) > 2 and arguments.operands[1] not in ("get", "list")
    call.judge.add(LOCAL if writes else SAFE, "git.config", "reads or sets a harmless setting of the repository")
    return True


def _tell_output(call: Call, path: Path, arguments: Arguments) -> None:
    """Say what a command prints, where that tells something about the places it is used for."""
    name = call.program
    if name == "pwd" and len(call.scope.cwds) == 1:
        call.output = call.scope.cwds[0]
    elif call.argv[:3] == ("git", "rev-parse", "--show-toplevel"):
        call.output = call.judge.place.workspace or marks.ANY
    elif name in _NUMBERS or path[:2] in (("git", "rev-parse"), ("git", "describe")):
        call.output = marks.NAME
    elif path[:2] in (("git", "ls-files"), ("git", "diff"), ("git", "grep")):
        call.output = marks.BELOW
    elif name == "cat" and not arguments.operands and call.stdin is not None:
        call.output = call.stdin
    elif name in _FILTERS and call.stdin is not None:
        call.output = call.stdin if call.stdin == marks.BELOW else marks.ANY
    elif name in _LISTS_BELOW:
        call.output = _listed(call, arguments)


def _listed(call: Call, arguments: Arguments) -> str:
    if call.program in ("find", "gfind"):
        return found_paths(call)
    if call.program in ("grep", "egrep", "fgrep", "rg", "ag") and not arguments.has("-l", "--files-with-matches", "-L"):
        return marks.ANY
    inside = all(
        marks.is_exact(word.replace(marks.STAR, "")) and not word.startswith(("/", "..", "~"))
        for word in arguments.operands
    )
    return marks.BELOW if inside else marks.ANY


def judge_search(call: Call) -> None:
    """`find` and `fd`, whose output may be fed to something else."""
    FIND_RULES[call.program](call)
    call.output = found_paths(call)


def judge_file_rule(call: Call) -> None:
    """The rules of files, with the tables' option rules in front of them."""
    judge_by_options(call)
    FILE_RULES[call.program](call)
    judge_secrets(call)


def judge_by_options(call: Call) -> None:
    """Judge only the options of a program that has a rule of its own."""
    judge_options(TABLE, call)


def _rules() -> dict[str, Rule]:
    rules: dict[str, Rule] = dict.fromkeys((path[0] for path in TABLE.commands), judge_table)
    rules.update(dict.fromkeys(FILE_RULES, judge_file_rule))
    rules.update(dict.fromkeys(FIND_RULES, judge_search))
    rules.update(INTERPRETER_RULES)
    rules.update(WRAPPER_RULES)
    rules.update(SHELL_RULES)
    return rules


RULES: Mapping[str, Rule] = MappingProxyType(_rules())
"""by the plain name of the program"""
