"""odek init: a settings file to start from (R-18)."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace

from odek.cli.main import COMMANDS
from odek.cli.parser import CommandParser
from odek.cli.terminal import Terminal
from odek.config.options import Source
from odek.config.schema import render_template
from odek.errors import ConfigError
from odek.host import Host
from odek.state import StateFolder
from odek.text import visible


def parser() -> CommandParser:
    """Return the parser of `odek init`."""
    made = CommandParser(
        "init", COMMANDS["init"][1], usage="[--global] [--force]", examples=("odek init", "odek init --global")
    )
    made.add_argument("--global", "-g", action="store_true", dest="for_global", help="the operator's own file")
    made.add_argument("--force", "-f", action="store_true", help="replace a file that exists")
    return made


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Write ./odek.json, or with --global ~/.odek/config.json."""
    parsed = parser().read_flags(arguments)
    source = Source.GLOBAL if parsed.for_global else Source.PROJECT
    text = render_template(source)
    if parsed.for_global:
        path = _write_global(host, text, force=parsed.force)
    else:
        path = os.path.join(host.cwd, "odek.json")
        _write(path, text, force=parsed.force)
    terminal.answer(f"wrote {visible(path)}")
    return 0


def _write_global(host: Host, text: str, *, force: bool) -> str:
    """Write the operator's file and return its path; in HOME, too: nothing is read here."""
    folder = StateFolder(replace(host.operator_home, workspaces=()))
    path = folder.path("config.json")
    if not force and os.path.lexists(path):
        raise _exists(path)
    folder.write("config.json", text.encode())
    return path


def _exists(path: str) -> ConfigError:
    return ConfigError(f"{visible(path)} exists already", hint="--force replaces it")


def _write(path: str, text: str, *, force: bool) -> None:
    # what is replaced is not opened: a FIFO would be waited for, a hard link written through
    place = f"{path}.{os.urandom(8).hex()}" if force else path
    try:
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        if force:
            os.replace(place, path)
    except FileExistsError as error:
        raise _exists(path) from error
    except OSError as error:
        if force:
            with suppress(OSError):
                os.unlink(place)
        raise ConfigError(f"cannot write {visible(path)}: {error.strerror}") from error
