"""What is written for the two settings files: the JSON Schema for editors (R-20) and the templates of `odek init`
(R-18). Pure.

The schema is of draft 7, which the editors in use understand. What no schema can say (a project may only lower a
limit) is in the descriptions.

Both templates load without a warning or a question. The project's holds only what a project may set without being
asked, and no default: a default written down would outweigh the operator's own choice. The operator's shows every key
that has a value when nothing sets it. So it leaves out `sandbox` (written down, it would turn the default into an
explicit demand), `tools.enabled` (an empty list means no tools), `prompt_caching`, `providers` and the limits; and
`dangerous.action`, which would outweigh the table of classes.
"""

from __future__ import annotations

import json
from typing import Any

from odek.config.options import Option, ProjectRule, Source
from odek.config.settings import OPTIONS

_DRAFT = "http://json-schema.org/draft-07/schema#"
_PROJECT_NOTES = {
    ProjectRule.NEEDS_APPROVAL: " (asks for approval)",
    ProjectRule.ASKS_ITSELF: " (asks for approval, for each by itself)",
    ProjectRule.CAN_LOWER: " (can only lower the operator's limit)",
    ProjectRule.CAN_ENABLE: " (only true counts)",
}
_PROJECT_TEMPLATE: dict[str, object] = {"sandbox": True, "tools": {"disabled": []}}


def schema(source: Source) -> dict[str, object]:
    """Return the schema of ./odek.json (Source.PROJECT) or ~/.odek/config.json (Source.GLOBAL)."""
    for_project = source is Source.PROJECT
    properties: dict[str, object] = {"$schema": {"type": "string"}}
    groups: dict[str, dict[str, object]] = {}
    for option in OPTIONS:
        if not option.in_file or (for_project and option.project is ProjectRule.FORBIDDEN):
            continue
        group, _, name = option.key.rpartition(".")
        members = groups.setdefault(group, {}) if group else properties
        members[name] = _option_schema(option, note=_PROJECT_NOTES.get(option.project, "") if for_project else "")
    properties.update({group: _closed(members) for group, members in groups.items()})
    title = "odek.json: what a project sets" if for_project else "~/.odek/config.json: what the operator sets"
    return {"$schema": _DRAFT, "title": title, **_closed(properties)}


def render_template(source: Source) -> str:
    """Return the text of a new ./odek.json (Source.PROJECT) or ~/.odek/config.json (Source.GLOBAL)."""
    document = _PROJECT_TEMPLATE if source is Source.PROJECT else _global_document()
    return json.dumps(document, indent=2) + "\n"


def _closed(properties: dict[str, object]) -> dict[str, object]:
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _option_schema(option: Option[Any], *, note: str) -> dict[str, object]:
    described: dict[str, object] = {"description": option.help + note}
    default = option.kind.initial(option.default)
    if isinstance(default, (bool, int, float)) or (isinstance(default, str) and default):
        described["default"] = default
    return {**described, **option.kind.schema}


def _global_document() -> dict[str, object]:
    document: dict[str, object] = {}
    for option in OPTIONS:
        initial = option.kind.initial(option.default)
        if not option.in_file or initial is None:
            continue
        group, _, name = option.key.rpartition(".")
        members = document.setdefault(group, {}) if group else document
        assert isinstance(members, dict)
        members[name] = initial
    return document
