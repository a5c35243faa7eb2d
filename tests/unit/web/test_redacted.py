"""What a page sees of live events: no secret, in whatever pieces it was written."""

from __future__ import annotations

import random

import pytest

from odek.events import ModelReplied, TextDelta, ThinkingDelta, ToolStarted, TurnStarted, to_json
from odek.model.types import Message, Reply, ToolCall, Usage
from odek.redact import MARK, Redactor
from odek.web.redacted import RedactedEvents, RedactedPieces

SECRET = "hunter2-Zq81-xx"
PHRASE = "correct horse\tbattery stäple"
KEY = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEA7bq/+8\n" * 4 + "-----END RSA PRIVATE KEY-----"
KNOWN = Redactor((SECRET, PHRASE, "password"))
WRITTEN = (
    SECRET,
    PHRASE,
    KEY,
    f"export T={SECRET[::-1]} ",
    "sk-abcdefghij0123456789 ",
    "(ghp_abcdefghij0123456789abcdefghij)",
    "日本語sk-abcdefghij0123456789日本語",
    "postgres://ödek:pässwörd@db/x",
    "Authorization: Bearer   abcdefghij0123456789.x",
    'api_key = "abcdefgh12345678ij"',
    '"client_secret" : abcdefgh12345678ij',
    "passwd:\tabcdefgh12345678ij",
    "PASSWORD=password",
    'x: "password"',
)
CORES = (
    *(SECRET, SECRET[::-1], PHRASE, "MIIEpAIBAAKCAQEA7bq/+8\n", "sk-abcdefghij0123456789", "pässwörd"),
    *("ghp_abcdefghij0123456789abcdefghij", "abcdefghij0123456789.x", "abcdefgh12345678ij", "=password"),
)


def pieces_of(text: str, chance: random.Random) -> list[str]:
    cuts = sorted({chance.randrange(len(text) + 1) for _ in range(chance.choice((1, 3, 30)))})
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@pytest.mark.parametrize("written", WRITTEN)
def test_secret_in_pieces_is_what_it_is_as_a_whole(written: str) -> None:
    """R-360: at every place where two pieces may part, and one character at a time, nothing of it is seen."""
    text = f"I found it: {written}\nand that is all. "
    whole = KNOWN(text)
    assert MARK in whole
    for cuts in [[text[:place], text[place:]] for place in range(len(text))] + [list(text)]:
        shown = RedactedPieces(KNOWN)
        assert "".join([shown.take(piece) for piece in cuts] + [shown.end()]) == whole


def test_texts_of_chance_in_pieces_of_chance() -> None:
    """R-360: secrets, what looks like their beginnings, and words between them."""
    chance = random.Random(360)
    parts = (
        *WRITTEN,
        *(each[: len(each) // 2] + "!" * (each == KEY) for each in WRITTEN),
        "word",
        ":",
        "=",
        " ",
        "\n",
        '"',
        "-----",
        "é",
        "token",
    )
    for _ in range(3000):
        text = "".join(chance.choice(("", " ", "\n")) + chance.choice(parts) for _ in range(chance.randrange(1, 12)))
        shown = RedactedPieces(KNOWN)
        seen = "".join([shown.take(piece) for piece in pieces_of(text, chance)] + [shown.end()])
        whole = KNOWN(text)
        assert not [each for each in CORES if seen.count(each) > whole.count(each)], (text, seen, whole)


def test_only_the_last_word_waits() -> None:
    """R-360: what is written is seen while it is written."""
    shown = RedactedPieces(KNOWN)
    assert [shown.take(piece) for piece in ("The an", "swer is", " 42", ".\n", "日本", "語")] == [
        "The ", "answer ", "is ", "42.\n", "日本", "語",
    ]  # fmt: skip


def test_a_long_word_costs_what_it_is_long() -> None:
    """R-360: a million pieces of one word are not looked through a million times."""
    shown = RedactedPieces(KNOWN)
    assert not any(shown.take("abcd") for _ in range(200_000))
    assert len(shown.take(" ")) == 800_001


def test_events_have_no_secret_wherever_it_is() -> None:
    """R-360: typed by the user, said or thought by the model, in a call and its title; ids stay."""
    events = RedactedEvents(KNOWN)
    call = ToolCall(id="call_1", name="shell", arguments=f'{{"command": "echo {SECRET}"}}')
    reply = Reply(
        message=Message(role="assistant", content=f"it is {SECRET}", tool_calls=(call,)),
        stop="tool_calls",
        usage=Usage(),
    )
    came = (
        TurnStarted(turn=1, text=f"use {SECRET}", files=(f"{SECRET}.txt",), at="2026-11-30T00:00:00Z"),
        ThinkingDelta(text="so hunter2-"),
        ThinkingDelta(text="Zq81-xx"),
        TextDelta(text="it is hunter2"),
        TextDelta(text="-Zq81-xx and"),
        ModelReplied(reply=reply, iteration=1),
        ToolStarted(call=call, title=f"shell: echo {SECRET}"),
    )
    seen = [shown for event in came for shown in events.take(to_json(event))]
    assert "hunter2" not in repr(seen)
    assert [(each["event"], each.get("text")) for each in seen] == [
        ("turn_started", f"use {MARK}"), ("thinking", "so "), ("thinking", MARK), ("text", "it is "),
        ("text", f"{MARK} "), ("model_replied", None), ("tool_started", None),
    ]  # fmt: skip
    assert seen[-1] == {
        "event": "tool_started", "id": "call_1", "name": "shell", "arguments": f'{{"command": "echo {MARK}"}}',
        "title": f"shell: echo {MARK}",
    }  # fmt: skip


def test_a_broken_reply_is_not_mixed_with_the_next() -> None:
    """R-360: what was held back of a reply that does not count is not seen; another sub-agent's stays."""
    events = RedactedEvents(KNOWN)
    came = (
        {"event": "text", "text": "abc"}, {"event": "text", "text": "one", "task": "t/1"}, {"event": "text_voided"},
        {"event": "text", "text": "def "}, {"event": "text", "text": " two ", "task": "t/1"},
    )  # fmt: skip
    assert [shown for event in came for shown in events.take(event)] == [
        {"event": "text_voided"}, {"event": "text", "text": "def "},
        {"event": "text", "text": "one two ", "task": "t/1"},
    ]  # fmt: skip
