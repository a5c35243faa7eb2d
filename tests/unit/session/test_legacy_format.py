"""The single JSON object in which earlier tools keep a session."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from fakes.sessions import NOON_TEXT, calls, result, said, user

from odek.model.types import Message, Usage
from odek.session.legacy_format import encode_object, parse_object
from odek.session.transcript import Entry, Header, State, Transcript

CALL = {"id": "a", "type": "function", "function": {"name": "shell", "arguments": '{"command":"ls"}'}}
OBJECT: dict[str, Any] = {
    "id": "20260715-00",
    "auth_token": "ab" * 32,
    "created_at": "2026-07-14T08:00:00.123456789Z",
    "updated_at": NOON_TEXT,
    "model": "",
    "turns": 2,
    "task": "look",
    "sandbox": False,
    "messages": [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "look", "cache_control": {"type": "ephemeral"}},
        {"role": "assistant", "content": None, "tool_calls": [CALL], "reasoning_content": "hm"},
        {"role": "tool", "content": "done", "name": "shell", "tool_call_id": "a"},
        {"role": "assistant", "content": [{"type": "text", "text": "two "}, {"type": "image"}, {"text": "files"}]},
    ],
    "buffer": {"deep": [1, 2.5, None]},
    "redact_boundary": 3,
}
TRANSCRIPT = Transcript(
    header=Header(
        id="20260715-00",
        created_at="2026-07-14T08:00:00.123456789Z",
        task="look",
        sandbox=False,
        extra={"auth_token": "ab" * 32, "buffer": {"deep": [1, 2.5, None]}, "redact_boundary": 3},
    ),
    state=State(updated_at=NOON_TEXT, turns=1, model="", cwd="", usage=Usage()),
    system="be brief",
    entries=(
        Entry(message=user("look"), starts_turn=True, extra={"cache_control": {"type": "ephemeral"}}),
        Entry(message=Message(role="assistant", tool_calls=calls("a").tool_calls, reasoning="hm")),
        Entry(message=result("a")),
        Entry(message=said("two files")),
    ),
)


def parse(**changed: object) -> Transcript:
    return parse_object(json.dumps({**OBJECT, **changed}).encode())


def test_object_of_an_earlier_tool_is_read() -> None:
    """R-85: its fields, and the unknown ones; F-98: turns are counted, not believed."""
    assert parse() == TRANSCRIPT


def test_export_has_the_documented_fields_and_keeps_unknown_ones() -> None:
    """R-85: the fields are a contract."""
    exported = encode_object(TRANSCRIPT)
    assert json.loads(exported) == {
        **OBJECT,
        "turns": 1,
        "cwd": "",
        "usage": {"input_tokens": 0, "output_tokens": 0, "cached_tokens": 0},
        "messages": [
            *OBJECT["messages"][:2],
            {**OBJECT["messages"][2], "content": ""},
            OBJECT["messages"][3],
            {"role": "assistant", "content": "two files"},
        ],
    }
    assert parse_object(exported) == TRANSCRIPT


def test_exported_surrogates_are_valid_utf_8() -> None:
    """B47."""
    whole = replace(TRANSCRIPT, system="\udcff")
    assert encode_object(whole).decode("utf-8").count("\\udcff") == 1
    assert parse_object(encode_object(whole)) == whole


def test_missing_sandbox_bit_counts_as_sandboxed() -> None:
    """R-2: the closed side."""
    fields = {key: value for key, value in OBJECT.items() if key != "sandbox"}
    assert parse_object(json.dumps(fields).encode()).header.sandbox is True


def test_arguments_that_are_an_object_become_text() -> None:
    call = {"id": "a", "function": {"name": "f", "arguments": {"ä": 1}}}
    (entry,) = parse(messages=[{"role": "assistant", "tool_calls": [call]}]).entries
    assert [made.arguments for made in entry.message.tool_calls] == ['{"ä": 1}']


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"id": 5}, 'its field "id" is not a text'),
        ({"created_at": None}, 'its field "created_at" is not a text'),
        ({"updated_at": "soon"}, 'its field "updated_at" is not a time'),
        ({"sandbox": "false"}, 'its field "sandbox" is neither true nor false'),
        ({"sandbox": 0}, 'its field "sandbox" is neither true nor false'),
        ({"messages": None}, "it has no list of messages"),
        ({"messages": ["x"]}, "a message is not an object"),
        ({"messages": [{"content": "x"}]}, "a message has no known role"),
        ({"messages": [{"role": ["user"]}]}, "a message has no known role"),
        ({"messages": [{"role": "user", "content": 5}]}, "the content of a message is not a text"),
        ({"messages": [{"role": "user", "name": 5}]}, 'the field "name" of a message is not a text'),
        ({"messages": [{"role": "assistant", "tool_calls": {}}]}, "the tool calls of a message are not a list"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"id": "a"}]}]}, "a tool call has no function"),
    ],
)
def test_object_of_another_shape_is_damaged(changed: dict[str, object], reason: str) -> None:
    """B46."""
    with pytest.raises(ValueError) as caught:
        parse(**changed)
    assert str(caught.value) == reason


@pytest.mark.parametrize("data", [b"", b"null", b"[]", b'{"id": "x"', b'{"id":1,"id":1}', b"[" * 100_000, b"\0" * 100])
def test_what_is_no_object_is_damaged(data: bytes) -> None:
    """B46: zero bytes, null, half a JSON."""
    with pytest.raises(ValueError):
        parse_object(data)
