"""The `dangerous` object: JSON to DangerSettings, every name and word checked (F-2, F-82). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, cast

from odek.config.values import Kind, require_known_keys, require_object
from odek.errors import ConfigError
from odek.strict_json import described, kind_of, quoted

CLASSES = (
    "safe", "local_write", "install", "network_egress", "code_execution", "system_write", "unknown", "destructive",
    "blocked", "persistence", "unread_exec", "network_upload",
)  # fmt: skip
"""names in `classes`; the last two are accepted, and nothing depends on them"""
GRANTABLE = tuple(name for name in CLASSES if name not in ("blocked", "unread_exec", "network_upload"))
"""classes that --allow takes"""
ACTIONS = ("allow", "prompt", "deny")
NON_INTERACTIVE = ("allow", "deny")
FIELDS = ("action", "classes", "allowlist", "denylist", "non_interactive")
NESTED = "sandboxed"

Action = Literal["allow", "prompt", "deny"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DangerSettings:
    """What is allowed, asked or refused by class; an operator's alone."""

    action: Action | None = None
    """for classes without an entry of their own; None: the built-in table"""
    classes: tuple[tuple[str, Action], ...] = ()
    allowlist: tuple[str, ...] = ()
    denylist: tuple[str, ...] = ()
    non_interactive: Literal["allow", "deny"] = "deny"
    """the meaning of "prompt" where no person can be asked"""
    sandboxed: DangerSettings | None = None
    """replaces the rest for commands that really run in the container (D-6)"""


class PolicyKind(Kind[DangerSettings]):
    """The `dangerous` object, which only a file can give."""

    name = "object"

    def __init__(self) -> None:
        self.schema = _policy_schema(nested=True)

    def from_json(self, raw: object, origin: str) -> DangerSettings | None:
        return None if raw is None else parse_dangerous(raw, origin)

    def shown(self, value: object) -> object:
        return _shown_policy(cast("DangerSettings", value))

    def initial(self, default: object) -> object | None:  # noqa: ARG002 - without `action`, which outweighs the table
        return {"classes": {}, "allowlist": [], "denylist": [], "non_interactive": "deny"}


def parse_dangerous(value: object, origin: str) -> DangerSettings:
    """Return the policy that `value` describes. Raises ConfigError with the path of what is wrong."""
    document = require_object(value, origin)
    require_known_keys(document, (*FIELDS, NESTED), origin)
    nested = document.get(NESTED)
    return _policy(document, origin, None if nested is None else _parse_nested(nested, f"{origin}.{NESTED}"))


def parse_granted(names: tuple[str, ...], origin: str) -> tuple[str, ...]:
    """Return classes that need no approval in a run. Raises ConfigError for what is none or cannot be allowed."""
    for name in names:
        if name == "blocked":
            raise ConfigError(f'{origin}: "blocked" can only be denied', hint="nothing lifts that class")
        if name not in GRANTABLE:
            raise ConfigError(f"{origin}: {quoted(name)} is not a class of danger", hint=f"use {', '.join(GRANTABLE)}")
    return tuple(dict.fromkeys(names))


def grant(policy: DangerSettings, names: tuple[str, ...], origin: str) -> DangerSettings:
    """Return `policy` with these classes allowed, on the host and in the sandbox.

    Raises ConfigError for one that the policy denies by name: of the operator's two words the stricter one was meant.
    """
    denied = [name for name in names if dict(policy.classes).get(name) == "deny"]
    if denied:
        raise ConfigError(
            f"{origin} allows {denied[0]}, which the settings deny (dangerous.classes)", hint="take one of them back"
        )
    allowed: dict[str, Action] = dict.fromkeys(names, "allow")
    classes = tuple(sorted((dict(policy.classes) | allowed).items()))
    inner = policy.sandboxed and grant(policy.sandboxed, names, origin)
    return replace(policy, classes=classes, sandboxed=inner) if names else policy


def _parse_nested(value: object, origin: str) -> DangerSettings:
    document = require_object(value, origin)
    require_known_keys(document, FIELDS, origin)
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
    document = require_object(value, origin)
    require_known_keys(document, CLASSES, origin)
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


def _policy_schema(*, nested: bool) -> Mapping[str, object]:
    commands = {"type": "array", "items": {"type": "string", "minLength": 1}}
    actions = {name: {"enum": list(ACTIONS) if name != "blocked" else ["deny"]} for name in CLASSES}
    properties: dict[str, object] = {
        "action": {"enum": [*ACTIONS, None]},
        "classes": {"type": "object", "properties": actions, "additionalProperties": False},
        "allowlist": commands,
        "denylist": commands,
        "non_interactive": {"enum": list(NON_INTERACTIVE)},
    }
    if nested:
        properties[NESTED] = _policy_schema(nested=False)
    return {"type": "object", "properties": properties, "additionalProperties": False}
