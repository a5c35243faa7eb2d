"""Calls at work: eight at a time, a short queue, progress, and cancelling (R-178).

A call is answered once, or not at all when it was cancelled: whatever ends it takes it out of the table under the
lock, and only who took it out may send something for it. One that waits for a person is not at work: another takes
its place, and once it is answered it goes on as soon as fewer than eight are at work, before those in the queue.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from threading import Condition, Thread
from typing import Any

from odek.cancel import POLL_S, CancelToken, current_token, use_token
from odek.errors import Cancelled
from odek.mcp.messages import INTERNAL_ERROR, Id, Json, Request, RpcError, failure, notification, result

WORKERS = 8
QUEUE_LENGTH = 32
MOST_SUSPENDED = 32
"""calls that wait for a person and do not count; further ones do, for each has a thread"""
PROGRESS_S = 5.0

Reply = Callable[[Json | None], None]
"""takes the answer to one request; None: there is to be none"""


@dataclass(slots=True, kw_only=True, eq=False)
class Call:
    """A request that takes a while."""

    request: Request
    title: str
    """one safe line for people"""
    work: Callable[[], Json]
    """returns the result; raises RpcError"""
    reply: Reply
    token: CancelToken = field(default_factory=CancelToken)
    started_s: float = 0.0
    told_s: float = 0.0
    """when progress was sent last"""

    @property
    def progress_token(self) -> Id | None:
        token = self.request.meta.get("progressToken")
        return token if isinstance(token, (int, str)) and not isinstance(token, bool) else None


def key_of(id: Id) -> tuple[bool, Id]:  # noqa: A002 - the protocol's word
    """Return what tells the ids 1 and "1" apart."""
    return isinstance(id, str), id


class Calls:
    """The calls of a process."""

    def __init__(
        self,
        *,
        send: Callable[[Json], None],
        report_bug: Callable[[BaseException], None],
        workers: int = WORKERS,
        queue_length: int = QUEUE_LENGTH,
        clock: Callable[[], float] = time.monotonic,
        progress_s: float = PROGRESS_S,
    ) -> None:
        self._send = send
        self._report_bug = report_bug
        self._workers = workers
        self._queue_length = queue_length
        self._clock = clock
        self._progress_s = progress_s
        self._changed = Condition()
        self._known: dict[tuple[bool, Id], Call] = {}
        self._waiting: deque[Call] = deque()
        self._threads: list[Thread] = []
        self._started = 0
        """workers"""
        self._idle = 0
        """of these without a call"""
        self._at_work = 0
        """calls"""
        self._suspended = 0
        """calls that wait for a person"""
        self._answered = 0
        """of these, calls that could go on"""
        self._ticker: Thread | None = None
        self._ends = False

    def __contains__(self, id: Id) -> bool:  # noqa: A002 - the protocol's word
        with self._changed:
            return key_of(id) in self._known

    def begin(self, call: Call) -> bool:
        """Let a worker do `call`; False when too many wait already."""
        with self._changed:
            asking = min(self._suspended, MOST_SUSPENDED)  # they keep no other call waiting
            if self._ends or len(self._known) - asking >= self._workers + self._queue_length:
                return False
            self._known[key_of(call.request.id)] = call
            self._waiting.append(call)
            self._add_worker()
            if call.progress_token is not None and self._ticker is None:
                self._ticker = self._start(self._tick)
            self._changed.notify_all()
            return True

    def cancel(self, id: Id) -> None:  # noqa: A002 - the protocol's word
        """Stop the call, which gets no answer any more; nothing happens where there is none."""
        with self._changed:
            call = self._known.pop(key_of(id), None)
            if call is None:
                return
            if call in self._waiting:
                self._waiting.remove(call)
            call.reply(None)
        call.token.cancel()

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Let another call take the place of this thread's one, which waits for a person within the block."""
        with self._changed:
            self._at_work -= 1
            self._suspended += 1
            self._add_worker()
            self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._answered += 1
                while self._at_work >= self._workers and not current_token().cancelled:
                    self._changed.wait(POLL_S)
                self._answered -= 1
                self._suspended -= 1
                self._at_work += 1

    def drain(self, patience_s: float) -> None:
        """Wait until there is no call any more, `patience_s` at most."""
        deadline = self._clock() + patience_s
        with self._changed:
            while self._known and (left := deadline - self._clock()) > 0:
                self._changed.wait(min(left, POLL_S))  # a signal is heard in between

    def close(self, patience_s: float) -> None:
        """Cancel all, take no more, and wait until all has stopped, `patience_s` at most."""
        with self._changed:
            self._ends = True
            calls = tuple(self._known.values())
            self._known.clear()
            self._waiting.clear()
            self._changed.notify_all()
        for call in calls:
            call.token.cancel()
        deadline = self._clock() + patience_s
        for thread in self._threads:
            thread.join(max(deadline - self._clock(), 0))

    def _add_worker(self) -> None:
        """Start a worker if a call waits for one and may have it."""
        if len(self._waiting) > self._idle and self._started < self._workers + self._suspended:
            self._started += 1
            self._start(self._work)

    def _start(self, work: Callable[[], None]) -> Thread:
        thread = Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()
        return thread

    def _work(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                while not self._waiting or self._at_work + self._answered >= self._workers:
                    if self._ends:
                        return
                    self._changed.wait()
                self._idle -= 1
                self._at_work += 1
                call = self._waiting.popleft()
                call.started_s = call.told_s = self._clock()
            self._do(call)
            with self._changed:
                self._at_work -= 1
                self._changed.notify_all()

    def _do(self, call: Call) -> None:
        id = call.request.id  # noqa: A001 - the protocol's word
        try:
            with use_token(call.token):
                answer = result(id, call.work())
        except Cancelled:
            answer = None
            if not call.token.cancelled:  # something stopped the work, and it was not the client
                answer = failure(id, RpcError(INTERNAL_ERROR, "the call was stopped from within; call again"))
        except RpcError as error:
            answer = failure(id, error)
        except BaseException as error:  # a bug of ours: this call is lost, the server need not be
            self._report_bug(error)
            answer = failure(id, RpcError(INTERNAL_ERROR, f"a bug in odek: {type(error).__name__}; see its stderr"))
        with self._changed:
            if self._known.get(key_of(id)) is call:
                self._known.pop(key_of(id), None)
                call.reply(answer)
                self._changed.notify_all()

    def _tick(self) -> None:
        with self._changed:
            while not self._ends:
                now = self._clock()
                due = [call for call in self._known.values() if call.started_s and call.progress_token is not None]
                for call in due:
                    if now - call.told_s >= self._progress_s:
                        call.told_s = now
                        self._send(progress(call, now - call.started_s))
                ages = [now - call.told_s for call in due]
                self._changed.wait(max(self._progress_s - max(ages, default=0.0), 0.01))


def progress(call: Call, seconds: float) -> Json:
    """Return the notification that `call` has been at work for `seconds`."""
    params: Mapping[str, Any] = {
        "progressToken": call.progress_token,
        "progress": round(seconds, 1),
        "message": f"{call.title}, {seconds:.0f} s",
    }
    return notification("notifications/progress", params)
