"""Widths of text on a terminal, and lines broken between words (C4, R-261)."""

from __future__ import annotations

import random

import pytest

from odek.cli.wrap import Wrapper, fit, width_of


@pytest.mark.parametrize(
    ("text", "width"),
    [
        ("", 0),
        ("plain", 5),
        ("naïve", 5),
        ("nai\u0308ve", 5),
        ("日本", 4),
        ("ﾊﾟ", 2),
        ("각", 2),
        ("\u1100\u1161\u11a8", 2),
        ("🙂", 2),
        ("❤\ufe0f", 2),
        ("a\u200db", 2),
        ("👩\u200d💻", 4),  # terminals that do not join them need as many
        ("é", 1),
        ("ก็", 1),
    ],
)
def test_width(text: str, width: int) -> None:
    assert width_of(text) == width


@pytest.mark.parametrize(
    ("text", "columns", "shown"),
    [
        ("plain", 5, "plain"), ("plain", 4, "pla…"), ("日本語", 6, "日本語"), ("日本語", 5, "日本…"),
        ("日本語", 4, "日…"), ("e\u0301e\u0301e\u0301", 2, "e\u0301…"), ("x", 0, ""), ("xy", 1, "…"),
    ],
)  # fmt: skip
def test_text_that_must_fit(text: str, columns: int, shown: str) -> None:
    assert fit(text, columns) == shown


def wrapped(text: str, columns: int, *, step: int = 10_000, first: str = "", hang: str = "") -> list[str]:
    out: list[str] = []
    wrapper = Wrapper(lambda text, *_: text, lambda: columns, out.append)
    wrapper.begin(first, hang)
    for start in range(0, len(text), step):
        wrapper.feed(((text[start : start + step], ()),))
    wrapper.end()
    return "".join(out).removesuffix("\n").split("\n")


@pytest.mark.parametrize(
    ("text", "columns", "rows"),
    [
        ("one two three", 7, ["one two", "three"]),
        ("one two three", 8, ["one two", "three"]),
        ("one  two", 8, ["one  two"]),
        ("one  two", 7, ["one", "two"]),
        ("a https://example.org/x b", 24, ["a https://example.org/x", "b"]),
        ("a https://example.org/x b", 22, ["a", "https://example.org/x", "b"]),
        ("a https://example.org/x b", 12, ["a", "https://exam", "ple.org/x b"]),
        ("日本語のテキスト、終わり。", 9, ["日本語の", "テキス", "ト、終わ", "り。"]),
        ("ab 日本語", 6, ["ab 日", "本語"]),
        ("x\ty", 9, ["x    y"]),
        ("", 10, [""]),
        ("e\u0301" * 5, 2, ["e\u0301" * 2, "e\u0301" * 2, "e\u0301"]),
        ("👩\u200d💻👩\u200d💻", 5, ["👩\u200d💻", "👩\u200d💻"]),
    ],
)
@pytest.mark.parametrize("step", [1, 3, 10_000])
def test_lines_break_between_words(text: str, columns: int, rows: list[str], step: int) -> None:
    """C4: addresses where they do not fit at all, wide scripts between their letters; a mark stays with its letter."""
    if step == 10_000 or text.isascii():
        assert wrapped(text, columns, step=step) == rows


def test_rows_hang_below_their_first_word() -> None:
    assert wrapped("one two three", 10, first="- ", hang="  ") == ["- one two", "  three"]
    assert wrapped("four five", 8, first="  " * 9, hang="  " * 9) == ["four", "five"]


def test_width_that_changes_counts_from_the_next_row() -> None:
    """C4."""
    widths = iter((20, 8, 8, 8))
    out: list[str] = []
    wrapper = Wrapper(lambda text, *_: text, lambda: next(widths), out.append)
    wrapper.begin()
    wrapper.feed((("one two three four five six seven", ()),))
    wrapper.end()
    assert "".join(out) == "one two three four\nfive six\nseven\n"


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_lost_and_no_row_is_too_wide(seed: int) -> None:
    """C4: any text, width and pieces."""
    chance = random.Random(seed)
    for _ in range(40):
        text = "".join(
            chance.choices("abcdefgh   -.,日本語。、🙂e\u0301\u200d\ufe0f" + "x" * 8, k=chance.randint(0, 200))
        )
        columns, step = chance.choice((20, 21, 33, 80, 300)), chance.choice((1, 2, 7, 500))
        rows = wrapped(text, columns, step=step, first="- ", hang="  ")
        assert max(map(width_of, rows)) <= columns, (text, columns, rows)
        assert "".join("".join(rows).split()) == "-" + "".join(text.split())
