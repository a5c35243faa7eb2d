"""What a turn closes by its mode after it has changed it, and what was closed before it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from support.fuzz_undo import model_of
from support.privileges import obeying_modes
from support.snapshots import project_in, turn, undo

from odek.errors import StateFileError
from odek.snapshot.doors import Doors

MODES = (0o000, 0o100, 0o200, 0o400, 0o500, 0o600)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def close_folder(top: Path, mode: int) -> None:
    (top / "d").chmod(mode)


def close_both(top: Path, mode: int) -> None:
    (top / "d" / "inner").chmod(mode)
    (top / "d").chmod(mode)


def close_top(top: Path, mode: int) -> None:
    (top / "d").chmod(mode)
    top.chmod(mode)


def close_file(top: Path, mode: int) -> None:
    (top / "d" / "x").chmod(mode & 0o377)  # nothing to read


WAYS = (close_folder, close_both, close_top, close_file)


@pytest.mark.parametrize("close", WAYS)
@pytest.mark.parametrize("mode", MODES)
def test_what_a_turn_closes_it_does_not_hide(close: Callable[[Path, int], None], mode: int, tmp_path: Path) -> None:
    """R-366: it is listed, undone and made again; the look itself leaves all modes as they are."""
    project, top = project_in(tmp_path), tmp_path / "project"
    (top / "d" / "inner").mkdir(parents=True)
    for name in ("d/x", "d/inner/y", "a", "d/gone"):
        (top / name).write_text("before\n")
    before = {**model_of(top), ".": mode_of(top)}
    with obeying_modes():
        with turn(project) as made:
            for name in ("d/x", "d/inner/y", "a", "d/new"):
                (top / name).write_text("after\n")
            (top / "d" / "gone").unlink()
            close(top, mode)
        assert made[0] is not None
        assert {"a", "d/gone", "d/inner/y", "d/new", "d/x"} <= {change.path for change in made[0].changes}
    after = {**model_of(top), ".": mode_of(top)}
    with obeying_modes():
        done, left = undo(project)
    assert left == []
    assert {**model_of(top), ".": mode_of(top)} == before
    with obeying_modes():
        assert done is not None
        assert undo(project, done.number)[1] == []
    assert {**model_of(top), ".": mode_of(top)} == after
    top.chmod(0o755)
    assert not list(top.rglob(".odek-undo-*"))


def test_a_folder_that_a_turn_makes_and_closes_is_removed(tmp_path: Path) -> None:
    """R-366."""
    project, top = project_in(tmp_path), tmp_path / "project"
    with obeying_modes():
        with turn(project):
            (top / "d" / "e").mkdir(parents=True)
            (top / "d" / "e" / "x").write_text("new\n")
            (top / "d" / "e").chmod(0)
            (top / "d").chmod(0)
        assert undo(project)[1] == []
    assert list(top.iterdir()) == []


def test_a_folder_that_is_closed_and_removed_comes_back(tmp_path: Path) -> None:
    """R-366: by whoever may."""
    project, top = project_in(tmp_path), tmp_path / "project"
    (top / "d").mkdir()
    (top / "d" / "x").write_text("before\n")
    with turn(project):
        (top / "d").chmod(0)
        (top / "d" / "x").unlink()  # as root
        (top / "d").rmdir()
    assert undo(project)[1] == []
    assert (top / "d" / "x").read_text() == "before\n"


def test_what_was_closed_before_stays_closed_and_is_named_when_it_changed(tmp_path: Path) -> None:
    """R-366: odek does not look behind what the user has closed; that a turn was there is seen by its time."""
    project, top = project_in(tmp_path), tmp_path / "project"
    for name in ("d", "e"):
        (top / name).mkdir()
        (top / name / "x").write_text("private\n")
        (top / name).chmod(0)
    with obeying_modes():
        with turn(project) as made:
            (top / "a").write_text("new\n")
            (top / "d").chmod(0o700)
            (top / "d" / "x").write_text("changed\n")
            (top / "d").chmod(0)
        assert made[0] is not None
        assert [change.path for change in made[0].changes] == ["a", "d"]
        assert not any(folder.entries for path, folder in kept(project).items() if path)
        assert [path for path, _ in undo(project)[1]] == ["d"]
    assert not (top / "a").exists()


def kept(project: object) -> dict[str, object]:
    with project.store.held(wait_s=1) as held:  # type: ignore[attr-defined]
        return dict(held.load_index())


def test_an_exchanged_top_is_not_opened(tmp_path: Path) -> None:
    """R-366: the folder is the one that odek was started in, or nothing is touched."""
    top = tmp_path / "project"
    top.mkdir(mode=0)

    def refuse(_: os.stat_result) -> None:
        raise StateFileError("exchanged")

    with obeying_modes(), pytest.raises(StateFileError):
        Doors().open_top(str(top), require=refuse)
    assert mode_of(top) == 0


def test_without_hard_links_a_base_is_a_copy(tmp_path: Path) -> None:
    """R-366: FAT and some network mounts have none; a turn is kept there as well."""
    project, top = project_in(tmp_path), tmp_path / "project"
    (top / "a").write_text("before\n")
    with turn(project):
        (top / "a").write_text("after\n")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    with project.store.held(wait_s=1) as held:
        held.link = refuse
        held.keep_base(7)
        assert held.load_base(7) == held.load_index() != {}
        held.keep_base(7)
