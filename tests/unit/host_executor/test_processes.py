from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from odek.host_executor.processes import LimitTag, ProcessRow, find_members, read_tag, tag_process


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


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as started:
        yield started


def limits_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/limits").read_bytes()


def test_tag_is_read_where_it_was_put_and_its_own_for_each_mark(child: subprocess.Popen[bytes]) -> None:
    """E10: a command has a number that its descendants inherit, and that nothing else has."""
    before = read_tag(limits_of(child.pid))
    assert before == read_tag(limits_of(os.getpid()))
    tags = [tag_process(child.pid, mark) for mark in ("one", "two", "three")]
    assert len({*tags, before, None}) == 5
    assert read_tag(limits_of(child.pid)) == tags[-1]
    assert before is not None
    for tag in tags:  # what is left is enough for whatever uses it
        assert tag is not None
        assert before.signals - 2000 < tag.signals < before.signals
        assert before.queue_bytes - 400_000 < tag.queue_bytes < before.queue_bytes


@pytest.mark.parametrize("limit", [resource.RLIMIT_SIGPENDING, resource.RLIMIT_MSGQUEUE])
def test_low_limits_are_left_alone(limit: int, child: subprocess.Popen[bytes]) -> None:
    """E10: then the other signs have to do."""
    resource.prlimit(child.pid, limit, (100, 100))
    before = resource.prlimit(child.pid, limit)
    assert tag_process(child.pid, "mark") is None
    assert resource.prlimit(child.pid, limit) == before


def test_process_that_has_gone_gets_no_tag() -> None:
    assert tag_process(LEAST, "mark") is None


@pytest.mark.parametrize(
    ("limits", "tag"),
    [
        (b"", None),
        (b"Max pending signals       unlimited            unlimited            signals   \n", None),
        (
            b"Limit                     Soft Limit           Hard Limit           Units     \n"
            b"Max pending signals       96000                96365                signals   \n"
            b"Max msgqueue size         700000               819200               bytes     \n",
            LimitTag(signals=96000, queue_bytes=700000),
        ),
    ],
)
def test_limits_are_read_as_the_kernel_prints_them(limits: bytes, tag: LimitTag | None) -> None:
    assert read_tag(limits) == tag
