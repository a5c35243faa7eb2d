"""Which part of a conversation is sent. Every view in here is checked for calls without results."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from odek.agent.context_window import (
    UNTRIMMED,
    TrimState,
    estimate_tokens,
    trim_further,
    trim_to,
    trimmed,
    truncate_middle,
)
from odek.model.types import Message, ToolCall, ToolSpec

SYSTEM = Message(role="system", content="system")
TASK = Message(role="user", content="task")
TOOL = ToolSpec(name="t", description="d", parameters={"type": "object", "properties": {}})
NOTICE = (
    "\n\n[odek] {} of this conversation no longer fit and are left out here. What was done in them is done; look at "
    "the files again for what you need to know."
)


def user(text: str) -> Message:
    return Message(role="user", content=text)


def says(text: str) -> Message:
    return Message(role="assistant", content=text)


def step(name: str, *sizes: int) -> tuple[Message, ...]:
    """Return a call for each size and its result of so many characters."""
    calls = tuple(ToolCall(id=f"{name}{place}", name="t", arguments="{}") for place in range(len(sizes)))
    results = [
        Message(role="tool", content="x" * size, tool_call_id=call.id, name="t")
        for call, size in zip(calls, sizes, strict=True)
    ]
    return (Message(role="assistant", content=name, tool_calls=calls), *results)


def long_run(steps: int, size: int = 400) -> tuple[Message, ...]:
    return (SYSTEM, TASK, *(message for number in range(steps) for message in step(f"s{number}", size)))


def view(messages: Sequence[Message], cut: TrimState) -> tuple[Message, ...]:
    sent = trimmed(messages, cut)
    assert_paired(sent)
    return sent


def assert_paired(messages: Sequence[Message]) -> None:
    """B42: what a provider checks; system first, each call with its result, in order."""
    open_calls: list[str] = []
    for place, message in enumerate(messages):
        assert (message.role == "system") <= (place == 0)
        if message.role == "tool":
            assert open_calls.pop(0) == message.tool_call_id
        else:
            assert open_calls == []
            open_calls = [call.id for call in message.tool_calls]
    assert open_calls == []


def names(messages: Sequence[Message]) -> list[str]:
    return [message.content.partition("\n")[0] for message in messages if message.role != "tool"]


NO_WORDS = "[odek] (no reply)"


def test_everything_that_is_sent_is_counted() -> None:
    """F-52: reasoning, arguments, names, the tools and their schemas too."""
    call = ToolCall(id="i" * 4, name="n" * 8, arguments="a" * 12)
    message = Message(
        role="assistant",
        content="c" * 16,
        tool_calls=(call,),
        reasoning="r" * 20,
        reasoning_state="s" * 24,
        name="n" * 28,
        tool_call_id="t" * 32,
    )
    assert estimate_tokens((message,), ()) == 50 + 30 + 2 + 3 + 4 + 5 + 6 + 7 + 8
    schema = ToolSpec(name="n" * 4, description="d" * 8, parameters={"a": "b" * 6})
    assert estimate_tokens((), (schema,)) == 30 + 1 + 2 + 4


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("ä" * 4, 2), ("漢字", 2)])
def test_text_is_counted_by_its_bytes(text: str, tokens: int) -> None:
    assert estimate_tokens((user(text),), ()) == 50 + tokens


def test_what_fits_is_sent_whole() -> None:
    messages = long_run(5)
    assert trim_to(messages, (TOOL,), UNTRIMMED, estimate_tokens(messages, (TOOL,))) == UNTRIMMED
    assert view(messages, UNTRIMMED) == messages


def test_the_oldest_steps_go_and_the_pinned_messages_stay() -> None:
    """F-53, F-54, B42: system, first task, latest words of the user, the newest steps; one notice."""
    old, new = long_run(10), (user("and now?"), *step("n0", 400), *step("n1", 400))
    messages = (*old, *new)
    cut = trim_to(messages, (), UNTRIMMED, 1500)
    assert names(view(messages, cut)) == ["system", "task", "s9", NO_WORDS, "and now?", "n0", "n1"]
    assert view(messages, cut)[1] == user("task" + NOTICE.format("9 earlier steps"))
    assert estimate_tokens(view(messages, cut), ()) <= 1000


def test_trimming_leaves_room_and_moves_on_rarely() -> None:
    """What was sent stays the beginning of what is sent next, for the provider's cache."""
    messages: tuple[Message, ...] = long_run(3)
    cut, moves, budget = UNTRIMMED, 0, 3000
    for number in range(40):
        messages = (*messages, *step(f"m{number}", 400))
        moved = trim_to(messages, (), cut, budget)
        moves += moved != cut
        cut = moved
        assert estimate_tokens(view(messages, cut), ()) <= budget
        assert names(view(messages, cut))[1] == "task"
    assert moves <= 8


def test_there_is_one_notice_however_often_trimming_happens() -> None:
    """F-53"""
    messages = long_run(30)
    for budget in (5000, 3000, 1500):
        cut = trim_to(messages, (), UNTRIMMED, budget)
        texts = [message.content for message in view(messages, cut)]
        assert sum(text.count("[odek]") for text in texts if text != NO_WORDS) == 1
    later = trim_to(messages, (), trim_to(messages, (), UNTRIMMED, 3000), 1500)
    assert later == trim_to(messages, (), UNTRIMMED, 1500)


def test_earlier_words_of_the_user_may_go_when_there_are_newer_ones() -> None:
    messages = (SYSTEM, TASK, *step("a", 4000), user("second"), *step("b", 4000), user("third"), *step("c", 400))
    cut = trim_to(messages, (), UNTRIMMED, 600)
    assert names(view(messages, cut)) == ["system", "task", NO_WORDS, "third", "c"]


def test_what_odek_says_in_the_users_place_is_not_pinned() -> None:
    """The real task stays, although a remark of odek's came later."""
    remark = user("[odek] Your last reply reached the output limit.")
    messages = (SYSTEM, TASK, *step("a", 4000), user("second"), *step("b", 4000), remark, *step("c", 400))
    cut = trim_to(messages, (), UNTRIMMED, 600)
    assert names(view(messages, cut)) == ["system", "task", NO_WORDS, "second", "c"]


def test_a_single_huge_result_is_cut_with_a_mark() -> None:
    """B42 (1)"""
    messages = (SYSTEM, TASK, *step("old", 300), *step("big", 200_000))
    cut = trim_to(messages, (), UNTRIMMED, 10_000)
    assert cut == TrimState(result_characters=10_000)
    sent = view(messages, cut)
    assert names(sent) == ["system", "task", "old", "big"]
    assert sent[-1].content == "x" * 5000 + "\n[190000 characters left out]\n" + "x" * 5000


def test_many_huge_results_of_one_step_are_cut_until_they_fit() -> None:
    messages = (SYSTEM, TASK, *step("big", *[100_000] * 8))
    cut = trim_to(messages, (), UNTRIMMED, 10_000)
    assert estimate_tokens(view(messages, cut), ()) <= 10_000
    assert cut.result_characters is not None
    assert cut.result_characters >= 2000


def test_what_cannot_be_cut_is_sent_as_it_is() -> None:
    """The estimate is rough: whether the user's words are too long, the provider says."""
    messages = (SYSTEM, user("x" * 200_000), *step("a", 100), *step("b", 100))
    cut = trim_to(messages, (), UNTRIMMED, 1000)
    assert [len(message.content) for message in view(messages, cut)][:2] == [
        6,
        200_000 + len(NOTICE.format("1 earlier step")),
    ]
    assert trim_to(messages, (), cut, 1000) == cut


def test_overflow_drops_half_of_what_may_go() -> None:
    messages = long_run(9)
    kept = []
    cut: TrimState | None = UNTRIMMED
    for _ in range(4):
        assert cut is not None
        cut = trim_further(messages, cut)
        assert cut is not None
        kept.append(names(view(messages, cut))[2:])
    assert [len(names_) for names_ in kept] == [5, 3, 2, 1]
    assert kept[-1] == ["s8"]
    assert trim_further(messages, cut) is None


def test_overflow_by_one_result_cuts_that_result() -> None:
    """B42 (1): nothing else can go."""
    messages = (SYSTEM, TASK, *step("big", 100_000))
    limits = []
    cut: TrimState | None = UNTRIMMED
    while cut is not None:
        cut = trim_further(messages, cut)
        if cut is not None:
            limits.append(cut.result_characters)
            assert_paired(trimmed(messages, cut))
    assert limits == [50_000, 25_000, 12_500, 6250, 3125, 2000]


def test_overflow_with_a_huge_result_does_both() -> None:
    messages = (*long_run(4), *step("big", 100_000))
    cut = trim_further(messages, UNTRIMMED)
    assert cut is not None
    assert names(view(messages, cut)) == ["system", "task", "s2", "s3", "big"]
    assert cut.result_characters == 50_000


@pytest.mark.parametrize("messages", [(), (SYSTEM,), (SYSTEM, TASK), (TASK,), (SYSTEM, TASK, says("done"))])
def test_overflow_of_what_cannot_be_shortened(messages: tuple[Message, ...]) -> None:
    """B42 (3)"""
    assert trim_further(messages, UNTRIMMED) is None
    assert trim_to(messages, (), UNTRIMMED, 1) in (UNTRIMMED, TrimState(result_characters=2000))


def test_views_of_any_conversation_are_well_formed() -> None:
    """B42: whatever the order of things, no call without its result, nothing pinned is lost."""
    chance = random.Random(7)
    for _ in range(300):
        messages: list[Message] = [SYSTEM, TASK]
        for number in range(chance.randrange(12)):
            kind = chance.randrange(4)
            if kind == 0:
                messages.append(user(f"u{number}" + "y" * chance.randrange(2000)))
            elif kind == 1:
                messages.append(says(f"a{number}"))
            else:
                messages += step(f"s{number}", *(chance.randrange(9000) for _ in range(chance.randrange(1, 4))))
        cut: TrimState | None = UNTRIMMED
        for _ in range(3):
            assert cut is not None
            cut = (
                trim_to(messages, (), cut, chance.randrange(100, 6000))
                if chance.random() < 0.5
                else trim_further(messages, cut)
            )
            if cut is None:
                break
            sent = view(messages, cut)
            last = max(place for place, message in enumerate(messages) if message.role == "user")
            assert sent[0] == SYSTEM
            assert sent[1].content.startswith("task")
            assert any(message.content.startswith(messages[last].content) for message in sent)
            messages.extend(step("next", chance.randrange(3000)))


@pytest.mark.parametrize(
    ("text", "limit", "short"),
    [
        ("abcdef", 6, "abcdef"),
        ("abcdefg", 6, "abc\n[1 characters left out]\nefg"),
        ("abcdefgh", 5, "ab\n[3 characters left out]\nfgh"),
        ("abc", 1, "\n[2 characters left out]\nc"),
    ],
)
def test_shorten_keeps_both_ends(text: str, limit: int, short: str) -> None:
    assert truncate_middle(text, limit) == short


@pytest.mark.parametrize(
    ("roles", "sent"),
    [
        ("su", "su"),
        ("suau", "suau"),
        ("suu", "suAu"),
        ("suuu", "suAuAu"),
        ("suatu", "suatAu"),
        ("suattu", "suattAu"),
        ("suata", "suata"),
        ("u", "u"),
        ("uu", "uAu"),
        ("", ""),
    ],
)
def test_two_messages_of_the_user_never_follow_each_other(roles: str, sent: str) -> None:
    """A23: sessions that a killed process or another tool has left; a stand-in is put between."""
    names = {"s": "system", "u": "user", "a": "assistant", "t": "tool"}
    messages = [Message(role=names[letter], content=letter) for letter in roles]  # type: ignore[arg-type]
    view = trimmed(messages, UNTRIMMED)
    assert "".join("A" if message.content == NO_WORDS else message.content for message in view) == sent
    assert all(message.role == "assistant" for message in view if message.content == NO_WORDS)
