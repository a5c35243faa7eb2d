"""Ends everything that one host command started, also what left its process group (R-40).

Linux has no handle for "a command and its descendants", so they are told by three signs in /proc:
the session of the command's shell, a mark in the environment, and being the child of a process
that has one of these signs. A process that cleared its environment, changed its session and lost
its parent escapes. Without /proc nothing is found here, and the process group has to do.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_LIMIT_S = 1.0  # how long a herd that keeps forking is hunted
_PAUSE_S = 0.002  # for the kernel to take the killed ones off the table


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessRow:
    """What tells whose process this is."""

    parent: int
    session: int
    marked: bool


def stop_processes(session: int, mark: str) -> int:
    """Kill the processes of `session` and those with `mark` ("NAME=value") in their environment.

    Returns how many were still alive when the time for it was up: 0 in all ordinary cases.
    """
    deadline = time.monotonic() + _LIMIT_S
    while True:
        members = find_members(_read_table(mark.encode()), session)
        if not members or time.monotonic() >= deadline:
            return len(members)
        _send(members, signal.SIGSTOP)  # a stopped process cannot fork while its children are killed
        _send(find_members(_read_table(mark.encode()), session), signal.SIGKILL)
        time.sleep(_PAUSE_S)


def has_processes(session: int) -> bool:
    """Return whether a process of `session` goes on after its shell. A second look tells it from one that is ending."""
    for pause_s in (_PAUSE_S, 5 * _PAUSE_S, 0):
        try:
            os.killpg(session, 0)  # cheap, and false in all ordinary cases; true for zombies, too
        except OSError:
            return False
        if all(row.session != session for row in _read_table(b"").values()):
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


def _read_table(mark: bytes) -> dict[int, ProcessRow]:
    table: dict[int, ProcessRow] = {}
    for name in _listed("/proc"):
        if not name.isdigit():
            continue
        # proc(5): the command name stands in parentheses and may hold blanks and parentheses itself
        fields = _content(f"/proc/{name}/stat").rpartition(b")")[2].split()
        if len(fields) < 4 or fields[0] in (b"Z", b"X"):
            continue
        table[int(name)] = ProcessRow(
            parent=int(fields[1]),
            session=int(fields[3]),
            marked=mark in _content(f"/proc/{name}/environ").split(b"\0"),
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
