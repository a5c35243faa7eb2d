"""The program as a process: it starts, and takes nothing from the folder it is started in."""

from __future__ import annotations

import os
import sys

import pytest
from program import Odek

import odek as package

HOSTILE_NAMES = sorted(sys.stdlib_module_names | {"odek", "odekboot", "odekload", "sitecustomize", "usercustomize"})


def test_version(odek: Odek) -> None:
    outcome = odek.run("version")
    assert (outcome.code, outcome.stdout, outcome.stderr) == (0, f"odek {package.__version__}\n", "")


@pytest.mark.parametrize("arguments", [("version",), ("--help",), ("run", "--help"), ("config", "view")])
def test_nothing_of_the_working_directory_is_imported(arguments: tuple[str, ...], odek: Odek) -> None:
    """R-92: not one module of the standard library, nor of odek, comes from there."""
    marker = odek.home / "hostile code ran"
    for name in HOSTILE_NAMES:
        (odek.cwd / f"{name}.py").write_text(f"open({str(marker)!r}, 'a').write(__name__ + ' ')\n")
    path = os.pathsep.join(["", ".", str(odek.cwd), os.environ["PATH"], ""])
    outcome = odek.run(*arguments, env={"PYTHONPATH": ".", "PYTHONHOME": str(odek.cwd), "PATH": path})
    assert not marker.exists(), marker.read_text()
    assert (outcome.code, outcome.stderr) == (0, "")
