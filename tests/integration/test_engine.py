"""The image that tests run in, and the fixtures that guard them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.docker_engine import Engine

ROOT = Path(__file__).resolve().parents[2]
SESSION = """
import pytest

def test_needs_docker(docker_engine):
    pass

@pytest.mark.docker
def test_skips_itself():
    pytest.skip("for no good reason")

@pytest.mark.docker
def test_leaks(docker_engine):
    docker_engine.run("volume", "create", "--label", "io.odek.sandbox=1", "odek-test-leak")
"""


def run_session(folder: Path, selection: str, env: dict[str, str]) -> tuple[int, str]:
    """Run pytest on SESSION with the fixtures of this project; return its code and its summary."""
    shutil.copy(ROOT / "tests" / "conftest.py", folder)
    (folder / "test_session.py").write_text(SESSION)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", "-k", selection],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT / "tests"), "HOME": str(folder), **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, done.stdout


def test_base_image_runs_commands(docker_engine: Engine, base_image: str) -> None:
    command = "id -u; ls -ld /tmp | cut -c1-10; echo words | sed s/w/s/"
    done = docker_engine.run("run", "--rm", "--network", "none", "--user", "1000", base_image, "sh", "-c", command)
    assert done.stdout == "1000\ndrwxrwxrwt\nsords\n"


@pytest.mark.parametrize(("env", "code", "word"), [({}, 0, "1 skipped"), ({"CI": "true"}, 1, "1 error")])
def test_test_without_docker_is_skipped_but_fails_where_docker_is_promised(
    env: dict[str, str], code: int, word: str, tmp_path: Path
) -> None:
    ended, summary = run_session(tmp_path, "needs_docker", {"PATH": "/nowhere", **env})
    assert (ended, word in summary, "no docker on PATH" in summary or code == 0) == (code, True, True), summary


def test_skip_of_a_docker_test_fails_where_docker_is_promised(docker_engine: Engine, tmp_path: Path) -> None:
    env = {"PATH": os.environ["PATH"], "ODEK_REQUIRE_DOCKER": "1"}
    ended, summary = run_session(tmp_path, "skips_itself", env)
    assert (ended, "skipped although Docker is required" in summary) == (1, True), summary


def test_leak_fails_the_test_that_left_it(docker_engine: Engine, tmp_path: Path) -> None:
    """R-38: what a test leaves behind is found."""
    try:
        ended, summary = run_session(tmp_path, "leaks", {"PATH": os.environ["PATH"]})
    finally:
        docker_engine.run("volume", "rm", "--force", "odek-test-leak")
    assert (ended, "volume odek-test-leak" in summary) == (1, True), summary
