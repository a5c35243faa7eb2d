"""odek sandbox build: make the image of ./Dockerfile.odek ahead of a run (R-36)."""

from __future__ import annotations

import json
import time
from functools import partial

from odek.app.sandbox import build_sandbox_image
from odek.cli.approval_prompt import find_terminal_user
from odek.cli.console import print_notice
from odek.cli.parser import CommandParser
from odek.cli.session import real_docker
from odek.cli.terminal import Terminal
from odek.config.layers import read_layers
from odek.config.resolve import resolve
from odek.host import Host
from odek.sandbox.build.context import read_dockerfile
from odek.sandbox.build.dockerfile import NAME, SWITCH
from odek.sandbox.errors import SandboxConfigError


def build(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Build, after the approval that a run asks for as well, and print the tag and the ID."""
    parser = CommandParser(
        "sandbox build",
        f"build the image of ./{NAME}, whether it was built before or not",
        usage="[--no-cache] [--json]",
        examples=(
            "odek sandbox build",
            "odek sandbox build --no-cache",
            f"{SWITCH}=1 odek sandbox build   # RUN steps get the network; later runs need it no more",
        ),
    )
    parser.add_argument("--no-cache", action="store_true", help="run every step anew")
    parser.add_argument("--json", action="store_true", help="tag, ID and digest as JSON")
    parsed = parser.read_flags(arguments)
    settings = resolve(read_layers(host, {}))
    for warning in settings.warnings:
        terminal.warn(warning)
    dockerfile = read_dockerfile(host.cwd)
    if dockerfile is None:
        raise SandboxConfigError(f"there is no {NAME} here", hint="write one, beginning with FROM and an image")
    made = build_sandbox_image(
        dockerfile,
        settings,
        host,
        no_cache=parsed.no_cache,
        docker=real_docker(host),
        operator=find_terminal_user(),
        emit=partial(print_notice, terminal),
        sleep=time.sleep,
    )
    facts = {"tag": dockerfile.tag, "id": made.image_id, "dockerfile_sha256": dockerfile.sha256}
    terminal.answer(json.dumps(facts) if parsed.json else f"{dockerfile.tag} {made.image_id}")
    return 0
