"""odek completion: a script that lets a shell complete odek's commands and options."""

from __future__ import annotations

from odek.cli.command_docs import read_command_docs
from odek.cli.completion import SHELLS, render_completion
from odek.cli.main import COMMANDS
from odek.cli.parser import CommandParser
from odek.cli.terminal import Terminal
from odek.errors import UsageError
from odek.host import Host
from odek.text import truncate, visible


def parser() -> CommandParser:
    """Return the parser of `odek completion`."""
    made = CommandParser(
        "completion",
        COMMANDS["completion"][1],
        usage="bash | zsh | fish",
        examples=(
            'eval "$(odek completion bash)"   # in ~/.bashrc',
            "odek completion zsh >~/.zfunc/_odek   # with fpath+=~/.zfunc before compinit",
            "odek completion fish >~/.config/fish/completions/odek.fish",
        ),
        actions=SHELLS,
    )
    made.add_argument("shell", nargs="*", metavar=" | ".join(SHELLS), help="the shell that is to complete")
    return made


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Print the script for one shell."""
    parsed, rest = parser().read(arguments)
    del host
    words = [*parsed.shell, *rest]
    if len(words) != 1 or words[0] not in SHELLS:
        given = truncate(visible(" ".join(words)), 60)
        raise UsageError(
            f'"{given}" is not a shell that odek knows' if given else "say for which shell",
            hint=f"one of: {', '.join(SHELLS)}",
        )
    terminal.answer(render_completion(words[0], read_command_docs()))
    return 0
