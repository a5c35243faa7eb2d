from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from fakes.executor import FakeExecutor, entry
from fakes.gates import FakeGate
from fakes.tools import run_tool, workspace

from odek.errors import FileAccessDenied
from odek.tools.arguments import ArgumentError, check_arguments, parse_arguments
from odek.tools.file_info import TREE
from odek.tools.glob import GLOB
from odek.tools.regex_worker import Match, MatchResult
from odek.tools.registry import Tool, ToolResult
from odek.tools.search import BATCH_FILES, SEARCH_FILES, search_files


def search(executor: FakeExecutor, pattern: str, **arguments: Any) -> ToolResult:
    return run_tool(SEARCH_FILES, executor, pattern=pattern, **arguments)


def glob(executor: FakeExecutor, pattern: str, **arguments: Any) -> ToolResult:
    return run_tool(GLOB, executor, pattern=pattern, **arguments)


PROJECT = {
    "README.md": b"# demo\nsee src\n",
    "src/a.py": b"import os\n\ndef demo():\n    pass\n",
    "src/deep/b.py": b"demo()\r\n",
    "src/deep/c.txt": b"nothing\n",
    ".env": b"demo=1\n",
    ".git/config": b"demo",
    "node_modules/x/i.js": b"demo",
    "build/out.py": b"demo",
}


def test_search_lists_matching_lines_below_their_paths_in_one_fence() -> None:
    """R-83, F-72: line ends are no part of a line, hidden files are seen, hidden folders are not."""
    executor = FakeExecutor(files=PROJECT)
    assert search(executor, r"\bdemo\b") == ToolResult(
        text=(
            "<search_files:/workspace>\n.env\n1|demo=1\nREADME.md\n1|# demo\nsrc/a.py\n3|def demo():\n"
            "src/deep/b.py\n1|demo()\n</>\nmatches: 4, files searched: 5\n"
            "folders skipped: .git/, build/, node_modules/"
        )
    )
    assert executor.reads == [(".env", "README.md", "src/a.py", "src/deep/b.py", "src/deep/c.txt")]


@pytest.mark.parametrize(
    ("arguments", "paths"),
    [
        ({"path": "src"}, ["src/a.py", "src/deep/b.py", "src/deep/c.txt"]),
        ({"path": "/workspace/src/deep/"}, ["src/deep/b.py", "src/deep/c.txt"]),
        ({"path": "src/a.py"}, ["src/a.py"]),
        ({"path": "src/a.py", "file_glob": "*.txt"}, []),
        ({"path": "build"}, ["build/out.py"]),
        ({"path": ".git"}, [".git/config"]),
        ({"file_glob": "*.py"}, ["src/a.py", "src/deep/b.py"]),
        ({"file_glob": "src/*.py"}, ["src/a.py"]),
        ({"path": "src", "file_glob": "deep/**"}, ["src/deep/b.py", "src/deep/c.txt"]),
        ({"file_glob": "*.{md,txt}"}, ["README.md", "src/deep/c.txt"]),
    ],
)
def test_search_looks_only_where_it_was_told(arguments: dict[str, Any], paths: list[str]) -> None:
    """R-83: folders that are passed over are searched when path names them."""
    executor = FakeExecutor(files=PROJECT)
    search(executor, "x", **arguments)
    assert [path for batch in executor.reads for path in batch] == paths


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.py", "src/a.py\nsrc/deep/b.py"),
        ("src/*", "src/a.py"),
        ("**/c.*", "src/deep/c.txt"),
        (".env", ".env"),
    ],
)
def test_search_for_files_takes_a_wildcard(pattern: str, names: str) -> None:
    executor = FakeExecutor(files=PROJECT)
    text = search(executor, pattern, target="files").text
    assert text.startswith(f"<search_files:/workspace>\n{names}\n</>\nfiles: {names.count(chr(10)) + 1}\n")
    assert executor.reads == []


def test_search_says_when_there_is_nothing() -> None:
    executor = FakeExecutor(files={"a": b"x"})
    assert search(executor, "y") == ToolResult(text="(no match)\nmatches: 0, files searched: 1")
    assert search(executor, "*.q", target="files") == ToolResult(text="(no file)\nfiles: 0")


def test_search_tells_what_it_skipped() -> None:
    """R-44: links, devices, binaries, what is too large or cannot be read."""
    executor = FakeExecutor(
        files={"a": b"y\n", "bin": b"y\0", "zip": b"\0y"},
        entries={
            "big": entry("big", "file", size_bytes=(1 << 20) + 1),
            "gone": entry("gone", "file", size_bytes=1),
            "link": entry("link", "link", size_bytes=9),
            "pipe": entry("pipe", "other"),
        },
    )
    assert search(executor, "y").text == (
        "<search_files:/workspace>\na\n1|y\n</>\nmatches: 1, files searched: 1\n"
        'skipped: big is larger than 1048576 bytes\nskipped: "gone" does not exist\nskipped: 2 binary files'
    )


def test_search_names_only_the_first_of_many_skipped_things() -> None:
    executor = FakeExecutor(entries={f"g{n:02}": entry("", "file", size_bytes=1) for n in range(25)})
    assert search(executor, "y").text.split("\n")[-1] == "skipped: 15 more"


@pytest.mark.parametrize(
    ("limit", "count", "more"),
    [(1, 1, True), (2, 2, True), (4, 4, False), (500, 4, False)],
)
def test_search_stops_at_the_limit_and_says_so(limit: int, count: int, more: bool) -> None:
    executor = FakeExecutor(files={"a": b"y\ny\n", "b": b"y\n", "c": b"y\n"})
    text = search(executor, "y", limit=limit).text
    assert f"matches: {count}," in text
    assert (f"stopped after {limit} matches; there may be more: raise limit, or be more precise" in text) == more


def test_search_reads_many_files_by_few_calls_and_none_after_the_limit() -> None:
    """A search over 2500 files is three calls, not 2500; empty ones are not read at all."""
    files = {f"f{n:04}": b"y\n" for n in range(2500)} | {f"e{n}": b"" for n in range(9)}
    executor = FakeExecutor(files=files)
    search(executor, "z")
    assert [len(batch) for batch in executor.reads] == [BATCH_FILES, BATCH_FILES, 500]
    executor = FakeExecutor(files=files)
    search(executor, "y", limit=3)
    assert [len(batch) for batch in executor.reads] == [BATCH_FILES]


def test_search_stops_before_it_reads_too_much() -> None:
    entries = {f"f{n:03}": entry("", "file", size_bytes=1 << 20) for n in range(70)}
    text = search(FakeExecutor(entries=entries), "y").text
    assert "stopped after 64 MiB; name a folder or a file_glob to search less" in text


def test_search_says_first_when_a_walk_was_cut_short() -> None:
    """B124: the match may lie in what was not looked at."""
    executor = FakeExecutor(files={f"f{n:03}": b"x" for n in range(20)}, count=5)
    assert search(executor, "y").text == (
        "not all was searched: there are too many files here to look at all of them; name a folder\n"
        "(no match)\nmatches: 0, files searched: 5"
    )


def scripted(*results: MatchResult) -> Any:
    left = list(results)

    def search_texts(pattern: str, texts: Sequence[bytes], *, limit: int, timeout_s: float) -> MatchResult:
        return left.pop(0)

    return search_texts


def test_search_gives_up_on_a_pattern_that_takes_too_long() -> None:
    found = MatchResult(hits=(Match(index=0, line=1, text="y"),), stuck_at=1)
    place = workspace(FakeExecutor(files={"a": b"y", "b": b"y"}))
    assert search_files(place, {"pattern": "y"}, find=scripted(found)).text == (
        "not all was searched: the pattern takes too long in b; make it simpler\n"
        "<search_files:/workspace>\na\n1|y\n</>\nmatches: 1, files searched: 2"
    )


def test_search_gives_up_when_its_time_is_over() -> None:
    times = iter((0.0, 1.0, 31.0))
    place = workspace(FakeExecutor(files={f"f{n:04}": b"y" for n in range(1500)}))
    find = scripted(MatchResult(hits=()))
    assert search_files(place, {"pattern": "y"}, find=find, clock=lambda: next(times)).text == (
        "not all was searched: stopped after 30 s; name a folder or a file_glob to search less\n"
        "(no match)\nmatches: 0, files searched: 1000"
    )


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"pattern": "("}, "the pattern cannot be used: missing ), unterminated subpattern at position 0"),
        (
            {"pattern": "x", "file_glob": "/etc/*"},
            'the pattern must be relative, without \\"..\\"; name the folder in path',
        ),
        ({"pattern": "", "target": "files"}, None),
    ],
)
def test_search_explains_a_wrong_pattern(arguments: dict[str, Any], error: str | None) -> None:
    result = run_tool(SEARCH_FILES, FakeExecutor(files={"a": b"x"}), **arguments)
    assert result.text == (f'{{"error":"{error}"}}' if error else "<search_files:/workspace>\na\n</>\nfiles: 1")


@pytest.mark.parametrize("path", ["~/x", "../x", "/etc", "nope", " "])
def test_search_and_glob_refuse_places_outside(path: str) -> None:
    """R-44, F-61, B13."""
    executor = FakeExecutor(files={"a": b"x"})
    with pytest.raises(FileAccessDenied):
        search(executor, "x", path=path)
    with pytest.raises(FileAccessDenied):
        glob(executor, "*", path=path)


ODD_NAMES = ("we\udcffird.py", "nl\nname.py", "-rf.py", "e\u0301.py", "\u00e9.py", "\u202egpj.py", "x" * 252 + ".py")


def test_odd_names_are_shown_on_one_line_each() -> None:
    """B47, R-64: a name that is no text, or would hide something, is escaped; the result is valid UTF-8."""
    executor = FakeExecutor(files=dict.fromkeys(ODD_NAMES, b"hit\n"))
    shown = sorted(
        ("we\\udcffird.py", "nl\\nname.py", "-rf.py", "e\u0301.py", "\u00e9.py", "\\u202egpj.py", "x" * 252 + ".py")
    )
    found = search(executor, "hit").text
    assert sorted(line for line in found.split("\n") if line.endswith(".py")) == shown
    listed = glob(executor, "*.py").text
    assert sorted(line.removeprefix("4 ") for line in listed.split("\n") if line.endswith(".py")) == shown
    assert (found + listed).encode()


def test_long_result_is_cut_by_characters_and_counted() -> None:
    """F-51, K03: 200 KiB of umlauts stay valid text."""
    executor = FakeExecutor(files={"a": ("ä" * 250 + "\n").encode() * 400})
    text = search(executor, "ä", limit=400).text
    assert len(text) < 61_000
    assert "[165 lines left out]\n</>" in text
    assert "matches: 400," in text


def test_glob_lists_the_newest_first_with_sizes() -> None:
    """R-83, F-72."""
    files = {"a.py": b"12", "b.py": b"1", "d/c.py": b"", "d/e.txt": b""}
    times = {"a.py": entry("", "file", size_bytes=2, mtime_s=10), "d/c.py": entry("", "file", mtime_s=30)}
    times |= {"l.py": entry("", "link", size_bytes=9, mtime_s=5), "p.py": entry("", "other", mtime_s=4)}
    executor = FakeExecutor(files=files, entries={**times, "d.py": entry("", "folder", mtime_s=20)})
    assert glob(executor, "**/*.py") == ToolResult(
        text="<glob:/workspace>\n0 d/c.py\n- d.py/\n2 a.py\n- l.py@\n- p.py?\n1 b.py\n</>\nmatches: 6"
    )
    assert glob(executor, "**/*.py", limit=2).text == (
        "<glob:/workspace>\n0 d/c.py\n- d.py/\n</>\nmatches: 6\nshown: 2; raise limit, or be more precise"
    )


@pytest.mark.parametrize(
    ("pattern", "path", "text"),
    [
        ("*", "", "7 .env\n- .git/\n15 README.md\n- build/\n- node_modules/\n- src/"),
        ("src/*", "", "32 src/a.py\n- src/deep/"),
        ("deep/*.py", "src", "8 src/deep/b.py"),
        ("**", "src/deep", "8 src/deep/b.py\n8 src/deep/c.txt"),
        (".git/*", "", "4 .git/config"),
        ("build/*.py", "", "4 build/out.py"),
    ],
)
def test_glob_goes_where_pattern_and_path_lead(pattern: str, path: str, text: str) -> None:
    """R-83: folders that are passed over are listed, and entered when pattern or path names them."""
    source = f"/workspace/{path}".rstrip("/")
    assert glob(FakeExecutor(files=PROJECT), pattern, path=path) == ToolResult(
        text=f"<glob:{source}>\n{text}\n</>\nmatches: {len(text.splitlines())}"
    )


def test_glob_tells_which_folders_it_passed_over() -> None:
    assert glob(FakeExecutor(files=PROJECT), "**/*.js") == ToolResult(
        text="(no match)\nmatches: 0\nfolders skipped: .git/, build/, node_modules/"
    )


@pytest.mark.parametrize("pattern", ["../*", "/etc/*", "~/*", "", "a/../../b"])
def test_glob_refuses_patterns_that_leave_the_folder(pattern: str) -> None:
    """R-83."""
    assert glob(FakeExecutor(files={"a": b""}), pattern).failed


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        (SEARCH_FILES, '{"pattern":"x","limit":501}'),
        (SEARCH_FILES, '{"pattern":"x","target":"names"}'),
        (SEARCH_FILES, '{"target":"files"}'),
        (GLOB, '{"pattern":"x","limit":1001}'),
        (GLOB, "{}"),
    ],
)
def test_arguments_have_bounds(tool: Tool, text: str) -> None:
    with pytest.raises(ArgumentError):
        check_arguments(parse_arguments(text), tool.parameters)


@pytest.mark.parametrize(
    ("tool", "names"),
    [(SEARCH_FILES, "pattern target path file_glob limit"), (GLOB, "pattern path limit")],
)
def test_parameters_have_their_public_names(tool: Tool, names: str) -> None:
    """R-83."""
    assert " ".join(tool.parameters["properties"]) == names


def test_files_that_may_hold_secrets_are_not_searched_unless_they_are_named() -> None:
    """F8: whatever the glob and the folder; it is said which, and the rest is searched."""
    secret = {".env": "no", "sub/.env.local": "no", "sub/keys": "no"}
    files = {".env": b"KEY=1\n", "sub/.env.local": b"KEY=2\n", "sub/a": b"KEY=3\n", "sub/keys/id": b"KEY=4\n"}
    gate = FakeGate(secret)

    def found(**arguments: Any) -> str:
        return run_tool(SEARCH_FILES, FakeExecutor(files=files), gate, pattern="KEY", **arguments).text

    told = "\nnot searched, as they may hold secrets (name one as path to ask for it): "
    for arguments in ({}, {"path": "sub"}, {"file_glob": ".env*"}, {"file_glob": "**/.env*"}, {"path": "."}):
        text = found(**arguments)
        assert ("KEY=1" in text, "KEY=2" in text) == (False, False)
        assert told in text
    assert "KEY=3" in found(path="sub")
    assert "KEY=1" in found(path=".env")
    assert "KEY=4" in found(path="sub/keys"), "a folder that was asked about stands for what is in it"
    assert gate.asked == [], "searching asks nobody: Toolbox.authorize has"


def test_other_looks_around_say_first_that_they_did_not_see_all() -> None:
    """B124"""
    executor = FakeExecutor(files={f"f{n:03}": b"x" for n in range(20)}, count=5)
    first = "not all was searched: there are too many files here to look at all of them; name a folder\n"
    for tool, arguments in (
        (GLOB, {"pattern": "zzz"}),
        (TREE, {}),
        (SEARCH_FILES, {"pattern": "zzz", "target": "files"}),
    ):
        assert run_tool(tool, executor, **arguments).text.startswith(first)
