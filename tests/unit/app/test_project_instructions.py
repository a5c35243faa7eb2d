"""AGENTS.md, whatever stands in its place."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from fakes.notices import Notes
from support.privileges import may_become_others

from odek.app.attachments import read_ctx_files
from odek.app.instructions import read_instructions
from odek.app.tools import real_path
from odek.errors import UsageError
from odek.host import Host, home_of_owner


def host_in(folder: Path, *, home: str = "") -> Host:
    terminals = dict.fromkeys(("stdin_is_terminal", "stdout_is_terminal", "stderr_is_terminal"), False)
    return Host(env={}, cwd=str(folder), home=home, uid=os.geteuid(), gid=os.getegid(), pid=1, **terminals)


LINKS = ("/proc/1/root/x", "/dev/zero", "/dev/tty", "loop", "x" * 300, "nowhere", "fifo", "/")


@pytest.mark.parametrize("target", LINKS)
def test_a_link_is_a_warning_and_never_an_error(target: str) -> None:
    """E2: AGENTS.md that leads to /proc/1/root ended the run with an internal error; so did its use by name."""
    user = os.geteuid()
    os.seteuid(65534 if may_become_others() else user)  # root may look anywhere
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name).resolve()
            os.mkfifo(folder / "fifo")
            (folder / "loop").symlink_to("loop")
            (folder / "AGENTS.md").symlink_to(target)
            notes = Notes()
            assert read_instructions(host_in(folder), notes) == ()
            assert [text.partition(":")[0] for text in notes.warnings] == ["AGENTS.md is not read"]
            assert real_path(str(folder), "AGENTS.md") in ("AGENTS.md", "fifo", "nowhere", "loop", "x" * 300)
            with pytest.raises(UsageError):
                read_ctx_files(("AGENTS.md",), cwd=str(folder), home="")
            assert isinstance(home_of_owner(str(folder / "AGENTS.md")), str)
    finally:
        os.seteuid(user)


@pytest.mark.parametrize("kind", ["fifo", "folder", "too large"])
def test_what_is_not_a_small_file_is_left_out(kind: str, tmp_path: Path) -> None:
    """E2: no FIFO is waited for, no large file is taken into memory."""
    path = tmp_path / "AGENTS.md"
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.touch()
        os.truncate(path, 3 << 30)
    notes = Notes()
    assert read_instructions(host_in(tmp_path), notes) == ()
    assert len(notes.warnings) == 1


@pytest.fixture
def deep(tmp_path: Path) -> Path:
    """A folder two below the root of a repository, each with an AGENTS.md that says its name."""
    folder = tmp_path / "root" / "a" / "b"
    folder.mkdir(parents=True)
    (tmp_path / "root" / ".git").mkdir()
    for each in (tmp_path, *(tmp_path / name for name in ("root", "root/a", "root/a/b"))):
        (each / "AGENTS.md").write_text(each.name)
    return folder


def read(folder: Path, **given: str) -> list[tuple[str, str]]:
    return list(read_instructions(host_in(folder, **given), Notes()))


def test_a_subfolder_has_the_instructions_of_its_repository(deep: Path) -> None:
    """R-398: from the root down to the working directory, and none from above the root."""
    notes = Notes()
    assert read_instructions(host_in(deep), notes) == (
        ("../../AGENTS.md", "root"), ("../AGENTS.md", "a"), ("AGENTS.md", "b")
    )  # fmt: skip
    assert (notes.notes, notes.warnings) == (["instructions of the repository: ../../AGENTS.md, ../AGENTS.md"], [])
    (deep / "AGENTS.md").unlink()
    assert read(deep) == [("../../AGENTS.md", "root"), ("../AGENTS.md", "a")]
    assert read(deep.parent.parent) == [("AGENTS.md", "root")]


@pytest.mark.parametrize(
    ("what", "paths"),
    [
        ("a repository of its own", ["AGENTS.md"]),
        ("a submodule above", ["../AGENTS.md", "AGENTS.md"]),
        ("no repository", ["AGENTS.md"]),
        ("the root is the home", ["AGENTS.md"]),
        ("the home is on the way", ["AGENTS.md"]),
        ("all can write the root", ["AGENTS.md"]),
        ("all can write a folder on the way", ["AGENTS.md"]),
        ("a link", ["../../AGENTS.md", "AGENTS.md"]),
        ("a FIFO", ["../../AGENTS.md", "AGENTS.md"]),
        ("too large with the nearer ones", ["../../AGENTS.md", "AGENTS.md"]),
    ],
)
def test_what_is_not_read_above_the_working_directory(what: str, paths: list[str], deep: Path) -> None:
    """R-398: nothing that another could have put there, no link, not the home's, 256 KiB in all."""
    root, home, notes = deep.parent.parent, "", Notes()
    middle = root / "a" / "AGENTS.md"
    match what:
        case "a repository of its own":
            (deep / ".git").write_text("gitdir: ../x")
        case "a submodule above":
            (root / "a" / ".git").write_text("gitdir: ../.git/modules/a")
        case "no repository":
            (root / ".git").rmdir()
        case "the root is the home":
            home = str(root)
        case "the home is on the way":
            (root.parent / "linked").symlink_to(root / "a")
            home = str(root.parent / "linked")
        case "all can write the root":
            root.chmod(0o777)
        case "all can write a folder on the way":
            (root / "a").chmod(0o1777)
        case "a link":
            middle.unlink()
            middle.symlink_to("../../AGENTS.md")
        case "a FIFO":
            middle.unlink()
            os.mkfifo(middle)
        case _:
            middle.write_text("x" * (256 << 10))
    assert [path for path, _ in read_instructions(host_in(deep, home=home), notes)] == paths
    assert [text.partition(" ")[0] for text in notes.warnings] == (["../AGENTS.md"] if paths[0][:5] == "../.." else [])


@pytest.mark.skipif(not may_become_others(), reason="makes folders of another user")
@pytest.mark.parametrize("name", ["root", "root/a", "root/.git"])
def test_nothing_is_read_where_a_folder_is_another_users(name: str, deep: Path) -> None:
    """R-398: a repository that another user has put around the working directory says nothing."""
    os.chown(deep.parent.parent.parent / name, 65534, 65534)
    assert read(deep) == [("AGENTS.md", "b")]
