"""git beyond its tables: configuration given on the way, paths that are thrown away, addresses that run (B36)."""

from __future__ import annotations

import re
from collections.abc import Callable

from odek.danger.call import Call
from odek.danger.options import Arguments
from odek.danger.risk import Scope
from odek.danger.rules.table import EXEC, LOCAL, NET, SYSTEM, Path
from odek.danger.shell import abstract_text
from odek.patterns import pattern

_EXECUTING_KEY = pattern(
    r"core\.(?:pager|fsmonitor|sshcommand|editor|askpass|hookspath|gitproxy|attributesfile|worktree|alternaterefscommand)$|"
    r"sequence\.editor$|alias\.|pager\.|diff\.external$|(?:diff|merge|filter|difftool|mergetool|gpg|trailer|tar|browser|man)\.|"
    r"credential\.|protocol\.|include(?:if)?\.|uploadpack\.|receive\.|remote\..*\.(?:uploadpack|receivepack|vcs|proxy)$|"
    r"url\.|init\.templatedir$|interactive\.difffilter$|submodule\..*\.update$|sendemail\.|instaweb\.|web\.|guitool\.|"
    r"http\..*(?:proxy|sslverify|cookiefile)|safe\.directory$|extensions\.|log\.mailmap$|mailmap\.|svn\.|lfs\.",
    re.IGNORECASE,
)
_IDENTITY = pattern(
    r"(?:user\.(?:name|email|signingkey)|commit\.gpgsign|init\.defaultbranch|pull\.(?:rebase|ff)|push\.default|color\..*|"
    r"core\.(?:autocrlf|eol|filemode|ignorecase|longpaths|quotepath|safecrlf|symlinks)|branch\..*|rebase\.\w+|merge\.ff|fetch\.prune|"
    r"advice\..*|diff\.(?:renames|algorithm)|status\.\w+|gc\.auto|http\.postbuffer|tag\.\w+|log\.\w+|feature\.\w+|blame\.\w+)$",
    re.IGNORECASE,
)
_RUNNING_ADDRESS = pattern(r"\w+::|(?:ssh://)?-")
_REMOTE = ("clone", "fetch", "pull", "push", "ls-remote", "remote", "submodule", "archive")
_PATH_OPTIONS = ("--ours", "--theirs", "--pathspec-from-file", "-p", "--patch")
_EVERYTHING = (".", "./", "*")
_IS_PATH = pattern(rf"\.\.?/|:|{abstract_text.STAR}")
_READS_CONFIG = ("--get", "--get-all", "--get-regexp", "--list", "-l", "--show-origin", "--get-urlmatch")


def check_git(call: Call, path: Path, arguments: Arguments) -> None:
    """Add what the tables cannot say to the verdict on `git …`."""
    _check_given_configuration(call, arguments)
    command = path[1] if len(path) > 1 else ""
    words = arguments.operands[len(path) - 1 :]
    if command in _REMOTE and any(_RUNNING_ADDRESS.match(word) for word in arguments.operands[1:]):
        call.add(EXEC, "address", "uses an address that runs a command")
    rule = _RULES.get(command)
    if rule:
        rule(call, path, arguments, words)


def _check_given_configuration(call: Call, arguments: Arguments) -> None:
    for option in arguments.options:
        if option.name not in ("-c", "--config-env") or option.value is None or option.index >= arguments.rest_index:
            continue
        key = option.value.partition("=")[0]
        if _EXECUTING_KEY.match(key) or not _is_plain(key):
            call.add(EXEC, "config", "sets what git will run")
        value = option.value.partition("=")[2]
        if value.startswith("!"):
            call.shell(value[1:], call.state.copy())


def _is_plain(key: str) -> bool:
    return bool(re.fullmatch(r"[A-Za-z][\w.-]*\.[\w-]+", key))


def _check_thrown_away(call: Call, path: Path, arguments: Arguments, words: tuple[str, ...]) -> None:
    """`checkout -- PATH` and `restore PATH` overwrite what is not committed."""
    if path[1] == "restore":
        if not arguments.has("-S", "--staged") or arguments.has("-W", "--worktree"):
            call.add(SYSTEM, "restore", "throws uncommitted changes away")
        return
    creates = arguments.has("-b", "-B", "--orphan", "--detach", "-t", "--track")
    chosen = arguments.after_dashes > 0 or arguments.has(*_PATH_OPTIONS)
    named = len(words) > 1 or any(word in _EVERYTHING or _IS_PATH.match(word) for word in words)
    if chosen or (named and not creates):
        call.add(SYSTEM, "checkout", "throws uncommitted changes away")


def _check_config(call: Call, _path: Path, arguments: Arguments, words: tuple[str, ...]) -> None:
    """Reading is harmless; the table holds everything else for dangerous, identity keys are not."""
    names = {option.name for option in arguments.options}
    wide = arguments.has("--global", "--system")
    if (
        arguments.has(*_READS_CONFIG)
        or (words[:1] in (("get",), ("list",)))
        or (len(words) == 1 and not names & {"--unset"})
    ):
        return
    if not wide and words and _IDENTITY.match(words[1] if words[0] == "set" and len(words) > 1 else words[0]):
        return
    if wide:
        call.add(SYSTEM, "config", "changes git's settings for all repositories of the user", scope=Scope.SYSTEM)
    else:
        call.write(".git/config")


def is_harmless_config(arguments: Arguments) -> bool:
    """Return whether `git config …` reads, or sets a key that names no program."""
    words = arguments.operands[1:]
    names = {option.name for option in arguments.options}
    if arguments.has(
        "-e", "--edit", "--global", "--system", "--file", "-f", "--blob", "--replace-all", "--add"
    ) and not arguments.has(*_READS_CONFIG):
        return False
    if arguments.has(*_READS_CONFIG) or words[:1] in (("get",), ("list",)):
        return True
    if len(words) == 1 and not names - {"--local", "--worktree", "--bool", "--type"}:
        return not words[0].startswith(("set", "unset", "edit", "rename", "remove"))
    key = words[1:2] if words[:1] == ("set",) else words[:1]
    return bool(key) and bool(_IDENTITY.match(key[0]))


def _check_listing(call: Call, path: Path, arguments: Arguments, words: tuple[str, ...]) -> None:
    """`branch NAME` and `tag NAME` create, without a name they list."""
    command = path[1]
    lists = arguments.has(
        "-l", "--list", "--contains", "--merged", "--no-merged", "--points-at", "-a", "--all", "-r", "--remotes"
    )
    if command in ("branch", "tag") and words and not lists and not arguments.has("--show-current", "-v", "--verify"):
        call.add(LOCAL, command, "changes the repository")
    if command == "remote" and path[2:] and path[2] in ("show",) and not arguments.has("-n"):
        call.add(NET, "remote", "talks to a remote repository")
    if command in ("remote", "notes") and path[1:] == (command,) and words:
        call.add(EXEC, command, "is a subcommand that no rule knows")
    if path[1:3] in (("remote", "set-url"), ("remote", "add")):
        call.write(".git/config")


def _check_new(call: Call, path: Path, arguments: Arguments, words: tuple[str, ...]) -> None:
    """`init` and `clone` create a directory, or set the present one up."""
    if path[1] == "clone" and any(option.name == "-c" for option in arguments.options):
        call.add(EXEC, "config", "sets what git will run")
    target = words[1:2] if path[1] == "clone" else words[:1]
    call.write(*target)


def _check_reset(call: Call, _path: Path, _arguments: Arguments, _words: tuple[str, ...]) -> None:
    call.add(LOCAL, "reset", "changes the index or the branch")


def _check_stash(call: Call, path: Path, _arguments: Arguments, words: tuple[str, ...]) -> None:
    if path == ("git", "stash") and words:
        call.add(SYSTEM, "stash", "may drop stashed work")


def _check_submodule(call: Call, path: Path, _arguments: Arguments, words: tuple[str, ...]) -> None:
    if path == ("git", "submodule") and words:
        call.add(EXEC, "submodule", "is a subcommand that no rule knows")
    elif path[2:3] == ("add",):
        call.add(LOCAL, "submodule", "changes the repository")


def _check_push(call: Call, _path: Path, _arguments: Arguments, words: tuple[str, ...]) -> None:
    if any(word.startswith(("+", ":")) for word in words):
        call.add(SYSTEM, "push", "overwrites or deletes a branch elsewhere")


def _check_clean(call: Call, _path: Path, arguments: Arguments, _words: tuple[str, ...]) -> None:
    if not arguments.has("-n", "--dry-run"):
        call.add(SYSTEM, "clean", "deletes files that are not in the repository")


def _check_hooks(call: Call, path: Path, _arguments: Arguments, _words: tuple[str, ...]) -> None:
    if path[1] == "hook" or path[2:3] == ("install",):
        call.write(".git/hooks/pre-push")


_Rule = Callable[[Call, Path, Arguments, tuple[str, ...]], None]
_RULES: dict[str, _Rule] = {
    "checkout": _check_thrown_away,
    "restore": _check_thrown_away,
    "config": _check_config,
    "branch": _check_listing,
    "tag": _check_listing,
    "remote": _check_listing,
    "notes": _check_listing,
    "reset": _check_reset,
    "stash": _check_stash,
    "submodule": _check_submodule,
    "push": _check_push,
    "clean": _check_clean,
    "init": _check_new,
    "clone": _check_new,
    "hook": _check_hooks,
    "lfs": _check_hooks,
}
