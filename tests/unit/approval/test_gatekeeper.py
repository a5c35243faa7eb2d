"""The gatekeeper of a session: classifier, person, and what the model is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from fakes.approver import Answers

from odek.approval.card import Answer, Card, Person, Unanswered
from odek.approval.gatekeeper import HOST, QUESTION_LIMIT, Friction, Gatekeeper, Surroundings, Trust
from odek.approval.operation import NO_GRANT, Basis, Operation
from odek.danger.paths import Place
from odek.danger.policy import HOST_TABLE, Action, Policy, PolicyContext, sandbox_table
from odek.errors import Cancelled
from odek.events import ApprovalAnswered, ApprovalRequested, Event, Sink, ignore

BRIDGE = "sandbox network=bridge, networks=backend"
ON_HOST = "\nIt would happen on the host, without a sandbox."
CURL, PUSH, MAKE, LS, WIPE, WEIRD, BOMB = (
    Operation(kind="command", subject=command, reason="why not")
    for command in ("curl https://a", "git push", "make", "ls", "rm -rf .", "weird --x", ":(){ :|:& };:")
)
HOOK = Operation(kind="write", subject=".git/hooks/pre-commit", change="#!/bin/sh\n")
SECRET = Operation(kind="read", subject=".env")


class Loader:
    """Gives a regime and counts how often it was asked for one."""

    def __init__(self, regime: PolicyContext) -> None:
        self.regime = regime
        self.loads = 0

    def __call__(self) -> PolicyContext:
        self.loads += 1
        return self.regime


def keeper(
    approver: Person | None = None,
    *,
    clock: Callable[[], float] | None = None,
    emit: Sink = ignore,
    sandboxed: bool = True,
    loads: list[Loader] | None = None,
    trusted: Trust | None = None,
    friction: Friction | None = None,
    **settings: object,
) -> Gatekeeper:
    """Return a gatekeeper whose person answers at once, and takes her time between two answers."""
    moments = iter(range(0, 100_000, 100))
    root = "/workspace" if sandboxed else "/home/user/project"
    policy = Policy(
        table=sandbox_table(internet=True) if sandboxed else HOST_TABLE,
        section="dangerous.sandboxed" if sandboxed else "dangerous",
        interactive=approver is not None,
        **settings,  # type: ignore[arg-type]
    )
    home = "/tmp" if sandboxed else "/home/user"
    load = Loader(PolicyContext(place=Place(home=home, cwd=root, workspace=root, sandboxed=sandboxed), policy=policy))
    if loads is not None:
        loads.append(load)
    return Gatekeeper(
        load=load,
        surroundings=Surroundings(
            place="sandbox odek-7-1, network=bridge" if sandboxed else HOST,
            boundary=BRIDGE if sandboxed else HOST,
            sandboxed=sandboxed,
            shared="in the shared folder" if sandboxed else "",
            real_path=lambda path: {"link": ".env"}.get(path, path),
        ),
        person=approver,
        clock=clock or (lambda: float(next(moments))),
        emit=emit,
        new_id=lambda: "a-1",
        trusted=trusted,
        friction=friction,
    )


def setting(name: str, *, sandboxed: bool = True) -> str:
    inner = f'{{"classes": {{"{name}": "allow"}}}}'
    whole = f'{{"sandboxed": {inner}}}' if sandboxed else inner
    return f'\nThe operator can allow it with "dangerous": {whole} in ~/.odek/config.json.'


def test_classifier_is_loaded_when_it_is_first_needed_and_once() -> None:
    """It takes a tenth of a second, and some runs use no tool."""
    loads: list[Loader] = []
    gate = keeper(loads=loads)
    assert gate.preapprove([[]]) == (NO_GRANT,)
    assert loads[0].loads == 0
    assert [gate.check(LS), gate.check(MAKE), gate.check(LS)] == [None] * 3
    assert loads[0].loads == 1


@pytest.mark.parametrize("operation", [LS, MAKE, WEIRD])
def test_daily_work_in_the_sandbox_needs_no_word(operation: Operation) -> None:
    """D-6: also where no person can be asked."""
    assert keeper().check(operation) is None
    assert keeper(Answers()).check(operation) is None


@pytest.mark.parametrize(
    ("operation", "refusal"),
    [
        (LS, None),
        (Operation(kind="command", subject="touch a"), None),
        (
            MAKE,
            "operation denied (non-interactive mode): make\n"
            "It is of class code_execution: runs code that is not looked at." + ON_HOST,
        ),
        (
            WEIRD,
            "operation denied by policy: weird --x\nIt is of class unknown: weird is not a known program." + ON_HOST,
        ),
    ],
)
def test_host_has_the_strict_table(operation: Operation, refusal: str | None) -> None:
    """R-84, runtime 5.1: what only reads or writes in the project is allowed; the rest names class and setting."""
    said = keeper(sandboxed=False).check(operation)
    if refusal is None:
        assert said is None
    else:
        name = "code_execution" if operation is MAKE else "unknown"
        assert said is not None
        head, _, tail = said.rpartition("\n")
        assert tail == setting(name, sandboxed=False).strip()
        assert head.split("\n")[0] == refusal.split("\n")[0]
        assert head.split("\n")[1].startswith(f"It is of class {name}: ")
        assert head.endswith(ON_HOST)


@pytest.mark.parametrize(
    ("answer", "refusal"),
    [
        ("a", None),
        ("n", "by user"),
        ("", "by user"),
        (None, "by user"),
    ],
)
def test_person_decides(answer: str | None, refusal: str | None) -> None:
    """R-64, D-6, runtime 5.6: place, class, reason and command are in the question."""
    approver = Answers(answer)
    expected = refusal and (
        f"operation denied {refusal}: curl https://a\nIt is of class network_egress: talks to the network."
        + setting("network_egress")
    )
    assert keeper(approver).check(CURL) == expected
    assert approver.prompts[0].split("\n")[:-1] == [
        "Approval needed (class network_egress)",
        "  runs on: sandbox odek-7-1, network=bridge",
        "  risk:    talks to the network",
        "  reason:  why not",
        "  command: 1 line, 14 characters",
        "  | curl https://a",
    ]


def test_nobody_to_ask_is_a_no_that_names_the_setting() -> None:
    """D-6: the headline case: a bridge, and no terminal."""
    assert keeper().check(CURL) == (
        "operation denied (non-interactive mode): curl https://a\nIt is of class network_egress: talks to the network."
        + setting("network_egress")
    )


@pytest.mark.parametrize(
    ("operation", "refused"), [(CURL, False), (SECRET, False), (HOOK, False), (WIPE, True), (BOMB, True)]
)
def test_non_interactive_allow_never_lifts_the_worst(operation: Operation, refused: bool) -> None:
    """F-96."""
    said = keeper(non_interactive="allow").check(operation)
    assert (said is not None) is refused
    if operation is WIPE:
        assert "\ndangerous.non_interactive does not cover that class.\n" in (said or "")


def test_nothing_lifts_what_is_blocked() -> None:
    """Runtime 5.2."""
    said = keeper(Answers(), action="allow", allowlist=(BOMB.subject,)).check(BOMB)
    assert said is not None
    assert said.startswith("operation denied by policy: :(){ :|:& };:\nIt is of class blocked: ")
    assert said.endswith("\nNo setting lifts that class.")


def test_denylist_says_which_entry() -> None:
    """Runtime 5.2."""
    said = keeper(Answers(), denylist=("git push",)).check(PUSH)
    assert (said or "").split("\n")[1:] == [
        'It is of class network_egress: matches the entry "git push" of dangerous.sandboxed.denylist.',
        'The operator can remove "git push" from dangerous.sandboxed.denylist in ~/.odek/config.json.',
    ]


def test_trust_holds_for_its_class_until_the_end() -> None:
    """Runtime 5.6, F-97: one gatekeeper a session."""
    approver = Answers("t", "n")
    gate = keeper(approver)
    assert [gate.check(CURL), gate.check(PUSH)] == [None, None]
    assert gate.preapprove([[CURL], [PUSH]]) == (NO_GRANT, NO_GRANT)
    assert gate.check(CURL) is None
    assert gate.check(WIPE) is not None
    approver.assert_all_used()


def test_trust_outlives_the_gatekeeper() -> None:
    """Runtime 5.6: until odek ends, not until the container does; nothing but what was trusted."""
    trusted = Trust()
    assert keeper(Answers("t"), trusted=trusted).check(CURL) is None
    later = keeper(Answers("n"), trusted=trusted)
    assert later.check(PUSH) is None
    assert later.check(WIPE) is not None
    assert keeper(Answers("n")).check(CURL) is not None


def test_trust_of_one_command_outlives_the_gatekeeper() -> None:
    """E7: a form that was trusted is trusted in the next conversation of the same place, and no other form is."""
    trusted = Trust()
    form = Operation(kind="command", subject="less -k x f")
    assert keeper(Answers("t"), sandboxed=False, trusted=trusted).check(form) is None
    assert trusted == Trust(commands={"less -k x f"})
    later = keeper(Answers("n"), sandboxed=False, trusted=trusted)
    assert later.check(form) is None
    assert later.check(Operation(kind="command", subject="less -k y f")) is not None


@pytest.mark.parametrize("operation", [WIPE, HOOK])
def test_trust_is_not_offered_for_the_worst_and_for_files_trusted_later(operation: Operation) -> None:
    """Runtime 5.6."""
    approver = Answers("a")
    assert keeper(approver).check(operation) is None
    assert "t" not in approver.choices[0]


def test_refusal_repeats_a_hostile_command_escaped_and_clipped() -> None:
    """R-64."""
    operation = Operation(kind="command", subject="x\x1b[2K\n" + "y" * 1000)
    said = keeper(sandboxed=False).check(operation)
    assert (said or "").split("\n")[0] == "operation denied by policy: x\\x1b[2K\\n" + "y" * 193 + "…"


def test_command_longer_than_anybody_reads_is_refused_and_not_asked() -> None:
    """B14, B34: three megabytes cannot be read before saying yes."""
    approver = Answers("n")
    gate = keeper(approver)
    gate.check(Operation(kind="command", subject="curl " + "x" * (QUESTION_LIMIT - 5)))
    approver.assert_all_used()
    said = gate.check(Operation(kind="command", subject="curl " + "x" * QUESTION_LIMIT))
    assert (said or "").startswith(
        "operation denied (longer than the 262144 characters that can be asked about): curl xxx"
    )


@pytest.mark.parametrize(
    ("operation", "action", "asks"),
    [
        (Operation(kind="write", subject="src/main.py", change="x"), None, False),
        (HOOK, None, True),
        (HOOK, "allow", False),
        (Operation(kind="write", subject="odek.json", change="x"), None, True),
        (Operation(kind="read", subject="src/main.py"), None, False),
        (SECRET, None, True),
        (Operation(kind="read", subject="link"), None, True),
    ],
)
@pytest.mark.parametrize("sandboxed", [True, False])
def test_files_go_through_the_same_policy(
    operation: Operation, action: Action | None, asks: bool, sandboxed: bool
) -> None:
    """D-6, runtime 5.4, F-62, B55: files that this machine trusts later, secrets, links to them."""
    approver = Answers("n") if asks else Answers()
    said = keeper(approver, sandboxed=sandboxed, action=action).check(operation)
    assert (said is not None) is asks
    approver.assert_all_used()
    if asks and operation.kind == "write":
        place = "sandbox odek-7-1, network=bridge, in the shared folder" if sandboxed else HOST
        assert f"\n  runs on: {place}\n" in approver.prompts[0]
        assert f"\n  | write {operation.subject}\n  | {operation.change.strip()}" in approver.prompts[0]


def test_refusal_of_a_file_names_its_class() -> None:
    """D-6."""
    assert keeper().check(HOOK) == (
        "operation denied (non-interactive mode): write .git/hooks/pre-commit\n"
        "It is of class persistence: writes .git/hooks/pre-commit, which the host reads or runs later."
        + setting("persistence")
    )


def test_what_is_forbidden_is_known_without_asking() -> None:
    approver = Answers()
    gate = keeper(approver, sandboxed=False)
    assert [gate.is_denied(operation) is not None for operation in (LS, MAKE, WEIRD)] == [False, False, True]
    assert keeper().is_denied(CURL) is not None


@pytest.mark.parametrize(
    ("answer", "allowed"),
    [("a", [True, True]), ("d", [False, False]), (None, [False, False])],
)
def test_card_answers_for_all_that_is_on_it(answer: str | None, allowed: list[bool]) -> None:
    """R-72, runtime 5.8: one question; calls that need none are not on it."""
    approver = Answers(answer)
    gate = keeper(approver)
    calls = [[LS], [CURL], [MAKE], [PUSH]]
    assert [gate.check(*call, grant) is None for call, grant in zip(calls, gate.preapprove(calls), strict=True)] == [
        True,
        allowed[0],
        True,
        allowed[1],
    ]
    assert len(approver.prompts) == 1
    assert approver.prompts[0].split("\n")[:-1] == [
        f"2 operations need approval ({BRIDGE})",
        "  1:       network_egress: talks to the network",
        "  reason:  why not",
        "  | curl https://a",
        "  2:       network_egress: talks to a remote repository",
        "  reason:  why not",
        "  | git push",
    ]
    if answer != "a":
        assert (gate.check(LS), (keeper(Answers("n")).check(CURL) or "").split("\n")[0]) == (
            None,
            "operation denied by user: curl https://a",
        )


def test_card_on_the_host_says_so() -> None:
    """R-72."""
    approver = Answers("a")
    keeper(approver, sandboxed=False).preapprove([[CURL], [MAKE]])
    assert approver.prompts[0].startswith("2 operations need approval (HOST – no sandbox)\n")


def test_one_by_one_asks_about_each() -> None:
    """Runtime 5.8."""
    approver = Answers("s", "a", "n")
    gate = keeper(approver)
    curl, push = gate.preapprove([[CURL], [PUSH]])
    assert [gate.check(CURL, curl) is None, gate.check(PUSH, push) is None] == [True, False]
    approver.assert_all_used()


def test_worst_classes_are_never_covered_by_a_card() -> None:
    """Runtime 5.8: they are asked about singly, whatever the card said."""
    approver = Answers("a", "n")
    gate = keeper(approver)
    calls = [[CURL], [WIPE], [PUSH], [SECRET], [HOOK]]
    grants = gate.preapprove(calls)
    assert approver.prompts[0].startswith("4 operations need approval")
    assert "rm -rf" not in approver.prompts[0]
    assert [gate.check(*call, grant) is None for call, grant in zip(calls, grants, strict=True)] == [
        True, False, True, True, True,
    ]  # fmt: skip
    approver.assert_all_used()


@pytest.mark.parametrize(
    "calls",
    [
        [[CURL]],
        [[CURL], [LS]],
        [[CURL], [WIPE]],
        [[CURL], [PUSH, BOMB]],
        [[CURL], [Operation(kind="command", subject="curl " + "x" * QUESTION_LIMIT)]],
    ],
)
def test_single_question_needs_no_card(calls: list[list[Operation]]) -> None:
    """Runtime 5.8; a call that is refused anyhow is not asked about."""
    approver = Answers()
    assert set(keeper(approver).preapprove(calls)) == {NO_GRANT}
    assert approver.prompts == []


def test_several_commands_of_one_call_are_asked_about_together() -> None:
    """R-72."""
    approver = Answers("a")
    gate = keeper(approver)
    (grant,) = gate.preapprove([[CURL, PUSH]])
    assert [gate.check(CURL, grant), gate.check(PUSH, grant)] == [None, None]


def test_nobody_to_ask_gets_no_card() -> None:
    gate = keeper()
    assert gate.preapprove([[CURL], [PUSH]]) == (NO_GRANT, NO_GRANT)
    assert gate.check(CURL) is not None


def test_grant_holds_for_what_was_on_the_card_and_for_its_own_call() -> None:
    """R-72: an answer belongs to the call that carries it; what was not on the card is asked about."""
    approver = Answers("a", "n", "n", "n")
    gate = keeper(approver)
    grants = gate.preapprove([[CURL], [PUSH], [LS]])
    assert [grant.operations for grant in grants] == [{CURL}, {PUSH}, set()]
    assert gate.check(CURL, grants[0]) is None
    assert gate.check(CURL, grants[1]) is not None
    assert gate.check(Operation(kind="command", subject="git push "), grants[1]) is not None
    assert gate.check(CURL) is not None
    approver.assert_all_used()


@pytest.mark.parametrize("operation", [BOMB, WEIRD])
def test_grant_lifts_no_refusal_of_the_policy(operation: Operation) -> None:
    """F-96: a forged or stale grant lets nothing through that the policy denies."""
    gate = keeper(Answers("a"), sandboxed=False)
    (granted, _) = gate.preapprove([[CURL], [MAKE]])
    forged = replace(granted, operations=frozenset((operation,)))
    assert gate.check(operation, forged) is not None


def test_grant_does_not_cover_what_a_card_may_not_ask_about() -> None:
    """Runtime 5.8: what has become destructive since the card was shown is asked about by itself."""
    approver = Answers("a", "n")
    gate = keeper(approver)
    (granted, _) = gate.preapprove([[CURL], [PUSH]])
    assert gate.check(WIPE, replace(granted, operations=frozenset((WIPE,)))) is not None
    approver.assert_all_used()


class Stubborn:
    """A person who gives an answer that was not offered, as a broken or hostile page might."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.cards: list[Card] = []

    def decide(self, card: Card) -> Answer:
        self.cards.append(card)
        return self.answer


@pytest.mark.parametrize("answer", ["all", "singly", "none", "yes", "", None])
def test_answer_that_was_not_offered_is_a_no(answer: Answer) -> None:
    """R-104: whoever answers, only an answer on the card counts."""
    assert keeper(Stubborn(answer)).check(CURL) is not None


def test_trust_that_was_not_offered_is_neither_remembered_nor_a_yes() -> None:
    """R-104, runtime 5.6: trust is limited here and not where the card is shown."""
    trusted = Trust()
    person = Stubborn("trust")
    gate = keeper(person, trusted=trusted)
    assert (gate.check(WIPE) is None, trusted, person.cards[0].answers) == (False, Trust(), ("once", "deny"))
    assert gate.preapprove([[CURL], [PUSH]])[0].allowed is False


def test_card_has_the_facts_and_raw_texts() -> None:
    """R-104: a value that any surface can show."""
    person = Stubborn("deny")
    operation = Operation(kind="command", subject="curl https://a\x1b[2J", reason="why\r")
    keeper(person).check(operation)
    (card,) = person.cards
    assert (card.place, card.hasty, card.answers, card.refusal) == (
        "sandbox odek-7-1, network=bridge", False, ("once", "trust", "deny"), "deny",
    )  # fmt: skip
    (item,) = card.items
    assert (item.operation, item.classes, item.trustable) == (operation, ("network_egress",), True)


class Clock:
    """Seconds that pass only when the test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_fourth_approval_of_a_class_within_a_minute_is_hasty() -> None:
    """F-95: three are quick, then haste is slowed down until the minute is over; trust is not offered then."""
    clock, person = Clock(), Stubborn("once")
    gate = keeper(person, clock=clock)
    for _ in range(3):
        clock.now += 10
        assert gate.check(CURL) is None
    assert gate.check(CURL) is None
    clock.now += 61
    assert gate.check(CURL) is None
    assert [card.hasty for card in person.cards] == [False, False, False, True, False]
    assert [("trust" in card.answers) for card in person.cards] == [True, True, True, False, True]


@pytest.mark.parametrize(
    ("approved", "classes", "hasty"),
    [
        ((("x",), ("y",), ("x", "y"), ("z",)), ("z", "x"), False),
        ((("x",), ("x", "y"), ("x",)), ("z", "x"), True),
        ((("x",), ("x",), ("x",)), ("y",), False),
    ],
)
def test_haste_is_counted_for_each_class(
    approved: tuple[tuple[str, ...], ...], classes: tuple[str, ...], hasty: bool
) -> None:
    """Runtime 5.6: three of the same class."""
    friction = Friction(Clock())
    for names in approved:
        friction.count(names)
    assert friction.applies(classes) is hasty


@pytest.mark.parametrize("answer", ["deny", "singly"])
def test_refusals_and_single_questions_are_no_haste(answer: Answer) -> None:
    person = Stubborn(answer)
    gate = keeper(person, clock=Clock())
    for _ in range(8):
        gate.check(CURL)
        gate.preapprove([[CURL], [PUSH]])
    assert not any(card.hasty for card in person.cards)


def test_card_counts_as_one_approval_of_each_class() -> None:
    """Runtime 5.8."""
    person = Stubborn("all")
    gate = keeper(person, clock=Clock())
    for _ in range(5):
        gate.preapprove([[CURL], [PUSH]])
    assert [card.hasty for card in person.cards] == [False, False, False, True, True]


def test_each_question_and_its_answer_are_events() -> None:
    """R-104: the card is JSON with the facts of the prompt; its digest binds the items and the place."""
    events: list[Event] = []
    gate = keeper(Stubborn("all"), emit=events.append)
    gate.preapprove([[CURL], [PUSH]])
    asked, answered = events
    assert isinstance(asked, ApprovalRequested)
    card = dict(asked.approval)
    first, second = card.pop("items")
    digest = card.pop("digest")
    assert card == {
        "id": "a-1", "kind": "card", "place": BRIDGE, "host": False, "from": None, "hasty": False,
        "answers": ["all", "singly", "none"],
    }  # fmt: skip
    assert {**first, "rule": "", "setting": ""} == {
        "n": 1, "kind": "command", "classes": ["network_egress"], "risk": "talks to the network", "reason": "why not",
        "rule": "", "setting": "", "lines": 1, "characters": 14, "text": "curl https://a", "trustable": True,
    }  # fmt: skip
    assert (second["n"], second["text"]) == (2, "git push")
    assert answered == ApprovalAnswered(id="a-1", answer="all")
    events.clear()
    keeper(Stubborn("all"), emit=events.append).preapprove([[CURL], [MAKE], [PUSH], [SECRET]])
    assert isinstance(events[0], ApprovalRequested)
    assert events[0].approval["digest"] != digest
    json.dumps(events[0].approval)


def test_question_that_is_cancelled_is_settled_as_a_refusal() -> None:
    """R-104: no question stays open in the stream of events."""

    class Leaving:
        def decide(self, card: Card) -> Answer:
            del card
            raise Cancelled

    events: list[Event] = []
    with pytest.raises(Cancelled):
        keeper(Leaving(), emit=events.append).check(CURL)
    assert events[1:] == [ApprovalAnswered(id="a-1", answer="deny", how="cancelled")]


def test_why_an_operation_was_allowed_is_known() -> None:
    gate = keeper(Answers("y", "t"))
    assert [gate.check(operation) for operation in (CURL, replace(CURL, reason="again"), PUSH)] == [None] * 3
    assert gate.basis(PUSH) == Basis(classes=("network_egress",), how="person, trusted")
    one = keeper(Answers("y"))
    assert one.check(CURL) is None
    assert one.basis(CURL) == Basis(classes=("network_egress",), how="person")
    assert one.basis(replace(CURL, reason="other words")) == one.basis(CURL)
    several = keeper(Answers("a"))
    grants = several.preapprove([[CURL], [PUSH]])
    assert several.check(PUSH, grants[1]) is None
    assert several.basis(PUSH) == Basis(classes=("network_egress",), how="person, with others")
    assert several.check(LS) is None
    assert several.basis(LS) == Basis(classes=("safe",), how="policy")
    denied = keeper(Answers("n"))
    assert denied.check(CURL) is not None
    assert denied.basis(CURL) is None


class Away:
    """A person who cannot be asked."""

    def decide(self, card: Card) -> Answer:
        del card
        raise Unanswered("nobody answered within 5 minutes")


def test_why_there_was_no_answer_is_in_the_refusal() -> None:
    """R-179: the model hears why, and with which setting it would go without a question (P-28)."""
    events: list[Event] = []
    refusal = keeper(Away(), emit=events.append).check(WIPE)
    assert refusal == (
        "operation denied (nobody answered within 5 minutes): rm -rf .\n"
        "It is of class destructive: deletes the tree at ., which is not just a part of the project."
        + setting("destructive")
    )
    assert [event for event in events if isinstance(event, ApprovalAnswered)] == [
        ApprovalAnswered(id="a-1", answer="deny", how="unanswered")
    ]


def test_a_card_without_an_answer_lets_nothing_happen() -> None:
    """R-134, R-179: and the model hears why, of each call; the next reply is another matter."""
    gate = keeper(Away())
    grants = gate.preapprove([[CURL], [PUSH]])
    assert [grant.allowed for grant in grants] == [False, False]
    for operation, grant in zip((CURL, PUSH), grants, strict=True):
        said = gate.check(operation, grant)
        assert said is not None
        assert said.startswith("operation denied (nobody answered within 5 minutes): ")


HERE = Operation(kind="call", subject='docs__search {"q": "x"}')
THERE = Operation(kind="call", subject='notes__add {"text": "x"}', on_host=True, setting="SETTING")


@pytest.mark.parametrize("sandboxed", [True, False])
def test_a_tool_of_a_server_on_this_host_asks_wherever_commands_run(sandboxed: bool) -> None:
    """R-200, P-35: the card says that it happens on the host, and offers no trust, whatever was trusted before."""
    trusted = Trust(classes={"unknown"})
    person = Answers("y", "n")
    gate = keeper(person, sandboxed=sandboxed, trusted=trusted, classes=(("unknown", "allow"),))
    assert gate.check(THERE) is None
    assert gate.check(THERE) == (
        'operation denied by user: notes__add {"text": "x"}\n'
        "It is of class unknown: runs a tool of an MCP server, whose author decides what it does, on this host."
        f"{ON_HOST}\nThe operator can allow it with SETTING."
    )
    assert all(HOST in prompt for prompt in person.prompts)
    assert all("t" not in choices for choices in person.choices)


@pytest.mark.parametrize("settings", [{}, {"non_interactive": "allow"}, {"classes": (("unknown", "allow"),)}])
def test_without_a_person_it_is_refused(settings: dict[str, object]) -> None:
    """R-200: only the operator's own `allow` for that tool lifts it."""
    gate = keeper(None, **settings)
    refusal = gate.check(THERE)
    assert refusal is not None
    assert refusal.startswith("operation denied (non-interactive mode): notes__add")
    assert gate.is_denied(THERE) == refusal
    assert gate.check(replace(THERE, allowed=True)) is None


def test_a_tool_of_a_server_in_the_sandbox_runs_as_what_is_unknown_there() -> None:
    """R-200, D-6: by the policy of the sandbox, which the operator can make stricter."""
    assert keeper(None).check(HERE) is None
    refusal = keeper(None, classes=(("unknown", "deny"),)).check(HERE)
    assert refusal is not None
    assert 'docs__search {"q": "x"}' in refusal
    person = Answers("n")
    assert keeper(person, classes=(("unknown", "prompt"),)).check(HERE) is not None
    assert 'docs__search {"q": "x"}' in person.prompts[0]


def test_cards_list_calls_of_one_place() -> None:
    """R-200: those on the host have a card of their own, so that no card names two places."""
    other = replace(THERE, subject="notes__list {}")
    person = Answers("y", "y")
    gate = keeper(person)
    curls = [[replace(CURL, subject=f"curl https://{name}")] for name in "ab"]
    grants = gate.preapprove([curls[0], [THERE], curls[1], [other]])
    assert [grant.allowed for grant in grants] == [True] * 4
    assert [HOST in prompt for prompt in person.prompts] == [False, True]
    assert ["notes__" in prompt for prompt in person.prompts] == [False, True]
    assert gate.check(THERE, grants[1]) is None
    assert gate.check(other, grants[3]) is None
    refused = keeper(Answers("n")).preapprove([[THERE], [other]])
    assert [(grant.allowed, len(grant.operations)) for grant in refused] == [(False, 1), (False, 1)]


def test_haste_is_of_the_person_not_of_one_gatekeeper() -> None:
    """R-84, P-41: what sub-agents ask counts together; trust does not."""
    person, clock = Stubborn("once"), Clock()
    parent = keeper(person, clock=clock)
    children = [keeper(person, clock=clock, friction=parent.friction) for _ in range(4)]
    for child in children:
        assert child.check(CURL) is None
    assert [card.hasty for card in person.cards] == [False, False, False, True]
    assert parent.check(CURL) is None
    assert person.cards[-1].hasty
