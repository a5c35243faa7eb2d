"""Reading and writing files through the container: links, races, modes, owners."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from pathlib import Path

import pytest
from support.sandboxes import Boxes, output

from odek.errors import FileAccessDenied
from odek.sandbox.container.container import Container

ODD_NAMES = [
    "-rf",
    "a b",
    "a\nb",
    "*",
    "ü日本",
    "$x`y`",
    "a'b\"c",
    "...",
    " ",
    "back\\slash",
    "[x]",
    "\n",
    "a\n",
    "#x",
    "~",
]


@pytest.fixture
def box(shared_box: Container) -> Container:
    return shared_box


@pytest.fixture
def work(shared_boxes: Boxes) -> Path:
    """The folder of the shared sandbox, emptied."""
    for path in shared_boxes.workdir.iterdir():
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    return shared_boxes.workdir


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_text("hostsecret")
    return folder


def read(box: Container, path: str, limit_bytes: int = 1 << 20) -> bytes:
    return box.read(path, limit_bytes=limit_bytes)


def write(box: Container, path: str, data: bytes = b"new", replacing: bytes | None = None) -> None:
    box.write(path, data, replacing=replacing)


@pytest.mark.parametrize(
    "data", [b"", b"text\n", b"no end", bytes(range(256)) * 3, b"\0", b"\n\n\n", b"x" * 300_000], ids=len
)
def test_bytes_survive_both_ways(data: bytes, box: Container) -> None:
    """R-44."""
    write(box, "f", data)
    assert read(box, "f") == data


@pytest.mark.parametrize("name", ODD_NAMES)
def test_file_of_any_name(name: str, box: Container, work: Path) -> None:
    """R-44, B12."""
    write(box, f"d/{name}", b"one")
    write(box, f"d/{name}", b"two", b"one")
    assert read(box, f"/workspace/d/{name}") == b"two"
    assert [(path.name, path.read_bytes()) for path in (work / "d").iterdir()] == [(name, b"two")]


def test_limit_counts_bytes(box: Container, work: Path) -> None:
    """R-44."""
    (work / "f").write_bytes(b"12345")
    assert read(box, "f", 5) == b"12345"
    with pytest.raises(FileAccessDenied, match="it is larger than 4 bytes"):
        read(box, "f", 4)
    with (work / "huge").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(FileAccessDenied, match="it is larger than 1000 bytes"):
        read(box, "huge", 1000)


def test_what_is_no_readable_file_is_refused(box: Container, work: Path) -> None:
    """R-44: without waiting for anything."""
    (work / "d").mkdir()
    os.mkfifo(work / "fifo")
    (work / "f").touch()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(work / "socket"))
        for path, reason in {
            "none": "there is no such file",
            "none/f": "there is no such file",
            "f/x": "there is no such file",
            "d": "it is not a regular file",
            "fifo": "it is not a regular file",
            "socket": "it is not a regular file",
        }.items():
            with pytest.raises(FileAccessDenied, match=reason):
                read(box, path)
        for path, reason in {
            "d": "it is not a regular file",
            "fifo": "it is not a regular file",
            "f/x": "a folder on the way cannot be made",
            "x" * 256: "it cannot be written",
        }.items():
            with pytest.raises(FileAccessDenied, match=reason):
                write(box, path)
    assert sorted(path.name for path in work.iterdir()) == ["d", "f", "fifo", "socket"]


def test_link_that_stays_inside_is_followed(box: Container, work: Path) -> None:
    """R-44, B13: relative and absolute, of files and of folders; the link stays a link."""
    (work / "d" / "e").mkdir(parents=True)
    (work / "d" / "f").write_text("f")
    links = {
        "one": "d/f",
        "two": "/workspace/d/f",
        "d/up": "../d/f",
        "folder": "d",
        "d/e/back": "../../one",
        "new": "d/n",
    }
    for name, target in links.items():
        (work / name).symlink_to(target)
    for name in ("one", "two", "d/up", "folder/f", "d/e/back", "folder/up"):
        assert (name, read(box, name)) == (name, b"f")
    write(box, "d/e/back", b"F", b"f")
    write(box, "new", b"N")
    write(box, "folder/deep/x", b"X")
    assert [(work / name).read_text() for name in ("d/f", "d/n", "d/deep/x")] == ["F", "N", "X"]
    assert {name: os.readlink(work / name) for name in links} == links


OUTWARD = ["file", "folder/secret", "folder/new", "dangling", "etc", "chain", "d/up/passwd", "d/escape"]


@pytest.mark.parametrize("path", OUTWARD)
def test_link_that_leads_out_is_refused(path: str, box: Container, work: Path, outside: Path) -> None:
    """R-44, B13: in any component, dangling or not, by `..` or by an absolute path, read or written."""
    (work / "d").mkdir()
    for name, target in {
        "file": outside / "secret",
        "folder": outside,
        "dangling": outside / "new",
        "etc": "/etc/passwd",
        "chain": "file",
        "d/up": "../../etc",
        "d/escape": "/workspace/../etc/passwd",
    }.items():
        (work / name).symlink_to(target)
    with pytest.raises(FileAccessDenied, match=r"it leaves the workspace|there is no such file"):
        read(box, path)
    with pytest.raises(FileAccessDenied, match=r"it leaves the workspace|a folder on the way cannot be made"):
        write(box, path)
    assert {entry.name: entry.read_text() for entry in outside.iterdir()} == {"secret": "hostsecret"}


def test_links_in_a_circle_are_refused(box: Container, work: Path) -> None:
    """B13."""
    (work / "loop").symlink_to("loop")
    (work / "a").symlink_to("b")
    (work / "b").symlink_to("a")
    for path in ("loop", "a"):
        with pytest.raises(FileAccessDenied, match="its links go round in circles"):
            read(box, path)
        with pytest.raises(FileAccessDenied, match="its links go round in circles"):
            write(box, path)


def test_second_name_of_an_outside_file_is_replaced_and_not_written(box: Container, work: Path, outside: Path) -> None:
    """B13: a hard link."""
    os.link(outside / "secret", work / "hard")
    write(box, "hard", b"new")
    assert ((work / "hard").read_text(), (outside / "secret").read_text()) == ("new", "hostsecret")


def test_link_that_changes_during_the_access_leads_nowhere_else(boxes: Boxes) -> None:
    """R-44: what is checked is what is used."""
    box = boxes.start()
    (boxes.workdir / "d").mkdir()
    (boxes.workdir / "d" / "f").write_bytes(b"inside")
    output(box, "mkdir /tmp/out; echo outside >/tmp/out/f")
    swap = "while :; do ln -sfn /tmp/out link; ln -sfn /workspace/d link; done"
    output(box, f"setsid sh -c '{swap}' >/dev/null 2>&1 &")
    found: set[bytes] = set()
    for _ in range(12):
        try:
            found.add(read(box, "link/f"))
            write(box, "link/f", b"inside")
        except FileAccessDenied:
            found.add(b"refused")
    assert found <= {b"inside", b"refused"}
    assert output(box, "cat /tmp/out/f; ls -A /tmp/out") == "outside\nf\n"


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o640, 0o666])
def test_mode_of_an_existing_file_is_kept(mode: int, box: Container, work: Path) -> None:
    """R-44."""
    (work / "f").write_text("old")
    (work / "f").chmod(mode)
    write(box, "f", b"new", b"old")
    status = (work / "f").stat()
    assert ((work / "f").read_text(), status.st_mode & 0o7777, status.st_uid) == ("new", mode, os.getuid())


def test_file_is_replaced_whole_and_nothing_else_is_left(box: Container, work: Path) -> None:
    """R-44: a reader sees the old bytes or the new ones; no temporary file stays."""
    (work / "f").write_bytes(b"a" * 200_000)
    seen: set[bytes] = set()
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            seen.add((work / "f").read_bytes())

    reader = threading.Thread(target=look)
    reader.start()
    write(box, "f", b"b" * 200_000)
    over.set()
    reader.join()
    assert seen <= {b"a" * 200_000, b"b" * 200_000}
    assert [path.name for path in work.iterdir()] == ["f"]


@pytest.mark.parametrize(
    ("there", "replacing"), [(b"other", b"old"), (b"old\n", b"old"), (b"", b"old"), (None, b"old"), (None, b"")]
)
def test_file_that_is_not_what_was_read_is_left_alone(
    there: bytes | None, replacing: bytes, box: Container, work: Path
) -> None:
    """R-44."""
    if there is not None:
        (work / "f").write_bytes(there)
    with pytest.raises(FileAccessDenied, match="it has changed since it was read"):
        write(box, "f", b"new", replacing)
    assert [path.read_bytes() for path in work.iterdir()] == ([] if there is None else [there])


def test_file_that_may_not_be_written_is_left_alone(boxes: Boxes) -> None:
    """R-44: also by root, who has no capabilities in there."""
    (boxes.workdir / "f").write_text("old")
    (boxes.workdir / "f").chmod(0o444)
    boxes.workdir.chmod(0o777)
    box = boxes.start(user="12345:54321")
    with pytest.raises(FileAccessDenied, match="it cannot be written"):
        write(box, "f")
    (boxes.workdir / "d").mkdir(mode=0o755)
    with pytest.raises(FileAccessDenied, match="it cannot be written"):
        write(box, "d/g")
    with pytest.raises(FileAccessDenied, match="a folder on the way cannot be made"):
        write(box, "d/e/g")
    assert (boxes.workdir / "f").read_text() == "old"
    assert list((boxes.workdir / "d").iterdir()) == []


def test_file_that_may_not_be_read_is_refused(boxes: Boxes) -> None:
    """R-44."""
    (boxes.workdir / "f").write_text("private")
    (boxes.workdir / "f").chmod(0o600)
    boxes.workdir.chmod(0o755)
    with pytest.raises(FileAccessDenied, match="Permission denied"):
        read(boxes.start(user="12345:54321"), "f")


def test_file_of_another_owner_keeps_its_owner(boxes: Boxes) -> None:
    """R-43, R-44: written in place, since a rename would make it the sandbox user's."""
    (boxes.workdir / "f").write_text("old")
    (boxes.workdir / "f").chmod(0o666)
    boxes.workdir.chmod(0o777)
    write(boxes.start(user="12345:54321"), "f", b"new", b"old")
    status = (boxes.workdir / "f").stat()
    assert ((boxes.workdir / "f").read_text(), status.st_uid, status.st_mode & 0o777) == ("new", os.getuid(), 0o666)


def test_read_only_workspace_is_named(boxes: Boxes) -> None:
    """R-43, R-44."""
    (boxes.workdir / "f").write_text("old")
    box = boxes.start(readonly=True)
    assert read(box, "f") == b"old"
    for path in ("f", "g"):
        with pytest.raises(FileAccessDenied, match="the workspace is mounted read-only"):
            write(box, path)
    assert [(path.name, path.read_text()) for path in boxes.workdir.iterdir()] == [("f", "old")]


def test_file_tools_see_what_commands_see(box: Container, work: Path) -> None:
    """R-44."""
    output(box, "mkdir -p a/b; echo made >a/b/c")
    assert read(box, "a/b/c") == b"made\n"
    write(box, "a/b/c", b"changed\n", b"made\n")
    assert output(box, "cat a/b/c") == "changed\n"
    assert (work / "a" / "b" / "c").stat().st_uid == os.getuid()
