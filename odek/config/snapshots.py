"""The settings of what is kept of turns, for `odek diff` and `odek undo`; all of them the operator's alone (R-276)."""

from __future__ import annotations

from odek.config.options import Option, OptionGroup
from odek.config.values import Switch, Whole


class SnapshotSettings(OptionGroup):
    """Whether the files of a project are kept before a turn changes them, and how much of them."""

    enabled = Option(
        "snapshots.enabled", Switch(), "Keep a project's files before a turn changes them, for odek undo", default=True,
        env=("ODEK_SNAPSHOTS",), group="agent",
    )  # fmt: skip
    max_file_mb = Option(
        "snapshots.max_file_mb", Whole(1, 1024), "MB of the largest file that is kept", default=10, group="agent"
    )
    max_total_mb = Option(
        "snapshots.max_total_mb", Whole(10, 1_000_000), "MB that is kept of all projects; of one, half of it",
        default=1000, group="agent",
    )  # fmt: skip
    max_turns = Option(
        "snapshots.max_turns", Whole(1, 1000), "Turns that are kept of a project", default=50, group="agent"
    )
