from __future__ import annotations

import pytest

from odek.tools.edit import EditError, apply_changes, find_changes, render_diff


def edit(text: str, old: str, new: str, *, replace_all: bool = False) -> str:
    return apply_changes(text, find_changes(text, old, new, replace_all=replace_all))


def diff(text: str, old: str, new: str, *, replace_all: bool = False, limit: int = 10_000) -> list[str]:
    return render_diff(text, find_changes(text, old, new, replace_all=replace_all), limit=limit).split("\n")


@pytest.mark.parametrize(
    ("text", "old", "new", "result"),
    [
        pytest.param("one two\n", "two", "2", "one 2\n", id="word"),
        pytest.param("a\nb\nc", "b\nc", "x", "a\nx", id="no newline at the end"),
        pytest.param("a\nb\n", "b\n", "", "a\n", id="line removed"),
        pytest.param("a\r\nb\r\n", "a", "x", "x\r\nb\r\n", id="word in CRLF"),
        pytest.param("a\r\nb\r\nc\r\n", "a\nb", "a\nnew\nb", "a\r\nnew\r\nb\r\nc\r\n", id="LF passage in CRLF"),
        pytest.param("a\r\nb\r\n", "a\nb\n", "", "", id="LF passage in CRLF removed"),
        pytest.param("a\r\nb\r\n", "b", "b\nc", "a\r\nb\r\nc\r\n", id="line added to CRLF"),
        pytest.param("a\r\nb", "b", "b\nc\n", "a\r\nb\r\nc\r\n", id="lines added after the last CRLF"),
        pytest.param("a\r\nb\nc\r\n", "a\nb\nc", "a\nB\nc", "a\r\nB\nc\r\n", id="mixed line ends, middle changed"),
        pytest.param("a\nb\r\nc\n", "a\nb\nc", "A\nb\nC", "A\nb\r\nC\n", id="mixed line ends, both sides changed"),
        pytest.param("a\nb\r\nc\n", "a\n", "x\ny\n", "x\ny\nb\r\nc\n", id="mixed line ends, LF line grows"),
        pytest.param("a\nb\r\nc\n", "b", "x\ny", "a\nx\r\ny\r\nc\n", id="mixed line ends, CRLF line grows"),
        pytest.param("a\r\nb\r\n", "a\r\nb", "a\nb", "a\nb\r\n", id="CR named, CR removed"),
        pytest.param("a\nb\n", "a\nb", "a\r\nb", "a\r\nb\n", id="CR named, CR added"),
        pytest.param("x\ry\r\nz\r\n", "y\nz", "Y\nz", "x\rY\r\nz\r\n", id="lone CR as data"),
        pytest.param(
            "\x0ca\x0b\x85b\u2028c\r\n", "b", "B", "\x0ca\x0b\x85B\u2028c\r\n", id="other line separators are data"
        ),
        pytest.param("\ufeffa\r\n", "a\n", "b\n", "\ufeffb\r\n", id="byte order mark"),
        pytest.param("\r\n\r\na\r\n", "\na\n", "\nb\n", "\r\n\r\nb\r\n", id="passage that begins with a line end"),
        pytest.param("a.c abc\n", "a.c", "\\1", "\\1 abc\n", id="nothing is a pattern"),
    ],
)
def test_edit_changes_only_what_was_asked(text: str, old: str, new: str, result: str) -> None:
    """B54: line ends, marks and everything beside the passage stay byte for byte."""
    assert edit(text, old, new) == result


@pytest.mark.parametrize(
    ("text", "old", "new", "result"),
    [
        ("aXbXc", "X", "YX", "aYXbYXc"),
        ("aaa", "aa", "b", "ba"),
        ("x\r\ny\nx\r\n", "x\n", "z\n", "z\r\ny\nz\r\n"),
    ],
)
def test_replace_all_changes_every_occurrence_once(text: str, old: str, new: str, result: str) -> None:
    assert edit(text, old, new, replace_all=True) == result


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        ("a", "", "b", "old_string is empty; write_file makes new files"),
        ("a", "a", "a", "old_string and new_string are the same"),
        ("a", "b", "c", "old_string was not found; it must be exactly as in the file, blanks included"),
        (
            "x\n  if a:\n",
            "if a:\n    b",
            "c",
            "old_string was not found; it must be exactly as in the file, blanks included. "
            "Its first line, give or take blanks, is on line 2",
        ),
        (
            "a\nb\na\n",
            "a",
            "c",
            "old_string occurs 2 times (lines 1, 3); add lines around it, or set replace_all",
        ),
        ("aaa", "aa", "b", "old_string occurs 2 times (lines 1, 1); add lines around it, or set replace_all"),
    ],
)
def test_edit_refuses_what_is_missing_or_ambiguous(text: str, old: str, new: str, message: str) -> None:
    """F-67, B54: the first of several is not a guess that odek makes."""
    with pytest.raises(EditError) as caught:
        edit(text, old, new)
    assert str(caught.value) == message


def test_edit_lists_a_few_of_many_places() -> None:
    with pytest.raises(EditError) as caught:
        edit("a\n" * 30, "a", "b")
    shown = ", ".join(map(str, range(1, 21)))
    assert str(caught.value).startswith(f"old_string occurs 30 times (lines {shown}, …);")


@pytest.mark.parametrize("replace_all", [False, True])
def test_edit_stops_at_too_many_places(replace_all: bool) -> None:
    with pytest.raises(EditError) as caught:
        edit("a" * 10_001, "a", "b", replace_all=replace_all)
    assert str(caught.value) == "old_string occurs more than 10000 times"


TEN = "".join(f"{number}\n" for number in range(1, 11))


@pytest.mark.parametrize(
    ("text", "old", "new", "lines"),
    [
        pytest.param(
            TEN, "5\n", "five\n",
            ["@@ -2,7 +2,7 @@", " 2", " 3", " 4", "-5", "+five", " 6", " 7", " 8"],
            id="one line",
        ),
        pytest.param(
            TEN, "1\n", "",
            ["@@ -1,4 +1,3 @@", "-1", " 2", " 3", " 4"],
            id="first line removed",
        ),
        pytest.param(
            TEN, "10\n", "10\n11\n12",
            ["@@ -8,3 +8,5 @@", " 8", " 9", " 10", "+11", "+12", "\\ No newline at end of file"],
            id="lines added at the end",
        ),
        pytest.param(
            TEN, TEN, TEN.replace("5", "five"),
            ["@@ -2,7 +2,7 @@", " 2", " 3", " 4", "-5", "+five", " 6", " 7", " 8"],
            id="long passage, one line of it changed",
        ),
        pytest.param(
            TEN, "2", "2\nnew",
            ["@@ -1,5 +1,6 @@", " 1", " 2", "+new", " 3", " 4", " 5"],
            id="line added",
        ),
        pytest.param(
            "a\r\nb\r\n", "b", "c",
            ["@@ -1,2 +1,2 @@", " a", "-b", "+c"],
            id="CRLF",
        ),
        pytest.param("a", "a", "", ["@@ -1,1 +0,0 @@", "-a", "\\ No newline at end of file"], id="all removed"),
        pytest.param(
            "a\nb\nc", "\nb", "",
            ["@@ -1,3 +1,2 @@", " a", "-b", " c", "\\ No newline at end of file"],
            id="passage across a line end",
        ),
    ],
)  # fmt: skip
def test_render_diff_shows_the_change_with_its_lines(text: str, old: str, new: str, lines: list[str]) -> None:
    """F-68: a real unified diff."""
    assert diff(text, old, new) == lines


def test_render_diff_joins_near_changes_and_separates_far_ones() -> None:
    text = "x\n1\nx\n2\n3\n4\n5\n6\n7\n8\nx\n9\n"
    assert diff(text, "x\n", "y\nz\n", replace_all=True) == [
        *("@@ -1,6 +1,8 @@", "-x", "+y", "+z", " 1", "-x", "+y", "+z", " 2", " 3", " 4"),
        *("@@ -8,5 +10,6 @@", " 6", " 7", " 8", "-x", "+y", "+z", " 9"),
    ]


def test_render_diff_is_capped() -> None:
    lines = diff("x\n" * 5000, "x", "y", replace_all=True, limit=100)
    assert (lines[0], lines[-1]) == ("@@ -1,5000 +1,5000 @@", "[the rest of the diff is left out]")
    assert sum(len(line) + 1 for line in lines) <= 150


SOURCE = 'import os\n\nx = 1\nname = "it\'s"  # a-b\nif a < b and c:\n\treturn  x\n'


@pytest.mark.parametrize(
    ("old", "words"),
    [
        ("3|x = 1", 'line numbers that read_file shows in front of each line. Line 3 of the file is "x = 1"'),
        ('     3|x = 1\n     4|name = "it\'s"', "line numbers that read_file shows"),
        ("3: x = 1", "line numbers"),
        ("3\u2192x = 1", "line numbers"),
        ("name = \u201cit's\u201d", "quotes, dashes or blanks that only look alike. Line 4"),
        ('name = "it\u2019s"', "only look alike"),
        ("# a\u2013b", "only look alike"),
        ("x\u00a0= 1", "only look alike"),
        (" x = 1\n name", "signs of a diff"),
        ("x = 1\\nname", "escapes"),
        ("if a &lt; b", "HTML entities"),
        ("return x", "it differs in blanks. Line 6"),
        ("x = 1   \nname", "it differs in blanks. Line 3"),
    ],
)
def test_passage_that_was_copied_badly_is_refused_with_what_differs(old: str, words: str) -> None:
    """B120: nothing is guessed, and nothing changes."""
    with pytest.raises(EditError) as caught:
        edit(SOURCE, old, "y")
    assert words in str(caught.value)


@pytest.mark.parametrize("text", [SOURCE, SOURCE.replace("\n", "\r\n")])
def test_passage_that_is_nowhere_is_not_explained_away(text: str) -> None:
    """B120"""
    for old in ("3|y = 2", "\u201cnothing\u201d", "zzz", "1|", "&lt;zzz"):
        with pytest.raises(EditError, match="it must be exactly as in the file"):
            edit(text, old, "y")
