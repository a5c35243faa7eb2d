"""Recognise calls that a model writes into its text, where its server does not parse them (B110). Pure.

They are never carried out: a text that talks of a call is not one. What counts is an object
with the name of a tool that was offered and with arguments, marked as a call or standing alone at the end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator

from odek.patterns import pattern

_MARKED = pattern(
    r"<(?P<tag>tool_call|function_call|tools?|function_calls)>\s*(?P<inner>.{1,100000}?)\s*</(?P=tag)>"
    r"|<\|tool_call(?:_begin|s_section_begin)?\|>(?P<kimi>.{1,100000})"
    r"|\[TOOL_CALLS\]\s*(?P<mistral>.{1,100000})",
    re.DOTALL,
)
_NAMED = pattern(
    r"<function=(?P<one>[\w-]{1,64})>|<invoke name=\"(?P<two>[\w-]{1,64})\">|functions\.(?P<three>[\w-]{1,64}):\d"
    r"|<\uff5ctool\u2581sep\uff5c>(?P<four>[\w-]{1,64})"
)
_FENCED = pattern(r"```(?:json|tool_call|tool_code)?\s*(?P<inner>[\[{].{1,100000}?[\]}])\s*```\s*$", re.DOTALL)
_NAMES = ("name", "tool", "tool_name", "function", "function_name")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "tool_input")


def written_call(text: str, tools: Collection[str]) -> str:
    """Return the name of the tool that `text` pretends to call, "" when it calls none of `tools`."""
    if not tools:
        return ""
    named = (next(filter(None, match.groups()), "") for match in _NAMED.finditer(text))
    candidates = [*named, *(name for place in _places(text) for name in _called_in(place))]
    return next((name for name in candidates if name in tools), "")


def _places(text: str) -> Iterator[str]:
    """Yield what may be the JSON of a call."""
    for match in _MARKED.finditer(text):
        yield match["inner"] or match["kimi"] or match["mistral"]
    fenced = _FENCED.search(text)
    yield fenced["inner"] if fenced else text


def _called_in(text: str) -> Iterator[str]:
    text = text.strip()
    if text[:1] not in ("{", "["):
        return
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except (ValueError, RecursionError):
        return
    for item in value if isinstance(value, list) else [value]:
        name = _name_in(item)
        if name:
            yield name


def _name_in(value: object) -> str:
    if not isinstance(value, dict):
        return ""
    inner = value.get("function")
    if isinstance(inner, dict):
        value = inner
    has_arguments = any(isinstance(value.get(key), dict | str) for key in _ARGUMENTS)
    names = [value[key] for key in _NAMES if isinstance(value.get(key), str)]
    return names[0].removeprefix("functions.") if names and has_arguments else ""
