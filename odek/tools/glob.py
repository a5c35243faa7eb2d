"""The tool `glob`: paths that a wildcard describes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from odek.executor import MAX_DEPTH, Entry, Executor
from odek.model.types import ToolSpec
from odek.text import visible
from odek.tools.looking import (
    ORDINARY,
    SHOWN_LIMIT_CHARACTERS,
    SKIP_RULE,
    beginning,
    bounded,
    left_out,
    listing_notes,
    look,
    relative_to,
)
from odek.tools.registry import ToolResult, Unasked, Wrap, failure
from odek.tools.wildcards import Wildcard, WildcardError
from odek.tools.workspace import FOLDER, Workspace

DEFAULT_MATCHES = 50
MAX_MATCHES = 1000


class GlobTool(Unasked):
    """Lists paths that a wildcard describes."""

    def __init__(self, *, executor: Executor, wrap: Wrap) -> None:
        self._workspace = Workspace(executor=executor, wrap=wrap)

    @property
    def spec(self) -> ToolSpec:
        """what the model is told"""
        return ToolSpec(
            name="glob",
            description=(
                "List files and folders whose paths fit a wildcard (*, ?, [a-z], {a,b}; ** for any folders), newest "
                f"first, as SIZE PATH; a folder ends with /, a link with @. {SKIP_RULE}"
            ),
            parameters={
                "type": "object",
                "properties": {
                    "pattern": {"type": "string", "description": "relative to path: src/**/*.py, docs/*.md"},
                    "path": FOLDER,
                    "limit": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": MAX_MATCHES,
                        "description": f"paths to return; {DEFAULT_MATCHES} unless given",
                    },
                },
                "required": ["pattern"],
            },
        )

    def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Return the paths in one fence, then how many there are."""
        limit: int = arguments.get("limit", DEFAULT_MATCHES)
        path: str = arguments.get("path", "")
        try:
            wildcard = Wildcard(arguments["pattern"])
        except WildcardError as error:
            return failure(str(error))
        start = "/".join(part for part in (path, wildcard.folder) if part)
        levels = wildcard.depth
        depth = MAX_DEPTH if levels is None else levels - len(wildcard.folder.split("/")) * bool(wildcard.folder)
        how = replace(ORDINARY, depth=min(depth, MAX_DEPTH))
        listing = look(self._workspace.executor, start, how)
        prefix = f"{wildcard.folder}/" if wildcard.folder else ""
        found = [entry for entry in listing.entries if wildcard.matches(prefix + relative_to(entry, listing.top))]
        found.sort(key=lambda entry: -entry.mtime_s)
        fence = self._workspace.wrap(
            bounded([_sized(entry) for entry in found[:limit]], SHOWN_LIMIT_CHARACTERS),
            source=f"glob:{self._workspace.place(path)}",
        )
        endings = [f"matches: {len(found)}", *left_out(len(found), limit), *listing_notes(listing, how)]
        return ToolResult(text="\n".join((*beginning(listing), fence or "(no match)", *endings)))


def _sized(entry: Entry) -> str:
    size = str(entry.size_bytes) if entry.kind == "file" else "-"
    mark = {"file": "", "folder": "/", "link": "@", "other": "?"}[entry.kind]
    return f"{size} {visible(entry.path)}{mark}"
