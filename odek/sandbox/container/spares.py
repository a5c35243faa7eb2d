"""Execs of the wrapper (scripts.RUN) that were started ahead and wait for a text.

A `docker exec` takes some fifty milliseconds until its shell runs. One that waits already takes a command in a few.
It runs one text and ends, as any other exec does, so nothing of one command reaches the next. Before it gets the text
it is asked whether it is there: one that does not answer, in a paused container or after `kill -9 -1`, is closed
without having got anything, and the text goes to an exec of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock

from odek.errors import ExecutableMissing
from odek.sandbox.container.exec_stream import ExecStreams
from odek.sandbox.docker import DockerProcess

MOST = 4  # that wait at the same time: about 5 MB of memory each
_ANSWER_S = 1.0  # takes a millisecond; longer than a busy machine ever lets one wait


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingExec:
    """An exec whose wrapper has got no text yet."""

    process: DockerProcess
    streams: ExecStreams


class Spares:
    """The execs that wait. May be used by several threads."""

    def __init__(self, start: Callable[[], WaitingExec], *, most: int, clock: Callable[[], float]) -> None:
        """`start` starts one; `most` may wait at the same time, none with 0."""
        self._start = start
        self._most = most
        self._clock = clock
        self._lock = Lock()
        self._waiting: list[WaitingExec] = []
        self._at_work = 0
        """how many texts are at work"""
        self._wanted = 1
        """as many as were at work at the same time, at most `most`"""

    def add(self, spare: WaitingExec) -> None:
        """Take over one that was started already."""
        with self._lock:
            self._waiting.append(spare)

    def take(self) -> WaitingExec | None:
        """Return one that waits for a text, None when there is none."""
        while True:
            with self._lock:
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
        self.fill()

    def fill(self) -> None:
        """Start what is missing, unless a text is at work, which needs the engine more.

        An engine that cannot start one will say so for the next command.
        """
        with self._lock:
            try:
                while not self._at_work and len(self._waiting) < min(self._wanted, self._most):
                    self._waiting.append(self._start())
            except ExecutableMissing:
                pass

    def close(self) -> None:
        """End all of them, and start no more."""
        with self._lock:
            self._most = 0
        self.drop()

    def drop(self) -> None:
        """End all of them: they cannot be relied upon any more."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for spare in waiting:
            spare.process.close()

    def _answers(self, spare: WaitingExec) -> bool:
        spare.process.send(b"?\n")
        deadline = self._clock() + _ANSWER_S
        while not spare.streams.here and not spare.process.finished and self._clock() < deadline:
            spare.process.pump(deadline - self._clock())
        return spare.streams.here and not spare.process.exited
