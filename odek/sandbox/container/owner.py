"""Which containers are odek's, whose they are, and which may be removed (R-38).

Labels name the owning process. A start sweeps what dead processes left; `odek sandbox ls | rm | prune` list and
remove. The choice is pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from odek.patterns import pattern
from odek.sandbox.argv import LABEL, NONCE_LABEL, SESSION_LABEL, list_by_label_argv, remove_argv
from odek.sandbox.docker import Docker, docker_output, inspect, run_docker
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox_grammar import WORKSPACE
from odek.text import visible

_FIELDS = ("pid", "start", "boot", "pidns", "uid")
LIST_TEMPLATE = '{{$text := eq (printf "%T" .Labels) "string"}}{{.ID}}' + "".join(
    f'\t{{{{if $text}}}}{{{{json (.Label "io.odek.{field}")}}}}'
    f'{{{{else}}}}{{{{json (index .Labels "io.odek.{field}")}}}}{{{{end}}}}'
    for field in _FIELDS
)
"""one line a container: its full ID, then the fields of its owner, quoted: an image can bring labels
of its own, and one with a line end in it must not become a line. podman has a map of labels where
Docker has a text of them all and a function that looks one up"""

_FULL_ID = pattern(r"[0-9a-f]{64}")
_NUMBER = pattern(r"[0-9]{1,10}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The odek process that a container belongs to."""

    pid: int
    start: str
    """clock ticks from boot to the start of the process: tells it from a later one with its pid"""
    boot: str
    pidns: str
    uid: int

    def labels(self, nonce: str) -> tuple[tuple[str, str], ...]:
        return (
            (LABEL, "1"),
            (NONCE_LABEL, nonce),
            *((f"io.odek.{field}", str(getattr(self, field))) for field in _FIELDS),
        )

    def line(self) -> str:
        """the fields as LIST_TEMPLATE prints them behind an ID"""
        return "\t".join(json.dumps(str(getattr(self, field))) for field in _FIELDS)


def parse_listing(text: str) -> tuple[tuple[str, Owner | None], ...]:
    """Return (container ID, owner) of each line; the owner is None where the labels make no sense."""
    rows = (line.partition("\t") for line in text.split("\n"))
    return tuple((container, parse_owner(fields)) for container, _, fields in rows if _FULL_ID.fullmatch(container))


def choose_leftovers(
    listing: tuple[tuple[str, Owner | None], ...], *, me: Owner, start_of: Callable[[int], str | None]
) -> tuple[str, ...]:
    """Return the IDs of containers whose owner is certainly dead.

    `start_of(pid)` is the start of the living process with that pid, None when there is none.
    Certain means: same boot, same pid namespace, same user, and that very process is gone. What
    was started before a reboot, on another machine or in another namespace is left alone.
    """
    return tuple(
        container
        for container, owner in listing
        if owner is not None
        and (owner.boot, owner.pidns, owner.uid) == (me.boot, me.pidns, me.uid)
        and owner.boot
        and owner.pidns
        and owner.start
        and start_of(owner.pid) != owner.start
    )


def parse_owner(text: str) -> Owner | None:
    """Return the owner that `Owner.line` wrote, None when it is not one."""
    try:
        fields = tuple(map(json.loads, text.split("\t")))
    except ValueError:
        return None
    if len(fields) != len(_FIELDS) or not all(isinstance(field, str) for field in fields):
        return None
    pid, start, boot, pidns, uid = fields
    if not (_NUMBER.fullmatch(pid) and _NUMBER.fullmatch(uid)):
        return None
    return Owner(pid=int(pid), start=start, boot=boot, pidns=pidns, uid=int(uid))


Standing = Literal["in use", "left behind", "somebody else's"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedContainer:
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
    session: str = ""
    """id of the session that it belongs to, where that is written down"""


_TRY_AGAIN = "try again; `docker ps` must list the containers"


def list_containers(docker: Docker, *, me: Owner, start_of: Callable[[int], str | None]) -> tuple[OwnedContainer, ...]:
    """Return all containers with our label, running or not. Raises SandboxConfigError."""
    listed = run_docker(docker, *list_by_label_argv(f"{LABEL}=1", LIST_TEMPLATE))
    if listed.code != 0:
        raise SandboxConfigError("Docker does not list the containers", hint=_TRY_AGAIN, detail=docker_output(listed))
    owners = dict(parse_listing(listed.stdout.text))
    if not owners:
        return ()
    shown = inspect(docker, "container", *owners)  # one may have gone away meanwhile
    if shown.objects is None:
        raise SandboxConfigError(
            "Docker does not describe the containers", hint=_TRY_AGAIN, detail=docker_output(shown.done)
        )
    leftovers = choose_leftovers(tuple(owners.items()), me=me, start_of=start_of)
    return tuple(describe_box(raw, owners.get(str(raw.get("Id"))), me=me, leftovers=leftovers) for raw in shown.objects)


def describe_box(raw: Mapping[str, Any], owner: Owner | None, *, me: Owner, leftovers: Sequence[str]) -> OwnedContainer:
    """Return what `docker inspect` says of one container, and who it belongs to. Pure."""
    full_id = str(raw.get("Id", ""))
    mounts = raw.get("Mounts") or []
    return OwnedContainer(
        id=full_id,
        name=str(raw.get("Name", "")).removeprefix("/"),
        state=str((raw.get("State") or {}).get("Status", "unknown")),
        standing=_standing(full_id, owner, me=me, leftovers=leftovers),
        owner_pid=owner.pid if owner else None,
        workdir=next((str(mount.get("Source")) for mount in mounts if mount.get("Destination") == WORKSPACE), ""),
        image_id=str(raw.get("Image", "")),
        network=str((raw.get("HostConfig") or {}).get("NetworkMode", "")),
        created=str(raw.get("Created", ""))[:19],
        session=str(((raw.get("Config") or {}).get("Labels") or {}).get(SESSION_LABEL) or ""),
    )


def choose_containers(
    names: Sequence[str], boxes: Sequence[OwnedContainer], *, force: bool
) -> tuple[OwnedContainer, ...]:
    """Return the boxes that `names` (names, or IDs of at least 12 digits) stand for. Pure.

    Raises SandboxConfigError for one that is not ours, and without `force` for one in use.
    """
    chosen = []
    for name in names:
        box = next((box for box in boxes if name == box.name or (len(name) >= 12 and box.id.startswith(name))), None)
        if box is None:
            raise SandboxConfigError(
                f'"{visible(name)}" is not a container of odek\'s',
                hint="`odek sandbox ls` lists them; odek removes no other",
            )
        if box.standing != "left behind" and not force:
            raise SandboxConfigError(
                f"{box.name} is {box.standing} (process {box.owner_pid})",
                hint="end that odek, or remove the container under it with --force",
            )
        chosen.append(box)
    return tuple(chosen)


def remove_containers(boxes: Sequence[OwnedContainer], docker: Docker) -> None:
    """Remove containers with all they hold, one by one (M-33). Raises SandboxConfigError."""
    failed = [done for done in (run_docker(docker, *remove_argv(box.id)) for box in boxes) if done.code != 0]
    if failed:
        raise SandboxConfigError(
            "Docker did not remove every container",
            hint="`odek sandbox ls` shows what is left; try again when Docker is less busy",
            detail="\n".join(docker_output(done) for done in failed),
        )


def _standing(full_id: str, owner: Owner | None, *, me: Owner, leftovers: Sequence[str]) -> Standing:
    if full_id in leftovers:
        return "left behind"
    here = owner is not None and (owner.boot, owner.pidns, owner.uid) == (me.boot, me.pidns, me.uid)
    return "in use" if here else "somebody else's"
