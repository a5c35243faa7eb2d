from __future__ import annotations

import pytest

from odek.process import Capture, Output
from odek.tools.shell import render_output


def captured(data: bytes, limit_bytes: int = 1 << 20) -> Output:
    capture = Capture(limit_bytes)
    for start in range(0, len(data), 1000):
        capture.feed(data[start : start + 1000])
    return capture.output()


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", ""),
        (b"a\n\tb\n", "a\n\tb\n"),
        (b"a\r\nb\rc", "a\nb\\x0dc"),
        (b"a\377\376\000b\033]0;pwn\007", "a\ufffd\ufffd\\x00b\\x1b]0;pwn\\x07"),
        ("ä☃😀\x7f\x85".encode(), "ä☃😀\\x7f\\x85"),
        (b"\xf0\x9f\x98", "\ufffd\ufffd\ufffd"),
    ],
)
def test_render_output_is_readable_text_whatever_the_bytes(data: bytes, text: str) -> None:
    """B03, R-41: valid UTF-8, bad bytes replaced, control bytes harmless."""
    rendered = render_output(captured(data), limit=1000)
    assert rendered == text
    assert rendered.encode().decode() == text


def test_render_output_keeps_everything_up_to_the_limit() -> None:
    assert render_output(captured(b"x" * 100), limit=100) == "x" * 100


def test_render_output_cuts_the_middle_and_counts_bytes() -> None:
    """R-41: the limit is in characters, the count in bytes."""
    data = ("ä" * 60 + "ö" * 60).encode()
    assert render_output(captured(data), limit=100) == "ä" * 50 + "\n[… 40 bytes left out …]\n" + "ö" * 50


def test_render_output_does_not_split_characters_where_the_capture_did() -> None:
    """B03: a cut in the middle of a character leaves no debris and is counted exactly."""
    data = ("☃" * 1000).encode()
    output = captured(data, limit_bytes=200)
    assert (len(output.head), len(output.tail)) == (100, 100)
    assert render_output(output, limit=1000) == "☃" * 33 + f"\n[… {3000 - 2 * 99} bytes left out …]\n" + "☃" * 33


def test_render_output_bounds_what_is_shown_of_binary_data() -> None:
    data = b"\x00\xff" * 100_000
    rendered = render_output(captured(data), limit=1000)
    marker = rendered[rendered.index("\n") : rendered.rindex("\n") + 1]
    left_out = int(marker.split()[1])
    assert len(rendered) <= 1000 + len(marker)
    assert rendered.replace(marker, "").count("\\x00") + rendered.replace(marker, "").count("\ufffd") + left_out == len(
        data
    )


def test_render_output_shows_both_ends_when_the_capture_left_nothing_else() -> None:
    output = Output(head=b"begin\n", tail=b"end\n", size_bytes=3_000_000_000)
    assert render_output(output, limit=30_000) == "begin\n\n[… 2999999990 bytes left out …]\nend\n"
