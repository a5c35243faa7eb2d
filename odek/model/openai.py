"""Requests to OpenAI-compatible servers (R-82): odek's conversation as the body of `/chat/completions`.

A message goes back to its server as it came: reasoning under the name it came by, and all other fields of the
message and of its calls. A `Form` holds what one server wants otherwise: what it refused is left out of the next
request. `openai_stream` reads the responses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from odek.model import openai_stream
from odek.model.errors import ModelError
from odek.model.extras import from_json
from odek.model.openai_stream import IN_PARTS, REASONING_FIELDS
from odek.model.provider import (
    NO_IMAGES_HINT,
    ProviderApi,
    RequestOptions,
    UnsupportedOptions,
    is_refusal,
    takes_no_images,
)
from odek.model.thinking import is_tag, joined
from odek.model.tool_call_stream import NewId
from odek.model.types import Message, Reply, ToolCall, ToolSpec
from odek.model.wire import (
    CallIds,
    alternating,
    function_name,
    is_short_id,
    short_id,
    shown_images,
    valid_arguments,
)
from odek.patterns import pattern

THINKING_LEVELS = ("low", "medium", "high")
# llama-cpp-python says with a 500 that a message is not of the form that it wants
_CHECKED = (400, 422, 500)
_NO_KEY = (401, 403)
_SUBSCRIPTION = pattern(r"subscription key|api-key", re.IGNORECASE)
_WANTS_IDS = pattern(r"\btool[_ ]?(?:call|use)s?\b.{0,40}\bid\b|\btool_?(?:call|use)_?id\b", re.IGNORECASE)
_WANTS_PROPERTIES = pattern(r"\bproperties\b.{0,80}\b(?:non-empty|empty)\b", re.IGNORECASE)
_MISSES = pattern(
    r"\b(?:miss(?:ing|es)|require[ds]?|needs?|absent|lacks|must be (?:passed|sent|provided|included))\b", re.IGNORECASE
)
_MINDS = pattern(r"\b(?:un\w+|not (?:permitted|allowed|supported)|extra|additional|must not|invalid)\b", re.IGNORECASE)
_WANTS_TEXT = pattern(r"\bcontent\b.{0,80}\b(?:valid|be a|expected a) string\b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What a server wants otherwise, learned from its refusals."""

    null_content: bool = True
    """whether a message that holds only calls has a content of null or of ""; some refuse the one, some the other"""
    refused: frozenset[str] = frozenset()
    """fields of messages and calls that are left out"""
    bare: bool = False
    """whether every field is left out that the API does not document"""
    demanded: str = ""
    """the field of reasoning that each message with calls must have"""
    short_ids: bool = False
    tool_choice: bool = True
    """whether a request for words alone may say so"""
    empty_properties: bool = True
    """whether a tool without arguments may be described with an empty object"""
    images: bool = True
    """whether messages may hold images"""


AS_DOCUMENTED = Form()


def request_body(
    options: RequestOptions,
    messages: Sequence[Message],
    tools: Sequence[ToolSpec],
    *,
    stream: bool,
    form: Form = AS_DOCUMENTED,
) -> dict[str, Any]:
    """Return the body of a request.

    Caching marks the system message and the first words of the user, for providers that cache on demand only.
    Raises ValueError for an unknown `thinking` (settings have been checked before).
    """
    entries = message_entries(messages, form)
    body: dict[str, Any] = {"model": options.model, "messages": entries}
    if options.caching:
        _mark_for_cache(entries)
    body.update(_tool_fields(messages, tools, form))
    body["stream"] = stream
    if stream:
        body["stream_options"] = {"include_usage": True}
    if options.temperature is not None and options.temperature >= 0:
        body["temperature"] = options.temperature
    body.update(_thinking_json(options.thinking, options.thinking_budget))
    return body


def message_entries(messages: Sequence[Message], form: Form) -> list[dict[str, Any]]:
    """Return the messages of a request, in an order that every server takes."""
    ordered = alternating(messages)
    ids = CallIds(short_id if form.short_ids else _as_it_came)
    turn = max((place for place, message in enumerate(ordered) if message.role == "user"), default=0)
    usual = _usual_field(ordered, form)
    return [_entry(message, form, ids, usual, in_turn=place > turn) for place, message in enumerate(ordered)]


def extra_fields(messages: Sequence[Message]) -> frozenset[str]:
    """Return the names of fields of `messages` that are sent though the API does not document them."""
    fields: set[str] = set()
    for message in messages:
        fields |= from_json(message.extra).keys()
        if message.reasoning or message.reasoning_field:
            fields.add(message.reasoning_field or REASONING_FIELDS[0])
        for call in message.tool_calls:
            extra = from_json(call.extra)
            fields |= extra.keys() - {"function"} | extra.get("function", {}).keys()
    return frozenset(fields)


def _as_it_came(wanted: str, attempt: int) -> str:
    return wanted if attempt == 1 else f"{wanted}_{attempt}"


def _usual_field(messages: Sequence[Message], form: Form) -> str:
    """Return the field of reasoning that messages with calls have even if it is empty (B83), "" for none."""
    if form.demanded:
        return form.demanded
    names = [message.reasoning_field for message in messages if message.reasoning_field in REASONING_FIELDS]
    return names[-1] if names else ""


def _entry(message: Message, form: Form, ids: CallIds, usual: str, *, in_turn: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.role == "tool":
        entry["tool_call_id"] = ids.find(message.tool_call_id)
        if message.name and not form.bare:
            entry["name"] = function_name(message.name)
        return entry
    if message.images:
        entry["content"] = _with_images(message, form)
    if message.role != "assistant":
        return entry
    ids.begin(message.tool_calls)
    entry.update(_unrefused(from_json(message.extra), form))
    entry.update(_unrefused(_reasoning(message, form, usual, in_turn=in_turn), form))
    if message.tool_calls:
        entry["content"] = entry["content"] or (None if form.null_content else "")
        entry["tool_calls"] = [_call_json(call, form, ids) for call in message.tool_calls]
    return entry


def _with_images(message: Message, form: Form) -> str | list[dict[str, Any]]:
    text, images = shown_images(message, taken=form.images)
    if not images:
        return text
    parts = [
        {"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{image.base64}"}}
        for image in images
    ]
    return [*parts, {"type": "text", "text": text}]


def _reasoning(message: Message, form: Form, usual: str, *, in_turn: bool) -> dict[str, Any]:
    """Return the field that holds the message's reasoning, which may be its content."""
    field = message.reasoning_field
    if form.demanded and message.tool_calls:
        return {form.demanded: message.reasoning}
    if is_tag(field):  # templates take it out of turns that are over, and want it in the present one
        return {"content": joined(field, message.reasoning, message.content)} if in_turn and not form.bare else {}
    if field == IN_PARTS:
        thoughts = {"type": "thinking", "thinking": [{"type": "text", "text": message.reasoning}]}
        words = [{"type": "text", "text": message.content}] if message.content else []
        return {} if form.bare or IN_PARTS in form.refused else {"content": [thoughts, *words]}
    if message.reasoning or field:
        return {field or usual or REASONING_FIELDS[0]: message.reasoning}
    return {usual: ""} if usual and message.tool_calls else {}


def _unrefused(fields: Mapping[str, Any], form: Form) -> dict[str, Any]:
    if form.bare:
        return {name: value for name, value in fields.items() if name in (form.demanded, "content")}
    return {name: value for name, value in fields.items() if name not in form.refused}


def _call_json(call: ToolCall, form: Form, ids: CallIds) -> dict[str, Any]:
    extra = _unrefused(from_json(call.extra), form)
    inner = _unrefused(extra.pop("function", {}), form)
    function = {"name": function_name(call.name), "arguments": valid_arguments(call.arguments), **inner}
    return {"id": ids.find(call.id), "type": "function", "function": function, **extra}


def _mark_for_cache(entries: list[dict[str, Any]]) -> None:
    """Put a marker on the first system and the first user entry; the system prompt stays where it is."""
    for role in ("system", "user"):
        entry = next((entry for entry in entries if entry["role"] == role and entry["content"]), None)
        if entry is not None:
            content = entry["content"]
            parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
            entry["content"] = [*parts[:-1], {**parts[-1], "cache_control": {"type": "ephemeral"}}]


def _tool_fields(messages: Sequence[Message], tools: Sequence[ToolSpec], form: Form) -> dict[str, Any]:
    """Return what the request says of tools. Those of the past are declared even if none may be used (B92)."""
    if tools:
        return {"tools": [_tool_json(tool, form) for tool in tools]}
    used = _used_tools(messages)
    if not used or not form.tool_choice:
        return {}
    return {"tools": [_tool_json(tool, form) for tool in used], "tool_choice": "none"}


def _used_tools(messages: Sequence[Message]) -> list[ToolSpec]:
    """Return the tools that were called before, as far as their calls tell."""
    arguments: dict[str, dict[str, Any]] = {}
    for call in (call for message in messages for call in message.tool_calls):
        given = json.loads(valid_arguments(call.arguments))
        arguments.setdefault(function_name(call.name), {}).update({key: {"type": "string"} for key in given})
    return [
        ToolSpec(name=name, description="", parameters={"type": "object", "properties": properties})
        for name, properties in arguments.items()
    ]


def _tool_json(tool: ToolSpec, form: Form) -> dict[str, Any]:
    parameters = dict(tool.parameters)
    if not parameters.get("properties") and not form.empty_properties:
        parameters.pop("properties", None)
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": parameters},
    }


def _thinking_json(thinking: str, budget: int) -> dict[str, Any]:
    if thinking == "":
        return {}
    if thinking == "enabled":
        # providers with a token budget accept no other temperature
        return {"thinking": {"type": "enabled", "budget_tokens": budget}, "temperature": 1}
    if thinking == "disabled":
        return {"thinking": {"type": "disabled"}}
    if thinking in THINKING_LEVELS:
        return {"reasoning_effort": thinking}
    raise ValueError(f"unknown value of thinking: {thinking!r}")


class OpenAiApi(ProviderApi):
    """The API of OpenAI and of the many servers that imitate it."""

    def __init__(self, options: RequestOptions) -> None:
        self._options = options
        self._refusals = UnsupportedOptions(options.optional | {"stream_options"})
        self._form = AS_DOCUMENTED
        self._sent: frozenset[str] = frozenset()
        self._foreign_ids = self._images = self._images_of_turn = False
        self._own_header = False
        self._bare_tried = self._bare_on_trial = False

    def chat_path(self, base: str) -> str:
        return base + "/chat/completions"

    def models_path(self, base: str) -> str:
        return base + "/models"

    def headers(self, api_key: str) -> dict[str, str]:
        """Return the key; servers on this machine often want none, Azure's deployments want it by another name."""
        if not api_key:
            return {}
        return {"api-key": api_key} if self._own_header else {"Authorization": f"Bearer {api_key}"}

    def body(self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, stream: bool) -> dict[str, Any]:
        options = replace(
            self._options,
            temperature=None if "temperature" in self._refusals else self._options.temperature,
            thinking="" if "thinking" in self._refusals else self._options.thinking,
        )
        body = request_body(options, messages, tools, stream=stream, form=self._form)
        self._sent = extra_fields(messages)
        turn = max((place for place, message in enumerate(messages) if message.role == "user"), default=0)
        self._images = any(message.images for message in messages) and self._form.images
        self._images_of_turn = any(message.images for message in messages[turn:])
        self._foreign_ids = any(not is_short_id(call.id) for message in messages for call in message.tool_calls)
        if "stream_options" in self._refusals:
            body.pop("stream_options", None)
        return body

    def adapt(self, error: ModelError) -> bool:
        """See ProviderApi. What a refusal names is left out, or sent, from then on."""
        if self._images and takes_no_images(error):
            self._form = replace(self._form, images=False)
            if self._images_of_turn:  # what the task is about is not left out unseen
                error.hint, error.retryable = NO_IMAGES_HINT, False
                return False
            return True
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

    def learned(self) -> dict[str, Any]:
        """See ProviderApi. A form that is on trial is not learned yet."""
        form = replace(self._form, bare=self._form.bare and not self._bare_on_trial)
        changed = {
            field.name: getattr(form, field.name)
            for field in fields(form)
            if getattr(form, field.name) != getattr(AS_DOCUMENTED, field.name)
        }
        lessons = {name: sorted(value) if isinstance(value, frozenset) else value for name, value in changed.items()}
        lessons |= {"options": self._refusals.refused} if self._refusals.refused else {}
        return {**lessons, "own_header": True} if self._own_header else lessons

    def recall(self, lessons: Mapping[str, Any]) -> None:
        known: dict[str, Any] = {}
        for field in fields(AS_DOCUMENTED):
            value, usual = lessons.get(field.name), getattr(AS_DOCUMENTED, field.name)
            if isinstance(usual, frozenset):
                names = [name for name in value if isinstance(name, str)] if isinstance(value, list) else []
                known[field.name] = frozenset(names)
            elif type(value) is type(usual):
                known[field.name] = value
        self._form = replace(AS_DOCUMENTED, **known)
        self._refusals.recall(lessons.get("options"))
        self._own_header = lessons.get("own_header") is True

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

    def new_accumulator(self, new_id: NewId) -> openai_stream.OpenAiAccumulator:
        self._bare_on_trial = False
        return openai_stream.OpenAiAccumulator(new_id)

    def parse_reply(self, payload: object, new_id: NewId) -> Reply:
        self._bare_on_trial = False
        return openai_stream.parse_reply(payload, new_id)


def _demanded_field(detail: str) -> str:
    """Return the field of reasoning that a refusal misses, "" for none."""
    for name in REASONING_FIELDS[:-1]:  # the last one is also the name of an option
        if re.search(rf"(?<![a-z_]){name}(?![a-z_])", detail) and _MISSES.search(detail) and not _MINDS.search(detail):
            return name
    return ""
