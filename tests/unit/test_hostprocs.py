from __future__ import annotations

import os

import pytest

from odek.hostprocs import ProcessRow, find_members


def row(*, parent: int = 1, session: int = 1, marked: bool = False) -> ProcessRow:
    return ProcessRow(parent=parent, session=session, marked=marked)


@pytest.mark.parametrize(
    ("table", "members"),
    [
        pytest.param({50: row(session=50), 51: row(session=50)}, {50, 51}, id="same session"),
        pytest.param({60: row(session=60, marked=True)}, {60}, id="own session, orphaned, marked"),
        pytest.param(
            {50: row(session=50), 61: row(parent=50, session=61), 62: row(parent=61, session=62)},
            {50, 61, 62},
            id="descendants without mark or session",
        ),
        pytest.param({70: row(session=70), 71: row(parent=70, session=70)}, set(), id="another command's server"),
        pytest.param({1: row(session=50, marked=True), 80: row()}, set(), id="init and its children are spared"),
        pytest.param(
            {os.getpid(): row(session=50, marked=True), 90: row(parent=os.getpid())}, set(), id="odek spares itself"
        ),
    ],
)
def test_find_members_follows_session_mark_and_parents(table: dict[int, ProcessRow], members: set[int]) -> None:
    """R-40: the whole tree of one command, and nobody else."""
    assert find_members(table, 50) == members
