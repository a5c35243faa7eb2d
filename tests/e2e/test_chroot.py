"""The file that is shipped, on a Debian that has nothing else: with and without a Python (scripts/chroot).

$SUITE chooses the release of Debian (default: bookworm); scripts/portable-matrix goes through them. Makes the systems
when they are not there, which needs root, debootstrap and a mirror of Debian; so it runs where ODEK_CHROOT is set. Less
than a minute for the three of them, once.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.load_module import load_recipe
from support.odek_process import ROOT, program_kind
from support.recordings import write_recording

import odek as package

pytestmark = [
    pytest.mark.skipif(not os.environ.get("ODEK_CHROOT"), reason="ODEK_CHROOT is not set"),
    pytest.mark.skipif(program_kind() == "source", reason="ODEK_BIN names no file"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the root directory"),
]
CHROOT = shutil.which("chroot", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") or ""
VERSION = f"odek {package.__version__}\n"
BINARIES = ("binary", "portable")
OLD_PYTHON = os.environ.get("SUITE") == "bullseye"
"""its Python is 3.9"""


def system(kind: str) -> Path:
    """Return the folder of one of the systems, made when it is not there."""
    made = subprocess.run([ROOT / "scripts" / "chroot", kind], capture_output=True, text=True, timeout=600)
    assert made.returncode == 0, made.stderr
    return Path(made.stdout.strip())


def enter(kind: str, *arguments: str) -> tuple[int, str, str]:
    """Run odek in one of the systems; return exit status, stdout, stderr."""
    folder = system(kind)
    shutil.copy(ROOT / os.environ["ODEK_BIN"], folder / "odek")
    return inside(folder, "/", "/odek", *arguments)


def inside(folder: Path, cwd: str, *command: str, home: str = "/root") -> tuple[int, str, str]:
    env = {"PATH": "/usr/bin:/bin", "HOME": home}
    argv = [CHROOT, folder, "/bin/sh", "-c", 'cd "$0" && exec "$@"', cwd, *command]
    done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("kind", ["plain", "python-minimal", "python"])
def test_the_binary_runs_on_any_of_them(kind: str) -> None:
    if program_kind() not in BINARIES:
        pytest.skip("the zip needs a Python")
    if program_kind() == "portable" and kind != "plain":
        pytest.skip("a Python makes no difference to it")
    assert enter(kind, "version") == (0, VERSION, "")
    code, stdout, stderr = enter(kind, "selftest")
    assert (code, stderr) == (0, ""), stdout


@pytest.mark.parametrize("kind", ["debian", "musl"])
def test_it_works_on_a_bare_system(kind: str) -> None:
    """R-310, R-391, D1, D2: a recording with two commands on the host; a start that is refused for want of Docker."""
    if kind == "debian":
        kind = "plain" if program_kind() in BINARIES else "python"
        if kind == "python" and OLD_PYTHON:
            pytest.skip("odek needs Python 3.10")
    elif program_kind() != "portable" or load_recipe("glibc").libraries((ROOT / os.environ["ODEK_BIN"]).read_bytes()):
        pytest.skip("this one needs more than musl's loader")
    assert enter(kind, "version") == (0, VERSION, "")
    folder = system(kind)
    # a home of its own: that of root is for tests/e2e/test_bundle.py, and stays as it is
    work, home = folder / "work", folder / "home" / "tester"
    for place in (work, home):
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
    settings = home / ".odek" / "config.json"
    settings.parent.mkdir(mode=0o700)
    settings.write_text('{"dangerous": {"action": "allow"}}')
    settings.chmod(0o600)
    recording = write_recording(folder / "recording.jsonl", "echo made >here", "cat here", expect="made")
    address = "replay:/" + Path(recording.removeprefix("replay:")).name
    run = ("/odek", "run", "--base-url", address, "x")
    code, stdout, stderr = inside(folder, "/work", *run, "--no-sandbox", home="/home/tester")
    assert (code, stdout, (work / "here").read_text()) == (0, "done\n", "made\n"), stderr
    code, stdout, stderr = inside(folder, "/work", *run, "--sandbox", home="/home/tester")
    assert (code, stdout) == (1, ""), stderr
    assert "docker" in stderr.lower()


def test_the_zip_runs_where_python_is() -> None:
    """R-391, D2: also with a Python that came after the zip's own; a Python that is too old is named."""
    if program_kind() != "zip":
        pytest.skip("the binary brings its own")
    if OLD_PYTHON:
        code, stdout, stderr = enter("python", "version")
        assert (code, stdout, stderr.count("\n")) == (127, "", 1)
        assert stderr.startswith("odek: error: needs Python 3.10 or newer on PATH; found 3.9.")
        return
    assert enter("python", "version") == (0, VERSION, "")
    code, stdout, stderr = enter("python", "selftest")
    assert (code, stderr) == (0, ""), stdout


def test_the_zip_starts_on_a_minimal_python_and_says_what_is_missing() -> None:
    """python3-minimal has no json and no dataclasses: all of odek but its start needs them."""
    if program_kind() != "zip":
        pytest.skip("the binary brings its own")
    if OLD_PYTHON:
        pytest.skip("odek needs Python 3.10")
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
