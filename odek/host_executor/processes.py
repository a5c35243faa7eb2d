"""Ends everything that one host command started, also what left its process group (R-40).

Linux has no handle for "a command and its descendants", so they are recognised by four signs in /proc:
the session of the command's shell, a mark in the environment, two resource limits of an odd size, which
survive `env -i setsid` and the death of a parent (E10), and being the child of a process that has one of
these signs. What changes all of them escapes; it takes a program that means to. Without /proc nothing is
found here, and the process group has to do.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import time
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from odek.patterns import pattern

_LIMIT_S = 1.0  # how long a herd that keeps forking is hunted
_PAUSE_S = 0.002  # for the kernel to take the killed ones off the table

# Limits that are lowered by a little, so that a command and its descendants carry a number of 26 bits. Both are
# for things that hardly a program uses, and by far the most of each is left.
_QUEUE_BYTES, _QUEUE_SPREAD = 1 << 19, 1 << 17
_SIGNALS, _SIGNALS_SPREAD = 1 << 13, 1 << 9
_TAGGED = pattern(rb"^Max pending signals +(\d+) .*^Max msgqueue size +(\d+) ", re.MULTILINE | re.DOTALL)
_UNLIMITED = 1 << 40  # what is taken for a limit where there is none


@dataclass(frozen=True, slots=True)
class LimitTag:
    """Two soft limits by which the descendants of one process are recognised."""

    signals: int
    queue_bytes: int


def tag_process(pid: int, mark: str) -> LimitTag | None:
    """Lower two limits of a process that has no children yet to numbers made of `mark`.

    None: this system, or a limit that is low already, leaves no room for that.
    """
    number = zlib.crc32(mark.encode())
    try:
        signals = _lowered(resource.RLIMIT_SIGPENDING, _SIGNALS, number % _SIGNALS_SPREAD, pid)
        queue_bytes = _lowered(resource.RLIMIT_MSGQUEUE, _QUEUE_BYTES, number // _SIGNALS_SPREAD % _QUEUE_SPREAD, pid)
    except (AttributeError, OSError, ValueError):  # another system than Linux, or one that forbids it
        return None
    return LimitTag(signals, queue_bytes) if signals and queue_bytes else None


def read_tag(limits: bytes) -> LimitTag | None:
    """Return the two limits in the content of a /proc/PID/limits; None when they are not there or not numbers."""
    found = _TAGGED.search(limits)
    return LimitTag(signals=int(found[1]), queue_bytes=int(found[2])) if found else None


def _lowered(limit: int, least: int, number: int, pid: int) -> int:
    """Lower the soft value of a limit by `number` and one; return it, or 0 where less than `least` would be left."""
    soft, hard = resource.prlimit(pid, limit)
    wanted = (_UNLIMITED if soft == resource.RLIM_INFINITY else soft) - 1 - number
    if wanted < least:
        return 0
    resource.prlimit(pid, limit, (wanted, hard))
    return wanted


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRow:
    """What shows whose process this is."""

    parent: int
    session: int
    marked: bool


def stop_processes(session: int, mark: str, tag: LimitTag | None) -> int:
    """Kill the processes of `session`, those with `mark` ("NAME=value") in their environment, and those with `tag`.

    Returns how many were still alive when the time for it was up: 0 in all ordinary cases.
    """
    deadline = time.monotonic() + _LIMIT_S
    while True:
        members = find_members(_read_table(mark.encode(), tag), session)
        if not members or time.monotonic() >= deadline:
            return len(members)
        _send(members, signal.SIGSTOP)  # a stopped process cannot fork while its children are killed
        _send(find_members(_read_table(mark.encode(), tag), session), signal.SIGKILL)
        time.sleep(_PAUSE_S)


def has_processes(session: int) -> bool:
    """Return whether a process of `session` goes on after its shell. A second look tells it from one that is ending."""
    for pause_s in (_PAUSE_S, 5 * _PAUSE_S, 0):
        try:
            os.killpg(session, 0)  # cheap, and false in all ordinary cases; true for zombies, too
        except OSError:
            return False
        if all(row.session != session for row in _read_table(b"", None).values()):
            return False
        time.sleep(pause_s)
    return True


def find_members(table: Mapping[int, ProcessRow], session: int) -> frozenset[int]:
    """Return the pids of `session`, the marked ones, and all their descendants; never our own."""
    spared = {1, os.getpid()}
    members = {pid for pid, row in table.items() if row.session == session or row.marked} - spared
    while children := {pid for pid, row in table.items() if row.parent in members} - members - spared:
        members |= children
    return frozenset(members)


def _read_table(mark: bytes, tag: LimitTag | None) -> dict[int, ProcessRow]:
    table: dict[int, ProcessRow] = {}
    for name in _listed("/proc"):
        if not name.isdigit():
            continue
        # proc(5): the command name is in parentheses and may contain blanks and parentheses
        fields = _content(f"/proc/{name}/stat").rpartition(b")")[2].split()
        if len(fields) < 4 or fields[0] in (b"Z", b"X"):
            continue
        table[int(name)] = ProcessRow(
            parent=int(fields[1]),
            session=int(fields[3]),
            marked=mark in _content(f"/proc/{name}/environ").split(b"\0")
            or (tag is not None and read_tag(_content(f"/proc/{name}/limits")) == tag),
        )
    return table


def _send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue  # gone already, or of another user: the count in the end tells


def _listed(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
