"""Whose container is it? Labels that name the owning process, and which leftovers may be swept (R-38). Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from odek.sandbox.argv import LABEL, NONCE_LABEL

_FIELDS = ("pid", "start", "boot", "pidns", "uid")
LIST_TEMPLATE = "{{.ID}}\t" + "\t".join(f'{{{{.Label "io.odek.{field}"}}}}' for field in _FIELDS)
"""one line a container: its full ID, then the fields of its owner"""


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


def parse_listing(text: str) -> tuple[tuple[str, Owner | None], ...]:
    """Return (container ID, owner) of each line; the owner is None where the labels make no sense."""
    return tuple(_parse_line(line) for line in text.splitlines() if line.strip())


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


def _parse_line(line: str) -> tuple[str, Owner | None]:
    container, *fields = line.split("\t")
    if len(fields) != len(_FIELDS) or not fields[0].isdigit() or not fields[4].isdigit():
        return container, None
    pid, start, boot, pidns, uid = fields
    return container, Owner(pid=int(pid), start=start, boot=boot, pidns=pidns, uid=int(uid))
