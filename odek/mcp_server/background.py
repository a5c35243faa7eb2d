"""Work in a thread of its own that several may wait for."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Generic, TypeVar

from odek.cancel import POLL_S, CancelToken, current_token, use_token

T = TypeVar("T")


class Background(Generic[T]):
    """One piece of work; a wait for it that is cancelled leaves it at work."""

    def __init__(self, work: Callable[[], T], token: CancelToken) -> None:
        self._outcome: T | BaseException | None = None
        self._done = Event()
        Thread(target=self._do, args=(work, token), daemon=True).start()

    @property
    def done(self) -> bool:
        return self._done.is_set()

    @property
    def failed(self) -> bool:
        """whether it has ended with an error"""
        return self.done and isinstance(self._outcome, BaseException)

    def wait(self, timeout_s: float | None = None) -> T:
        """Return what came of it. Raises what it raised, TimeoutError, and a cancel of this thread's token."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not self._done.wait(POLL_S):
            current_token().raise_if_cancelled()
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome  # type: ignore[return-value]

    def join(self, timeout_s: float) -> None:
        """Wait for its end, whatever came of it."""
        self._done.wait(timeout_s)

    def _do(self, work: Callable[[], T], token: CancelToken) -> None:
        try:
            with use_token(token):
                self._outcome = work()
        except BaseException as error:  # raised again where it is waited for
            self._outcome = error
        finally:
            self._done.set()
