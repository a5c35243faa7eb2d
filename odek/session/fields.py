"""Fields of a session's JSON objects, checked as they are read. What is wrong is a ValueError for the user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from odek.model.types import Usage
from odek.session.ids import parse_time


def read_object(value: object) -> dict[str, Any]:
    """Return `value`, which must be a JSON object."""
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    return value


def read_text(fields: Mapping[str, Any], key: str, *, default: str | None = None) -> str:
    """Return the text under `key`; `default` stands for a missing one."""
    value = fields.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise ValueError(f'its field "{key}" is no text')
    return value


def read_time(fields: Mapping[str, Any], key: str) -> str:
    """Return the RFC 3339 time under `key`, as it is written there."""
    text = read_text(fields, key)
    try:
        parse_time(text)
    except (ValueError, OverflowError) as error:
        raise ValueError(f'its field "{key}" is no time') from error
    return text


def read_sandbox(fields: Mapping[str, Any]) -> bool:
    """Return the sandbox bit; where none is said, the closed side: true (R-2)."""
    value = fields.get("sandbox", True)
    if not isinstance(value, bool):
        raise ValueError('its field "sandbox" is neither true nor false')
    return value


def read_usage(value: object) -> Usage:
    """Return token counts; what is missing or no count is 0."""
    counts = value if isinstance(value, dict) else {}
    return Usage(**{key: counts[key] for key in usage_fields(Usage()) if type(counts.get(key)) is int})


def usage_fields(usage: Usage) -> dict[str, int]:
    """Return the JSON object of token counts."""
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_tokens": usage.cached_tokens,
    }
