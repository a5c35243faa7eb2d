"""Answers of an OpenAI-compatible `/chat/completions`, whole or as a stream of chunks. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odek.model.errors import ModelProtocolError
from odek.model.extras import Extras
from odek.model.http_errors import raise_for_error, raise_for_silence
from odek.model.json_fields import count, string
from odek.model.provider import StreamAccumulator
from odek.model.sense import words_of
from odek.model.thinking import ThinkingSplit, split_thinking
from odek.model.tool_call_stream import CallAccumulator, NewId, parse_calls
from odek.model.types import Message, Reply, ToolCall, Usage
from odek.model.unicode_repair import SurrogateJoiner
from odek.model.wire import make_reply

REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text", "thinking")
"""names that servers have for the notes of a reasoning model"""
IN_PARTS = "content"
"""the name for such notes among the parts of the content, as Mistral has them"""
KNOWN_FIELDS = frozenset({"role", "content", "tool_calls", "function_call", "refusal", *REASONING_FIELDS})


def parse_reply(payload: object, new_id: NewId) -> Reply:
    """Return the reply in a whole (not streamed) answer.

    Raises ModelRejected or ModelProtocolError, also when the answer is an `error` object.
    """
    raise_for_error(payload)
    if not isinstance(payload, dict):
        raise ModelProtocolError("the model's server sent JSON that is not an object")
    choice = _first_choice(payload)
    message = choice.get("message") if choice else None
    if choice is None or not isinstance(message, dict):
        raise_for_silence({name: value for name, value in payload.items() if name != "choices"})
    reasoning, extras = ReasoningFields(), Extras()
    reasoning.feed(message)
    extras.feed(message, KNOWN_FIELDS)
    made = _message(_text_of(message), parse_calls(message, new_id), reasoning, extras)
    return make_reply(made, usage=parse_usage(payload.get("usage")), stop=string(choice.get("finish_reason")))


class ReasoningFields:
    """What a reasoning model notes for itself, under whichever name its server has for it."""

    def __init__(self) -> None:
        self._texts: dict[str, list[str]] = {}

    def feed(self, message: Mapping[str, Any]) -> str:
        """Take what a message or a delta holds of it; return that, once if it came under several names."""
        found = {name: message[name] for name in REASONING_FIELDS if isinstance(message.get(name), str)}
        thoughts = _thoughts_of(message.get("content"))
        found |= {IN_PARTS: thoughts} if thoughts else {}
        for name, text in found.items():
            self._texts.setdefault(name, []).append(text)
        return next((text for text in found.values() if text), "")

    def choose(self) -> tuple[str, str]:
        """Return (name, text): the first with a text, else the first at all; ("", "") for none."""
        texts = [(name, "".join(pieces)) for name, pieces in self._texts.items()]
        return next((pair for pair in texts if pair[1]), texts[0] if texts else ("", ""))

    def others(self, chosen: str) -> dict[str, str]:
        """Return the other fields that hold a text."""
        texts = {name: "".join(pieces) for name, pieces in self._texts.items() if name not in (chosen, IN_PARTS)}
        return {name: text for name, text in texts.items() if text}


def _message(text: str, calls: tuple[ToolCall, ...], reasoning: ReasoningFields, extras: Extras) -> Message:
    """Return the message of these parts; thinking within the text is taken out of it (B111)."""
    name, thoughts = reasoning.choose()
    extras.feed(reasoning.others(name), frozenset())
    tag, thinking, answer = split_thinking(text)
    if tag and not thoughts:
        name, thoughts = tag, thinking
    return Message(
        role="assistant",
        content=answer,
        tool_calls=calls,
        reasoning=thoughts,
        reasoning_field=name,
        extra=extras.to_json(),
    )


class OpenAiAccumulator(StreamAccumulator):
    """Builds a reply from the chunks of a stream (B39, B40)."""

    def __init__(self, new_id: NewId) -> None:
        super().__init__(new_id)
        self._text = SurrogateJoiner()
        self._split = ThinkingSplit()
        self._reasoning = ReasoningFields()
        self._extras = Extras()
        self._calls = CallAccumulator(self._begun.append)
        self._usage = Usage()

    def _take(self, chunk: dict[str, Any]) -> str:
        if "choices" not in chunk and "usage" not in chunk and words_of(chunk):
            raise_for_silence(chunk)
        if isinstance(chunk.get("usage"), dict):
            self._usage = parse_usage(chunk["usage"])
        choice = _first_choice(chunk)
        if choice is None:
            return ""
        added = self._take_delta(self._delta(choice))
        self._stop = string(choice.get("finish_reason")) or self._stop
        if self._stop == "error":
            raise ModelProtocolError("the model's server gave up in the middle of its answer", retryable=True)
        return added

    def finish(self) -> Reply:
        """See StreamAccumulator."""
        calls = self._calls.finish(self._new_id)
        self._require_end(calls, text=self._text.anything)
        message = _message(self._text.finish(), calls, self._reasoning, self._extras)
        return make_reply(message, usage=self._usage, stop=self._stop)

    def _delta(self, choice: dict[str, Any]) -> dict[str, Any]:
        delta = choice.get("delta")
        if not isinstance(delta, dict) and not (self._text.anything or len(self._calls)):
            delta = choice.get("message")  # a server that streams one whole answer
        return delta if isinstance(delta, dict) else {}

    def _take_delta(self, delta: dict[str, Any]) -> str:
        self._thought += self._reasoning.feed(delta)
        self._extras.feed(delta, KNOWN_FIELDS)
        entries = delta.get("tool_calls")
        if isinstance(entries, list) and entries:
            for entry in entries:
                self._calls.feed(entry)
        elif isinstance(delta.get("function_call"), dict):  # llama-cpp-python says each call in both ways
            self._calls.feed(delta["function_call"], old_style=True)
        text = self._split.take(self._text.take(_text_of(delta)))
        self._thought += self._split.take_thought()
        return text


def parse_usage(raw: object) -> Usage:
    """Return the token counts of a `usage` object, under any of the names that providers use.

    Cached tokens are those *read* from a cache; a provider that reports them twice counts once.
    """
    if not isinstance(raw, dict):
        return Usage()
    details = raw.get("prompt_tokens_details")
    return Usage(
        input_tokens=count(raw.get("prompt_tokens")) or count(raw.get("input_tokens")),
        output_tokens=count(raw.get("completion_tokens")) or count(raw.get("output_tokens")),
        cached_tokens=max(
            count(details.get("cached_tokens")) if isinstance(details, dict) else 0,
            count(raw.get("cache_read_input_tokens")),
            count(raw.get("prompt_cache_hit_tokens")),
        ),
    )


def _first_choice(payload: Mapping[str, Any]) -> dict[str, Any] | None:
    choices = payload.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and choice.get("index") in (None, 0):
            return choice
    return None


def _thoughts_of(content: object) -> str:
    """Return the text of the parts of `content` that are thinking."""
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    thoughts = [part.get("thinking") for part in parts if part.get("type") == "thinking"]
    inner = [part for thought in thoughts for part in (thought if isinstance(thought, list) else [{"text": thought}])]
    return "".join(string(part.get("text")) for part in inner if isinstance(part, dict))


def _text_of(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(string(part.get("text")) for part in content if isinstance(part, dict))
    return string(content) or string(message.get("refusal"))
