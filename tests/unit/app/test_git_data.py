"""Where git's data is, and that only a worktree's own, of this user, is shared (A19)."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes.notices import Notes
from support.privileges import may_become_others

from odek.app.git_data import GitData, find_git_data
from odek.app.openings import show_openings
from odek.sandbox.spec import Mount


def find(folder: Path) -> GitData:
    return find_git_data(str(folder), uid=os.getuid())


@pytest.fixture
def worktree(tmp_path: Path) -> Path:
    """A folder and a repository as `git worktree add ../work` leaves them, outside of what is a tmpfs in a sandbox."""
    own = tmp_path / "main" / ".git" / "worktrees" / "work"
    own.mkdir(parents=True)
    work = tmp_path / "work"
    work.mkdir()
    (work / ".git").write_text(f"gitdir: {own}\n")
    (own / "commondir").write_text("../..\n")
    (own / "gitdir").write_text(f"{work}/.git\n")
    return work


@pytest.fixture
def tmp_path() -> object:
    folder = Path(f"/var/tmp/odek-git-{os.getpid()}")
    folder.mkdir(mode=0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("link", "outside"),
    [
        ("gitdir: /elsewhere/.git/worktrees/w\n", True),
        ("gitdir: ../.git/modules/w\n", True),
        ("gitdir: data\n", False),
        ("gitdir: .bare/worktrees/x", False),
        ("", False),
        ("gitdir: \0\n", False),
        ("something else\n", False),
    ],
)
def test_worktree_and_submodule_have_their_data_elsewhere(link: str, outside: bool, tmp_path: Path) -> None:
    """A19."""
    (tmp_path / ".git").write_text(link)
    found = find(tmp_path)
    assert (found.is_outside, found.mount) == (outside, None)


def test_subfolder_of_a_repository_has_its_data_above(tmp_path: Path) -> None:
    """A19: and a link, a loop and a folder without a repository are judged too."""
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "sub").mkdir()
    assert find(tmp_path / "repo" / "sub").is_outside
    notices = Notes()
    for shares in (False, True):
        folder = str(tmp_path / "repo" / "sub")
        show_openings((), folder, find(tmp_path / "repo" / "sub"), notices, shares_git=shares)
    assert [note.endswith(f"; it begins in {tmp_path}/repo: start odek there") for note in notices.notes] == [True] * 2
    assert not find(tmp_path / "repo").is_outside
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / ".git").symlink_to(tmp_path / "repo" / ".git")
    assert find(tmp_path / "linked").is_outside
    (tmp_path / "loop").mkdir()
    (tmp_path / "loop" / ".git").symlink_to(".git")
    assert not find(tmp_path / "loop").is_outside


def test_data_of_a_linked_worktree_can_be_shared(worktree: Path) -> None:
    """A19: at its own path, which `.git` names, and read-only."""
    common = str(worktree.parent / "main" / ".git")
    assert find(worktree) == GitData(is_outside=True, mount=Mount(source=common, target=common, readonly=True))


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
@pytest.mark.parametrize("bare", [False, True])
def test_worktree_that_git_has_made_is_one(bare: bool, tmp_path: Path) -> None:
    """A19: also of a bare repository."""
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_CONFIG_GLOBAL": "/dev/null"}
    who = ("-c", "user.name=u", "-c", "user.email=u@example.com")
    for command in (
        ("init", "-q", "main"),
        ("-C", "main", *who, "commit", "-q", "--allow-empty", "-m", "x"),
        *((("clone", "-q", "--bare", "main", "bare.git"),) if bare else ()),
        ("-C", "bare.git" if bare else "main", "worktree", "add", "-q", "-b", "w", str(tmp_path / "work")),
    ):
        subprocess.run(("git", *command), cwd=tmp_path, env=env, check=True, capture_output=True)
    mount = find(tmp_path / "work").mount
    assert mount is not None
    assert mount.source == str(tmp_path / ("bare.git" if bare else "main/.git"))


def test_relative_link_is_found_where_the_sandbox_looks_for_it(worktree: Path) -> None:
    """A19: `git worktree add --relative-paths`; in there the folder is /workspace."""
    own = worktree.parent / "main" / ".git" / "worktrees" / "work"
    (worktree / ".git").write_text("gitdir: ../main/.git/worktrees/work\n")
    (own / "gitdir").write_text("../../../../work/.git\n")
    mount = find(worktree).mount
    assert mount is not None
    assert (mount.source, mount.target) == (str(worktree.parent / "main" / ".git"), "/main/.git")


def other_repository(work: Path, own: Path) -> None:
    (own / "gitdir").write_text(f"{work.parent}/another/.git\n")


def link_for_the_folder(work: Path, own: Path) -> None:
    shutil.move(own.parents[1], work.parent / "elsewhere")
    own.parents[1].symlink_to(work.parent / "elsewhere")
    (work / ".git").write_text(f"gitdir: {work.parent}/elsewhere/worktrees/../worktrees/work\n")
    (work.parent / "elsewhere" / "worktrees" / "work" / "commondir").write_text("/etc\n")


def open_to_all(work: Path, own: Path) -> None:
    own.parents[1].chmod(0o777)


def no_back_pointer(work: Path, own: Path) -> None:
    (own / "gitdir").unlink()


def back_pointer_is_a_pipe(work: Path, own: Path) -> None:
    (own / "gitdir").unlink()
    os.mkfifo(own / "gitdir")


def no_commondir(work: Path, own: Path) -> None:
    (own / "commondir").unlink()


def submodule(work: Path, own: Path) -> None:
    (work / ".git").write_text(f"gitdir: {own.parents[1]}/modules/work\n")


def keys_of_the_user(work: Path, own: Path) -> None:
    (work.parent / ".ssh" / "worktrees" / "x").mkdir(parents=True)
    (work / ".git").write_text(f"gitdir: {work.parent}/.ssh/worktrees/x\n")


def place_of_the_sandbox(work: Path, own: Path) -> None:
    (work / ".git").write_text(f"gitdir: /tmp/../{own}\n")
    other_repository(work, own)


@pytest.mark.parametrize(
    "change",
    [
        other_repository, link_for_the_folder, open_to_all, no_back_pointer, back_pointer_is_a_pipe, no_commondir,
        submodule, keys_of_the_user, place_of_the_sandbox,
    ],
)  # fmt: skip
def test_data_that_a_project_merely_names_is_not_shared(change: Callable[[Path, Path], None], worktree: Path) -> None:
    """A19: `.git` is the project's; what it names must name this worktree itself, and be the user's own."""
    change(worktree, worktree.parent / "main" / ".git" / "worktrees" / "work")
    found = find(worktree)
    assert (found.is_outside, found.mount) == (True, None)
    assert found.why_not


@pytest.mark.skipif(not may_become_others(), reason="only root can give a folder away")
def test_data_of_another_user_is_not_shared(worktree: Path) -> None:
    """A19."""
    os.chown(worktree.parent / "main" / ".git", 4711, 4711)
    assert find(worktree).mount is None


@pytest.mark.parametrize(
    ("shares", "kind", "words"),
    [
        (False, "worktree", "lies outside of it; --sandbox-git shares it read-only"),
        (True, "worktree", "git's data, with all its history and settings, is in the sandbox read-only: "),
        (False, "submodule", "the data of this folder's repository lies outside of it"),
        (True, "submodule", "cannot be shared: only that of a linked worktree can be"),
    ],
)
def test_user_is_shown_what_git_can_do(shares: bool, kind: str, words: str, worktree: Path) -> None:
    """A19: one line at the start, with the way out where there is one."""
    if kind == "submodule":
        submodule(worktree, worktree.parent / "main" / ".git" / "worktrees" / "work")
    notices = Notes()
    show_openings((), str(worktree), find(worktree), notices, shares_git=shares)
    (note,) = notices.notes
    assert words in note
    assert ("--sandbox-git" in note) is (words.endswith("shares it read-only"))
