"""A few of the sequences of `scripts/fuzz-undo`."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.fuzz_undo import run_one


@pytest.mark.parametrize("seed", range(12))
def test_random_edits_are_taken_back_and_made_again(seed: int, tmp_path: Path) -> None:
    """R-271: bytes, modes, links and empty folders are as before; what others changed is not touched."""
    assert run_one(tmp_path, seed)["turns"] == 3
