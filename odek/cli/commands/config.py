"""odek config: the settings in force, each with its source (R-19); the schema of a project's file (R-20)."""

from __future__ import annotations

import json

from odek.app.config import load
from odek.cli.main import COMMANDS
from odek.cli.parser import CommandParser
from odek.cli.terminal import Terminal
from odek.config.options import Source
from odek.config.schema import schema
from odek.config.view import render_view
from odek.errors import UsageError
from odek.host import Host
from odek.text import visible


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Carry out `odek config view` and `odek config schema`."""
    parser = CommandParser(
        "config",
        COMMANDS["config"][1],
        usage="view [--json] | schema [--global]",
        examples=("odek config view", "odek config schema > odek.schema.json"),
        actions=("view", "schema"),
    )
    parser.add_argument("action", nargs="*", metavar="view | schema", help="what to show")
    parser.add_argument("--json", action="store_true", help="the settings as JSON")
    parser.add_argument("--global", action="store_true", dest="for_global", help="the schema of ~/.odek/config.json")
    parsed, rest = parser.read(arguments)
    action = [*parsed.action, *rest]
    if action == ["schema"]:
        source = Source.GLOBAL if parsed.for_global else Source.PROJECT
        terminal.answer(json.dumps(schema(source), indent=2))
    elif action == ["view"]:
        from odek.app.effective_config import settings_of_a_run

        shown = settings_of_a_run(load(host, {}, terminal), host)
        terminal.answer(json.dumps(shown, indent=2) if parsed.json else render_view(shown))
    else:
        said = f'"{visible(" ".join(action))}" cannot be shown' if action else "say what to show"
        raise UsageError(said, hint="one of: view, schema; `odek config --help` explains them")
    return 0
