"""The body of a 200 answer, read as a reply: a stream of events or one JSON object.

Which of the two it is the body tells, since servers mislabel both.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from odek.model.errors import EmptyResponse, ModelError, ModelProtocolError, ModelUnreachable, WrongAddress
from odek.model.http_errors import error_text, raise_named_error, shown_words
from odek.model.json_fields import parsed
from odek.model.provider import ProviderApi, StreamAccumulator
from odek.model.sse import SseEvent, SseParser
from odek.model.tool_call_stream import NewId
from odek.model.types import Reply, Thought

if TYPE_CHECKING:
    from odek.model.transport import HttpExchange

OnText = Callable[[str], None]
_BLANK_OR_BOM = b" \t\r\n\xef\xbb\xbf"
_DONE = "[DONE]"
_KEEP_ALIVES = frozenset(("", "null", "ping", "pong", "heartbeat", "keepalive", "keep-alive", "keep_alive"))
_PAGE_BYTES = 8 << 10


def read_response(exchange: HttpExchange, api: ProviderApi, new_id: NewId, on_text: OnText) -> Reply:
    """Return the reply that arrives by `exchange`, as `api` understands it. Raises ModelError.

    `on_text` gets its text as it comes.
    """
    chunks = exchange.chunks()
    head = b""
    for chunk in chunks:
        head += chunk
        if head.strip(_BLANK_OR_BOM):
            break
    start = head.lstrip(_BLANK_OR_BOM)[:1]
    if not start:
        raise EmptyResponse("the model's server sent an empty answer", retryable=True)
    chunks = itertools.chain((head,), chunks)
    if start == b"<":
        raise WrongAddress(
            "the model's server sent a web page instead of an answer",
            hint="check base_url; `odek config view` shows it",
            detail=error_text(shown_words(_read_some(chunks))),
        )
    if start in (b"{", b"["):
        return _read_whole(exchange, chunks, api, new_id, on_text)
    return _read_stream(exchange, chunks, api.new_accumulator(new_id), on_text)


def _read_whole(
    exchange: HttpExchange, chunks: Iterator[bytes], api: ProviderApi, new_id: NewId, on_text: OnText
) -> Reply:
    text = b"".join(chunks).decode("utf-8-sig", errors="replace")
    exchange.check_complete()
    reply = api.parse_reply(_parse_json(text), new_id)
    if reply.message.reasoning:
        on_text(Thought(reply.message.reasoning))
    if reply.message.content:
        on_text(reply.message.content)
    return reply


def _read_stream(
    exchange: HttpExchange, chunks: Iterator[bytes], accumulator: StreamAccumulator, on_text: OnText
) -> Reply:
    parser = SseParser()
    try:
        for chunk in chunks:
            for event in parser.feed(chunk):
                if _take(event, accumulator, on_text):
                    return accumulator.finish()
            if accumulator.complete:
                exchange.shorten_timeout()
    except ModelUnreachable:
        if not accumulator.complete:
            raise
    for event in parser.finish():
        if (
            event.event == "error" or event.data.strip() == _DONE or parsed(event.data) is not None
        ):  # else: cut in the middle
            _take(event, accumulator, on_text)
    return accumulator.finish()


def _take(event: SseEvent, accumulator: StreamAccumulator, on_text: OnText) -> bool:
    """Give one event to the accumulator; return whether it was the end of the stream."""
    data = event.data.strip()
    if data == _DONE:
        accumulator.mark_done()
    elif event.event == "error":
        raise_named_error(data)
    elif data and not _keeps_alive(data):
        text = accumulator.feed(_parse_json(data))
        thought = accumulator.take_thought()
        if thought:
            on_text(Thought(thought))
        if text:
            on_text(text)
        for begun in accumulator.take_begun():
            on_text(begun)
    return accumulator.ended


def _keeps_alive(data: str) -> bool:
    """Return whether an event only keeps the connection open, in the ways that gateways have for it (B87)."""
    return data.startswith(":") or data.strip('[]"{}').lower() in _KEEP_ALIVES


def _read_some(chunks: Iterator[bytes]) -> str:
    """Return the beginning of a body that is not an answer."""
    text = b""
    with suppress(ModelError):  # what came says enough
        for chunk in chunks:
            text += chunk
            if len(text) >= _PAGE_BYTES:
                break
    return text[:_PAGE_BYTES].decode("utf-8", errors="replace")


def _parse_json(text: str) -> object:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelProtocolError(
            "the model's server sent something that is not JSON", detail=error_text(text), retryable=True
        ) from error
    return value
