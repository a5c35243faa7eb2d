"""A status line on the terminal for a wait, once that takes more than a second."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_PATIENCE_S = 1.0
_TICK_S = 0.5


class Spinner:
    """Shows "waiting for the model, 3 s" on the last line of a terminal until something happens."""

    def __init__(self, write: Callable[[str], None], columns: Callable[[], int]) -> None:
        """`write` puts text on the terminal as it is, without a line end; `columns` is its width now."""
        self._write = write
        self._columns = columns
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        self._what = ""

    def start(self, what: str) -> None:
        self.stop()
        self._what, self._done = what, threading.Event()
        self._thread = threading.Thread(target=self._tick, args=(what, self._done), name=what, daemon=True)
        self._thread.start()

    def stop(self) -> str:
        """Remove the line and return its text, "" for none.

        The line is gone when this returns.
        """
        if self._thread is None:
            return ""
        self._done.set()
        self._thread.join()
        self._thread = None
        return self._what

    def _tick(self, what: str, done: threading.Event) -> None:
        started = time.monotonic()
        shown = False
        while not done.wait(_TICK_S):
            seconds = time.monotonic() - started
            if seconds >= _PATIENCE_S:
                self._write(f"\r{render_status(what, seconds, self._columns())}\x1b[K")
                shown = True
        if shown:
            self._write("\r\x1b[K")


def render_status(what: str, seconds: float, columns: int) -> str:
    """Return the status on one line: a wrapped one would stay when the next replaces it. Pure."""
    took = f", {seconds:.0f} s"
    room = max(columns - 1, 0)
    return (what[: max(room - len(took), 0)] + took)[:room]
