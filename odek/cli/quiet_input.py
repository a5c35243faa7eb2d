"""What is typed while odek works is kept for the next reader, and not shown in the middle of what is printed (C5)."""

from __future__ import annotations

import os
import signal
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from odek.cli import signals
from odek.errors import Interrupted

TERMINAL = "/dev/tty"


@contextmanager
def silent_typing(path: str = TERMINAL) -> Iterator[None]:
    """Switch the echo of the controlling terminal off in the block, if this process is in its foreground.

    Lines can still be edited, and Ctrl-C and Ctrl-Z work as ever. Whatever ends the block or this process, but for
    SIGKILL, and whenever it is stopped, the echo is as it was.
    """
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        yield
        return
    try:
        before = _switch_off(descriptor)
        if before is None:
            yield
            return
        with _stopped_with(descriptor, before), signals.on_leaving(lambda: _restore(descriptor, before)):
            try:
                yield
            except Interrupted as interruption:
                interruption.echoed = False
                raise
            finally:
                _restore(descriptor, before)
    finally:
        os.close(descriptor)


Modes = list[int | list[bytes | int]]


def _switch_off(descriptor: int) -> Modes | None:
    """Return the modes that were in force; None: they are not ours to change, or nothing is echoed."""
    try:
        if os.tcgetpgrp(descriptor) != os.getpgrp():  # in the background this would stop us, or disturb another program
            return None
        before = termios.tcgetattr(descriptor)
        assert isinstance(before[3], int)
        if not before[3] & termios.ECHO:
            return None
        silent = list(before)
        silent[3] = before[3] & ~(termios.ECHO | termios.ECHONL)
        termios.tcsetattr(descriptor, termios.TCSANOW, silent)
    except (OSError, termios.error):
        return None
    return before


def _restore(descriptor: int, modes: Modes) -> None:
    try:
        if os.tcgetpgrp(descriptor) == os.getpgrp():
            termios.tcsetattr(descriptor, termios.TCSANOW, modes)
    except (OSError, termios.error):
        pass  # the terminal is gone


@contextmanager
def _stopped_with(descriptor: int, modes: Modes) -> Iterator[None]:
    """Let Ctrl-Z stop this process with `modes` in force: not every shell brings back its own."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        _restore(descriptor, modes)
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, stop)
        _switch_off(descriptor)

    found = signal.getsignal(signal.SIGTSTP)
    if found is not signal.SIG_DFL:  # ignored, or taken already
        yield
        return
    signal.signal(signal.SIGTSTP, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, found)
