"""Fixtures of the end-to-end tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.odek_process import Odek
from support.scenario import Scene


@pytest.fixture
def scene(odek: Odek, tmp_path: Path) -> Scene:
    """A run whose model asks for one command that would leave a mark on the host."""
    return Scene(odek=odek, folder=tmp_path)
