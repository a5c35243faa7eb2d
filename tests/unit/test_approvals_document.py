"""docs/APPROVALS.md says what the policy does."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import pytest

from odek.config.danger import parse_dangerous
from odek.danger.classify import classify
from odek.danger.paths import Place

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "APPROVALS.md").read_text(encoding="utf-8")
CONFIG = (ROOT / "docs" / "CONFIG.md").read_text(encoding="utf-8")
HOST = Place(home="/home/user", cwd="/home/user/project", workspace="/home/user/project")
ROWS = re.findall(r"^\| `(\w+)` \| (.*?) \|", DOCUMENT, re.MULTILINE)
EXAMPLES = [
    (level, example)
    for level, text in ROWS
    for example in re.findall(r"`([^`]+)`", text)
    if "…" not in example and level != example
]


@pytest.fixture(scope="module")
def recipe() -> ModuleType:
    spec = importlib.util.spec_from_file_location("odek_approvals", ROOT / "build" / "approvals.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_table_is_that_of_the_policy(recipe: ModuleType) -> None:
    """R-84, D-6: `python3 build/approvals.py` writes it anew."""
    assert recipe.render_document(DOCUMENT) == DOCUMENT
    assert len(ROWS) == 9


@pytest.mark.parametrize(("level", "example"), EXAMPLES)
def test_examples_have_the_class_they_stand_for(level: str, example: str) -> None:
    assert classify(example, HOST).level.label == level


def test_examples_of_settings_are_accepted() -> None:
    """F-2: every example of `dangerous` in CONFIG.md is read without an error."""
    section = CONFIG.partition("## dangerous")[2].partition("\n## ")[0]
    examples = re.findall(r"```json\n(.*?)```", section, re.DOTALL)
    assert len(examples) >= 3
    for example in examples:
        parse_dangerous(json.loads(example)["dangerous"], "dangerous")
