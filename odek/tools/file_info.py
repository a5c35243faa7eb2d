"""The tools `file_info` and `tree`: what is there, without its content."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from odek.executor import MAX_DEPTH, Entry
from odek.text import plural, visible
from odek.tools.arguments import boolean, integer, record
from odek.tools.listing import DEFAULT_SCAN, render_scan, scan, truncate_lines
from odek.tools.registry import Arguments, Tool, ToolResult, render_json
from odek.tools.workspace import FOLDER, PATH, Workspace, usable

DEFAULT_DEPTH = 3
MAX_TREE_DEPTH = 10
MAX_CHILDREN = 1000


def _file_info(workspace: Workspace, arguments: Arguments) -> ToolResult:
    """Return the facts as JSON; nothing in it is foreign."""
    path: str = arguments["path"]
    entry = workspace.shown.stat(usable(path))
    facts = {
        "path": visible(workspace.absolute(path)),
        "size": entry.size_bytes,
        "mod_time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(entry.mtime_s)),
        "mode": f"{entry.mode:04o}",
        "is_dir": entry.kind == "folder",
        "is_symlink": entry.kind == "link",
        "is_regular": entry.kind == "file",
    }
    return ToolResult(text=render_json(facts))


def _tree(workspace: Workspace, arguments: Arguments) -> ToolResult:
    """Return the tree between tags."""
    hidden: bool = arguments.get("include_hidden", False)
    options = replace(DEFAULT_SCAN, hidden=hidden, depth=MAX_DEPTH)
    found = scan(workspace, arguments.get("path", ""), options)
    entries = [entry for entry in found.entries if hidden or not entry.name.startswith(".")]
    below = _Below(entries)
    base = found.top.path.count("/") + 1 if found.top.path else 0
    deepest = base + arguments.get("max_depth", DEFAULT_DEPTH)
    lines = [_line(found.top, 0, below), *_tree_lines(entries, base, deepest, below)]
    shown = workspace.wrap(truncate_lines(lines), source=f"tree:{workspace.absolute(found.top.path)}")
    return ToolResult(text=render_scan(found, shown, options=options))


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


FILE_INFO = Tool(
    name="file_info",
    description="Tell size, time of change, permissions and kind of a file or folder; links are not followed.",
    parameters=record({"path": PATH}, required=("path",)),
    run=_file_info,
    parallel=True,
)
TREE = Tool(
    name="tree",
    description=(
        "Show folders and files as a tree, with sizes in bytes; a folder shows how many files lie below it and their "
        "size. Folders that hold what tools made are not entered."
    ),
    parameters=record(
        {
            "path": FOLDER,
            "max_depth": integer(f"levels to show; {DEFAULT_DEPTH} unless given", maximum=MAX_TREE_DEPTH),
            "include_hidden": boolean("show names with a dot first as well"),
        }
    ),
    run=_tree,
    parallel=True,
)
