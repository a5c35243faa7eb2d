"""Following one command in the container: when it has ended, and what it said meanwhile.

The wrapper's stderr (scripts.RUN) carries lines of ours, each with the mark of the call. Where the
command's own stderr comes the same way, those lines are taken out of it again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from odek.process import Capture, Follower, Output
from odek.sandbox.docker import Pending

_QUIET_S = 0.15  # silence after the end of a command that counts as the end of its output
_LATE_OUTPUT_S = 2.0  # what the engine itself waits for output of background children
_MARKER_TAIL_BYTES = 4096
_WORDS_BYTES = 1 << 14  # of Docker's own, where the command's stderr comes another way


class EndMarker:
    """Watches the wrapper's stderr for its lines: that the command begins, that it has ended, or why it did not run."""

    def __init__(self, mark: str, limit_bytes: int = _WORDS_BYTES) -> None:
        """`limit_bytes`: how much is kept of what else comes that way."""
        self.mark = mark
        self._capture = Capture(limit_bytes)
        self.began = False
        self.started = ""
        """when the command's shell started, in the clock ticks of the container's machine; "" until it has"""
        self.status: int | None = None
        self.refusal = ""
        """the wrapper's word for why it has run nothing; "" as long as it has not said so"""
        line = (
            rf"(?:^|\n){re.escape(mark)} (?:began (?P<began>[0-9]{{0,20}})|(?P<status>[0-9]{{1,3}})|(?P<word>[a-z]+))\n"
        )
        self._line = re.compile(line.encode())
        self._seen = b""

    def feed(self, chunk: bytes) -> None:
        self._capture.feed(chunk)
        seen = self._seen + chunk
        start = 0
        while found := self._line.search(seen, start):
            self._note(found)
            start = found.end() - 1  # its line end may be the one before the next line
        self._seen = seen[-_MARKER_TAIL_BYTES:]

    def _note(self, found: re.Match[bytes]) -> None:
        if found["began"] is not None:
            if not self.began:
                self.began, self.started = True, found["began"].decode()
        elif found["status"] is not None:
            self.status = int(found["status"])
        elif not self.began:  # afterwards it would be the command's own word
            self.refusal = found["word"].decode()

    def has_run(self, code: int) -> bool | None:
        """Return whether the command has run at all, as a client that ended with `code` shows; None: not known.

        A client that was killed may have taken the news with it.
        """
        if self.began:
            return True
        return None if code < 0 and not self.refusal and self.status is None else False

    @property
    def stderr(self) -> Output:
        """what else came that way: of Docker, and of a command whose stderr is apart"""
        seen = self._capture.output()
        if seen.omitted_bytes == 0:
            data = self._without_ours(seen.data)
            return Output(head=data, tail=b"", size_bytes=len(data))
        head, tail = self._without_ours(seen.head), self._without_ours(seen.tail)
        taken = len(seen.head) - len(head) + len(seen.tail) - len(tail)
        return Output(head=head, tail=tail, size_bytes=seen.size_bytes - taken)

    def _without_ours(self, data: bytes) -> bytes:
        ended = f"{self.mark} {self.refusal or self.status}\n"
        for line in (f"{self.mark} began {self.started}\n", f"\n{ended}", ended):
            data = data.replace(line.encode(), b"", 1)
        return data


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One command at work."""

    pending: Pending
    end: EndMarker
    started: float
    timeout_s: float
    apart: bool
    """whether its stderr is apart from its stdout"""
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
