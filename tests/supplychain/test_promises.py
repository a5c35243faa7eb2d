"""Every promise of the documents names the test that proves it, and every such test exists."""

from __future__ import annotations

import ast
import fnmatch
import re
from pathlib import Path

import pytest

from odek.sandbox.probes import CALLS, HIT, INSIDE, OUTSIDE

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "SANDBOXING.md").read_text(encoding="utf-8")
REFERENCE = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
PAGES = sorted([ROOT / "SECURITY.md", ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
ATTACKS = ("tests/security/test_protections.py", "tests/security/test_openings.py")


def rows(heading: str) -> list[list[str]]:
    """Return the rows of the first table below a heading of the page, without its head."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def names_in(path: str) -> set[str]:
    """Return the names of the test functions of a file."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {name for name in functions if name.startswith("test_")}


def test_every_promise_names_its_proof() -> None:
    promised = rows("What is promised, and what proves it")
    assert len(promised) > 20
    assert [row[0] for row in promised if len(row) != 4 or not REFERENCE.search(row[3])] == []


def test_every_probe_of_verify_belongs_to_a_promise() -> None:
    """Those that only report belong to none; each name and pattern of the table means a probe that there is."""
    promised = rows("What is promised, and what proves it")
    patterns = [pattern for row in promised for pattern in re.findall(r"`([\w.*]+)`", row[2])]
    probes = {probe.id for probe in (*INSIDE, *HIT, *OUTSIDE) if probe.promise} | {call.id for call in CALLS}
    known = {*probes, *(probe.id for probe in INSIDE)}
    assert [pattern for pattern in patterns if not fnmatch.filter(known, pattern)] == []
    assert sorted(probe for probe in probes if not any(fnmatch.fnmatch(probe, each) for each in patterns)) == []


def test_what_is_not_promised_is_said() -> None:
    """B27, M-2, M-3, M-14: internal networks and the host, bridge and metadata, the image after FROM."""
    told = " ".join(row[0] for row in rows("What is not promised"))
    words = ("`internal` network", "not this host", "169.254.169.254", "`FROM` is pulled", "shares the kernel")
    assert [word for word in words if word not in told] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    named = REFERENCE.findall(page.read_text(encoding="utf-8"))
    assert [f"{path}::{name}" for path, name in named if name not in names_in(path)] == []


@pytest.mark.parametrize("path", ATTACKS)
def test_every_attack_stands_beside_its_promise(path: str) -> None:
    assert names_in(path) <= {name for named, name in REFERENCE.findall(PAGE) if named == path}
