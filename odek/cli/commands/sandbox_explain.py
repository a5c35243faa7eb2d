"""odek sandbox explain: what a run here would do, each value with its source; nothing is started or pulled."""

from __future__ import annotations

import json

from odek.app.attachments import external, read_ctx_files
from odek.app.config import load
from odek.app.explain import explain_run
from odek.cli.commands.run import PROFILE
from odek.cli.explain_view import explanation_to_json, render_explanation
from odek.cli.parser import CommandParser
from odek.cli.runtime import terminal_runtime
from odek.cli.terminal import Terminal
from odek.host import Host


def parser() -> CommandParser:
    """Return the parser of `odek sandbox explain`."""
    made = CommandParser(
        "sandbox explain",
        "show what a run here would do, without starting or pulling anything",
        usage="[OPTION of run…]",
        examples=(
            "odek sandbox explain",
            "odek sandbox explain --sandbox-compose myapp",
            "odek sandbox explain --json | jq .outcome",
        ),
    )
    made.add_argument("task", nargs="*", metavar="TASK", help="ignored, so that a command line of run fits")
    made.add_settings(of="run")
    made.reword("--json", "The explanation as JSON")
    return made


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Print the explanation. What a run refuses without asking Docker is refused here in the same words."""
    reader = parser()
    parsed, _ = reader.read(arguments)
    config = load(host, reader.flags(parsed), terminal)
    files = external(read_ctx_files(config.settings.ctx, cwd=host.cwd, home=host.home))
    explanation = explain_run(PROFILE, config, terminal_runtime(host, terminal), attachments=bool(files))
    if config.settings.json:
        terminal.answer(json.dumps(explanation_to_json(explanation), indent=2))
    else:
        terminal.answer(render_explanation(explanation))
    return 0
