"""What providers refuse in a request: pairing, order, ids, doubled or empty messages, bad text, bad schemas.

Both fakes of a model, the server and the scripted one, look at every request with these rules, so that
no test passes on one that a real provider would send back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_ID = re.compile(r"[A-Za-z0-9_-]+")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MOST_MARKERS = 4
_ROLES = ("system", "user", "assistant", "tool")
_AFTER = {("system", "system"), ("user", "system"), ("assistant", "user"), ("user", "assistant"), ("assistant", "tool")}
"""a role and the one before it; results are looked at by their calls"""
_TYPES = ("string", "integer", "number", "boolean", "array", "object")


def broken_rules(path: str, body: bytes) -> list[str]:
    """Return what is wrong with the request, [] when nothing is."""
    try:
        request = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
        json.dumps(request, ensure_ascii=False).encode("utf-8")
    except ValueError as error:
        return [f"no JSON in UTF-8: {error}"]
    anthropic = path.partition("?")[0].endswith("/messages")
    rules = _anthropic_rules if anthropic else _openai_rules
    try:
        return [*_common_rules(request), *rules(request), *_tool_rules(request, anthropic=anthropic)]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        return [f"a field is missing or of another type: {error!r}"]


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _common_rules(request: dict[str, Any]) -> Iterator[str]:
    if not isinstance(request["model"], str) or not request["model"]:
        yield "no model"
    if not request["messages"]:
        yield "no messages"
    if not isinstance(request.get("stream", False), bool):
        yield "stream is no boolean"
    if not 0 <= request.get("temperature", 0) <= 2:
        yield "the temperature"


def _openai_rules(request: dict[str, Any]) -> Iterator[str]:
    messages: list[dict[str, Any]] = request["messages"]
    open_calls: list[str] = []
    for place, message in enumerate(messages):
        role = message["role"]
        yield from (f"message {place}: {rule}" for rule in _message_rules(message))
        if role == "system" and place:
            yield f"message {place}: a system message in the middle"
        if role == "tool":
            if not open_calls or message["tool_call_id"] != open_calls.pop(0):
                yield f"message {place}: a result without its call, or out of order"
            continue
        if open_calls:
            yield f"message {place}: calls without results before it: {open_calls}"
        open_calls = [call["id"] for call in message.get("tool_calls", [])]
        if len(set(open_calls)) < len(open_calls):
            yield f"message {place}: two calls with one id"
        before = messages[place - 1]["role"] if place else "system"
        if (role, before) not in _AFTER:
            yield f"message {place}: {role} after {before}"  # A23: as strict chat templates have it
    if open_calls:
        yield f"calls without results at the end: {open_calls}"
    if messages and messages[-1]["role"] not in ("user", "tool"):
        yield "nothing is asked at the end"
    if "stream_options" in request and not request.get("stream"):
        yield "options of a stream without one"


def _message_rules(message: Mapping[str, Any]) -> Iterator[str]:
    role, content = message["role"], message.get("content")
    calls = message.get("tool_calls", [])
    if role not in _ROLES:
        yield f"the role {role!r}"
    if not isinstance(content, (str, list)) and not (content is None and calls):
        yield "content that is no text"
    if not content and not calls and role != "tool":
        yield "it is empty"
    if (calls or "tool_calls" in message) and (role != "assistant" or not calls):
        yield f"calls of {role}: {calls}"
    for call in calls:
        if not call["id"] or call["type"] != "function":
            yield f"a call without an id or of another type: {call}"
        yield from _call_rules(call["function"])


def _call_rules(function: dict[str, Any]) -> Iterator[str]:
    if not _NAME.fullmatch(function["name"]):
        yield f"the name {function['name']!r}"
    if not isinstance(json.loads(function["arguments"]), dict):
        yield "arguments that are no object"


def _tool_rules(request: dict[str, Any], *, anthropic: bool) -> Iterator[str]:
    tools = request.get("tools")
    if tools == []:
        yield "an empty list of tools"
    names: set[str] = set()
    for tool in tools or ():
        function = tool if anthropic else tool["function"]
        name = function["name"]
        if not anthropic and tool["type"] != "function":
            yield f"tool {name}: the type {tool['type']!r}"
        if not _NAME.fullmatch(name) or name in names:
            yield f"tool {name!r}: no name, or that of another tool"
        names.add(name)
        if not isinstance(function.get("description", ""), str):
            yield f"tool {name}: the description"
        schema = function["input_schema"] if anthropic else function["parameters"]
        if not anthropic and "properties" not in schema:
            yield f"tool {name}: no properties"
        if schema["type"] != "object":
            yield f"tool {name}: its arguments are no object"
        yield from (f"tool {name}: {rule}" for rule in _schema_rules(schema, "arguments"))


def _schema_rules(schema: Mapping[str, Any], place: str) -> Iterator[str]:
    kind = schema["type"]
    if kind not in _TYPES:
        yield f"{place}: the type {kind!r}"
    if kind == "object":
        properties: Mapping[str, Any] = schema.get("properties", {})
        if set(schema.get("required", ())) - set(properties):
            yield f"{place}: something is required that is not described"
        for name, inner in properties.items():
            yield from _schema_rules(inner, f"{place}.{name}")
    if kind == "array":
        yield from _schema_rules(schema["items"], f"{place}[]")


def _anthropic_rules(request: dict[str, Any]) -> Iterator[str]:
    wanted = "user"
    seen: set[str] = set()
    open_uses: list[str] = []
    for place, turn in enumerate(request["messages"]):
        if turn["role"] != wanted:
            yield f"turn {place}: role {turn['role']}"
        wanted = "assistant" if turn["role"] == "user" else "user"
        if not turn["content"]:
            yield f"turn {place}: it is empty"
        results = [block["tool_use_id"] for block in turn["content"] if block["type"] == "tool_result"]
        first = [block["type"] for block in turn["content"][: len(results)]]
        if results != open_uses or set(first) - {"tool_result"}:
            yield f"turn {place}: results {results} for calls {open_uses}"
        uses = [block for block in turn["content"] if block["type"] == "tool_use"]
        open_uses = [block["id"] for block in uses]
        yield from (f"turn {place}: {rule}" for block in turn["content"] for rule in _block_rules(block))
        yield from (f"turn {place}: the id {id_!r}" for id_ in open_uses if id_ in seen or not _ID.fullmatch(id_))
        seen.update(open_uses)
    if open_uses:
        yield f"calls without results at the end: {open_uses}"
    if wanted == "user":
        yield "nothing is asked at the end"
    yield from _option_rules(request, used=bool(seen))


def _block_rules(block: dict[str, Any]) -> Iterator[str]:
    if block["type"] == "text" and not block["text"].strip():
        yield "an empty text"
    if block["type"] == "tool_use" and (not isinstance(block["input"], dict) or not _NAME.fullmatch(block["name"])):
        yield "a call that is none"
    if block["type"] == "thinking" and not block["signature"]:
        yield "thinking without a signature"


def _option_rules(request: dict[str, Any], *, used: bool) -> Iterator[str]:
    thinking = request.get("thinking", {})
    if request["max_tokens"] <= thinking.get("budget_tokens", 0):
        yield "no room beside the thinking"
    if thinking.get("type") in ("enabled", "adaptive") and request.get("temperature", 1) != 1:
        yield "a temperature beside thinking"
    if not 0 <= request.get("temperature", 1) <= 1:
        yield "the temperature"
    if used and not request.get("tools"):
        yield "no tools declared"
    if json.dumps(request).count('"cache_control"') > _MOST_MARKERS:
        yield "too many cache markers"
