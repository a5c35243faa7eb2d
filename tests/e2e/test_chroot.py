"""The file that is shipped, on a Debian that has nothing else: with and without a Python (scripts/chroot).

Makes the systems when they are not there, which needs root, debootstrap and a mirror of Debian; so it
runs where ODEK_CHROOT is set. Less than a minute for the three of them, once.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.odek_process import ROOT, program_kind

import odek as package

pytestmark = [
    pytest.mark.skipif(not os.environ.get("ODEK_CHROOT"), reason="ODEK_CHROOT is not set"),
    pytest.mark.skipif(program_kind() == "source", reason="ODEK_BIN names no file"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the root directory"),
]
CHROOT = shutil.which("chroot", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") or ""
VERSION = f"odek {package.__version__}\n"


def enter(kind: str, *arguments: str) -> tuple[int, str, str]:
    """Run odek in one of the systems; return exit status, stdout, stderr."""
    made = subprocess.run([ROOT / "scripts" / "chroot", kind], capture_output=True, text=True, timeout=600)
    assert made.returncode == 0, made.stderr
    folder = Path(made.stdout.strip())
    shutil.copy(ROOT / os.environ["ODEK_BIN"], folder / "odek")
    env = {"PATH": "/usr/bin:/bin", "HOME": "/root"}
    argv = [CHROOT, folder, "/odek", *arguments]
    done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("kind", ["plain", "python-minimal", "python"])
def test_the_binary_runs_on_any_of_them(kind: str) -> None:
    if program_kind() != "binary":
        pytest.skip("the zip needs a Python")
    assert enter(kind, "version") == (0, VERSION, "")
    code, stdout, stderr = enter(kind, "selftest")
    assert (code, stderr) == (0, ""), stdout


def test_the_zip_runs_where_python_is() -> None:
    if program_kind() != "zip":
        pytest.skip("the binary brings its own")
    assert enter("python", "version") == (0, VERSION, "")
    code, stdout, stderr = enter("python", "selftest")
    assert (code, stderr) == (0, ""), stdout


def test_the_zip_starts_on_a_minimal_python_and_says_what_is_missing() -> None:
    """python3-minimal has no json and no dataclasses: all of odek but its start needs them."""
    if program_kind() != "zip":
        pytest.skip("the binary brings its own")
    assert enter("python-minimal", "version") == (0, VERSION, "")
    assert enter("python-minimal", "--help")[0] == 0
    code, stdout, stderr = enter("python-minimal", "run", "a task")
    assert (code, stdout) == (1, "")
    first, hint = stderr.splitlines()
    assert re.fullmatch(r"odek: error: this Python \(3\.\d+\.\d+, /usr/bin/python3\) has no module \w+", first), first
    assert (
        hint
        == "odek: hint: install all of it (Debian: apt-get install python3), or use odek's binary, which needs none"
    )


def test_the_zip_without_a_python_is_one_sentence() -> None:
    if program_kind() != "zip":
        pytest.skip("the binary brings its own")
    code, stdout, stderr = enter("plain", "version")
    assert (code, stdout, stderr.count("\n")) == (127, "", 1)
    assert "no Python 3.10 or newer" in stderr
