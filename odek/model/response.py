"""The body of a 200 answer, read as a reply: a stream of events or one JSON object.

Which of the two it is the body tells, since servers mislabel both.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Protocol

from odek.model.errors import EmptyResponse, ModelError, ModelProtocolError, ModelUnreachable, WrongAddress
from odek.model.http_errors import error_text, raise_named_error, shown_words
from odek.model.provider import Reader, StreamAccumulator
from odek.model.sse import SseEvent, SseParser
from odek.model.tool_call_stream import NewId
from odek.model.types import Reply

OnText = Callable[[str], None]
_BLANK_OR_BOM = b" \t\r\n\xef\xbb\xbf"
_DONE = "[DONE]"
_KEEP_ALIVES = frozenset(("", "null", "ping", "pong", "heartbeat", "keepalive", "keep-alive", "keep_alive"))
_PAGE_BYTES = 8 << 10


class Source(Protocol):
    """A body on its way."""

    def chunks(self) -> Iterator[bytes]:
        """Yield what arrives, decoded and bounded. Raises ModelError."""
        ...

    def shorten_timeout(self) -> None:
        """Wait less from now on."""
        ...

    def check_complete(self) -> None:
        """Raise ModelUnreachable when less came than was announced."""
        ...


def read_response(source: Source, reader: Reader, new_id: NewId, on_text: OnText) -> Reply:
    """Return the reply in `source`, as `reader` understands it. Raises ModelError.

    `on_text` gets its text as it comes.
    """
    chunks = source.chunks()
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
        return _read_whole(source, chunks, reader, new_id, on_text)
    return _read_stream(source, chunks, reader.new_accumulator(new_id), on_text)


def _read_whole(source: Source, chunks: Iterator[bytes], reader: Reader, new_id: NewId, on_text: OnText) -> Reply:
    text = b"".join(chunks).decode("utf-8-sig", errors="replace")
    source.check_complete()
    reply = reader.parse_reply(_parse_json(text), new_id)
    if reply.message.content:
        on_text(reply.message.content)
    return reply


def _read_stream(source: Source, chunks: Iterator[bytes], assembler: StreamAccumulator, on_text: OnText) -> Reply:
    parser = SseParser()
    try:
        for chunk in chunks:
            for event in parser.feed(chunk):
                if _take(event, assembler, on_text):
                    return assembler.finish()
            if assembler.complete:
                source.shorten_timeout()
    except ModelUnreachable:
        if not assembler.complete:
            raise
    for event in parser.finish():
        if event.event == "error" or event.data.strip() == _DONE or _is_json(event.data):  # else: cut in the middle
            _take(event, assembler, on_text)
    return assembler.finish()


def _take(event: SseEvent, assembler: StreamAccumulator, on_text: OnText) -> bool:
    """Give one event to the assembler; return whether it was the end of the stream."""
    data = event.data.strip()
    if data == _DONE:
        assembler.mark_done()
    elif event.event == "error":
        raise_named_error(data)
    elif data and not _keeps_alive(data):
        text = assembler.feed(_parse_json(data))
        if text:
            on_text(text)
    return assembler.ended


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


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
