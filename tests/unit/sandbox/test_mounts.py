"""What is mounted where, as the kernel tells it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from odek.sandbox.mounts import (
    Expected,
    MountPoint,
    Place,
    are_of_container,
    displaced,
    kernel_mounts_below,
    kind_at,
    mounts_below,
    parse_mounts,
    place_of,
    read_mounts,
    shares_memory,
)

ID = "c" * 64


def mount(target: str, root: str = "/", *, device: str = "8:1", kind: str = "ext4", ro: bool = False) -> MountPoint:
    options = frozenset({"ro" if ro else "rw", "relatime"})
    return MountPoint(number=1, device=device, root=root, target=target, options=options, kind=kind)


def test_mounts_are_read_with_their_odd_names() -> None:
    """F1: blanks, line ends and bytes that are no UTF-8; optional fields or none; other lines are left out."""
    found = parse_mounts(
        b"36 35 98:0 /m\\040a\\012b /p\\134q rw,noatime master:1 shared:2 - ext4 /dev/x rw\n"
        b"37 36 0:5 / /\xff ro - proc proc rw\n"
        b"broken\n1 2 3 4 5 6 7 8 9 10 11\n"
    )
    assert found == (
        MountPoint(
            number=36, device="98:0", root="/m a\nb", target="/p\\q", options=frozenset({"rw", "noatime"}), kind="ext4"
        ),
        MountPoint(number=37, device="0:5", root="/", target="/\udcff", options=frozenset({"ro"}), kind="proc"),
    )


def test_place_is_that_of_the_file_and_not_of_its_name(tmp_path: Path) -> None:
    """F1: what is held open keeps its place when something else is put under its name."""
    here = read_mounts("self")
    (tmp_path / "a b").mkdir()
    (tmp_path / "file").touch()
    held = os.open(tmp_path / "a b", os.O_PATH)
    file = os.open(tmp_path / "file", os.O_PATH)
    above = os.open(tmp_path, os.O_PATH)
    try:
        place, folder = place_of(held, here), place_of(above, here)
        assert place is not None
        assert folder is not None
        assert place == Place(device=folder.device, root=f"{folder.root}/a b")
        assert place_of(file, here) == Place(device=folder.device, root=f"{folder.root}/file")
        (tmp_path / "a b").rename(tmp_path / "old")
        (tmp_path / "a b").mkdir()
        assert place_of(held, here) == Place(device=folder.device, root=f"{folder.root}/old")
        assert place_of(held, ()) is None
    finally:
        for descriptor in (held, file, above):
            os.close(descriptor)


def test_place_on_a_file_system_that_does_not_tell_it_is_not_known(tmp_path: Path) -> None:
    """F1: NFS calls whatever is mounted its root; two folders would look the same."""
    descriptor = os.open(tmp_path, os.O_PATH)
    try:
        number = int(Path(f"/proc/self/fdinfo/{descriptor}").read_text().partition("mnt_id:")[2].split()[0])
        for kind, known in (("nfs4", False), ("nfs", False), ("ext4", True)):
            here = MountPoint(number=number, device="0:9", root="/", target="/", options=frozenset(), kind=kind)
            assert (place_of(descriptor, (here,)) is not None) is known
    finally:
        os.close(descriptor)


def test_mounts_below_a_folder_are_the_outer_ones() -> None:
    """F4, A6."""
    here = tuple(mount(target) for target in ("/", "/w", "/w/data", "/w/data/x", "/w-2/y", "/w/a b", "/w/data2"))
    assert mounts_below("/w", here) == ("a b", "data", "data2")
    assert mounts_below("/", here[:2]) == ("w",)
    assert mounts_below("/w", here[:2]) == ()


def test_mounts_of_the_machine_itself_are_told_from_files() -> None:
    """F4, F11."""
    here = (mount("/w/proc", kind="proc"), mount("/w/data", kind="tmpfs"), mount("/w/a/sys", kind="sysfs"), mount("/p"))
    assert kernel_mounts_below("/w", here) == {"proc", "a/sys"}


def test_kind_is_that_of_the_innermost_mount() -> None:
    """F4: of those at one place the last one shows."""
    here = (mount("/"), mount("/w/proc"), mount("/w/proc", kind="proc"), mount("/w", kind="tmpfs"))
    assert [kind_at(path, here) for path in ("/x", "/w/proc/1", "/w/procs")] == ["ext4", "proc", "tmpfs"]
    assert kind_at("/x", ()) == ""


@pytest.mark.parametrize("target", ["/etc/hosts", "/etc/hostname", "/etc/resolv.conf"])
def test_mounts_are_known_by_the_id_of_the_container(target: str) -> None:
    """F1: the number of a process that Docker tells may be another one's on this machine."""
    assert are_of_container((mount(target, f"/docker/containers/{ID}/x"),), ID)
    assert are_of_container((mount(target, f"/overlay-containers/{ID}/userdata/x"),), ID)  # podman
    assert not are_of_container((mount(target, f"/docker/containers/{'d' * 64}/x"),), ID)
    assert not are_of_container((mount("/workspace", f"/docker/containers/{ID}/x"),), ID)
    assert not are_of_container((mount(target, "/docker/containers//x"),), "")
    assert not are_of_container((), ID)


@pytest.mark.parametrize(
    ("inside", "is_shared"),
    [
        ((mount("/dev/shm", device="0:9", kind="tmpfs"),), False),
        ((mount("/dev/shm", device="0:5", kind="tmpfs"),), True),
        ((mount("/dev/shm", "/x", device="0:5", kind="tmpfs"),), True),
        ((mount("/dev/shm", device="0:9", kind="tmpfs"), mount("/dev/shm", device="0:5", kind="tmpfs")), True),
        ((mount("/dev/shm", "/dev/shm"),), True),
        ((mount("/tmp", device="0:5", kind="tmpfs"),), False),
        ((), False),
    ],
)
def test_memory_of_the_machine_is_told_from_the_containers_own(inside: tuple[MountPoint, ...], is_shared: bool) -> None:
    """R-380: by its device, or since it is a folder of a disk."""
    here = (mount("/"), mount("/dev/shm", device="0:5", kind="tmpfs"))
    assert shares_memory(inside, here, "/dev/shm") is is_shared


HERE = Place(device="8:1", root="/w")
GOOD = (mount("/"), mount("/tmp", kind="tmpfs"), mount("/workspace", "/w"), mount("/data", "/w/v", ro=True),
        mount("/workspace/m", kind="tmpfs", ro=True), mount("/var/lib/x", "/volumes/1"))  # fmt: skip
EXPECTED = (
    Expected(source="/w", target="/workspace", readonly=False, place=HERE),
    Expected(source="/w/v", target="/data", readonly=True, place=Place(device="8:1", root="/w/v")),
)


def without(target: str) -> tuple[MountPoint, ...]:
    return tuple(each for each in GOOD if each.target != target)


@pytest.mark.parametrize(
    ("inside", "words"),
    [
        (GOOD, ""),
        ((*without("/workspace"), mount("/workspace", "/home/u")), "/workspace is not /w: it shows /home/u"),
        ((*without("/workspace"), mount("/workspace", "/w", device="8:2")), "of device 8:2"),
        ((*without("/workspace"), mount("/workspace", "/w//deleted")), "/workspace is not /w"),
        (without("/workspace"), "/workspace: 0 mounts"),
        ((*GOOD, mount("/workspace", "/w")), "/workspace: 2 mounts"),
        ((*without("/data"), mount("/data", "/w/v")), "/data is writable"),
        ((*without("/data"), mount("/real", "/w/v", ro=True)), "the image may have a link there"),
        ((*GOOD, mount("/workspace/node_modules", "/volumes/2")), "/workspace/node_modules is another mount"),
        ((*GOOD, mount("/data/sub", "/volumes/2")), "/data/sub is another mount"),
        ((*GOOD, mount("/tmp/sub", "/volumes/2")), "/tmp/sub is another mount"),
        ((*GOOD, mount("/workspace/m/proc", kind="proc")), "/workspace/m/proc is another mount"),
        (without("/workspace/m"), "/workspace/m is not covered"),
        ((*without("/workspace/m"), mount("/workspace/m", kind="proc", ro=True)), "/workspace/m is not covered"),
        ((*without("/workspace/m"), mount("/workspace/m", kind="tmpfs")), "/workspace/m is not covered"),
    ],
)
def test_mounts_that_differ_are_named(inside: tuple[MountPoint, ...], words: str) -> None:
    """F1, F4, A6, E8: by identity, each exactly once, and nothing below them that was not asked for."""
    found = displaced(inside, EXPECTED, covered=("/workspace/m",), tmpfs=("/tmp",))
    assert bool(found) is bool(words)
    assert words in "; ".join(found)
