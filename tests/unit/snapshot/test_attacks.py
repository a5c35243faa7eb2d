"""A hostile project: links and special files in the way of a look or an undo, and changes in the middle of one."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from support.fuzz_undo import model_of
from support.privileges import obeying_modes
from support.snapshots import BOUNDS, in_reading, project_in, turn, undo

from odek.snapshot.diff import Effort, diff_of
from odek.snapshot.project import Bounds, Reading
from odek.snapshot.restore import CHANGED, Restorer, content_at
from odek.snapshot.scan import Scan
from odek.snapshot.tree import Change, State


def test_no_link_leads_a_look_or_an_undo_outside(tmp_path: Path) -> None:
    """R-274: a folder that becomes a link to one outside is not entered, in either direction."""
    project, top, outside = project_in(tmp_path), tmp_path / "project", tmp_path / "outside"
    outside.mkdir()
    (outside / "a").write_text("outside\n")
    (top / "dir").mkdir()
    (top / "dir" / "a").write_text("before\n")
    (top / "way out").symlink_to(outside)
    with turn(project) as made:
        (top / "dir" / "a").write_text("after\n")
        (top / "dir" / "b").write_text("new\n")
    assert made[0] is not None
    assert [change.path for change in made[0].changes] == ["dir/a", "dir/b"]
    (top / "dir" / "a").unlink()
    (top / "dir" / "b").unlink()
    (top / "dir").rmdir()
    (top / "dir").symlink_to(outside)
    (outside / "a").write_text("after\n")  # as if it were what the turn left
    (outside / "b").write_text("new\n")
    _, left = undo(project)
    assert left == [("dir/a", CHANGED)]  # and b, which would have been removed, is not there
    assert {path.name: path.read_text() for path in outside.iterdir()} == {"a": "after\n", "b": "new\n"}


def test_a_fifo_in_place_of_a_file_holds_nothing_up(tmp_path: Path) -> None:
    """R-274: neither a look nor an undo opens it; of the patterns neither."""
    project, top = project_in(tmp_path), tmp_path / "project"
    (top / "a").write_text("before\n")
    os.mkfifo(top / ".gitignore")
    with turn(project):
        (top / "a").write_text("after\n")
    (top / "a").unlink()
    os.mkfifo(top / "a")
    assert undo(project) == (None, [("a", CHANGED)])


@pytest.mark.parametrize("mode", [0o000, 0o100, 0o400, 0o600])
def test_a_folder_that_cannot_be_searched_is_left_and_nothing_else(mode: int, tmp_path: Path) -> None:
    """R-274: neither a turn nor what follows it makes an undo of the others impossible by one folder's mode."""
    project, top = project_in(tmp_path), tmp_path / "project"
    for name in ("d", "e"):
        (top / name / "inner").mkdir(parents=True)
        (top / name / "x").write_text("before\n")
    (top / "a").write_text("before\n")
    with obeying_modes():
        with turn(project) as made:
            (top / "a").write_text("after\n")
            (top / "e" / "x").write_text("after\n")
            (top / "d").chmod(mode)
        assert made[0] is not None
        assert [change.path for change in made[0].changes] == ["a", "d", "e/x"]
        with turn(project) as more:
            (top / "b").write_text("new\n")
        assert more[0] is not None
        (top / "e").chmod(mode)
        assert undo(project)[1] == []
        assert undo(project)[1] == []
        assert stat.S_IMODE((top / "e").stat().st_mode) == mode
        assert stat.S_IMODE((top / "d").stat().st_mode) == 0o755
        (top / "e").chmod(0o755)
    assert (top / "a").read_text() == "before\n"
    assert not (top / "b").exists()


@pytest.mark.parametrize("seen", ["link", "file"])
def test_what_is_exchanged_while_it_is_looked_at_has_changed(seen: str, tmp_path: Path) -> None:
    """R-274: it ends no undo, and is not taken for what is gone."""
    outside, place = tmp_path / "x", tmp_path / "a"
    outside.write_text("x\n")
    if seen == "link":
        place.symlink_to("x")
    else:
        place.write_text("x\n")
    status = os.stat(place, follow_symlinks=False)
    place.unlink()
    os.mkfifo(place)
    folder = os.open(tmp_path, os.O_RDONLY)
    assert content_at(folder, "a", status, file_bytes=100) is None
    os.close(folder)


def plan_of(reading: Reading) -> tuple[Change, ...]:
    record = reading.find(None)
    return tuple(reading.plan(record).todo)


@pytest.mark.parametrize("what", ["written", "renamed over", "removed", "made a link"])
def test_a_change_between_the_plan_and_the_exchange_is_not_lost(what: str, tmp_path: Path) -> None:
    """R-273: the last moment at which another program can change a file is the one in which it is moved aside."""
    project, top = project_in(tmp_path), tmp_path / "project"
    (top / "a").write_text("before\n")
    (top / "gone").write_text("was there\n")
    with turn(project):
        (top / "a").write_text("after\n")
        (top / "gone").unlink()
        (top / "added").write_text("added\n")
    acts: dict[str, Callable[[Path], object]] = {
        "written": lambda path: path.write_text("mine\n"),
        "renamed over": lambda path: ((tmp_path / "x").write_text("mine\n"), (tmp_path / "x").rename(path)),
        "removed": lambda path: path.unlink(missing_ok=True),
        "made a link": lambda path: (path.unlink(missing_ok=True), path.symlink_to("elsewhere")),
    }

    def race(reading: Reading) -> Restorer:
        plan = plan_of(reading)

        def get(state: State) -> bytes:  # asked for before a path is touched
            for name in ("a", "gone", "added"):
                acts[what](top / name)
            return reading.read(state)

        restorer = Restorer(reading.top, get, BOUNDS.limits.file_bytes, "1")
        restorer.run(plan)
        return restorer

    restorer = in_reading(project, race)
    assert isinstance(restorer, Restorer)
    assert sorted(restorer.left)[:1] == [("a", CHANGED)]
    if what == "removed":
        assert [change.path for change in restorer.done] == ["gone"]
    else:
        mine = b"elsewhere" if what == "made a link" else b"mine\n"
        assert {path: content for path, (_, content) in model_of(top).items()} == dict.fromkeys(
            ("a", "gone", "added"), mine
        )
        assert restorer.done == []
    assert not list(top.glob(".odek-undo-*"))


def test_what_cannot_have_its_name_again_is_named(tmp_path: Path) -> None:
    """R-273: two programs write to a path, before it is moved aside and just after; neither loses what it has."""
    project, top = project_in(tmp_path), tmp_path / "project"
    (top / "a").write_text("before\n")
    with turn(project):
        (top / "a").write_text("after\n")

    def race(reading: Reading) -> list[tuple[str, str]]:
        plan = plan_of(reading)
        (top / "a").write_text("mine\n")

        class Racing(Restorer):
            def _is_before(self, folder: int, aside: str, before: State) -> bool:
                (top / "a").write_text("mine, too\n")
                return super()._is_before(folder, aside, before)

        restorer = Racing(reading.top, reading.read, BOUNDS.limits.file_bytes, "7")
        restorer.run(plan)
        return restorer.left

    assert in_reading(project, race) == [("a", f'{CHANGED}, twice: the first is kept beside it as ".odek-undo-7-0"')]
    assert (top / "a").read_text() == "mine, too\n"
    assert (top / ".odek-undo-7-0").read_text() == "mine\n"


def test_a_program_that_writes_all_the_time_loses_nothing(tmp_path: Path) -> None:
    """R-273: what it wrote last is there, or the undo was before it."""
    project, top = project_in(tmp_path), tmp_path / "project"
    stop, last = threading.Event(), [b""]

    def write() -> None:
        number = 0
        while not number or not stop.is_set():
            number += 1
            last[0] = b"mine %d\n" % number
            (tmp_path / "new").write_bytes(last[0])
            (tmp_path / "new").rename(top / "a")

    for _ in range(15):
        (top / "a").write_text("before\n")
        with turn(project):
            (top / "a").write_text("after\n")
        writer = threading.Thread(target=write)
        writer.start()
        undo(project)
        stop.set()
        writer.join()
        stop.clear()
        assert (top / "a").read_bytes() == last[0]
        assert not list(top.glob(".odek-undo-*"))


def test_what_is_deep_is_not_entered(tmp_path: Path) -> None:
    """R-274: folders in folders without end cost neither descriptors nor the stack; they are named and left."""
    project, top = project_in(tmp_path), tmp_path / "project"
    descriptor = os.open(top, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=descriptor)
        inner = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
    begun = project.begin(session="s", turn=1, task="")
    (path, reason), *more = project.not_kept(begun.before)
    assert (reason, more) == ("too deep", [])
    assert path.count("/") > 90
    (top / "a").write_text("x")
    assert project.finish(begun) is not None
    assert undo(project)[1] == []


def test_a_text_that_is_slow_to_compare_is_not_compared_for_long(tmp_path: Path) -> None:
    """R-278: a turn may write what takes long to compare; then lines count as taken away and added."""
    project, top = project_in(tmp_path), tmp_path / "project"
    (top / "a").write_text("".join(f"{number * 7919 % 1000}\n" for number in range(2000)))
    with turn(project):
        (top / "a").write_text("".join(f"{number * 104729 % 1000}\n" for number in range(2000)))
    effort = Effort(left=10_000)

    def compare(reading: Reading) -> object:
        return diff_of(reading.find(None).changes[0], reading.read, effort)

    diff = in_reading(project, compare)
    assert min(diff.added, diff.removed) > 1990  # type: ignore[attr-defined]
    assert -10_000 < effort.left < 0


def test_a_text_of_nothing_but_lines_fills_no_memory(tmp_path: Path) -> None:
    """R-278: each line that is shown takes a hundred times its byte, so lines count, those of all files together."""
    project, top = project_in(tmp_path), tmp_path / "project"
    with turn(project):
        for name in "abc":
            (top / name).write_text("\n" * 40)
    effort = Effort(lines=100)

    def compare(reading: Reading) -> object:
        return [diff_of(change, reading.read, effort).unknown for change in reading.find(None).changes]

    assert in_reading(project, compare) == ["", "", "not compared: too much was changed"]


def test_a_look_can_be_ended_among_names_that_are_ignored(tmp_path: Path) -> None:
    """R-274: a name may be compared with a hundred thousand patterns, so the clock is looked at for each."""

    class Enough(Exception):
        pass

    calls = 0

    def watch(_: Scan) -> None:
        nonlocal calls
        calls += 1
        if calls > 50:
            raise Enough

    project, top = project_in(tmp_path, watch=watch), tmp_path / "project"
    (top / ".gitignore").write_text("*.o\n")
    for number in range(100):
        (top / f"{number}.o").touch()
    with pytest.raises(Enough):
        project.begin(session="s", turn=1, task="")


def test_turns_that_change_nothing_fill_no_disk(tmp_path: Path) -> None:
    """R-276: what changes between turns is kept by each look, and swept by the next one."""
    bounds = Bounds(limits=BOUNDS.limits, max_turns=50, max_bytes=50_000)
    project, top = project_in(tmp_path, bounds), tmp_path / "project"
    for number in range(30):
        (top / "a").write_bytes(os.urandom(10_000))
        begun = project.begin(session="s", turn=number, task="")
        if number % 2:
            project.discard(begun)
        else:
            assert project.finish(begun) is None
    with project.store.held(wait_s=0) as held:
        assert held.used_bytes() <= bounds.max_bytes + 10_000 + 100
