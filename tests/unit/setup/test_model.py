"""setup/model.py: how long a model's server may take."""

from __future__ import annotations

import pytest

from odek.model.transport import Limits
from odek.setup.model import choose_limits


@pytest.mark.parametrize(
    ("base_url", "limits"),
    [
        ("https://api.example.com/v1", Limits(idle_s=180.0, total_s=600.0)),
        ("http://127.0.0.1:8080/v1", Limits(idle_s=1800.0, total_s=1800.0)),
        ("HTTP://gpu.internal:11434/v1", Limits(idle_s=1800.0, total_s=1800.0)),
    ],
)
def test_servers_of_ones_own_may_be_slow(base_url: str, limits: Limits) -> None:
    """B40 (j): documented limits; a machine without a GPU reads a long request in silence."""
    assert choose_limits(base_url, 180.0) == limits
