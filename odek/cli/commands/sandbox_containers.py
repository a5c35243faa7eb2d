"""odek sandbox ls | rm | prune: the containers that odek made on this machine."""

from __future__ import annotations

import json
import time
from dataclasses import asdict

from odek.app.runtime import owner_of, real_docker
from odek.cli.parser import CommandParser
from odek.cli.table import Column, render_table
from odek.cli.terminal import Terminal
from odek.errors import UsageError
from odek.host import Host, start_of
from odek.sandbox.container.owner import OwnedContainer, choose_containers, list_containers, remove_containers
from odek.sandbox.docker import Docker, probe
from odek.text import plural, visible

_COLUMNS = (
    Column("NAME"),
    Column("STATE", least=7),
    Column("OWNER", least=10, rank=1),
    Column("NETWORK", least=6, rank=4),
    Column("CREATED (UTC)", least=10, rank=3),
    Column("SESSION", rank=5),
    Column("WORKING DIRECTORY", least=12, rank=2),
)
_SESSION_LENGTH = 17  # of an id: enough for --id


def ls_parser() -> CommandParser:
    """Return the parser of `odek sandbox ls`."""
    made = CommandParser(
        "sandbox ls",
        "list the containers that odek made here",
        usage="[--json]",
        examples=("odek sandbox ls", "odek sandbox ls --json | jq -r '.[].name'"),
    )
    made.add_argument("--json", action="store_true", help="everything about them as JSON")
    return made


def ls(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """List the containers."""
    parsed = ls_parser().read_flags(arguments)
    boxes = find_boxes(_docker(host), host)
    if parsed.json:
        terminal.answer(json.dumps([asdict(box) for box in boxes], indent=2))
    elif boxes:
        terminal.answer(render_boxes(boxes, columns=terminal.answer_columns))
    else:
        terminal.note("no sandbox is running")
    return 0


def rm_parser() -> CommandParser:
    """Return the parser of `odek sandbox rm`."""
    made = CommandParser(
        "sandbox rm",
        "remove containers of odek's by name or ID",
        usage="[--force] CONTAINER…",
        examples=("odek sandbox rm odek-4242-1",),
    )
    made.add_argument("names", nargs="*", metavar="CONTAINER", help="as `odek sandbox ls` shows them")
    made.add_argument("--force", "-f", action="store_true", help="also one that an odek at work uses")
    return made


def rm(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Remove containers by name."""
    parsed, rest = rm_parser().read(arguments)
    names = [*parsed.names, *rest]
    if not names:
        raise UsageError("say which container to remove", hint="`odek sandbox ls` lists them")
    docker = _docker(host)
    chosen = choose_containers(names, find_boxes(docker, host), force=parsed.force)
    remove_containers(chosen, docker)
    terminal.answer("\n".join(box.name for box in chosen))
    return 0


def prune_parser() -> CommandParser:
    """Return the parser of `odek sandbox prune`."""
    made = CommandParser(
        "sandbox prune",
        "remove containers whose odek is gone; every start does that too",
        usage="[--json]",
        examples=("odek sandbox prune",),
    )
    made.add_argument("--json", action="store_true", help="the removed ones as JSON")
    return made


def prune(arguments: list[str], host: Host, terminal: Terminal) -> int:
    """Remove what dead odeks left behind."""
    parsed = prune_parser().read_flags(arguments)
    docker = _docker(host)
    leftovers = tuple(box for box in find_boxes(docker, host) if box.standing == "left behind")
    remove_containers(leftovers, docker)
    if parsed.json:
        terminal.answer(json.dumps([asdict(box) for box in leftovers], indent=2))
    else:
        terminal.answer("\n".join((*(box.name for box in leftovers), f"{plural(len(leftovers), 'container')} removed")))
    return 0


def render_boxes(boxes: tuple[OwnedContainer, ...], *, columns: int = 0) -> str:
    """Return a table for people, at most as wide as `columns`; 0: as wide as it is. Pure."""
    rows = [
        (
            box.name,
            box.state,
            _owner(box),
            visible(box.network[:24]),
            box.created.replace("T", " "),
            visible(box.session[:_SESSION_LENGTH]) or "-",
            visible(box.workdir),
        )
        for box in boxes
    ]
    return "\n".join(render_table(_COLUMNS, rows, columns))


def _owner(box: OwnedContainer) -> str:
    return f"{box.standing}, process {box.owner_pid}" if box.owner_pid else box.standing


def _docker(host: Host) -> Docker:
    docker = real_docker(host)
    probe(docker, sleep=time.sleep)
    return docker


def find_boxes(docker: Docker, host: Host) -> tuple[OwnedContainer, ...]:
    """Return the containers that carry our label, seen from this process. Raises SandboxConfigError."""

    return list_containers(docker, me=owner_of(host), start_of=start_of)
