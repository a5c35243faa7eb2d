"""Questions in a page: what a card shows, and which answers count."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import pytest

from odek.approval.card import FRICTION_PAUSE_S, Card, CardOrigin, PendingOperation, Unanswered
from odek.approval.gatekeeper import HOST
from odek.approval.operation import Operation
from odek.cancel import CancelToken, use_token
from odek.errors import Cancelled
from odek.web.cards import _KEPT, Cards
from odek.web.errors import Refused
from odek.web.log import EventLog

FACTS = {
    "container": "odek-1-1", "image": "i", "network": "bridge+attached", "internet": True, "readonly": False,
    "networks": [{"name": "app_default", "internal": False}],
}  # fmt: skip
PLACE = "sandbox odek-1-1, network=bridge+attached, networks=app_default"


def pending(text: str = "curl x", *, classes: tuple[str, ...] = ("network_egress",)) -> PendingOperation:
    operation = Operation(kind="command", subject=text, reason="fetch")
    return PendingOperation(operation=operation, classes=classes, risk="r", rule="u", setting="s", trustable=True)


SINGLE = Card(id="a-1", items=(pending(),), place=PLACE, answers=("once", "trust", "deny"))
BATCH = Card(
    id="a-2", items=(pending("a"), pending("b", classes=("system_write",))), place=PLACE,
    answers=("all", "singly", "none"),
)  # fmt: skip


@dataclass
class Desk:
    """Asks in a thread of its own, as a turn does."""

    facts: dict[str, Any] | None = field(default_factory=lambda: dict(FACTS))
    seconds: float = 1000.0
    limit_s: float = 3600.0
    notes: list[str] = field(default_factory=list)
    outcome: list[object] = field(default_factory=list)

    def __post_init__(self) -> None:
        epochs = itertools.count(1)
        self.log = EventLog(lambda size: f"{next(epochs):0{2 * size}x}")
        self.cards = Cards(
            log=self.log, limit_s=self.limit_s, facts=lambda: self.facts, clock=lambda: 1_800_000_000.25,
            now=lambda: self.seconds, note=self.notes.append,
        )  # fmt: skip
        self.reader = self.log.subscribe(None)

    @contextmanager
    def asking(self, card: Card, token: CancelToken | None = None) -> Iterator[dict[str, Any]]:
        """Ask within the block; the value is what a page is shown."""

        def ask() -> None:
            with use_token(token or CancelToken()):
                try:
                    self.outcome.append(self.cards.decide(card))
                except (Cancelled, Unanswered) as error:
                    self.outcome.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        while not (shown := [each for each in self._open() if each["id"] == card.id]):
            pass
        yield shown[0]
        thread.join(30)
        assert not thread.is_alive()

    def _open(self) -> list[Any]:
        with self.log.lock:
            return list(self.cards.open)

    def events(self) -> list[Any]:
        return [event.data for event in self.reader.next(0) or [] if event.id]


def refusal(call: Callable[[], object]) -> Refused:
    with pytest.raises(Refused) as caught:
        call()
    return caught.value


def test_card_has_the_facts_of_the_terminals_and_of_its_place() -> None:
    """W-16, R-133: place, boundary, networks, texts as they are, who asks, until when; the digest binds them."""
    desk = Desk()
    card = replace(BATCH, origin=CardOrigin(task=2, of=3, goal="look", id="c1/2", facts=FACTS))
    with desk.asking(card) as shown:
        desk.cards.answer("a-2", "none", shown["digest"], None)
    assert desk.outcome == ["none"]
    assert {key: value for key, value in shown.items() if key not in ("items", "digest")} == {
        "id": "a-2", "kind": "card", "place": PLACE, "host": False,
        "boundary": "sandbox network=bridge+attached, networks=app_default", "sandbox": FACTS,
        "from": {"task": 2, "of": 3, "goal": "look"}, "hasty": False, "answers": ["all", "singly", "none"],
        "asked_at": "2027-01-15T08:00:00.250Z", "ends_at": "2027-01-15T09:00:00.250Z",
    }  # fmt: skip
    assert [item["text"] for item in shown["items"]] == ["a", "b"]
    asked, settled = desk.events()
    assert asked == {"event": "approval_asked", "approval": shown, "task": "c1/2"}
    assert settled == {"event": "approval_settled", "id": "a-2", "answer": "none", "how": "person", "task": "c1/2"}
    assert desk.notes == ["asks about network_egress, system_write", "network_egress, system_write: none (person)"]


def test_two_questions_at_once_one_of_a_sub_agent() -> None:
    """W-22, P-42, R-226: both can be answered, in any order; the second names its task, and its own sandbox."""
    desk = Desk()
    own = {**FACTS, "container": "odek-1-7", "network": "none", "networks": []}
    second = replace(BATCH, origin=CardOrigin(task=2, of=3, goal="look", id="c1/2", facts=own))
    with desk.asking(SINGLE) as first, desk.asking(second) as other:
        assert (first["from"], first["sandbox"]) == (None, FACTS)
        assert (other["from"], other["sandbox"]) == ({"task": 2, "of": 3, "goal": "look"}, own)
        assert other["boundary"] == "sandbox network=none"
        desk.cards.answer("a-2", "all", other["digest"], None)
        desk.cards.answer("a-1", "deny", first["digest"], None)
    assert sorted(map(str, desk.outcome)) == ["all", "deny"]


def test_card_of_the_host_says_so() -> None:
    """R-133: there is no sandbox, in so many words."""
    for facts in (None, FACTS):  # a server of this machine's, in a session that has a sandbox
        desk = Desk(facts=facts)
        with desk.asking(replace(SINGLE, host=True, place=HOST)) as shown:
            desk.cards.answer("a-1", "deny", shown["digest"], None)
        assert (shown["boundary"], shown["sandbox"], shown["host"]) == (HOST, None, True)


@pytest.mark.parametrize(
    ("answer", "digest", "status", "code"),
    [
        ("once", "0" * 64, 422, "digest"),
        ("once", "", 422, "digest"),
        ("once", None, 422, "digest"),
        ("once", [], 422, "digest"),
        ("all", "right", 422, "answer"),
        ("none", "right", 422, "answer"),
        ("", "right", 422, "answer"),
        ("ONCE", "right", 422, "answer"),
        ("unanswered", "right", 422, "answer"),
        (None, "right", 422, "answer"),
        (["once"], "right", 422, "answer"),
        (True, "right", 422, "answer"),
    ],
)
def test_answer_that_does_not_fit_changes_nothing(answer: object, digest: object, status: int, code: str) -> None:
    """W-16, R-134: a stale digest, an answer that is not offered, and what is not an answer at all."""
    desk = Desk()
    with desk.asking(SINGLE) as shown:
        given = shown["digest"] if digest == "right" else digest
        found = refusal(lambda: desk.cards.answer("a-1", answer, given, "approve"))
        assert (found.status, found.code) == (status, code)
        assert desk._open() == [shown], "the question still waits"
        desk.cards.answer("a-1", "once", shown["digest"], None)
    assert desk.outcome == ["once"]


def test_trust_that_is_not_offered_is_refused() -> None:
    """W-16, R-134."""
    desk = Desk()
    with desk.asking(replace(SINGLE, answers=("once", "deny"))) as shown:
        assert refusal(lambda: desk.cards.answer("a-1", "trust", shown["digest"], None)).code == "answer"
        desk.cards.answer("a-1", "deny", shown["digest"], None)
    assert desk.outcome == ["deny"]


def test_second_answer_hears_which_one_counted() -> None:
    """W-16, R-134, P-14: 409 with the answer and its time; the first is what happens."""
    desk = Desk()
    with desk.asking(SINGLE) as shown:
        first = desk.cards.answer("a-1", "once", shown["digest"], None)
        found = refusal(lambda: desk.cards.answer("a-1", "deny", shown["digest"], None))
    assert (found.status, found.code, dict(found.extra)) == (409, "settled", first)
    assert desk.outcome == ["once"]


def test_of_a_settled_question_nothing_stays_but_its_answer() -> None:
    """R-361: a card shows texts as they are, secrets included; neither the cards nor the log keep them."""
    desk = Desk()
    for number in range(_KEPT + 5):
        card = replace(SINGLE, id=f"a-{number}", items=(pending("echo hunter2-Zq81"),))
        with desk.asking(card) as shown:
            desk.cards.answer(card.id, "once", shown["digest"], None)
    assert len(desk.cards._settled) == _KEPT
    assert "hunter2" not in repr((desk.cards, desk.log._held))
    again = desk.log.subscribe("00000001.0").next(0)
    assert {event.kind for event in again or ()} == {"hello", "approval_settled"}


def test_of_twenty_answers_at_once_one_counts() -> None:
    """W-16, R-134: settling is atomic."""
    desk, results = Desk(), list[object]()
    barrier = threading.Barrier(20)

    def answer(chosen: str, digest: str) -> None:
        barrier.wait(30)
        try:
            results.append(desk.cards.answer("a-1", chosen, digest, None)["answer"])
        except Refused as refused:
            results.append((refused.code, refused.extra["answer"]))

    with desk.asking(SINGLE) as shown:
        threads = [
            threading.Thread(target=answer, args=(("once", "trust", "deny")[number % 3], shown["digest"]))
            for number in range(20)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    (counted,) = [result for result in results if isinstance(result, str)]
    assert desk.outcome == [counted]
    assert [result for result in results if result != counted] == [("settled", counted)] * 19
    assert [event["event"] for event in desk.events()] == ["approval_asked", "approval_settled"]


@pytest.mark.parametrize("answer", ["once", "trust"])
def test_hasty_yes_takes_a_word_and_a_moment(answer: str) -> None:
    """W-16, R-134: by the server's clock; a no is taken at once."""
    desk = Desk()
    card = replace(SINGLE, hasty=True)
    with desk.asking(card) as shown:
        desk.seconds += FRICTION_PAUSE_S - 0.01
        assert refusal(lambda: desk.cards.answer("a-1", answer, shown["digest"], "approve")).code == "hasty"
        desk.seconds += 0.01
        for word in (None, "", "yes", "APPROVE", "approve ", True):
            said = partial(desk.cards.answer, "a-1", answer, shown["digest"], word)
            assert refusal(said).code == "hasty"
        desk.cards.answer("a-1", answer, shown["digest"], "approve")
    assert desk.outcome == [answer]
    with desk.asking(replace(card, id="a-9")) as shown:
        desk.cards.answer("a-9", "deny", shown["digest"], None)
    assert desk.outcome == [answer, "deny"]


def test_hasty_batch_may_be_looked_at_one_by_one() -> None:
    """R-134: that is not a yes."""
    desk = Desk()
    with desk.asking(replace(BATCH, hasty=True)) as shown:
        assert refusal(lambda: desk.cards.answer("a-2", "all", shown["digest"], None)).code == "hasty"
        desk.cards.answer("a-2", "singly", shown["digest"], None)
    assert desk.outcome == ["singly"]


def test_no_answer_in_time_is_a_no_and_the_model_hears_why() -> None:
    """R-134: nobody answered."""
    desk = Desk(limit_s=60)
    with desk.asking(SINGLE) as shown:
        desk.seconds += 61
    assert [str(error) for error in desk.outcome] == ["nobody answered in time"]
    assert isinstance(desk.outcome[0], Unanswered)
    found = refusal(lambda: desk.cards.answer("a-1", "once", shown["digest"], None))
    assert (found.status, found.code) == (410, "timeout")
    assert desk.events()[-1] == {"event": "approval_settled", "id": "a-1", "answer": "deny", "how": "timeout"}


@pytest.mark.parametrize("how", ["cancelled", "closed"])
def test_cancel_and_end_settle_all_that_is_asked(how: Any) -> None:
    """W-16, R-134: an answer after it is too late."""
    desk, token = Desk(), CancelToken()
    with desk.asking(SINGLE, token) as shown, desk.asking(BATCH):
        if how == "cancelled":
            token.cancel()
        desk.cards.settle_all(how)
    assert sorted(map(type, desk.outcome), key=repr) == ([Cancelled, str] if how == "cancelled" else [str, str])
    found = refusal(lambda: desk.cards.answer("a-1", "once", shown["digest"], None))
    assert (found.status, found.code) == (410, how)
    assert {(event["answer"], event["how"]) for event in desk.events() if event["event"] == "approval_settled"} == {
        ("deny", how), ("none", how),
    }  # fmt: skip


def test_cancel_of_the_turn_alone_settles_its_question() -> None:
    """R-134: a signal, a time limit or a parallel call that failed; the page must not wait for it."""
    desk, token = Desk(), CancelToken()
    with desk.asking(SINGLE, token):
        token.cancel()
    assert isinstance(desk.outcome[0], Cancelled)
    assert desk.events()[-1]["how"] == "cancelled"


def test_questions_of_one_session_wait_side_by_side_in_their_order() -> None:
    """R-133, P-13: a second question hides no first one; each is answered by its id."""
    desk = Desk()
    with desk.asking(SINGLE) as one, desk.asking(BATCH) as two:
        assert [shown["id"] for shown in desk._open()] == ["a-1", "a-2"]
        desk.cards.answer("a-2", "all", two["digest"], None)
        assert [shown["id"] for shown in desk._open()] == ["a-1"]
        desk.cards.answer("a-1", "deny", one["digest"], None)
    assert sorted(map(str, desk.outcome)) == ["all", "deny"]


def test_answer_to_what_was_never_asked() -> None:
    """R-134."""
    found = refusal(lambda: Desk().cards.answer("a-7", "once", "0" * 64, None))
    assert (found.status, found.code) == (404, "unknown")
