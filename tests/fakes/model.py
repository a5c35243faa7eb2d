"""A model that says what a test tells it to, and remembers what it was asked.

It refuses what a provider would (request_rules), in both APIs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from fakes.request_rules import broken_rules

from odek.model import wire
from odek.model.anthropic import AnthropicApi
from odek.model.openai import OpenAiApi
from odek.model.provider import RequestOptions
from odek.model.types import Message, Reply, ToolCall, ToolSpec, Usage

NO_USAGE = Usage()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """What `complete` was called with."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]


class ScriptedModel:
    """Gives the replies of a list, one a call; an exception in the list is raised instead."""

    def __init__(self, replies: Sequence[Reply | BaseException], *, window: int | None = None) -> None:
        """`window` is what the model knows of its own."""
        self._replies = list(replies)
        self._window = window
        self.requests: list[ModelRequest] = []
        self.begun: list[ModelRequest] = []
        """what it was to begin ahead"""
        self.connected = 0
        """how often it was to connect"""

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSpec], on_text: Callable[[str], None]) -> Reply:
        self.requests.append(ModelRequest(messages=tuple(messages), tools=tuple(tools)))
        _require_acceptable(messages, tools)
        if len(self.requests) > len(self._replies):
            raise AssertionError(f"unscripted call {len(self.requests)} of the model; last: {messages[-1]!r}")
        reply = self._replies[len(self.requests) - 1]
        if isinstance(reply, BaseException):
            raise reply
        if reply.message.content:
            on_text(reply.message.content)
        return reply

    def ahead(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> AbstractContextManager[None]:
        self.begun.append(ModelRequest(messages=tuple(messages), tools=tuple(tools)))
        return nullcontext()

    def connect(self) -> None:
        self.connected += 1

    def window(self, conversation_tokens: int) -> int | None:  # noqa: ARG002  part of the protocol
        return self._window

    def assert_all_used(self) -> None:
        assert len(self.requests) == len(self._replies), f"{len(self._replies)} scripted, {len(self.requests)} used"


def text_reply(text: str, *, stop: str = "stop", usage: Usage = NO_USAGE) -> Reply:
    """Return a final answer."""
    return Reply(message=Message(role="assistant", content=text), usage=usage, stop=stop)


def call_reply(
    *calls: tuple[str, object], content: str = "", stop: str = "tool_calls", usage: Usage = NO_USAGE
) -> Reply:
    """Return a reply with calls, each (name, arguments); arguments are an object or raw text.

    The ids are call_1, call_2, … within the reply.
    """
    texts = [(name, given if isinstance(given, str) else json.dumps(given)) for name, given in calls]
    tool_calls = tuple(
        ToolCall(id=f"call_{number}", name=name, arguments=arguments)
        for number, (name, arguments) in enumerate(texts, start=1)
    )
    return Reply(message=Message(role="assistant", content=content, tool_calls=tool_calls), usage=usage, stop=stop)


def _require_acceptable(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> None:
    """Fail when a provider would refuse what would be sent to it."""
    options = RequestOptions(model="m")
    for path, api in (("/chat/completions", OpenAiApi(options)), ("/messages", AnthropicApi(options))):
        broken = broken_rules(path, wire.encode_body(api.body(messages, tools, stream=True)))
        assert not broken, f"requests that a provider would refuse: {broken}"
