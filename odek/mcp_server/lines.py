"""Lines in and out: what a client sends is cut into lines, and what it gets is written by one thread."""

from __future__ import annotations

import os
import select
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from threading import Condition, Thread

LINE_LIMIT_BYTES = 16 << 20
_PIECE_BYTES = 1 << 16
BACKLOG_BYTES = 8 << 20
"""what may wait for a client that does not read, before nothing more is read from it"""
_PATIENCE_S = 1.0
"""with a client that has closed its side and does not read"""


class LineSplitter:
    """Cuts bytes into lines; one that is too long is not kept. Pure."""

    def __init__(self, limit_bytes: int = LINE_LIMIT_BYTES) -> None:
        self._limit = limit_bytes
        self._rest = bytearray()
        self._scanned = 0
        self._skips = False

    def feed(self, data: bytes) -> Iterator[bytes | None]:
        """Yield the lines that `data` completes, without their ends; None for one that is too long."""
        self._rest += data
        while (end := self._rest.find(b"\n", self._scanned)) >= 0:
            line = bytes(self._rest[:end])
            del self._rest[: end + 1]
            self._scanned = 0
            too_long, self._skips = self._skips or len(line) > self._limit, False
            yield None if too_long else line
        self._scanned = len(self._rest)
        if self._skips or len(self._rest) > self._limit:
            self._skips = True
            self._rest.clear()
            self._scanned = 0

    def end(self) -> bytes | None:
        """Return what came after the last end of a line; None for too much."""
        return None if self._skips else bytes(self._rest)


def read_lines(
    descriptor: int, wake: int, wait_for_room: Callable[[Callable[[], bool]], bool]
) -> Iterator[bytes | None]:
    """Yield the lines that come by `descriptor`, None for one that is too long, until its end.

    It ends as well when something can be read from `wake`. `wait_for_room` is called before more is read, with what
    says whether the other side has gone; it returns False to end as well.
    """
    has_gone = partial(_has_gone, descriptor)
    splitter = LineSplitter()
    while True:
        ready, _, _ = select.select([descriptor, wake], [], [])
        if wake in ready:
            return
        data = os.read(descriptor, _PIECE_BYTES)
        if not data:
            break
        yield from splitter.feed(data)
        if not wait_for_room(has_gone):
            return
    yield splitter.end()


def _has_gone(descriptor: int) -> bool:
    """Return whether nobody can write to the other side any more, whatever is still to be read."""
    ends = select.POLLHUP | getattr(select, "POLLRDHUP", 0)  # the second: of a socket
    poll = select.poll()
    poll.register(descriptor, ends)
    return any(events & ends for _, events in poll.poll(0))


class Writer:
    """Writes lines to a descriptor, each whole, from one thread; `send` never waits."""

    def __init__(self, descriptor: int, *, on_broken: Callable[[], None]) -> None:
        """`on_broken` is called, in the writer's thread, when the reader of the lines has gone."""
        self._descriptor = descriptor
        self._on_broken = on_broken
        self._changed = Condition()
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._ends = False
        self._thread: Thread | None = None

    def send(self, line: bytes) -> None:
        """Have `line` written after all that was sent before."""
        with self._changed:
            if self._ends:
                return
            self._waiting.append(line)
            self._size += len(line)
            if self._thread is None:
                self._thread = Thread(target=self._write, daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def flush(self, patience_s: float) -> None:
        """Wait until all that was sent is written, `patience_s` at most."""
        with self._changed:
            self._changed.wait_for(lambda: self._size == 0 or self._ends, patience_s)

    def wait_for_room(self, has_gone: Callable[[], bool]) -> bool:
        """Wait while more than BACKLOG_BYTES are to be written; False: the client has gone and does not read them."""
        gone_s: float | None = None
        with self._changed:
            while self._size > BACKLOG_BYTES and not self._ends:
                self._changed.wait(0.1)  # a signal is heard in between
                if gone_s is None and has_gone():
                    gone_s = time.monotonic()
                if gone_s is not None and time.monotonic() - gone_s > _PATIENCE_S:
                    return False
        return True

    def close(self, patience_s: float) -> None:
        """Take no more, and wait until all is written, `patience_s` at most."""
        with self._changed:
            self._ends = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(patience_s)

    def _write(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    if self._ends:
                        return
                    self._changed.wait()
                line = self._waiting.popleft()
            try:
                view = memoryview(line)
                while view:
                    view = view[os.write(self._descriptor, view) :]
            except OSError:
                with self._changed:
                    self._ends = True
                    self._waiting.clear()
                    self._size = 0
                    self._changed.notify_all()
                self._on_broken()
                return
            with self._changed:
                self._size -= len(line)
                self._changed.notify_all()
