"""What a person may have meant who types the command of another tool (C8). Only a failing line loads it.

Nothing is carried out that was not written: a guess is a hint.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from typing import NoReturn

from odek.cli.main import COMMANDS
from odek.cli.terminal import Terminal
from odek.config.settings import flag_options
from odek.errors import UsageError
from odek.host import Host
from odek.text import truncate, visible

_HINTS: Mapping[str, str] = {
    "-p --print --prompt exec ask prompt query task do agent generate -e --exec": (
        '`odek run "…"` does one task and prints the answer'
    ),
    "chat talk interactive -i --interactive tui start new code": "`odek repl` talks with the agent, turn by turn",
    "resume -c --continue -r --resume": "`odek continue` goes on with the last session, or with the one of --id",
    "sessions history conversations threads log logs": "`odek session list` lists the sessions",
    "login auth signin key keys onboard configure install": (
        "`odek setup` chooses a model and says where its key goes"
    ),
    "logout signout": "a key is in a variable such as OPENAI_API_KEY, or in ~/.odek/secrets.env: remove it there",
    "upgrade self-update selfupdate": "`odek update` installs the newest release; --check only looks for it",
    "uninstall": "odek is one file: remove it, and ~/.odek, which holds what it has kept",
    "model --list-models list-models": "`odek models` lists the models of the server; --model chooses one for a run",
    "provider providers": '`odek setup` chooses a provider; "providers" in docs/CONFIG.md adds your own',
    "settings preferences options set get": "`odek config view` shows the settings; docs/CONFIG.md says where they go",
    "permissions allow trust trusted": (
        "`odek approvals list` shows what was approved; `odek danger explain` what would be asked"
    ),
    "status check diagnose health info": "`odek doctor` checks settings, model, network and sandbox",
    "web ui server gui dashboard": "`odek serve` serves the agent to a browser",
    "shell bash sh": "`odek sandbox shell` opens a shell in the sandbox",
    "ps containers ls": "`odek sandbox ls` lists the containers, `odek session list` the sessions",
    "image images": "`odek sandbox image` makes, saves and loads images",
    "verify attack": "`odek sandbox verify` attacks the sandbox and shows what holds",
    "explain": "`odek danger explain` explains a command, `odek sandbox explain` what a run would do",
    "commands usage -? /help /?": "`odek --help` lists the commands",
    "-v --v": "`odek version` prints the version; `odek run --interaction-mode verbose` shows more of the work",
}
_BY_WORD = {word: hint for words, hint in _HINTS.items() for word in words.split()}
_ACTIONS = (
    ("ls", "list", "show-all"),
    ("rm", "remove", "delete", "del", "revoke"),
    ("view", "show", "get", "cat", "print"),
    ("clean", "cleanup", "prune", "gc"),
    ("check", "doctor", "status"),
)
"""words for one thing"""


def main(arguments: list[str], host: Host, terminal: Terminal) -> NoReturn:
    """Say what a command line that begins with no command of odek may have meant. Raises UsageError."""
    del host, terminal
    options = [flag for option in flag_options("run") for flag in (option.flag, option.short, option.off_flag) if flag]
    what = "option before a command" if arguments[0].startswith("-") else "command"
    given = truncate(visible(arguments[0]), 60)
    raise UsageError(f'unknown {what} "{given}"', hint=hint_for(arguments, COMMANDS, options))


def hint_for(line: Sequence[str], commands: Collection[str], options: Collection[str]) -> str:
    """Return what to type in place of a line that begins with no command; `options` are those of `odek run`."""
    word = line[0]
    if word in _BY_WORD:
        return _BY_WORD[word]
    if word.startswith("/") and word[1:] in (
        "exit",
        "quit",
        "clear",
        "model",
        "new",
        "undo",
        "diff",
        "plan",
        "compact",
    ):
        return "commands with a slash are for `odek repl`"
    option = word.partition("=")[0]
    if option.startswith("-"):
        near = difflib.get_close_matches(option, options, n=1, cutoff=0.8)
        given = option if option in options else near[0] if near else ""
        return f'options follow the command: odek run {given} … "…"' if given else "`odek --help` lists the commands"
    near = difflib.get_close_matches(word.lower(), commands, n=1)
    if near:
        return f'did you mean "{near[0]}"?'
    if len(line) > 1 and not any(each.startswith("-") for each in line):
        return 'a task follows the command run: odek run "…"; `odek --help` lists the commands'
    return "`odek --help` lists the commands"


def near_action(word: str, actions: Collection[str]) -> str:
    """Return the action that was probably meant, "" where none is near."""
    for group in _ACTIONS:
        same = [action for action in actions if word in group and action in group]
        if same:
            return same[0]
    return next(iter(difflib.get_close_matches(word, actions, n=1)), "")
