"""A question about operations as a value, and who decides on it (R-104).

The gatekeeper makes a `Card`; a `Person` shows it and answers: the terminal (`cli/approval_prompt.py`), later a page
or an MCP client. Neither knows more of the other. The texts on a card are raw; showing them safely, and only taking a
yes for what was shown whole, is the duty of who shows it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from odek.approval.operation import Operation

Answer = Literal["once", "trust", "deny", "all", "singly", "none"]

FRICTION_PAUSE_S = 1.5
"""how long a hasty card is kept back, so that a yes to it is not one more of a row"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingOperation:
    """An operation with the classifier's judgement."""

    operation: Operation
    classes: tuple[str, ...]
    """the classes that need the yes"""
    risk: str
    """what it may do, as a clause"""
    rule: str
    setting: str
    """the setting that would allow it without a question"""
    trustable: bool = False
    """whether one yes may hold for `classes` until odek ends"""
    exact: bool = False
    """whether that yes would be for this very command in this session alone"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CardOrigin:
    """The sub-agent that asks."""

    task: int
    """its number, from 1"""
    of: int
    goal: str
    id: str = ""
    """of the task, as its events have it"""
    facts: Mapping[str, object] | None = None
    """of its sandbox, as JSON values; None on the host"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """One question: about one operation, or about several of a turn at once."""

    id: str
    """unlike that of any other question of the process"""
    items: tuple[PendingOperation, ...]
    place: str
    """where it would happen: "sandbox odek-1-1, network=none"; of several: "sandbox network=none"; or the host"""
    answers: tuple[Answer, ...]
    """what may be answered, a yes first and the refusal last; anything else counts as the refusal"""
    hasty: bool = False
    """whether a class of it was approved so often lately that a yes takes FRICTION_PAUSE_S and a whole word"""
    host: bool = False
    """whether it would happen on the host, without a sandbox"""
    origin: CardOrigin | None = None
    """the sub-agent whose operations these are; None: the agent itself"""

    @property
    def refusal(self) -> Answer:
        """the answer that lets nothing happen"""
        return self.answers[-1]


def card_to_json(card: Card) -> dict[str, object]:
    """Return `card` as JSON values, with the SHA-256 of what a yes would be for; texts are raw."""
    items: list[dict[str, object]] = [
        {
            "n": number,
            "kind": item.operation.kind,
            "classes": list(item.classes),
            "risk": item.risk,
            "reason": item.operation.reason,
            "rule": item.rule,
            "setting": item.setting,
            "lines": item.operation.text.count("\n") + 1,
            "characters": len(item.operation.text),
            "text": item.operation.text,
            "trustable": item.trustable,
        }
        for number, item in enumerate(card.items, 1)
    ]
    asker = card.origin and {"task": card.origin.task, "of": card.origin.of, "goal": card.origin.goal}
    import hashlib  # loads OpenSSL, and only a page wants a card as JSON

    bound = json.dumps([card.place, card.host, items], sort_keys=True, separators=(",", ":"))
    return {
        "id": card.id,
        "kind": "card" if "singly" in card.answers else "operation",
        "place": card.place,
        "host": card.host,
        "from": asker,
        "hasty": card.hasty,
        "answers": list(card.answers),
        "items": items,
        "digest": hashlib.sha256(bound.encode()).hexdigest(),
    }


class Unanswered(Exception):
    """The person cannot be asked, or did not answer; the text says why, for the model. It counts as the refusal."""


class Person(Protocol):
    """Decides on operations of the model."""

    def decide(self, card: Card) -> Answer:
        """Return one of `card.answers`; no answer is the refusal. Waits; a cancel of the thread's work ends it.

        Raises Unanswered where the model is to hear why there was no answer.
        """
        ...
