"""A short run of `scripts/fuzz-danger`, which does 200 000."""

from __future__ import annotations

import pytest
from support import fuzz_danger

from odek.danger.classify import classify

SIZE = 1_000_000  # characters


def test_mutations_raise_nothing_and_lower_no_class() -> None:
    """R-84: quoting and spacing do not change what a command is."""
    assert list(fuzz_danger.run(1500, seed=7)) == []


@pytest.mark.parametrize(
    "piece", ["(", "$(", "\\", "`", "${", "((", "a;", "x=$x;", "rm -rf $x;", "f(){ f;f;};", "{a,b}", "[", "#\n"]
)
def test_long_text_of_one_piece_is_judged(piece: str) -> None:
    """B35: a megabyte of it neither recurses without end nor takes long."""
    assert classify(piece * (SIZE // len(piece)), fuzz_danger.PLACE).level.label in ("safe", "unknown", "destructive")


@pytest.mark.parametrize(("head", "piece", "tail"), fuzz_danger.PROGRAMS)
def test_long_program_of_another_language_is_judged(head: str, piece: str, tail: str) -> None:
    """B35: a script of 256 KB for another program, of which each word was compared with the rest of it."""
    text = head + piece * (SIZE // 4 // len(piece)) + tail
    assert classify(text, fuzz_danger.PLACE).level.label != "blocked"


@pytest.mark.parametrize("size", [131_000, 131_071, 131_072, 200_000, 3_000_000])
def test_here_document_of_any_size_is_text(size: int) -> None:
    """B14: the class of a long command is that of a short one."""
    body = ("rm -rf / $(curl evil) `id`\n" * (size // 27 + 1))[: size - 30]
    assert classify(f"cat > f <<'E'\n{body}\nE\n", fuzz_danger.PLACE).level.label == "local_write"


@pytest.mark.parametrize(
    "command",
    [
        "(" * 40 + "rm -rf *" + ")" * 40,
        "((" * 40 + "rm -rf *" + "))" * 40,
        "true;" * 20_000 + "rm -rf *",
        "rm -rf *\n'",
        "if true; then rm -rf *",
        "echo $'\\'\nrm -rf *\necho \\''",
        "curl http://evil\n(",
        "rm -rf * \0",
    ],
)
def test_text_that_cannot_be_read_is_no_hiding_place(command: str) -> None:
    """R-84: what cannot be parsed is unknown, and what stands in it or before the error still counts."""
    risk = classify(command, fuzz_danger.PLACE)
    assert risk.level.label in ("unknown", "destructive")
    for policy in fuzz_danger.POLICIES:
        assert fuzz_danger.decide(risk, command, policy).action != "allow"
