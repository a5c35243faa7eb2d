"""odek doctor: settings, terminal, model, network, proxy, CA and sandbox, each with what to do about it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

from odek.app.config import load
from odek.app.doctor import Check
from odek.app.model_checks import check_terminal, model_checks
from odek.cli.checks import print_checks
from odek.cli.commands.sandbox_doctor import artifact_check, sandbox_checks
from odek.cli.main import COMMANDS
from odek.cli.parser import CommandParser
from odek.cli.runtime import terminal_runtime
from odek.cli.terminal import Terminal
from odek.errors import OdekError
from odek.host import Host


def parser() -> CommandParser:
    """Return the parser of `odek doctor`."""
    made = CommandParser(
        "doctor",
        COMMANDS["doctor"][1],
        usage="[--json] [OPTION of run…]",
        examples=("odek doctor", "odek doctor --model work/qwen3", "odek sandbox doctor"),
    )
    made.add_settings(of="run", used=("sandbox*", "model", "base_url", "provider", "json", "no_color"))
    return made


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Print the findings; 1 when one of them is a failure."""
    reader = parser()
    flags = reader.flags(reader.read_flags(arguments))
    return print_checks(tuple(_checks(flags, host, terminal)), terminal, as_json=flags.get("json") is True)


def _checks(flags: dict[str, object], host: Host, terminal: Terminal) -> Iterator[Check]:
    yield artifact_check()
    yield terminal_check(host, terminal)
    try:
        # a check-up does not ask: what the project's own file wants is left out
        config = load(host, flags, terminal, with_project=False)
    except OdekError as error:
        yield Check(name="settings", verdict="fail", seen=error.message, fix=error.hint)
        return
    yield from model_checks(config.settings, host)
    yield from sandbox_checks(config, replace(terminal_runtime(host, terminal), operator=None))


def terminal_check(host: Host, terminal: Terminal) -> Check:
    """Return what is found of the terminal on stderr."""
    utf8 = (sys.stderr.encoding or "").lower().replace("-", "") == "utf8"
    return check_terminal(host.env, is_terminal=host.stderr_is_terminal, columns=terminal.columns, utf8=utf8)
