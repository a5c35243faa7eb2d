"""R-12: adding a setting is one row and one use; shown with a copy of the program that has one more row."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROW = """
    theme = Option(
        "theme", Text(("light", "dark")), "Which colours fit the terminal", default="light", env=("ODEK_THEME",),
        flag="--theme", metavar="NAME", project=ProjectRule.ALLOWED,
    )
"""
BEFORE = "    interaction_mode = Option("
USE = """
from odek.config.layers import read_layers
from odek.config.resolve import resolve
from odek.host import Host
print(resolve(read_layers(Host.capture(), {"theme": "dark"})[0]).theme)
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program with the row, below a folder that holds its home and a project as well."""
    root = tmp_path_factory.mktemp("copy")
    for folder in ("odek", "build"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    table = root / "odek/config/settings.py"
    text = table.read_text(encoding="utf-8")
    assert text.count(BEFORE) == 1
    table.write_text(text.replace(BEFORE, ROW.lstrip("\n") + BEFORE), encoding="utf-8")
    (root / "home/.odek").mkdir(parents=True)
    (root / "home/project").mkdir()
    return root


def program(root: Path, *arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    clean = {"PATH": os.environ["PATH"], "HOME": str(root / "home"), "PYTHONPATH": str(root), **(env or {})}
    return subprocess.run(
        [sys.executable, *arguments], env=clean, cwd=root / "home/project", capture_output=True, text=True, timeout=60
    )


def view(root: Path, env: dict[str, str] | None = None) -> object:
    shown = program(root, "-m", "odek", "config", "view", "--json", env=env)
    assert shown.stderr == ""
    return json.loads(shown.stdout)["theme"]


def test_one_row_makes_flag_variable_file_view_and_their_errors(copy: Path) -> None:
    """R-12: nothing but the row was written."""
    assert view(copy) == {"value": "light", "source": "default", "origin": "default"}
    (copy / "home/.odek/config.json").write_text('{"theme": "dark"}')
    assert view(copy) == {"value": "dark", "source": "global", "origin": "~/.odek/config.json"}
    (copy / "home/project/odek.json").write_text('{"theme": "light"}')
    assert view(copy) == {"value": "light", "source": "project", "origin": "./odek.json"}
    assert view(copy, {"ODEK_THEME": "dark"}) == {"value": "dark", "source": "environment", "origin": "ODEK_THEME"}
    assert "--theme NAME" in program(copy, "-m", "odek", "run", "--help").stdout
    refused = program(copy, "-m", "odek", "run", "--theme", "red", "task")
    assert refused.stderr.startswith('odek: error: "red" is not allowed (--theme)\n')
    near = program(copy, "-m", "odek", "config", "view", env={"ODEK_THEMES": "dark"})
    assert "unknown variable ODEK_THEMES is ignored; did you mean ODEK_THEME?" in near.stderr


def test_one_row_makes_schema_template_and_documentation(copy: Path) -> None:
    """R-12, R-18, R-20"""
    schema = json.loads(program(copy, "-m", "odek", "config", "schema").stdout)
    assert schema["properties"]["theme"] == {
        "description": "Which colours fit the terminal",
        "default": "light",
        "type": "string",
        "enum": ["", "light", "dark"],
    }
    assert program(copy, "-m", "odek", "init", "--global", "--force").returncode == 0
    assert json.loads((copy / "home/.odek/config.json").read_text())["theme"] == "light"
    table = program(copy, str(copy / "build/config_reference.py"), "--print").stdout
    assert (
        "| `theme` | str | `light` | `ODEK_THEME` | `--theme NAME` | yes | Which colours fit the terminal |\n" in table
    )


def test_one_use_is_an_attribute_of_the_settings(copy: Path) -> None:
    """R-12: typed by the row, which mypy checks where it is used."""
    assert program(copy, "-c", USE).stdout == "dark\n"
