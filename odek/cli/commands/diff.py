"""odek diff: what a turn changed in the working directory (R-278)."""

from __future__ import annotations

import json
import time

from odek.app.config import load
from odek.app.turn_files import project_files
from odek.cli.main import COMMANDS
from odek.cli.parser import CommandParser
from odek.cli.terminal import Terminal
from odek.cli.turn_changes import Which, diff_json, list_json, list_rows, parse_number, show_diff, warn_of_damage
from odek.host import Host


def parser() -> CommandParser:
    """Return the parser of `odek diff`."""
    made = CommandParser(
        "diff",
        COMMANDS["diff"][1],
        usage="[TURN] [--stat | --json] [--list]",
        examples=("odek diff", "odek diff --stat", "odek diff --list", "odek diff 7 | git apply -R"),
    )
    made.add_argument(
        "turn", metavar="TURN", nargs="?", default="", help="its number in --list; the last one if not given"
    )
    made.add_argument("--stat", action="store_true", help="a line for each file instead of its lines")
    made.add_argument("--json", action="store_true", help="the changes as JSON")
    made.add_argument("--list", action="store_true", help="the turns and undos that are kept of this folder")
    return made


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Print the changes of a turn on stdout."""
    parsed = parser().read_flags(arguments)
    which = Which(parse_number(parsed.turn))
    project = project_files(host, load(host, {}, terminal).settings)
    if not parsed.list and not parsed.json:
        show_diff(project, which, terminal, stat=parsed.stat)
        return 0
    with project.reading() as reading:
        warn_of_damage(reading, terminal)
        if parsed.json:
            shown = list_json(reading) if parsed.list else diff_json(reading, which.find(reading, undone_too=True))
            text = json.dumps(shown, indent=2)
        else:
            text = "\n".join(list_rows(reading, now_s=time.time())) or "No turns are kept."
    terminal.answer(text)
    return 0
