from __future__ import annotations

import json
from typing import Any

import pytest
from fakes.executor import FakeExecutor

from odek.errors import FileAccessDenied
from odek.tools.contents import DiffTool, HeadTailTool, JsonQueryTool
from odek.tools.registry import ToolResult


def wrap(text: str, *, source: str) -> str:
    return f"<{source}>\n{text}\n</>" if text else ""


NUMBERS = b"".join(b"%d\n" % number for number in range(1, 51))


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ({}, [*range(1, 11)]),
        ({"lines": 2}, [1, 2]),
        ({"mode": "tail", "lines": 3}, [48, 49, 50]),
        ({"mode": "tail", "lines": 100}, [*range(1, 51)]),
    ],
)
def test_head_tail_shows_an_end_of_the_file(arguments: dict[str, Any], shown: list[int]) -> None:
    """R-83, F-72."""
    tool = HeadTailTool(executor=FakeExecutor(files={"n": NUMBERS}), wrap=wrap)
    lines = "\n".join(f"{number}|{number}" for number in shown)
    assert tool.call({"files": [{"path": "n"}], **arguments}) == ToolResult(
        text=f"<head_tail>\n== /workspace/n\n{lines}\n(total_lines: 50)\n</>"
    )


def test_head_tail_tells_errors_file_by_file() -> None:
    tool = HeadTailTool(executor=FakeExecutor(files={"e": b"", "b": b"\0", "c": b"a\r\nb"}), wrap=wrap)
    result = tool.call({"files": [{"path": path} for path in ("e", "b", "x", "c")]})
    assert result == ToolResult(
        text=(
            "<head_tail>\n== /workspace/e\n(total_lines: 0)\n"
            '== /workspace/b\nerror: "b" is binary: NUL byte at offset 0\n'
            '== /workspace/x\nerror: "x" does not exist\n'
            "== /workspace/c\n1|a\n2|b\n(total_lines: 2)\n</>"
        )
    )
    assert tool.call({"files": [{"path": "x"}]}).failed


def diff(files: dict[str, bytes], **arguments: str) -> ToolResult:
    return DiffTool(executor=FakeExecutor(files=files), wrap=wrap).call(arguments)


def test_diff_of_two_files() -> None:
    """R-83, F-68, F-72."""
    before = "".join(f"{number}\n" for number in range(1, 31))
    after = before.replace("\n2\n", "\ntwo\n").replace("\n28\n", "\n").replace("\n30\n", "\n30\n31")
    result = diff({"a": before.encode(), "b": after.encode()}, path_a="a", path_b="b")
    assert result == ToolResult(
        text=(
            "<diff:a|b>\n@@ -1,5 +1,5 @@\n 1\n-2\n+two\n 3\n 4\n 5\n"
            "@@ -25,6 +25,6 @@\n 25\n 26\n 27\n-28\n 29\n 30\n+31\n\\ No newline at end of file\n</>"
        )
    )


@pytest.mark.parametrize(
    ("before", "content", "text"),
    [
        (b"a\n", "a\n", "no difference"),
        (b"", "", "no difference"),
        (b"a\n", "b\n", "<diff:f|content>\n@@ -1,1 +1,1 @@\n-a\n+b\n</>"),
        (b"", "b\n", "<diff:f|content>\n@@ -0,0 +1,1 @@\n+b\n</>"),
        (b"a", "a\n", "<diff:f|content>\n@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n</>"),
    ],
)
def test_diff_of_a_file_and_a_text(before: bytes, content: str, text: str) -> None:
    assert diff({"f": before}, path="f", content=content) == ToolResult(text=text)


@pytest.mark.parametrize(
    "arguments", [{}, {"path_a": "a"}, {"path": "a"}, {"content": "a"}, {"path_a": "a", "path": "a"}]
)
def test_diff_needs_two_sides(arguments: dict[str, str]) -> None:
    assert json.loads(diff({"a": b""}, **arguments).text) == {"error": "give path_a and path_b, or path and content"}


def test_diff_of_what_has_nothing_in_common_is_refused_when_long() -> None:
    """Comparing takes time that grows with the square of the difference, not of the file."""
    long = b"".join(b"%d\n" % number for number in range(3001))
    assert json.loads(diff({"a": long, "b": b"x\n" * 3001}, path_a="a", path_b="b").text) == {
        "error": "the texts differ over more than 3000 lines; use diff in the shell"
    }
    same = b"same\n" * 100_000
    assert diff({"a": same + b"a\n" + same, "b": same + b"b\n" + same}, path_a="a", path_b="b").text == (
        "<diff:a|b>\n@@ -99998,7 +99998,7 @@\n same\n same\n same\n-a\n+b\n same\n same\n same\n</>"
    )


def query(data: bytes, text: str = "") -> ToolResult:
    return JsonQueryTool(executor=FakeExecutor(files={"f": data}), wrap=wrap).call({"path": "f", "query": text})


DOCUMENT = json.dumps({"a": [{"b": 1, "c d": None}, "x<y"], "": 0, "n": {"e": 1.5, "t": True}}).encode()


@pytest.mark.parametrize(
    ("text", "value", "kind"),
    [
        ("a[0].b", "1", "number"),
        ("a[-1]", '"x<y"', "string"),
        ("$.n.e", "1.5", "number"),
        ("n.t", "true", "boolean"),
        ("a[0].c d", "null", "null"),
        ("n", '{\n "e": 1.5,\n "t": true\n}', "object"),
        ("a[0]", '{\n "b": 1,\n "c d": null\n}', "object"),
    ],
)
def test_json_query_returns_the_value_and_its_type(text: str, value: str, kind: str) -> None:
    """R-83, F-72."""
    assert query(DOCUMENT, text) == ToolResult(text=f"</workspace/f>\n{value}\n</>\nvalue_type: {kind}")


@pytest.mark.parametrize(
    ("data", "text", "error"),
    [
        (DOCUMENT, "x", '"f" has no x: there is no "x"'),
        (DOCUMENT, "a.b", '"f" has no a.b: "b" is asked of array'),
        (DOCUMENT, "n[0]", '"f" has no n[0]: [0] is asked of object'),
        (DOCUMENT, "a[2]", '"f" has no a[2]: [2] is beyond its 2 items'),
        (DOCUMENT, "a[x]", '"f" has no a[x]: it is no path: use names, dots and [N]'),
        (b"{", "", '"f" is no valid JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)'),
        (b"[" * 100_000, "", '"f" is nested too deeply'),
    ],
)
def test_json_query_explains_what_it_cannot_find(data: bytes, text: str, error: str) -> None:
    result = query(data, text)
    assert (json.loads(result.text), result.failed) == ({"error": error}, True)


def test_json_query_stays_valid_text_and_within_its_cap() -> None:
    """B47, K03, F-51: half a surrogate pair, and 200 KiB of umlauts."""
    assert query(b'["\\ud83d"]').text == '</workspace/f>\n["\\ud83d"]\n</>\nvalue_type: array'
    text = query(json.dumps(["ä" * 100] * 2000, ensure_ascii=False).encode()).text
    assert len(text) < 31_000
    assert text.endswith("lines left out]\n</>\nvalue_type: array")


@pytest.mark.parametrize("path", ["~/x", "../x", "/etc/passwd"])
def test_places_outside_are_refused(path: str) -> None:
    """R-44, F-61, F-63."""
    for tool, arguments in (
        (JsonQueryTool, {"path": path}),
        (DiffTool, {"path": path, "content": ""}),
        (DiffTool, {"path_a": path, "path_b": path}),
    ):
        with pytest.raises(FileAccessDenied, match="leaves the workspace"):
            tool(executor=FakeExecutor(), wrap=wrap).call(arguments)


@pytest.mark.parametrize(
    ("tool", "names"),
    [(HeadTailTool, "files lines mode"), (DiffTool, "path_a path_b path content"), (JsonQueryTool, "path query")],
)
def test_parameters_have_their_public_names(tool: Any, names: str) -> None:
    """R-83."""
    assert " ".join(tool(executor=FakeExecutor(), wrap=wrap).spec.parameters["properties"]) == names
