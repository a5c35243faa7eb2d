"""The dialect of OpenAI-compatible servers (R-82): what `wire` knows, with what the server refused left out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from odek.model import wire
from odek.model.calls import NewId
from odek.model.dialect import Refusals, RequestOptions
from odek.model.errors import ModelError
from odek.model.types import Message, Reply, ToolSpec

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
        body = wire.request_body(
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

    def new_assembler(self, new_id: NewId) -> wire.ReplyAssembler:
        """See Reader."""
        return wire.ReplyAssembler(new_id)

    def parse_reply(self, payload: object, new_id: NewId) -> Reply:
        """See Reader."""
        return wire.parse_reply(payload, new_id)
