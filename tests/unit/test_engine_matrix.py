"""The table of the engines that the tests were run on (docs/DOCKER.md), and how scripts/engine-matrix makes it."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from support.engine_matrix import (
    DOCUMENT,
    ENGINES,
    HEAD,
    Counts,
    files_named,
    not_run,
    read_counts,
    read_table,
    row,
    second_chance,
    still_holds,
    when,
    write_table,
)

pytestmark = pytest.mark.once

SANDBOXING = Path(__file__).resolve().parents[2] / "docs" / "SANDBOXING.md"
CELLS = (
    r"`[a-z0-9.-]+`",
    r"(Docker|podman) [0-9.]+, Debian [a-z]+",
    r"runc [0-9.]+, [a-z0-9]+, v[12]",
    r"classic, BuildKit \((built in|buildx [0-9.]+)\)|buildah",
    r"[1-9][0-9]*",
    r"[0-9]+",
    r"[0-9]+",
    r"20[0-9]{2}-[0-9]{2}-[0-9]{2}, [0-9]+ files, (complete|[1-9][0-9]* missing),( [0-9a-f]{7,12})+",
)
EMPTY = "# D\n\n<!-- engine-matrix: begin -->\n<!-- engine-matrix: end -->\nthe rest | `no` |\n"
REPORT = """<testsuites><testsuite>
<testcase classname="a.b" name="good"/>
<testcase classname="a.b" name="bad"><failure/></testcase>
<testcase classname="a.b" name="bad"><error/></testcase>
<testcase classname="a.b" name="c"><skipped/></testcase>
</testsuite></testsuites>"""


def test_each_engine_has_a_row_that_was_run_or_says_why_not() -> None:
    """D11, R-332: in the order of the script; no cell is missing, none was made by hand in another form."""
    table = read_table(DOCUMENT.read_text())
    assert list(table) == [each.name for each in ENGINES]
    for name, cells in table.items():
        if not cells[1].startswith("not run: "):
            wrong = [cell for cell, form in zip(cells, CELLS, strict=True) if not re.fullmatch(form, cell)]
            assert not wrong, name
        assert len(cells) == len(HEAD)


def test_what_the_documents_claim_was_run() -> None:
    """R-332: each engine that is not refused stands in the table, with an engine of its own."""
    _, _, section = SANDBOXING.read_text().partition("## Which engines\n")
    rows = [line.strip("|").split("|") for line in section.partition("\n\n#")[0].splitlines() if line.startswith("| ")]
    claims = {cells[0].strip() for cells in rows[1:] if cells[1].strip().startswith(("the same", "everything here"))}
    assert claims == {each.claim for each in ENGINES}


def test_rows_are_replaced_and_others_kept() -> None:
    """R-332: an engine that was not run again keeps its row."""
    first, last = ENGINES[0].name, ENGINES[-1].name
    facts = {"engine": "Docker 1.2, Debian x", "runtime": "runc 1, overlay2, v1", "builders": "buildah"}
    made = write_table(EMPTY, {first: row(first, facts, Counts(passed=3), "2026-01-01, abcdef0")})
    table = read_table(made)
    assert table[first] == (f"`{first}`", *facts.values(), "3", "0", "0", "2026-01-01, abcdef0")
    assert table[last] == not_run(last, "not yet")
    again = write_table(made, {last: not_run(last, "no reason")})
    assert read_table(again) == {**table, last: not_run(last, "no reason")}
    assert (again.startswith("# D\n\n<!--"), again.endswith("-->\nthe rest | `no` |\n")) == (True, True)
    assert write_table(again, {}) == again


def test_counts_are_of_tests() -> None:
    """R-332: one that failed and left something behind is one; one that passes at its second chance has passed."""
    counts = read_counts(REPORT)
    assert counts == Counts(passed=1, failed=1, skipped=1, failures=("a.b::bad",))
    assert second_chance(counts, None) == counts
    assert second_chance(counts, Counts(passed=1)) == Counts(passed=2, skipped=1)
    assert second_chance(counts, Counts()) == counts
    assert second_chance(counts, Counts(failed=1, failures=("a.b::bad",))) == counts
    assert counts + counts == Counts(passed=2, failed=2, skipped=2, failures=("a.b::bad", "a.b::bad"))


def test_a_row_says_whether_it_is_complete() -> None:
    """R-385: a file without a record is missing; one in which no test asks for an engine counts for nothing."""
    first = {"tests": "a", "passed": 3, "failed": 0, "date": "2026-01-01", "commit": "abcdef0"}
    second = {"tests": "b", "passed": 0, "failed": 1, "date": "2026-01-02", "commit": "0abcdef"}
    none = {"tests": "c", "passed": 0, "failed": 0, "date": "2026-01-03", "commit": "fabcde0"}
    assert when([first, second, none], "abc") == "2026-01-02, 2 files, complete, 0abcdef abcdef0"
    assert when([first, none], "abcde") == "2026-01-01, 1 files, 3 missing, abcdef0"
    collected = "tests/e2e/test_a.py::test_x[::1]\ntests/e2e/test_a.py::test_y\n\n2/9 tests collected (7 deselected)\n"
    assert files_named(collected) == {"tests/e2e/test_a.py"}


def test_what_passed_holds_until_something_that_it_uses_changes(tmp_path: Path) -> None:
    """R-385: what failed, what nothing is known of and what changed is run again."""
    commit = commit_all(tmp_path, "odek/a.py", "tests/e2e/test_a.py", "tests/e2e/test_b.py", "docs/a.md")
    good = {"commit": commit, "failed": 0}

    def holds(record: dict[str, Any]) -> bool:
        return still_holds(record, "tests/e2e/test_a.py", tmp_path)

    assert holds(good)
    assert not any(map(holds, ({}, {**good, "failed": 1}, {**good, "commit": "0" * 40})))
    other = {**good, "commit": commit_all(tmp_path, "tests/e2e/test_b.py", "docs/a.md", "tests/unit/test_c.py")}
    assert (holds(good), holds(other)) == (True, True)
    for path in ("odek/new/a.py", "tests/e2e/conftest.py", "tests/conftest.py", "build/a.py", "tests/e2e/test_a.py"):
        after = {**good, "commit": commit_all(tmp_path, path)}
        assert (holds(good), holds(other), holds(after)) == (False, False, True), path
        other = after
    (tmp_path / "odek/a.py").write_text("not committed yet")
    assert not holds(other)


def commit_all(repository: Path, *paths: str) -> str:
    """Change these files and commit them; return the commit."""
    for path in paths:
        (repository / path).parent.mkdir(parents=True, exist_ok=True)
        with (repository / path).open("a") as file:
            file.write(f"{path}\n")
    git = ["git", "-C", str(repository), "-c", "user.name=t", "-c", "user.email=t@localhost"]
    for command in ("init -q", "add --all", "commit -q -m x"):
        subprocess.run([*git, *command.split()], check=True)
    return subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
