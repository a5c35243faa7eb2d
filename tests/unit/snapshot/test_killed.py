"""odek is killed in the middle of a turn or an undo, and what is kept is damaged."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.fuzz_undo import Editor, model_of
from support.snapshots import in_reading, project_in, turn, undo

from odek.errors import StateFileError
from odek.snapshot.project import ProjectFiles
from odek.snapshot.store import Record


def killed_after(delay_s: float, act: Callable[[], object]) -> bool:
    """Do `act` in a process that is killed after `delay_s`; return whether it was, before its end."""
    child = os.fork()
    if child == 0:
        try:
            act()
        finally:
            os._exit(0)
    time.sleep(delay_s)
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def records(project: ProjectFiles) -> list[Record]:
    found = in_reading(project, lambda reading: list(reading.records()))
    assert isinstance(found, list)
    return found


def test_a_turn_that_was_cut_off_is_found_and_can_be_taken_back(tmp_path: Path) -> None:
    """R-275: what changed from its beginning until it is found is in it, and that is said."""
    project, top = project_in(tmp_path), tmp_path / "project"
    (top / "a").write_text("before\n")
    (top / ".gitignore").write_text("ignored\n")
    (top / "ignored").write_text("mine")

    def half_a_turn() -> None:
        project.begin(session="s", turn=1, task="a task")
        (top / "a").write_text("after\n")
        (top / "b").write_text("new\n")
        (top / ".gitignore").unlink()
        time.sleep(60)

    assert killed_after(0.7, half_a_turn)
    (found,) = records(project)
    assert (found.cut_off, found.is_open, found.task) == (True, False, "a task")
    assert [change.path for change in found.changes] == [".gitignore", "a", "b"]
    assert undo(project)[1] == []
    assert (top / "a").read_text() == "before\n"
    assert sorted(os.listdir(top)) == [".gitignore", "a", "ignored"]


@pytest.mark.parametrize("seed", range(8))
def test_an_undo_that_is_killed_at_any_moment_can_be_done_again(seed: int, tmp_path: Path) -> None:
    """R-275: after it and one more undo all is as before the turn, and nothing is left behind."""
    draw = random.Random(seed)
    project, top = project_in(tmp_path), tmp_path / "project"
    for number in range(60):
        (top / f"f{number}").write_text(f"before {number}\n")
        (top / f"d{number}").mkdir()
    before = model_of(top)
    with turn(project):
        for number in range(60):
            (top / f"f{number}").write_text(f"after {number}\n" * 10)
            (top / f"d{number}").rmdir()
            (top / f"n{number}").symlink_to("nowhere")
    assert killed_after(draw.uniform(0, 0.05), lambda: undo(project)) in (True, False)
    known = records(project)
    undo_of_it = [record for record in known if record.undoes]
    if not undo_of_it or len(undo_of_it[0].changes) < 180:
        with project.reading() as reading:
            record = reading.find(1)
            plan = reading.plan(record)
            assert plan.left == []
            assert reading.undo(record, plan)[1] == []
    assert model_of(top) == before
    assert not list(top.rglob(".odek-undo-*"))


def test_a_look_that_is_killed_at_any_moment_leaves_a_store_that_works(tmp_path: Path) -> None:
    """R-275: turns go on, and each can be taken back."""
    project, top = project_in(tmp_path), tmp_path / "project"
    draw = random.Random(1)
    editor = Editor(top, draw)
    editor.edit(30)
    for _ in range(6):
        killed_after(draw.uniform(0, 0.03), lambda: turn(project).__enter__())
        editor.edit(2)
    before = model_of(top)
    with turn(project) as made:
        (top / "certain").write_text("x")
    assert made[0] is not None
    assert undo(project)[1] == []
    assert model_of(top) == before


def files_of(tmp_path: Path, ending: str) -> list[Path]:
    return [path for path in (tmp_path / "home").rglob("*") if path.name.endswith(ending)]


@pytest.mark.parametrize("how", ["cut", "flipped", "removed"])
@pytest.mark.parametrize("ending", [".pack", ".list", "index", ".json"])
def test_damage_is_noticed_and_never_a_wrong_undo(ending: str, how: str, tmp_path: Path) -> None:
    """R-275: a content is taken by its name, lists by their checksum; what is lost is refused by name."""
    project, top = project_in(tmp_path), tmp_path / "project"
    (top / "a").write_text("before " * 100)
    (top / "same").write_text("same")
    time.sleep(0.06)  # what is newer is read again
    with turn(project):
        (top / "a").write_text("after " * 100)
        (top / "b").write_text("new")
    present = model_of(top)
    for path in files_of(tmp_path, ending):
        data = path.read_bytes()
        if how == "removed":
            path.unlink()
        else:
            flipped = data[:-3] + bytes([data[-3] ^ 1]) + data[-2:]  # of the index, in the digest of "same"
            flipped = bytes(byte ^ 1 for byte in data) if ending == ".pack" else flipped
            path.write_bytes(data[: len(data) // 2] if how == "cut" else flipped)
    if ending == ".json":
        with pytest.raises(StateFileError, match="no turn"):
            undo(project)
        damaged = in_reading(project, lambda reading: reading.damaged)
        assert damaged == (() if how == "removed" else (1,))
        assert model_of(top) == present
    elif ending == "index":
        assert undo(project)[1] == []
        assert sorted(os.listdir(top)) == ["a", "same"]
    else:
        made, left = undo(project)
        assert made is None
        assert sorted(path for path, _ in left) == ["a", "b"]
        assert all("its content is" in reason for _, reason in left)
        assert model_of(top) == present
    present = model_of(top)
    with turn(project) as again:  # and the next turn is kept
        (top / "c").write_text("c")
        if ending == "index":  # which is only a cache
            (top / "same").write_text("changed")
    assert again[0] is not None
    assert undo(project)[1] == []
    assert model_of(top) == present


def test_two_turns_at_once_are_kept_and_say_so(tmp_path: Path) -> None:
    """R-279: each has what both changed, no undo happens meanwhile, and each other's store is whole."""
    project, other, top = project_in(tmp_path), project_in(tmp_path), tmp_path / "project"
    (top / "a").write_text("before\n")
    first = project.begin(session="one", turn=1, task="")
    (top / "a").write_text("first\n")
    second = other.begin(session="two", turn=1, task="")
    (top / "b").write_text("second\n")
    with pytest.raises(StateFileError, match="odek is at work in this folder"), project.reading() as reading:
        reading.undo(Record(number=9, session="", turn=0, task="", at_s=0), reading.plan(RECORD))
    done, too = project.finish(first), other.finish(second)
    assert done is not None
    assert too is not None
    assert [(record.shared, [each.path for each in record.changes]) for record, _ in (done, too)] == [
        (True, ["a", "b"]),
        (True, ["b"]),
    ]
    assert undo(project, 2)[1] == []
    assert undo(project, 1)[1] == []
    assert {path.name: path.read_text() for path in top.iterdir()} == {"a": "before\n"}


RECORD = Record(number=9, session="", turn=0, task="", at_s=0)
