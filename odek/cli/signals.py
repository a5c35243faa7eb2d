"""Signals: during a turn they cancel its token, otherwise they are an exception in the main thread.

Either way every `finally` and ExitStack does its work. A second signal meanwhile ends the process at once.
That is safe: the container's lease is a pipe of this process, and the kernel closes it (R-38).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from odek.cancel import UNHEARD_S, CancelToken, use_token
from odek.errors import EXIT_BUDGET, EXIT_SIGNAL_BASE, Interrupted

if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # `signal` makes enumerations of its 60 numbers first, 4 ms of each start

NAMES: dict[int, str] = {signal.SIGINT: "SIGINT", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}
HANDLED = tuple(NAMES)
# A terminal's Ctrl-C can arrive twice, at a wrapper and at its child, within a millisecond; a
# person's second Ctrl-C takes longer. The binary always has a wrapper, its bootloader, which passes
# signals on when it gets to it: on a busy machine that has taken more than a tenth of a second.
_TWINS_S = 0.1
_SAME_KEYPRESS_S = 0.5 if getattr(sys, "frozen", False) else _TWINS_S

# Every wait of a turn looks at its token within a fraction of a second. What does not, such as a write into a
# pipe without a reader, must not make odek immune to a SIGTERM.
_UNHEARD_S = 5.0

last_words: Callable[[str, int], None] | None = None
"""called with a signal's name and an exit code, before this process ends at once"""

_turn: CancelToken | None = None
"""cancels the turn that is under way"""
_first: float | None = None
"""when the signal came that is ending what is at work; None: nothing is being ended"""
_latest = (0, 0.0)
"""the signal that counted last, and when it came; also of an earlier turn"""


def install() -> None:
    """Let the handled signals raise Interrupted; an ignored one (nohup) stays ignored."""
    for number in HANDLED:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)


@contextmanager
def turn() -> Iterator[CancelToken]:
    """Let a signal cancel this thread's token within the block, and raise nothing.

    What the block has not heard is raised at its end.
    """
    global _turn
    token = CancelToken(when_unheard=_leave_at_limit)
    _turn = token
    try:
        with use_token(token):
            yield token
    finally:
        _turn = None
        if token.cancelled:
            signal.setitimer(signal.ITIMER_REAL, 0)
        token.raise_if_cancelled()


_on_leaving: Callable[[], None] | None = None
"""what has to be put back before this process ends at once"""


@contextmanager
def on_leaving(restore: Callable[[], None]) -> Iterator[None]:
    """Call `restore` when a signal or a limit ends this process at once within the block, where no `finally` is run."""
    global _on_leaving
    before, _on_leaving = _on_leaving, restore
    try:
        yield
    finally:
        _on_leaving = before


def _exit_at_once(code: int) -> NoReturn:
    if _on_leaving is not None:
        _on_leaving()
    os._exit(code)


def rearm() -> None:
    """Let the next signal raise Interrupted again: in a conversation, each turn has a first one."""
    global _first
    _first = None


def _interrupt(number: int, _frame: FrameType | None) -> None:
    global _first, _latest
    try:
        now = time.monotonic()
    except SystemError:
        # between two Ctrl-C at once, `input` calls this while the exception of the first is on its way, and
        # nothing can be called then; this one takes its place
        raise Interrupted(number) from None
    if number == _latest[0] and now - _latest[1] <= _TWINS_S:
        return
    _latest = (number, now)
    if _first is None:
        _first = now
        if _turn is None:
            raise Interrupted(number)
        _turn.cancel(partial(Interrupted, number))
        signal.signal(signal.SIGALRM, _leave_unheard)
        # a write into a pipe that is not read must not make odek immune to a SIGTERM
        signal.setitimer(signal.ITIMER_REAL, UNHEARD_S)
        return
    if now - _first > _SAME_KEYPRESS_S:
        _leave(number)


def leave_within(seconds: float, code: int) -> None:
    """End this process with `code` when it has not ended by itself after `seconds`; the leases do the rest."""

    def leave(_number: int, _frame: FrameType | None) -> None:
        _exit_at_once(code)

    signal.signal(signal.SIGALRM, leave)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _leave_unheard(_number: int, _frame: FrameType | None) -> None:
    if _turn is not None and not _turn.heard:
        _leave(_latest[0])


def _leave_at_limit() -> None:
    """End this process at once, from any thread: its time is up, and the turn hangs where it does not hear that."""
    _end("", EXIT_BUDGET)


def _leave(number: int) -> None:
    """End this process at once; at a terminal say so, on a line of its own below the cursor's."""
    for handled in HANDLED:  # a terminal that takes no line must not hold up a third signal
        signal.signal(handled, signal.SIG_DFL)
    try:
        if os.isatty(2):
            os.write(2, f"\nodek: stopped at once by {NAMES[number]}\n".encode())
    except OSError:
        pass  # the terminal is gone
    _end(NAMES[number], EXIT_SIGNAL_BASE + number)


def _end(name: str, code: int) -> NoReturn:
    try:
        if last_words is not None:
            last_words(name, code)
    finally:
        _exit_at_once(code)


class Resumed(Exception):
    """This process was stopped, as by Ctrl-Z, and goes on."""


@contextmanager
def resumption() -> Iterator[None]:
    """Raise Resumed in the block when this process goes on after a stop, unless a signal is ending it already."""
    before = signal.signal(signal.SIGCONT, _resumed)
    try:
        yield
    finally:
        signal.signal(signal.SIGCONT, before)


def _resumed(_number: int, _frame: FrameType | None) -> None:
    if _first is None:
        raise Resumed
