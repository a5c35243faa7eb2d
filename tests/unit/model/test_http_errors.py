"""http_errors.py: when and how long (B41)."""

from __future__ import annotations

import pytest

from odek.model.http_errors import backoff_s, is_retryable, parse_retry_after

NOW = 1_700_000_000.0  # Tue, 14 Nov 2023 22:13:20 GMT


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["2"], 2.0),
        (["0"], 0.0),
        (["1.5"], 1.5),
        (["-5"], None),
        (["nan"], None),
        (["inf"], None),
        (["1e9"], None),
        (["9999999999"], 60.0),
        (["9" * 5000], 60.0),
        (["999999"], 60.0),
        ([" 7 "], 7.0),
        (["2, 3"], 3.0),
        (["0" * 20 + "7"], 7.0),
        (["٣"], None),
        (["²"], None),
        ([""], None),
        (["soon"], None),
        (["Tue, 14 Nov 2023 22:13:25 GMT"], 5.0),
        (["Tue, 14 Nov 2023 22:13:10 GMT"], 0.0),
        (["Fri, 24 Nov 2023 22:13:20 GMT"], 60.0),
        (["Tue, 14 Nov 99999 22:13:20 GMT"], None),
        (["Tue, 99 Nov 2023 99:99:99 GMT"], None),
        (["Tue, 14 Nov 0001 22:13:20 +2359"], 0.0),
        (["2", "5"], 5.0),
        (["soon", "5"], 5.0),
        ([], None),
    ],
)
def test_retry_after_is_a_bounded_wait_or_nothing(values: list[str], expected: float | None) -> None:
    """B41."""
    assert parse_retry_after(values, NOW) == expected


def test_backoff_uses_the_whole_range_of_one_two_and_four_seconds() -> None:
    """F-101."""
    assert [backoff_s(retry, lambda: 1.0) for retry in (1, 2, 3)] == [1.0, 2.0, 4.0]
    assert [backoff_s(retry, lambda: 0.25) for retry in (1, 2, 3)] == [0.25, 0.5, 1.0]
    assert backoff_s(3, lambda: 0.0) == 0.0


def test_statuses_that_may_pass() -> None:
    """F-101: 408, 409, 500 and 520 to 529 too."""
    retried = [status for status in range(100, 600) if is_retryable(status)]
    assert retried == [408, 409, 429, 500, 502, 503, 504, *range(520, 530)]
