"""Messages as JSON objects, the form that sessions are documented to have.

The fields are those of an OpenAI-compatible chat, so that a stored conversation can be read by
other tools. Fields that odek does not know are handed back beside the message and written again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from odek.model.types import Message, Role, ToolCall

Redact = Callable[[str], str]

_ROLES: Mapping[str, Role] = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_KNOWN = frozenset({"role", "content", "name", "tool_calls", "tool_call_id", "reasoning_content"})


def encode_message(message: Message, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON object of `message`, with the unknown fields `extra` that it came with."""
    entry: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.reasoning:
        entry["reasoning_content"] = message.reasoning
    if message.tool_calls:
        entry["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        entry["tool_call_id"] = message.tool_call_id
    if message.name:
        entry["name"] = message.name
    return {**entry, **extra}


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
        reasoning=_text(value, "reasoning_content"),
    )
    return message, {key: field for key, field in value.items() if key not in _KNOWN}


def redact_message(message: Message, redact: Redact) -> Message:
    """Return `message` with every text that a person or a program chose sent through `redact`."""
    return replace(
        message,
        content=redact(message.content),
        reasoning=redact(message.reasoning),
        tool_calls=tuple(replace(call, arguments=redact(call.arguments)) for call in message.tool_calls),
    )


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
    return ToolCall(id=_text(value, "id"), name=_text(function, "name"), arguments=arguments)


def _text(owner: Mapping[str, Any], key: str) -> str:
    value = owner.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f'the field "{key}" of a message is no text')
    return value
