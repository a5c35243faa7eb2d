"""Requests to Anthropic's `/v1/messages`: odek's conversation as their body.

What differs from OpenAI's: the system prompt is not a message, roles alternate,
results of tools are the user's, arguments are objects, the length of a reply must be bounded, and
signed blocks of thinking go back where they came from. Empty text and a call id or name in other
characters than the API's are refused by it, so neither is sent. `anthropic_stream` reads the answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from odek.model import anthropic_stream
from odek.model.errors import ModelError
from odek.model.images import Image
from odek.model.json_fields import parsed
from odek.model.provider import ProviderApi, RequestOptions, UnsupportedOptions, is_refusal
from odek.model.tool_call_stream import NewId
from odek.model.types import Message, Reply, ToolCall, ToolSpec
from odek.model.wire import CallIds, alternating, function_name, plain_id, shown_images, valid_arguments
from odek.patterns import pattern

API_VERSION = "2023-06-01"
_LEVELS = {"low": 4096, "medium": 10_240, "high": 20_480}
"""level of thinking → tokens, for models that know budgets only"""
_LEAST_BUDGET = 1024  # the API refuses less
_ANSWER_ROOM = 4096  # tokens of a reply that thinking must leave over
_TOKENS_CAP = pattern(r"max_tokens: \d+ > (\d{1,9})")
_MARK = {"type": "ephemeral"}
Block = dict[str, Any]
Turn = tuple[str, list[Block]]
"""role and content"""


class AnthropicApi(ProviderApi):
    """The API of Anthropic."""

    def __init__(self, options: RequestOptions) -> None:
        self._options = options
        self._output_tokens = options.output_tokens
        self._adaptive = False
        self._refusals = UnsupportedOptions(options.optional)
        self._sent_states: set[str] = set()
        self._refused_states: set[str] = set()

    def chat_path(self, base: str) -> str:
        """See ProviderApi; a base URL may or may not end in the version."""
        return _versioned(base) + "/messages"

    def models_path(self, base: str) -> str:
        return _versioned(base) + "/models"

    def headers(self, api_key: str) -> dict[str, str]:
        return {"anthropic-version": API_VERSION, **({"x-api-key": api_key} if api_key else {})}

    def body(self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, stream: bool) -> dict[str, Any]:
        options = self._options
        messages = alternating(messages) if messages and messages[0].role == "assistant" else messages
        messages = [self._unrefused(message) for message in messages]
        self._sent_states = {message.reasoning_state for message in messages} - {""}
        thinking = self._thinking(messages)
        signed = options.thinking != "disabled" and bool(thinking or not options.thinking)
        system, turns = conversation(messages, with_thinking=signed)
        if options.caching is not False:
            mark_for_cache(system, turns)
        body: dict[str, Any] = {
            "model": options.model,
            "max_tokens": self._output_tokens,
            "messages": [{"role": role, "content": blocks} for role, blocks in turns],
            "stream": stream,
            **tool_fields(tools, turns),
            **thinking,
        }
        if system:
            body["system"] = system
        if self._sends_temperature(body):
            body["temperature"] = min(options.temperature or 0.0, 1.0)  # the scale ends at 1 here
        return body

    def adapt(self, error: ModelError) -> bool:
        """See ProviderApi. Newer models know no thinking budgets, older ones nothing else, some no temperature."""
        if is_refusal(error, "max_tokens") and (cap := _TOKENS_CAP.search(error.said)):
            lower, self._output_tokens = int(cap[1]) < self._output_tokens, int(cap[1])
            return lower and self._output_tokens > 0
        if self._options.thinking and not self._adaptive and is_refusal(error, "adaptive", "thinking.type.adaptive"):
            self._adaptive = True
            return True
        if self._sent_states and is_refusal(error, "signature", "thinking", "redacted_thinking"):
            # signed by another provider, or damaged: what this one signs from now on goes back to it
            self._refused_states |= self._sent_states
            return True
        return self._refusals.add("temperature", error, "temperature") or self._refusals.add(
            "thinking", error, "thinking"
        )

    def learned(self) -> dict[str, Any]:
        """See ProviderApi. Whose signatures are refused belongs to the conversation, not to the server."""
        lessons: dict[str, Any] = {"options": self._refusals.refused} if self._refusals.refused else {}
        lessons |= {"adaptive": True} if self._adaptive else {}
        lowered = self._output_tokens < self._options.output_tokens
        return {**lessons, "output_tokens": self._output_tokens} if lowered else lessons

    def recall(self, lessons: Mapping[str, Any]) -> None:
        self._refusals.recall(lessons.get("options"))
        self._adaptive = lessons.get("adaptive") is True
        cap = lessons.get("output_tokens")
        most = self._options.output_tokens
        self._output_tokens = cap if type(cap) is int and 0 < cap < most else most

    def new_accumulator(self, new_id: NewId) -> anthropic_stream.AnthropicAccumulator:
        return anthropic_stream.AnthropicAccumulator(new_id)

    def parse_reply(self, payload: object, new_id: NewId) -> Reply:
        return anthropic_stream.parse_message(payload, new_id)

    def _unrefused(self, message: Message) -> Message:
        refused = message.reasoning_state in self._refused_states
        return replace(message, reasoning_state="") if refused else message

    def _sends_temperature(self, body: dict[str, Any]) -> bool:
        wanted = self._options.temperature
        thinks = body.get("thinking", {}).get("type") in ("enabled", "adaptive")  # allows 1 only
        return wanted is not None and wanted >= 0 and not thinks and "temperature" not in self._refusals

    def _thinking(self, messages: Sequence[Message]) -> dict[str, Any]:
        wanted = self._options.thinking
        if not wanted or "thinking" in self._refusals:
            return {}
        if wanted == "disabled":
            return {"thinking": {"type": "disabled"}}
        if self._adaptive:
            effort = {"output_config": {"effort": wanted}} if wanted in _LEVELS else {}
            return {"thinking": {"type": "adaptive"}, **effort}
        budget = min(_LEVELS.get(wanted, self._options.thinking_budget), self._output_tokens - _ANSWER_ROOM)
        if budget < _LEAST_BUDGET or not may_think(messages):
            return {}
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def may_think(messages: Sequence[Message]) -> bool:
    """Return whether thinking with a budget is possible now.

    A turn of the model whose first call came without signed thinking (from another provider, or from
    a stored session) has to be finished without.
    """
    turn: list[Message] = []
    for message in messages:
        turn = [] if message.role == "user" else [*turn, message]
    calls = [message for message in turn if message.tool_calls]
    return not calls or bool(calls[0].reasoning_state)


def conversation(messages: Sequence[Message], *, with_thinking: bool) -> tuple[list[Block], list[Turn]]:
    """Return the system prompt as blocks, and the messages as turns of alternating roles."""
    system: list[Block] = []
    turns: list[Turn] = []
    ids = CallIds(plain_id)
    for message in messages:
        if message.role == "system":
            system += _text(message.content)
            continue
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _blocks(message, ids, with_thinking=with_thinking)
        if blocks and turns and turns[-1][0] == role:
            turns[-1][1].extend(blocks)
        elif blocks:
            turns.append((role, blocks))
    return system, turns


def mark_for_cache(system: list[Block], turns: Sequence[Turn]) -> None:
    """Mark where the provider shall keep what it has read: after the system prompt (and the tools, which
    precede it), and at the user's last two turns, so that a request finds what the last one left."""
    ends = [blocks[-1] for role, blocks in turns if role == "user"]
    for block in (*system[-1:], *ends[-2:]):
        block["cache_control"] = _MARK


def tool_fields(tools: Sequence[ToolSpec], turns: Sequence[Turn]) -> dict[str, Any]:
    """Return what the request says of tools. Those of the past must be declared even if none may be used."""
    if tools:
        offered = [
            {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}
            for tool in tools
        ]
        return {"tools": offered}
    used = dict.fromkeys(block["name"] for _, blocks in turns for block in blocks if block["type"] == "tool_use")
    if not used:
        return {}
    return {
        "tools": [{"name": name, "input_schema": {"type": "object"}} for name in used],
        "tool_choice": {"type": "none"},
    }


def _blocks(message: Message, ids: CallIds, *, with_thinking: bool) -> list[Block]:
    if message.role == "tool":
        content = {"content": message.content} if message.content.strip() else {}
        return [{"type": "tool_result", "tool_use_id": ids.find(message.tool_call_id), **content}]
    if message.role == "user":
        text, images = shown_images(message, taken=True)
        return [*map(_image, images), *_text(text)]
    ids.begin(message.tool_calls)
    uses = [_use(call, ids) for call in message.tool_calls]
    state = _parse_state(message.reasoning_state) if with_thinking else []
    return list(_in_order(state, message.content, uses)) if state else [*_text(message.content), *uses]


def _parse_state(state: str) -> list[Block]:
    """Return the blocks of a signed state; it may come from a file that was changed by hand."""
    blocks = parsed(state)
    if not isinstance(blocks, list) or not all(isinstance(block, dict) and "type" in block for block in blocks):
        return []
    return blocks


def _in_order(state: Sequence[Block], content: str, uses: Sequence[Block]) -> Iterator[Block]:
    """Yield the blocks of a reply as they came: a "text" of the state is so many characters of the content, a
    "tool_use" the next call."""
    place = 0
    rest = iter(uses)
    for block in state:
        if block["type"] == "text":
            given = block.get("length")
            length = given if isinstance(given, int) else 0
            yield from _text(content[place : place + length])
            place += length
        elif block["type"] == "tool_use":
            yield from (use for use in [next(rest, None)] if use is not None)
        else:
            yield block
    yield from _text(content[place:])
    yield from rest


def _image(image: Image) -> Block:
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.base64}}


def _text(text: str) -> list[Block]:
    return [{"type": "text", "text": text}] if text.strip() else []


def _use(call: ToolCall, ids: CallIds) -> Block:
    return {
        "type": "tool_use",
        "id": ids.find(call.id),
        "name": function_name(call.name),
        "input": json.loads(valid_arguments(call.arguments)),
    }


def _versioned(base: str) -> str:
    return base if base.endswith("/v1") else base + "/v1"
