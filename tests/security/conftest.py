"""Fixtures of the security tests."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.docker_engine import Engine
from support.odek_process import Odek
from support.sandboxes import Boxes, OddImages
from support.scenario import Scene
from support.weakened_sandbox import Proof


@pytest.fixture
def scene(odek: Odek, tmp_path: Path) -> Scene:
    """A run whose model asks for one command that would leave a mark on the host."""
    return Scene(odek=odek, folder=tmp_path)


@pytest.fixture
def sandboxed(odek: Odek, docker_engine: Engine, base_image: str) -> Odek:
    """The program with the tests' own image; its operator lets all commands through: only the wall counts."""
    (odek.home / ".odek").mkdir(mode=0o700)
    (odek.home / ".odek" / "config.json").write_text(
        json.dumps({"sandbox_image": base_image, "dangerous": {"sandboxed": {"action": "allow"}}})
    )
    return odek


@pytest.fixture
def boxes(docker_engine: Engine, base_image: str, tmp_path: Path) -> Iterator[Boxes]:
    """Starts sandboxes on a scratch folder that everybody may write."""
    workdir = tmp_path / "work"
    workdir.mkdir()
    workdir.chmod(0o777)
    made = Boxes(engine=docker_engine, image=base_image, workdir=workdir)
    yield made
    made.close()


@pytest.fixture
def proof(boxes: Boxes) -> Iterator[Proof]:
    """Attacks sandboxes with and without their protections."""
    made = Proof(boxes=boxes)
    yield made
    made.close()


@pytest.fixture(scope="session")
def odd_images(docker_engine: Engine) -> Iterator[OddImages]:
    made = OddImages(engine=docker_engine)
    yield made
    made.close()


@pytest.fixture(scope="session")
def setuid_image(odd_images: OddImages) -> str:
    """An image with a program that shows everybody what root may read, and a file that only root may read."""
    cat = shutil.which("cat") or ""
    return odd_images.make(own={"bin/reveal": cat}, modes={"bin/reveal": 0o4755, "etc/passwd": 0o600})
