from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path

import pytest
from support.privileges import may_become_others

from odek.errors import FileAccessDenied
from odek.executor import ScanOptions
from odek.host_executor.tree import WorkspaceTree

ODD_NAMES = (b"we\xffird", b"nl\nname", b"-rf", b"x" * 255, "e\u0301".encode(), "\u00e9".encode(), b" ")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace beside a folder that must stay unseen."""
    root = Path(os.path.realpath(tmp_path)) / "work"
    outside = root.parent / "outside"
    for folder in ("d/e", "node_modules/m", ".git"):
        (root / folder).mkdir(parents=True)
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (root / "a").write_bytes(b"12")
    (root / "d" / "b").write_bytes(b"1")
    (root / "d" / "e" / "c").write_bytes(b"")
    (root / "node_modules" / "m" / "x").write_bytes(b"")
    (root / ".git" / "config").write_bytes(b"")
    (root / "inside").symlink_to("d")
    (root / "out").symlink_to(outside)
    (root / "d" / "up").symlink_to("../a")
    (root / "loop").symlink_to("loop")
    os.mkfifo(root / "pipe")
    return root


def paths(root: Path, path: str, how: ScanOptions) -> list[str]:
    return [entry.path for entry in WorkspaceTree(str(root)).walk(path, how).entries]


def test_walk_lists_what_is_there_and_follows_no_link(root: Path) -> None:
    """R-44, B13."""
    listing = WorkspaceTree(str(root)).walk("", ScanOptions())
    assert [(entry.path, entry.kind, entry.size_bytes if entry.kind == "file" else 0) for entry in listing.entries] == [
        (".git", "folder", 0),
        (".git/config", "file", 0),
        ("a", "file", 2),
        ("d", "folder", 0),
        ("d/b", "file", 1),
        ("d/e", "folder", 0),
        ("d/e/c", "file", 0),
        ("d/up", "link", 0),
        ("inside", "link", 0),
        ("loop", "link", 0),
        ("node_modules", "folder", 0),
        ("node_modules/m", "folder", 0),
        ("node_modules/m/x", "file", 0),
        ("out", "link", 0),
        ("pipe", "other", 0),
    ]
    assert (listing.top.path, listing.top.kind, listing.complete, listing.problems) == ("", "folder", True, ())


@pytest.mark.parametrize(
    ("path", "how", "found"),
    [
        ("d", ScanOptions(), ["d/b", "d/e", "d/e/c", "d/up"]),
        ("d", ScanOptions(depth=1), ["d/b", "d/e", "d/up"]),
        ("d", ScanOptions(depth=0), []),
        ("inside", ScanOptions(depth=1), ["d/b", "d/e", "d/up"]),
        ("d/up", ScanOptions(), []),
        ("d/e/..", ScanOptions(depth=1), ["d/b", "d/e", "d/up"]),
        ("", ScanOptions(skip=frozenset(("node_modules", "d")), hidden=False, depth=9),
         [".git", "a", "d", "inside", "loop", "node_modules", "out", "pipe"]),
        (".git", ScanOptions(hidden=False), [".git/config"]),
    ],
)  # fmt: skip
def test_walk_goes_where_and_as_deep_as_it_was_told(root: Path, path: str, how: ScanOptions, found: list[str]) -> None:
    assert paths(root, path, how) == found
    assert paths(root, f"{root}/{path}", how) == found


@pytest.mark.parametrize("path", ["out", "out/secret", "../outside", "/etc", "loop", "nope", "a/b", "nul\0", "\ud800"])
def test_places_outside_and_what_is_not_there_are_refused(root: Path, path: str) -> None:
    """R-44, B13."""
    tree = WorkspaceTree(str(root))
    with pytest.raises(FileAccessDenied):
        tree.walk(path, ScanOptions())
    if path not in ("out", "loop"):
        with pytest.raises(FileAccessDenied):
            tree.stat(path)


def test_stat_does_not_follow_the_last_link(root: Path) -> None:
    tree = WorkspaceTree(str(root))
    os.chmod(root / "a", 0o4751)
    os.utime(root / "a", (5, 1_234_567_890.9))
    entry = tree.stat("inside/up")
    assert (entry.path, entry.kind) == ("d/up", "link")
    entry = tree.stat("a")
    assert (entry.kind, entry.mode, entry.size_bytes, entry.mtime_s) == ("file", 0o4751, 2, 1_234_567_890)
    assert (tree.stat("out").kind, tree.stat("pipe").kind, tree.stat("").path) == ("link", "other", "")


def test_names_are_as_they_are(root: Path) -> None:
    """B47: no bytes are lost."""
    for name in ODD_NAMES:
        (root / "d" / os.fsdecode(name)).write_bytes(b"")
    found = {os.fsencode(path.removeprefix("d/")) for path in paths(root, "d", ScanOptions(depth=1))}
    assert found == {*ODD_NAMES, b"b", b"e", b"up"}


@pytest.mark.parametrize(("count", "complete"), [(9, False), (10, True), (11, True)])
def test_walk_ends_at_its_count_and_says_so(tmp_path: Path, count: int, complete: bool) -> None:
    for number in range(10):
        (tmp_path / str(number)).write_bytes(b"")
    listing = WorkspaceTree(os.path.realpath(tmp_path)).walk("", ScanOptions(count=count))
    assert (len(listing.entries), listing.complete) == (min(count, 10), complete)


def test_walk_ends_when_its_time_is_over(root: Path) -> None:
    times = iter((0.0, 1.0, *[21.0] * 10))
    listing = WorkspaceTree(str(root), clock=lambda: next(times)).walk("", ScanOptions(timeout_s=20))
    assert (listing.complete, [entry.path for entry in listing.entries]) == (
        False,
        [".git", "a", "d", "inside", "loop", "node_modules", "out", "pipe"],
    )


def test_deep_trees_end_without_using_up_descriptors(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(300):
        os.mkdir("d", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    before = len(os.listdir("/proc/self/fd"))
    assert len(paths(Path(os.path.realpath(tmp_path)), "", ScanOptions())) == 64
    assert len(os.listdir("/proc/self/fd")) == before


def test_folder_that_cannot_be_read_is_named() -> None:
    with tempfile.TemporaryDirectory() as name:  # pytest's own folder is closed to others
        (Path(name) / "d").mkdir(mode=0)
        os.chmod(name, 0o755)
        user = os.geteuid()
        os.seteuid(65534 if may_become_others() else user)  # root may read every folder
        try:
            listing = WorkspaceTree(os.path.realpath(name)).walk("", ScanOptions())
        finally:
            os.seteuid(user)
    assert [entry.path for entry in listing.entries] == ["d"]
    assert listing.problems == ('"d" cannot be used: Permission denied',)


def test_folder_that_becomes_a_link_meanwhile_is_not_followed(root: Path) -> None:
    """R-44, B13: a race that swaps a folder and a link to the outside shows nothing of the outside."""
    (root / "s").mkdir()
    (root / "link").symlink_to(root.parent / "outside")
    ended = threading.Event()

    def swap() -> None:
        while not ended.is_set():
            os.rename(root / "s", root / "t")
            os.rename(root / "link", root / "s")
            os.rename(root / "s", root / "link")
            os.rename(root / "t", root / "s")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        seen = set()
        for _ in range(200):
            seen |= set(paths(root, "", ScanOptions()))
    finally:
        ended.set()
        thread.join()
    assert [path for path in seen if "secret" in path] == []
