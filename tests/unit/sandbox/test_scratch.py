"""The folders of builds: private, gone with the build, and swept after an odek that was killed."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from odek.sandbox.build.scratch import OWNER_FILE, make_removable, scratch_folder, sweep_scratch
from odek.sandbox.container.owner import Owner

ME = Owner(pid=7, start="42", boot="boot-1", pidns="pid:[1]", uid=os.getuid())
DEAD = replace(ME, pid=8)
LIVING = {7: "42", 9: "90"}


def make(parent: Path, name: str, owner: str | None, *, mode: int = 0o700) -> Path:
    """Make a scratch folder as an odek leaves it, with a copy of a project in it."""
    folder = parent / f"odek-build-{name}"
    (folder / "context" / "closed").mkdir(parents=True)
    (folder / "context" / "closed").chmod(0o500)
    if owner is not None:
        (folder / OWNER_FILE).write_text(owner)
    folder.chmod(mode)
    return folder


def sweep(parent: Path) -> set[str]:
    """Return the names of what a sweep removes."""
    before = set(os.listdir(parent))
    sweep_scratch(str(parent), me=ME, start_of=LIVING.get)
    return before - set(os.listdir(parent))


def test_scratch_folder_is_private_names_its_owner_and_is_gone_after_the_block() -> None:
    with scratch_folder(ME) as folder:
        assert os.stat(folder).st_mode & 0o777 == 0o700
        assert Path(folder, OWNER_FILE).read_text() == ME.line()
        (Path(folder) / "closed").mkdir(mode=0o111)
    assert not Path(folder).exists()


def test_scratch_folder_is_removed_with_closed_folders_and_what_links_lead_to_is_left_alone(tmp_path: Path) -> None:
    """R-36, B19: what a sandbox put into the project must not change a mode on this machine (CVE-2023-6597)."""
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    scratch = tmp_path / "scratch"
    closed = scratch / "context" / "closed" / "deep"
    closed.mkdir(parents=True)
    (closed / "link").symlink_to(outside)
    for folder in (closed, closed.parent):
        folder.chmod(0o555)
    make_removable(str(scratch))
    modes = {path.name: path.stat().st_mode & 0o777 for path in (closed, closed.parent, outside)}
    assert modes == {"deep": 0o700, "closed": 0o700, "outside": 0o755}


def test_folder_of_a_killed_odek_is_removed_by_the_next_start(tmp_path: Path) -> None:
    """E13: at once, and not after a day."""
    folder = make(tmp_path, "aaaaaaaa", DEAD.line())
    assert sweep(tmp_path) == {folder.name}


@pytest.mark.parametrize(
    "owner",
    [
        replace(ME, pid=9, start="90").line(),
        ME.line(),
        replace(DEAD, boot="boot-0").line(),
        replace(DEAD, pidns="pid:[2]").line(),
        replace(DEAD, uid=ME.uid + 1).line(),
        replace(DEAD, start="").line(),
        "",
        "nonsense",
        DEAD.line() + "x" * 2000,
        None,
    ],
)
def test_folder_whose_owner_is_not_certainly_dead_is_left_alone(owner: str | None, tmp_path: Path) -> None:
    """E13, R-38: of a living odek, of another boot, PID namespace or user, or not readable."""
    make(tmp_path, "aaaaaaaa", owner)
    assert sweep(tmp_path) == set()


def test_reused_pid_does_not_keep_a_folder(tmp_path: Path) -> None:
    """E13: the process with that pid is another one, started later."""
    folder = make(tmp_path, "aaaaaaaa", replace(ME, pid=9, start="13").line())
    assert sweep(tmp_path) == {folder.name}


def test_only_folders_like_odeks_own_are_looked_at(tmp_path: Path) -> None:
    """E13: what a link leads to and a folder of the user's are left alone."""
    outside = make(tmp_path, "target", DEAD.line())
    make(tmp_path, "open_mod", DEAD.line(), mode=0o755)
    make(tmp_path, "scripts", DEAD.line())
    (tmp_path / "odek-build-link_aaa").symlink_to(outside)
    (tmp_path / "odek-build-file_aaa").write_text(DEAD.line())
    linked = make(tmp_path, "linked_o", None)
    (linked / OWNER_FILE).symlink_to(outside / OWNER_FILE)
    assert sweep(tmp_path) == set()
    sweep_scratch(str(tmp_path / "missing"), me=ME, start_of=LIVING.get)


def test_folder_without_an_owner_is_removed_a_day_later(tmp_path: Path) -> None:
    """E13: an odek that was killed before it could write its name."""
    folder, now_s = make(tmp_path, "aaaaaaaa", None), time.time()
    sweep_scratch(str(tmp_path), me=ME, start_of=LIVING.get, now_s=now_s + 80_000)
    assert folder.exists()
    sweep_scratch(str(tmp_path), me=ME, start_of=LIVING.get, now_s=now_s + 90_000)
    assert not folder.exists()
