from __future__ import annotations

import pytest

from odek.agent.calls import FailureStreak, RepeatedFailures, choose_hint, last_warning, same_failure
from odek.model.types import ToolCall


def test_hint_comes_at_every_third_failure_in_a_row_of_one_tool() -> None:
    counter = FailureStreak()

    def hinted(tool: str, failed: bool) -> bool:
        return bool(counter.hint(tool, failed=failed, text="x"))

    calls = [("a", True), ("a", True), ("b", True), ("a", True), ("a", True), ("a", True), ("a", True), ("b", True)]
    assert [hinted(*call) for call in calls] == [False, False, False, True, False, False, True, False]


def test_success_starts_the_count_again() -> None:
    counter = FailureStreak()
    results = [counter.hint("a", failed=failed, text='{"error":1}') for failed in (True, True, False, True, True)]
    assert results == [""] * 5


@pytest.mark.parametrize(
    ("text", "beginning"),
    [
        ("out\nexit code: 2", "Read the first error"),
        ('{"error":"\\"a\\" is a folder"}', "The path is a folder"),
        ('{"error":"\\"a\\" does not exist"}', "Look where the file"),
        ('{"error":"old_string was not found"}', "Look at what is really there"),
        ('{"error":"\\"a\\" is binary: NUL byte"}', "The file is not text"),
        ("whatever", "Stop and compare"),
    ],
)
def test_choose_hint_fits_the_failure(text: str, beginning: str) -> None:
    assert choose_hint("tool", text).startswith(f"hint: tool failed 3 times in a row. {beginning}")


def shell(arguments: str) -> ToolCall:
    return ToolCall(id="x", name="shell", arguments=arguments)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ('{"command":"a b"}', '{ "command" : "a b" }', True),
        ('{"command":"a b"}', '{"command":"a  b\\n"}', True),
        ('{"command":"a","timeout":5}', '{"timeout":9,"command":"a","description":"once more"}', True),
        ('{"patches":[{"path":"a"}]}', '{"patches": [ {"path": "a "} ]}', True),
        ('{"command":', '{ "command":  ', True),
        ("", " ", True),
        ('{"command":"a"}', '{"command":"b"}', False),
        ('{"path":"a"}', '{"path":"A"}', False),
        ("[1]", "[2]", False),
    ],
)
def test_same_call_is_known_in_its_spellings(first: str, second: str, *, same: bool) -> None:
    """E16"""
    repeated = RepeatedFailures()
    repeated.count(shell(first), failed=True)
    assert repeated.count(shell(second), failed=True) == (2 if same else 1)


def test_only_a_new_success_is_progress() -> None:
    """E16: looking at the same file between the failures changes nothing."""
    repeated = RepeatedFailures()
    counts = []
    for look in ("a", "a", "a", "b"):
        repeated.count(shell(f'{{"command":"cat {look}"}}'), failed=False)
        counts.append(repeated.count(shell('{"command":"false"}'), failed=True))
    assert counts == [1, 2, 3, 1]


def test_last_warning_comes_once() -> None:
    assert [bool(last_warning(count)) for count in range(8)] == [False] * 5 + [True] + [False] * 2
    shown = same_failure(shell('{"command": "' + "\x1bx" * 200 + '"}'), 6).message
    assert "\x1b" not in shown
    assert len(shown) < 700
