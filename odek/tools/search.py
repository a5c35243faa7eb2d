"""The tool `search_files`: finding lines and files, in the sandbox and on the host alike.

Names are chosen and contents matched here, by one set of rules, whatever the place has for a grep;
the executor only lists folders and hands out contents, many files a call.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any, Protocol

from odek.approval.operation import Operation
from odek.errors import FileAccessDenied
from odek.executor import DirScan, Entry, Executor
from odek.model.types import ToolSpec
from odek.text import plural, truncate, visible
from odek.tools.glob import Wildcard, WildcardError
from odek.tools.looking import (
    LISTED,
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
from odek.tools.regex_worker import Match, MatchResult, find_matches
from odek.tools.registry import Gate, ToolResult, Unasked, Wrap, failure
from odek.tools.workspace import FOLDER, Workspace

FILE_LIMIT_BYTES = 1 << 20
BATCH_LIMIT_BYTES = 8 << 20
BATCH_FILES = 1000
TOTAL_LIMIT_BYTES = 64 << 20
TIME_LIMIT_S = 30.0
DEFAULT_MATCHES = 50
MAX_MATCHES = 500


class Search(Protocol):
    """Tries a regular expression on texts; see matching.search_texts."""

    def __call__(self, pattern: str, texts: Sequence[bytes], *, limit: int, timeout_s: float) -> MatchResult: ...


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


class SearchFilesTool(Unasked):
    """Finds lines in files, or files by name."""

    def __init__(
        self,
        *,
        executor: Executor,
        gate: Gate,
        wrap: Wrap,
        search: Search = find_matches,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """What `gate` would ask about is not searched, unless a call names it as its path."""
        self._workspace = Workspace(executor=executor, wrap=wrap)
        self._gate = gate
        self._search = search
        self._clock = clock

    @property
    def spec(self) -> ToolSpec:
        """what the model is told"""
        return ToolSpec(
            name="search_files",
            description=(
                "Find the lines of files that match a regular expression (Python's, tried on each line by itself), as "
                "NUMBER|LINE below the path of each file; or, with target files, find files by a wildcard for their "
                f"name or, if it holds a slash, their path. {SKIP_RULE}"
            ),
            parameters={
                "type": "object",
                "properties": {
                    "pattern": {"type": "string", "description": "regular expression; wildcard if target is files"},
                    "target": {"type": "string", "enum": ["content", "files"], "description": "content unless given"},
                    "path": {**FOLDER, "description": "folder or file to look in; the workspace unless given"},
                    "file_glob": {"type": "string", "description": "only files like this: *.py, src/**/*.{ts,tsx}"},
                    "limit": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": MAX_MATCHES,
                        "description": f"matches to return; {DEFAULT_MATCHES} unless given",
                    },
                },
                "required": ["pattern"],
            },
        )

    def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Return what was found in one fence, then what was skipped and what is left."""
        deadline = self._clock() + TIME_LIMIT_S
        pattern: str = arguments["pattern"]
        limit: int = arguments.get("limit", DEFAULT_MATCHES)
        by_name = arguments.get("target") == "files"
        wanted = pattern if by_name else arguments.get("file_glob", "")
        try:
            accepts = _name_filter(wanted)
        except WildcardError as error:
            return failure(str(error))
        listing = look(self._workspace.executor, arguments.get("path", ""), ORDINARY)
        files = [entry for entry in (listing.top, *listing.entries) if entry.kind == "file"]
        chosen = [entry for entry in files if accepts(relative_to(entry, listing.top))]
        if by_name:
            return self._report_files(chosen, listing, limit)
        shown, held_back = self._sort_out(chosen, listing.top)
        result = self._search_contents(pattern, shown, listing, limit, deadline)
        return replace(result, text="\n".join((result.text, *_held_back(held_back))))

    def _sort_out(self, chosen: Sequence[Entry], top: Entry) -> tuple[list[Entry], list[Entry]]:
        """Return those of `chosen` whose lines may be shown, and those that would have to be asked about.

        A `top` that had to be asked about has been (AskedReads), and stands for all that is in it.
        """
        if top.path and not self._may_show(top):
            return list(chosen), []
        judged = [(entry, self._may_show(entry)) for entry in chosen]
        return [entry for entry, may in judged if may], [entry for entry, may in judged if not may]

    def _may_show(self, entry: Entry) -> bool:
        return self._gate.allows(Operation(kind="read", subject=entry.path))

    def _report_files(self, chosen: Sequence[Entry], listing: DirScan, limit: int) -> ToolResult:
        fence = self._fence([visible(entry.path) for entry in chosen[:limit]], listing)
        endings = [f"files: {len(chosen)}", *left_out(len(chosen), limit), *listing_notes(listing)]
        return ToolResult(text="\n".join((*beginning(listing), fence or "(no file)", *endings)))

    def _search_contents(
        self, pattern: str, chosen: Sequence[Entry], listing: DirScan, limit: int, deadline: float
    ) -> ToolResult:
        skipped = _Skipped()
        notes: list[str] = []
        lines: list[str] = []
        count = searched = 0
        for batch in _batches(chosen, skipped, notes):
            left_s = deadline - self._clock()
            if left_s <= 0:
                notes.append(f"stopped after {TIME_LIMIT_S:.0f} s; name a folder or a file_glob to search less")
                break
            places, texts = self._read(batch, skipped)
            found = self._search(pattern, texts, limit=limit - count, timeout_s=left_s)
            if found.error:
                return failure(f"the pattern cannot be used: {found.error}")
            count += len(found.hits)
            searched += len(places)
            lines += _render_hits(found.hits, places)
            if found.stuck_at is not None:
                notes.append(f"the pattern takes too long in {visible(places[found.stuck_at])}; make it simpler")
                break
            if found.more or (count == limit and searched < len(chosen)):
                notes.append(f"stopped after {count} matches; there may be more: raise limit, or be more precise")
                break
        fence = self._fence(lines, listing)
        endings = (f"matches: {count}, files searched: {searched}", *skipped.lines(), *listing_notes(listing))
        return ToolResult(text="\n".join((*beginning(listing, *notes), fence or "(no match)", *endings)))

    def _read(self, batch: Sequence[Entry], skipped: _Skipped) -> tuple[list[str], list[bytes]]:
        """Return the paths and the contents of those of `batch` that hold text."""
        paths = [entry.path for entry in batch]
        contents = self._workspace.executor.read_many(
            paths, limit_bytes=FILE_LIMIT_BYTES, total_bytes=2 * BATCH_LIMIT_BYTES
        )
        places: list[str] = []
        texts: list[bytes] = []
        for path, content in zip(paths, contents, strict=True):
            if isinstance(content, FileAccessDenied):
                skipped.reasons.append(content.message)
            elif b"\0" in content:
                skipped.binary += 1
            else:
                places.append(path)
                texts.append(content)
        return places, texts

    def _fence(self, lines: Sequence[str], listing: DirScan) -> str:
        source = f"search_files:{self._workspace.place(listing.top.path)}"
        return self._workspace.wrap(bounded(lines, SHOWN_LIMIT_CHARACTERS), source=source)


def _held_back(entries: Sequence[Entry]) -> list[str]:
    """Return the line that names files which were not searched, because reading them needs a word."""
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
