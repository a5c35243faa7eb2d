"""The two files that `odek init` writes (R-18). Pure. Both load without a warning or a question.

The project's file holds only what a project may set without being asked, and no default: a default
written down would stand over the operator's own choice. The operator's file shows every key that
has a value when nobody sets it. So it leaves out `sandbox` (written down, it would turn the default
into an explicit demand), `tools.enabled` (an empty list means no tools), `prompt_caching` and the
limits; and `dangerous.action`, which would outweigh the table of classes.
"""

from __future__ import annotations

import json

from odek.config.options import LIVE, Option
from odek.config.settings import Source

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
