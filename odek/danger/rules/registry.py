"""Which rule judges which program."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache

from odek.danger.call import Call, Rule
from odek.danger.options import Arguments
from odek.danger.risk import Scope
from odek.danger.rules.disks import check_disk
from odek.danger.rules.files import FILE_RULES
from odek.danger.rules.finding import FIND_RULES, found_paths
from odek.danger.rules.git import check_git, is_harmless_config
from odek.danger.rules.interpreters import EXTRA_INTERPRETER_RULES, INTERPRETER_RULES
from odek.danger.rules.local_services import find_hosts
from odek.danger.rules.network import check_cloud, check_containers, check_github, check_ssh, check_transfer
from odek.danger.rules.shell import SHELL_RULES
from odek.danger.rules.table import (
    LOCAL,
    SAFE,
    SYSTEM,
    Path,
    check_by_table,
    check_options,
    check_secrets,
    read_arguments,
    table,
)
from odek.danger.rules.wrappers import RUN_SUBCOMMANDS, WRAPPER_RULES, check_run_subcommand
from odek.danger.shell import abstract_text

_More = Callable[[Call, Path, Arguments], None]
_MORE: Mapping[str, _More] = {
    "git": check_git,
    **dict.fromkeys(("curl", "wget", "wget2"), check_transfer),
    **dict.fromkeys(("ssh", "scp", "sftp", "mosh", "autossh", "sshfs"), check_ssh),
    **dict.fromkeys(frozenset("""
        aws gcloud az doctl kubectl oc heroku fly flyctl gsutil bq ibmcloud oci
        """.split()), check_cloud),
    **dict.fromkeys(("docker", "podman", "nerdctl", "docker-compose"), check_containers),
    **dict.fromkeys(("gh", "glab"), check_github),
}  # fmt: skip
_SHOWS_NO_VALUES = frozenset(
    ("ls", "date", "pwd", "which", "basename", "dirname", "realpath", "readlink", "mkdir", "touch")
)
_LISTS_BELOW = frozenset("find gfind fd fdfind grep egrep fgrep rg ag ls".split())
_FILTERS = frozenset("sort uniq head tail grep egrep fgrep rg cat tac shuf".split())
_NUMBERS = frozenset("date nproc uname arch hostname wc id whoami uuidgen getconf seq tput bc expr sha256sum".split())


def check_table(call: Call) -> None:
    """Check a program by the tables, and by the rule that adds to them."""
    if call.context.place.peers:
        call.hosts = find_hosts(call, read_arguments(call))
    if call.program == "git" and is_harmless_config_call(call):
        return
    path, arguments = check_by_table(call)
    if call.program == "ps" and any(
        re.fullmatch(r"[A-Za-z]*e[A-Za-z]*|-[A-Za-z]*E[A-Za-z]*", word) for word in call.arguments
    ):
        call.add(SYSTEM, "environment", "shows the environment, which may hold secrets", scope=Scope.SYSTEM)
    check_disk(call)
    more = _MORE.get(call.program)
    if more:
        more(call, path, arguments)
    extra = EXTRA_INTERPRETER_RULES.get(call.program)
    if extra:
        extra(call)
    if call.program in RUN_SUBCOMMANDS:
        check_run_subcommand(call)
    level = table().commands[path].level
    if level <= LOCAL and call.program not in _SHOWS_NO_VALUES:
        check_secrets(call)
    _tell_output(call, path, arguments)


def is_harmless_config_call(call: Call) -> bool:
    """Check `git config` of a harmless key; return whether it was one."""
    arguments = read_arguments(call)
    if arguments.operands[:1] != ("config",) or any(o.index < arguments.rest_index for o in arguments.options):
        return False
    if not is_harmless_config(arguments):
        return False
    writes = len(arguments.operands) > 2 and arguments.operands[1] not in ("get", "list")
    call.context.add(LOCAL if writes else SAFE, "git.config", "reads or sets a harmless setting of the repository")
    return True


def _tell_output(call: Call, path: Path, arguments: Arguments) -> None:
    """Say what a command prints, where that says something about the places it is used for."""
    name = call.program
    if name == "pwd" and len(call.state.cwds) == 1:
        call.output = call.state.cwds[0]
    elif call.argv[:3] == ("git", "rev-parse", "--show-toplevel"):
        call.output = call.context.place.workspace or abstract_text.ANY
    elif name in _NUMBERS or path[:2] in (("git", "rev-parse"), ("git", "describe")):
        call.output = abstract_text.NAME
    elif path[:2] in (("git", "ls-files"), ("git", "diff"), ("git", "grep")):
        call.output = abstract_text.BELOW
    elif name == "cat" and not arguments.operands and call.stdin is not None:
        call.output = call.stdin
    elif name in _FILTERS and call.stdin is not None:
        call.output = call.stdin if call.stdin == abstract_text.BELOW else abstract_text.ANY
    elif name in _LISTS_BELOW:
        call.output = _listed(call, arguments)


def _listed(call: Call, arguments: Arguments) -> str:
    if call.program in ("find", "gfind"):
        return found_paths(call)
    if call.program in ("grep", "egrep", "fgrep", "rg", "ag") and not arguments.has("-l", "--files-with-matches", "-L"):
        return abstract_text.ANY
    inside = all(
        abstract_text.is_exact(word.replace(abstract_text.STAR, "")) and not word.startswith(("/", "..", "~"))
        for word in arguments.operands
    )
    return abstract_text.BELOW if inside else abstract_text.ANY


def check_search(call: Call) -> None:
    """`find` and `fd`, whose output may be fed to something else."""
    FIND_RULES[call.program](call)
    call.output = found_paths(call)


def check_file_rule(call: Call) -> None:
    """The rules of files, with the tables' option rules in front of them."""
    check_options(call)
    FILE_RULES[call.program](call)
    check_secrets(call)


@cache
def rules() -> Mapping[str, Rule]:
    """Return the rules by the plain name of the program."""
    found: dict[str, Rule] = dict.fromkeys((path[0] for path in table().commands), check_table)
    found.update(dict.fromkeys(FILE_RULES, check_file_rule))
    found.update(dict.fromkeys(FIND_RULES, check_search))
    found.update(INTERPRETER_RULES)
    found.update(WRAPPER_RULES)
    found.update(SHELL_RULES)
    return found
