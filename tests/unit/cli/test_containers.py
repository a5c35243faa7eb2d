"""The table of containers: names that others chose do not move the cursor."""

from __future__ import annotations

from odek.cli.commands.sandbox_containers import render_boxes
from odek.sandbox.container.owner import OwnedContainer


def test_table_shows_foreign_names_harmlessly() -> None:
    """R-64, S-15: any container may carry our label, and Docker takes any bytes as the name of a network."""
    box = OwnedContainer(
        id="a" * 64, name="odek-1-1", state="running", standing="somebody else's", owner_pid=None,
        workdir="/w\x1b[2J", image_id="i", network="n\x1b[2J\n", created="2026-01-01T00:00:00",
        session="20260101-\x1b[2Jffffff",
    )  # fmt: skip
    assert render_boxes((box,)).splitlines()[1].split("  ") == [
        "odek-1-1", "running", "somebody else's", "n\\x1b[2J\\n", "2026-01-01 00:00:00",
        "20260101-\\x1b[2Jffff", "/w\\x1b[2J",
    ]  # fmt: skip
