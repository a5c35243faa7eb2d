"""Work in several threads that can be called off: what a signal is to the main thread.

A signal handler's exception (errors.Interrupted) reaches the main thread alone. A thread that works
for it learns of it here, at the one place where work waits (process.Running.pump), and gets the same
exception, once: what stops its command afterwards is not disturbed by a second one.
"""

from __future__ import annotations

from contextvars import ContextVar

from odek.errors import Interrupted


class CallOff:
    """Shared by the threads of one piece of work and whoever may call it off."""

    def __init__(self) -> None:
        self.signal_number: int | None = None
        """why; None while the work goes on"""

    def call(self, signal_number: int) -> None:
        """Let every thread stop at the next place where it waits."""
        self.signal_number = signal_number


class _Leash:
    def __init__(self, call_off: CallOff) -> None:
        self.call_off = call_off
        self.told = False


_leash: ContextVar[_Leash | None] = ContextVar("leash", default=None)


def heed(call_off: CallOff) -> None:
    """Let this thread stop when `call_off` says so."""
    _leash.set(_Leash(call_off))


def check() -> None:
    """Raise Interrupted if this thread's work was called off; the second time nothing happens."""
    leash = _leash.get()
    if leash is not None and not leash.told and leash.call_off.signal_number is not None:
        leash.told = True
        raise Interrupted(leash.call_off.signal_number)
