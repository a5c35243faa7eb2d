"""odek sandbox: what the sandbox uses on this machine."""

from __future__ import annotations

from functools import partial

from odek.cli.subcommands import Subcommand, run_subcommand

_HERE = "odek.cli.commands.sandbox_"
ACTIONS = {
    "explain": Subcommand(f"{_HERE}explain", "show what a run here would do, and why"),
    "shell": Subcommand(f"{_HERE}shell", "open a shell in the sandbox that a run here would get"),
    "doctor": Subcommand(f"{_HERE}doctor", "check Docker and the sandbox, and say what to fix"),
    "verify": Subcommand(f"{_HERE}verify", "attack the sandbox, and show what holds"),
    "ls": Subcommand(f"{_HERE}containers", "list the containers that odek made here", "ls"),
    "rm": Subcommand(f"{_HERE}containers", "remove containers of odek's", "rm"),
    "prune": Subcommand(f"{_HERE}containers", "remove containers whose odek is gone", "prune"),
    "build": Subcommand(f"{_HERE}build", "build the image of ./Dockerfile.odek now"),
    "image bootstrap": Subcommand(
        f"{_HERE}images", "make a small local image for hosts that reach no registry", "bootstrap"
    ),
    "image save": Subcommand(f"{_HERE}images", "write an image to a file, to carry it elsewhere", "save"),
    "image load": Subcommand(f"{_HERE}images", "take in an image from a file, and prove it", "load"),
}
main = partial(run_subcommand, "sandbox", ACTIONS)
