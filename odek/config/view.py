"""The settings in force, each with its source, no secrets (R-19). Pure."""

from __future__ import annotations

from collections.abc import Mapping

from odek.config.settings import OPTIONS, Settings
from odek.text import truncate, visible

_VALUE_CHARS = 60


def view(settings: Settings) -> dict[str, dict[str, object]]:
    """Return {key: {"value", "source", "origin"}} for every option, fit for JSON.

    A secret is "set" or "unset", `sandbox_env` shows names only, a URL neither user, password nor
    query, the lists of `dangerous` their lengths.
    """
    return {
        option.key: {
            "value": option.kind.shown(settings.resolved[option.key].value),
            "source": settings.source_of(option.key).name.lower(),
            "origin": settings.origin_of(option.key),
        }
        for option in OPTIONS
    }


def render_view(shown: Mapping[str, Mapping[str, object]]) -> str:
    """Return the same for people: one line an option, the value and who set it, and whether it waits for approval."""
    rows = [
        (key, _as_text(entry["value"]), f"{entry['origin']}{', counts once approved' if entry.get('pending') else ''}")
        for key, entry in shown.items()
    ]
    key_width = max(len(key) for key, _, _ in rows)
    value_width = max(len(value) for _, value, _ in rows)
    return "".join(f"{key:<{key_width}}  {value:<{value_width}}  {visible(origin)}\n" for key, value, origin in rows)


def _as_text(value: object) -> str:
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return truncate(visible(", ".join(value)), _VALUE_CHARS) or "-"
    if isinstance(value, dict):
        return " ".join(f"{name}={_as_text(member)}" for name, member in value.items()) or "-"
    return truncate(visible(str(value)), _VALUE_CHARS)
