"""What the README's commands need of a machine that has git and nothing else is installed, or named."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INSTALLS = os.geteuid() == 0 and Path("/etc/debian_version").exists()
BASE = ("sh", "dirname", "cat", "id", "tail", "mkdir", "env", "rm", "touch", "chmod")


class Machine:
    """A PATH with the programs that every Debian has, and an apt-get that writes down what it is asked for."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir()
        for name in BASE:
            found = shutil.which(name)
            assert found
            (self.bin / name).symlink_to(found)
        self._log = folder / "log"

    def apt_get(self, script: str) -> None:
        """Let apt-get do what `script` says, after its arguments were written down."""
        tool = self.bin / "apt-get"
        tool.write_text(f'#!/bin/sh\necho "$*" >>{self._log}\n{script}\n')
        tool.chmod(0o755)

    def run(self, *argv: str) -> tuple[int, str, list[str]]:
        """Return the status, what was printed on stderr, and the calls of apt-get without their options."""
        done = subprocess.run(
            [str(ROOT / argv[0]), *argv[1:]], env={"PATH": str(self.bin), "HOME": "/nonexistent"},
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        calls = self._log.read_text().splitlines() if self._log.exists() else []
        words = [[word for word in call.split() if not word.startswith("-")] for call in calls]
        return done.returncode, done.stderr, [" ".join(call) for call in words]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_what_is_there_is_not_installed(machine: Machine) -> None:
    """F17."""
    machine.apt_get("exit 1")
    assert machine.run("scripts/need", "sh", "cat=coreutils") == (0, "", [])


@pytest.mark.skipif(not INSTALLS, reason="only root on Debian installs")
def test_what_is_missing_is_installed_at_once(machine: Machine) -> None:
    """F17: by the names of packages, those that are missing only."""
    machine.apt_get("exit 0")
    code, said, calls = machine.run("scripts/need", "sh", "curl", "ps=procps")
    assert (code, calls) == (0, ["install curl procps"])
    assert "apt-get install curl procps" in said


@pytest.mark.skipif(not INSTALLS, reason="only root on Debian installs")
def test_lists_of_packages_are_fetched_when_there_are_none(machine: Machine) -> None:
    """F17: and what apt-get says is shown when that does not help."""
    machine.apt_get('case "$*" in *update*) exit 0 ;; esac; echo "E: Unable to locate package" >&2; exit 100')
    code, said, calls = machine.run("scripts/need", "curl")
    assert (code, calls) == (1, ["install curl", "update", "install curl"])
    assert "E: Unable to locate package" in said
    assert "apt-get install curl failed" in said


@pytest.mark.parametrize("script", ["scripts/test", "scripts/demo"])
def test_both_commands_of_the_readme_ask_for_python_where_there_is_none(script: str, machine: Machine) -> None:
    """F17: they install it, or name it where they may not."""
    machine.apt_get("exit 100")
    code, said, calls = machine.run(script)
    assert code != 0
    assert "python3" in said
    assert not INSTALLS or any("python3" in call.split() for call in calls)
