"""The settings in force, each with its source, no secrets (R-19). Pure."""

from __future__ import annotations

from collections.abc import Mapping

from odek.config.settings import OPTIONS, Settings
from odek.text import truncate, visible

_VALUE_CHARS = 60
_PENDING = ", counts once approved"


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


def view_rows(
    shown: Mapping[str, Mapping[str, object]], *, everything: bool = True
) -> tuple[tuple[str, str, str], ...]:
    """Return the same for people: key, value, and who set it or whether it waits for approval; safe to print.

    Without `everything` those that are set or wait for approval.
    """
    return tuple(
        (key, _as_text(entry["value"]), visible(f"{entry['origin']}{_PENDING if entry.get('pending') else ''}"))
        for key, entry in shown.items()
        if everything or entry["source"] != "default" or entry.get("pending")
    )


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
