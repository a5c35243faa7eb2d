"""How a provider's HTTP API differs from another's: paths, headers, and the JSON in both directions.

A ProviderApi belongs to one client and learns from refusals which options its server does not take.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from odek.model.errors import ModelError
from odek.model.tool_call_stream import NewId
from odek.model.types import Message, Reply, ToolSpec

_BAD_REQUEST = (400, 422)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestOptions:
    """What is asked of the model besides the conversation."""

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
    """the most that one reply may have, where the API wants to be told"""
    optional: frozenset[str] = frozenset()
    """of "temperature" and "thinking": what nobody asked for, and is left out when the server refuses it"""


class StreamAccumulator(Protocol):
    """Builds a reply from the events of a stream."""

    @property
    def complete(self) -> bool:
        """whether the model has said that it is done (usage may still follow)"""
        ...

    @property
    def ended(self) -> bool:
        """whether nothing more can follow"""
        ...

    def feed(self, chunk: object) -> str:
        """Take one event; return the text that it added. Raises ModelError when it is an error."""
        ...

    def mark_done(self) -> None:
        """Note that the stream said `[DONE]`."""
        ...

    def finish(self) -> Reply:
        """Return the reply. Raises ModelProtocolError (retryable) when the stream ended too early (B40)."""
        ...


class Reader(Protocol):
    """Understands answers."""

    def new_accumulator(self, new_id: NewId) -> StreamAccumulator: ...

    def parse_reply(self, payload: object, new_id: NewId) -> Reply:
        """Return the reply in a whole (not streamed) answer. Raises ModelError."""
        ...


class ProviderApi(Reader, Protocol):
    """Makes requests, and understands their answers."""

    def chat_path(self, base: str) -> str:
        """Return the path of a request below the path of a base URL, which has no slash at its end."""
        ...

    def models_path(self, base: str) -> str:
        """Return the path of the list of models, likewise."""
        ...

    def headers(self, api_key: str) -> dict[str, str]:
        """Return the headers that this API wants; `api_key` may be ""."""
        ...

    def body(self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, stream: bool) -> dict[str, Any]:
        """Return the body of a request, for a stream or for a whole answer."""
        ...

    def adapt(self, error: ModelError) -> bool:
        """Return whether the request failed only because of an option that the next body will not have."""
        ...


class UnsupportedOptions:
    """Which options a server does not take, as its answers told."""

    def __init__(self, optional: frozenset[str]) -> None:
        self._optional = optional
        self._refused: set[str] = set()

    def __contains__(self, option: str) -> bool:
        return option in self._refused

    def add(self, option: str, error: ModelError, *words: str) -> bool:
        """Note that `error` refuses `option`, which one of `words` stands for; return whether that is news.

        An option that somebody asked for is not among those that may be left out.
        """
        return option in self._optional and is_refusal(error, *words) and self.add_known(option)

    def add_known(self, option: str) -> bool:
        """Note that `option` is refused; return whether that is news."""
        news = option not in self._refused
        self._refused.add(option)
        return news


def is_refusal(error: ModelError, *words: str) -> bool:
    """Return whether `error` says that the request was wrong, with one of `words` (if any) as a word of its own."""
    said = error.said.lower()
    return (
        error.status in _BAD_REQUEST
        and not error.context_overflow
        and (not words or any(re.search(rf"(?<![a-z_]){re.escape(word)}(?![a-z_])", said) for word in words))
    )
