"""The dialect of OpenAI-compatible servers (R-82): odek's conversation as requests of `/chat/completions`.

What a server refused is left out of the next ones. `openai_stream` reads the answers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from odek.model import openai_stream
from odek.model.calls import NewId
from odek.model.dialect import Refusals, RequestOptions
from odek.model.errors import ModelError
from odek.model.types import Message, Reply, ToolCall, ToolSpec
from odek.model.wire import function_name, valid_arguments

THINKING_LEVELS = ("low", "medium", "high")
# llama-cpp-python says with a 500 that a message is not of the form that it wants
_CHECKED = (400, 422, 500)
_WANTS_TEXT = re.compile(r"\bcontent\b.{0,80}\b(?:valid|be a|expected a) string\b")


class OpenAiDialect:
    """Implements dialect.Dialect."""

    def __init__(self, options: RequestOptions) -> None:
        self._options = options
        self._refusals = Refusals(options.optional | {"stream_options"})

    def chat_path(self, base: str) -> str:
        """See Dialect."""
        return base + "/chat/completions"

    def models_path(self, base: str) -> str:
        """See Dialect."""
        return base + "/models"

    def headers(self, api_key: str) -> dict[str, str]:
        """Return the key; servers on this machine often want none."""
        return {"Authorization": f"Bearer {api_key}"} if api_key else {}

    def body(self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, stream: bool) -> dict[str, Any]:
        """See Dialect."""
        options = self._options
        body = request_body(
            options.model,
            messages,
            tools,
            temperature=None if "temperature" in self._refusals else options.temperature,
            thinking="" if "thinking" in self._refusals else options.thinking,
            thinking_budget=options.thinking_budget,
            stream=stream,
            caching=options.caching or False,
            null_content="null content" not in self._refusals,
        )
        if "stream_options" in self._refusals:
            body.pop("stream_options", None)
        return body

    def learn(self, error: ModelError) -> bool:
        """See Dialect. Reasoning models refuse a temperature, old servers `stream_options`."""
        if error.status in _CHECKED and _WANTS_TEXT.search(error.detail):
            return self._refusals.add_known("null content")
        return (
            self._refusals.add("stream_options", error, "stream_options")
            or self._refusals.add("temperature", error, "temperature")
            or self._refusals.add("thinking", error, "thinking", "reasoning_effort")
        )

    def new_assembler(self, new_id: NewId) -> openai_stream.ReplyAssembler:
        """See Reader."""
        return openai_stream.ReplyAssembler(new_id)

    def parse_reply(self, payload: object, new_id: NewId) -> Reply:
        """See Reader."""
        return openai_stream.parse_reply(payload, new_id)


def request_body(
    model: str,
    messages: Sequence[Message],
    tools: Sequence[ToolSpec],
    *,
    temperature: float | None,
    thinking: str,
    thinking_budget: int,
    stream: bool,
    caching: bool = False,
    null_content: bool = True,
) -> dict[str, Any]:
    """Return the body of a request.

    `temperature` None or below zero is not sent. `thinking` is "", "enabled", "disabled" or a
    level; `thinking_budget` counts tokens and matters to "enabled" only. Any other `thinking`
    raises ValueError (settings have been checked before). `caching` marks the system message and
    the first words of the user for providers that cache on demand only. `null_content` tells whether a
    message that holds only calls has a content of null or of "": some servers refuse the one, some the other.
    """
    entries = [_message_json(message, no_content=None if null_content else "") for message in messages]
    body: dict[str, Any] = {"model": model, "messages": entries}
    if caching:
        _mark_for_cache(entries)
    if tools:
        body["tools"] = [_tool_json(tool) for tool in tools]
    body["stream"] = stream
    if stream:
        body["stream_options"] = {"include_usage": True}
    if temperature is not None and temperature >= 0:
        body["temperature"] = temperature
    body.update(_thinking_json(thinking, thinking_budget))
    return body


def _message_json(message: Message, *, no_content: str | None) -> dict[str, Any]:
    entry: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        entry["content"] = message.content or no_content
        entry["tool_calls"] = [_call_json(call) for call in message.tool_calls]
    if message.role == "tool":
        entry["tool_call_id"] = message.tool_call_id
        if message.name:
            entry["name"] = function_name(message.name)
    if message.reasoning:
        entry["reasoning_content"] = message.reasoning
    return entry


def _mark_for_cache(entries: list[dict[str, Any]]) -> None:
    """Put a marker on the first system and the first user entry; the system prompt stays where it is."""
    for role in ("system", "user"):
        entry = next((entry for entry in entries if entry["role"] == role and entry["content"]), None)
        if entry is not None:
            part = {"type": "text", "text": entry["content"], "cache_control": {"type": "ephemeral"}}
            entry["content"] = [part]


def _call_json(call: ToolCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": function_name(call.name), "arguments": valid_arguments(call.arguments)},
    }


def _tool_json(tool: ToolSpec) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)},
    }


def _thinking_json(thinking: str, budget: int) -> dict[str, Any]:
    if thinking == "":
        return {}
    if thinking == "enabled":
        # providers with a token budget accept no other temperature beside it
        return {"thinking": {"type": "enabled", "budget_tokens": budget}, "temperature": 1}
    if thinking == "disabled":
        return {"thinking": {"type": "disabled"}}
    if thinking in THINKING_LEVELS:
        return {"reasoning_effort": thinking}
    raise ValueError(f"unknown value of thinking: {thinking!r}")
