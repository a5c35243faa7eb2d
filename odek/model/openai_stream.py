"""Answers of an OpenAI-compatible `/chat/completions`, whole or as a stream of chunks. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odek.model.calls import CallAssembly, NewId, is_object, parse_calls
from odek.model.errors import ModelProtocolError
from odek.model.failures import raise_for_error
from odek.model.surrogates import TextJoin
from odek.model.types import Reply, Usage
from odek.model.wire import make_reply, string


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
        reasoning=string(message.get("reasoning_content")),
        calls=parse_calls(message, new_id),
        usage=parse_usage(payload.get("usage")),
        stop=string(choice.get("finish_reason")),
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
        self._stop = string(choice.get("finish_reason")) or self._stop
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
        self._reasoning.append(string(delta.get("reasoning_content")))
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


def _first_choice(payload: Mapping[str, Any]) -> dict[str, Any] | None:
    choices = payload.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict) and choice.get("index") in (None, 0):
            return choice
    return None


def _text_of(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(string(part.get("text")) for part in content if isinstance(part, dict))
    return string(content) or string(message.get("refusal"))


def _count(value: object) -> int:
    return value if type(value) is int and value > 0 else 0
