"""A Python that lacks a part of its standard library, such as Debian's python3-minimal (B53)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CODE = """
import sys
sys.path.insert(0, sys.argv[1])
sys.modules[sys.argv[2]] = None
from odek.cli.main import main
sys.exit(main(sys.argv[3:]))
"""


def run_without(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-I", "-S", "-c", CODE, str(ROOT), module, *arguments]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, env={"HOME": "/nowhere"})


@pytest.mark.parametrize("arguments", [["version"], ["--help"]])
def test_start_needs_next_to_nothing(arguments: list[str]) -> None:
    done = run_without("json", *arguments)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("module", ["dataclasses", "json", "argparse"])
def test_missing_module_of_python_is_one_sentence(module: str) -> None:
    done = run_without(module, "config", "view")
    assert (done.returncode, done.stdout) == (1, "")
    first, hint = done.stderr.splitlines()
    assert first.startswith("odek: error: this Python (3.")
    assert first.endswith(f" has no module {module}")
    assert hint.startswith("odek: hint: install all of it (Debian: apt-get install python3)")


def test_missing_module_of_odek_is_a_bug() -> None:
    done = run_without("odek.config.layers", "config", "view")
    assert done.returncode == 3
    assert "this Python" not in done.stderr
