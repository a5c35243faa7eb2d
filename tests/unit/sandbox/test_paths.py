"""Paths as a model names them."""

from __future__ import annotations

import pytest

from odek.errors import FileAccessDenied
from odek.sandbox.container.file_protocol import relative_path, relative_place


@pytest.mark.parametrize(
    ("path", "relative"),
    [
        ("a", "a"),
        ("a/b.txt", "a/b.txt"),
        ("./a//b/./c", "a/b/c"),
        ("a/../b", "b"),
        ("/workspace/a", "a"),
        ("//workspace///a", "a"),
        ("/./workspace/a", "a"),
        ("/x/../workspace/a", "a"),
        ("/workspace/../workspace/a", "a"),
        ("workspace/a", "workspace/a"),
        ("..a", "..a"),
        ("a..", "a.."),
        ("...", "..."),
        ("-rf", "-rf"),
        ("a\nb", "a\nb"),
        (" ", " "),
        ("~/x", "~/x"),
        ("ü/日本", "ü/日本"),
        ("/workspace/workspace", "workspace"),
    ],
)
def test_path_inside_the_workspace_is_made_relative(path: str, relative: str) -> None:
    """R-44."""
    assert relative_path(path) == relative


@pytest.mark.parametrize(
    "path",
    [
        "..", "../x", "a/../..", "a/../../x", "/etc/passwd", "/", "/..", "/workspacex/a", "/workspace/..",
        "/workspace/../etc/passwd",
        "/workspace/a/../../etc", "../workspace/a", "a/../../workspace/b", "/../etc/x", "/tmp/x",
    ],
)  # fmt: skip
def test_path_that_leaves_the_workspace_is_refused(path: str) -> None:
    """R-44, B13."""
    with pytest.raises(FileAccessDenied, match="leaves the workspace"):
        relative_path(path)


@pytest.mark.parametrize("path", [".", "./", "a/..", "/workspace", "/workspace/", "/workspace/.", "a/", "a/b//"])
def test_path_of_a_folder_is_refused(path: str) -> None:
    """R-44."""
    with pytest.raises(FileAccessDenied, match="is a folder, not a file"):
        relative_path(path)


@pytest.mark.parametrize("path", ["", "\0", "a\0b", "a" * 4097, "ü" * 2049, "\ud800", "a\udcff"])
def test_path_that_is_none_is_refused(path: str) -> None:
    """R-44: half a surrogate pair is no file name, and bytes that are not UTF-8 would name another file."""
    with pytest.raises(FileAccessDenied, match="is not a usable path"):
        relative_path(path)


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("", ""),
        (".", ""),
        ("/workspace", ""),
        ("/workspace/", ""),
        ("a/..", ""),
        ("a/", "a"),
        ("./a//b/", "a/b"),
        ("we\udcffird", "we\udcffird"),
    ],
)
def test_place_may_be_a_folder_and_any_bytes(path: str, place: str) -> None:
    """R-44, B47: for what goes by stdin."""
    assert relative_place(path) == place


@pytest.mark.parametrize("path", ["..", "/", "/etc", "/workspacex", "a/../..", "\0", "\ud800", "x" * 4097])
def test_place_outside_or_that_is_no_path_is_refused(path: str) -> None:
    """R-44."""
    with pytest.raises(FileAccessDenied):
        relative_place(path)
