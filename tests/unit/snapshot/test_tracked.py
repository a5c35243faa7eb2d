"""Files that git tracks although a pattern ignores them: they are kept as others are."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tracemalloc
from pathlib import Path

import pytest
from support.snapshots import project_in, turn, undo

from odek.snapshot.tracked import Tracked, read_index

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")


def git(folder: Path, *arguments: str) -> None:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    names = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    subprocess.run(("git", *names, *arguments), cwd=folder, env=env, check=True, capture_output=True)


@pytest.mark.parametrize("where", ["", "sub"])
def test_an_ignored_file_that_git_tracks_is_kept(where: str, tmp_path: Path) -> None:
    """R-367: in an ignored folder too; its neighbours stay ignored; in a part of a checkout as well."""
    checkout = tmp_path / "project"
    top = checkout / where
    (top / "build" / "deep").mkdir(parents=True)
    (checkout / ".gitignore").write_text("build/\n*.log\n")
    kept = ("build/deep/x", "keep.log")
    for name in (*kept, "build/deep/y", "other.log"):
        (top / name).write_text("before\n")
    git(checkout, "init", "-q")
    git(checkout, "add", "-f", *(f"./{where}/{name}" for name in kept))
    project = project_in(tmp_path, name=f"project/{where}".rstrip("/"))
    with turn(project) as made:
        for name in (*kept, "build/deep/y", "other.log", "build/new"):
            (top / name).write_text("after\n")
        (top / "build" / "deep" / "x").unlink()
    assert made[0] is not None
    assert [change.path for change in made[0].changes] == list(kept)
    assert undo(project)[1] == []
    assert {(top / name).read_text() for name in kept} == {"before\n"}
    assert (top / "other.log").read_text() == (top / "build" / "deep" / "y").read_text() == "after\n"


def test_what_a_turn_begins_to_track_was_there_before(tmp_path: Path) -> None:
    """R-367: an undo does not remove it; from the next turn on it is kept."""
    project, top = project_in(tmp_path), tmp_path / "project"
    (top / ".gitignore").write_text("*.log\n")
    (top / "a.log").write_text("before\n")
    (top / "b").write_text("before\n")
    git(top, "init", "-q")
    with turn(project):
        (top / "b").write_text("after\n")
        git(top, "add", "-f", "a.log")
    undo(project)
    assert (top / "a.log").exists()
    with turn(project) as made:
        (top / "a.log").write_text("after\n")
    assert made[0] is not None
    assert [change.path for change in made[0].changes] == ["a.log"]


@pytest.mark.parametrize("version", ["2", "3", "4"])
@pytest.mark.parametrize("digest", ["sha1", "sha256"])
def test_index_is_read_as_git_writes_it(version: str, digest: str, tmp_path: Path) -> None:
    """R-367: all versions, both digests, long and foreign names, what is only meant to be added."""
    chance = random.Random(367)
    names = {"a", "b/c", "é", "x" * 200, "d/" * 30 + "e", "n\nl"}
    names |= {"/".join(chance.choices(("p", "q", "rr", "s.t"), k=chance.randrange(1, 5))) + "!" for _ in range(60)}
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    git(tmp_path, "init", "-q", f"--object-format={digest}")
    git(tmp_path, "add", "-A")
    (tmp_path / "later").write_text("x")
    git(tmp_path, "add", "-N", "later")
    git(tmp_path, "update-index", "--index-version", version)
    data = (tmp_path / ".git" / "index").read_bytes()
    assert set(read_index(data)) == {os.fsencode(name) for name in {*names, "later"}}
    for _ in range(300):  # whatever it is, it ends and raises nothing
        broken = bytearray(data[: chance.randrange(len(data))])
        for _ in range(chance.randrange(1, 20)):
            broken[chance.randrange(12, len(broken) + 12) % max(len(broken), 1)] = chance.randrange(256)
        read_index(bytes(broken))


def hostile_index(paths: list[bytes]) -> bytes:
    entries = b""
    for path in paths:
        entry = bytes(62) + path
        entries += entry + bytes(8 - len(entry) % 8)
    return b"DIRC" + (2).to_bytes(4, "big") + len(paths).to_bytes(4, "big") + entries


def test_a_hostile_index_costs_what_it_is_long(tmp_path: Path) -> None:
    """R-367: folders in folders are not written out, and a few bytes of version 4 do not say many paths."""
    deep = [b"%03d" % number + b"/a" * 2000 for number in range(50)]
    index = tmp_path / "index"
    index.write_bytes(hostile_index(deep))
    tracked = Tracked(str(index))
    tracemalloc.start()
    assert tracked.holds("007/a/a")
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 20 * index.stat().st_size
    for name in ("007/a/aa", "007/", "07", "0", "", "../007", "007/a" * 900):
        assert not tracked.holds(name)
    first = bytes(62) + b"\0" + b"x" * 4090 + b"\0"
    more = b"".join(bytes(62) + b"\x05~%04d\0" % number for number in range(9999))
    too_many = b"".join(bytes(62) + b"\x06~~%04d\0" % number for number in range(9999))
    for count, packed in ((10_000, first + more), (0, first + more + too_many)):
        head = b"DIRC" + (4).to_bytes(4, "big") + (count or 19_999).to_bytes(4, "big")
        assert len(read_index(head + packed)) == count


@pytest.mark.parametrize("place", [b"a\0b", b"", b"\xff\n", b"x/" * 2000, b"..", b"/dev/stdin", b"."])
def test_a_hostile_git_file_leads_nowhere(place: bytes, tmp_path: Path) -> None:
    """R-367: whatever it says, turns are kept and taken back."""
    project, top = project_in(tmp_path), tmp_path / "project"
    (top / ".git").write_bytes(b"gitdir: " + place + b"\n")
    (top / ".gitignore").write_text("*.log\n")
    (top / "a.log").write_text("before\n")
    (top / "b").write_text("before\n")
    with turn(project) as made:
        (top / "a.log").write_text("after\n")
        (top / "b").write_text("after\n")
    assert made[0] is not None
    assert [change.path for change in made[0].changes] == ["b"]
    assert undo(project)[1] == []
