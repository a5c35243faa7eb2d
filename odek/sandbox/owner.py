"""Whose container is it? Labels that name the owning process, and which leftovers may be swept (R-38). Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from odek.sandbox.argv import LABEL, NONCE_LABEL

_FIELDS = ("pid", "start", "boot", "pidns", "uid")
LIST_TEMPLATE = '{{$text := eq (printf "%T" .Labels) "string"}}{{.ID}}' + "".join(
    f'\t{{{{if $text}}}}{{{{json (.Label "io.odek.{field}")}}}}'
    f'{{{{else}}}}{{{{json (index .Labels "io.odek.{field}")}}}}{{{{end}}}}'
    for field in _FIELDS
)
"""one line a container: its full ID, then the fields of its owner, quoted: an image can bring labels
of its own, and one with a line end in it must not become a line. podman has a map of labels where
Docker has a text of them all and a function that looks one up"""

_FULL_ID = re.compile(r"[0-9a-f]{64}")
_NUMBER = re.compile(r"[0-9]{1,10}")


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
    rows = (line.partition("\t") for line in text.split("\n"))
    return tuple((container, _parse_owner(fields)) for container, _, fields in rows if _FULL_ID.fullmatch(container))


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


def _parse_owner(text: str) -> Owner | None:
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
