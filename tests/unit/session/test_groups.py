"""Calls and results stay together."""

from __future__ import annotations

import pytest
from fakes.sessions import NOON_TEXT, calls, check_pairing, interrupted, result, said, user

from odek.model.types import Message, Usage
from odek.session.groups import history, keep_newest, pair_results, split_groups
from odek.session.transcript import Entry, Header, State, Transcript

HINT = Message(role="system", content="try something else")


def entries(*messages: Message) -> tuple[Entry, ...]:
    """Entries in which each message of the user begins a turn, unless it is a note of odek's."""
    return tuple(
        Entry(message=message, starts_turn=message.role == "user" and not message.content.startswith("[odek]"))
        for message in messages
    )


def transcript(*messages: Message) -> Transcript:
    state = State(updated_at=NOON_TEXT, turns=0, model="m", cwd="/", usage=Usage())
    header = Header(id="s", created_at=NOON_TEXT, task="", sandbox=True)
    return Transcript(header=header, state=state, system="old", entries=entries(*messages))


@pytest.mark.parametrize(
    ("stored", "paired"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param(
            [user("x"), calls("a"), result("a"), said("y")],
            [user("x"), calls("a"), result("a"), said("y")],
            id="whole",
        ),
        pytest.param([calls("a", "b")], [calls("a", "b"), interrupted("a"), interrupted("b")], id="no result"),
        pytest.param(
            [calls("a", "b"), result("a"), user("go on")],
            [calls("a", "b"), result("a"), interrupted("b"), user("go on")],
            id="one missing in the middle",
        ),
        pytest.param(
            [calls("a", "b", "c"), result("c", "3"), result("a", "1")],
            [calls("a", "b", "c"), result("a", "1"), interrupted("b"), result("c", "3")],
            id="out of order",
        ),
        pytest.param([result("a"), user("x"), result("b")], [user("x")], id="without a call"),
        pytest.param([calls("a"), result("z"), result("a")], [calls("a"), result("a")], id="foreign id"),
        pytest.param([calls("a"), result("a", "1"), result("a", "2")], [calls("a"), result("a", "1")], id="twice"),
        pytest.param(
            [calls("0"), result("0", "1"), calls("0"), result("0", "2")],
            [calls("0"), result("0", "1"), calls("0"), result("0", "2")],
            id="an id used again later",
        ),
        pytest.param(
            [calls("0", "0"), result("0", "1"), result("0", "2")],
            [calls("0", "0"), result("0", "1"), result("0", "2")],
            id="one id for two calls",
        ),
        pytest.param(
            [calls("a", "b"), result("a"), HINT, result("b")],
            [calls("a", "b"), result("a"), result("b"), HINT],
            id="a note between results",
        ),
    ],
)
def test_each_call_has_one_result(stored: list[Message], paired: list[Message]) -> None:
    """B44: whatever was interrupted or mixed up, a provider accepts what is sent."""
    fixed = pair_results(entries(*stored))
    assert [entry.message for entry in fixed] == paired
    assert pair_results(fixed) == fixed
    check_pairing([message for message in paired if message.role != "system"])


def test_conversation_goes_on_under_a_fresh_system_message() -> None:
    """R-2, F-98: foreign system messages are not sent again."""
    stored = transcript(user("x"), calls("a"), result("a"), HINT, said("y"), calls("b"))
    rest = (user("x"), calls("a"), result("a"), said("y"), calls("b"), interrupted("b"))
    assert history(stored) == rest


def test_groups_are_calls_with_their_results_and_single_messages() -> None:
    made = entries(result("z"), user("x"), calls("a", "b"), result("a"), result("b"), said("y"))
    assert split_groups(made) == (made[:1], made[1:2], made[2:5], made[5:])


LONG = (
    user("one"),
    calls("a"),
    result("a"),
    said("1"),
    user("two"),
    calls("b", "c"),
    result("b"),
    result("c"),
    user("[odek] too long"),
    calls("d"),
    result("d"),
    said("2"),
)


@pytest.mark.parametrize(
    ("budget", "kept"),
    [
        (0, (4, 11)),
        (1, (4, 11)),
        (2, (4, 11)),
        (3, (4, 11)),
        (4, (4, 9, 10, 11)),
        (5, (4, 8, 9, 10, 11)),
        (7, (4, 8, 9, 10, 11)),
        (8, (4, 5, 6, 7, 8, 9, 10, 11)),
        (9, (4, 5, 6, 7, 8, 9, 10, 11)),
        (10, (0, 3, 4, 5, 6, 7, 8, 9, 10, 11)),
        (12, tuple(range(12))),
        (99, tuple(range(12))),
    ],
)
def test_newest_groups_are_kept_whole_and_under_their_task(budget: int, kept: tuple[int, ...]) -> None:
    """F-36: no result without its call; the first message is one of the user."""
    made = entries(*LONG)
    assert keep_newest(made, budget=budget, cost=lambda _: 1) == tuple(made[index] for index in kept)


def test_cost_is_counted_and_not_the_number() -> None:
    made = entries(user("x"), said("a" * 50), said("b" * 10), said("c"))
    assert keep_newest(made, budget=20, cost=lambda entry: len(entry.message.content)) == (made[0], *made[2:])


def test_nothing_to_keep() -> None:
    assert keep_newest((), budget=5, cost=lambda _: 1) == ()


def test_conversation_without_a_user_is_kept_as_it_is() -> None:
    made = entries(said("a"), said("b"))
    assert keep_newest(made, budget=1, cost=lambda _: 1) == made[1:]
