"""The table of the engines that the tests were run on (docs/DOCKER.md), and how scripts/engine-matrix makes it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.engine_matrix import (
    DOCUMENT,
    ENGINES,
    HEAD,
    Counts,
    not_run,
    read_counts,
    read_table,
    row,
    second_chance,
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
    r"20[0-9]{2}-[0-9]{2}-[0-9]{2}, [0-9]+ files,( [0-9a-f]{7,12})+",
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
