"""Sockets that programs of this machine listen on: a way out that no network setting closes (F5, A8)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator

_LISTENS = 0x10000  # __SO_ACCEPTCON of the kernel: a program takes connections
_DATAGRAM = "0002"  # no program connects to these, whatever is sent arrives


def living_sockets(folder: str) -> tuple[str, ...]:
    """Return the sockets in `folder` (absolute, links resolved) that a program listens on, relative to it, sorted.

    Only programs of this network namespace are known; () where the kernel does not tell.
    """
    try:
        with open("/proc/net/unix", "rb") as file:
            bound = parse_bound(file.read())
    except OSError:
        return ()
    return tuple(sorted(set(_inside(folder, bound))))


def parse_bound(data: bytes) -> tuple[str, ...]:
    """Return the paths of /proc/net/unix (proc(5)) that can be talked to, as they were bound. Pure."""
    found = []
    for line in data.split(b"\n")[1:]:
        words = os.fsdecode(line).split(None, 7)  # a path may hold blanks
        if len(words) == 8 and not words[7].startswith("@"):
            try:
                listens = int(words[3], 16) & _LISTENS
            except ValueError:
                continue
            if listens or words[4] == _DATAGRAM:
                found.append(words[7])
    return tuple(found)


def _inside(folder: str, bound: Iterable[str]) -> Iterator[str]:
    prefix = folder.rstrip("/") + "/"
    for path in bound:
        whole = os.path.join(folder, path)  # a relative one may have been bound from here
        try:
            place = os.path.join(os.path.realpath(os.path.dirname(whole)), os.path.basename(whole))
            if place.startswith(prefix) and stat.S_ISSOCK(os.lstat(place).st_mode):
                yield place[len(prefix) :]
        except (OSError, ValueError):
            continue
