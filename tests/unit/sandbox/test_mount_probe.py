"""The file that proves that the container sees the user's own folder.

`prove_mounts` is tested with the whole start in test_start.py, its comparison in test_mounts.py.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from odek.sandbox.container.mount_probe import NonceFile, require_known_owner
from odek.sandbox.errors import SandboxConfigError


def age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_file_is_made_empty_and_removed(tmp_path: Path) -> None:
    """R-37."""
    marker = NonceFile(str(tmp_path), "n0")
    marker.make()
    assert (os.listdir(tmp_path), (tmp_path / ".odek-nonce-n0").stat().st_size) == ([".odek-nonce-n0"], 0)
    assert (marker.name, marker.inode) == (".odek-nonce-n0", "")
    marker.remove()
    marker.remove()
    assert os.listdir(tmp_path) == []


def test_file_that_the_container_made_beside_it_goes_too(tmp_path: Path) -> None:
    """R-37, R-38: whether or not the first one could be made."""
    for there in ([], [".odek-nonce-n0"]):
        for name in there:
            (tmp_path / name).touch()
        marker = NonceFile(str(tmp_path), "n0")
        marker.make()
        (tmp_path / f"{marker.name}.w").touch()
        marker.remove()
        assert os.listdir(tmp_path) == there


def test_folder_that_was_exchanged_is_refused(tmp_path: Path) -> None:
    """R-37, S-6: by its device and inode, whether another folder or a link has its name now."""
    work, other = tmp_path / "work", tmp_path / "other"
    work.mkdir()
    other.mkdir()
    status = work.stat()
    work.rename(tmp_path / "old")
    for put in (lambda: work.symlink_to(tmp_path / "old"), lambda: other.rename(work)):
        put()
        marker = NonceFile(str(work), "n0", identity=(status.st_dev, status.st_ino))
        with pytest.raises(SandboxConfigError, match=r"another folder than the one|cannot be read"):
            marker.make()
        marker.remove()
        work.unlink() if work.is_symlink() else None
    assert (os.listdir(work), os.listdir(tmp_path / "old")) == ([], [])


def test_files_go_where_they_were_made_when_the_folder_is_renamed(tmp_path: Path) -> None:
    """R-37, S-6: nothing is removed from the folder that has its name afterwards."""
    work = tmp_path / "work"
    work.mkdir()
    marker = NonceFile(str(work), "n0")
    marker.make()
    work.rename(tmp_path / "old")
    work.mkdir()
    (work / marker.name).touch()
    marker.remove()
    assert (os.listdir(work), os.listdir(tmp_path / "old")) == ([marker.name], [])


def test_removal_of_what_was_never_made_removes_nothing(tmp_path: Path) -> None:
    (tmp_path / ".odek-nonce-n0").touch()
    NonceFile(str(tmp_path), "n0").remove()
    assert os.listdir(tmp_path) == [".odek-nonce-n0"]


@pytest.mark.parametrize("there", ["file", "link"])
def test_file_of_that_name_is_not_touched_and_the_inode_is_used(there: str, tmp_path: Path) -> None:
    """R-37: nothing is overwritten, no link is followed."""
    work, outside = tmp_path / "work", tmp_path / "outside"
    work.mkdir()
    name = work / ".odek-nonce-n0"
    if there == "file":
        name.write_text("mine")
    else:
        name.symlink_to(outside)
    marker = NonceFile(str(work), "n0")
    marker.make()
    marker.remove()
    assert marker.inode == str(work.stat().st_ino)
    assert (os.listdir(work), outside.exists()) == ([".odek-nonce-n0"], False)


def test_folder_that_is_gone_is_an_error_of_the_users(tmp_path: Path) -> None:
    """R-37."""
    with pytest.raises(SandboxConfigError, match="cannot be read: No such file or directory"):
        NonceFile(str(tmp_path / "none"), "n0").make()


def test_stale_files_of_killed_odeks_are_swept_and_nothing_else(tmp_path: Path) -> None:
    """R-38: empty, regular, by that name, and older than any start takes."""
    stale, fresh, full, folder, link, other = (
        tmp_path / name
        for name in (
            ".odek-nonce-1",
            ".odek-nonce-2",
            ".odek-nonce-3",
            ".odek-nonce-4",
            ".odek-nonce-5",
            "odek-nonce-6",
        )
    )
    stale.touch()
    fresh.touch()
    full.write_text("x")
    folder.mkdir()
    link.symlink_to(other)
    other.touch()
    for path in (stale, full, folder, other):
        age(path, 3600)
    marker = NonceFile(str(tmp_path), "n0")
    marker.make()
    marker.remove()
    assert sorted(os.listdir(tmp_path)) == sorted(path.name for path in (fresh, full, folder, link, other))
    assert marker.inode == ""


def test_removal_that_fails_is_no_error(tmp_path: Path) -> None:
    """R-38: it must not stand in the way of taking the container down."""
    marker = NonceFile(str(tmp_path), "n0")
    marker.make()
    (tmp_path / marker.name).unlink()
    (tmp_path / marker.name).mkdir()
    marker.remove()
    assert os.listdir(tmp_path) == [marker.name]


def test_owners_of_both_files_are_remembered(tmp_path: Path) -> None:
    """R-31, B11."""
    marker = NonceFile(str(tmp_path), "n0")
    marker.make()
    (tmp_path / f"{marker.name}.w").touch()
    marker.remove()
    assert marker.owners == (os.getuid(), os.getuid())


@pytest.mark.parametrize(
    ("own", "theirs", "known"),
    [
        (1000, 1000, True),
        (0, 1000, True),  # another sandbox_user
        (501, 501, True),  # a virtual machine that shows all files as the user's
        (65534, 65534, True),  # a network file system that knows nobody
        (1000, None, True),  # nothing was written
        (None, 1000, True),
        (1000, 100999, False),  # a rootless engine
        (0, 200000, False),  # userns-remap
        (None, 100999, False),
    ],
)
def test_engine_that_maps_users_to_strangers_is_refused(own: int | None, theirs: int | None, known: bool) -> None:
    """R-31, B11: never a file of a wrong owner; the commands run as 1000 in there."""
    if known:
        require_known_owner((own, theirs), "1000")
    else:
        with pytest.raises(SandboxConfigError, match=f"would belong to user {theirs} of this machine, and not to 1000"):
            require_known_owner((own, theirs), "1000")
