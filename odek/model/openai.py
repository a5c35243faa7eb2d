"""The dialect of OpenAI-compatible servers (R-82): odek's conversation as requests of `/chat/completions`.

What a server refused is left out of the next ones. `openai_stream` reads the answers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from odek.model import openai_stream
from odek.model.calls import NewId
from odek.model.dialect import Refusals, RequestOptions, is_refusal
from odek.model.errors import ModelError
from odek.model.ids import is_short
from odek.model.openai_request import AS_DOCUMENTED, Form, extra_fields, request_body
from odek.model.openai_stream import REASONING_FIELDS
from odek.model.types import Message, Reply, ToolSpec

# llama-cpp-python says with a 500 that a message is not of the form that it wants
_CHECKED = (400, 422, 500)
_NO_KEY = (401, 403)
_SUBSCRIPTION = re.compile(r"subscription key|api-key", re.IGNORECASE)
_WANTS_IDS = re.compile(r"\btool[_ ]?(?:call|use)s?\b.{0,40}\bid\b|\btool_?(?:call|use)_?id\b", re.IGNORECASE)
_WANTS_PROPERTIES = re.compile(r"\bproperties\b.{0,80}\b(?:non-empty|empty)\b", re.IGNORECASE)
_MISSES = re.compile(
    r"\b(?:miss(?:ing|es)|require[ds]?|needs?|absent|lacks|must be (?:passed|sent|provided|included))\b", re.IGNORECASE
)
_MINDS = re.compile(
    r"\b(?:un\w+|not (?:permitted|allowed|supported)|extra|additional|must not|invalid)\b", re.IGNORECASE
)
_WANTS_TEXT = re.compile(r"\bcontent\b.{0,80}\b(?:valid|be a|expected a) string\b")


class OpenAiDialect:
    """Implements dialect.Dialect."""

    def __init__(self, options: RequestOptions) -> None:
        self._options = options
        self._refusals = Refusals(options.optional | {"stream_options"})
        self._form = AS_DOCUMENTED
        self._sent: frozenset[str] = frozenset()
        self._foreign_ids = False
        self._own_header = False
        self._bare_tried = self._bare_on_trial = False

    def chat_path(self, base: str) -> str:
        """See Dialect."""
        return base + "/chat/completions"

    def models_path(self, base: str) -> str:
        """See Dialect."""
        return base + "/models"

    def headers(self, api_key: str) -> dict[str, str]:
        """Return the key; servers on this machine often want none, Azure's deployments want it by another name."""
        if not api_key:
            return {}
        return {"api-key": api_key} if self._own_header else {"Authorization": f"Bearer {api_key}"}

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
            form=self._form,
        )
        self._sent = extra_fields(messages)
        self._foreign_ids = any(not is_short(call.id) for message in messages for call in message.tool_calls)
        if "stream_options" in self._refusals:
            body.pop("stream_options", None)
        return body

    def learn(self, error: ModelError) -> bool:
        """See Dialect. What a refusal names is left out, or sent, from then on."""
        if error.status in _NO_KEY and not self._own_header and _SUBSCRIPTION.search(error.said):
            self._own_header = True
            return True
        changed = self._reform(error)
        if changed is not None:
            self._form = changed
            return True
        return (
            self._refusals.add("stream_options", error, "stream_options")
            or self._refusals.add("temperature", error, "temperature")
            or self._refusals.add("thinking", error, "thinking", "reasoning_effort")
            or self._try_bare(error)
        )

    def _reform(self, error: ModelError) -> Form | None:
        """Return the form of the next request if `error` tells of another one than this."""
        form, detail = self._form, error.said
        if form.null_content and error.status in _CHECKED and _WANTS_TEXT.search(detail):
            return replace(form, null_content=False)
        if not is_refusal(error):
            return None
        if self._foreign_ids and not form.short_ids and _WANTS_IDS.search(detail):
            return replace(form, short_ids=True)
        if form.empty_properties and _WANTS_PROPERTIES.search(detail):
            return replace(form, empty_properties=False)
        if form.tool_choice and is_refusal(error, "tool_choice"):
            return replace(form, tool_choice=False)
        wanted = _demanded_field(detail)
        if wanted:
            return replace(form, demanded=wanted) if wanted not in (form.demanded, *form.refused) else None
        named = set() if form.bare else {name for name in self._sent - form.refused if is_refusal(error, name)}
        if named and form.refused:  # the second time: it takes none at all, and there may be many
            return replace(form, bare=True, demanded="")
        return replace(form, refused=form.refused | named, demanded="") if named else None

    def _try_bare(self, error: ModelError) -> bool:
        """Return whether it may help to leave out all that is not documented; that is tried once.

        A refusal that follows says that it did not, so that it is taken back.
        """
        if self._bare_on_trial:
            self._form, self._bare_on_trial = replace(self._form, bare=False), False
            return False
        if self._bare_tried or not self._sent - self._form.refused or not is_refusal(error):
            return False
        self._form, self._bare_tried, self._bare_on_trial = replace(self._form, bare=True), True, True
        return True

    def new_assembler(self, new_id: NewId) -> openai_stream.ReplyAssembler:
        """See Reader."""
        self._bare_on_trial = False
        return openai_stream.ReplyAssembler(new_id)

    def parse_reply(self, payload: object, new_id: NewId) -> Reply:
        """See Reader."""
        self._bare_on_trial = False
        return openai_stream.parse_reply(payload, new_id)


def _demanded_field(detail: str) -> str:
    """Return the field of reasoning that a refusal misses, "" for none."""
    for name in REASONING_FIELDS[:-1]:  # the last one is also the name of an option
        if re.search(rf"(?<![a-z_]){name}(?![a-z_])", detail) and _MISSES.search(detail) and not _MINDS.search(detail):
            return name
    return ""
