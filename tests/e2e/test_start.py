"""The program as a process: it starts, and takes nothing from the folder it is started in."""

from __future__ import annotations

import os
import sys

import pytest
from support.odek_process import Odek

import odek as package

HOSTILE_NAMES = sorted(sys.stdlib_module_names | {"odek", "odekboot", "odekload", "sitecustomize", "usercustomize"})


def test_version(odek: Odek) -> None:
    outcome = odek.run("version")
    assert (outcome.code, outcome.stdout, outcome.stderr) == (0, f"odek {package.__version__}\n", "")


HOSTILE_PROGRAMS = ("python3", "docker", "git", "sh", "cat", "env", "uname", "ld.so")


@pytest.mark.parametrize(
    "arguments", [("version",), ("--help",), ("run", "--help"), ("config", "view", "--all"), ("selftest",)]
)
def test_nothing_of_the_working_directory_is_imported_or_run(arguments: tuple[str, ...], odek: Odek) -> None:
    """R-92, B53 (b): not one module of the standard library or of odek, and no program, comes from there."""
    marker = odek.home / "hostile code ran"
    for name in HOSTILE_NAMES:
        (odek.cwd / f"{name}.py").write_text(f"open({str(marker)!r}, 'a').write(__name__ + ' ')\n")
    for name in HOSTILE_PROGRAMS:
        (odek.cwd / name).write_text(f"#!/bin/sh\necho {name} >>'{marker}'\n")
        (odek.cwd / name).chmod(0o755)
    path = os.pathsep.join(["", ".", str(odek.cwd), os.environ["PATH"], ""])
    outcome = odek.run(
        *arguments, env={"PYTHONPATH": ".", "PYTHONHOME": str(odek.cwd), "PYTHONSTARTUP": "json.py", "PATH": path}
    )
    assert not marker.exists(), marker.read_text()
    assert (outcome.code, outcome.stderr) == (0, "")
