"""Reading and writing files through the container: links, races, modes, owners."""

from __future__ import annotations

import os

import pytest
from support.sandboxes import Boxes, output

from odek.errors import FileAccessDenied
from odek.sandbox.container.container import Container


def read(box: Container, path: str, limit_bytes: int = 1 << 20) -> bytes:
    return box.read(path, limit_bytes=limit_bytes)


def write(box: Container, path: str, data: bytes = b"new", replacing: bytes | None = None) -> None:
    box.write(path, data, replacing=replacing)


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
