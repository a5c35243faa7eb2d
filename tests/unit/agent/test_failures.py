from __future__ import annotations

import pytest

from odek.agent.failures import FailureCounter, choose_hint


def test_hint_comes_at_every_third_failure_in_a_row_of_one_tool() -> None:
    counter = FailureCounter()

    def hinted(tool: str, failed: bool) -> bool:
        return bool(counter.hint(tool, failed=failed, text="x"))

    calls = [("a", True), ("a", True), ("b", True), ("a", True), ("a", True), ("a", True), ("a", True), ("b", True)]
    assert [hinted(*call) for call in calls] == [False, False, False, True, False, False, True, False]


def test_success_starts_the_count_again() -> None:
    counter = FailureCounter()
    results = [counter.hint("a", failed=failed, text='{"error":1}') for failed in (True, True, False, True, True)]
    assert results == [""] * 5


@pytest.mark.parametrize(
    ("text", "beginning"),
    [
        ("out\nexit code: 2", "Read the first error"),
        ('{"error":"\\"a\\" is a folder"}', "The path is a folder"),
        ('{"error":"\\"a\\" does not exist"}', "Look where the file"),
        ('{"error":"old_string was not found"}', "Look at what is really there"),
        ('{"error":"\\"a\\" is binary: NUL byte"}', "The file is no text"),
        ("whatever", "Stop and compare"),
    ],
)
def test_choose_hint_fits_the_failure(text: str, beginning: str) -> None:
    assert choose_hint("tool", text).startswith(f"hint: tool failed 3 times in a row. {beginning}")
