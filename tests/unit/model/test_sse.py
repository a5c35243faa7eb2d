"""sse.py: bytes in, events out."""

from __future__ import annotations

import pytest

from odek.model.errors import ModelProtocolError
from odek.model.sse import SseEvent, SseParser


def parse(*chunks: bytes) -> list[SseEvent]:
    parser = SseParser()
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    return events + parser.finish()


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        pytest.param(b"data: a\n\ndata: b\n\n", [SseEvent(data="a"), SseEvent(data="b")], id="lf"),
        pytest.param(b"data: a\r\n\r\ndata: b\r\n\r\n", [SseEvent(data="a"), SseEvent(data="b")], id="crlf"),
        pytest.param(b"data: a\r\rdata: b\r\r", [SseEvent(data="a"), SseEvent(data="b")], id="cr"),
        pytest.param(b"data: a\ndata:b\ndata:  c\n\n", [SseEvent(data="a\nb\n c")], id="several-lines"),
        pytest.param(b": ping\n\n:\ndata: a\n\n", [SseEvent(data="a")], id="comments"),
        pytest.param(
            b"event: error\ndata: x\n\ndata: y\n\n", [SseEvent(event="error", data="x"), SseEvent(data="y")], id="type"
        ),
        pytest.param(b"id: 7\nretry: 10\nother: z\ndata: a\n\n", [SseEvent(data="a")], id="other-fields"),
        pytest.param(b"event: ping\n\n\n\ndata\n\n", [SseEvent(data="")], id="no-data-no-event"),
        pytest.param(b"\xef\xbb\xbfdata: a\n\n", [SseEvent(data="a")], id="bom"),
        pytest.param("data: ä€😀\n\n".encode(), [SseEvent(data="ä€😀")], id="utf-8"),
        pytest.param(b"data: \xff\n\n", [SseEvent(data="\ufffd")], id="invalid-utf-8"),
        pytest.param(
            b"data: a\x0b\x0c\xe2\x80\xa8b\n\n", [SseEvent(data="a\x0b\x0c\u2028b")], id="only-cr-and-lf-end-lines"
        ),
        pytest.param(b"data: a\n\ndata: [DONE]", [SseEvent(data="a"), SseEvent(data="[DONE]")], id="unfinished-end"),
        pytest.param(b"", [], id="empty"),
    ],
)
def test_events_are_the_same_however_the_stream_is_cut(stream: bytes, expected: list[SseEvent]) -> None:
    """R-82."""
    assert parse(stream) == expected
    assert parse(*(stream[place : place + 1] for place in range(len(stream)))) == expected
    for place in range(len(stream)):
        assert parse(stream[:place], stream[place:]) == expected


def test_event_is_given_out_at_a_cr_without_waiting_for_the_next_byte() -> None:
    parser = SseParser()
    assert parser.feed(b"data: a\r\r") == [SseEvent(data="a")]
    assert parser.feed(b"\ndata: b\r\n\r\n") == [SseEvent(data="b")]


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([b"data: " + b"x" * 60] * 2, id="line-without-end"),
        pytest.param([b"data: " + b"x" * 20 + b"\n"] * 6, id="event-without-end"),
        pytest.param([b"data:\n"] * 30, id="many-empty-lines"),
    ],
)
def test_event_beyond_the_limit_is_an_error(chunks: list[bytes]) -> None:
    """B40 (l): memory stays bounded."""
    parser = SseParser(limit_bytes=100)
    for chunk in chunks[:1]:
        parser.feed(chunk)
    with pytest.raises(ModelProtocolError):
        list(map(parser.feed, chunks[1:]))


def test_many_small_events_are_no_large_event() -> None:
    parser = SseParser(limit_bytes=100)
    assert [len(parser.feed(b"data: " + b"x" * 50 + b"\n\n")) for _ in range(100)] == [1] * 100
