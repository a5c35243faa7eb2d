"""What a tool of a server answers, as text for the model (R-201). Pure.

The text is foreign: who shows it redacts it, cuts it and puts it between untrusted tags.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from odek.text import truncate, visible

LIMIT_CHARACTERS = 50_000
_LABEL_CHARACTERS = 200


def result_text(result: Mapping[str, Any]) -> str:
    """Return the contents of a result, joined: texts in full, everything else by kind, name and size."""
    content = result.get("content")
    parts = [_part(item) for item in content] if isinstance(content, list) else []
    structured = result.get("structuredContent")
    try:
        if structured is not None and not any(_says(part, structured) for part in parts):
            parts.append(json.dumps(structured, ensure_ascii=False))
    except RecursionError:
        parts.append("[structured content that is nested too deeply]")
    return "\n".join(part for part in parts if part)


def is_failed(result: Mapping[str, Any]) -> bool:
    """Return whether the tool says that it failed, or answers with what is not a result."""
    return result.get("isError") is True or result.get("resultType", "complete") != "complete"


def unfinished(result: Mapping[str, Any]) -> str:
    """Return why a result is none, "" for one that is."""
    kind = result.get("resultType", "complete")
    if kind == "complete":
        return ""
    if kind == "input_required":
        return "the tool asks for more input, which odek does not give (input_required)"
    return f"the tool answers with a result of an unknown kind ({_label(kind)})"


def shorten(text: str, limit: int = LIMIT_CHARACTERS) -> str:
    """Return `text`, or its head and tail with a mark that says how much is left out between them."""
    if len(text) <= limit:
        return text
    side = limit // 2
    return f"{text[:side]}\n[… {len(text) - 2 * side} characters left out …]\n{text[-side:]}"


def _part(item: object) -> str:
    if not isinstance(item, dict):
        return "[content that is not an object]"
    kind = item.get("type")
    if kind == "text":
        return item["text"] if isinstance(item.get("text"), str) else "[a text that is not a string]"
    if kind in ("image", "audio"):
        return f"[{kind}: {_label(item.get('mimeType'))}, {_size(item.get('data'))}]"
    if kind == "resource_link":
        return f"[link: {_label(item.get('name'))}, {_label(item.get('uri'))}, {_label(item.get('mimeType'))}]"
    resource = item.get("resource")
    if kind == "resource" and isinstance(resource, dict):
        named = f"{_label(resource.get('uri'))}, {_label(resource.get('mimeType'))}"
        if isinstance(resource.get("text"), str):
            return f"[resource: {named}]\n{resource['text']}"
        return f"[resource: {named}, {_size(resource.get('blob'))}]"
    return f"[content of an unknown kind: {_label(kind)}]"


def _says(part: str, structured: object) -> bool:
    """Return whether a text is the structured content, or its one value: SDKs put both forms into a result."""
    values = list(structured.values()) if isinstance(structured, dict) and len(structured) == 1 else []
    if any(part == value for value in values):
        return True
    try:
        parsed = json.loads(part)
    except ValueError:
        return False
    return bool(parsed == structured or parsed in values)


def _label(value: object) -> str:
    return visible(truncate(value, _LABEL_CHARACTERS)) if isinstance(value, str) else "unknown"


def _size(data: object) -> str:
    """Return the size of base64 text, without decoding it."""
    return f"{len(data.rstrip('=')) * 3 // 4} bytes" if isinstance(data, str) else "no data"
