"""Which containers of ours are there, and may they go? For `odek sandbox ls | rm | prune` (R-38)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from odek.sandbox.argv import LABEL, inspect_argv, list_by_label_argv, remove_argv
from odek.sandbox.docker import Docker, call, quote
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.owner import LIST_TEMPLATE, Owner, choose_leftovers, parse_listing
from odek.sandbox.spec import WORKSPACE
from odek.text import visible

Standing = Literal["in use", "left behind", "somebody else's"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """A container that carries our label."""

    id: str
    name: str
    state: str
    """running, created, exited …"""
    standing: Standing
    """whose it is, as far as this process can tell"""
    owner_pid: int | None
    workdir: str
    image_id: str
    network: str
    created: str
    """time of day in UTC, as the engine writes it"""


_TRY_AGAIN = "try again; `docker ps` must list the containers"


def list_boxes(docker: Docker, *, me: Owner, start_of: Callable[[int], str | None]) -> tuple[Box, ...]:
    """Return all containers with our label, running or not. Raises SandboxConfigError."""
    listed = call(docker, *list_by_label_argv(f"{LABEL}=1", LIST_TEMPLATE))
    if listed.code != 0:
        raise SandboxConfigError("Docker does not list the containers", hint=_TRY_AGAIN, detail=quote(listed))
    owners = dict(parse_listing(listed.stdout.text))
    if not owners:
        return ()
    # one that went away meanwhile makes the exit status 1; what is printed is still right
    inspected = call(docker, *inspect_argv(*owners))
    try:
        found = json.loads(inspected.stdout.data)
    except ValueError:
        raise SandboxConfigError(
            "Docker does not tell about the containers", hint=_TRY_AGAIN, detail=quote(inspected)
        ) from None
    leftovers = choose_leftovers(tuple(owners.items()), me=me, start_of=start_of)
    return tuple(describe_box(raw, owners.get(raw.get("Id")), me=me, leftovers=leftovers) for raw in found)


def describe_box(raw: Mapping[str, Any], owner: Owner | None, *, me: Owner, leftovers: Sequence[str]) -> Box:
    """Return what `docker inspect` says of one container, and who it belongs to. Pure."""
    full_id = str(raw.get("Id", ""))
    mounts = raw.get("Mounts") or []
    return Box(
        id=full_id,
        name=str(raw.get("Name", "")).removeprefix("/"),
        state=str((raw.get("State") or {}).get("Status", "unknown")),
        standing=_standing(full_id, owner, me=me, leftovers=leftovers),
        owner_pid=owner.pid if owner else None,
        workdir=next((str(mount.get("Source")) for mount in mounts if mount.get("Destination") == WORKSPACE), ""),
        image_id=str(raw.get("Image", "")),
        network=str((raw.get("HostConfig") or {}).get("NetworkMode", "")),
        created=str(raw.get("Created", ""))[:19],
    )


def choose_boxes(names: Sequence[str], boxes: Sequence[Box], *, force: bool) -> tuple[Box, ...]:
    """Return the boxes that `names` (names, or IDs of at least 12 digits) stand for. Pure.

    Raises SandboxConfigError for one that is not ours, and without `force` for one in use.
    """
    chosen = []
    for name in names:
        box = next((box for box in boxes if name == box.name or (len(name) >= 12 and box.id.startswith(name))), None)
        if box is None:
            raise SandboxConfigError(
                f'"{visible(name)}" is no container of odek\'s',
                hint="`odek sandbox ls` lists them; odek removes no other",
            )
        if box.standing != "left behind" and not force:
            raise SandboxConfigError(
                f"{box.name} is {box.standing} (process {box.owner_pid})",
                hint="end that odek, or remove the container under it with --force",
            )
        chosen.append(box)
    return tuple(chosen)


def remove_boxes(boxes: Sequence[Box], docker: Docker) -> None:
    """Remove containers with all they hold. Raises SandboxConfigError."""
    if not boxes:
        return
    done = call(docker, *remove_argv(*(box.id for box in boxes)))
    if done.code != 0:
        raise SandboxConfigError(
            "Docker did not remove every container",
            hint="`odek sandbox ls` shows what is left; try again when Docker is less busy",
            detail=quote(done),
        )


def _standing(full_id: str, owner: Owner | None, *, me: Owner, leftovers: Sequence[str]) -> Standing:
    if full_id in leftovers:
        return "left behind"
    here = owner is not None and (owner.boot, owner.pidns, owner.uid) == (me.boot, me.pidns, me.uid)
    return "in use" if here else "somebody else's"
