"""Tables keep to the width of a terminal."""

from __future__ import annotations

import pytest

from odek.cli.help import fold
from odek.cli.table import Column, render_table, shorten
from odek.cli.wrap import width_of

COLUMNS = (Column("NAME"), Column("WHAT", least=6, rank=1), Column("TASK", least=8))
ROWS = (("one", "x" * 20, "find out why the tests fail"), ("three", "y", "z"))


@pytest.mark.parametrize(
    ("width", "first", "second"),
    [
        (0, "NAME   WHAT                  TASK", "one    xxxxxxxxxxxxxxxxxxxx  find out why the tests fail"),
        (80, "NAME   WHAT                  TASK", "one    xxxxxxxxxxxxxxxxxxxx  find out why the tests fail"),
        (50, "NAME   WHAT                  TASK", "one    xxxxxxxxxxxxxxxxxxxx  find out why the…"),
        (34, "NAME   WHAT          TASK", "one    xxxxxxxxxxx…  find out why…"),
        (20, "NAME   TASK", "one    find out why…"),
    ],
)
def test_table_fits(width: int, first: str, second: str) -> None:
    """C10, R-303: the widest column is shortened by words, the least important one left out; whole in a pipe."""
    lines = render_table(COLUMNS, ROWS, width)
    assert lines[:2] == [first, second]
    assert all(len(line) <= width for line in lines if width)


WIDE = (("one", "日本語のタイトル", "説明がとても長い"), ("two", "ÄÖ", "e\u0301e\u0301 👍 ok"))


@pytest.mark.parametrize("width", [0, *range(12, 60)])
def test_wide_characters_keep_columns_in_line(width: int) -> None:
    """R-373, R-303: measured as a terminal shows them, in a table that fits and in one that is shortened."""
    lines = render_table(COLUMNS, WIDE, width)
    assert all(width_of(line) <= width for line in lines if width)
    if not width or width >= 44:
        starts = [
            width_of(line[: line.index(word)]) for line, word in zip(lines, ("TASK", "説明", "e\u0301"), strict=True)
        ]
        assert len(set(starts)) == 1


def test_table_without_headings_has_no_line_for_them() -> None:
    assert render_table((Column(""), Column("")), [("a", "b")], 0) == ["a  b"]


@pytest.mark.parametrize(
    ("text", "width", "short"),
    [
        ("find out why", 12, "find out why"), ("find out why", 11, "find out…"), ("find out why", 9, "find out…"),
        ("abcdefghijkl", 6, "abcde…"), ("a bcdefghijk", 6, "a bcd…"), ("", 3, ""), ("abc", 1, "…"),
    ],
)  # fmt: skip
def test_text_is_shortened_by_words(text: str, width: int, short: str) -> None:
    """R-303: of one long word its beginning."""
    assert shorten(text, width) == short


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("why: deletes the tree at /", "why: deletes the tree\n     at /"),
        ("  network  a network of your own", "  network  a network\n    of your own"),
        ("short line", "short line"),
        ("one two three four five six", "one two three four\n  five six"),
        ("/a/very/long/path/that/has/no/blank", "/a/very/long/path/that/has/no/blank"),
    ],
)
def test_lines_are_folded_below_what_follows_their_label(text: str, folded: str) -> None:
    """R-303."""
    assert fold(text, 21) == folded
    assert fold(text, 0) == text
