"""The tools `file_info` and `tree`: what is there, without its content."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from odek.executor import MAX_DEPTH, Entry, Executor
from odek.model.types import ToolSpec
from odek.text import plural, visible
from odek.tools.looking import ORDINARY, SHOWN_LIMIT_CHARACTERS, beginning, bounded, listing_notes, look
from odek.tools.registry import ToolResult, Unasked, Wrap, render_json
from odek.tools.workspace import FOLDER, PATH, Workspace, inside

DEFAULT_DEPTH = 3
MAX_TREE_DEPTH = 10
MAX_CHILDREN = 1000


class FileInfoTool(Unasked):
    """Tells what a path is."""

    def __init__(self, *, executor: Executor, wrap: Wrap) -> None:
        self._workspace = Workspace(executor=executor, wrap=wrap)

    @property
    def spec(self) -> ToolSpec:
        """what the model is told"""
        return ToolSpec(
            name="file_info",
            description="Tell size, time of change, permissions and kind of a file or folder; links are not followed.",
            parameters={"type": "object", "properties": {"path": PATH}, "required": ["path"]},
        )

    def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Return the facts as JSON; nothing in it is foreign."""
        path: str = arguments["path"]
        entry = self._workspace.executor.stat(inside(path))
        return ToolResult(
            text=render_json(
                {
                    "path": visible(self._workspace.place(path)),
                    "size": entry.size_bytes,
                    "mod_time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(entry.mtime_s)),
                    "mode": f"{entry.mode:04o}",
                    "is_dir": entry.kind == "folder",
                    "is_symlink": entry.kind == "link",
                    "is_regular": entry.kind == "file",
                }
            )
        )


class TreeTool(Unasked):
    """Shows how folders are laid out."""

    def __init__(self, *, executor: Executor, wrap: Wrap) -> None:
        self._workspace = Workspace(executor=executor, wrap=wrap)

    @property
    def spec(self) -> ToolSpec:
        """what the model is told"""
        return ToolSpec(
            name="tree",
            description=(
                "Show folders and files as a tree, with sizes in bytes; a folder shows how many files lie below it and "
                "their size. Folders that hold what tools made are not entered."
            ),
            parameters={
                "type": "object",
                "properties": {
                    "path": FOLDER,
                    "max_depth": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": MAX_TREE_DEPTH,
                        "description": f"levels to show; {DEFAULT_DEPTH} unless given",
                    },
                    "include_hidden": {"type": "boolean", "description": "show names with a dot first as well"},
                },
            },
        )

    def call(self, arguments: Mapping[str, Any]) -> ToolResult:
        """Return the tree in one fence."""
        hidden: bool = arguments.get("include_hidden", False)
        how = replace(ORDINARY, hidden=hidden, depth=MAX_DEPTH)
        listing = look(self._workspace.executor, arguments.get("path", ""), how)
        entries = [entry for entry in listing.entries if hidden or not entry.name.startswith(".")]
        below = _Below(entries)
        base = listing.top.path.count("/") + 1 if listing.top.path else 0
        deepest = base + arguments.get("max_depth", DEFAULT_DEPTH)
        lines = [_line(listing.top, 0, below), *_tree_lines(entries, base, deepest, below)]
        place = self._workspace.place(listing.top.path)
        fence = self._workspace.wrap(bounded(lines, SHOWN_LIMIT_CHARACTERS), source=f"tree:{place}")
        return ToolResult(text="\n".join((*beginning(listing), fence, *listing_notes(listing, how))))


class _Below:
    """How many files each folder holds at any depth, and their size."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._count: dict[str, int] = {}
        self._size: dict[str, int] = {}
        for entry in entries:
            if entry.kind != "file":
                continue
            folder = entry.path
            while folder:
                folder = folder.rpartition("/")[0]
                self._count[folder] = self._count.get(folder, 0) + 1
                self._size[folder] = self._size.get(folder, 0) + entry.size_bytes

    def describe(self, folder: str) -> str:
        return f"{plural(self._count.get(folder, 0), 'file')}, {self._size.get(folder, 0)} bytes"


def _tree_lines(entries: Sequence[Entry], base: int, deepest: int, below: _Below) -> list[str]:
    lines: list[str] = []
    children: dict[str, int] = {}
    for entry in entries:
        level = entry.path.count("/") + 1
        folder = entry.path.rpartition("/")[0]
        children[folder] = children.get(folder, 0) + 1
        if level > deepest or children[folder] > MAX_CHILDREN + 1:
            continue
        if children[folder] > MAX_CHILDREN:
            lines.append(f"{'  ' * (level - base)}… more than {MAX_CHILDREN} entries here")
        else:
            lines.append(_line(entry, level - base, below))
    return lines


def _line(entry: Entry, level: int, below: _Below) -> str:
    name = visible(entry.name) or "."
    match entry.kind:
        case "folder":
            text = f"{name}/  ({below.describe(entry.path)})"
        case "file":
            text = f"{name}  {entry.size_bytes}"
        case _:
            text = f"{name}  ({entry.kind})"
    return "  " * level + text
