"""odek sandbox build: make the image of ./Dockerfile.odek ahead of a run (R-36)."""

from __future__ import annotations

import json

from odek.app.config import load
from odek.app.sandbox import build_sandbox_image
from odek.cli.parser import CommandParser
from odek.cli.runtime import terminal_runtime
from odek.cli.terminal import Terminal
from odek.host import Host
from odek.sandbox.build.context import read_dockerfile
from odek.sandbox.build.dockerfile import NAME, SWITCH
from odek.sandbox.errors import SandboxConfigError


def parser() -> CommandParser:
    """Return the parser of `odek sandbox build`."""
    made = CommandParser(
        "sandbox build",
        f"build the image of ./{NAME}, whether it was built before or not",
        usage="[--no-cache] [--json]",
        examples=(
            "odek sandbox build",
            "odek sandbox build --no-cache",
            f"{SWITCH}=1 odek sandbox build   # RUN steps get the network",
        ),
    )
    made.add_argument("--no-cache", action="store_true", help="run every step again")
    made.add_argument("--json", action="store_true", help="tag, ID and digest as JSON")
    return made


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Build, after the approval that a run asks for as well, and print the tag and the ID."""
    parsed = parser().read_flags(arguments)
    config = load(host, {}, terminal)
    dockerfile = read_dockerfile(host.cwd)
    if dockerfile is None:
        raise SandboxConfigError(f"there is no {NAME} here", hint="write one, beginning with FROM and an image")
    made = build_sandbox_image(dockerfile, config, terminal_runtime(host, terminal), no_cache=parsed.no_cache)
    facts = {"tag": dockerfile.tag, "id": made.image_id, "dockerfile_sha256": dockerfile.sha256}
    terminal.answer(json.dumps(facts) if parsed.json else f"{dockerfile.tag} {made.image_id}")
    return 0
