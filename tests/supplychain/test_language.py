"""Words that a reader of this field would stumble over stay out (docs/GLOSSARY.md has those that are ours)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# what to write instead
WORDS = {
    r"(?<!there )\bis no (?!longer|more|other|such|help|better|different|less|lower|one\b|way\b)[a-z]+": "is not a …",
    r"\bread over\b": "skipped",
    r"\bpassed over\b": "skipped",
    r"\bwhoever\b": "the user, anyone, whatever …",
    r"\bfor ever\b": "forever",
    r"\bheed(?:s|ed)?\b": "obey, check",
    r"\bforesee": "plan, preapprove",
    r"\bmend(?:s|ed|ing)\b": "fix, repair",
    r"\bsomebody\b(?! else's\")": "a person, another process …",
}
PATTERN = re.compile("|".join(WORDS), re.IGNORECASE)
# documents that quote the words of others
NOT_OURS = ("docs/FAULTS.md", "docs/REQUIREMENTS.md", "tests/supplychain/test_language.py")


def texts() -> list[str]:
    listed = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "odek/*.py", "build/*", "scripts/*", "docs/*.md", "*.md"],
        capture_output=True,
        check=True,
        text=True,
    ).stdout.splitlines()
    return [name for name in listed if name not in NOT_OURS]


@pytest.mark.parametrize("name", texts())
def test_words_are_those_of_the_field(name: str) -> None:
    found = [
        f"{number}: {line.strip()}"
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").splitlines(), start=1)
        if PATTERN.search(line)
    ]
    assert found == []


@pytest.mark.parametrize("text", ["it is no JSON", "Whoever asks", "is mended", "there is a file that is no link"])
def test_such_a_word_is_found(text: str) -> None:
    assert PATTERN.search(text)


@pytest.mark.parametrize("text", ["there is no such file", "it is no longer there", "amendment", "is not a file"])
def test_plain_words_are_not(text: str) -> None:
    assert not PATTERN.search(text)
