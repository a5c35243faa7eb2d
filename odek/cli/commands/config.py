"""odek config: the settings in force, each with its source (R-19); the schema of a settings file (R-20)."""

from __future__ import annotations

import json
from functools import partial

from odek.app.config import load
from odek.cli.parser import CommandParser
from odek.cli.subcommands import Subcommand, run_subcommand
from odek.cli.table import Column, render_table
from odek.cli.terminal import Terminal
from odek.config.options import Source
from odek.config.schema import schema
from odek.config.view import view_rows
from odek.host import Host

_COLUMNS = (Column("SETTING", least=16), Column("VALUE", least=10), Column("SET BY", least=12, rank=1))


def view_parser() -> CommandParser:
    """Return the parser of `odek config view`."""
    made = CommandParser(
        "config view",
        "show what is set for a run here, each setting with its source",
        usage="[--all | --json]",
        examples=("odek config view", "odek config view --all", "odek config view --json | jq .sandbox_network"),
    )
    made.add_argument("--all", action="store_true", help="also those that have their default")
    made.add_argument("--json", action="store_true", help="all settings as JSON")
    return made


def view(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Print the settings."""
    parsed = view_parser().read_flags(arguments)
    from odek.app.effective_config import settings_of_a_run

    shown = settings_of_a_run(load(host, {}, terminal), host)
    if parsed.json:
        terminal.answer(json.dumps(shown, indent=2))
        return 0
    rows = view_rows(shown, everything=parsed.all)
    if rows:
        terminal.answer("\n".join(render_table(_COLUMNS, rows, terminal.answer_columns)))
    left = len(shown) - len(rows)
    if left and (terminal.answer_columns or not rows):
        terminal.note(f"{left if rows else 'all'} settings have their default: odek config view --all")
    return 0


def print_schema_parser() -> CommandParser:
    """Return the parser of `odek config schema`."""
    made = CommandParser(
        "config schema",
        "print the JSON schema of ./odek.json, for editors",
        usage="[--global]",
        examples=("odek config schema > odek.schema.json",),
    )
    made.add_argument("--global", action="store_true", dest="for_global", help="the schema of ~/.odek/config.json")
    return made


def print_schema(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Print the schema."""
    del host
    source = Source.GLOBAL if print_schema_parser().read_flags(arguments).for_global else Source.PROJECT
    terminal.answer(json.dumps(schema(source), indent=2))
    return 0


ACTIONS = {
    "view": Subcommand(__name__, "show what is set for a run here, each setting with its source", "view"),
    "schema": Subcommand(__name__, "print the JSON schema of ./odek.json, for editors", "print_schema"),
}
main = partial(run_subcommand, "config", ACTIONS)
