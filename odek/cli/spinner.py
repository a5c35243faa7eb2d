"""What the last lines of a terminal show of a wait, once it takes more than a second, until something happens."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

_PATIENCE_S = 1.0
_TICK_S = 0.5


class Spinner:
    """Shows "waiting for the model, 3 s", and above it rows that a running command has printed."""

    def __init__(self, write: Callable[[str], None], columns: Callable[[], int]) -> None:
        """`write` puts text on the terminal as it is, without a line end; `columns` is its width now."""
        self._write = write
        self._columns = columns
        self._done = threading.Event()
        self._thread: threading.Thread | None = None
        self._what = ""
        self._rows: Callable[[int], tuple[str, ...]] | None = None

    def start(self, what: str) -> None:
        self.stop()
        self._what, self._done, self._rows = what, threading.Event(), None
        self._thread = threading.Thread(target=self._tick, args=(what, self._done), name=what, daemon=True)
        self._thread.start()

    def show(self, rows: Callable[[int], tuple[str, ...]]) -> None:
        """Show what `rows` returns for the width of the terminal above the status, from the next tick on."""
        self._rows = rows

    def stop(self) -> str:
        """Remove what is shown and return the status, "" for none.

        All of it is gone when this returns.
        """
        if self._thread is None:
            return ""
        self._done.set()
        self._thread.join()
        self._thread = None
        return self._what

    def _tick(self, what: str, done: threading.Event) -> None:
        started = time.monotonic()
        above = -1
        while not done.wait(_TICK_S):
            seconds = time.monotonic() - started
            if seconds >= _PATIENCE_S or self._rows is not None:
                columns = self._columns()
                rows = self._rows(columns) if self._rows is not None else ()
                self._write(erase(above) + "".join(f"{row}\n" for row in rows) + render_status(what, seconds, columns))
                above = len(rows)
        self._write(erase(above))


def erase(above: int) -> str:
    """Return what removes the last line and `above` lines before it; -1: nothing was shown. Pure."""
    if above < 0:
        return ""
    return f"\r\x1b[{above}A\x1b[J" if above else "\r\x1b[K"


def render_status(what: str, seconds: float, columns: int) -> str:
    """Return the status on one line: a wrapped one would stay when the next replaces it. Pure."""
    took = f", {seconds:.0f} s"
    room = max(columns - 1, 0)
    return (what[: max(room - len(took), 0)] + took)[:room]
