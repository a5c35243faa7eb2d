"""The latest output of a running command, on the last lines of a terminal while it runs (C4, R-262)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from odek.cli.wrap import fit
from odek.events import Sink, ToolOutput
from odek.executor import OutputWatch, use_watch
from odek.patterns import pattern
from odek.text import visible

ROWS = 5
_ROWS_OF_CALLS = 8
"""of calls that run at the same time, their titles included"""
_MOST_CALLS = 4
LEAST_COLUMNS = 40
"""of a terminal on which live rows are shown"""
_TAIL = 2000  # characters; the executor hands over more, so that a secret at the cut is seen whole
_CONTROL = pattern(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[^\[\]])")


@contextmanager
def watched_commands(sink: Sink, redact: Callable[[str], str]) -> Iterator[None]:
    """Send `sink` what commands print that this thread runs in the block, while they run and without secrets.

    Of calls that run at the same time each event has the id, and comes in the thread of its call.
    """

    def show_call(call_id: str, tail: str, size_bytes: int) -> None:
        sink(ToolOutput(call_id=call_id, tail=redact(tail)[-_TAIL:], size_bytes=size_bytes))

    with use_watch(OutputWatch(partial(show_call, ""), show_call=show_call)):
        yield


def live_rows_of_calls(outputs: Sequence[tuple[str, str]], columns: int, *, head: str) -> tuple[str, ...]:
    """Return the title of each call and the last rows of its output; without a title there is one call. Pure."""
    if len(outputs) == 1 and not outputs[0][0]:
        return live_rows(outputs[0][1], columns, head=head)
    shown = outputs[-_MOST_CALLS:]
    count = max(_ROWS_OF_CALLS // max(len(shown), 1) - 1, 1)
    rows: list[str] = []
    for title, tail in shown if columns >= LEAST_COLUMNS else ():
        rows += (head + fit(title, columns - 1 - len(head)), *live_rows(tail, columns, head=f"{head}  ", count=count))
    return tuple(rows)


def live_rows(tail: str, columns: int, *, head: str, count: int = ROWS) -> tuple[str, ...]:
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
    return tuple(head + line for line in lines[-count:])
