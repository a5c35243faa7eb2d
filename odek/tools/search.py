"""The tool `search_files`: finding lines and files, in the sandbox and on the host alike.

Names are chosen and contents matched here, by one set of rules, whatever the place has for a grep;
the executor only lists folders and reads contents, many files a call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from odek.approval.operation import Operation
from odek.errors import FileAccessDenied
from odek.executor import DirScan, Entry
from odek.text import plural, truncate, visible
from odek.tools.arguments import integer, record, string
from odek.tools.glob import Wildcard, WildcardError
from odek.tools.listing import LISTED, SKIP_RULE, relative_to, render_scan, scan, truncate_lines, truncation_note
from odek.tools.regex_worker import Match, MatchResult, find_matches
from odek.tools.registry import Arguments, Tool, ToolResult, failure
from odek.tools.workspace import Workspace, read_operations

FILE_LIMIT_BYTES = 1 << 20
BATCH_LIMIT_BYTES = 8 << 20
BATCH_FILES = 1000
TOTAL_LIMIT_BYTES = 64 << 20
TIME_LIMIT_S = 30.0
DEFAULT_MATCHES = 50
MAX_MATCHES = 500


@dataclass(slots=True)
class _Skipped:
    """What was left out, and why."""

    reasons: list[str] = field(default_factory=list)
    binary: int = 0

    def lines(self) -> list[str]:
        shown = [f"skipped: {reason}" for reason in self.reasons[:LISTED]]
        if len(self.reasons) > LISTED:
            shown.append(f"skipped: {len(self.reasons) - LISTED} more")
        if self.binary:
            shown.append(f"skipped: {plural(self.binary, 'binary file')}")
        return shown


def search_files(
    workspace: Workspace,
    arguments: Arguments,
    *,
    find: Callable[..., MatchResult] = find_matches,
    clock: Callable[[], float] = time.monotonic,
) -> ToolResult:
    """Return what was found between tags, then what was skipped and what is left.

    What the gate would ask about is not searched, unless the call names it as its path: that was asked before.
    """
    deadline = clock() + TIME_LIMIT_S
    pattern: str = arguments["pattern"]
    limit: int = arguments.get("limit", DEFAULT_MATCHES)
    by_name = arguments.get("target") == "files"
    try:
        accepts = _name_filter(pattern if by_name else arguments.get("file_glob", ""))
    except WildcardError as error:
        return failure(str(error))
    found = scan(workspace, arguments.get("path", ""))
    files = [entry for entry in (found.top, *found.entries) if entry.kind == "file"]
    chosen = [entry for entry in files if accepts(relative_to(entry, found.top))]
    if by_name:
        return _report_files(workspace, chosen, found, limit)
    shown, held_back = _sort_out(workspace, chosen, found.top)
    search = _Search(workspace, find, clock, deadline)
    problem = search.run(pattern, shown, limit)
    return failure(problem) if problem else ToolResult(text=search.render(found, held_back))


def _sort_out(workspace: Workspace, chosen: Sequence[Entry], top: Entry) -> tuple[list[Entry], list[Entry]]:
    """Return those of `chosen` whose lines may be shown, and those that would have to be asked about.

    A `top` that had to be asked about has been, and covers all that is in it.
    """

    def may_show(entry: Entry) -> bool:
        return workspace.gate.allows(Operation(kind="read", subject=entry.path))

    if top.path and not may_show(top):
        return list(chosen), []
    judged = [(entry, may_show(entry)) for entry in chosen]
    return [entry for entry, may in judged if may], [entry for entry, may in judged if not may]


def _report_files(workspace: Workspace, chosen: Sequence[Entry], found: DirScan, limit: int) -> ToolResult:
    shown = _tagged(workspace, [visible(entry.path) for entry in chosen[:limit]], found) or "(no file)"
    endings = (f"files: {len(chosen)}", *truncation_note(len(chosen), limit))
    return ToolResult(text=render_scan(found, shown, endings))


def _tagged(workspace: Workspace, lines: Sequence[str], found: DirScan) -> str:
    return workspace.wrap(truncate_lines(lines), source=f"search_files:{workspace.absolute(found.top.path)}")


class _Search:
    """One search through the contents of files."""

    def __init__(
        self, workspace: Workspace, find: Callable[..., MatchResult], clock: Callable[[], float], deadline: float
    ) -> None:
        self._workspace = workspace
        self._find = find
        self._clock = clock
        self._deadline = deadline
        self._skipped = _Skipped()
        self._incomplete: list[str] = []
        self._lines: list[str] = []
        self._count = self._searched = 0

    def run(self, pattern: str, chosen: Sequence[Entry], limit: int) -> str:
        """Search `chosen` until there are `limit` matches; return why the pattern cannot be used, else ""."""
        for batch in _batches(chosen, self._skipped, self._incomplete):
            left_s = self._deadline - self._clock()
            if left_s <= 0:
                return self._stop(f"stopped after {TIME_LIMIT_S:.0f} s; name a folder or a file_glob to search less")
            paths, texts = self._read(batch)
            result = self._find(pattern, texts, limit=limit - self._count, timeout_s=left_s)
            if result.error:
                return f"the pattern cannot be used: {result.error}"
            self._count += len(result.hits)
            self._searched += len(paths)
            self._lines += _render_hits(result.hits, paths)
            if result.stuck_at is not None:
                return self._stop(f"the pattern takes too long in {visible(paths[result.stuck_at])}; make it simpler")
            if result.more or (self._count == limit and self._searched < len(chosen)):
                why = "there may be more: raise limit, or be more precise"
                return self._stop(f"stopped after {self._count} matches; {why}")
        return ""

    def render(self, found: DirScan, held_back: Sequence[Entry]) -> str:
        shown = _tagged(self._workspace, self._lines, found) or "(no match)"
        endings = (f"matches: {self._count}, files searched: {self._searched}", *self._skipped.lines())
        text = render_scan(found, shown, endings, incomplete=self._incomplete)
        return "\n".join((text, *_held_back(held_back)))

    def _stop(self, reason: str) -> str:
        self._incomplete.append(reason)
        return ""

    def _read(self, batch: Sequence[Entry]) -> tuple[list[str], list[bytes]]:
        """Return the paths and the contents of those of `batch` that hold text."""
        found = self._workspace.shown.read_many(
            [entry.path for entry in batch], limit_bytes=FILE_LIMIT_BYTES, total_bytes=2 * BATCH_LIMIT_BYTES
        )
        paths: list[str] = []
        texts: list[bytes] = []
        for entry, content in zip(batch, found, strict=True):
            if isinstance(content, FileAccessDenied):
                self._skipped.reasons.append(content.message)
            elif b"\0" in content:
                self._skipped.binary += 1
            else:
                paths.append(entry.path)
                texts.append(content)
        return paths, texts


def _held_back(entries: Sequence[Entry]) -> list[str]:
    """Return the line that names files which were not searched, because reading them needs an approval."""
    if not entries:
        return []
    names = truncate(", ".join(visible(entry.path) for entry in entries[:LISTED]), 1000)
    more = f" and {len(entries) - LISTED} more" if len(entries) > LISTED else ""
    return [f"not searched, as they may hold secrets (name one as path to ask for it): {names}{more}"]


def _name_filter(pattern: str) -> Callable[[str], bool]:
    if not pattern:
        return lambda _: True
    wildcard = Wildcard(pattern)
    if "/" in pattern:
        return wildcard.matches
    return lambda path: wildcard.matches(path.rpartition("/")[2])


def _batches(chosen: Sequence[Entry], skipped: _Skipped, notes: list[str]) -> Iterator[list[Entry]]:
    """Yield `chosen` in portions that one call can read."""
    batch: list[Entry] = []
    size = total = 0
    for entry in chosen:
        if entry.size_bytes == 0:  # a huge folder is often one of empty files
            continue
        if entry.size_bytes > FILE_LIMIT_BYTES:
            skipped.reasons.append(f"{visible(entry.path)} is larger than {FILE_LIMIT_BYTES} bytes")
            continue
        total += entry.size_bytes
        if total > TOTAL_LIMIT_BYTES:
            notes.append(f"stopped after {TOTAL_LIMIT_BYTES >> 20} MiB; name a folder or a file_glob to search less")
            break
        if batch and (len(batch) == BATCH_FILES or size + entry.size_bytes > BATCH_LIMIT_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += entry.size_bytes
    if batch:
        yield batch


def _render_hits(hits: Sequence[Match], places: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for index, group in groupby(hits, key=lambda hit: hit.index):
        lines.append(visible(places[index]))
        lines += [f"{hit.line}|{hit.text}" for hit in group]
    return lines


SEARCH_FILES = Tool(
    name="search_files",
    description=(
        "Find the lines of files that match a regular expression (Python's, tried on each line by itself), as "
        "NUMBER|LINE below the path of each file; or, with target files, find files by a wildcard for their name or, "
        f"if it holds a slash, their path. {SKIP_RULE}"
    ),
    parameters=record(
        {
            "pattern": string("regular expression; wildcard if target is files"),
            "target": string("content unless given", enum=("content", "files")),
            "path": string("folder or file to look in; the workspace unless given"),
            "file_glob": string("only files like this: *.py, src/**/*.{ts,tsx}"),
            "limit": integer(f"matches to return; {DEFAULT_MATCHES} unless given", maximum=MAX_MATCHES),
        },
        required=("pattern",),
    ),
    run=search_files,
    operations=read_operations,
    parallel=True,
    title_arguments=("path", "pattern"),
    advice="- search_files finds lines by a regular expression, or files by name; use it before grep.",
)
