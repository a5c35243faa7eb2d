from __future__ import annotations

import json

import pytest
from fakes.executor import FakeExecutor
from fakes.tools import run_tool

from odek.errors import FileAccessDenied
from odek.tools.diff import DIFF
from odek.tools.registry import ToolResult


def diff(files: dict[str, bytes], **arguments: str) -> ToolResult:
    return run_tool(DIFF, FakeExecutor(files=files), **arguments)


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


@pytest.mark.parametrize("path", ["~/x", "../x", "/etc/passwd"])
def test_places_outside_are_refused(path: str) -> None:
    """R-44, F-61, F-63."""
    for tool, arguments in (
        (DIFF, {"path": path, "content": ""}),
        (DIFF, {"path_a": path, "path_b": path}),
    ):
        with pytest.raises(FileAccessDenied, match="leaves the workspace"):
            run_tool(tool, **arguments)


def test_parameters_have_their_public_names() -> None:
    """R-83."""
    assert " ".join(DIFF.parameters["properties"]) == ("path_a path_b path content")
