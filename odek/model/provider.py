"""How a provider's HTTP API differs from another's: paths, headers, and the JSON in both directions.

A ProviderApi belongs to one client and learns from refusals which options its server does not take.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from odek.model.errors import ModelError, ModelProtocolError
from odek.model.http_errors import BROKE_OFF, BROKE_OFF_HINT, raise_for_error
from odek.model.json_fields import is_object
from odek.model.tool_call_stream import NewId
from odek.model.types import CallBegun, Message, Reply, ToolCall, ToolSpec
from odek.patterns import pattern

_BAD_REQUEST = (400, 422)
_OF_IMAGES = (400, 404, 415, 422, 500, 501)
# OpenRouter (404), llama.cpp (500: mmproj), DeepSeek and Groq (content must be a string), Ollama, vLLM
_IMAGES = pattern(
    r"image|vision|multi-?modal|mmproj|content.{0,60}(?:must be|be a valid|expected) a? ?string",
    re.IGNORECASE | re.DOTALL,
)
_OF_ONE_IMAGE = pattern(
    r"image.{0,60}(?:exceed|too (?:large|big|many|small)|maximum|dimension|could not (?:be )?process|damaged|corrupt"
    r"|not a valid image|decode)|(?:could not|cannot|can't|fail(?:ed)? to|unable to|invalid) .{0,40}image",
    re.IGNORECASE | re.DOTALL,
)
NO_IMAGES_HINT = "the model takes no images: choose another one with --model, or leave the image out"


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOptions:
    """What a request says besides the conversation."""

    model: str
    temperature: float | None = None
    """None or below zero: not sent"""
    thinking: str = ""
    """enabled, disabled, low, medium, high, or "" to leave it to the model"""
    thinking_budget: int = 5000
    """tokens; matters to "enabled" only"""
    caching: bool | None = None
    """whether requests carry cache markers; None: the API's own default"""
    output_tokens: int = 8192
    """the most that one reply may have, where the API requires a limit"""
    optional: frozenset[str] = frozenset()
    """of "temperature" and "thinking": options that no setting asked for, left out when the server refuses them"""


class StreamAccumulator(ABC):
    """Builds a reply from the events of a stream."""

    def __init__(self, new_id: NewId) -> None:
        self._new_id = new_id
        self._thought = ""
        self._begun: list[CallBegun] = []
        self._stop = ""
        """why the model stopped, "" as long as it has not said so"""
        self._done = False

    @property
    def complete(self) -> bool:
        """whether the model has said that it is done (usage may still follow)"""
        return bool(self._stop) or self._done

    @property
    def ended(self) -> bool:
        """whether nothing more can follow"""
        return self._done

    def mark_done(self) -> None:
        """Note that the stream said `[DONE]`."""
        self._done = True

    def feed(self, chunk: object) -> str:
        """Take one event; return the text that it added. Raises ModelError when it is an error."""
        raise_for_error(chunk)
        if not isinstance(chunk, dict):
            raise ModelProtocolError("the model's server sent an event that is not a JSON object", retryable=True)
        return self._take(chunk)

    def take_thought(self) -> str:
        """Return the thinking that has come since the last call."""
        fresh, self._thought = self._thought, ""
        return fresh

    def take_begun(self) -> tuple[CallBegun, ...]:
        """Return what has begun of calls since the last call."""
        fresh = tuple(self._begun)
        self._begun.clear()
        return fresh

    @abstractmethod
    def _take(self, chunk: dict[str, Any]) -> str:
        """Take one event that is not an error; return the text that it added."""

    @abstractmethod
    def finish(self) -> Reply:
        """Return the reply. Raises ModelProtocolError (retryable) when the stream ended too early (B40)."""

    def _require_end(self, calls: Sequence[ToolCall], *, text: bool) -> None:
        """Raise ModelProtocolError when the stream ended too early, with `calls`, and with some `text` or none.

        Without a reason why the model stopped, `[DONE]` is enough for text and for calls whose arguments are
        whole, and for nothing else: half a call must not run.
        """
        whole = self._stop or (self._done and all(is_object(call.arguments) for call in calls))
        if not whole or not (self._stop or text or calls):
            raise ModelProtocolError(BROKE_OFF, hint=BROKE_OFF_HINT, retryable=True)


class ProviderApi(ABC):
    """Makes requests, and understands their responses."""

    @abstractmethod
    def chat_path(self, base: str) -> str:
        """Return the path of a request below the path of a base URL, which has no slash at its end."""

    @abstractmethod
    def models_path(self, base: str) -> str:
        """Return the path of the list of models, likewise."""

    @abstractmethod
    def headers(self, api_key: str) -> dict[str, str]:
        """Return the headers that this API wants; `api_key` may be ""."""

    @abstractmethod
    def body(self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, stream: bool) -> dict[str, Any]:
        """Return the body of a request, for a stream or for a whole response."""

    @abstractmethod
    def adapt(self, error: ModelError) -> bool:
        """Return whether the request failed only because of an option that the next body will not have."""

    @abstractmethod
    def learned(self) -> dict[str, Any]:
        """Return, as JSON, what has been learned from refusals, {} for nothing; for `recall`."""

    @abstractmethod
    def recall(self, lessons: Mapping[str, Any]) -> None:
        """Begin anew with what an earlier client of this server had learned, {} for nothing.

        What is not of the right type counts as absent.
        """

    @abstractmethod
    def new_accumulator(self, new_id: NewId) -> StreamAccumulator:
        """Return what builds the reply of a stream."""

    @abstractmethod
    def parse_reply(self, payload: object, new_id: NewId) -> Reply:
        """Return the reply in a whole (not streamed) response. Raises ModelError."""


class UnsupportedOptions:
    """Which options a server does not take, learned from its responses."""

    def __init__(self, optional: frozenset[str]) -> None:
        self._optional = optional
        self._refused: set[str] = set()

    def __contains__(self, option: str) -> bool:
        return option in self._refused

    @property
    def refused(self) -> list[str]:
        """the options, sorted"""
        return sorted(self._refused)

    def recall(self, options: object) -> None:
        """Begin anew with options that were refused before; one that a setting asks for is sent again."""
        known = options if isinstance(options, list) else []
        self._refused = {option for option in known if isinstance(option, str) and option in self._optional}

    def add(self, option: str, error: ModelError, *words: str) -> bool:
        """Note that `error` refuses `option`, which it calls by one of `words`; return whether it was unknown before.

        An option that a setting asked for is not left out.
        """
        if option not in self._optional or option in self._refused or not is_refusal(error, *words):
            return False
        self._refused.add(option)
        return True


def takes_no_images(error: ModelError) -> bool:
    """Return whether `error` says that the model takes no images: not that this one is too large or damaged."""
    return error.status in _OF_IMAGES and bool(_IMAGES.search(error.said)) and not _OF_ONE_IMAGE.search(error.said)


def is_refusal(error: ModelError, *words: str) -> bool:
    """Return whether `error` says that the request was wrong, with one of `words` (if any) as a separate word."""
    said = error.said.lower()
    return (
        error.status in _BAD_REQUEST
        and not error.context_overflow
        and (not words or any(re.search(rf"(?<![a-z_]){re.escape(word)}(?![a-z_])", said) for word in words))
    )
