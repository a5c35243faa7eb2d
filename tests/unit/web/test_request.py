"""What a client sends is read strictly or refused."""

from __future__ import annotations

import pytest

from odek.web.errors import Refused
from odek.web.request import (
    HEAD_LIMIT_BYTES,
    body_length,
    decode_path,
    decode_query,
    find_end,
    parse_head,
    require_expectation,
)

HOST = b"Host: 127.0.0.1:1\r\n"


def head(first: bytes, *lines: bytes) -> bytes:
    return b"\r\n".join((first, *lines, b"", b""))


def refusal(data: bytes) -> int:
    try:
        return body_length(parse_head(data)) or 0 if find_end(data) else 0
    except Refused as refused:
        return refused.status


def test_head_comes_apart() -> None:
    data = head(b"GET /api/files?q=a%20b HTTP/1.1", b"Host: 127.0.0.1:1", b"Cookie: \tx=\xff ", b"cookie: y=2")
    parsed = parse_head(data)
    assert find_end(data + b"rest") == len(data)
    assert (parsed.method, parsed.path, parsed.query) == ("GET", "/api/files", "q=a%20b")
    assert parsed.headers == {"host": ["127.0.0.1:1"], "cookie": ["x=\xff", "y=2"]}
    assert parsed.get("host") == "127.0.0.1:1"
    assert parsed.get("cookie") == ""
    assert parsed.keep_alive


@pytest.mark.parametrize(
    ("first", "connection", "kept"),
    [
        (b"GET / HTTP/1.1", b"keep-alive", True),
        (b"GET / HTTP/1.1", b"Upgrade, CLOSE", False),
        (b"GET / HTTP/1.0", b"x", False),
        (b"GET / HTTP/1.0", b"Keep-Alive", False),
    ],
)
def test_connection_is_kept_as_both_want(first: bytes, connection: bytes, kept: bool) -> None:
    assert parse_head(head(first, b"Host: a", b"Connection: " + connection)).keep_alive is kept


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (head(b"GET / HTTP/1.1"), 400),
        (head(b"GET / HTTP/1.1", b"Host: a", b"Host: a"), 400),
        (head(b"GET http://127.0.0.1:1/ HTTP/1.1", b"Host: 127.0.0.1:1"), 400),
        (head(b"GET //evil.example/ HTTP/1.1", b"Host : a"), 400),
        (head(b"OPTIONS * HTTP/1.1", b"Host: a"), 400),
        (head(b"CONNECT a:1 HTTP/1.1", b"Host: a"), 400),
        (head(b"GET /\xc3\xa4 HTTP/1.1", b"Host: a"), 400),
        (head(b"GET /#x HTTP/1.1", b"Host: a"), 400),
        (head(b"GET /\x00 HTTP/1.1", b"Host: a"), 400),
        (head(b"GET  / HTTP/1.1", b"Host: a"), 400),
        (head(b"GET\t/ HTTP/1.1", b"Host: a"), 400),
        (head(b"GET / HTTP/1.1 x", b"Host: a"), 505),
        (head(b"GET /", b"Host: a"), 400),
        (head(b" GET / HTTP/1.1", b"Host: a"), 400),
        (head(b"", b"GET / HTTP/1.1", b"Host: a"), 400),
        (head(b"GET / HTTP/2.0", b"Host: a"), 505),
        (head(b"GET / HTTP/1.10", b"Host: a"), 505),
        (head(b"GET / http/1.1", b"Host: a"), 400),
        (head(b"GET / HTTP/1.1", b"Host: a", b" folded"), 400),
        (head(b"GET / HTTP/1.1", b"Host: a", b"\tfolded: x"), 400),
        (head(b"GET / HTTP/1.1", b"Host: a", b"X : y"), 400),
        (head(b"GET / HTTP/1.1", b"Host: a", b"X\x0b: y"), 400),
        (head(b"GET / HTTP/1.1", b"Host: a", b": y"), 400),
        (head(b"GET / HTTP/1.1", b"Host: a", b"no colon"), 400),
        (head(b"GET / HTTP/1.1", b"Host: a", b"X: a\x00b"), 400),
        (head(b"GET / HTTP/1.1", b"Host: a", b"X: a\rb"), 400),
        (head(b"GET / HTTP/1.1", b"Host: a", b"X: a\nY: b"), 400),
        (head(b"GET / HTTP/1.1", b"Host: a", b"X: a\x7f"), 400),
        (b"GET / HTTP/1.1\nHost: a\n\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\n", 400),
        (head(b"GET /" + b"a" * 8192 + b" HTTP/1.1", b"Host: a"), 431),
        (b"GET /" + b"a" * 8192, 431),
        (head(b"GET / HTTP/1.1", b"Host: a", b"X: " + b"a" * 8192), 431),
        (head(b"GET / HTTP/1.1", b"Host: a", *[b"X: y"] * 64), 431),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 70, 431),
        (head(b"GET / HTTP/1.1", b"Host: a", *[b"X: " + b"a" * 8000] * 9), 431),
        (b"GET / HTTP/1.1\r\n" + (b"X: " + b"a" * 8000 + b"\r\n") * 9, 431),
    ],
)
def test_what_two_readers_could_read_differently_is_refused(data: bytes, status: int) -> None:
    """R-126, P-11."""
    assert refusal(data) == status


def test_limits_are_reached_and_not_passed() -> None:
    """R-126: 64 headers and lines of 8 KiB are taken."""
    data = head(b"GET / HTTP/1.1", b"Host: a", *[b"X: y"] * 63)
    assert find_end(data) == len(data)
    assert find_end(b"GET /" + b"a" * 8000) == 0
    assert len(data) < HEAD_LIMIT_BYTES


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"Transfer-Encoding: chunked", 501),
        (b"transfer-encoding: identity", 501),
        (b"Transfer-Encoding:", 501),
        (b"Transfer-Encoding: chunked\r\nContent-Length: 3", 501),
        (b"Content-Length: 3\r\nContent-Length: 3", 400),
        (b"Content-Length: 3, 3", 400),
        (b"Content-Length: +5", 400),
        (b"Content-Length: -1", 400),
        (b"Content-Length: 0x5", 400),
        (b"Content-Length: 1_0", 400),
        (b"Content-Length: 5 5", 400),
        (b"Content-Length: ", 400),
        (b"Content-Length: 12345678901", 400),
        ("Content-Length: ٣".encode(), 400),
        ("Content-Length: ３".encode(), 400),
        (b"Content-Length: \xb2", 400),
    ],
)
def test_length_is_one_plain_number(line: bytes, status: int) -> None:
    """R-126."""
    assert refusal(head(b"POST / HTTP/1.1", b"Host: a", line)) == status


def test_length_is_known_or_not() -> None:
    assert body_length(parse_head(head(b"POST / HTTP/1.1", b"Host: a", b"Content-Length: 0000000012"))) == 12
    assert body_length(parse_head(head(b"POST / HTTP/1.1", b"Host: a"))) is None


def test_only_one_expectation_is_met() -> None:
    assert require_expectation(parse_head(head(b"POST / HTTP/1.1", b"Host: a", b"Expect: 100-Continue")))
    assert not require_expectation(parse_head(head(b"POST / HTTP/1.1", b"Host: a")))
    with pytest.raises(Refused, match="100-continue"):
        require_expectation(parse_head(head(b"POST / HTTP/1.1", b"Host: a", b"Expect: magic")))


def test_path_is_decoded_once() -> None:
    """R-127: a slash that was encoded does not become another segment, a percent sign not another escape."""
    assert decode_path("/api/sessions/a%2Fb/%252e%252e") == ("api", "sessions", "a/b", "%2e%2e")
    assert decode_path("/") == ("",)
    assert decode_path("//app.js") == ("", "app.js")
    assert decode_path("/%C3%A4") == ("ä",)


@pytest.mark.parametrize(
    "path", ["/%", "/%4", "/%4g", "/%zz", "/%C3", "/%ff", "/%00", "/%ed%a0%80", "/a%u0041", "/%c0%ae"]
)
def test_broken_escapes_are_refused(path: str) -> None:
    with pytest.raises(Refused) as caught:
        decode_path(path)
    assert caught.value.status == 400


def test_query_has_known_names_once() -> None:
    assert decode_query("q=a+b%2B&limit=5&", ("q", "limit")) == {"q": "a b+", "limit": "5"}
    for query in ("x=1", "q=1&q=2", "q=1&%71=2"):
        with pytest.raises(Refused) as caught:
            decode_query(query, ("q",))
        assert caught.value.status == 422
