"""The latest output of a running command, on the last lines of a terminal while it runs (C4, R-262)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from odek.cli.wrap import fit
from odek.events import Sink, ToolOutput
from odek.executor import OutputWatch, use_watch
from odek.patterns import pattern
from odek.text import visible

ROWS = 5
LEAST_COLUMNS = 40
"""of a terminal on which live rows are shown"""
_TAIL = 2000  # characters; the executor hands over more, so that a secret at the cut is seen whole
_CONTROL = pattern(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[^\[\]])")


@contextmanager
def watched_commands(sink: Sink, redact: Callable[[str], str]) -> Iterator[None]:
    """Send `sink` what commands print that this thread runs in the block, while they run and without secrets."""

    def show(tail: str, size_bytes: int) -> None:
        sink(ToolOutput(call_id="", tail=redact(tail)[-_TAIL:], size_bytes=size_bytes))

    with use_watch(OutputWatch(show)):
        yield


def live_rows(tail: str, columns: int, *, head: str) -> tuple[str, ...]:
    """Return the last rows of `tail`, each headed by `head` and on one line of a terminal `columns` wide. Pure.

    Of a line that was overwritten the last state is shown, of colours and cursor movements nothing.
    """
    if columns < LEAST_COLUMNS:
        return ()
    lines = []
    for line in _CONTROL.sub("", tail).replace("\r\n", "\n").split("\n"):
        state = next((part for part in reversed(line.split("\r")) if part.strip()), "")
        if state:
            lines.append(fit(visible(state.expandtabs(8)), columns - 1 - len(head)))
    return tuple(head + line for line in lines[-ROWS:])
