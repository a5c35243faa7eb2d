from __future__ import annotations

import os

import pytest

from odek.host_executor.processes import ProcessRow, find_members


def row(*, parent: int = 1, session: int = 1, marked: bool = False) -> ProcessRow:
    return ProcessRow(parent=parent, session=session, marked=marked)


LEAST = 5_000_000  # no process has such a number: in a container the small ones are this test's own


@pytest.mark.parametrize(
    ("table", "members"),
    [
        pytest.param(
            {LEAST + 50: row(session=LEAST + 50), LEAST + 51: row(session=LEAST + 50)},
            {LEAST + 50, LEAST + 51},
            id="same session",
        ),
        pytest.param(
            {LEAST + 60: row(session=LEAST + 60, marked=True)}, {LEAST + 60}, id="own session, orphaned, marked"
        ),
        pytest.param(
            {
                LEAST + 50: row(session=LEAST + 50),
                LEAST + 61: row(parent=LEAST + 50, session=LEAST + 61),
                LEAST + 62: row(parent=LEAST + 61, session=LEAST + 62),
            },
            {LEAST + 50, LEAST + 61, LEAST + 62},
            id="descendants without mark or session",
        ),
        pytest.param(
            {LEAST + 70: row(session=LEAST + 70), LEAST + 71: row(parent=LEAST + 70, session=LEAST + 70)},
            set(),
            id="another command's server",
        ),
        pytest.param(
            {1: row(session=LEAST + 50, marked=True), LEAST + 80: row()}, set(), id="init and its children are spared"
        ),
        pytest.param(
            {os.getpid(): row(session=LEAST + 50, marked=True), LEAST + 90: row(parent=os.getpid())},
            set(),
            id="odek spares itself",
        ),
    ],
)
def test_find_members_follows_session_mark_and_parents(table: dict[int, ProcessRow], members: set[int]) -> None:
    """R-40: the whole tree of one command, and nobody else."""
    assert find_members(table, LEAST + 50) == members
