"""odek init: a settings file to start from (R-18)."""

from __future__ import annotations

import os

from odek.cli.main import COMMANDS
from odek.cli.parser import CommandParser
from odek.cli.terminal import Terminal
from odek.config.settings import Source
from odek.config.template import render_template
from odek.errors import ConfigError
from odek.host import Host
from odek.text import visible


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Write ./odek.json, or with --global ~/.odek/config.json."""
    parser = CommandParser(
        "init", COMMANDS["init"][1], usage="[--global] [--force]", examples=("odek init", "odek init --global")
    )
    parser.add_argument("--global", "-g", action="store_true", dest="for_global", help="the operator's own file")
    parser.add_argument("--force", "-f", action="store_true", help="replace a file that exists")
    parsed = parser.read_flags(arguments)
    source = Source.GLOBAL if parsed.for_global else Source.PROJECT
    path = os.path.join(host.home, ".odek", "config.json") if parsed.for_global else os.path.join(host.cwd, "odek.json")
    if parsed.for_global:
        if not host.home:
            raise ConfigError("there is no home directory to write ~/.odek/config.json to", hint="set HOME")
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    _write(path, render_template(source), force=parsed.force)
    terminal.answer(f"wrote {visible(path)}")
    return 0


def _write(path: str, text: str, *, force: bool) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | (os.O_TRUNC if force else os.O_EXCL)
    try:
        descriptor = os.open(path, flags, 0o600)
    except FileExistsError as error:
        raise ConfigError(f"{visible(path)} exists already", hint="--force replaces it") from error
    except OSError as error:
        raise ConfigError(f"cannot write {visible(path)}: {error.strerror}") from error
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
