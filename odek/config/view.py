"""The settings in force, each with its source, no secrets (R-19). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast
from urllib.parse import urlsplit

from odek.config.options import LIVE, Option
from odek.config.settings import DangerSettings, Settings
from odek.text import truncate, visible

_VALUE_CHARS = 60


def view(settings: Settings) -> dict[str, dict[str, object]]:
    """Return {key: {"value", "source", "origin"}} for every option, fit for JSON.

    A secret is "set" or "unset", `sandbox_env` shows names only, a URL neither user, password nor
    query, the lists of `dangerous` their lengths.
    """
    return {
        option.key: {
            "value": _shown_value(option, settings),
            "source": settings.source_of(option.key).name.lower(),
            "origin": settings.origin_of(option.key),
        }
        for option in LIVE
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


def shown_url(url: str) -> str:
    """Return `url` without what may be a secret in it: user, password, query, fragment."""
    try:
        parts = urlsplit(url)
    except ValueError:  # such as a broken IPv6 address; nothing of it can be told apart
        return "(not a URL)"
    if parts.scheme == "replay":
        return url
    if not parts.netloc:  # not a URL that can work, and yet somebody's password may stand in it
        return url.partition("?")[0].rpartition("@")[2]
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl()


def _shown_value(option: Option, settings: Settings) -> object:
    value = settings.resolved[option.key].value
    if option.secret:
        return "set" if value else "unset"
    if option.key == "base_url":
        return shown_url(cast("str", value))
    if option.key == "dangerous":
        return _shown_policy(settings.dangerous)
    if option.kind == "map":
        return [name for name, _ in cast("Iterable[tuple[str, str]]", value)]
    return list(value) if isinstance(value, tuple) else value


def _shown_policy(policy: DangerSettings) -> dict[str, object]:
    shown: dict[str, object] = {
        "action": policy.action,
        "classes": dict(policy.classes),
        "allowlist": len(policy.allowlist),
        "denylist": len(policy.denylist),
        "non_interactive": policy.non_interactive,
    }
    if policy.sandboxed is not None:
        shown["sandboxed"] = _shown_policy(policy.sandboxed)
    return shown


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
