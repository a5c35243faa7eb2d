"""The tool `glob`, and its wildcards: `*` and `?` within a name, `**` for any folders, `[a-z]`, `{a,b}`.

Matching takes time proportional to the lengths of path and pattern, whatever the pattern is:
fnmatch never tries a second way past a star, and folders are matched as sets of positions.
"""

from __future__ import annotations

from dataclasses import replace
from fnmatch import fnmatchcase

from odek.executor import MAX_DEPTH, Entry
from odek.patterns import pattern
from odek.text import visible
from odek.tools.arguments import integer, record, string
from odek.tools.listing import DEFAULT_SCAN, SKIP_RULE, relative_to, render_scan, scan, truncate_lines, truncation_note
from odek.tools.registry import Arguments, Tool, ToolResult, failure
from odek.tools.workspace import FOLDER, Workspace

DEFAULT_MATCHES = 50
MAX_MATCHES = 1000
MAX_ALTERNATIVES = 100
MAX_LENGTH = 1000
_BRACES = pattern(r"\{([^{}]*)\}")
_MAGIC = pattern(r"[*?\[{]")


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
            first = min(positions) + (index == len(parts) - 1)  # at the end it matches at least one name
            positions = set(range(first, len(names) + 1))
        else:
            positions = {at + 1 for at in positions if at < len(names) and fnmatchcase(names[at], part)}
        if not positions:
            return False
    return len(names) in positions


def _glob(workspace: Workspace, arguments: Arguments) -> ToolResult:
    """Return the paths between tags, then how many there are."""
    limit: int = arguments.get("limit", DEFAULT_MATCHES)
    path: str = arguments.get("path", "")
    try:
        wildcard = Wildcard(arguments["pattern"])
    except WildcardError as error:
        return failure(str(error))
    folder, levels = wildcard.folder, wildcard.depth
    depth = MAX_DEPTH if levels is None else levels - len(folder.split("/")) * bool(folder)
    options = replace(DEFAULT_SCAN, depth=min(depth, MAX_DEPTH))
    found = scan(workspace, "/".join(part for part in (path, folder) if part), options)
    prefix = f"{folder}/" if folder else ""
    matching = [entry for entry in found.entries if wildcard.matches(prefix + relative_to(entry, found.top))]
    matching.sort(key=lambda entry: -entry.mtime_s)
    lines = truncate_lines([_sized(entry) for entry in matching[:limit]])
    shown = workspace.wrap(lines, source=f"glob:{workspace.absolute(path)}") or "(no match)"
    endings = (f"matches: {len(matching)}", *truncation_note(len(matching), limit))
    return ToolResult(text=render_scan(found, shown, endings, options=options))


def _sized(entry: Entry) -> str:
    size = str(entry.size_bytes) if entry.kind == "file" else "-"
    mark = {"file": "", "folder": "/", "link": "@", "other": "?"}[entry.kind]
    return f"{size} {visible(entry.path)}{mark}"


GLOB = Tool(
    name="glob",
    description=(
        "List files and folders whose paths fit a wildcard (*, ?, [a-z], {a,b}; ** for any folders), newest first, as "
        f"SIZE PATH; a folder ends with /, a link with @. {SKIP_RULE}"
    ),
    parameters=record(
        {
            "pattern": string("relative to path: src/**/*.py, docs/*.md"),
            "path": FOLDER,
            "limit": integer(f"paths to return; {DEFAULT_MATCHES} unless given", maximum=MAX_MATCHES),
        },
        required=("pattern",),
    ),
    run=_glob,
    parallel=True,
    title_arguments=("path", "pattern"),
    advice="- glob lists files whose paths fit a wildcard; use it before find.",
)
