"""Following one command in the container: when it has ended, and what it said meanwhile.

The wrapper's stderr (scripts.COMMAND) carries two lines of ours, each with the mark of the call.
Where the command's own stderr comes the same way, those lines are taken out of it again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from odek.process import Capture, Output
from odek.sandbox.docker import Pending
from odek.together import Follower

_QUIET_S = 0.15  # silence after the end of a command that counts as the end of its output
_LATE_OUTPUT_S = 2.0  # what the engine itself waits for output of background children
_MARKER_TAIL_BYTES = 4096


class EndMarker:
    """Watches the wrapper's stderr for its two lines: that the command begins, and that it has ended."""

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self.started = ""
        """when the wrapper started, in the clock ticks of the container's machine; "" until it has"""
        self.status: int | None = None
        self._began = re.compile(rf"(?:^|\n){re.escape(mark)} began ([0-9]{{1,20}})\n".encode())
        self._ended = re.compile(rf"(?:^|\n){re.escape(mark)} ([0-9]{{1,3}})\n".encode())
        self._seen = b""

    def feed(self, chunk: bytes) -> None:
        self._seen = (self._seen + chunk)[-_MARKER_TAIL_BYTES:]
        began, ended = self._began.search(self._seen), self._ended.search(self._seen)
        if began and not self.started:
            self.started = began.group(1).decode()
        if ended:
            self.status = int(ended.group(1))


class SplitMarker(EndMarker):
    """The same for a command whose stderr is kept apart; see scripts.COMMAND_APART."""

    def __init__(self, mark: str, limit_bytes: int) -> None:
        super().__init__(mark)
        self._capture = Capture(limit_bytes)

    def feed(self, chunk: bytes) -> None:
        super().feed(chunk)
        self._capture.feed(chunk)

    @property
    def stderr(self) -> Output:
        """what the command itself has printed on it"""
        seen = self._capture.output()
        began, ended = f"{self.mark} began {self.started}\n".encode(), f"\n{self.mark} {self.status}\n".encode()
        if seen.omitted_bytes == 0:
            data = seen.data.replace(began, b"", 1).replace(ended, b"", 1)
            return Output(head=data, tail=b"", size_bytes=len(data))
        head, tail = seen.head.replace(began, b"", 1), seen.tail.replace(ended, b"", 1)
        taken = len(seen.head) - len(head) + len(seen.tail) - len(tail)
        return Output(head=head, tail=tail, size_bytes=seen.size_bytes - taken)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One command at work."""

    pending: Pending
    end: EndMarker
    started: float
    timeout_s: float
    forks: bool
    """whether its text may put something into the background"""


def follow(job: Job, clock: Callable[[], float]) -> Follower:
    """Wait for the end of a command, a step at a time; False when its time was up first.

    After its end, output that is still on its way is waited for, but not for what a background
    child may print later.
    """
    pending = job.pending
    while job.end.status is None:
        if pending.finished:
            return True
        left = job.started + job.timeout_s - clock()
        if left <= 0:
            return False
        yield left
    last_change = clock()
    latest = last_change + _LATE_OUTPUT_S
    size = pending.stdout.size_bytes
    while not pending.finished:
        now = clock()
        if now - last_change >= _QUIET_S or now >= latest:
            break
        yield _QUIET_S
        if pending.stdout.size_bytes != size:
            size, last_change = pending.stdout.size_bytes, clock()
    return True
