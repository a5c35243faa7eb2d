"""What a sandbox does not get of the working directory, and what it gets along with it."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.notices import Notes

from odek.app.git_data import find_git_data
from odek.app.openings import below_workdir, require_leavable, show_openings, shown
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.mounts import MountPoint
from odek.sandbox.sockets import living_sockets, parse_bound


def mount(target: str, kind: str = "ext4") -> MountPoint:
    return MountPoint(number=1, device="0:1", root="/", target=target, options=frozenset(), kind=kind)


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[Path]:
    """A folder with a socket that a program listens on, one that nobody does, and one for datagrams."""
    folder = tmp_path / "w"
    (folder / "run").mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as living, socket.socket(socket.AF_UNIX) as dead:
        living.bind(str(folder / "run" / "l i.sock"))
        living.listen()
        dead.bind(str(folder / "dead.sock"))
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram:
            datagram.bind(str(folder / "log"))
            yield folder


def test_sockets_with_a_listener_are_found(listener: Path, tmp_path: Path) -> None:
    """F5, A8: by their real place; a socket that nobody listens on, and one that is gone, does not count."""
    assert living_sockets(str(listener)) == ("log", "run/l i.sock")
    assert living_sockets(str(tmp_path)) == ("w/log", "w/run/l i.sock")
    (tmp_path / "link").symlink_to(listener)
    assert living_sockets(str(tmp_path / "link")) == ()  # the caller's path has no links
    (listener / "log").unlink()
    assert living_sockets(str(listener)) == ("run/l i.sock",)
    assert living_sockets("/nosuch") == ()


def test_list_of_sockets_of_any_shape_is_read() -> None:
    """F5."""
    head = b"Num       RefCount Protocol Flags    Type St Inode Path\n"
    listening = b"0000000000000000: 00000002 00000000 00010000 0001 01 123 %s\n"
    assert parse_bound(head + listening % b"/a b" + listening % b"@abstract" + listening % b"run/x") == (
        "/a b",
        "run/x",
    )
    assert parse_bound(head + b"0: 2 0 zzz 0001 01 1 /x\n0: 2 0 00000000 0001 03 1 /y\n\nshort\n") == ()


def test_openings_are_told_in_a_line_each(listener: Path) -> None:
    """F4, F5, A19."""
    (listener / ".git").write_text("gitdir: /elsewhere/.git/worktrees/w\n")
    notices = Notes()
    show_openings(("data",), str(listener), find_git_data(str(listener), uid=os.getuid()), notices, shares_git=False)
    said = "\n".join((*notices.warnings, *notices.notes))
    assert "mounted below this folder, and not in the sandbox: data" in said
    assert "listen in this folder, and the sandbox can talk to them: log, run/l i.sock" in said
    assert "git does not work in the sandbox" in said


def test_nothing_is_told_of_an_ordinary_folder(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    notices = Notes()
    show_openings((), str(tmp_path), find_git_data(str(tmp_path), uid=os.getuid()), notices, shares_git=True)
    assert (notices.warnings, notices.notes) == ([], [])


def test_folder_of_the_kernel_and_too_many_mounts_are_refused() -> None:
    """F4: /proc of a chroot is the machine, wherever it is mounted."""
    with pytest.raises(SandboxConfigError, match=r"shows this machine \(proc\)"):
        below_workdir("/w/rootfs/proc", (mount("/"), mount("/w/rootfs/proc", "proc")))
    many = tuple(mount(f"/w/{number}") for number in range(65))
    with pytest.raises(SandboxConfigError, match="65 mounts lie below the working directory"):
        below_workdir("/w", (mount("/"), *many))
    assert len(below_workdir("/w", (mount("/"), *many[1:]))) == 64
    assert shown([f"m{number}" for number in range(10)]).endswith("m7 and 2 more")


def test_rootless_engine_that_cannot_leave_mounts_out_is_refused() -> None:
    """F4, D-13."""
    with pytest.raises(SandboxConfigError, match="without what is mounted below it: data"):
        require_leavable(("data",), rootless=True)
    require_leavable((), rootless=True)
    require_leavable(("data",), rootless=False)
