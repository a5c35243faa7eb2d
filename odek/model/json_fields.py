"""Fields of JSON from a server, none of which is trusted to have the right type. Pure."""

from __future__ import annotations

import json
from typing import Any


def parsed(text: str) -> object:
    """Return the JSON value that `text` is, None if it is not JSON."""
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value


def is_object(text: str) -> bool:
    """Return whether `text` is one JSON object."""
    return isinstance(parsed(text), dict)


def string(value: object) -> str:
    """Return `value` if it is text, else ""."""
    return value if isinstance(value, str) else ""


def mapping(value: object) -> dict[str, Any]:
    """Return `value` if it is an object, else {}."""
    return value if isinstance(value, dict) else {}


def count(value: object) -> int:
    """Return `value` if it is a whole number above zero, else 0."""
    return value if type(value) is int and value > 0 else 0


def arguments_text(value: object) -> str:
    """Return the arguments of a call as JSON text, which some servers send as an object; "" for none."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)
