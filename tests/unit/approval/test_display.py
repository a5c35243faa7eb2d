"""The layout of foreign text in a question."""

from __future__ import annotations

import unicodedata

import pytest

from odek.approval.display import WIDTH, command_rows, field, fold, readable, value
from odek.text import visible

pytestmark = pytest.mark.once  # no Python can make a difference


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
    words = "loses work or history that cannot be had back, and more of it than " * 3
    assert [len(row) for row in field("risk", words, words=True)] == [72, 75, 75, 22]
    assert " ".join(row[11:] for row in field("risk", words, words=True)).split() == words.split()
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
        ("\xa0\n\r\n\v", ("  | \\u00a0", "  | \\r", "  | \\x0b")),
        ("\\t" * 30, ("  | " + "\\t" * 30,)),
        ("ls\r\nrm x", ("  | ls\\r", "  | rm x")),
        ("x" * WIDTH + "rm", ("  | " + "x" * WIDTH, "  + rm")),
        ("cat\t<<-E", ("  | cat\\t<<-E",)),
    ],
)
def test_command_rows(command: str, rows: tuple[str, ...]) -> None:
    """B34: sixty line ends before the payload, and a line that would wrap."""
    assert command_rows(command) == rows


def test_every_character_beyond_ascii_that_is_not_a_letter_or_digit_is_escaped() -> None:
    """F12, R-64: the whole of Unicode, each alone and after a letter; what is left is visible and names itself.

    Of what has no meaning (not assigned, private, half of a pair) a sample.
    """
    for code in range(0x80, 0x110000):
        character = chr(code)
        category = unicodedata.category(character)
        if category in ("Cn", "Co", "Cs") and code % 251:
            continue
        shown = readable(f"a{character}").removeprefix("a")
        if shown.isascii() and "\\" in shown:
            continue
        assert character.isprintable()
        assert category in ("Lu", "Ll", "Lt", "Lm", "Lo", "Nd", "Mn"), f"U+{code:04X}"
        if category == "Mn":  # an accent, on a letter of a script that has some
            assert unicodedata.name(character).startswith("COMBINING "), f"U+{code:04X}"
            assert not readable(f"1{character}").endswith(character)


@pytest.mark.parametrize(
    "code",
    [
        *range(0x13430, 0x13440), *range(0xFE00, 0xFE10), *range(0xE0000, 0xE0080), *range(0xE0100, 0xE01F0),
        *range(0x200B, 0x2010), *range(0x2028, 0x2030), *range(0x2060, 0x2070), *range(0x2000, 0x200B),
        0xA0, 0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x1680, 0x180E, 0x202F, 0x205F, 0x2800, 0x3000, 0x3164, 0xFFA0,
        0xFEFF, 0xE000, 0xF0000, 0x378, 0xD800, 0x16FE4, 0x1D159, 0xFFFC,
    ],
    ids=lambda code: f"U+{code:04X}",
)  # fmt: skip
def test_what_cannot_be_seen_is_escaped_everywhere(code: int) -> None:
    """F12: not on cards alone; one of them is enough."""
    assert visible(f"a{chr(code)}b") == (f"a\\u{code:04x}b" if code < 0x10000 else f"a\\U{code:08x}b")
    assert readable(f"a{chr(code)}b").isascii()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "größe naïve žluťoučký Ωμέγα привет 日本語 ファイル 한국어",
            "größe naïve žluťoučký Ωμέγα привет 日本語 ファイル 한국어",
        ),
        ("re\u0301sume\u0301 हिन्दी ไทย", "re\u0301sume\u0301 हिन्दी ไทย"),
        ("a\u0301\u0302\u0303", "a\u0301\u0302\\u0303"),
        ("a\u093f", "a\\u093f"),
        ("\u0301a /\u0338", "\\u0301a /\\u0338"),
        ("rm –rf “x” ⁄ ∕ ． ＂ \u037e", "rm \\u2013rf \\u201cx\\u201d \\u2044 \\u2215 \\uff0e \\uff02 \\u037e"),
        ("\u02bcx\u02bc", "\\u02bcx\\u02bc"),
        ("🙂", "\\U0001f642"),
        ("sh אבג build.sh", "sh [rtl]אבג[/rtl] build.sh"),
        ("sh אבג/שלום", "sh [rtl]אבג[/rtl]/[rtl]שלום[/rtl]"),
        ("שָׁלוֹם", "[rtl]שָׁלוֹם[/rtl]"),
        ("سلام1", "[rtl]سلام[/rtl]1"),
        ("א" * 40, f"[rtl]{'א' * 16}[/rtl]" * 2 + f"[rtl]{'א' * 8}[/rtl]"),
    ],
)
def test_letters_stay_and_right_to_left_is_kept_in_order(text: str, shown: str) -> None:
    """F12: the order on the screen is the order of execution."""
    assert readable(text) == shown


def test_no_row_begins_in_the_middle_of_right_to_left_letters() -> None:
    """F12: such a row could be laid out from the right as a whole."""
    rows = command_rows("sh " + "אבגד " * 60 + "א" * 200)
    assert all(row.count("[rtl]") == row.count("[/rtl]") > 0 for row in rows)
    assert all(len(row) <= 80 for row in rows)
