"""Fixtures of the security tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from engine import Engine
from program import Odek
from scene import Scene


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
