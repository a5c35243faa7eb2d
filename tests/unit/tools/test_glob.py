from __future__ import annotations

import pytest

from odek.tools.glob import Wildcard, WildcardError


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("*.py", ["a.py", ".py", "we\udcff.py"], ["a.pyc", "d/a.py", "a.PY"]),
        ("**/*.py", ["a.py", "d/a.py", "d/e/a.py"], ["a.txt", "d"]),
        ("src/**", ["src/a", "src/d/a"], ["src", "srcs/a", "d/src/a"]),
        ("**", ["a", "d/a"], []),
        ("a/**/b", ["a/b", "a/x/b", "a/x/y/b"], ["a/b/c", "b"]),
        ("?.[ch]", ["a.c", "ä.h"], ["ab.c", "a.o", "a.[ch]"]),
        ("[!a]*", ["b", "bc"], ["a", "ab"]),
        ("*.{ts,tsx}", ["a.ts", "a.tsx"], ["a.t", "a.{ts,tsx}"]),
        ("{src,lib}/{a,b}", ["src/a", "lib/b"], ["src/c"]),
        ("{a,{b,c}}d", ["ad", "bd", "cd"], ["d"]),
        ("./src//*.c", ["src/a.c"], ["a.c"]),
        ("nl\nname", ["nl\nname"], ["nl"]),
        ("a{", ["a{"], ["a"]),
    ],
)
def test_wildcard_describes_paths(pattern: str, yes: list[str], no: list[str]) -> None:
    """R-83."""
    wildcard = Wildcard(pattern)
    assert ([path for path in yes if not wildcard.matches(path)], [path for path in no if wildcard.matches(path)]) == (
        [],
        [],
    )


@pytest.mark.parametrize(
    ("pattern", "folder", "depth"),
    [
        ("*.py", "", 1),
        ("src/*.py", "src", 2),
        ("src/a/**/*.py", "src/a", None),
        (".github/workflows/*.yml", ".github/workflows", 3),
        ("{src,lib}/a/*", "", 3),
        ("src/{a,b}/c", "src", 3),
        ("{src/a,src/b/c}", "src", 3),
        ("src", "", 1),
    ],
)
def test_wildcard_knows_where_to_look(pattern: str, folder: str, depth: int | None) -> None:
    wildcard = Wildcard(pattern)
    assert (wildcard.folder, wildcard.depth) == (folder, depth)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("", "the pattern is empty"),
        ("/", "the pattern is empty"),
        ("/etc/*", 'the pattern must be relative, without ".."; name the folder in path'),
        ("a/../b", 'the pattern must be relative, without ".."; name the folder in path'),
        ("~/x", 'the pattern must be relative, without ".."; name the folder in path'),
        ("{a,b}" * 8, "the braces stand for more than 100 patterns"),
        ("a" * 1001, "the pattern has more than 1000 characters"),
    ],
)
def test_pattern_that_cannot_be_used_is_refused(pattern: str, message: str) -> None:
    """R-83: absolute patterns and ".." leave the workspace."""
    with pytest.raises(WildcardError) as caught:
        Wildcard(pattern)
    assert str(caught.value) == message


def test_hostile_patterns_take_no_time() -> None:
    """A backtracking matcher would not come back from these."""
    assert not Wildcard("*a" * 100 + "b").matches("a" * 255)
    assert not Wildcard("**/a/" * 100 + "b").matches("/".join("a" * 500))
