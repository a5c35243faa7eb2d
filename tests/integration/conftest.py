"""Fixtures for tests of sandboxes on a real engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.docker_engine import Engine
from support.sandboxes import Boxes, OddImages

from odek.sandbox.container.container import Container


@pytest.fixture
def boxes(docker_engine: Engine, base_image: str, tmp_path: Path) -> Iterator[Boxes]:
    """Starts sandboxes on a scratch folder."""
    workdir = tmp_path / "work"
    workdir.mkdir(exist_ok=True)  # the program under test may work there, too
    made = Boxes(engine=docker_engine, image=base_image, workdir=workdir)
    yield made
    made.close()


@pytest.fixture
def box(boxes: Boxes) -> Container:
    """A sandbox as it is by default."""
    return boxes.start()


@pytest.fixture(scope="session")
def odd_images(docker_engine: Engine) -> Iterator[OddImages]:
    made = OddImages(engine=docker_engine)
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared_boxes(docker_engine: Engine, base_image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Boxes]:
    made = Boxes(engine=docker_engine, image=base_image, workdir=tmp_path_factory.mktemp("shared"))
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared_box(shared_boxes: Boxes) -> Container:
    """One sandbox for the tests of a module that leave it as it was."""
    return shared_boxes.start()
