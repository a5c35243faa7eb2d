"""Execs of the wrapper (scripts.RUN) that were started ahead and wait for a text.

A `docker exec` takes some fifty milliseconds until its shell runs. One that waits already takes a command in a few.
It runs one text and ends, as any other exec does, so nothing of one command reaches the next. Before it gets the text
it is asked whether it is there: one that does not answer, in a paused container or after `kill -9 -1`, is closed
without having got anything, and the text goes to an exec of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Lock

from odek.errors import ExecutableMissing
from odek.sandbox.container.exec_stream import ExecStreams
from odek.sandbox.docker import DockerProcess

USUAL = 4  # that wait at the same time at most: about 5 MB of memory each
MOST = 16  # with those for calls of a reply that is arriving
_PROCESSES_EACH = 16  # of the container's process limit
_ANSWER_S = 1.0  # takes a millisecond; longer than a busy machine ever lets one wait


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingExec:
    """An exec whose wrapper has got no text yet."""

    process: DockerProcess
    streams: ExecStreams


def room_for_spares(pids: int) -> int:
    """Return how many may wait in a container with that process limit; below 64 each process counts."""
    return min(MOST, pids // _PROCESSES_EACH) // USUAL * USUAL


class Spares:
    """The execs that wait. May be used by several threads."""

    def __init__(self, start: Callable[[], WaitingExec], *, most: int, clock: Callable[[], float]) -> None:
        """`start` starts one; `most` may wait at the same time, also where more are expected; none with 0."""
        self._start = start
        self._most = most
        self._clock = clock
        self._lock = Lock()
        self._waiting: list[WaitingExec] = []
        self._at_work = 0
        """how many texts are at work"""
        self._wanted = 1
        """as many as were at work at the same time"""
        self._expected = 0
        """texts that are on their way"""

    def add(self, spare: WaitingExec) -> None:
        """Take over one that was started already."""
        with self._lock:
            self._waiting.append(spare)

    def take(self) -> WaitingExec | None:
        """Return one that waits for a text, None when there is none."""
        while True:
            with self._lock:
                self._expected = max(self._expected - 1, 0)
                if not self._waiting:
                    return None
                spare = self._waiting.pop(0)
            try:
                if self._answers(spare):
                    return spare
            except BaseException:  # an interrupt: nothing was given to it
                spare.process.close()
                raise
            spare.process.close()

    @contextmanager
    def used_by(self, texts: int) -> Iterator[None]:
        """Count so many texts as at work in the block; when none is left, what they took is started anew."""
        with self._lock:
            self._at_work += texts
            self._wanted = max(self._wanted, self._at_work)
        try:
            yield
        finally:
            with self._lock:
                self._at_work -= texts
        self._fill()

    def expect(self, texts: int) -> None:
        """Have one wait for each of `texts` that are on their way, and no more than usual when that are fewer."""
        with self._lock:
            self._expected = texts
        self._fill()

    def _fill(self) -> None:
        """Start what is missing, unless a text is at work, which needs the engine more; end what is too much.

        An engine that cannot start one will say so for the next command.
        """
        with self._lock:
            room = min(max(min(self._wanted, USUAL), self._expected), self._most)
            surplus = self._waiting[room:]
            del self._waiting[room:]
            with suppress(ExecutableMissing):
                while not self._at_work and len(self._waiting) < room:
                    self._waiting.append(self._start())
        for spare in surplus:
            spare.process.close()

    def close(self) -> None:
        """End all of them, and start no more."""
        with self._lock:
            self._most = 0
        self.drop()

    def drop(self) -> None:
        """End all of them: they cannot be relied upon any more."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            self._expected = 0
        for spare in waiting:
            spare.process.close()

    def _answers(self, spare: WaitingExec) -> bool:
        spare.process.send(b"?\n")
        deadline = self._clock() + _ANSWER_S
        while not spare.streams.here and not spare.process.finished and self._clock() < deadline:
            spare.process.pump(deadline - self._clock())
        return spare.streams.here and not spare.process.exited
