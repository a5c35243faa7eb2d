"""What one thread has for another one that waits for it: a value, or the error in its place.

`concurrent.futures` has the same, and brings `logging` with it into every start of the server.
"""

from __future__ import annotations

from threading import Event
from typing import Generic, TypeVar

T = TypeVar("T")


class Promise(Generic[T]):
    """Kept once, by the thread that does the work; any number of others may wait for it."""

    def __init__(self) -> None:
        self._kept = Event()
        self._error: BaseException | None = None
        self._value: T

    @property
    def is_kept(self) -> bool:
        return self._kept.is_set()

    def keep(self, value: T) -> None:
        self._value = value
        self._kept.set()

    def fail(self, error: BaseException) -> None:
        self._error = error
        self._kept.set()

    def wait(self, timeout_s: float) -> bool:
        """Return whether it was kept in this time."""
        return self._kept.wait(timeout_s)

    def value(self) -> T:
        """Return the value of one that is kept. Raises the error that came in its place."""
        if self._error is not None:
            raise self._error
        return self._value
