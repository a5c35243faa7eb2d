"""odek serve: the agent in a browser, one container a session (R-120 to R-148)."""

from __future__ import annotations

from contextlib import ExitStack

from odek.app.config import load
from odek.cli.main import COMMANDS
from odek.cli.parser import CommandParser
from odek.cli.terminal import Terminal
from odek.host import Host


def parser() -> CommandParser:
    """Return the parser of `odek serve`."""
    made = CommandParser(
        "serve",
        COMMANDS["serve"][1],
        usage="[--addr HOST:PORT] [--open] [OPTION…]",
        examples=(
            "odek serve --open",
            "odek serve --addr 127.0.0.1:8080 --sandbox-image python:3.12-slim",
            "odek serve --addr 127.0.0.1:8080 --hosts odek.example.org",
            "odek serve --demo --open",
        ),
    )
    made.add_argument("--open", action="store_true", help="open the page in the system's browser")
    made.add_argument("--demo", action="store_true", help="a recorded model works in a scratch project; needs no key")
    for flag in ("--port", "--host"):
        made.refuse(flag, "is not an option", hint="--addr HOST:PORT has both, such as --addr 127.0.0.1:8080")
    made.add_settings()
    made.reword("--json", "Print the URL as a JSON object, with the address and the process")
    return made


def main(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Serve until a signal comes."""
    reader = parser()
    parsed = reader.read_flags(arguments)
    from odek.cli.serving import serve  # the help does without a server

    with ExitStack() as stack:
        flags = reader.flags(parsed)
        if parsed.demo:
            from odek.cli.demo_place import demo_place

            place = stack.enter_context(demo_place(host, terminal, with_home=True))
            host, flags = place.host, {**flags, **place.flags}
        return serve(load(host, flags, terminal), host, terminal, stack, opens=parsed.open, is_demo=parsed.demo)
