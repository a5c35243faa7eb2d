"""The questions of one session and their answers from a page (R-133, R-134).

The turn's thread asks and waits; any other thread answers. A question is settled once, under the lock of the session's
log: by an answer, by its time, by a cancel, or by the session's end. All but the first are refusals.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from odek.approval.card import FRICTION_PAUSE_S, Answer, Card, Unanswered, card_to_json
from odek.approval.gatekeeper import HOST
from odek.cancel import POLL_S, current_token
from odek.web.errors import Refused
from odek.web.log import EventLog

How = Literal["person", "timeout", "cancelled", "closed"]
CONFIRM = "approve"
_KEPT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settled:
    """What stays of a question: nothing that was shown."""

    answer: Answer
    how: How
    at: str


@dataclass(slots=True, kw_only=True)
class _Question:
    card: Card
    shown: Mapping[str, object]
    asked: float
    """by the clock that never runs backwards"""
    settled: _Settled | None = None


@dataclass(slots=True, kw_only=True)
class Cards:
    """Those of one session; satisfies approval.card.Person."""

    log: EventLog
    limit_s: float
    """how long a question waits"""
    facts: Callable[[], Mapping[str, object] | None]
    """of the sandbox, as JSON values; None on the host"""
    clock: Callable[[], float] = time.time
    now: Callable[[], float] = time.monotonic
    note: Callable[[str], None] = lambda _: None
    """takes a line for the operator, without a text of the model"""
    _asked: dict[str, _Question] = field(default_factory=dict)
    """those that wait, by id, oldest first"""
    _settled: dict[str, _Settled] = field(default_factory=dict)
    """the latest of the others"""

    @property
    def open(self) -> list[Mapping[str, object]]:
        """the questions that wait, oldest first; the log's lock is held"""
        return [question.shown for question in self._asked.values()]

    def decide(self, card: Card) -> Answer:
        """Ask and wait; see Person. A cancel of the thread's work settles the question and is raised."""
        question = self._ask(card)
        token = current_token()
        try:
            with self.log.lock:
                while question.settled is None:
                    left = question.asked + self.limit_s - self.now()
                    if left <= 0:
                        self._settle(question, card.refusal, "timeout")
                        break
                    self.log.lock.wait(min(left, POLL_S))
                    token.raise_if_cancelled()
        finally:
            with self.log.lock:
                if question.settled is None:
                    self._settle(question, card.refusal, "cancelled")
        token.raise_if_cancelled()
        settled = question.settled
        assert settled is not None
        if settled.how == "timeout":
            raise Unanswered("nobody answered in time")
        return settled.answer

    def answer(self, card_id: str, answer: object, digest: object, confirm: object) -> dict[str, object]:
        """Settle a question. Raises Refused, and nothing has changed then."""
        with self.log.lock:
            if card_id in self._settled:
                raise _over(self._settled[card_id])
            question = self._asked.get(card_id)
            if question is None:
                raise Refused(404, "unknown", "there is no such question", "the session's snapshot has the open ones")
            chosen = self._checked(question, answer, digest, confirm)
            settled = self._settle(question, chosen, "person")
            return {"answer": chosen, "at": settled.at}

    def settle_all(self, how: How) -> None:
        """Refuse all that is asked."""
        with self.log.lock:
            for question in tuple(self._asked.values()):
                self._settle(question, question.card.refusal, how)

    def _ask(self, card: Card) -> _Question:
        facts = card.origin.facts if card.origin else self.facts()
        if card.host:  # a server of this machine's, say: it is not in the sandbox that commands are in
            facts = None
        asked_at = self.clock()
        shown = {
            **card_to_json(card),
            "boundary": _boundary(facts),
            "sandbox": facts,
            "asked_at": _format(asked_at),
            "ends_at": _format(asked_at + self.limit_s),
        }
        question = _Question(card=card, shown=shown, asked=self.now())
        with self.log.lock:
            self._asked[card.id] = question
            self.log.add({"event": "approval_asked", "approval": shown, **_task_of(card)})
        self.note(f"asks about {_classes(card)}")
        return question

    def _checked(self, question: _Question, answer: object, digest: object, confirm: object) -> Answer:
        card = question.card
        if digest != question.shown["digest"]:
            raise Refused(422, "digest", "the question is not the one that was shown", "look at it again")
        chosen = next((offered for offered in card.answers if offered == answer), None)
        if chosen is None:
            raise Refused(422, "answer", f"that answer is not offered; {', '.join(card.answers)} are")
        early = self.now() - question.asked < FRICTION_PAUSE_S
        if card.hasty and chosen in ("once", "trust", "all") and (early or confirm != CONFIRM):
            raise Refused(
                422,
                "hasty",
                "this was approved often within a minute, so a yes takes a moment and a word",
                f'"confirm": "{CONFIRM}", no sooner than {FRICTION_PAUSE_S} s after the question',
            )
        return chosen

    def _settle(self, question: _Question, answer: Answer, how: How) -> _Settled:
        """End a question; what it showed is forgotten, as a yes is to all of it, secrets included."""
        card = question.card
        question.settled = settled = _Settled(answer=answer, how=how, at=_format(self.clock()))
        self._asked.pop(card.id, None)
        self._settled[card.id] = settled
        if len(self._settled) > _KEPT:
            del self._settled[next(iter(self._settled))]
        self.log.forget_question(card.id)
        self.log.add({"event": "approval_settled", "id": card.id, "answer": answer, "how": how, **_task_of(card)})
        self.log.lock.notify_all()
        self.note(f"{_classes(card)}: {answer} ({how})")
        return settled


def _over(settled: _Settled) -> Refused:
    if settled.how == "person":
        extra = {"answer": settled.answer, "at": settled.at}
        return Refused(409, "settled", f'the question was answered with "{settled.answer}" before', extra=extra)
    words = {"timeout": "nobody answered in time", "cancelled": "the turn was cancelled", "closed": "the session ended"}
    return Refused(410, settled.how, f"the question is over: {words[settled.how]}")


def _task_of(card: Card) -> dict[str, object]:
    """Return the field of the events of a sub-agent's question."""
    return {"task": card.origin.id} if card.origin else {}


def _boundary(facts: Mapping[str, object] | None) -> str:
    """Return where it would happen, as the terminal says it of several operations."""
    if facts is None:
        return HOST
    attached = facts["networks"]
    names = ", ".join(str(each["name"]) for each in attached) if isinstance(attached, list) else ""
    return f"sandbox network={facts['network']}" + (f", networks={names}" if names else "")


def _classes(card: Card) -> str:
    return ", ".join(dict.fromkeys(name for item in card.items for name in item.classes)) or "an operation"


def _format(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1000):03}Z"
