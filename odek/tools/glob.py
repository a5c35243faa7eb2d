"""The tool `glob`, and its wildcards: `*` and `?` within a name, `**` for any folders, `[a-z]`, `{a,b}`.

Matching takes time proportional to the lengths of path and pattern, whatever the pattern is:
fnmatch never tries a second way past a star, and folders are matched as sets of positions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
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
from odek.tools.workspace import FOLDER, Workspace

MAX_ALTERNATIVES = 100
MAX_LENGTH = 1000
_BRACES = re.compile(r"\{([^{}]*)\}")
_MAGIC = re.compile(r"[*?\[{]")


class WildcardError(ValueError):
    """A pattern that cannot be used; the text is for the model."""


class Wildcard:
    """A pattern for paths relative to some folder."""

    def __init__(self, pattern: str) -> None:
        """Raises WildcardError for an empty, absolute or climbing pattern, and one with too many braces."""
        if not pattern.strip("/ "):
            raise WildcardError("the pattern is empty")
        if pattern.startswith(("/", "~")) or ".." in pattern.split("/"):
            raise WildcardError('the pattern must be relative, without ".."; name the folder in path')
        if len(pattern) > MAX_LENGTH:
            raise WildcardError(f"the pattern has more than {MAX_LENGTH} characters")
        alternatives = [_parts(text) for text in _expand(pattern)]
        self.folder = _common_folder(alternatives)
        """the names at the beginning that hold no wildcard, joined: where to look"""
        self._alternatives = alternatives

    @property
    def depth(self) -> int | None:
        """how many levels below the first folder it reaches, None: all"""
        if any("**" in parts for parts in self._alternatives):
            return None
        return max(len(parts) for parts in self._alternatives)

    def matches(self, path: str) -> bool:
        """Return whether it describes `path`."""
        names = path.split("/")
        return any(_matches(names, parts) for parts in self._alternatives)


def _parts(text: str) -> list[str]:
    return [part for part in text.split("/") if part not in ("", ".")]


def _expand(pattern: str) -> list[str]:
    """Return `pattern` once for each choice that its braces leave."""
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        text = waiting.pop()
        braces = _BRACES.search(text)
        if braces is None:
            done.append(text)
        else:
            waiting += [text[: braces.start()] + word + text[braces.end() :] for word in braces.group(1).split(",")]
        if len(done) + len(waiting) > MAX_ALTERNATIVES:
            raise WildcardError(f"the braces stand for more than {MAX_ALTERNATIVES} patterns")
    return done


def _common_folder(alternatives: list[list[str]]) -> str:
    first = alternatives[0][:-1]
    names: list[str] = []
    for index, name in enumerate(first):
        if _MAGIC.search(name) or any(parts[index : index + 1] != [name] for parts in alternatives):
            break
        if any(len(parts) <= index + 1 for parts in alternatives):
            break
        names.append(name)
    return "/".join(names)


def _matches(names: list[str], parts: list[str]) -> bool:
    positions = {0}
    for index, part in enumerate(parts):
        if part == "**":
            first = min(positions) + (index == len(parts) - 1)  # at the end it stands for at least one name
            positions = set(range(first, len(names) + 1))
        else:
            positions = {at + 1 for at in positions if at < len(names) and fnmatchcase(names[at], part)}
        if not positions:
            return False
    return len(names) in positions


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
