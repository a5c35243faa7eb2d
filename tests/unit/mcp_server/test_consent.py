"""Forms: who is asked, what counts as a yes, and the states that travel with questions of the modern era."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from odek.approval.card import Answer, Card, PendingOperation, Unanswered
from odek.approval.operation import Operation
from odek.mcp.messages import Response, RpcError
from odek.mcp_server.consent import (
    Approval,
    ApprovalStates,
    FormAsked,
    LegacyUser,
    ModernUser,
    form_text,
    is_yes,
    may_ask,
    read_answer,
)
from odek.mcp_server.server import ToolCall

CALL = ToolCall(name="shell", arguments={"command": "rm -rf ."}, forms=True, modern=True, state="", answers={})
YES = {"action": "accept", "content": {"decision": "allow once"}}
NO = {"action": "accept", "content": {"decision": "deny"}}
ITEM = PendingOperation(
    operation=Operation(kind="command", subject="rm -rf .", reason="clean up"),
    classes=("destructive",),
    risk="deletes the tree",
    rule="rm",
    setting="dangerous",
)
CARD = Card(id="a-1", items=(ITEM,), place="sandbox odek-1-1, network=none", answers=("once", "trust", "deny"))


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def states(clock: Clock | None = None) -> ApprovalStates:
    return ApprovalStates(clock=clock or Clock())


def asked(of: ApprovalStates, call: ToolCall = CALL, before: Approval | None = None, digest: str = "d1") -> str:
    question = of.question(call, before or Approval(), FormAsked(digest, "may it?"))
    assert question["resultType"] == "input_required"
    assert question["inputRequests"]["approval"]["params"]["message"] == "may it?"
    return str(question["requestState"])


def answered(state: str, answer: Any = YES, call: ToolCall = CALL) -> ToolCall:
    return replace(call, state=state, answers={"approval": answer})


def test_a_state_carries_what_was_answered() -> None:
    """R-179: of several operations each is asked about by itself, and what was allowed stays allowed."""
    of = states()
    first = of.resume(answered(asked(of)))
    assert first == Approval(granted=frozenset(), asked="d1", answer=YES)
    second = of.resume(answered(asked(of, before=first, digest="d2")))
    assert second == Approval(granted=frozenset({"d1"}), asked="d2", answer=YES)
    denied = of.resume(answered(asked(of), NO))
    third = of.resume(answered(asked(of, before=denied, digest="d3")))
    assert third.granted == frozenset()


def test_a_state_counts_once_for_its_call_and_for_ten_minutes() -> None:
    """R-179, W-32"""
    clock = Clock()
    of = states(clock)
    state = asked(of)
    with pytest.raises(ValueError, match="of another call"):
        of.resume(answered(state, call=replace(CALL, arguments={"command": "rm -rf /"})))
    with pytest.raises(ValueError, match="of another call"):
        of.resume(answered(state, call=replace(CALL, name="patch")))
    of.resume(answered(state))
    with pytest.raises(ValueError, match="used before"):
        of.resume(answered(state))
    late = asked(of)
    clock.now += 599
    fresh = asked(of)
    of.resume(answered(late))
    clock.now += 2
    with pytest.raises(ValueError, match="nobody answered within 10 minutes"):
        of.resume(answered(late))
    of.resume(answered(fresh))
    clock.now += 10_000
    of.resume(answered(asked(of)))
    assert len(of._used) == 1  # what is over is forgotten


def test_a_state_of_somebody_else_does_not_count() -> None:
    """R-179, W-32: another process has another key; a changed byte anywhere is seen."""
    of = states()
    state = asked(of)
    others = [asked(states()), "", ".", "a.b", "é.é", state + "0", state[1:], state.upper(), state.replace(".", "..")]
    body, _, signature = state.rpartition(".")
    others += [f"{body[:10]}{'A' if body[10] != 'A' else 'B'}{body[11:]}.{signature}", f"{body}.{'0' * 64}", body]
    for forged in others[:1] + others[2:]:
        with pytest.raises(ValueError, match="not one of this server"):
            of.resume(answered(forged))
    assert of.resume(answered("")) == Approval()  # without a state it is a first call: asked again
    of.resume(answered(state))


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {},
        NO,
        {"action": "decline"},
        {"action": "decline", "content": {"decision": "allow once"}},
        {"action": "cancel", "content": {"decision": "allow once"}},
        {"action": "accept"},
        {"action": "accept", "content": None},
        {"action": "accept", "content": {}},
        {"action": "accept", "content": {"decision": True}},
        {"action": "accept", "content": {"decision": ["allow once"]}},
        {"action": "accept", "content": {"decision": "allow"}},
        {"action": "accept", "content": {"decision": "Allow once"}},
        {"action": "accept", "content": {"decision": "allow once", "more": 1}},
        {"action": ["accept"], "content": {"decision": "allow once"}},
        {"content": {"decision": "allow once"}},
    ],
)
def test_anything_but_a_clear_yes_is_a_no(answer: Any) -> None:
    """R-179"""
    assert not is_yes(answer)
    if answer == NO:
        assert read_answer(CARD, answer) == "deny"
    else:
        with pytest.raises(Unanswered):
            read_answer(CARD, answer)
    assert is_yes(YES)
    assert read_answer(CARD, YES) == "once"  # never trust


def test_a_modern_user_is_asked_once_about_each_card() -> None:
    with pytest.raises(FormAsked) as question:
        ModernUser(Approval(), str).decide(CARD)
    digest = question.value.digest
    assert "rm -rf ." in question.value.text
    assert ModernUser(Approval(asked=digest, answer=YES), str).decide(CARD) == "once"
    assert ModernUser(Approval(granted=frozenset({digest})), str).decide(CARD) == "once"
    changed = replace(CARD, place="sandbox odek-1-2, network=bridge")
    with pytest.raises(FormAsked):
        ModernUser(Approval(granted=frozenset({digest}), asked=digest, answer=YES), str).decide(changed)


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (None, "nobody answered within 5 minutes"),
        (Response(id="odek-1", error=RpcError(-1, "no\x1b[2J")), "the client could not ask: no\\x1b[2J"),
        (Response(id="odek-1", result={"action": "decline"}), "the client, or its user, declined"),
        (Response(id="odek-1", result={"action": "cancel"}), "the question was dismissed"),
        (Response(id="odek-1", result={}), "the client gave no valid answer"),
    ],
)
def test_why_a_legacy_user_did_not_say_yes(response: Response | None, words: str) -> None:
    """R-179, P-27, P-28"""
    with pytest.raises(Unanswered) as reason:
        LegacyUser(lambda *_: response, str).decide(CARD)
    assert str(reason.value) == words


def test_a_legacy_user_gets_one_field_without_a_default() -> None:
    """R-179: deny or allow once; what several operations need is asked singly."""
    sent: list[Any] = []

    def ask(*question: Any) -> Response:
        sent.append(question)
        return Response(id="odek-1", result=YES)

    user = LegacyUser(ask, lambda text: text.replace("clean up", "[masked]"))
    assert user.decide(CARD) == "once"
    ((method, params, seconds),) = sent
    assert (method, seconds) == ("elicitation/create", 300.0)
    (name,) = params["requestedSchema"]["properties"]
    assert params["requestedSchema"]["properties"][name]["enum"] == ["deny", "allow once"]
    assert "default" not in params["requestedSchema"]["properties"][name]
    assert "[masked]" in params["message"]
    answers: tuple[Answer, ...] = ("all", "singly", "none")
    assert user.decide(replace(CARD, items=(ITEM, ITEM), answers=answers)) == "singly"


def test_a_text_that_cannot_be_read_in_a_form_is_refused() -> None:
    """R-179: 2000 characters; invisible ones are shown."""
    shown = form_text(
        replace(CARD, items=(replace(ITEM, operation=Operation(kind="command", subject="a\u202eb")),)), str
    )
    assert "a\\u202eb" in shown
    long = replace(ITEM, operation=Operation(kind="command", subject="echo " + "x" * 2000))
    with pytest.raises(Unanswered, match="longer than the 2000 characters"):
        form_text(replace(CARD, items=(long,)), str)


@pytest.mark.parametrize(
    ("forms", "sandboxed", "setting", "asks"),
    [
        (True, True, None, True),
        (True, True, True, True),
        (True, True, False, False),
        (True, False, None, False),
        (True, False, True, True),
        (True, False, False, False),
        *((False, sandboxed, setting, False) for sandboxed in (True, False) for setting in (None, True, False)),
    ],
)
def test_who_is_asked(forms: bool, sandboxed: bool, setting: bool | None, asks: bool) -> None:
    """R-179: on the host only when the operator said so; a client may answer for its user."""
    assert may_ask(forms=forms, sandboxed=sandboxed, setting=setting) is asks
