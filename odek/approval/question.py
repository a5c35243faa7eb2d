"""Asking a person about one operation or about several at once, and slowing haste down (R-72, runtime 5.6, 5.8).

After three approvals of a class within a minute the next one takes a pause and a whole word.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from odek.approval.display import command_rows, field, readable
from odek.approval.operation import Operation
from odek.approval.pages import PAGE_ROWS, PromptPage, prompt_choice
from odek.text import plural, truncate, visible

if TYPE_CHECKING:
    from odek.approval.gate import Approver

Answer = Literal["once", "trust", "no"]
CardAnswer = Literal["all", "singly", "none"]

REASON_LIMIT = 300
RISK_LIMIT = 130
FRICTION_COUNT = 3
FRICTION_WINDOW_S = 60.0
FRICTION_PAUSE_S = 1.5
_WHOLE_WORD = ("approve",)
_YES = ("y", "yes", "a", *_WHOLE_WORD)
_TRUST = ("t", "trust")
_SINGLY = ("s", "single")


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingOperation:
    """An operation with what the classifier says of it."""

    operation: Operation
    classes: tuple[str, ...]
    """the classes that need the yes"""
    risk: str
    """a clause: what it may do"""
    rule: str
    setting: str
    """with which the operator would never be asked about it again"""
    trustable: bool = False
    """whether one yes may stand for `classes` until odek ends"""
    exact: bool = False
    """whether that yes would be for this very command in this session alone"""


class ApprovalPrompt:
    """Puts operations to one person; remembers how fast they have been saying yes."""

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
        self._approved: list[tuple[float, str]] = []

    def ask(self, asked: PendingOperation, *, place: str) -> Answer:
        """Return whether the person allows the operation once, trusts its classes, or says no.

        `place` tells where it would happen. Trust is not offered for a text that does not fit the screen,
        nor to somebody in haste (B34).
        """
        hasty = self._slow_down(asked.classes)
        rows = command_rows(asked.operation.text)
        choice = PromptPage(
            heading=_heading(asked, place),
            rows=rows,
            details=_details(asked),
            words=_WHOLE_WORD if hasty else _YES,
            offer="approve = once, the whole word" if hasty else "y = once",
        )
        if asked.trustable and choice.fits and not hasty:
            choice = _with_trust(choice, asked)
        answer = prompt_choice(self._approver, choice)
        if not answer:
            return "no"
        self._count(asked.classes)
        return "trust" if answer in _TRUST else "once"

    def ask_together(self, card: tuple[PendingOperation, ...], *, boundary: str) -> CardAnswer:
        """Return what the person says of several operations at once; no answer means none of them.

        `boundary` is the sandbox with its networks, or the host (R-72). As haste it counts as one approval
        of each class.
        """
        classes = tuple(dict.fromkeys(name for asked in card for name in asked.classes))
        hasty = self._slow_down(classes)
        every = "approve = all, the whole word" if hasty else "y = all"
        choice = PromptPage(
            heading=f"{len(card)} operations need approval ({visible(boundary)})",
            rows=tuple(row for number, asked in enumerate(card, 1) for row in _item(number, asked)),
            details=tuple(row for number, asked in enumerate(card, 1) for row in _details(asked, number)),
            words=(*(_WHOLE_WORD if hasty else _YES), *_SINGLY),
            offer=f"{every} / s = one by one",
            refusal="N = none",
            room=PAGE_ROWS,
        )
        answer = prompt_choice(self._approver, choice)
        if answer in _SINGLY:
            return "singly"
        if not answer:
            return "none"
        self._count(classes)
        return "all"

    def _slow_down(self, classes: Iterable[str]) -> bool:
        """Return whether one of `classes` was approved so often lately that it takes a pause; make the pause."""
        since = self._clock() - FRICTION_WINDOW_S
        self._approved = [(moment, name) for moment, name in self._approved if moment > since]
        names = [name for _, name in self._approved]
        hasty = any(names.count(name) >= FRICTION_COUNT for name in classes)
        if hasty:
            self._sleep(FRICTION_PAUSE_S)
        return hasty

    def _count(self, classes: Iterable[str]) -> None:
        self._approved += [(self._clock(), name) for name in classes]


def _with_trust(choice: PromptPage, asked: PendingOperation) -> PromptPage:
    what = "this exact command" if asked.exact else "these classes" if len(asked.classes) > 1 else "this class"
    return replace(choice, words=(*choice.words, *_TRUST), offer=f"{choice.offer} / t = trust {what}")


def _heading(asked: PendingOperation, place: str) -> str:
    operation = asked.operation
    lines = operation.text.count("\n") + 1
    return "\n".join(
        (
            f"Approval needed (class {', '.join(map(readable, asked.classes))})",
            *field("runs on", visible(place)),
            *field("risk", truncate(readable(asked.risk), RISK_LIMIT)),
            *field("reason", truncate(readable(operation.reason), REASON_LIMIT) or "(none given)"),
            *field(operation.kind, f"{plural(lines, 'line')}, {plural(len(operation.text), 'character')}"),
        )
    )


def _item(number: int, asked: PendingOperation) -> tuple[str, ...]:
    """Return the rows of one operation on a card; rows of foreign text begin with a mark of their own."""
    classes = ", ".join(map(readable, asked.classes))
    reason = truncate(readable(asked.operation.reason), REASON_LIMIT)
    return (
        *field(str(number), f"{classes}: {truncate(readable(asked.risk), RISK_LIMIT)}"),
        *(field("reason", reason) if reason else ()),
        *command_rows(asked.operation.text),
    )


def _details(asked: PendingOperation, number: int | None = None) -> tuple[str, ...]:
    rows = (*field("rule", readable(asked.rule)), *field("setting", readable(asked.setting)))
    trust = "trust lasts until odek ends, for everything of these classes"
    if asked.exact:
        trust = "trust lasts until the session ends, for this command as it is written"
    rows = (*rows, *field("trust", trust)) if asked.trustable and number is None else rows
    return rows if number is None else (*field(str(number), ", ".join(map(readable, asked.classes))), *rows)
