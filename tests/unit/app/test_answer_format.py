"""The JSON in what a model wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from odek.app.answer_format import find_value, read_answer_format
from odek.errors import UsageError
from odek.strict_json import JsonError


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('{"a": 1}', '{"a": 1}'),
        (" \n[1.0,\t2]\n\n", "[1.0,\t2]"),
        ('"```"', '"```"'),
        ("12345678901234567890", "12345678901234567890"),
        ('```json\n{"a": 1}\n```', '{"a": 1}'),
        ('Here it is:\n\n```\n{"a":\n 1}\n```\nThat is all.', '{"a":\n 1}'),
        ("~~~JSON\r\n[]\r\n~~~", "[]"),
        ('````json\n{"a": "```"}\n````', '{"a": "```"}'),
        ("```sh\nmake\n```\nso\n```json\n[2]\n```", "[2]"),
        ("```json\n[3]", "[3]"),
        ('  ```json\n  {"a": "\\ud800"}\n  ```', '{"a": "\\ud800"}'),
    ],
)
def test_value_is_found_with_a_fence_and_without(text: str, answer: str) -> None:
    """R-293: as it is written there, so that no number and no escape changes."""
    assert find_value(text)[0] == answer


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "it is not JSON: line 1, column 1: the file ends too early"),
        ("no", "it is not JSON: "),
        ('The answer is {"a": 1}', "it is not JSON: "),
        ('{"a": 1} {"a": 2}', "it is not JSON: "),
        ('{"a": 1, "a": 2}', 'it is not JSON: the key "a" is in one object twice'),
        ("NaN", "it is not JSON: NaN is not JSON"),
        ("```json\n[1]\n```\n```json\n[2]\n```", "it holds 2 fenced blocks, and one JSON value is wanted"),
        ("```\nmake\n```", "its fenced block is not JSON: "),
        ("[" * 100_000, "it is not JSON: "),
    ],
)
def test_what_is_not_one_value_is_said(text: str, fault: str) -> None:
    """R-293: nothing is guessed."""
    with pytest.raises(JsonError) as caught:
        find_value(text)
    assert str(caught.value).startswith(fault)


def test_answer_is_compared_with_the_schema(tmp_path: Path) -> None:
    """R-293: the model is told the schema."""
    (tmp_path / "s.json").write_text('{"type": "integer", "title": "ü"}')
    form = read_answer_format("s.json", str(tmp_path))
    assert form.instruction.endswith('\n{"type": "integer", "title": "ü"}')
    assert form.take("```json\n3\n```") == ("3", "")
    assert form.take('"x"') == ('"x"', "the value must be of type integer, and is string")
    assert form.take("x")[1].startswith("it is not JSON: ")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (None, 'the schema "s.json" cannot be read: no such file or directory'),
        (b"{", 'the schema "s.json" cannot be used: line 1, column 2: '),
        (
            b'{"format": "date"}',
            'the schema "s.json" cannot be used: "/format": the keyword "format" is not understood',
        ),
        (b" " * (257 << 10), 'the schema "s.json" cannot be read: larger than 256 kib'),
    ],
    ids=["missing", "broken", "unknown keyword", "large"],
)
def test_schema_that_cannot_be_used_stops_before_anything_is_asked(
    content: bytes | None, fault: str, tmp_path: Path
) -> None:
    """R-293."""
    if content is not None:
        (tmp_path / "s.json").write_bytes(content)
    with pytest.raises(UsageError) as caught:
        read_answer_format("s.json", str(tmp_path))
    assert caught.value.message.startswith(fault)
