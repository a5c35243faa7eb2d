"""Answers of Anthropic's `/v1/messages`, whole or as a stream of events. Pure.

A reply is a row of blocks, each with an index: text, calls, thinking. What a server sends is never
trusted to have the right type; unknown kinds of blocks and events are skipped.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from odek.model.errors import ModelProtocolError
from odek.model.http_errors import raise_for_error, raise_for_silence
from odek.model.json_fields import arguments_text, mapping, string
from odek.model.provider import StreamAccumulator
from odek.model.sense import words_of
from odek.model.tool_call_stream import JsonBalance, NewId, distinct_calls
from odek.model.types import CallBegun, Message, Reply, ToolCall, Usage
from odek.model.unicode_repair import SurrogateJoiner, valid_text
from odek.model.wire import make_reply

_STOPS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
_USAGE_FIELDS = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


@dataclass(slots=True)
class _Block:
    """One block under construction."""

    kind: str
    id: str = ""
    name: str = ""
    text: SurrogateJoiner = field(default_factory=SurrogateJoiner)
    """text, or thinking"""
    arguments: str = ""
    extent: JsonBalance = field(default_factory=JsonBalance)
    """of the arguments"""
    given: object = None
    """arguments that came with the start of the block"""
    signature: str = ""
    data: str = ""
    """of thinking that only the provider can read"""


class AnthropicAccumulator(StreamAccumulator):
    """Builds a reply from the events of a stream. Gateways in between may end it with `[DONE]`."""

    def __init__(self, new_id: NewId) -> None:
        super().__init__(new_id)
        self._blocks: list[_Block] = []
        self._open: dict[object, _Block] = {}
        self._usage: dict[str, int] = {}

    def _take(self, chunk: dict[str, Any]) -> str:
        kind = chunk.get("type")
        if kind is None and words_of(chunk):
            raise_for_silence(chunk)
        if kind == "message_start":
            self._take_usage(mapping(chunk.get("message")).get("usage"))
        elif kind == "content_block_start":
            return self._begin(chunk.get("index"), mapping(chunk.get("content_block")))
        elif kind == "content_block_delta":
            return self._extend(chunk.get("index"), mapping(chunk.get("delta")))
        elif kind == "message_delta":
            self._take_usage(chunk.get("usage"))
            self._stop = string(mapping(chunk.get("delta")).get("stop_reason")) or self._stop
        elif kind == "message_stop":
            self._done = True
        return ""

    def finish(self) -> Reply:
        """See StreamAccumulator."""
        calls = _calls(self._blocks, self._new_id)
        text = "".join(block.text.finish() for block in self._blocks if block.kind == "text")
        self._require_end(calls, text=bool(text))
        message = Message(
            role="assistant",
            content=text,
            tool_calls=calls,
            reasoning="\n".join(block.text.finish() for block in self._blocks if block.kind == "thinking"),
            reasoning_state=_reasoning_state(self._blocks),
        )
        return make_reply(message, usage=parse_usage(self._usage), stop=_STOPS.get(self._stop, self._stop))

    def _begin(self, index: object, raw: dict[str, Any]) -> str:
        block = _Block(
            kind=string(raw.get("type")),
            id=string(raw.get("id")),
            name=string(raw.get("name")),
            given=raw.get("input"),
            signature=string(raw.get("signature")),
            data=string(raw.get("data")),
        )
        self._blocks.append(block)
        self._open[index if isinstance(index, int) else None] = block
        if block.kind == "tool_use":
            self._begun.append(CallBegun(block.name))
        return self._add_text(block, string(raw.get("text")) or string(raw.get("thinking")))

    def _extend(self, index: object, delta: dict[str, Any]) -> str:
        block = self._open.get(index if isinstance(index, int) else None)
        if block is None:
            raise ModelProtocolError("the model's server sent part of a block that had not begun", retryable=True)
        before, arguments = block.extent.objects, string(delta.get("partial_json"))
        block.arguments += arguments
        block.extent.feed(arguments)
        self._begun += [CallBegun(block.name, is_object=True)] * (block.extent.objects - before)
        block.signature += string(delta.get("signature"))
        return self._add_text(block, string(delta.get("text")) or string(delta.get("thinking")))

    def _add_text(self, block: _Block, piece: str) -> str:
        shown = block.text.take(piece)
        if block.kind == "thinking":
            self._thought += shown
        return shown if block.kind == "text" else ""

    def _take_usage(self, raw: object) -> None:
        """The counts of later events replace those before: they are totals."""
        for name, value in mapping(raw).items():
            if name in _USAGE_FIELDS and type(value) is int and value >= 0:
                self._usage[name] = value


def parse_message(payload: object, new_id: NewId) -> Reply:
    """Return the reply in a whole (not streamed) answer.

    Raises ModelRejected or ModelProtocolError, also when the answer is an error.
    """
    raise_for_error(payload)
    if not isinstance(payload, dict):
        raise ModelProtocolError("the model's server sent JSON that is not an object")
    content = payload.get("content")
    if not isinstance(content, list):
        raise_for_silence(payload)
    accumulator = AnthropicAccumulator(new_id)
    accumulator.feed({"type": "message_start", "message": payload})
    for index, block in enumerate(content):
        accumulator.feed({"type": "content_block_start", "index": index, "content_block": block})
    accumulator.feed({"type": "message_delta", "delta": {"stop_reason": payload.get("stop_reason") or "end_turn"}})
    return accumulator.finish()


def parse_usage(raw: dict[str, int]) -> Usage:
    """Return the token counts; the API does not count what it read from or wrote to a cache as input."""
    read = raw.get("cache_read_input_tokens", 0)
    return Usage(
        input_tokens=raw.get("input_tokens", 0) + raw.get("cache_creation_input_tokens", 0) + read,
        output_tokens=raw.get("output_tokens", 0),
        cached_tokens=read,
    )


def _calls(blocks: list[_Block], new_id: NewId) -> tuple[ToolCall, ...]:
    return distinct_calls(
        (
            ToolCall(id=block.id, name=block.name, arguments=block.arguments or arguments_text(block.given))
            for block in blocks
            if block.kind == "tool_use"
        ),
        new_id,
    )


def _reasoning_state(blocks: list[_Block]) -> str:
    """Return the signed thinking with the places of the other blocks, "" when there is none; see
    anthropic.conversation."""
    state: list[dict[str, Any]] = []
    for block in blocks:
        if block.kind == "thinking" and block.signature:
            thinking = {"thinking": block.text.finish(), "signature": block.signature}
            state.append({"type": "thinking", **thinking})
        elif block.kind == "redacted_thinking":
            state.append({"type": "redacted_thinking", "data": block.data})
        elif block.kind == "text":
            state.append({"type": "text", "length": len(block.text.finish())})
        elif block.kind == "tool_use":
            state.append({"type": "tool_use"})
    signed = any("thinking" in block["type"] for block in state)
    return valid_text(json.dumps(state, ensure_ascii=False)) if signed else ""
