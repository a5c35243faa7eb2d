"""The `dangerous` object: JSON to DangerSettings, every name and word checked (F-2, F-82). Pure."""

from __future__ import annotations

from typing import cast

from odek.config.settings import Action, DangerSettings
from odek.errors import ConfigError
from odek.strict_json import described, kind_of
from odek.text import visible

CLASSES = (
    "safe", "local_write", "install", "network_egress", "code_execution", "system_write", "unknown", "destructive",
    "blocked", "persistence", "unread_exec", "network_upload",
)  # fmt: skip
ACTIONS = ("allow", "prompt", "deny")
NON_INTERACTIVE = ("allow", "deny")
FIELDS = ("action", "classes", "allowlist", "denylist", "non_interactive")
NESTED = "sandboxed"


def parse_dangerous(value: object, origin: str) -> DangerSettings:
    """Return the policy that `value` describes. Raises ConfigError with the path of what is wrong."""
    document = _object(value, origin)
    _check_names(document, (*FIELDS, NESTED), origin)
    nested = document.get(NESTED)
    return _policy(document, origin, None if nested is None else _parse_nested(nested, f"{origin}.{NESTED}"))


def _parse_nested(value: object, origin: str) -> DangerSettings:
    document = _object(value, origin)
    _check_names(document, FIELDS, origin)
    return _policy(document, origin, None)


def _policy(document: dict[str, object], origin: str, sandboxed: DangerSettings | None) -> DangerSettings:
    action = document.get("action")
    non_interactive = document.get("non_interactive")
    return DangerSettings(
        action=None if action is None else cast("Action", _word(action, ACTIONS, f"{origin}.action")),
        classes=_classes(document.get("classes"), f"{origin}.classes"),
        allowlist=_commands(document.get("allowlist"), f"{origin}.allowlist"),
        denylist=_commands(document.get("denylist"), f"{origin}.denylist"),
        non_interactive="allow"
        if non_interactive is not None
        and _word(non_interactive, NON_INTERACTIVE, f"{origin}.non_interactive") == "allow"
        else "deny",
        sandboxed=sandboxed,
    )


def _classes(value: object, origin: str) -> tuple[tuple[str, Action], ...]:
    if value is None:
        return ()
    document = _object(value, origin)
    _check_names(document, CLASSES, origin)
    classes = tuple(
        (name, cast("Action", _word(word, ACTIONS, f"{origin}.{name}"))) for name, word in sorted(document.items())
    )
    if dict(classes).get("blocked", "deny") != "deny":
        raise ConfigError(f"{origin}.blocked can only be deny", hint="remove it: nothing lifts that class")
    return classes


def _commands(value: object, origin: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ConfigError(f"{origin} must be a list of strings, not {kind_of(value)}", hint=f"correct {origin}")
    for index, entry in enumerate(value):
        if not isinstance(entry, str):
            raise ConfigError(f"{origin}[{index}] must be a string, not {kind_of(entry)}", hint=f"correct {origin}")
        if not entry.strip():  # an empty prefix would match, and refuse, everything
            raise ConfigError(f"{origin}[{index}] is empty", hint="remove the empty entry")
    return tuple(value)


def _word(value: object, words: tuple[str, ...], origin: str) -> str:
    if not isinstance(value, str) or value not in words:
        raise ConfigError(f"{origin} is {described(value)}", hint=f"use {' or '.join(words)}")
    return value


def _object(value: object, origin: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ConfigError(f"{origin} must be an object, not {kind_of(value)}", hint=f"correct {origin}")
    return value


def _check_names(document: dict[str, object], known: tuple[str, ...], origin: str) -> None:
    for name in document:
        if name not in known:
            raise ConfigError(f'unknown key "{visible(name)}" in {origin}', hint=f"use {' or '.join(known)}")
