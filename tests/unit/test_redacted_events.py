"""What is seen of events: no secret, in whatever pieces it was written."""

from __future__ import annotations

import random

import pytest

from odek.events import (
    ApprovalRequested,
    ChangedFile,
    Event,
    FilesChanged,
    Finished,
    ModelReplied,
    Notice,
    Progress,
    SandboxChanged,
    SandboxStarted,
    TaskEnded,
    TaskEvent,
    TaskStarted,
    TextDelta,
    TextVoided,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    WarningIssued,
    to_json,
)
from odek.model.types import Message, Reply, ToolCall, Usage
from odek.redact import MARK, Redactor
from odek.redacted_events import RedactedEvents, RedactedPieces

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
    "\\u001b[1mhunter2\x1b[01;31m\x1b[K-Zq81-xx",
    "a\\n\\tsk-abcdefghij0123456789 ",
    '{\\"api_key\\": \\"abcdefgh12345678ij\\"}',
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
    """R-360, R-415: at every place where two pieces may part, and one character at a time, nothing of it is seen."""
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
    seen = [to_json(shown) for event in came for shown in events.take(event)]
    assert "hunter2" not in repr(seen)
    assert [(each["event"], each.get("text")) for each in seen] == [
        ("turn_started", f"use {MARK}"), ("thinking", "so "), ("thinking", MARK), ("text", "it is "),
        ("text", f"{MARK} "), ("text", "and"), ("model_replied", None), ("tool_started", None),
    ]  # fmt: skip
    assert seen[-1] == {
        "event": "tool_started", "id": "call_1", "name": "shell", "arguments": f'{{"command": "echo {MARK}"}}',
        "title": f"shell: echo {MARK}",
    }  # fmt: skip


def test_a_broken_reply_is_not_mixed_with_the_next() -> None:
    """R-360: what was held back of a reply that does not count is no part of the next; another sub-agent's stays."""
    events = RedactedEvents(KNOWN)
    came: tuple[Event, ...] = (
        TextDelta(text="abc"), TaskEvent(task="t/1", event=TextDelta(text="one")), TextVoided(),
        TextDelta(text="def "), TaskEvent(task="t/1", event=TextDelta(text=" two ")),
    )  # fmt: skip
    assert [shown for event in came for shown in events.take(event)] == [
        TextDelta(text="abc"), TextVoided(), TextDelta(text="def "),
        TaskEvent(task="t/1", event=TextDelta(text="one two ")),
    ]  # fmt: skip


def test_every_kind_of_event_is_seen_without_secrets_but_for_questions() -> None:
    """R-395: what a person decides upon is whole; of all else no secret is left, and what has none is as it was."""
    usage, files = Usage(input_tokens=3), (f"a {SECRET}",)
    changed = ChangedFile(path=SECRET, change="added", is_folder=False, added=1, removed=None)
    came: tuple[Event, ...] = (
        TurnEnded(turn=1, status="failed", message=SECRET, hint=SECRET, detail=SECRET),
        ToolFinished(
            call=ToolCall(id="1", name="x", arguments=SECRET), text=SECRET, failed=True, diffs=((SECRET,) * 2,)
        ),
        WarningIssued(SECRET, SECRET),
        Notice(SECRET),
        Progress(SECRET),
        SandboxStarted(line=SECRET, facts={"env": [SECRET], "id": "0"}),
        SandboxChanged(state="lost", reason=SECRET),
        FilesChanged(number=1, files=(changed,), shared=False),
        Finished(answer=SECRET, usage=usage, iterations=1, refused=((SECRET, 1),)),
        TaskStarted(task="c/1", of=1, goal=SECRET, facts=None),
        TaskEnded(task="c/1", status="done", usage=usage, seconds=1.0, files=files),
        TaskEvent(task="c/1", event=Notice(SECRET)),
    )
    for event in came:
        seen = list(RedactedEvents(KNOWN).take(event))
        assert [(SECRET in repr(each), MARK in repr(each)) for each in (event, seen)] == [(True, False), (False, True)]
        assert [to_json(shown)["event"] for shown in seen] == [to_json(event)["event"]]
        assert [*RedactedEvents(Redactor()).take(event)] == [event]
    asked = ApprovalRequested(approval={"command": SECRET})
    assert [*RedactedEvents(KNOWN).take(asked)] == [asked]
