from __future__ import annotations

import json
from typing import Any

import pytest
from fakes.executor import FakeExecutor
from fakes.gates import FakeGate, WriteGate
from fakes.tools import carry_out, run_tool, workspace

from odek.errors import FileAccessDenied
from odek.model.types import ToolCall
from odek.redact import Redactor
from odek.tools.arguments import ArgumentError, check_arguments, parse_arguments
from odek.tools.files import PATCH, READ_FILE, WRITE_FILE
from odek.tools.registry import Tool, Toolbox, ToolResult


def read(data: bytes, **arguments: Any) -> ToolResult:
    executor = FakeExecutor(files={"a.txt": data})
    return run_tool(READ_FILE, executor, path="a.txt", **arguments)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        pytest.param(b"one\ntwo\n", "<{}>\n1|one\n2|two\n</>\ntotal_lines: 2", id="plain"),
        pytest.param(b"", "(empty file)\ntotal_lines: 0", id="empty"),
        pytest.param(b"\n", "<{}>\n1|\n</>\ntotal_lines: 1", id="one empty line"),
        pytest.param(
            b"one", "<{}>\n1|one\n</>\ntotal_lines: 1\nnote: no newline at the end of the file", id="no last newline"
        ),
        pytest.param(
            b"\xef\xbb\xbfa\r\nb\r\n",
            "<{}>\n1|a\n2|b\n</>\ntotal_lines: 2\n"
            "note: the file starts with a UTF-8 byte order mark\nnote: line ends are CRLF",
            id="B54: mark and CRLF are told",
        ),
        pytest.param(b"a\r\nb\n", "<{}>\n1|a\n2|b\n</>\ntotal_lines: 2\nnote: 1 of 2 line ends are CRLF", id="mixed"),
        pytest.param(b"a\rb\x0cc\n", "<{}>\n1|a\rb\x0cc\n</>\ntotal_lines: 1", id="other controls are data"),
        pytest.param("ä€漢字😀\n".encode(), "<{}>\n1|ä€漢字😀\n</>\ntotal_lines: 1", id="F-66: text of every language"),
    ],
)
def test_read_file_numbers_the_lines_in_one_fence(data: bytes, text: str) -> None:
    """F-66, F-72: one fence, exact text, what is odd about it below."""
    assert read(data) == ToolResult(text=text.format("/workspace/a.txt"))


HUNDRED = b"".join(b"line %d\n" % number for number in range(1, 101))


@pytest.mark.parametrize(
    ("offset", "limit", "shown", "ending"),
    [
        (1, 2, ["1|line 1", "2|line 2"], "shown: 1-2; go on with offset 3"),
        (50, 1, ["50|line 50"], "shown: 50-50; go on with offset 51"),
        (99, 10, ["99|line 99", "100|line 100"], "shown: 99-100"),
    ],
)
def test_read_file_shows_the_part_that_was_asked_for(offset: int, limit: int, shown: list[str], ending: str) -> None:
    assert read(HUNDRED, offset=offset, limit=limit).text.split("\n") == [
        *("</workspace/a.txt>", *shown, "</>"),
        *("total_lines: 100", ending),
    ]


def test_read_file_shows_500_lines_unless_told_otherwise() -> None:
    lines = read(b"x\n" * 501).text.split("\n")
    assert lines[-2:] == ["total_lines: 501", "shown: 1-500; go on with offset 501"]


def test_read_file_refuses_an_offset_behind_the_end() -> None:
    assert read(b"a\n", offset=2) == ToolResult(
        text='{"error":"offset 2 is behind the last line; total_lines is 1"}', failed=True
    )


def test_read_file_cuts_endless_lines_and_long_parts() -> None:
    """F-51: capped by characters, and a single long line does not spoil the read."""
    cut = read(b"x" * 10_007 + b"\nb\n").text.split("\n")
    assert cut[1:3] == ["1|" + "x" * 10_000 + "[7 characters left out]", "2|b"]
    many = read(b"x" * 9_990 + b"\n" + (b"x" * 9_990 + b"\n") * 19).text.split("\n")
    assert many[-2:] == ["total_lines: 20", "shown: 1-10; go on with offset 11"]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"ab\0c", '"a.txt" is binary: NUL byte at offset 2'),
        (
            b"ok\ngr\xfcn\n",
            '"a.txt" is not UTF-8 text: byte 0xfc on line 2. It is binary or in an older encoding such as Latin-1; '
            "convert it with iconv in the shell",
        ),
        (b"\xff\xfea\0", '"a.txt" looks like UTF-16, not UTF-8; convert it with iconv in the shell'),
    ],
)
def test_what_is_no_text_is_refused_by_read_and_patch(data: bytes, message: str) -> None:
    """B54, F-66: binary and Latin-1 files are told apart and left alone."""
    executor = FakeExecutor(files={"a.txt": data})
    with pytest.raises(FileAccessDenied) as from_read:
        run_tool(READ_FILE, executor, path="a.txt")
    with pytest.raises(FileAccessDenied) as from_patch:
        run_tool(PATCH, executor, path="a.txt", old_string="a", new_string="b")
    assert (from_read.value.message, from_patch.value.message) == (message, message)
    assert executor.files == {"a.txt": data}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("~/x", '"~/x" leaves the workspace'),
        ("~", '"~" leaves the workspace'),
        ("../x", '"../x" leaves the workspace'),
        ("/etc/passwd", '"/etc/passwd" leaves the workspace'),
        ("", "the path is empty"),
        (" ", "the path is empty"),
    ],
)
def test_all_file_tools_refuse_the_same_paths(path: str, message: str) -> None:
    """B13, F-61: the executor decides for all; a home directory is no folder named ~."""
    executor = FakeExecutor()
    refusals = []
    for tool, arguments in (
        (READ_FILE, {}),
        (WRITE_FILE, {"content": "x"}),
        (PATCH, {"old_string": "a", "new_string": "b"}),
    ):
        with pytest.raises(FileAccessDenied) as caught:
            run_tool(tool, executor, path=path, **arguments)
        refusals.append(caught.value.message)
    assert (refusals, executor.files) == ([message] * 3, {})


@pytest.mark.parametrize("path", ["d/a.txt", "/workspace/d/a.txt", "d//x/../a.txt"])
def test_absolute_paths_of_the_workspace_are_taken(path: str) -> None:
    executor = FakeExecutor(files={"d/a.txt": b"x\n"})
    result = run_tool(READ_FILE, executor, path=path)
    assert result.text == "</workspace/d/a.txt>\n1|x\n</>\ntotal_lines: 1"


@pytest.mark.parametrize("content", ["", "a\n", "a\r\nb\rc\ufeff", "no newline ä\0"])
def test_write_file_writes_exactly_the_content(content: str) -> None:
    executor = FakeExecutor(files={"a.txt": b"old"})
    result = run_tool(WRITE_FILE, executor, path="a.txt", content=content)
    assert executor.files == {"a.txt": content.encode()}
    expected = {"success": True, "path": "/workspace/a.txt", "bytes": len(content.encode())}
    assert (json.loads(result.text), result.failed) == (expected, False)


def test_write_file_refuses_more_than_a_mebibyte() -> None:
    executor = FakeExecutor()
    result = run_tool(WRITE_FILE, executor, path="a", content="ä" * (512 * 1024) + "x")
    assert result.text == '{"error":"content has 1048577 bytes; at most 1048576 can be written at once"}'
    assert (result.failed, executor.files) == (True, {})


def patch(executor: FakeExecutor, **arguments: Any) -> ToolResult:
    return run_tool(PATCH, executor, path="a.txt", **arguments)


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"one\r\ntwo\r\n", "two", "2", b"one\r\n2\r\n"),
        (b"\xef\xbb\xbfone", "one", "1", b"\xef\xbb\xbf1"),
        (b"a\r\nb\nc", "a\nb", "A\nb", b"A\r\nb\nc"),
        ("ä\n".encode(), "ä", "ö", "ö\n".encode()),
    ],
)
def test_patch_changes_the_bytes_that_were_named_and_no_others(before: bytes, old: str, new: str, after: bytes) -> None:
    """B54: line ends, byte order mark and a missing last newline stay."""
    executor = FakeExecutor(files={"a.txt": before})
    assert not patch(executor, old_string=old, new_string=new).failed
    assert executor.files == {"a.txt": after}


def test_patch_returns_the_diff_in_one_fence() -> None:
    """F-68, F-72."""
    executor = FakeExecutor(files={"a.txt": b"a\nb\n"})
    assert patch(executor, old_string="b", new_string="c") == ToolResult(
        text="<patch:/workspace/a.txt>\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n</>\nreplaced: 1"
    )


def test_patch_without_new_string_removes_the_passage() -> None:
    executor = FakeExecutor(files={"a.txt": b"a\nb\n"})
    patch(executor, old_string="b\n")
    assert executor.files == {"a.txt": b"a\n"}


def test_patch_replaces_all_when_told_to() -> None:
    executor = FakeExecutor(files={"a.txt": b"x x"})
    assert patch(executor, old_string="x", new_string="y", replace_all=True).text.endswith("\nreplaced: 2")
    assert executor.files == {"a.txt": b"y y"}


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("x", "y", "old_string occurs 2 times (lines 1, 2); add lines around it, or set replace_all"),
        ("q", "y", "old_string was not found; it must be exactly as in the file, blanks included"),
        ("", "y", "old_string is empty; write_file makes new files"),
        ("x", "x", "old_string and new_string are the same"),
        ("x\nx", "x\r\nx", "it reads like this already"),
    ],
)
def test_patch_changes_nothing_when_it_cannot_be_done_exactly(old: str, new: str, why: str) -> None:
    """B54, F-67: the result says so, and why."""
    executor = FakeExecutor(files={"a.txt": b"x\r\nx\r\n"})
    result = patch(executor, old_string=old, new_string=new)
    assert (json.loads(result.text), result.failed) == ({"error": f'"a.txt" is unchanged: {why}'}, True)
    assert executor.files == {"a.txt": b"x\r\nx\r\n"}


def test_patch_refuses_when_the_file_changed_since_it_was_read() -> None:
    class Racing(FakeExecutor):
        def read(self, path: str, *, limit_bytes: int) -> bytes:
            data = super().read(path, limit_bytes=limit_bytes)
            self.files["a.txt"] = b"theirs"
            return data

    executor = Racing(files={"a.txt": b"x"})
    with pytest.raises(FileAccessDenied):
        patch(executor, old_string="x", new_string="y")
    assert executor.files == {"a.txt": b"theirs"}


def test_patch_refuses_results_above_the_limit() -> None:
    executor = FakeExecutor(files={"a.txt": b"x" * 6000})
    result = patch(executor, old_string="x", new_string="y" * 2000, replace_all=True)
    assert json.loads(result.text) == {"error": '"a.txt" is unchanged: it would have more than 10485760 bytes'}
    assert executor.files == {"a.txt": b"x" * 6000}


def test_files_above_ten_mebibytes_are_refused() -> None:
    """B54: a 60 MB file is told, not loaded."""
    with pytest.raises(FileAccessDenied, match="larger than 10485760 bytes"):
        read(b"x" * ((10 << 20) + 1))


@pytest.mark.parametrize(
    ("tool", "required", "optional"),
    [
        (READ_FILE, ["path"], ["offset", "limit"]),
        (WRITE_FILE, ["path", "content"], []),
        (PATCH, ["path", "old_string"], ["new_string", "replace_all"]),
    ],
)
def test_parameters_have_their_public_names(tool: Tool, required: list[str], optional: list[str]) -> None:
    """R-83: names are the contract."""
    parameters = tool.parameters
    assert (list(parameters["properties"]), parameters["required"]) == ([*required, *optional], required)


@pytest.mark.parametrize("arguments", ['"offset":0', '"limit":0', '"limit":2001', '"offset":"1"'])
def test_read_file_arguments_have_bounds(arguments: str) -> None:
    with pytest.raises(ArgumentError):
        check_arguments(parse_arguments('{"path":"a",' + arguments + "}"), READ_FILE.parameters)


def test_gate_sees_what_would_be_written_and_where_links_lead() -> None:
    """D-6, B55: a link inside the workspace hides no file that this machine trusts."""
    executor = FakeExecutor(files={"notes": b"a\nb\n"}, links={"x": ".git/hooks/pre-commit"})
    gate = WriteGate()
    run_tool(WRITE_FILE, executor, gate, path="x", content="run me")
    run_tool(PATCH, executor, gate, path="./notes", old_string="b", new_string="c")
    assert [(operation.kind, operation.subject, operation.change) for operation in gate.asked] == [
        ("write", "x", "run me"),
        ("write", ".git/hooks/pre-commit", "run me"),
        ("write", "notes", "@@ -1,2 +1,2 @@\n a\n-b\n+c"),
    ]
    assert executor.files == {"notes": b"a\nc\n", ".git/hooks/pre-commit": b"run me"}


def test_file_that_the_gate_refuses_is_not_written() -> None:
    """D-6."""
    executor = FakeExecutor(files={"a": b"x"})
    for tool, arguments in (
        (WRITE_FILE, {"content": "y"}),
        (PATCH, {"old_string": "x", "new_string": "y"}),
    ):
        with pytest.raises(FileAccessDenied, match=r"^no$"):
            run_tool(tool, executor, FakeGate(answer="no"), path="a", **arguments)
    assert executor.files == {"a": b"x"}


SECRET = b"user: me\npassword: hunter2hunter2\n"
MARKED = "user: me\npassword: [REDACTED]\n"
WHY = (
    "the new text holds [REDACTED] where the file does not: in what you read it replaces a secret that is in the "
    "file and is not shown, and writing it would destroy the secret. Leave those passages out of the edit; if you mean "
    "the word itself, write it with a command"
)


def error_of(result: ToolResult) -> str:
    assert result.failed
    return str(json.loads(result.text)["error"])


@pytest.mark.parametrize("path", ["a.txt", "new.txt"])
def test_mark_of_a_secret_is_not_written_in_the_place_of_the_secret(path: str) -> None:
    """F-50: a model that writes back what it was shown would destroy what was taken out; nobody is asked about it."""
    executor, gate = FakeExecutor(files={"a.txt": SECRET}), FakeGate()
    result = run_tool(WRITE_FILE, executor, gate, path=path, content=MARKED)
    assert error_of(result) == f'"{path}" is not written: {WHY}'
    assert (executor.files, gate.asked) == ({"a.txt": SECRET}, [])


@pytest.mark.parametrize(
    ("before", "content"),
    [
        (MARKED.encode(), MARKED),
        (MARKED.encode(), "[REDACTED]"),
        (b"\xff[REDACTED]", "[REDACTED]\n"),
        (SECRET, "password: [redacted]\n"),
    ],
)
def test_word_that_the_file_holds_already_may_stay(before: bytes, content: str) -> None:
    executor = FakeExecutor(files={"a.txt": before})
    assert not run_tool(WRITE_FILE, executor, path="a.txt", content=content).failed
    assert executor.files == {"a.txt": content.encode()}


def test_mark_that_the_file_holds_once_is_not_written_twice() -> None:
    """F-50: one is the word itself, the other stands for a secret."""
    executor = FakeExecutor(files={"a.txt": b"# [REDACTED] is our mark\n" + SECRET})
    assert "is not written" in error_of(
        run_tool(WRITE_FILE, executor, path="a.txt", content="# [REDACTED] is our mark\n" + MARKED)
    )


def test_patch_keeps_its_hands_off_what_was_taken_out() -> None:
    """F-50: neither by its new text nor by an old text that was never in the file; beside it, it works."""
    executor = FakeExecutor(files={"a.txt": SECRET})
    new = {"path": "a.txt", "old_string": "user: me", "new_string": "user: you\ntoken: [REDACTED]"}
    assert error_of(run_tool(PATCH, executor, **new)) == f'"a.txt" is unchanged: {WHY}'
    old = {"path": "a.txt", "old_string": MARKED, "new_string": "x"}
    assert error_of(run_tool(PATCH, executor, **old)) == (
        '"a.txt" is unchanged: old_string was not found: [REDACTED] replaces a secret that is in the file and is not '
        "shown; choose another passage"
    )
    assert executor.files == {"a.txt": SECRET}
    assert not run_tool(PATCH, executor, path="a.txt", old_string="user: me", new_string="user: you").failed
    assert executor.files == {"a.txt": b"user: you\npassword: hunter2hunter2\n"}


def test_what_a_model_was_shown_of_a_secret_does_not_come_back_into_the_file() -> None:
    """F-50: the way round: read through the redaction, write the very same lines."""
    executor = FakeExecutor(files={"a.txt": SECRET})
    tools = Toolbox((READ_FILE, WRITE_FILE), workspace(executor), redact=Redactor(["hunter2hunter2"]))
    shown = carry_out(tools, ToolCall(id="1", name="read_file", arguments=json.dumps({"path": "a.txt"}))).text
    lines = [line.partition("|")[2] for line in shown.split("\n") if "|" in line]
    assert lines == MARKED.splitlines()
    content = "\n".join(lines) + "\n"
    written = carry_out(
        tools, ToolCall(id="2", name="write_file", arguments=json.dumps({"path": "a.txt", "content": content}))
    )
    assert (written.failed, executor.files) == (True, {"a.txt": SECRET})


@pytest.mark.parametrize("old", ["KEY", "nothing like it"])
@pytest.mark.parametrize("path", [".env", "./x/../.env", "/workspace/.env"])
def test_patch_shows_no_line_of_a_file_that_may_not_be_read(path: str, old: str) -> None:
    """F8: neither in the diff nor in the error about what was not found."""
    executor = FakeExecutor(files={".env": b"KEY=secret\n"})
    gate = FakeGate({".env": "not that file"})
    with pytest.raises(FileAccessDenied, match="not that file"):
        run_tool(PATCH, executor, gate, path=path, old_string=old, new_string="K")
    assert executor.files == {".env": b"KEY=secret\n"}
    assert executor.reads == []


@pytest.mark.parametrize(
    ("before", "after", "diff"),
    [
        (None, "one\n", "@@ -0,0 +1,1 @@\n+one"),
        (b"one\ntwo\n", "one\n2\n", "@@ -1,2 +1,2 @@\n one\n-two\n+2"),
        (b"same\n", "same\n", ""),
        (b"x\n" * 1500, "y\n" * 1500, ""),
        (b"key = hunter22\n", "key = x\n", "@@ -1,1 +1,1 @@\n-key = [REDACTED]\n+key = x"),
    ],
)
def test_who_watches_sees_what_becomes_of_a_written_file(before: bytes | None, after: str, diff: str) -> None:
    """R-263: without secrets, and nothing of it in what the model reads; who does not watch pays nothing."""
    for watches in (True, False):
        executor = FakeExecutor(files={} if before is None else {"a": before})
        place = workspace(executor, shows_changes=watches)
        box = Toolbox((WRITE_FILE,), place, redact=lambda text: text.replace("hunter22", "[REDACTED]"))
        call = ToolCall(id="c", name="write_file", arguments=json.dumps({"path": "a", "content": after}))
        result = box.run(box.authorize(box.prepare((call,))[0]))
        assert (result.diffs, result.failed) == ((("a", diff),) if watches else (), False)
        assert result.text.startswith('{"success":true')
        assert executor.files["a"] == after.encode()


def test_who_watches_sees_what_a_patch_changes() -> None:
    """R-263."""
    executor = FakeExecutor(files={"a.txt": b"one\n"})
    result = run_tool(PATCH, executor, path="a.txt", old_string="one", new_string="1")
    assert result.diffs == (("a.txt", "@@ -1,1 +1,1 @@\n-one\n+1"),)
