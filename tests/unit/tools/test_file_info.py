from __future__ import annotations

import json
from typing import Any

import pytest
from fakes.executor import FakeExecutor, entry
from fakes.tools import run_tool

from odek.errors import FileAccessDenied
from odek.tools.file_info import FILE_INFO, TREE
from odek.tools.registry import Tool, ToolResult


@pytest.mark.parametrize(
    ("kind", "is_dir", "is_symlink", "is_regular"),
    [
        ("file", False, False, True),
        ("folder", True, False, False),
        ("link", False, True, False),
        ("other",) + (False,) * 3,
    ],
)
def test_file_info_tells_what_a_path_is(kind: Any, is_dir: bool, is_symlink: bool, is_regular: bool) -> None:
    """R-83."""
    thing = entry("", kind, size_bytes=7, mtime_s=1_700_000_000, mode=0o4755)
    result = run_tool(FILE_INFO, FakeExecutor(entries={"d/x": thing}), path="./d/x")
    assert json.loads(result.text) == {
        "path": "/workspace/d/x",
        "size": 7,
        "mod_time": "2023-11-14T22:13:20Z",
        "mode": "4755",
        "is_dir": is_dir,
        "is_symlink": is_symlink,
        "is_regular": is_regular,
    }


@pytest.mark.parametrize("path", ["nope", "../x", "/etc/passwd", "~/x", ""])
def test_file_info_and_tree_refuse_what_is_not_there_or_outside(path: str) -> None:
    """R-44, F-61, F-63."""
    with pytest.raises(FileAccessDenied):
        run_tool(FILE_INFO, path=path)
    if path:
        with pytest.raises(FileAccessDenied):
            run_tool(TREE, path=path)


FILES = {
    "a.txt": b"12",
    ".hidden": b"1",
    "d/b.txt": b"123",
    "d/e/f/g.txt": b"4444",
    ".git/config": b"x",
    "node_modules/m.js": b"xx",
}


def tree(executor: FakeExecutor, **arguments: Any) -> str:
    return run_tool(TREE, executor, **arguments).text


def test_tree_shows_folders_with_what_lies_below_them() -> None:
    """R-83, F-72."""
    executor = FakeExecutor(files=FILES, entries={"d/link": entry("", "link"), "d/pipe": entry("", "other")})
    assert tree(executor) == (
        "<tree:/workspace>\n./  (3 files, 9 bytes)\n  a.txt  2\n  d/  (2 files, 7 bytes)\n    b.txt  3\n"
        "    e/  (1 file, 4 bytes)\n      f/  (1 file, 4 bytes)\n    link  (link)\n    pipe  (other)\n"
        "  node_modules/  (0 files, 0 bytes)\n</>\nfolders skipped: .git/, node_modules/"
    )


def test_tree_goes_as_deep_as_it_was_told() -> None:
    executor = FakeExecutor(files=FILES)
    assert tree(executor, path="d", max_depth=1) == (
        "<tree:/workspace/d>\nd/  (2 files, 7 bytes)\n  b.txt  3\n  e/  (1 file, 4 bytes)\n</>"
    )
    assert tree(executor, path="d", max_depth=3).count("\n") == 6


def test_tree_shows_hidden_names_when_told_but_never_the_inside_of_git() -> None:
    text = tree(FakeExecutor(files=FILES), include_hidden=True, max_depth=1)
    assert text == (
        "<tree:/workspace>\n./  (4 files, 10 bytes)\n  .git/  (0 files, 0 bytes)\n  .hidden  1\n  a.txt  2\n"
        "  d/  (2 files, 7 bytes)\n  node_modules/  (0 files, 0 bytes)\n</>\nfolders skipped: .git/, node_modules/"
    )


def test_tree_cuts_huge_folders_and_shows_odd_names_on_one_line() -> None:
    """B47, K03."""
    lines = tree(FakeExecutor(files={f"d/{n:05}": b"" for n in range(1500)} | {"nl\nname": b"", "w\udcff": b""}))
    assert lines.count("\n") == 1006
    assert "    … more than 1000 entries here\n  nl\\nname  0\n  w\\udcff  0\n" in lines
    assert lines.encode()


def test_tree_of_a_file_is_the_file() -> None:
    assert run_tool(TREE, FakeExecutor(files=FILES), path="a.txt") == ToolResult(
        text="<tree:/workspace/a.txt>\na.txt  2\n</>"
    )


@pytest.mark.parametrize(
    ("tool", "names"),
    [(FILE_INFO, "path"), (TREE, "path max_depth include_hidden")],
)
def test_parameters_have_their_public_names(tool: Tool, names: str) -> None:
    """R-83."""
    assert " ".join(tool.parameters["properties"]) == names
