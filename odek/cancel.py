"""Cancelling work that is under way, in any thread.

One rule: **who starts work hands over a token; what waits asks for that of its thread.** `Agent.run` and
`agent.calls.ParallelRun` give each thread that works for them a child of the token that they were given, by
`use_token`. Whatever waits below them (for a child process, a socket, a lock, a person, or for time to pass)
asks `current_token()`. The four callers of `cancel` are a signal, a time limit, a client that hangs up, and a
parallel call that failed.

A token raises each cause once. So what stops a command after a cancel can wait in peace, while a Ctrl-C that
follows a time-out is heard all the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from odek.errors import Cancelled, TimeLimitReached

POLL_S = 0.05
"""how often a wait looks at its token; a lock or a condition would not do, for `cancel` is called in signal handlers"""
UNHEARD_S = 5.0
"""after this time a cancel counts as unheard; every wait looks at its token, but not every call of the system is one"""


@dataclass(slots=True, eq=False)
class _Cause:
    make: Callable[[], Cancelled]
    heard: bool = False


class CancelToken:
    """One piece of work that may be cancelled; `raise_if_cancelled` and the waits belong to one thread at a time."""

    def __init__(self, parent: CancelToken | None = None, *, when_unheard: Callable[[], None] | None = None) -> None:
        """What cancels `parent` cancels this token, too.

        `when_unheard` is called, in any thread, when a time limit of this token or a child is not heard in time.
        """
        self._when_unheard: Callable[[], None] | None = when_unheard or (parent._when_unheard if parent else None)
        self._chain: tuple[CancelToken, ...] = (*parent._chain, self) if parent else (self,)
        self._causes: list[_Cause] = []
        self._raised: list[_Cause] = []
        self._callbacks: list[Callable[[], None]] = []

    def cancel(self, cause: Callable[[], Cancelled] = Cancelled) -> None:
        """Let the work of this token and of its children end with `cause()`. Safe in a signal handler."""
        self._causes.append(_Cause(cause))
        for callback in tuple(self._callbacks):
            callback()

    @property
    def cancelled(self) -> bool:
        """whether this token or one above it was cancelled"""
        return any(token._causes for token in self._chain)

    @property
    def heard(self) -> bool:
        """whether each cause of this token has been raised by it or a child: the work knows that it must end"""
        return all(cause.heard for cause in self._causes)

    def give_up_unheard(self) -> None:
        """Have the owner of this work end it otherwise, unless each cause has been heard."""
        if self._when_unheard is not None and not self.heard:
            self._when_unheard()

    def raise_if_cancelled(self) -> None:
        """Raise what this token was cancelled with, the outermost cause first; nothing when that was raised before."""
        pending = self._pending()
        if pending:
            self._raised += pending
            for cause in pending:
                cause.heard = True
            raise pending[0].make()

    def wait(self, seconds: float) -> None:
        """Sleep for `seconds`; a cancel meanwhile is raised."""
        deadline = time.monotonic() + seconds
        while True:
            self.raise_if_cancelled()
            left = deadline - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(left, POLL_S))

    @contextmanager
    def on_cancel(self, callback: Callable[[], None]) -> Iterator[None]:
        """Call `callback` when the token is cancelled within the block, in the thread that cancels it.

        It is called at once where a cause waits to be raised, and may be called several times.
        """
        for token in self._chain:
            token._callbacks.append(callback)
        try:
            if self._pending():
                callback()
            yield
        finally:
            for token in self._chain:
                token._callbacks.remove(callback)

    def _pending(self) -> list[_Cause]:
        return [cause for token in self._chain for cause in token._causes if cause not in self._raised]


_current: ContextVar[CancelToken] = ContextVar("cancel_token")


def current_token() -> CancelToken:
    """Return the token of this thread's work; where there is none, one that nothing cancels."""
    return _current.get(None) or CancelToken()


@contextmanager
def use_token(token: CancelToken) -> Iterator[CancelToken]:
    """Let `token` be that of this thread within the block."""
    before = _current.set(token)
    try:
        yield token
    finally:
        _current.reset(before)


@contextmanager
def time_limit(token: CancelToken, seconds: float | None) -> Iterator[None]:
    """Cancel `token` with TimeLimitReached when the block has taken `seconds`; None: there is no limit."""
    if seconds is None:
        yield
        return
    from threading import Event, Timer  # few tasks have a limit

    ended = Event()

    def expire() -> None:
        token.cancel(TimeLimitReached)
        if not ended.wait(UNHEARD_S):
            token.give_up_unheard()

    timer = Timer(seconds, expire)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        ended.set()
        timer.cancel()


def sleep(seconds: float) -> None:
    """Sleep; a cancel of this thread's token meanwhile is raised."""
    current_token().wait(seconds)


def wait_readable(descriptor: int, timeout_s: float | None = None) -> bool:
    """Return whether there is something to read, after `timeout_s` at most; a cancel meanwhile is raised."""
    import select  # what has no person or pipe to wait for does without

    token = current_token()
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        token.raise_if_cancelled()
        left = POLL_S if deadline is None else min(max(deadline - time.monotonic(), 0), POLL_S)
        if select.select([descriptor], [], [], left)[0]:
            return True
        if deadline is not None and time.monotonic() >= deadline:
            return False
