"""The context of a build: which files count, how much it is, whether it changed."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import pytest

from odek.sandbox.build.context import (
    LARGE_BYTES,
    MANY_FILES,
    ContextSize,
    describe_size,
    fingerprint_sources,
    measure_context,
    read_dockerfile,
    read_ignore,
)
from odek.sandbox.build.dockerfile import Dockerfile
from odek.sandbox.build.dockerignore import MAX_RULES, parse_ignore
from odek.sandbox.errors import SandboxConfigError


class Clock:
    """Seconds that pass with each look at it."""

    def __init__(self, step_s: float = 0.0) -> None:
        self._now, self._step = 0.0, step_s

    def __call__(self) -> float:
        self._now += self._step
        return self._now


def make_tree(root: Path, *names: str) -> str:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"12345")
    return str(root)


@pytest.mark.parametrize(
    ("rules", "path", "left_out"),
    [
        ("", "a", False),
        ("node_modules/", "node_modules", True),
        ("node_modules/", "node_modules/a/b", True),
        ("node_modules", "web/node_modules", False),
        ("**/node_modules", "web/app/node_modules/x", True),
        ("**/node_modules", "node_modules", True),
        ("/a", "a", True),
        ("./a", "a", True),
        ("*.log", "x.log", True),
        ("*.log", "d/x.log", False),
        ("**/*.log", "d/e/x.log", True),
        ("a/**", "a/b/c", True),
        ("a/**", "b", False),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("a.c", "abc", False),
        ("# a", "# a", False),
        ("*\n!keep", "keep", False),
        ("*\n!keep", "other", True),
        ("!keep\n*", "keep", True),
        ("*\n!Dockerfile.odek", "Dockerfile.odek", False),
        ("Dockerfile.odek", "Dockerfile.odek", True),
        ("  a  \r", "a", True),
        (".\n/\n", "a", False),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b/c", True),
        ("a/**/b", "x/a/b", False),
        ("a/**", "a", False),
        ("**", "a", True),
        ("**/a*/**/*z", "q/ab/c/d/yz/e", True),
        ("**/a*/**/*z", "q/ab/c/d/y", False),
        ("*a*b*", "xaxbx", True),
        ("*a*b", "xbxa", False),
        ("ab*ba", "aba", False),
        ("?*?", "a", False),
        ("*.tar.?z", "x.tar.tar.gz", True),
        ("a*/b", "ax/b/c", True),
    ],
)
def test_ignore_file_is_read_as_docker_reads_it(rules: str, path: str, left_out: bool) -> None:
    """B19: a trailing slash, `*`, `**`, `?`, `!`; the last rule that matches decides."""
    assert parse_ignore(rules.encode()).leaves_out(path) is left_out


def test_size_counts_what_is_sent(tmp_path: Path) -> None:
    """B19: links and special files are counted, not followed or opened."""
    folder = make_tree(tmp_path, "a", "big/1", "big/2", "skip/1", "keep/skip")
    os.mkfifo(tmp_path / "fifo")
    os.symlink("/", tmp_path / "root")
    size = measure_context(folder, (".",), parse_ignore(b"skip"), now=Clock())
    assert size == ContextSize(files=6, size_bytes=20, is_whole=True, largest=("big", 10))
    assert not size.is_large


def test_folder_with_an_exception_below_is_still_entered(tmp_path: Path) -> None:
    folder = make_tree(tmp_path, "a/b", "a/c", "d")
    assert measure_context(folder, (".",), parse_ignore(b"*\n!a/c"), now=Clock()).files == 1


def test_walk_ends_early_rather_than_keep_anybody_waiting(tmp_path: Path) -> None:
    """B19: a warning within 3 seconds, however large the folder is."""
    folder = make_tree(tmp_path, *(f"{number}" for number in range(600)))
    size = measure_context(folder, (".",), parse_ignore(b""), now=Clock(step_s=0.9))
    assert (size.files, size.is_whole, size.is_large) == (256, False, True)
    assert describe_size(size) == "Docker gets more than 0 MB in 256 files for the build"


@pytest.mark.parametrize(
    ("size_bytes", "files", "large"),
    [(LARGE_BYTES, MANY_FILES, False), (LARGE_BYTES + 1, 1, True), (1, MANY_FILES + 1, True)],
)
def test_large_is_a_matter_of_bytes_or_files(size_bytes: int, files: int, large: bool) -> None:
    size = ContextSize(files=files, size_bytes=size_bytes, is_whole=True, largest=("", 0))
    assert size.is_large is large


def test_warning_names_the_worst_folder() -> None:
    """B19."""
    size = ContextSize(files=3, size_bytes=2_000_000_000, is_whole=True, largest=("node\u202e", 1_900_000_000))
    assert describe_size(size) == (
        "Docker gets 2000 MB in 3 files for the build; the most of it is in node\\u202e (1900 MB)"
    )


@pytest.mark.parametrize("change", ["content", "mode", "new file", "removed file", "link"])
def test_fingerprint_changes_with_what_is_copied(change: str, tmp_path: Path) -> None:
    """B18."""
    folder = make_tree(tmp_path, "src/a", "src/b", "other")
    os.symlink("a", tmp_path / "src" / "l")
    before = fingerprint_sources(folder, ("src",), parse_ignore(b""))
    target = tmp_path / "src" / "a"
    if change == "content":
        target.write_bytes(b"123456")
    elif change == "mode":
        target.chmod(0o700)
    elif change == "new file":
        make_tree(tmp_path, "src/c")
    elif change == "removed file":
        target.unlink()
    else:
        (tmp_path / "src" / "l").unlink()
        os.symlink("bb", tmp_path / "src" / "l")
    after = fingerprint_sources(folder, ("src",), parse_ignore(b""))
    assert before != after
    assert len(before) == len(after) == 64


def test_fingerprint_stays_when_something_else_changes(tmp_path: Path) -> None:
    """B18: what the build does not read, or .dockerignore leaves out, makes no image stale."""
    folder = make_tree(tmp_path, "src/a", "src/skip/x")
    ignore = parse_ignore(b"src/skip")
    before = fingerprint_sources(folder, ("src", "src/*"), ignore)
    make_tree(tmp_path, "other", "src/skip/y")
    assert fingerprint_sources(folder, ("src", "src/*"), ignore) == before


@pytest.mark.parametrize("sources", [(), ("missing",), ("../../etc",)])
def test_nothing_copied_has_no_fingerprint(sources: tuple[str, ...], tmp_path: Path) -> None:
    assert fingerprint_sources(str(tmp_path), sources, parse_ignore(b"")) == ""


def test_dockerfile_is_read_once_and_may_be_missing(tmp_path: Path) -> None:
    assert read_dockerfile(str(tmp_path)) is None
    (tmp_path / "Dockerfile.odek").write_bytes(b"FROM a\n")
    assert read_dockerfile(str(tmp_path)) == Dockerfile(data=b"FROM a\n")


@pytest.mark.parametrize("kind", ["link", "dangling link", "folder", "FIFO", "too large"])
@pytest.mark.parametrize(("name", "read"), [("Dockerfile.odek", read_dockerfile), (".dockerignore", read_ignore)])
def test_anything_but_a_small_plain_file_is_refused(kind: str, name: str, read: object, tmp_path: Path) -> None:
    """B19: no link out of the project is followed, no FIFO waited for."""
    path = tmp_path / name
    (tmp_path / "real").write_text("FROM a\n")
    if kind == "link":
        path.symlink_to("real")
    elif kind == "dangling link":
        path.symlink_to("nowhere")
    elif kind == "folder":
        path.mkdir()
    elif kind == "FIFO":
        os.mkfifo(path)
    else:
        path.write_bytes(b"#" * ((1 << 20) + 1))
    assert callable(read)
    with pytest.raises(SandboxConfigError, match=name.replace(".", r"\.")):
        read(str(tmp_path))


@pytest.mark.parametrize("rule", ["*a" * 40, "?*" * 60, "a*" * 500, "**/a*/" * 60 + "b", "*" * 2000, "a*?" * 300])
@pytest.mark.parametrize("name", ["a" * 255, "a" * 254 + "b", "/".join(["a" * 30] * 120)])
def test_rule_that_can_be_tried_in_endless_ways_is_not(rule: str, name: str) -> None:
    """F14: `*a` forty times and a long name hung after the approval; the count of looks is what is bounded."""
    looks = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal looks
        looks += event == "c_call"

    ignore = parse_ignore(rule.encode())
    sys.setprofile(count)
    try:
        ignore.leaves_out(name)
    finally:
        sys.setprofile(None)
    assert looks < 100_000


def test_rules_without_end_are_refused() -> None:
    """F14: each is tried on each file."""
    assert len(parse_ignore(b"a\n" * MAX_RULES).rules) == MAX_RULES
    with pytest.raises(SandboxConfigError, match="more than 1000 rules"):
        parse_ignore(b"a\n" * (MAX_RULES + 1))


def test_what_is_left_out_is_part_of_what_is_approved(tmp_path: Path) -> None:
    """F14: read once, with the Dockerfile."""
    (tmp_path / "Dockerfile.odek").write_bytes(b"FROM a\n")
    plain = read_dockerfile(str(tmp_path))
    (tmp_path / ".dockerignore").write_bytes(b"b\n")
    both = read_dockerfile(str(tmp_path))
    assert both == Dockerfile(data=b"FROM a\n", ignore=b"b\n")
    assert plain is not None
    assert plain.ignore_sha256 == ""
    assert both.ignore_sha256 == hashlib.sha256(b"b\n").hexdigest()
