"""odek models: what the model's server has, by the names that --model takes."""

from __future__ import annotations

import json

from odek.app.config import load
from odek.app.model import list_models, remember_models
from odek.cli.main import COMMANDS
from odek.cli.parser import CommandParser
from odek.cli.terminal import Terminal
from odek.errors import OdekError
from odek.host import Host
from odek.text import visible


def parser() -> CommandParser:
    """Return the parser of `odek models`."""
    made = CommandParser(
        "models",
        COMMANDS["models"][1],
        usage="[--json] [OPTION…]",
        examples=("odek models", "odek models --provider ollama", "odek models --base-url http://127.0.0.1:8080/v1"),
    )
    made.add_argument("--json", action="store_true", help="one JSON object: the address, the names, the one in force")
    made.add_settings()
    return made


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Print the names, one a line; the one in force is marked at a terminal."""
    reader = parser()
    parsed = reader.read_flags(arguments)
    config = load(host, reader.flags(parsed), terminal)
    settings = config.settings
    listed = list_models(settings, host, notify=terminal.warn)
    remember_models(listed.names, settings, host)
    current = settings.model.model
    if parsed.json:
        known = current if current in listed.names else None
        answer = {"address": listed.address, "models": list(listed.names), "model": known}
        terminal.answer(json.dumps(answer, ensure_ascii=False))
        return 0
    if not listed.names:
        raise OdekError(
            f"the model's server {listed.address} lists no models",
            hint="it may serve one all the same: name it with --model",
        )
    marks = host.stdout_is_terminal
    names = (
        f"{visible(config.spell_model(name))}{'  (in force)' if marks and name == current else ''}"
        for name in listed.names
    )
    terminal.answer("\n".join(names))
    return 0
