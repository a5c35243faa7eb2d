"""What code, tests and documents cite can be opened: a number is defined in the documents, a module exists."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("docs/REQUIREMENTS.md", "docs/FAULTS.md", "docs/DOCKER.md", "SECURITY.md")
CITED = re.compile(r"\b(?:[RDFMSWP]-[0-9]{1,3}|B[0-9]{2,3})\b")
DEFINED = re.compile(r"\*\*([RDFMSWP]-?[0-9]{1,3}|[ABCDEF][0-9]{1,3})\*\*")
RANGE = re.compile(r"\*\*([RDFSWP]-)([0-9]{1,3})\*\* to \*\*[RDFSWP]-([0-9]{1,3})\*\*")
# linters' codes, and numbers in texts that tests make up
NOT_CITATIONS = {"B009", "B023", "B904", "B905", "B006", "B008"}


def defined() -> set[str]:
    text = "\n".join((ROOT / name).read_text() for name in DOCUMENTS)
    numbers = set(DEFINED.findall(text))
    for kind, first, last in RANGE.findall(text):
        numbers |= {f"{kind}{number}" for number in range(int(first), int(last) + 1)}
    return numbers


def cited_in(path: Path) -> set[str]:
    return set(CITED.findall(path.read_text(encoding="utf-8", errors="replace"))) - NOT_CITATIONS


def listed(*patterns: str) -> list[str]:
    """Return the tracked files that match `patterns`, relative to the root."""
    done = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z", *patterns], capture_output=True, check=True)
    return [name for name in done.stdout.decode().split("\0") if name]


def sources() -> list[Path]:
    return [ROOT / name for name in listed("odek/*.py", "tests/*.py", "build/*.py")]


def test_each_cited_number_is_defined_in_the_documents() -> None:
    known = defined()
    unknown = {str(path.relative_to(ROOT)): sorted(cited_in(path) - known) for path in sources()}
    assert {path: numbers for path, numbers in unknown.items() if numbers} == {}


def test_a_number_that_is_not_defined_is_found(tmp_path: Path) -> None:
    source = tmp_path / "a.py"
    made_up = {"R-" + "999", "B" + "77"}  # in two parts: this file is looked through as well
    source.write_text(f'"""R-12: and B01, {" and ".join(made_up)}."""\n')
    assert cited_in(source) - defined() == made_up


MODULE = re.compile(r"(?<![\w./-])(?:[\w-]+/)*\w+\.py\b")


def missing_modules(text: str, modules: list[str]) -> list[str]:
    """Return the modules that `text` names by a path, or its end, that none of `modules` has."""
    return [name for name in MODULE.findall(text) if not any(f"/{each}".endswith(f"/{name}") for each in modules)]


def test_each_module_that_is_named_exists() -> None:
    """In the documents and in what each module says of itself; what was merged or renamed is found here."""
    modules = listed("*.py")
    texts = {name: (ROOT / name).read_text(encoding="utf-8") for name in listed("*.md") if name != "CHANGELOG.md"}
    for path in sources():
        texts[str(path.relative_to(ROOT))] = ast.get_docstring(ast.parse(path.read_bytes())) or ""
    missing = {name: missing_modules(text, modules) for name, text in texts.items()}
    assert {name: found for name, found in missing.items() if found} == {}


def test_a_module_that_is_gone_is_found() -> None:
    text = "`trusted.py` and sandbox/spec.py, not app/spec.py, pec.py or a.pyc"
    assert missing_modules(text, ["odek/sandbox/spec.py"]) == ["trusted.py", "app/spec.py", "pec.py"]
