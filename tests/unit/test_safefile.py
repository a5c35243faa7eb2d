"""What is inside what, by names alone."""

from __future__ import annotations

import pytest

from odek.safefile import is_inside


@pytest.mark.parametrize(
    ("path", "folder", "inside"),
    [
        ("/a/b", "/a", True),
        ("/a", "/a", True),
        ("/a/b/c", "/a/", True),
        ("/ab", "/a", False),
        ("/a-b/c", "/a", False),
        ("/", "/a", False),
        ("/a", "/a/b", False),
        ("/a", "/", True),
        ("/", "/", True),
    ],
)
def test_a_path_is_inside_by_whole_components(path: str, folder: str, inside: bool) -> None:
    """A neighbour whose name begins alike is outside."""
    assert is_inside(path, folder) is inside
