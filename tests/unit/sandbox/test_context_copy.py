"""What a build is given to read: a copy of the very folder, no more than the Dockerfile asks for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from odek.sandbox.build.context import copy_context
from odek.sandbox.build.dockerignore import Ignore, parse_ignore
from odek.sandbox.errors import SandboxConfigError


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name in ("a", "src/b", "src/deep/c", "lib/d", "lib/empty.d/.keep", "node_modules/x/y"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def staged(project: Path, *sources: str, rules: str = "") -> dict[str, str]:
    """Return path → content of the files in the copy; of a link what it holds."""
    if rules:
        (project / ".dockerignore").write_text(rules)
    target = project.parent / "copy"
    folder = os.open(project, getattr(os, "O_PATH", os.O_RDONLY))
    try:
        copy_context(folder, sources, parse_ignore(rules.encode()), str(target))
    finally:
        os.close(folder)
    return {
        str(path.relative_to(target)): os.readlink(path) if path.is_symlink() else path.read_text()
        for path in sorted(target.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


@pytest.mark.parametrize(
    ("sources", "names"),
    [
        ((), []),
        (("a",), ["a"]),
        (("src/deep", "src/*"), ["src/b", "src/deep/c"]),
        (("src/deep/c", "/lib/d"), ["lib/d", "src/deep/c"]),
        (("src/deep/*.c",), ["src/deep/c"]),
        (("missing", "a/b", "../a"), ["a"]),
        (("../../etc/passwd",), []),
    ],
)
def test_copies_what_the_lines_name(sources: tuple[str, ...], names: list[str], project: Path) -> None:
    """R-36: with what stands below it; a source that is not there the builder will complain about."""
    assert sorted(staged(project, *sources)) == names


def test_copies_everything_where_everything_is_named(project: Path) -> None:
    everything = ["a", "lib/d", "lib/empty.d/.keep", "node_modules/x/y", "src/b", "src/deep/c"]
    assert sorted(staged(project, ".", "src")) == everything


@pytest.mark.parametrize(
    ("rules", "names"),
    [
        ("node_modules\nlib\n", ["a", "src/b", "src/deep/c"]),
        ("*\n!src/b\n", ["src/b"]),
        ("**/d\n!lib/d\nsrc\n", ["a", "lib/d", "lib/empty.d/.keep", "node_modules/x/y"]),
        ("node_modules\nli[b]\n", ["a", "lib/d", "lib/empty.d/.keep", "node_modules/x/y", "src/b", "src/deep/c"]),
        (".dockerignore\nnode_modules\nlib\nsrc\n", ["a"]),
    ],
)
def test_leaves_out_what_is_ignored_where_the_rules_are_certain(rules: str, names: list[str], project: Path) -> None:
    """B19: the builder reads the rules once more itself; here a doubtful one leaves nothing out."""
    assert sorted(staged(project, ".", rules=rules)) == [".dockerignore", *names]


def test_rules_come_along_with_a_single_source(project: Path) -> None:
    assert sorted(staged(project, "a", rules="x\n")) == [".dockerignore", "a"]


def test_links_stay_links_and_what_is_behind_them_is_there(project: Path) -> None:
    """R-36: nothing outside of the folder is read."""
    secret = project.parent / "secret"
    secret.mkdir()
    (secret / "key").write_text("secret")
    (project / "src/out").symlink_to(secret)
    assert staged(project, "src") == {"src/b": "src/b", "src/deep/c": "src/deep/c", "src/out": str(secret)}


@pytest.mark.parametrize("source", ["short", "short/c"])
def test_source_that_passes_a_link_takes_the_whole_folder_along(source: str, project: Path) -> None:
    (project / "short").symlink_to("src/deep")
    found = staged(project, source)
    assert (found["short"], found["src/deep/c"]) == ("src/deep", "src/deep/c")


def test_link_out_of_the_folder_on_the_way_is_not_followed(project: Path) -> None:
    """R-36: COPY x/key, and x leads to somebody's secrets."""
    secret = project.parent / "secret"
    secret.mkdir()
    (secret / "key").write_text("secret")
    (project / "x").symlink_to(secret)
    assert "secret" not in staged(project, "x/key").values()


def test_odd_files_are_left_out_and_modes_and_times_kept(project: Path) -> None:
    """B19: nothing waits for a FIFO; what was executable is."""
    os.mkfifo(project / "src/fifo")
    (project / "src/b").chmod(0o751)
    os.utime(project / "src/b", (1, 2))
    (project / "src/deep").chmod(0o700)
    (project / "src/nothing").mkdir()
    assert sorted(staged(project, "src")) == ["src/b", "src/deep/c"]
    copy = project.parent / "copy"
    status = (copy / "src/b").stat()
    assert (status.st_mode & 0o7777, status.st_mtime) == (0o751, 2)
    assert (copy / "src/deep").stat().st_mode & 0o7777 == 0o700
    assert (copy / "src/nothing").is_dir()


def test_copy_inside_of_the_folder_does_not_hold_itself(project: Path) -> None:
    """B19: TMPDIR may be a folder of the project."""
    target = project / "tmp/context"
    target.parent.mkdir()
    folder = os.open(project, os.O_RDONLY)
    copy_context(folder, (".",), parse_ignore(b""), str(target))
    os.close(folder)
    assert (target / "src/b").exists()
    assert not (target / "tmp/context").exists()


def test_copy_is_of_the_folder_that_was_opened(project: Path) -> None:
    """R-36, S-6: another folder in its place is not looked into."""
    folder = os.open(project, os.O_RDONLY)
    project.rename(project.parent / "away")
    project.mkdir()
    (project / "a").write_text("of another")
    copy_context(folder, ("a",), parse_ignore(b""), str(project.parent / "copy"))
    os.close(folder)
    assert (project.parent / "copy/a").read_text() == "a"


def test_what_cannot_be_copied_is_named(project: Path) -> None:
    """R-64: with its name made harmless."""
    name = "n" * 200
    (project / f"{name}\x1b").write_text("x")
    room = 3990 - len(str(project.parent))  # a path has 4096 bytes at most
    deep = project.parent.joinpath(*["d" * 200] * (room // 201), "d" * (room % 201))
    folder = os.open(project, os.O_RDONLY)
    try:
        os.makedirs(deep)
        with pytest.raises(SandboxConfigError) as refused:
            copy_context(folder, (".",), parse_ignore(b""), str(deep / "c"))
    finally:
        os.close(folder)
    assert refused.value.message == f'"{name}\\x1b" cannot be copied for the build: File name too long'
    assert refused.value.hint == (
        "name in .dockerignore what the build does not need; TMPDIR names the folder for the copy"
    )


def test_folders_without_end_are_named(project: Path) -> None:
    (project / "src" / "/".join("d" * 201)).mkdir(parents=True)
    with pytest.raises(SandboxConfigError, match=r"/d\" cannot be copied for the build: folders lie in each other"):
        staged(project, "src")


class Exchanging(Ignore):
    """Puts a link in the place of a folder or file at the moment when `a` is looked at, which is the first."""

    __slots__ = ("link", "place")

    def leaves_out(self, path: str) -> bool:
        if path == "a" and not self.place.is_symlink():
            self.place.rename(self.place.parent / "away")
            self.place.symlink_to(self.link)
        return False


@pytest.mark.parametrize(("exchanged", "source"), [("src", "src/b"), ("src", "src"), ("src/b", "src/b")])
def test_link_that_is_put_there_meanwhile_is_not_followed(exchanged: str, source: str, project: Path) -> None:
    """R-36, S-6: between the look at a name and its use."""
    secret = project.parent / "secret"
    secret.mkdir()
    (secret / "b").write_text("secret")
    ignore = Exchanging()
    object.__setattr__(ignore, "place", project / exchanged)
    object.__setattr__(ignore, "link", secret if exchanged == "src" else secret / "b")
    folder = os.open(project, os.O_RDONLY)
    copy_context(folder, ("a", source), ignore, str(project.parent / "copy"))
    os.close(folder)
    copied = [path for path in (project.parent / "copy").rglob("*") if path.is_file() and not path.is_symlink()]
    assert [path.read_text() for path in copied] == ["a"]


def test_rules_that_have_become_a_link_do_not_come_along(project: Path) -> None:
    """B13: Docker's client follows it, to a FIFO for example, for which it would wait."""
    (project / ".dockerignore").symlink_to("/dev/zero")
    assert sorted(staged(project, "a")) == ["a"]


def test_place_that_cannot_be_made_is_told(project: Path) -> None:
    """A full disk is no fault of odek, and is told as any other reason."""
    (project.parent / "copy").write_text("in the way")
    with pytest.raises(SandboxConfigError) as caught:
        staged(project, "a")
    assert caught.value.message == '"." cannot be copied for the build: File exists'
