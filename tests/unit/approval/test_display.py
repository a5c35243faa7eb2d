"""The layout of foreign text in a question."""

from __future__ import annotations

import pytest

from odek.approval.display import WIDTH, command_rows, field, fold, readable, value


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("echo ok", "echo ok"),
        ("echo ok" + " " * 4000 + "; rm -rf /workspace", "echo ok[4000 spaces]; rm -rf /workspace"),
        ("a" + " " * 24 + "b", "a" + " " * 24 + "b"),
        ("a" + " " * 25 + "b", "a[25 spaces]b"),
        ("\t" * 500 + "b", "[500 tabs]b"),
        (" \t" * 20 + "b\t", "[40 blanks]b\\t"),
        ("a" + "\u3000" * 30 + "b", "a[30 blanks]b"),
        ("a" + "\u2800\xa0" * 20 + "b", "a[40 blanks]b"),
        ("ls\r\x1b[2K\x1b]52;c;ZQ==\x07\x9b8m", "ls\\r\\x1b[2K\\x1b]52;c;ZQ==\\x07\\x9b8m"),
        ("a\u202eb\u200bc\n", "a\\u202eb\\u200bc\\n"),
    ],
)
def test_readable(text: str, shown: str) -> None:
    """R-64, B32, B34."""
    assert readable(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("alpine:latest", "alpine:latest"),
        ("./a b:/c", '"./a b:/c"'),
        ("", '""'),
        ("alpine\nApprove? [y] y", '"alpine\\nApprove? [y] y"'),
        ('a" b', '"a\\" b"'),
        ("аlpine", '"аlpine"'),
    ],
)
def test_value_is_quoted_unless_it_is_plain(text: str, shown: str) -> None:
    """B32: a value with a line end and a question in it stays inside its quotes."""
    assert value(text) == shown


@pytest.mark.parametrize(
    ("text", "pieces"),
    [("", ("",)), ("abcd", ("abcd",)), ("abcde", ("abcd", "e")), ("äöü", ("äö", "ü")), ("a\x7f", ("a\x7f",))],
)
def test_fold_counts_two_columns_beyond_ascii(text: str, pieces: tuple[str, ...]) -> None:
    assert fold(text, 4) == pieces


def test_field_marks_what_does_not_fit() -> None:
    assert field("image", "alpine") == ("  image:   alpine",)
    assert field("compose project", "x") == ("  compose project: x",)
    assert field("env", "") == ("  env:",)
    padding = "x" * WIDTH
    assert field("image", padding + "Approve? y") == (f"  image:   {padding}", "         + Approve? y")


@pytest.mark.parametrize(
    ("command", "rows"),
    [
        ("ls", ("  | ls",)),
        ("", ("  |",)),
        ("a\n\nb", ("  | a", "  |", "  | b")),
        ("a\n" * 2, ("  | a", "  | a", "  |")),
        ("\n" * 60 + "rm -rf /", ("  * [60 blank lines]", "  | rm -rf /")),
        ("ls" + "\n \n\t" * 30, ("  | ls", "  * [60 blank lines]")),
        ("\xa0\n\r\n\v", ("  | \xa0", "  | \\r", "  | \\x0b")),
        ("\\t" * 30, ("  | " + "\\t" * 30,)),
        ("ls\r\nrm x", ("  | ls\\r", "  | rm x")),
        ("x" * WIDTH + "rm", ("  | " + "x" * WIDTH, "  + rm")),
        ("cat\t<<-E", ("  | cat\\t<<-E",)),
    ],
)
def test_command_rows(command: str, rows: tuple[str, ...]) -> None:
    """B34: sixty line ends before the payload, and a line that would wrap."""
    assert command_rows(command) == rows
