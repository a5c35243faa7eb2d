from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.privileges import may_become_others

from odek.errors import FileAccessDenied
from odek.host_executor.files import WorkspaceFiles, open_below

LIMIT = 1 << 20


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace beside a folder that must stay untouched."""
    root = Path(os.path.realpath(tmp_path)) / "work"
    outside = root.parent / "outside"
    (root / "inner").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    (root / "plain.txt").write_bytes(b"plain")
    (root / "inner" / "deep.txt").write_bytes(b"deep")
    (root / "to_file").symlink_to("inner/deep.txt")
    (root / "to_folder").symlink_to("inner")
    (root / "inner" / "up").symlink_to("../plain.txt")
    (root / "absolute_inside").symlink_to(root / "inner")
    (root / "dangling").symlink_to("inner/new.txt")
    (root / "notes.md").symlink_to("../outside/secret")
    (root / "draft.txt").symlink_to(outside / "new")
    (root / "sub").symlink_to(outside)
    (root / "loop").symlink_to("loop")
    os.link(outside / "secret", root / "hard")
    os.mkfifo(root / "pipe")
    return root


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def refusal(files: WorkspaceFiles, path: str, *, write: bool) -> str:
    with pytest.raises(FileAccessDenied) as caught:  # noqa: PT012 - one call, whichever
        if write:
            files.write(path, b"evil", replacing=None)
        else:
            files.read(path, limit_bytes=LIMIT)
    return caught.value.message


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("loop", "runs through too many links"),
        ("inner", "is a folder"),
        (".", "is a folder"),
        ("inner/..", "is a folder"),
        ("to_folder", "is a folder"),
        ("pipe", "is not a regular file"),
        ("plain.txt/x", "cannot be used: Not a directory"),
        ("a\0b", "holds a character that no file name can hold"),
        ("a\ud800b", "holds a character that no file name can hold"),
        ("x" * 300, "cannot be used: File name too long"),
    ],
)
@pytest.mark.parametrize("write", [False, True])
def test_what_is_no_file_is_refused(root: Path, path: str, why: str, write: bool) -> None:
    """B13, R-44: a pipe does not hang, a loop ends, odd names are told."""
    assert refusal(WorkspaceFiles(str(root)), path, write=write).partition('" ')[2] == why


def test_messages_show_control_characters_as_escapes(root: Path) -> None:
    assert refusal(WorkspaceFiles(str(root)), "a\x1b[2J", write=False) == '"a\\x1b[2J" does not exist'


@pytest.mark.parametrize("mode", [0o755, 0o600, 0o4711, 0o644])
def test_write_keeps_mode_and_owner(root: Path, mode: int) -> None:
    """B54: an edit does not change who may do what."""
    target = root / "plain.txt"
    if may_become_others():
        os.chown(target, 1234, 1235)
    target.chmod(mode)
    before = target.stat()
    WorkspaceFiles(str(root)).write("plain.txt", b"x", replacing=b"plain")
    after = target.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


def test_write_gives_new_files_the_mode_of_the_umask(root: Path) -> None:
    previous = os.umask(0o027)
    try:
        WorkspaceFiles(str(root)).write("made/new", b"", replacing=None)
    finally:
        os.umask(previous)
    assert [stat.S_IMODE((root / name).stat().st_mode) for name in ("made", "made/new")] == [0o750, 0o640]


@pytest.mark.skipif(not may_become_others(), reason="needs root to become somebody else")
def test_write_refuses_read_only_files_and_folders() -> None:
    """B54: what an ordinary write may not touch is not replaced by rename either."""
    with tempfile.TemporaryDirectory() as name, as_nobody(Path(name)) as root:
        (root / "locked").write_bytes(b"old")
        (root / "locked").chmod(0o444)
        (root / "folder").mkdir()
        (root / "folder").chmod(0o555)
        files = WorkspaceFiles(os.path.realpath(root))
        assert refusal(files, "locked", write=True) == '"locked" cannot be used: Permission denied'
        assert refusal(files, "folder/x", write=True) == '"folder/x" cannot be used: Permission denied'
        assert tree(root) == {"locked": b"old"}
        (root / "folder").chmod(0o755)


@contextmanager
def as_nobody(root: Path) -> Iterator[Path]:
    os.chown(root, 65534, 65534)
    os.seteuid(65534)
    try:
        yield root
    finally:
        os.seteuid(0)


def test_a_folder_swapped_for_a_link_does_not_lead_outside(root: Path) -> None:
    """R-44: the race is lost by the attacker: every folder is opened without following links."""
    files = WorkspaceFiles(str(root))
    (root / "race").mkdir()
    (root / "race" / "secret").write_bytes(b"inside")
    child = os.fork()
    if child == 0:
        try:
            while True:
                os.rename(root / "race", root / "aside")
                os.symlink("../outside", root / "race")
                os.unlink(root / "race")
                os.rename(root / "aside", root / "race")
        finally:
            os._exit(1)
    seen = set()
    try:
        for _ in range(2000):
            try:
                seen.add(files.read("race/secret", limit_bytes=LIMIT))
                files.write("race/secret", b"inside", replacing=b"inside")
            except FileAccessDenied as error:
                seen.add(error.message.partition('" ')[2].encode())
    finally:
        os.kill(child, 9)
        ending = os.waitpid(child, 0)[1]
    assert ending == 9, "the attacker stopped too early"
    assert seen <= {b"inside", b"leaves the workspace", b"does not exist", b"cannot be used: Not a directory"}
    assert b"inside" in seen
    assert tree(root.parent / "outside") == {"secret": b"secret"}


def test_guard_is_asked_about_the_path_and_about_where_links_lead(root: Path) -> None:
    """D-6, B55: before anything is written, and once where no link is on the way."""
    files = WorkspaceFiles(str(root))
    asked: list[str] = []
    for path in ("inner/./deep.txt", f"{root}/new/x", "to_folder/up", "dangling", "absolute_inside/n"):
        files.write(path, b"x", replacing=None, guard=asked.append)
    assert asked == [
        *("inner/deep.txt", "new/x"),
        *("to_folder/up", "plain.txt"),
        *("dangling", "inner/new.txt"),
        *("absolute_inside/n", "inner/n"),
    ]


@pytest.mark.parametrize("path", ["f/g/h", "to_folder/deep.txt", "plain.txt"])
@pytest.mark.parametrize("refused", ["first", "last"])
def test_guard_that_refuses_keeps_everything_as_it_was(root: Path, path: str, refused: str) -> None:
    """D-6."""
    before = tree(root)
    places: list[str] = []

    def guard(place: str) -> None:
        places.append(place)
        if refused == "first" or place in ("inner/deep.txt", "f/g/h", "plain.txt"):
            raise FileAccessDenied("no")

    with pytest.raises(FileAccessDenied, match="no"):
        WorkspaceFiles(str(root)).write(path, b"x", replacing=None, guard=guard)
    assert (tree(root), len(places)) == (before, 2 if refused == "last" and "to_" in path else 1)


@pytest.mark.parametrize(
    "path", ["sub/secret", "notes.md", "to_folder/deep.txt", "to_file", "loop", "absolute_inside/x"]
)
def test_no_descriptor_is_given_where_a_link_is_on_the_way(root: Path, path: str) -> None:
    """R-43, R-44: what was no link when it was looked at may be one when it is opened."""
    with pytest.raises(OSError, match=r"Too many levels|Not a directory"):
        open_below(str(root), path, os.O_RDONLY)


def test_descriptor_of_a_file_inside_is_given(root: Path) -> None:
    """R-43."""
    descriptor = open_below(str(root), "inner/deep.txt", os.O_RDONLY)
    with open(descriptor, "rb") as file:
        assert (file.read(), os.get_inheritable(file.fileno())) == (b"deep", False)
