"""Ids and times of sessions."""

from __future__ import annotations

import pytest

from odek.errors import StateFileError
from odek.session.ids import check_id, format_time, new_id, parse_time

NONCE = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    ("now_s", "date"),
    [
        (1_784_116_800.5, "20260715"),
        (0.0, "19700101"),
        (-1e12, "19700101"),
        (1e18, "99991231"),
        (float("inf"), "99991231"),
    ],
    ids=["now", "1970", "before 1970", "after 9999", "endless"],
)
def test_id_is_the_date_and_the_nonce_whatever_the_clock_says(now_s: float, date: str) -> None:
    """B48: ids stay well formed under a clock that has lost its way."""
    assert new_id(now_s, NONCE) == f"{date}-{NONCE}"


@pytest.mark.parametrize("nonce", ["", NONCE[1:], NONCE + "0", NONCE.upper(), NONCE + "\n", "../" + NONCE[3:]])
def test_nonce_of_another_shape_is_refused(nonce: str) -> None:
    with pytest.raises(ValueError):
        new_id(0.0, nonce)


@pytest.mark.parametrize("session_id", [f"20260715-{NONCE}", "old-1", "ümlaut", "-rf", "a\udcffb"])
def test_plain_file_name_is_an_id(session_id: str) -> None:
    check_id(session_id)


@pytest.mark.parametrize(
    "session_id",
    ["", ".", "..", "../../config", "a/b", "a\\b", "a..b", "a\0b", "/etc/passwd", ".hidden", "index"],
)
def test_id_that_could_leave_the_folder_is_refused(session_id: str) -> None:
    """B46: an id `../../config`."""
    with pytest.raises(StateFileError, match="is not the id of a session"):
        check_id(session_id)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2026-07-15T12:00:00Z", 1_784_116_800.0),
        ("2026-07-15T12:00:00.25Z", 1_784_116_800.25),
        ("2026-07-15T14:00:00.123456789+02:00", 1_784_116_800.123456789),
        ("2026-07-15t06:30:00-05:30", 1_784_116_800.0),
        ("1970-01-01T00:00:60Z", 59.0),
        ("0001-01-01T00:00:00Z", -62_135_596_800.0),
    ],
)
def test_time_of_any_rfc_3339_writer_is_read(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "today",
        "2026-07-15",
        "2026-13-15T12:00:00Z",
        "2026-07-15T12:00:00",
        "2026-07-15T12:00:00Z\n",
        "٢٠٢٦-07-15T12:00:00Z",
    ],
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_time(text)


@pytest.mark.parametrize("seconds", [0.0, 1_784_116_800.123456, 4_102_444_800.0])
def test_written_time_reads_back(seconds: float) -> None:
    assert parse_time(format_time(seconds)) == pytest.approx(seconds, abs=1e-6)


def test_written_time_is_utc_with_microseconds() -> None:
    assert format_time(1_784_116_800.0) == "2026-07-15T12:00:00.000000Z"
