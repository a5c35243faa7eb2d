from __future__ import annotations

import pytest

from odek.tools.regex_worker import Match, MatchResult, find_matches

LONG_S = 60.0


def search(pattern: str, *texts: bytes, limit: int = 10, timeout_s: float = LONG_S) -> MatchResult:
    return find_matches(pattern, texts, limit=limit, timeout_s=timeout_s)


@pytest.mark.parametrize(
    ("pattern", "text", "lines"),
    [
        ("a+b", b"x\naab\r\n\nb", [(2, "aab")]),
        ("^b$", b"ab\nb\nb\r\n", [(2, "b"), (3, "b")]),
        (r"\bgr\w+", "grün\ngr\xfcn".encode("latin-1") + "\ngrün".encode(), [(3, "grün")]),
        ("(?i)HELLO", b"hello\nHello", [(1, "hello"), (2, "Hello")]),
        ("", b"a\nb", [(1, "a"), (2, "b")]),
        ("b\na", b"b\na\n", []),
        ("\\ufffd", b"\xff\n", [(1, "\ufffd")]),
        ("z", b"", []),
        ("😀", "1\n2 😀\n".encode(), [(2, "2 😀")]),
    ],
)
def test_lines_are_matched_one_by_one(pattern: str, text: bytes, lines: list[tuple[int, str]]) -> None:
    """F-66: line ends of both kinds, any encoding, text of any language."""
    assert search(pattern, text) == MatchResult(
        hits=tuple(Match(index=0, line=line, text=shown) for line, shown in lines)
    )


def test_texts_are_told_apart_and_counted_to_the_limit() -> None:
    texts = (b"no", b"y\ny", b"y")
    hits = tuple(Match(index=index, line=line, text="y") for index, line in ((1, 1), (1, 2), (2, 1)))
    assert search("y", *texts, limit=3) == MatchResult(hits=hits)
    assert search("y", *texts, limit=2) == MatchResult(hits=hits[:2], more=True)


def test_long_line_is_shown_around_the_match() -> None:
    (hit,) = search("X", b"a" * 1000 + b"X" + b"b" * 1000).hits
    assert hit.text == "…" + "a" * 100 + "X" + "b" * 199 + "…"
    assert search("X", b"X" + b"b" * 299).hits[0].text == "X" + "b" * 299
    assert search("X", b"a" * 400 + b"X").hits[0].text == "…" + "a" * 299 + "X"


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", r"(\w+\s?)+:$"])
def test_pattern_that_never_ends_is_stopped_and_what_was_found_is_kept(pattern: str) -> None:
    """Faults of `re` cost the call its time, not the run."""
    found = search(pattern, b"a:\nab", b"a" * 60 + b"!", b"a", timeout_s=1.5)
    assert (found.stuck_at, {hit.index for hit in found.hits} <= {0}, found.error) == (1, True, "")


@pytest.mark.parametrize(
    ("pattern", "error"),
    [
        ("(", "missing ), unterminated subpattern at position 0"),
        ("*a", "nothing to repeat at position 0"),
        ("a{99999999999}", "the repetition number is too large"),
    ],
)
def test_wrong_pattern_is_explained(pattern: str, error: str) -> None:
    assert search(pattern, b"x") == MatchResult(hits=(), error=error)


def test_nested_pattern_that_breaks_the_compiler_is_an_error() -> None:
    found = search("(" * 100_000 + ")" * 100_000, b"x")
    assert (found.hits, found.error != "") == ((), True)


def test_nothing_is_imported_from_the_working_directory(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """B53: the other interpreter starts where odek was started."""
    monkeypatch.chdir(str(tmp_path))
    for name in ("re", "json", "marshal", "sitecustomize"):
        with open(f"{name}.py", "w") as file:
            file.write("raise SystemExit('hostile')")
    monkeypatch.setenv("PYTHONPATH", ".")
    assert len(search("a", b"a").hits) == 1
