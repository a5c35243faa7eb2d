"""Results of tools as text."""

from __future__ import annotations

from typing import Any

import pytest

from odek.mcp.tool_results import is_failed, result_text, shorten, unfinished


def text(words: object) -> dict[str, object]:
    return {"type": "text", "text": words}


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        ({"content": [text("a"), text("b")]}, "a\nb"),
        ({"content": []}, ""),
        ({}, ""),
        ({"content": "x"}, ""),
        ({"content": [None, text(3)]}, "[content that is not an object]\n[a text that is not a string]"),
        ({"content": [{"type": "image", "mimeType": "image/png", "data": "aGVsbG8="}]}, "[image: image/png, 5 bytes]"),
        ({"content": [{"type": "audio", "mimeType": "audio/wav"}]}, "[audio: audio/wav, no data]"),
        (
            {"content": [{"type": "resource_link", "name": "n", "uri": "file:///x", "mimeType": None}]},
            "[link: n, file:///x, unknown]",
        ),
        (
            {
                "content": [
                    {"type": "resource", "resource": {"uri": "u", "mimeType": "text/plain", "text": "all of it"}}
                ]
            },
            "[resource: u, text/plain]\nall of it",
        ),
        (
            {"content": [{"type": "resource", "resource": {"uri": "u", "blob": "aGk="}}]},
            "[resource: u, unknown, 2 bytes]",
        ),
        ({"content": [{"type": "new\nkind"}]}, "[content of an unknown kind: new\\nkind]"),
        ({"content": [text("{}")], "structuredContent": {"a": [1]}}, '{}\n{"a": [1]}'),
        ({"content": [text('{ "a": [1] }')], "structuredContent": {"a": [1]}}, '{ "a": [1] }'),
        ({"content": [text("3")], "structuredContent": {"result": 3}}, "3"),
        ({"content": [text("hello x")], "structuredContent": {"result": "hello x"}}, "hello x"),
        ({"structuredContent": {"ü": "<&>"}}, '{"ü": "<&>"}'),
    ],
)
def test_contents_are_joined(result: dict[str, Any], expected: str) -> None:
    """R-201"""
    assert result_text(result) == expected


@pytest.mark.parametrize(
    ("result", "failed", "why"),
    [
        ({"content": []}, False, ""),
        ({"isError": True}, True, ""),
        ({"isError": "no"}, False, ""),
        ({"resultType": "complete"}, False, ""),
        ({"resultType": "input_required"}, True, "input_required"),
        ({"resultType": "task"}, True, "unknown kind (task)"),
        ({"resultType": 3}, True, "unknown kind (unknown)"),
    ],
)
def test_what_is_no_result(result: dict[str, Any], failed: bool, why: str) -> None:
    """R-201"""
    assert is_failed(result) is failed
    assert why in unfinished(result)
    assert bool(unfinished(result)) == bool(why)


def test_long_texts_lose_their_middle() -> None:
    """R-201: head and tail stay, and what is left out is counted."""
    short = shorten("a" * 40 + "b" * 100 + "c" * 40, limit=80)
    assert short == "a" * 40 + "\n[… 100 characters left out …]\n" + "c" * 40
    assert shorten("x" * 80, limit=80) == "x" * 80


def test_a_result_that_is_nested_too_deeply_is_said_so() -> None:
    """R-201: what Python cannot follow is not a bug of the tool."""
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    assert result_text({"content": [text("x")], "structuredContent": deep}).startswith("x\n[structured content")
    deep.clear()
