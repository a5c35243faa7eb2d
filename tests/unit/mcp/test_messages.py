"""Messages of the Model Context Protocol: what is taken, what is refused, and what is sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from odek.mcp.messages import (
    CAPABILITIES_KEY,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LEGACY,
    MODERN,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    VERSION_KEY,
    Notification,
    Request,
    Response,
    RpcError,
    decode,
    encode,
    envelope,
    failure,
    message_of,
    modern_capabilities,
    notification,
    request,
    result,
)


@pytest.mark.parametrize(
    "line",
    [
        b'{"a":1}\r\n',
        b'\xef\xbb\xbf{"a":1}\n',
        b' {"a" : 1}\t\n',
        b'{"a":1}',
    ],
)
def test_a_line_may_end_as_it_likes(line: bytes) -> None:
    """R-174: CR LF, a byte order mark and blanks do no harm."""
    assert decode(line) == {"a": 1}


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":1e999}',
        b'{"a":-1e999}',
        b'{"a":' + b"9" * 301 + b"}",
        b"\xff\xfe{\0}\0",
        b'{"a":"\xff"}',
        b'"\xed\xa0\x80"',  # half a pair, as UTF-8
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"Content-Length: 20",
        b"{'a':1}",
        b'{"a":1}{"b":2}',
        b"\0",
    ],
)
def test_what_is_not_json_is_a_parse_error(line: bytes) -> None:
    """R-174: numbers that JSON does not have, other encodings, and nesting that Python cannot follow, included."""
    with pytest.raises(RpcError) as caught:
        decode(line)
    assert caught.value.code == PARSE_ERROR


def test_a_request_a_notification_and_answers_are_told_apart() -> None:
    assert message_of(request(1, "ping", {"a": 2})) == Request(id=1, method="ping", params={"a": 2})
    assert message_of({"jsonrpc": "2.0", "id": "", "method": "x"}) == Request(id="", method="x", params={})
    assert message_of(notification("x")) == Notification(method="x", params={})
    assert message_of(result("a", {"b": 1})) == Response(id="a", result={"b": 1})
    answer = message_of(failure(None, RpcError(-1, "no", data={"c": 1})))
    assert isinstance(answer, Response)
    assert answer.error is not None
    assert (answer.id, answer.error.code, answer.error.message, answer.error.data) == (None, -1, "no", {"c": 1})


BAD: list[tuple[object, int]] = [
    *((value, INVALID_REQUEST) for value in (1, "a", None, True, [], [{}], {})),
    ({"id": 1, "method": "x"}, INVALID_REQUEST),
    ({"jsonrpc": "1.0", "id": 1, "method": "x"}, INVALID_REQUEST),
    ({"jsonrpc": 2.0, "id": 1, "method": "x"}, INVALID_REQUEST),
    *(
        ({"jsonrpc": "2.0", "id": bad, "method": "x"}, INVALID_REQUEST)
        for bad in (None, True, False, 1.5, 1.0, [], [1], {}, {"a": 1})
    ),
    *(({"jsonrpc": "2.0", "id": 1, "method": method}, INVALID_REQUEST) for method in (None, 1, [], {})),
    *(({"jsonrpc": "2.0", "id": 1, "method": "x", "params": value}, INVALID_PARAMS) for value in (None, 1, "a", [])),
    ({"jsonrpc": "2.0", "id": 1}, INVALID_REQUEST),
    ({"jsonrpc": "2.0", "id": 1, "result": 5}, INVALID_REQUEST),
    ({"jsonrpc": "2.0", "id": 1, "error": "no"}, INVALID_REQUEST),
    ({"jsonrpc": "2.0", "result": {}}, INVALID_REQUEST),
]


@pytest.mark.parametrize(("value", "code"), BAD, ids=[json.dumps(value) for value, _ in BAD])
def test_what_is_no_message_is_refused(value: object, code: int) -> None:
    """R-174: an id is a string or a whole number; a boolean, a fraction or nothing is not."""
    with pytest.raises(RpcError) as caught:
        message_of(value)
    assert caught.value.code == code


def test_an_error_of_any_shape_is_an_answer() -> None:
    for error in ({}, {"code": "x"}, {"code": 1, "message": 2, "data": [1]}):
        answer = message_of({"jsonrpc": "2.0", "id": 7, "error": error})
        assert isinstance(answer, Response)
        assert answer.error is not None
        assert answer.id == 7


@pytest.mark.parametrize("text", ["é\u2028\n\r", "\ud83d\ude00", "\ud800", "\x00\x1b[31m"])
def test_a_line_is_ascii_and_one_line(text: str) -> None:
    """R-172: whatever a text holds, it is one line that every reader takes."""
    line = encode(result(1, {"text": text}))
    assert line.isascii()
    assert line.count(b"\n") == 1
    assert line.endswith(b"\n")
    assert b"\r" not in line
    assert json.loads(line)["result"]["text"] == json.loads(json.dumps(text))


def asked(**meta: Any) -> Request:
    return Request(id=1, method="tools/list", params={"_meta": meta})


def test_a_request_says_which_era_it_is_of() -> None:
    """R-173: the version in `_meta` makes it a modern one; a token of progress does not."""
    assert modern_capabilities(Request(id=1, method="x", params={})) is None
    assert modern_capabilities(Request(id=1, method="x", params={"_meta": 5})) is None
    assert modern_capabilities(asked(progressToken=1)) is None
    whole = envelope(version=MODERN, capabilities={"elicitation": {}}, client={"name": "c", "version": "1"})
    assert modern_capabilities(asked(**whole)) == {"elicitation": {}}


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({VERSION_KEY: 5, CAPABILITIES_KEY: {}}, INVALID_PARAMS),
        ({VERSION_KEY: None, CAPABILITIES_KEY: {}}, INVALID_PARAMS),
        ({VERSION_KEY: MODERN}, INVALID_PARAMS),
        ({VERSION_KEY: MODERN, CAPABILITIES_KEY: None}, INVALID_PARAMS),
        ({VERSION_KEY: MODERN, CAPABILITIES_KEY: []}, INVALID_PARAMS),
        ({VERSION_KEY: "2099-01-01", CAPABILITIES_KEY: {}}, UNSUPPORTED_VERSION),
        ({VERSION_KEY: "2025-11-25", CAPABILITIES_KEY: {}}, UNSUPPORTED_VERSION),
    ],
)
def test_a_modern_request_that_is_not_whole_is_refused(meta: dict[str, Any], code: int) -> None:
    """R-173: a version that is not known is answered with those that are."""
    with pytest.raises(RpcError) as caught:
        modern_capabilities(asked(**meta))
    assert caught.value.code == code
    if code == UNSUPPORTED_VERSION:
        assert caught.value.data == {"supported": [MODERN, *LEGACY], "requested": meta[VERSION_KEY]}
