"""response.py: bodies that a real server can hardly be made to send in just these pieces."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from odek.model.errors import ModelProtocolError, ModelUnreachable
from odek.model.openai import OpenAiApi
from odek.model.provider import RequestOptions
from odek.model.response import read_response
from odek.model.types import Message, Reply, ToolCall

READER = OpenAiApi(RequestOptions(model="m"))
STOP = b'data: {"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}]}\n\n'
USAGE = b'data: {"choices": [], "usage": {"prompt_tokens": 3}}\n\n'


class Pieces:
    """A body in given pieces; an exception among them is raised."""

    def __init__(self, *pieces: bytes | Exception) -> None:
        self._pieces = pieces
        self.hastened = 0

    def chunks(self) -> Iterator[bytes]:
        for piece in self._pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    def shorten_timeout(self) -> None:
        self.hastened += 1

    def check_complete(self) -> None:
        pass


def no_id() -> str:
    raise AssertionError("no id had to be invented")


def read(*pieces: bytes | Exception) -> Reply:
    return read_response(Pieces(*pieces), READER, no_id, lambda _text: None)


@pytest.mark.parametrize("size", [1, 2, 7])
def test_body_in_tiny_pieces(size: int) -> None:
    bodies = (b"\xef\xbb\xbf \r\n" + STOP + b"data: [DONE]\n\n", b'\n\n{"choices": [{"message": {"content": "hi"}}]}')
    for body in bodies:
        pieces = [body[place : place + size] for place in range(0, len(body), size)]
        assert read(*pieces).message == Message(role="assistant", content="hi")


def test_wait_for_the_usage_is_a_short_one() -> None:
    source = Pieces(STOP[:20], STOP[20:], USAGE)
    assert read_response(source, READER, no_id, lambda _text: None).usage.input_tokens == 3
    assert source.hastened == 2


def test_connection_lost_after_the_end_of_the_answer_does_no_harm() -> None:
    """B40: a finish reason is the end."""
    assert read(STOP, ModelUnreachable("reset")).message.content == "hi"
    with pytest.raises(ModelUnreachable):
        read(USAGE, ModelUnreachable("reset"))


@pytest.mark.parametrize("tail", [b"data: [DONE]", b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}'])
def test_last_event_without_its_blank_line_counts(tail: bytes) -> None:
    assert read(STOP.replace(b'"stop"', b"null"), tail).message.content == "hi"


def test_last_event_that_is_cut_is_no_json_error_but_an_early_end() -> None:
    """B40: the message says what happened."""
    with pytest.raises(ModelProtocolError, match="broke off"):
        read(USAGE, STOP[:30])


@pytest.mark.parametrize("pieces", [(), (b"",), (b" \n", b"\xef\xbb\xbf")])
def test_empty_answer_is_an_error(pieces: tuple[bytes, ...]) -> None:
    """B40 (d)."""
    with pytest.raises(ModelProtocolError, match="empty"):
        read(*pieces)


def test_calls_without_text_show_nothing() -> None:
    call = {"id": "a", "function": {"name": "shell", "arguments": "{}"}}
    body = json.dumps({"choices": [{"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}).encode()
    shown: list[str] = []
    reply = read_response(Pieces(body), READER, no_id, shown.append)
    assert reply.message.tool_calls == (ToolCall(id="a", name="shell", arguments="{}"),)
    assert shown == []


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b"{" * 100_000, b'{"n": ' + b"9" * 5000 + b"}", b"data: " + b"[" * 100_000 + b"\n\n"]
)
def test_hostile_json_is_an_error_and_no_crash(body: bytes) -> None:
    with pytest.raises(ModelProtocolError):
        read(body)


def test_keep_alive_comments_and_blank_data_are_nothing() -> None:
    assert read(b": keep-alive\n\ndata:\n\n", STOP).message.content == "hi"
