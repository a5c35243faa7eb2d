"""odek's types and the JSON of an OpenAI-compatible `/chat/completions`, in both directions.

Everything here is pure. What a server sends is never trusted to have the right type: a field of
another type counts as absent, an answer without a meaning is a ModelProtocolError.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from odek.model.calls import CallAssembly, NewId, is_object, parse_calls
from odek.model.errors import ModelProtocolError
from odek.model.failures import raise_for_error
from odek.model.surrogates import TextJoin, valid_text
from odek.model.types import Message, Reply, ToolCall, ToolSpec, Usage

THINKING_LEVELS = ("low", "medium", "high")
_NAME_LIMIT = 64  # what the OpenAI API accepts as a function name, with the characters below
_NAME_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")
_CUT_OFF = frozenset({"length", "max_tokens", "model_length"})


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


def encode_body(body: Mapping[str, Any]) -> bytes:
    """Return `body` as UTF-8. Halves of surrogate pairs are joined; lone ones become U+FFFD."""
    return valid_text(json.dumps(body, ensure_ascii=False)).encode("utf-8")


def parse_reply(payload: object, new_id: NewId) -> Reply:
    """Return the reply in a whole (not streamed) answer.

    Raises ModelRejected or ModelProtocolError, also when the answer is an `error` object.
    """
    if not isinstance(payload, dict):
        raise ModelProtocolError("the model's server sent JSON that is no object")
    raise_for_error(payload)
    choice = _first_choice(payload)
    message = choice.get("message") if choice else None
    if choice is None or not isinstance(message, dict):
        raise ModelProtocolError("the model's server sent an answer without a message", retryable=True)
    return make_reply(
        text=_text_of(message),
        reasoning=_string(message.get("reasoning_content")),
        calls=parse_calls(message, new_id),
        usage=parse_usage(payload.get("usage")),
        stop=_string(choice.get("finish_reason")),
    )


class ReplyAssembler:
    """Builds a reply from the chunks of a stream (B39, B40)."""

    def __init__(self, new_id: NewId) -> None:
        self._new_id = new_id
        self._text = TextJoin()
        self._reasoning: list[str] = []
        self._calls = CallAssembly()
        self._usage = Usage()
        self._stop = ""
        self._done = False

    @property
    def complete(self) -> bool:
        """whether the model has said that it is done (usage may still follow)"""
        return bool(self._stop) or self._done

    @property
    def ended(self) -> bool:
        """whether the stream has said `[DONE]`"""
        return self._done

    def feed(self, chunk: object) -> str:
        """Take one chunk; return the text that it added. Raises ModelError when it is an error."""
        if not isinstance(chunk, dict):
            raise ModelProtocolError("the model's server sent an event that is no JSON object", retryable=True)
        raise_for_error(chunk)
        if isinstance(chunk.get("usage"), dict):
            self._usage = parse_usage(chunk["usage"])
        choice = _first_choice(chunk)
        if choice is None:
            return ""
        added = self._take_delta(self._delta(choice))
        self._stop = _string(choice.get("finish_reason")) or self._stop
        if self._stop == "error":
            raise ModelProtocolError("the model's server gave up in the middle of its answer", retryable=True)
        return added

    def mark_done(self) -> None:
        """Note that the stream said `[DONE]`."""
        self._done = True

    def finish(self) -> Reply:
        """Return the reply. Raises ModelProtocolError (retryable) when the stream ended too early.

        Without a finish reason, `[DONE]` is enough for text and for calls whose arguments are
        whole, and for nothing else: half a call must not run.
        """
        calls = self._calls.finish(self._new_id)
        whole = self._stop or (self._done and all(is_object(call.arguments) for call in calls))
        if not whole or not (self._stop or self._text.anything or calls):
            raise ModelProtocolError("the model's answer broke off before its end", retryable=True)
        return make_reply(
            text=self._text.finish(),
            reasoning="".join(self._reasoning),
            calls=calls,
            usage=self._usage,
            stop=self._stop,
        )

    def _delta(self, choice: dict[str, Any]) -> dict[str, Any]:
        delta = choice.get("delta")
        if not isinstance(delta, dict) and not (self._text.anything or len(self._calls)):
            delta = choice.get("message")  # a server that streams one whole answer
        return delta if isinstance(delta, dict) else {}

    def _take_delta(self, delta: dict[str, Any]) -> str:
        self._reasoning.append(_string(delta.get("reasoning_content")))
        entries = delta.get("tool_calls")
        if isinstance(entries, list) and entries:
            for entry in entries:
                self._calls.feed(entry)
        elif isinstance(delta.get("function_call"), dict):  # llama-cpp-python says each call in both ways
            self._calls.feed(delta["function_call"], old_style=True)
        return self._text.take(_text_of(delta))


def parse_usage(raw: object) -> Usage:
    """Return the token counts of a `usage` object, under any of the names that providers use.

    Cached tokens are those *read* from a cache; a provider that reports them twice counts once.
    """
    if not isinstance(raw, dict):
        return Usage()
    details = raw.get("prompt_tokens_details")
    return Usage(
        input_tokens=_count(raw.get("prompt_tokens")) or _count(raw.get("input_tokens")),
        output_tokens=_count(raw.get("completion_tokens")) or _count(raw.get("output_tokens")),
        cached_tokens=max(
            _count(details.get("cached_tokens")) if isinstance(details, dict) else 0,
            _count(raw.get("cache_read_input_tokens")),
            _count(raw.get("prompt_cache_hit_tokens")),
        ),
    )


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


@lru_cache(maxsize=8192)  # the calls of a conversation are sent again with every request
def valid_arguments(arguments: str) -> str:
    """Return the arguments of a past call as JSON text of an object, whatever the model had written.

    Servers that parse the history refuse it for ever after one invalid call (B40).
    """
    return arguments if is_object(arguments) else json.dumps({"invalid_arguments": arguments}, ensure_ascii=False)


def function_name(name: str) -> str:
    """Return `name`, which a model may have made up, in the characters and the length that servers accept."""
    return _NAME_FORBIDDEN.sub("_", name)[:_NAME_LIMIT] or "unknown"


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


def make_reply(
    *, text: str, reasoning: str, calls: tuple[ToolCall, ...], usage: Usage, stop: str, reasoning_state: str = ""
) -> Reply:
    """Return the reply that these parts make up; of calls that were cut off nothing is left (B40)."""
    stop = "length" if stop.lower() in _CUT_OFF else stop
    message = Message(
        role="assistant",
        content=valid_text(text),
        tool_calls=tuple(_clean_call(call, cut_off=stop in ("length", "content_filter")) for call in calls),
        reasoning=valid_text(reasoning),
        reasoning_state=valid_text(reasoning_state),
    )
    return Reply(message=message, usage=usage, stop=stop)


def _clean_call(call: ToolCall, *, cut_off: bool) -> ToolCall:
    """Return `call` with valid text; half of its arguments are dropped if the reply was cut off (B40)."""
    partial = cut_off and not is_object(call.arguments)
    return ToolCall(
        id=valid_text(call.id),
        name=valid_text(call.name),
        arguments="{}" if partial else valid_text(call.arguments),
    )


def _first_choice(payload: Mapping[str, Any]) -> dict[str, Any] | None:
    choices = payload.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and choice.get("index") in (None, 0):
            return choice
    return None


def _text_of(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(_string(part.get("text")) for part in content if isinstance(part, dict))
    return _string(content) or _string(message.get("refusal"))


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _count(value: object) -> int:
    return value if type(value) is int and value > 0 else 0
