"""odek sandbox: what the sandbox uses on this machine. Finds the action, each of which has its own help."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import cast

from odek.cli.main import COMMANDS
from odek.cli.terminal import Terminal
from odek.errors import UsageError
from odek.host import Host
from odek.text import truncate, visible

ACTIONS: dict[tuple[str, ...], tuple[str, str, str]] = {
    ("explain",): ("odek.cli.commands.sandbox_explain", "main", "show what a run here would do, and why"),
    ("shell",): ("odek.cli.commands.sandbox_shell", "main", "open a shell in the sandbox that a run here would get"),
    ("doctor",): (
        "odek.cli.commands.sandbox_doctor",
        "main",
        "check Docker and the sandbox, and say what to mend",
    ),
    ("verify",): ("odek.cli.commands.sandbox_verify", "main", "attack the sandbox, and show what holds"),
    ("ls",): ("odek.cli.commands.sandbox_containers", "ls", "list the containers that odek made here"),
    ("rm",): ("odek.cli.commands.sandbox_containers", "rm", "remove containers of odek's"),
    ("prune",): ("odek.cli.commands.sandbox_containers", "prune", "remove containers whose odek is gone"),
    ("build",): ("odek.cli.commands.sandbox_build", "build", "build the image of ./Dockerfile.odek now"),
    ("image", "bootstrap"): (
        "odek.cli.commands.sandbox_images",
        "bootstrap",
        "make a small local image for hosts that reach no registry",
    ),
    ("image", "save"): ("odek.cli.commands.sandbox_images", "save", "write an image to a file, to carry it elsewhere"),
    ("image", "load"): ("odek.cli.commands.sandbox_images", "load", "take in an image from a file, and prove it"),
}
"""the words of an action → its module, its function, one line for the list"""

Action = Callable[[list[str], Host, Terminal], int]


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Carry out one action of `odek sandbox`."""
    for words, (module, function, _) in ACTIONS.items():
        if tuple(arguments[: len(words)]) == words:
            action = cast("Action", getattr(import_module(module), function))
            return action(arguments[len(words) :], host, terminal)
    if {"--help", "-h"} & set(arguments) or arguments == ["help"]:
        terminal.answer(_overview())
        return 0
    given = truncate(visible(" ".join(arguments)), 60)
    raise UsageError(
        f'"{given}" is no action of odek sandbox' if given else "say what to do with the sandbox",
        hint=f"one of: {', '.join(' '.join(words) for words in ACTIONS)}; `odek sandbox --help` explains them",
    )


def _overview() -> str:
    width = max(len(" ".join(words)) for words in ACTIONS)
    lines = [f"  {' '.join(words):<{width}}  {summary}" for words, (_, _, summary) in ACTIONS.items()]
    return "\n".join(
        (
            "usage: odek sandbox ACTION [OPTION…]",
            "",
            COMMANDS["sandbox"][1].capitalize() + ".",
            "",
            *lines,
            "",
            "`odek sandbox ACTION --help` explains an action and its options.",
        )
    )
