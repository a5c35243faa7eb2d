"""Every claim of SECURITY.md has its test here, which quotes it word for word."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PAGE = (HERE.parents[1] / "SECURITY.md").read_text(encoding="utf-8")


def one_line(text: str) -> str:
    return " ".join(text.replace("**", "").split())


def claims() -> dict[str, str]:
    """Return number → "S-1 What is meant …" of each claim of the page."""
    items = re.findall(r"^- (\*\*S-\d+\*\* .*(?:\n  .*)*)", PAGE, re.MULTILINE)
    return {one_line(item).split()[0]: one_line(item) for item in items}


def quotes() -> str:
    """Return the docstrings of all test functions of this folder, as one line."""
    functions = [
        node
        for path in sorted(HERE.glob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    return "\n".join(one_line(ast.get_docstring(function) or "") for function in functions)


def test_claims_are_found() -> None:
    assert len(claims()) == PAGE.count("- **S-") > 0


@pytest.mark.parametrize("number", claims())
def test_claim_is_quoted_by_a_test(number: str) -> None:
    assert claims()[number] in quotes(), f"no test of tests/security quotes {claims()[number]!r}"
