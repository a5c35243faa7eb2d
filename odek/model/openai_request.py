"""odek's conversation as the body of an OpenAI-compatible `/chat/completions`. Pure.

A message goes back to its server as it came: reasoning under the name it came by, whatever stood beside it or
beside the function of a call. A `Form` says what one server wants otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from odek.model.extras import from_json
from odek.model.ids import CallIds, short
from odek.model.openai_stream import IN_PARTS, REASONING_FIELDS
from odek.model.order import alternating
from odek.model.thinking import is_tag, joined
from odek.model.types import Message, ToolCall, ToolSpec
from odek.model.wire import function_name, valid_arguments

THINKING_LEVELS = ("low", "medium", "high")


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """What a server wants otherwise, as its refusals told."""

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


AS_DOCUMENTED = Form()


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
    form: Form = AS_DOCUMENTED,
) -> dict[str, Any]:
    """Return the body of a request.

    `temperature` None or below zero is not sent. `thinking` is "", "enabled", "disabled" or a
    level; `thinking_budget` counts tokens and matters to "enabled" only. Any other `thinking`
    raises ValueError (settings have been checked before). `caching` marks the system message and
    the first words of the user for providers that cache on demand only.
    """
    entries = message_entries(messages, form)
    body: dict[str, Any] = {"model": model, "messages": entries}
    if caching:
        _mark_for_cache(entries)
    body.update(_tool_fields(messages, tools, form))
    body["stream"] = stream
    if stream:
        body["stream_options"] = {"include_usage": True}
    if temperature is not None and temperature >= 0:
        body["temperature"] = temperature
    body.update(_thinking_json(thinking, thinking_budget))
    return body


def message_entries(messages: Sequence[Message], form: Form) -> list[dict[str, Any]]:
    """Return the messages of a request, in an order that every server takes."""
    ordered = alternating(messages)
    ids = CallIds(short if form.short_ids else _as_it_came)
    turn = max((place for place, message in enumerate(ordered) if message.role == "user"), default=0)
    usual = _usual_field(ordered, form)
    return [_entry(message, form, ids, usual, in_turn=place > turn) for place, message in enumerate(ordered)]


def extra_fields(messages: Sequence[Message]) -> frozenset[str]:
    """Return the names of what is sent of `messages` besides what the API documents."""
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
    if message.role != "assistant":
        return entry
    ids.begin(message.tool_calls)
    entry.update(_unrefused(from_json(message.extra), form))
    entry.update(_unrefused(_reasoning(message, form, usual, in_turn=in_turn), form))
    if message.tool_calls:
        entry["content"] = entry["content"] or (None if form.null_content else "")
        entry["tool_calls"] = [_call_json(call, form, ids) for call in message.tool_calls]
    return entry


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
            part = {"type": "text", "text": entry["content"], "cache_control": {"type": "ephemeral"}}
            entry["content"] = [part]


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
        # providers with a token budget accept no other temperature beside it
        return {"thinking": {"type": "enabled", "budget_tokens": budget}, "temperature": 1}
    if thinking == "disabled":
        return {"thinking": {"type": "disabled"}}
    if thinking in THINKING_LEVELS:
        return {"reasoning_effort": thinking}
    raise ValueError(f"unknown value of thinking: {thinking!r}")
