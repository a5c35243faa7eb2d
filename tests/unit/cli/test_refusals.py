"""What is said of operations that were refused."""

from __future__ import annotations

import pytest

from odek.cli.refusals import describe_refused


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        ([("destructive", 1)], "1 operation refused, by class: destructive 1"),
        ([("destructive", 2)], "2 operations refused, by class: destructive 2"),
        ([("destructive", 1), ("persistence", 1)], "operations refused, by class: destructive 1, persistence 1"),
    ],
)
def test_operation_of_two_classes_is_not_counted_twice(refused: list[tuple[str, int]], said: str) -> None:
    """R-81: a command that is destructive and plants a hook is one command."""
    assert describe_refused(refused) == said
