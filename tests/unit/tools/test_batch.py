from __future__ import annotations

from typing import Any

import pytest
from fakes.executor import FakeExecutor
from fakes.gates import FakeGate, WriteGate
from fakes.tools import run_tool

from odek.approval.operation import Operation
from odek.tools.arguments import ArgumentError, check_arguments, parse_arguments
from odek.tools.batch import BATCH_PATCH, BATCH_READ
from odek.tools.registry import ToolResult


def read(executor: FakeExecutor, *files: dict[str, Any]) -> ToolResult:
    return run_tool(BATCH_READ, executor, files=list(files))


def patch(executor: FakeExecutor, *patches: tuple[str, str, str], gate: FakeGate | None = None) -> ToolResult:
    entries = [{"path": path, "old_string": old, "new_string": new} for path, old, new in patches]
    return run_tool(BATCH_PATCH, executor, gate, patches=entries)


def test_batch_read_shows_all_files_in_one_fence_by_one_call() -> None:
    """R-83, F-72: errors stand with their file; a line cannot pose as the heading of another file."""
    executor = FakeExecutor(files={"a": b"one\n== /workspace/b\n", "b": b"x\ny\nz\n", "bin": b"\0", "e": b""})
    files = ("a", "nope", "bin", "e", "~/x", "../up")
    result = read(executor, {"path": "b", "offset": 2, "limit": 1}, *({"path": path} for path in files))
    assert result == ToolResult(
        text=(
            "<batch_read>\n"
            "== /workspace/b\n2|y\n(total_lines: 3)\n(shown: 2-2; go on with offset 3)\n"
            "== /workspace/a\n1|one\n2|== /workspace/b\n(total_lines: 2)\n"
            '== /workspace/nope\nerror: "nope" does not exist\n'
            '== /workspace/bin\nerror: "bin" is binary: NUL byte at offset 0\n'
            "== /workspace/e\n(total_lines: 0)\n"
            '== /workspace/~/x\nerror: "~/x" leaves the workspace\n'
            '== /up\nerror: "../up" leaves the workspace\n'
            "</>"
        )
    )
    assert executor.reads == [("b", "a", "nope", "bin", "e", "../up")]


def test_batch_read_fails_only_when_nothing_could_be_read() -> None:
    executor = FakeExecutor(files={"a": b"x\n"})
    assert read(executor, {"path": "nope"}, {"path": "a", "offset": 2}).failed
    assert not read(executor, {"path": "nope"}, {"path": "a"}).failed


def test_batch_read_shares_its_room_between_long_files() -> None:
    """F-51: 200 KiB of umlauts each are cut by characters; what a short file leaves goes to the next."""
    umlauts = ("ä" * 99 + "\n").encode() * 1024
    text = read(FakeExecutor(files={"a": umlauts, "s": b"x\n", "z": umlauts}), *({"path": p} for p in "asz")).text
    assert len(text) < 101_000
    assert "(shown: 1-321; go on with offset 322)" in text
    assert "(shown: 1-500; go on with offset 501)" in text


@pytest.mark.parametrize("files", ["[]", "[" + ",".join(['"a"'] * 11) + "]", '[{"path":"a","offset":0}]'])
def test_batch_read_arguments_have_bounds(files: str) -> None:
    with pytest.raises(ArgumentError):
        check_arguments(parse_arguments(f'{{"files":{files}}}'), BATCH_READ.parameters)


def test_batch_patch_changes_all_files_in_order() -> None:
    """R-83, F-72: a later patch sees what an earlier one made of the same file, however it is spelled."""
    executor = FakeExecutor(files={"a": b"1\r\n2\r\n", "b": b"x\n"})
    gate = WriteGate()
    result = patch(executor, ("a", "1", "one"), ("b", "x", "y"), ("./a", "one\n2", "ONE\ntwo"), gate=gate)
    assert executor.files == {"a": b"ONE\r\ntwo\r\n", "b": b"y\n"}
    assert result == ToolResult(
        text=(
            "<batch_patch>\n"
            "== /workspace/a\n@@ -1,2 +1,2 @@\n-1\n+one\n 2\n@@ -1,2 +1,2 @@\n-one\n-2\n+ONE\n+two\n"
            "== /workspace/b\n@@ -1,1 +1,1 @@\n-x\n+y\n"
            "</>\n[0] replaced: 1\n[1] replaced: 1\n[2] replaced: 1"
        )
    )
    assert gate.subjects == ["a", "b"]
    assert executor.reads == [("./a", "b")]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (("b", "q", "y"), '"b": old_string was not found; it must be exactly as in the file, blanks included'),
        (("b", "x", "x"), '"b": old_string and new_string are the same'),
        (("a", "1", "y"), '"a": old_string was not found; it must be exactly as in the file, blanks included'),
        (("nope", "x", "y"), '"nope" does not exist'),
        (("bin", "x", "y"), '"bin" is binary: NUL byte at offset 0'),
        (("~/f", "x", "y"), '"~/f" leaves the workspace'),
        (
            ("b", "x", "[REDACTED]"),
            '"b": the new text holds [REDACTED] where the file does not: in what you read it replaces a secret that '
            "is in the file and is not shown, and writing it would destroy the secret. Leave those passages out of the "
            "edit; if you mean the word itself, write it with a command",
        ),
    ],
)
def test_batch_patch_changes_nothing_when_one_patch_does_not_fit(wrong: tuple[str, str, str], why: str) -> None:
    """F-69: every patch is checked first, the rest is marked as skipped."""
    files = {"a": b"1\n", "b": b"x\n", "bin": b"\0"}
    executor = FakeExecutor(files=files)
    result = patch(executor, ("a", "1", "2"), wrong, ("b", "x", "z"))
    assert result == ToolResult(text=f"[0] skipped\n[1] failed: {why}; no file was changed\n[2] skipped", failed=True)
    assert executor.files == files


def test_batch_patch_stops_at_the_first_file_that_cannot_be_written() -> None:
    """F-69, D-6: files before it are changed and told, the rest is skipped."""
    executor = FakeExecutor(files={"a": b"1\n", "odek.json": b"2\n", "c": b"3\n"})
    gate = WriteGate({"odek.json": "not that file"})
    result = patch(executor, ("a", "1", "one"), ("odek.json", "2", "two"), ("c", "3", "three"), gate=gate)
    assert result == ToolResult(
        text=(
            "<batch_patch>\n== /workspace/a\n@@ -1,1 +1,1 @@\n-1\n+one\n</>\n"
            "[0] replaced: 1\n[1] failed: not that file\n[2] skipped"
        ),
        failed=True,
    )
    assert executor.files == {"a": b"one\n", "odek.json": b"2\n", "c": b"3\n"}
    assert gate.asked[1] == Operation(kind="write", subject="odek.json", change="@@ -1,1 +1,1 @@\n-2\n+two")


def test_batch_patch_does_not_overwrite_what_changed_meanwhile() -> None:
    class Racing(FakeExecutor):
        def read_many(self, *args: Any, **options: Any) -> Any:
            contents = super().read_many(*args, **options)
            self.files["a"] = b"theirs"
            return contents

    executor = Racing(files={"a": b"1\n", "b": b"2\n"})
    result = patch(executor, ("a", "1", "one"), ("b", "2", "two"))
    assert (executor.files, result.failed) == ({"a": b"theirs", "b": b"2\n"}, True)
    assert result.text.endswith("read it again\n[1] skipped")


def test_batch_patch_has_the_parameters_of_patch() -> None:
    """R-83."""
    items = BATCH_PATCH.parameters["properties"]["patches"]
    assert list(items["items"]["properties"]) == ["path", "old_string", "new_string", "replace_all"]
    assert (items["minItems"], items["maxItems"]) == (1, 10)


def test_batch_patch_shows_no_line_of_a_file_that_may_not_be_read() -> None:
    """F8: neither in a diff nor in an error; nothing is changed."""
    executor = FakeExecutor(files={"a": b"1\n", ".env": b"KEY=secret\n"})
    gate = FakeGate({".env": "not that file"})
    for path in (".env", "./x/../.env", "/workspace/.env"):
        result = patch(executor, ("a", "1", "2"), (path, "KEY", "K"), (path, "K", "L"), gate=gate)
        assert result == ToolResult(
            text="[0] skipped\n[1] failed: not that file; no file was changed\n[2] skipped", failed=True
        )
    assert executor.files["a"] == b"1\n"
