"""Asking whether one command may run: the whole of it can be read first, and haste is slowed down (B34).

A command that does not fit the screen is shown by its two ends, and saying yes is not among the
choices until the rest has been paged through. After three approvals within a minute the next one
takes a pause and a whole word.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from odek.approval.display import command_rows, field, readable
from odek.text import clip, plural

if TYPE_CHECKING:
    from odek.approval.gate import Approver

FIT_ROWS = 14  # what a terminal of 24 rows holds besides the heading, the reason and the question
HEAD_ROWS = 8
TAIL_ROWS = 5
PAGE_ROWS = 20
REASON_LIMIT = 300
FRICTION_COUNT = 3
FRICTION_WINDOW_S = 60.0
FRICTION_PAUSE_S = 1.5
_NO = ("", "n", "no", "d", "deny")
_MORE = "?"
_ALL = "all"


class CommandQuestion:
    """Puts commands to one person; remembers how fast they have been saying yes."""

    def __init__(
        self,
        approver: Approver,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`clock` must never run backwards; both are in seconds."""
        self._approver = approver
        self._clock = clock
        self._sleep = sleep
        self._approved_at: tuple[float, ...] = ()

    def ask(self, command: str, *, risk: str, place: str, reason: str) -> bool:
        """Return whether the person lets `command` run once.

        `risk` is its class, `place` where it would run, `reason` what the model says it is for.
        """
        hasty = self._is_hasty()
        if hasty:
            self._sleep(FRICTION_PAUSE_S)
        if not self._converse(command, _heading(command, risk=risk, place=place, reason=reason), hasty=hasty):
            return False
        self._approved_at = (*self._approved_at[1 - FRICTION_COUNT :], self._clock())
        return True

    def _is_hasty(self) -> bool:
        since = self._clock() - FRICTION_WINDOW_S
        return sum(moment > since for moment in self._approved_at) >= FRICTION_COUNT

    def _converse(self, command: str, heading: str, *, hasty: bool) -> bool:
        yes = ("approve",) if hasty else ("a", "approve")
        rows = command_rows(command)
        shown = f"{heading}\n{_first_view(rows)}"
        pages = (shown,) if len(rows) <= FIT_ROWS else _pages(rows)
        page = 0
        all_seen = len(pages) == 1
        while True:
            choices = (*_NO, _MORE, *yes) if all_seen else (*_NO, _MORE, _ALL)
            question = _question(page, len(pages), all_seen=all_seen, hasty=hasty)
            answer = self._approver.ask(f"{shown}\n{question}", choices)
            if answer == _MORE:
                shown = pages[page]
                page = (page + 1) % len(pages)
            elif answer == _ALL:
                shown = "\n".join(pages[page:])
                page = 0
            else:
                return answer in yes
            all_seen = all_seen or page == 0


def _heading(command: str, *, risk: str, place: str, reason: str) -> str:
    lines = command.count("\n") + 1
    return "\n".join(
        (
            f"Approval needed (class {readable(risk)})",
            *field("runs on", readable(place)),
            *field("reason", readable(clip(reason, REASON_LIMIT)) or "(none given)"),
            *field("command", f"{plural(lines, 'line')}, {plural(len(command), 'character')}"),
        )
    )


def _first_view(rows: tuple[str, ...]) -> str:
    if len(rows) <= FIT_ROWS:
        return "\n".join(rows)
    between = len(rows) - HEAD_ROWS - TAIL_ROWS
    return "\n".join((*rows[:HEAD_ROWS], f"  * [{plural(between, 'row')} between, not shown yet]", *rows[-TAIL_ROWS:]))


def _pages(rows: tuple[str, ...]) -> tuple[str, ...]:
    return tuple("\n".join(rows[start : start + PAGE_ROWS]) for start in range(0, len(rows), PAGE_ROWS))


def _question(page: int, count: int, *, all_seen: bool, hasty: bool) -> str:
    part = f"part {page + 1} of {count}"
    if not all_seen:
        return f"Read it first: [? = {part} / all = the rest of it / N = deny]"
    yes = "approve = once, the whole word" if hasty else "a = approve once"
    again = "show it again" if count == 1 else part
    return f"Approve? [{yes} / ? = {again} / N = deny]"
