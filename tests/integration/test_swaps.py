"""What is exchanged between the check of a folder and its mount (R-33, R-37)."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.docker_engine import Engine
from support.sandboxes import Boxes, output

from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.spec import Mount
from odek.sandbox.workdir import resolve_volume


@pytest.fixture
def secrets_beside(tmp_path: Path) -> Path:
    folder = tmp_path / "beside"
    folder.mkdir()
    (folder / "key").write_text("canary")
    return folder


def nothing_left(boxes: Boxes, docker_engine: Engine) -> bool:
    label = f"volume={boxes.workdir}"
    return docker_engine.run("ps", "--all", "--quiet", "--filter", label).stdout == ""


@pytest.mark.parametrize("swapped", ["cache", "cache/deep", "cache/file"])
def test_volume_that_became_a_link_is_never_used(
    swapped: str, boxes: Boxes, secrets_beside: Path, docker_engine: Engine
) -> None:
    """R-33, S-6: Docker resolves the name anew, as root, and mounts what the link leads to."""
    (boxes.workdir / "cache" / "deep").mkdir(parents=True)
    (boxes.workdir / "cache" / "file").write_text("")
    (secrets_beside / "deep").mkdir()
    source = {"cache": "cache/deep", "cache/deep": "cache/deep", "cache/file": "cache/file"}[swapped]
    volume, _ = resolve_volume(f"./{source}:/data", workdir=str(boxes.workdir), origin="test")
    (boxes.workdir / swapped).rename(boxes.workdir / "old")
    target = secrets_beside / "key" if swapped == "cache/file" else secrets_beside
    (boxes.workdir / swapped).symlink_to(target)
    with pytest.raises(SandboxConfigError, match='"/data" in the sandbox is not'):
        boxes.start(volumes=(volume,))
    assert nothing_left(boxes, docker_engine)


def test_volumes_that_are_what_was_checked_are_used(boxes: Boxes) -> None:
    """R-33: a folder, a file, the workspace itself, and names that want quoting."""
    (boxes.workdir / "a 'b" / "c").mkdir(parents=True)
    (boxes.workdir / "file").write_text("content")
    volumes = tuple(
        Mount(source=str(boxes.workdir / source), target=target, readonly=readonly)
        for source, target, readonly in (("a 'b/c", "/x y", True), ("file", "/file", False), ("", "/all", False))
    )
    box = boxes.start(volumes=volumes, readonly=True)
    assert output(box, "cat /file; ls -d '/x y' /all/file") == "content/all/file\n/x y\n"


@pytest.mark.parametrize("put", ["link", "folder", "nothing"])
def test_working_directory_that_was_exchanged_is_never_shared(
    put: str, boxes: Boxes, secrets_beside: Path, docker_engine: Engine
) -> None:
    """R-37, S-6: a sandbox that has the folder above may rename this one."""
    status = boxes.workdir.stat()
    boxes.workdir.rename(boxes.workdir.with_name("old"))
    if put == "link":
        boxes.workdir.symlink_to(secrets_beside)
    elif put == "folder":
        secrets_beside.rename(boxes.workdir)
    with pytest.raises(SandboxConfigError, match=r"another folder than the one|cannot be read|did not start"):
        boxes.start(workdir_id=(status.st_dev, status.st_ino))
    assert nothing_left(boxes, docker_engine)


def test_home_of_the_operator_is_in_no_inspect(boxes: Boxes) -> None:
    """R-32, S-9."""
    box = boxes.start(home="/dev/shm/canary", env=(("HOME", "/dev/shm/canary"),))
    assert "canary" not in str(boxes.inspect(box))


def test_home_of_the_operator_arrives_byte_for_byte(boxes: Boxes) -> None:
    """R-31, R-32."""
    (boxes.workdir / "h 'o\nme\n").mkdir()
    home = "/workspace/h 'o\nme\n"
    box = boxes.start(home=home, env=(("HOME", home),))
    assert (box.facts.home, output(box, 'touch "$HOME/x"; printf %s "$HOME"')) == (home, home)
