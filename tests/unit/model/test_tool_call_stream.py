"""Tool calls out of the fragments of a stream, and out of whole messages (B39)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from odek.model.tool_call_stream import CallAccumulator, parse_calls
from odek.model.types import CallBegun, ToolCall

A = '{"command":"echo A"}'
B = '{"command":"echo B"}'


def counter() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"new_{next(numbers)}"


def part(arguments: object = None, *, name: str | None = None, **fields: object) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {**fields, "function": function}


def assembled(*parts: dict[str, Any]) -> list[tuple[str, str, str]]:
    assembly = CallAccumulator()
    for fragment in parts:
        assembly.feed(fragment)
    return [(call.id, call.name, call.arguments) for call in assembly.finish(counter())]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        pytest.param(
            [part(A, name="shell", index=0, id="a"), part(B, name="shell", index=0, id="b")],
            [("a", "shell", A), ("b", "shell", B)],
            id="a-one-index-two-ids",
        ),
        pytest.param(
            [
                part("", name="shell", index=0, id="a"),
                part(A[:9], index=0),
                part(A[9:], index=0),
                part("", name="shell", index=0, id="b"),
                part(B[:9], index=0),
                part(B[9:], index=0),
            ],
            [("a", "shell", A), ("b", "shell", B)],
            id="a-one-index-two-ids-in-pieces",
        ),
        pytest.param(
            [part(A, name="shell", id="a"), part(B, name="shell", id="b")],
            [("a", "shell", A), ("b", "shell", B)],
            id="b-no-index",
        ),
        pytest.param(
            [part("", name="shell", id="a"), part(A), part("", name="shell", id="b"), part(B)],
            [("a", "shell", A), ("b", "shell", B)],
            id="b-no-index-in-pieces",
        ),
        pytest.param(
            [part("", name="shell", index=0, id="a"), part(A[:9], index=None), part(A[9:], index=None)],
            [("a", "shell", A)],
            id="c-index-null-later",
        ),
        pytest.param(
            [part("", name="shell", id="a"), part(A[:9], index=0), part(A[9:], index=0)],
            [("a", "shell", A)],
            id="c-index-only-later",
        ),
        pytest.param(
            [part(A[place : place + 4], name="shell", index=0, id="a") for place in range(0, len(A), 4)],
            [("a", "shell", A)],
            id="d-id-and-name-in-every-fragment",
        ),
        pytest.param(
            [part(A[place : place + 4], name="shell", id="a") for place in range(0, len(A), 4)],
            [("a", "shell", A)],
            id="d-the-same-without-index",
        ),
        pytest.param(
            [part(A[:9], name="shell", id="a"), part(A[9:], name="shell", id="a", index=0)],
            [("a", "shell", A)],
            id="d-index-only-later",
        ),
        pytest.param(
            [part(A[place : place + 4], name="shell") for place in range(0, len(A), 4)],
            [("new_1", "shell", A)],
            id="d-name-only-in-every-fragment",
        ),
        pytest.param(
            [
                part(A[:9], name="shell", index=0, id="a"),
                part(A[9:], index=0, id="a2"),
            ],
            [("a", "shell", A)],
            id="d-another-id-in-every-fragment",
        ),
        pytest.param(
            [
                part("", name="shell", index=1, id="a"),
                part("", name="shell", index=3, id="b"),
                part(B, index=3),
                part(A, index=1),
            ],
            [("a", "shell", A), ("b", "shell", B)],
            id="e-holes-and-interleaved",
        ),
        pytest.param(
            [part("", name="she", index=0, id="a"), part("", name="ll", index=0), part(A, index=0)],
            [("a", "shell", A)],
            id="f-name-in-two-pieces",
        ),
        pytest.param(
            [part("", name="she", index=0, id="a"), part(A, name="shell", index=0)],
            [("a", "shell", A)],
            id="f-name-growing",
        ),
        pytest.param(
            [part(A, name="shell", index=0), part(B, name="shell", index=1)],
            [("new_1", "shell", A), ("new_2", "shell", B)],
            id="g-no-ids",
        ),
        pytest.param(
            [part(A, name="shell"), part(B, name="shell")],
            [("new_1", "shell", A), ("new_2", "shell", B)],
            id="g-neither-ids-nor-indexes",
        ),
        pytest.param(
            [part("", name="shell", index=0), part(A, index=0), part("", name="shell", index=0), part(B, index=0)],
            [("new_1", "shell", A), ("new_2", "shell", B)],
            id="g-no-ids-one-index-in-pieces",
        ),
        pytest.param(
            [part("", name="shell"), part(A, id="late")],
            [("late", "shell", A)],
            id="g-id-comes-late",
        ),
        pytest.param(
            [part(A, name="shell", index=0, id="x"), part(B, name="shell", index=1, id="x")],
            [("x", "shell", A), ("new_1", "shell", B)],
            id="h-same-id",
        ),
        pytest.param(
            [part(A, name="shell", id="x"), part(B, name="shell", id="x")],
            [("x", "shell", A), ("new_1", "shell", B)],
            id="h-same-id-no-index",
        ),
        pytest.param(
            [part(A, name="shell", index=0, id="new_1"), part(B, name="shell", index=1)],
            [("new_1", "shell", A), ("new_2", "shell", B)],
            id="invented-id-is-not-one-that-was-given",
        ),
        pytest.param(
            [part(A, name="shell", index=0, id="a"), part(A, name="shell", index=0, id="a")],
            [("a", "shell", A)],
            id="the-whole-call-twice-runs-once",
        ),
        pytest.param(
            [part(A[:9], name="shell", index=0, id="a"), part(A[9:], index=0), part(A, index=0)],
            [("a", "shell", A)],
            id="the-whole-arguments-once-more",
        ),
        pytest.param(
            [part(A, name="shell", index=0), part("", name="shell", index=0)],
            [("new_1", "shell", A)],
            id="name-once-more-at-the-end",
        ),
        pytest.param(
            [part("{}", name="shell", index=0, id="a"), part(A[:9], index=0), part(A[9:], index=0)],
            [("a", "shell", A)],
            id="placeholder-before-the-arguments",
        ),
        pytest.param(
            [part({"command": "echo A"}, name="shell", index=0, id="a")],
            [("a", "shell", '{"command": "echo A"}')],
            id="arguments-as-object",
        ),
        pytest.param([part("", name="config_view", index=0, id="a")], [("a", "config_view", "{}")], id="no-arguments"),
        pytest.param(
            [part(A, name="shell", index=True, id="a"), part(B, name="shell", index="0", id="b")],
            [("a", "shell", A), ("b", "shell", B)],
            id="index-of-another-type",
        ),
        pytest.param([part(A, index=0, id="a")], [("a", "", A)], id="no-name"),
    ],
)
def test_stream_gives_each_call_once(parts: list[dict[str, Any]], expected: list[tuple[str, str, str]]) -> None:
    """B39 (a)–(h)."""
    assert assembled(*parts) == expected


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param([part(A, index=0, name="shell"), part(B, index=0)], id="more-after-complete-arguments"),
        pytest.param([part(A[:9], name="shell"), part(B, name="shell")], id="second-call-inside-the-first"),
    ],
)
def test_what_cannot_be_told_apart_is_never_one_valid_call(parts: list[dict[str, Any]]) -> None:
    """B39: an error to the model, never a merged command."""
    for _, _, arguments in assembled(*parts):
        with pytest.raises(ValueError, match=r"."):
            json.loads(arguments)


def test_half_a_call_stays_beside_the_next_one() -> None:
    """B39: a new id with a name begins a new call, whatever became of the one before."""
    parts = [part(A[:9], name="shell", index=0, id="a"), part(B, name="shell", index=0, id="b")]
    assert assembled(*parts) == [("a", "shell", A[:9]), ("b", "shell", B)]


def test_braces_and_quotes_inside_strings_do_not_end_the_arguments() -> None:
    arguments = json.dumps({"command": 'echo "}{\\" ]}'})
    for size in (1, 2, 5):
        pieces = [arguments[place : place + size] for place in range(0, len(arguments), size)]
        assert assembled(*(part(piece, name="shell", index=0, id="a") for piece in pieces)) == [
            ("a", "shell", arguments)
        ]


@pytest.mark.parametrize("raw", [None, 7, "x", [], {}, {"function": 3}, {"index": 0, "function": {"name": 5}}])
def test_nonsense_is_no_crash(raw: object) -> None:
    assembly = CallAccumulator()
    assembly.feed(raw)
    assert all(call.name == "" for call in assembly.finish(counter()))


def test_old_function_call_field_is_a_call() -> None:
    """B39 (i)."""
    assembly = CallAccumulator()
    for fragment in ({"name": "shell", "arguments": ""}, {"arguments": A[:9]}, {"arguments": A[9:]}):
        assembly.feed(fragment, old_style=True)
    assert assembly.finish(counter()) == (ToolCall(id="new_1", name="shell", arguments=A),)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param(
            {"tool_calls": [part(A, name="shell", index=0, id="a"), part(B, name="shell", index=0, id="b")]},
            [("a", A), ("b", B)],
            id="a",
        ),
        pytest.param(
            {"tool_calls": [part(A, name="shell"), part(B, name="shell")]}, [("new_1", A), ("new_2", B)], id="g"
        ),
        pytest.param(
            {"tool_calls": [part(A, name="shell", id="x"), part(A, name="shell", id="x")]},
            [("x", A), ("new_1", A)],
            id="h-even-the-same-call",
        ),
        pytest.param({"function_call": {"name": "shell", "arguments": A}}, [("new_1", A)], id="i"),
        pytest.param({"tool_calls": None, "function_call": None}, [], id="none"),
        pytest.param({"tool_calls": "x"}, [], id="another-type"),
    ],
)
def test_whole_message_gives_each_entry_as_a_call(message: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    """B39, not streamed."""
    calls = parse_calls(message, counter())
    assert [(call.id, call.arguments) for call in calls] == expected
    assert {call.name for call in calls} <= {"shell"}


def test_what_begins_is_said_as_it_begins() -> None:
    """R-255: each call, and each object in a list of its arguments, whatever its texts hold."""
    said: list[tuple[str, bool]] = []
    assembly = CallAccumulator(lambda begun: said.append((begun, begun.is_object)))
    text = json.dumps(
        {"commands": [{"command": 'echo {"a": [{'}, {"command": "b", "env": {"x": {}}}], "x": {"y": [{}]}}
    )
    assembly.feed(part("", name="parallel_shell", index=0, id="a"))
    for at, character in enumerate(text):
        assembly.feed(part(character, index=0))
        assert len(said) == 1 + (at >= text.index("{", 1)) + (at >= text.index('{"command": "b"')), text[:at]
    assembly.feed(part(A, name="shell", index=1, id="b"))
    assembly.feed(part(A, name="shell", index=1, id="b"))
    assert said == [("parallel_shell", False), *[("parallel_shell", True)] * 2, ("shell", False)]
    assert not isinstance(assembly.finish(counter())[1].name, CallBegun)
