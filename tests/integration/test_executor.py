"""The contract of executors, in a container."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from support.executor_contract import ExecutorContract, Place
from support.sandboxes import Boxes

from odek.sandbox.container.container import Container
from odek.sandbox_grammar import WORKSPACE


class TestContainer(ExecutorContract):
    @pytest.fixture
    def place(self, shared_box: Container, shared_boxes: Boxes, tmp_path: Path) -> Place:
        """One sandbox for all, its folder emptied for each."""
        work, outside = shared_boxes.workdir, tmp_path / "outside"
        for path in work.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        outside.mkdir()
        (outside / "secret").write_text("of the host")
        return Place(shared_box, work, outside, seen=WORKSPACE)
