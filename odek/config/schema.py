"""The JSON Schema of both files, for editors (R-20). Pure.

Draft 7, which the editors in use know. What no schema can say (a project may only lower a limit)
stands in the descriptions.
"""

from __future__ import annotations

import json

from odek.config.danger import ACTIONS, CLASSES, NESTED, NON_INTERACTIVE
from odek.config.options import APPROVE, FORBIDDEN, LIVE, LOWER_ONLY, ONLY_TRUE, Option
from odek.config.settings import Source

_DRAFT = "http://json-schema.org/draft-07/schema#"
_TYPES = {"bool": "boolean", "int": "integer", "float": "number", "str": "string"}
_PROJECT_NOTES = {
    APPROVE: " (asks for approval)",
    LOWER_ONLY: " (can only lower the operator's limit)",
    ONLY_TRUE: " (only true counts)",
}


def schema(source: Source) -> dict[str, object]:
    """Return the schema of ./odek.json (Source.PROJECT) or ~/.odek/config.json (Source.GLOBAL)."""
    for_project = source is Source.PROJECT
    properties: dict[str, object] = {"$schema": {"type": "string"}}
    groups: dict[str, dict[str, object]] = {}
    for option in LIVE:
        if not option.in_file or (for_project and option.project == FORBIDDEN):
            continue
        group, _, name = option.key.rpartition(".")
        members = groups.setdefault(group, {}) if group else properties
        members[name] = _option_schema(option, note=_PROJECT_NOTES.get(option.project, "") if for_project else "")
    properties.update({group: _closed(members) for group, members in groups.items()})
    title = "odek.json: what a project sets" if for_project else "~/.odek/config.json: what the operator sets"
    return {"$schema": _DRAFT, "title": title, **_closed(properties)}


def _closed(properties: dict[str, object]) -> dict[str, object]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _option_schema(option: Option, *, note: str) -> dict[str, object]:
    described: dict[str, object] = {"description": option.help + note}
    if option.default not in (None, "", ()):
        described["default"] = option.default
    if option.kind == "list":
        return {**described, "type": "array", "items": {"type": "string", "minLength": 1}}
    if option.kind == "map":
        return {**described, "type": "object", "additionalProperties": {"type": "string"}}
    if option.kind == "object":
        return {**described, **_policy(nested=True)}
    described["type"] = _TYPES[option.kind]
    if option.choices:
        described["enum"] = ["", *option.choices]
    if option.kind == "int":
        described.update(minimum=option.minimum, maximum=option.maximum)
    return described


def _policy(*, nested: bool) -> dict[str, object]:
    commands = {"type": "array", "items": {"type": "string", "minLength": 1}}
    actions = {name: {"enum": list(ACTIONS) if name != "blocked" else ["deny"]} for name in CLASSES}
    properties: dict[str, object] = {
        "action": {"enum": [*ACTIONS, None]},
        "classes": _closed(dict(actions)),
        "allowlist": commands,
        "denylist": commands,
        "non_interactive": {"enum": list(NON_INTERACTIVE)},
    }
    return _closed({**properties, NESTED: _policy(nested=False)} if nested else properties)


_PROJECT: dict[str, object] = {"sandbox": True, "tools": {"disabled": []}}
_POLICY: dict[str, object] = {"classes": {}, "allowlist": [], "denylist": [], "non_interactive": "deny"}


def render_template(source: Source) -> str:
    """Return the text of ./odek.json (Source.PROJECT) or ~/.odek/config.json (Source.GLOBAL)."""
    document = _PROJECT if source is Source.PROJECT else _global_document()
    return json.dumps(document, indent=2) + "\n"


def _global_document() -> dict[str, object]:
    document: dict[str, object] = {}
    for option in LIVE:
        if not option.in_file or (option.default is None and option.kind != "object"):
            continue
        group, _, name = option.key.rpartition(".")
        members = document.setdefault(group, {}) if group else document
        assert isinstance(members, dict)
        members[name] = _initial(option)
    return document


def _initial(option: Option) -> object:
    if option.kind == "object":
        return _POLICY
    if option.kind == "map":
        return {}
    return [] if option.kind == "list" else option.default
