"""Mounts are what was approved: attacks on the moment in which Docker mounts (F1, F4, A6, A16, E8)."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.sandboxes import Boxes, OddImages, output
from support.weakened_sandbox import THROUGH, CarelessDocker, Proof

from odek.sandbox.docker import DockerCli, DockerProcess
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.spec import Mount

TARGET = "/mnt/cache"
# What a hostile image has for a shell: it says of everything that it is as it should be.
LYING_SHELL = """\
#!/bin/busybox sh
case "$2" in *"exit 42"*)
  cat >/dev/null
  printf 'nonce=seen\\nhome=writable\\nworkspace=writable\\nvolume1=same\\nuid=%s\\ngid=%s\\n' "$(id -u)" "$(id -g)"
  exit 42 ;;
esac
exec /bin/busybox sh "$@"
"""


class Swapping(DockerCli):
    """The real client; at the first call of a kind something happens just before it."""

    def __init__(self, docker: DockerCli, before: dict[str, Callable[[], None]]) -> None:
        super().__init__(docker._executable, docker._env)
        self._before = dict(before)

    def start(self, *args: str, **options: Any) -> DockerProcess:
        self._before.pop(args[0], lambda: None)()
        return super().start(*args, **options)


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    folder = tmp_path / "secret"
    folder.mkdir()
    (folder / "key").write_text(THROUGH)
    return folder


@pytest.fixture
def lying_image(odd_images: OddImages) -> str:
    return odd_images.make(scripts={"bin/sh": LYING_SHELL})


def put_link(folder: Path, target: str) -> None:
    if folder.is_dir() and not folder.is_symlink():
        folder.rename(folder.with_name("aside"))
    else:
        folder.unlink()
    folder.symlink_to(target)


def put_back(folder: Path) -> None:
    folder.unlink()
    folder.with_name("aside").rename(folder)


@pytest.mark.parametrize("meanwhile", ["the folder again", "a link to the target", "still the link"])
@pytest.mark.parametrize("seen_from_outside", [True, False])
def test_volume_that_was_exchanged_while_docker_mounted_is_never_used(
    meanwhile: str, seen_from_outside: bool, boxes: Boxes, proof: Proof, secret: Path, lying_image: str
) -> None:
    """F1: another sandbox swaps the folder for a link while Docker mounts, and something else while it is checked.

    Where the container's processes show on this machine the image may lie as it likes.
    """
    folder = boxes.workdir / "v"
    folder.mkdir()
    volumes = (Mount(source=str(folder), target=TARGET),)
    attack = {
        "run": lambda: put_link(folder, str(secret)),
        "inspect": {
            "the folder again": lambda: put_back(folder),
            "a link to the target": lambda: put_link(folder, TARGET),
            "still the link": lambda: None,
        }[meanwhile],
    }
    docker = Swapping(boxes.docker, attack)
    unseen = {} if seen_from_outside else {"mounts_of": lambda _: ()}
    with pytest.raises(SandboxConfigError, match=r"shows other folders|in the sandbox is not"):
        boxes.start(docker=docker, volumes=volumes, image=lying_image if seen_from_outside else boxes.image, **unseen)
    assert boxes.existing(os.getpid()) == []
    put_link(folder, str(secret))
    weak = proof.weakened(volumes=volumes)  # no proof: what Docker mounted is what the command gets
    assert THROUGH in weak.output(f"cat {TARGET}/key")


def test_volume_that_is_swapped_all_the_time_is_never_another_folder(boxes: Boxes, secret: Path) -> None:
    """F1: a real race, without a word from the test when; the sandbox has the folder or does not start."""
    folder = boxes.workdir / "v"
    folder.mkdir()
    (folder / "mine").touch()
    volumes = (Mount(source=str(folder), target=TARGET),)
    with swapped_all_the_time(folder, str(secret)):
        for _ in range(6):
            try:
                box = boxes.start(volumes=volumes)
            except SandboxConfigError:
                continue
            assert output(box, f"ls {TARGET}") == "mine\n"


@contextmanager
def swapped_all_the_time(folder: Path, target: str) -> Iterator[None]:
    ended = threading.Event()

    def swap() -> None:
        while not ended.wait(0.004):
            put_link(folder, target)
            ended.wait(0.004)
            put_back(folder)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def mounted(target: Path, *how: str) -> Iterator[None]:
    """Mount something on this machine; only root can."""
    target.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["mount", *how, str(target)], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"nothing can be mounted here: {done.stderr}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(target)], check=True)


def test_what_is_mounted_below_the_folder_is_not_in_the_sandbox(boxes: Boxes, proof: Proof) -> None:
    """F4, A6: neither /proc of a chroot nor a disk of its own, for a read-only sandbox as for another."""
    proc, data = boxes.workdir / "rootfs" / "proc", boxes.workdir / "data"
    with mounted(proc, "-t", "proc", "proc"), mounted(data, "-t", "tmpfs", "tmpfs"):
        data.chmod(0o777)
        (data / "key").write_text(THROUGH)
        covered = ("/workspace/data", "/workspace/rootfs/proc")
        attack = "cat /workspace/data/key; touch /workspace/data/made; ls -d /workspace/rootfs/proc/1"
        for readonly in (False, True):
            box = boxes.start(covered=covered, readonly=readonly)
            assert THROUGH not in box.run(attack, timeout_s=30).output.text
            assert sorted(os.listdir(data)) == ["key"]
            assert output(box, "ls /workspace/data /workspace/rootfs/proc").split() == [
                "/workspace/data:", "/workspace/rootfs/proc:",
            ]  # fmt: skip
        weak = proof.weakened("non-recursive", readonly=True)
        assert THROUGH in weak.output(attack)
        if boxes.engine.release < (25, 0):  # `readonly` did not cover what is mounted below (M-10)
            assert sorted(os.listdir(data)) == ["key", "made"]
        with pytest.raises(SandboxConfigError) as refused:
            boxes.start(docker=recursive(boxes.docker))
        # podman does not show what was asked for, the mounts themselves do
        said = refused.value.message if boxes.kind.podman else refused.value.detail
        assert ("is another mount" if boxes.kind.podman else "what is mounted below a shared folder is shared") in said


def recursive(docker: DockerCli) -> DockerCli:
    careless = CarelessDocker(docker._executable, docker._env)
    careless.without = ("non-recursive",)
    return careless
