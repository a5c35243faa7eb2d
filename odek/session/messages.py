"""Messages as JSON objects, the form that sessions are documented to have.

The fields are those of an OpenAI-compatible chat, so that a stored conversation can be read by
other tools. What a model's server sent besides is stored as it came, for it wants it back (`extra` of
messages and calls). Fields that odek does not know are handed back beside any other message and written again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from odek.model.extras import from_json, to_json
from odek.model.types import Message, Role, ToolCall

Redact = Callable[[str], str]

_ROLES: Mapping[str, Role] = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_REASONING = "reasoning_content"
_REASONING_FIELD = "reasoning_field"  # the name by which it came
_STATE = "reasoning_state"
_KNOWN = frozenset({"role", "content", "name", "tool_calls", "tool_call_id", _REASONING, _REASONING_FIELD, _STATE})

_CALL_FIELDS = frozenset({"id", "type", "function", "index"})


def encode_message(message: Message, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON object of `message`, with the unknown fields `extra` that it came with."""
    entry: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.reasoning:
        entry[_REASONING] = message.reasoning
    if message.reasoning_field:
        entry[_REASONING_FIELD] = message.reasoning_field
    if message.reasoning_state:
        entry[_STATE] = message.reasoning_state
    if message.tool_calls:
        entry["tool_calls"] = [_call_fields(call) for call in message.tool_calls]
    if message.tool_call_id:
        entry["tool_call_id"] = message.tool_call_id
    if message.name:
        entry["name"] = message.name
    return {**entry, **from_json(message.extra), **extra}


def decode_message(value: object) -> tuple[Message, dict[str, Any]]:
    """Return the message in a JSON object and the fields that are unknown. Raises ValueError."""
    if not isinstance(value, dict):
        raise ValueError("a message is no object")
    role = value.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise ValueError("a message has no known role")
    message = Message(
        role=_ROLES[role],
        content=_content(value.get("content")),
        tool_calls=_calls(value.get("tool_calls")),
        tool_call_id=_text(value, "tool_call_id"),
        name=_text(value, "name"),
        reasoning=_text(value, _REASONING),
        reasoning_field=_text(value, _REASONING_FIELD),
        reasoning_state=_text(value, _STATE),
    )
    unknown = {key: field for key, field in value.items() if key not in _KNOWN}
    if message.role == "assistant":
        return replace(message, extra=to_json(unknown)), {}
    return message, unknown


def redact_message(message: Message, redact: Redact) -> Message:
    """Return `message` with every text that a person or a program chose sent through `redact`."""
    clean = replace(
        message,
        content=redact(message.content),
        reasoning=redact(message.reasoning),
        extra=_redacted_extra(message.extra, redact),
        tool_calls=tuple(
            replace(call, arguments=redact(call.arguments), extra=_redacted_extra(call.extra, redact))
            for call in message.tool_calls
        ),
    )
    # a signature covers what it signs: changed, the whole is worth nothing
    signed = redact(message.reasoning_state) == message.reasoning_state and clean.reasoning == message.reasoning
    return clean if signed else replace(clean, reasoning_state="")


def _redacted_extra(extra: str, redact: Redact) -> str:
    """Return `extra` without the fields in which there is a secret; they may be signed as well."""
    fields = {key: value for key, value in from_json(extra).items() if not _holds_secret(value, redact)}
    return to_json(fields)


def _holds_secret(value: object, redact: Redact) -> bool:
    if isinstance(value, dict):
        return any(_holds_secret(inner, redact) for inner in value.values())
    if isinstance(value, list):
        return any(_holds_secret(inner, redact) for inner in value)
    return isinstance(value, str) and redact(value) != value


def _call_fields(call: ToolCall) -> dict[str, Any]:
    extra = from_json(call.extra)
    function = {"name": call.name, "arguments": call.arguments, **extra.pop("function", {})}
    return {"id": call.id, "type": "function", "function": function, **extra}


def _content(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, list):  # parts, as some providers and older tools have them
        return "".join(_text(part, "text") for part in value if isinstance(part, dict))
    if not isinstance(value, str):
        raise ValueError("the content of a message is no text")
    return value


def _calls(value: object) -> tuple[ToolCall, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ValueError("the tool calls of a message are no list")
    return tuple(_call(item) for item in value)


def _call(value: object) -> ToolCall:
    function = value.get("function") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(function, dict):
        raise ValueError("a tool call has no function")
    arguments = function.get("arguments", "")
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    inner = {key: field for key, field in function.items() if key not in ("name", "arguments")}
    extra = {key: field for key, field in value.items() if key not in _CALL_FIELDS}
    extra |= {"function": inner} if inner else {}
    return ToolCall(id=_text(value, "id"), name=_text(function, "name"), arguments=arguments, extra=to_json(extra))


def _text(owner: Mapping[str, Any], key: str) -> str:
    value = owner.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f'the field "{key}" of a message is no text')
    return value
