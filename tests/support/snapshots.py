"""A project whose turns are kept, for tests: no Docker, no model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from odek.operator_home import OperatorHome
from odek.snapshot.project import Bounds, ProjectFiles, Reading
from odek.snapshot.scan import Limits, Scan
from odek.snapshot.store import Record

BOUNDS = Bounds(limits=Limits(file_bytes=10_000, total_bytes=1 << 20), max_turns=50, max_bytes=50 << 20)


def project_in(
    folder: Path, bounds: Bounds = BOUNDS, watch: Callable[[Scan], None] = lambda _: None, name: str = "project"
) -> ProjectFiles:
    """Return what is kept of the folder `name` in `folder`, which is made."""
    top = folder / name
    top.mkdir(exist_ok=True)
    home = OperatorHome(folder=str(folder / "home"), uid=os.getuid(), workspaces=())
    return ProjectFiles(home, str(top), bounds, watch=watch)


@contextmanager
def turn(project: ProjectFiles) -> Iterator[list[Record | None]]:
    """Keep what the block changes; the list gets the record."""
    made: list[Record | None] = []
    begun = project.begin(session="s", turn=1, task="a task")
    yield made
    done = project.finish(begun)
    made.append(done[0] if done else None)


def undo(project: ProjectFiles, number: int | None = None) -> tuple[Record | None, list[tuple[str, str]]]:
    """Take a turn back, as far as that is possible; return the record of it, and what was left."""
    with project.reading() as reading:
        record = reading.find(number)
        plan = reading.plan(record)
        made, left = reading.undo(record, plan)
    return made, [*plan.left, *left]


def in_reading(project: ProjectFiles, look: Callable[[Reading], object]) -> object:
    """Return what `look` finds in what is kept."""
    with project.reading() as reading:
        return look(reading)
