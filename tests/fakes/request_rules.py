"""What providers refuse in a request: pairing, order, ids, empty texts. The server of the tests looks at
every request with these rules, so that no test passes on one that a real provider would send back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_ID = re.compile(r"[A-Za-z0-9_-]+")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_MOST_MARKERS = 4


def broken_rules(path: str, body: bytes) -> list[str]:
    """Return what is wrong with the request, [] when nothing is."""
    try:
        request = json.loads(body.decode("utf-8"))
    except ValueError as error:
        return [f"no JSON in UTF-8: {error}"]
    rules = _anthropic_rules if path.endswith("/messages") else _openai_rules
    return [] if "messages" not in request else list(rules(request))


def _openai_rules(request: dict[str, Any]) -> Iterator[str]:
    messages: list[dict[str, Any]] = request["messages"]
    open_calls: list[str] = []
    for place, message in enumerate(messages):
        role = message["role"]
        if role == "system" and place:
            yield f"message {place}: a system message in the middle"
        if role == "tool":
            if not open_calls or message["tool_call_id"] != open_calls.pop(0):
                yield f"message {place}: a result without its call, or out of order"
            continue
        if open_calls:
            yield f"message {place}: calls without results before it: {open_calls}"
        calls = message.get("tool_calls", [])
        open_calls = [call["id"] for call in calls]
        if len(set(open_calls)) < len(open_calls):
            yield f"message {place}: two calls with one id"
        yield from (f"message {place}: {rule}" for call in calls for rule in _call_rules(call["function"]))
        if role == "assistant" and place and message == messages[place - 1]:
            yield f"message {place}: the same as the one before"
    if open_calls:
        yield f"calls without results at the end: {open_calls}"


def _call_rules(function: dict[str, Any]) -> Iterator[str]:
    if not _NAME.fullmatch(function["name"]):
        yield f"the name {function['name']!r}"
    if not isinstance(json.loads(function["arguments"]), dict):
        yield "arguments that are no object"


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
