"""Turns of a project: what is kept, what is not, what is read again, what an undo leaves alone."""

from __future__ import annotations

import os
import stat
import time
from dataclasses import replace
from pathlib import Path

import pytest
from support.fuzz_undo import model_of
from support.snapshots import BOUNDS, project_in, turn, undo

from odek.errors import StateFileError, UsageError
from odek.snapshot.ignore import IgnoreRules
from odek.snapshot.project import NothingKept, rules_around
from odek.snapshot.restore import CHANGED, FULL_FOLDER, NOT_KEPT
from odek.snapshot.scan import Limits, Scan

SETTLED_S = 0.06  # longer than a tick of a file system's clock, as scan.py takes it


def paths(record: object) -> list[str]:
    return [change.path for change in record.changes]  # type: ignore[attr-defined]


def test_a_path_that_changed_since_is_named_and_left(tmp_path: Path) -> None:
    """R-273: edited, removed, made anew, exchanged for a link; what did not change is undone."""
    project, top = project_in(tmp_path), tmp_path / "project"
    for name in ("edited", "removed", "mode", "replaced", "same"):
        (top / name).write_text("before\n")
    with turn(project):
        for name in ("edited", "removed", "mode", "replaced", "same", "added", "added too"):
            (top / name).write_text("after\n")
    (top / "edited").write_text("mine\n")
    (top / "removed").unlink()
    (top / "mode").chmod(0o600)
    (top / "replaced").unlink()
    (top / "replaced").symlink_to("same")
    (top / "added").write_text("mine, too\n")
    present = model_of(top)
    made, left = undo(project)
    assert left == [(name, CHANGED) for name in ("added", "edited", "mode", "removed", "replaced")]
    assert made is not None
    assert paths(made) == ["added too", "same"]
    del present["added too"]
    present["same"] = (present["same"][0], b"before\n")
    assert model_of(top) == present


def test_what_is_as_before_already_needs_no_undo(tmp_path: Path) -> None:
    """R-273: who has taken a change back by hand is not told of a conflict."""
    project, top = project_in(tmp_path), tmp_path / "project"
    (top / "a").write_text("before\n")
    with turn(project):
        (top / "a").write_text("after\n")
        (top / "b").write_text("new\n")
    (top / "a").write_text("before\n")
    made, left = undo(project)
    assert left == []
    assert made is not None
    assert paths(made) == ["b"]


def test_what_git_ignored_before_a_turn_is_never_removed(tmp_path: Path) -> None:
    """R-270: a turn that takes a pattern away uncovers files that were there before; an undo does not remove them."""
    project, top = project_in(tmp_path), tmp_path / "project"
    (top / ".gitignore").write_text("secret.env\nbuild/\n")
    (top / "secret.env").write_text("mine")
    (top / "build").mkdir()
    (top / "build" / "out").write_text("mine")
    with turn(project) as made:
        (top / ".gitignore").write_text("*.txt\n")
        (top / "new.txt").write_text("ignored now")
        (top / "new.py").write_text("new")
    assert made[0] is not None
    assert paths(made[0]) == [".gitignore", "new.py"]
    undo(project)
    assert (top / "secret.env").read_text() == "mine"
    assert (top / "build" / "out").read_text() == "mine"
    assert sorted(os.listdir(top)) == [".gitignore", "build", "new.txt", "secret.env"]


def test_what_a_turn_begins_to_ignore_is_looked_at_all_the_same(tmp_path: Path) -> None:
    """R-270: otherwise a change of it would look like its end."""
    project, top = project_in(tmp_path), tmp_path / "project"
    (top / "pkg").mkdir()
    (top / "pkg" / "a.py").write_text("before")
    with turn(project) as made:
        (top / ".gitignore").write_text("pkg/\n*.py\n")
        (top / "pkg" / "a.py").write_text("after")
        (top / "pkg" / "b.py").write_text("ignored")
    assert made[0] is not None
    assert paths(made[0]) == [".gitignore", "pkg/a.py"]
    undo(project)
    assert (top / "pkg" / "a.py").read_text() == "before"


def test_patterns_of_the_checkout_around_the_folder_count(tmp_path: Path) -> None:
    """R-270: odek may be started below the top of a checkout."""
    (tmp_path / ".git" / "info").mkdir(parents=True)
    (tmp_path / ".git" / "info" / "exclude").write_text("*.tmp\n")
    (tmp_path / ".gitignore").write_text("/project/out\n*.log\n")
    project, top = project_in(tmp_path), tmp_path / "project"
    with turn(project) as made:
        for name in ("a.tmp", "a.log", "out", "a"):
            (top / name).write_text("x")
    assert made[0] is not None
    assert paths(made[0]) == ["a"]
    assert made[0].ignored == 3
    assert rules_around(str(top)).ignores(b"out", is_folder=False)


def test_what_is_too_large_or_special_is_named_and_stays(tmp_path: Path) -> None:
    """R-276: it is neither brought back nor removed, and a folder around it stays."""
    project, top = project_in(tmp_path), tmp_path / "project"
    (top / "large").write_bytes(b"x" * 10_001)
    (top / "small").write_text("before")
    os.mkfifo(top / "pipe")
    begun = project.begin(session="s", turn=1, task="")
    assert project.not_kept(begun.before) == (("large", "larger than 0 MB"), ("pipe", "not a regular file"))
    (top / "large").write_bytes(b"y" * 10_002)
    (top / "small").write_text("after")
    (top / "new").mkdir()
    (top / "new" / "large").write_bytes(b"z" * 10_001)
    (top / "pipe").unlink()
    assert project.finish(begun) is not None
    _, left = undo(project)
    assert left == [
        ("large", NOT_KEPT), ("new", FULL_FOLDER), ("new/large", "its content was not kept, so it would be lost"),
        ("pipe", NOT_KEPT),
    ]  # fmt: skip
    assert (top / "small").read_text() == "before"
    assert (top / "new" / "large").stat().st_size == 10_001


def test_all_of_a_project_that_is_kept_is_bounded(tmp_path: Path) -> None:
    """R-276: what is over the limit of all files together is not kept, until there is room for it."""
    bounds = replace(BOUNDS, limits=Limits(file_bytes=10_000, total_bytes=15_000))
    project, top = project_in(tmp_path, bounds), tmp_path / "project"
    for name in ("a", "b"):
        (top / name).write_bytes(name.encode() * 9_000)
    first = project.begin(session="s", turn=1, task="")
    assert [path for path, _ in project.not_kept(first.before)] == ["b"]
    (top / "a").unlink()
    assert project.finish(first) is not None
    second = project.begin(session="s", turn=2, task="")
    assert project.not_kept(second.before) == ()
    project.discard(second)


def test_a_project_of_too_many_files_is_not_kept(tmp_path: Path) -> None:
    """R-276: a look ends there, with what to do."""
    bounds = replace(BOUNDS, limits=Limits(file_bytes=10, total_bytes=10_000, files=5))
    project, top = project_in(tmp_path, bounds), tmp_path / "project"
    for number in range(6):
        (top / str(number)).write_text("")
    with pytest.raises(StateFileError, match="more than 5 files"):
        project.begin(session="s", turn=1, task="")


def test_old_turns_and_contents_that_nothing_needs_are_forgotten(tmp_path: Path) -> None:
    """R-276: the number of turns, and the bytes of all projects together."""
    bounds = replace(BOUNDS, max_turns=3)
    project, top = project_in(tmp_path, bounds), tmp_path / "project"
    for number in range(16):
        with turn(project):
            (top / "a").write_bytes(os.urandom(5000) + str(number).encode())
    with project.reading() as reading:
        kept = [record.number for record in reading.records()]
        state = next(reading.records()).changes[0].before
        assert state is not None
        assert len(reading.read(state)) == state.size
    assert len(kept) <= 3 + 10
    assert kept[0] == 16
    assert undo(project)[1] == []

    small = replace(BOUNDS, max_bytes=20_000)
    other = project_in(tmp_path, small, name="other")
    with turn(other):
        (tmp_path / "other" / "b").write_bytes(os.urandom(9000))
    sizes = other.store.sizes()
    assert sum(size for _, size in sizes.values()) <= 20_000
    with pytest.raises(NothingKept), project.reading() as reading:
        reading.find(None)


def test_everything_that_is_kept_is_the_users_alone(tmp_path: Path) -> None:
    """R-276: whatever the umask."""
    project, top = project_in(tmp_path), tmp_path / "project"
    old = os.umask(0)
    try:
        with turn(project):
            (top / "a").write_text("x")
    finally:
        os.umask(old)
    modes = {
        (path.is_dir(), stat.S_IMODE(path.stat().st_mode))
        for path in (tmp_path / "home").rglob("*")
    }  # fmt: skip
    assert modes == {(True, 0o700), (False, 0o600)}


def test_unchanged_files_are_not_read_again(tmp_path: Path) -> None:
    """R-277: by size, times, mode and inode; what a turn changed is all that is read."""
    scans: list[Scan] = []
    project, top = project_in(tmp_path, watch=scans.append), tmp_path / "project"
    for folder in range(5):
        (top / f"d{folder}").mkdir()
        for name in range(20):
            (top / f"d{folder}" / f"f{name}").write_text("some text")
    time.sleep(SETTLED_S)
    with turn(project):
        pass
    assert scans[0].read_bytes == 100 * 9
    scans.clear()
    with turn(project) as made:
        (top / "d1" / "f1").write_text("other")
    assert made[0] is not None
    assert [scan.read_bytes for scan in {id(scan): scan for scan in scans}.values()] == [0, 5]


def test_a_change_in_the_tick_of_the_look_is_seen(tmp_path: Path) -> None:
    """R-277: same size, same times: what was just written when it was looked at is read again."""
    project, top = project_in(tmp_path), tmp_path / "project"
    for _ in range(20):
        (top / "a").write_text("one")
        status = (top / "a").stat()
        with turn(project) as made:
            (top / "a").write_text("two")
            os.utime(top / "a", ns=(status.st_atime_ns, status.st_mtime_ns))
        assert made[0] is not None
        (top / "a").unlink()


@pytest.mark.parametrize(("later_ns", "is_trusted"), [(0, False), (40_000_000, False), (3_000_000_000, True)])
def test_what_is_as_new_as_the_look_is_not_trusted_next_time(later_ns: int, is_trusted: bool, tmp_path: Path) -> None:
    """R-277: a clock of files may stand still for some milliseconds, or for two seconds."""
    file = tmp_path / "a"
    file.write_text("x")
    top = os.open(tmp_path, os.O_RDONLY)
    try:
        scan = Scan(lambda _, __: None, BOUNDS.limits, file.stat().st_ctime_ns + later_ns)
        tree = scan.run(top, cache={}, rules=IgnoreRules())
    finally:
        os.close(top)
    assert (tree[""].entries["a"].ctime_ns != 0, tree[""].ctime_ns != 0) == (is_trusted, is_trusted)


def test_only_a_turn_that_is_kept_can_be_undone(tmp_path: Path) -> None:
    """R-273: a wrong number is a usage error; what has no turn says so."""
    project, top = project_in(tmp_path), tmp_path / "project"
    with pytest.raises(NothingKept, match="no turn that changed files is kept for this folder"):
        undo(project)
    with turn(project):
        (top / "a").write_text("x")
    with pytest.raises(UsageError, match="there is no turn 7"):
        undo(project, 7)
    made, _ = undo(project)
    assert made is not None
    with pytest.raises(NothingKept):
        undo(project)
    with project.reading() as reading, pytest.raises(NothingKept, match="no change of a file is kept of turn 6"):
        reading.find(None, session="talk", turn=6)
    undo(project, made.number)
    assert (top / "a").read_text() == "x"
    assert undo(project)[0] is not None  # the turn counts again


def test_a_folder_that_was_exchanged_is_not_looked_at(tmp_path: Path) -> None:
    """R-274: the one that odek was started in is meant, whatever its name leads to."""
    project, top = project_in(tmp_path), tmp_path / "project"
    status = top.stat()
    project._folder_id = (status.st_dev, status.st_ino)
    top.rename(tmp_path / "moved")
    top.mkdir()
    with pytest.raises(StateFileError, match="the working directory was exchanged"):
        project.begin(session="s", turn=1, task="")
