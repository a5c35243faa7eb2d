"""odek version: what this is, for people and for bug reports."""

from __future__ import annotations

import json
import os
import sys

from odek import __version__
from odek.cli.artifact import find_artifact, hash_artifact
from odek.cli.main import COMMANDS
from odek.cli.parser import CommandParser
from odek.cli.terminal import Terminal
from odek.host import Host


def parser() -> CommandParser:
    """Return the parser of `odek version`."""
    made = CommandParser("version", COMMANDS["version"][1], usage="[--json]", examples=("odek version --json",))
    made.add_argument("--json", action="store_true", help="version, kind of file, Python and path as JSON")
    return made


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Print the version, or with --json what a bug report needs."""
    del host
    parsed = parser().read_flags(arguments)
    terminal.answer(json.dumps(_facts()) if parsed.json else f"odek {__version__}")
    return 0


def _facts() -> dict[str, str]:
    artifact = find_artifact()
    return {
        "version": __version__,
        "kind": artifact.kind,
        "path": artifact.path,
        "sha256": hash_artifact(artifact),
        "python": ".".join(map(str, sys.version_info[:3])),
        "platform": sys.platform,
        "machine": os.uname().machine,
        "libc": _libc(),
    }


def _libc() -> str:
    """Return such as "glibc 2.36"; "" where the C library does not say."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, ValueError, OSError):
        return ""
