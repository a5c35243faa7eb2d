"""The events of a turn's beginning and its end, for every surface alike (R-129)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from odek.app.attachments import Attachment
from odek.errors import BudgetExhausted, Cancelled, Interrupted, OdekError
from odek.events import Sink, TurnEnded, TurnStarted, TurnStatus
from odek.model.types import Usage


def turn_started(turn: int, text: str, files: Sequence[Attachment], *, at_s: float) -> TurnStarted:
    """Return the event of a turn that begins at `at_s`, in seconds since the epoch. Pure."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at_s))
    return TurnStarted(turn=turn, text=text, files=tuple(file.name for file in files), at=at)


@contextmanager
def shown_turn(
    started: TurnStarted, sink: Sink, usages: Callable[[], tuple[Usage, Usage]], *, clock: Callable[[], float]
) -> Iterator[None]:
    """Send both events around the block; `usages` gives what the turn has used, and all turns."""
    began = clock()
    sink(started)
    ended = TurnEnded(turn=started.turn, status="failed", message="a bug in odek ended the turn", code="bug")
    try:
        yield
        ended = replace(ended, status="answered", message="", code="")
    except OdekError as error:
        status: TurnStatus = "budget" if isinstance(error, BudgetExhausted) else "failed"
        ended = replace(ended, status=status, message=error.message, hint=error.hint, detail=error.detail, code="")
        raise
    except Cancelled as cause:
        status = "interrupted" if isinstance(cause, Interrupted) else "cancelled"
        ended = replace(ended, status=status, message="", code="")
        raise
    finally:
        used, total = usages()
        sink(replace(ended, usage=used, session_usage=total, seconds=clock() - began))
