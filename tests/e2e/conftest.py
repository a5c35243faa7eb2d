"""Fixtures of the end-to-end tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from program import Odek
from scene import Scene


@pytest.fixture
def scene(odek: Odek, tmp_path: Path) -> Scene:
    """A run whose model asks for one command that would leave a mark on the host."""
    return Scene(odek=odek, folder=tmp_path)
