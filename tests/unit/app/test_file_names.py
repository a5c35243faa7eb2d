"""Names for `@`: what is typed decides the folder, and nothing leads out of it."""

from __future__ import annotations

import os
from pathlib import Path

from odek.app.file_names import FoundName, find_names


def paths(beginning: str, cwd: Path, *, most: int = 50) -> list[str]:
    return [name.path for name in find_names(beginning, cwd=str(cwd), most=most)]


def test_names_below_the_folder_that_was_typed(tmp_path: Path) -> None:
    """R-144: hidden names only when asked for; folders are marked, sizes are those of files."""
    (tmp_path / "src" / "deep").mkdir(parents=True)
    (tmp_path / "src" / "main.py").write_text("abc")
    (tmp_path / "setup.py").write_text("")
    (tmp_path / ".env").write_text("")
    assert find_names("s", cwd=str(tmp_path), most=50) == (
        FoundName(path="setup.py", is_folder=False, size_bytes=0),
        FoundName(path="src", is_folder=True, size_bytes=0),
    )
    assert find_names("src/m", cwd=str(tmp_path), most=50) == (
        FoundName(path="src/main.py", is_folder=False, size_bytes=3),
    )
    assert paths("", tmp_path) == ["setup.py", "src"]
    assert paths(".", tmp_path) == [".env"]
    assert paths("", tmp_path, most=1) == ["setup.py"]


def test_nothing_leads_out_of_the_folder(tmp_path: Path) -> None:
    """R-144: links are named and not followed."""
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (outside / "secret").write_text("")
    (inside / "link").symlink_to(outside)
    (inside / "sub").mkdir()
    (inside / "sub" / "up").symlink_to("../../outside")
    for beginning in (
        "link/",
        "sub/up/",
        "../outside/",
        "sub/../../outside/",
        str(outside) + "/",
        "/",
        "./link/",
        "sub//",
        "a\0b",
        "\ud800/x",
        "nowhere/",
    ):
        assert paths(beginning, inside) == [], beginning
    assert paths("l", inside) == ["link"]


def test_names_that_cannot_be_referred_to_are_left_out(tmp_path: Path) -> None:
    for name in ("plain", "two words", "a,b", "x\u202ey", "line\nend", "ends)"):
        (tmp_path / name).write_text("")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / os.fsdecode(b"\xff")).write_text("")
    assert paths("", tmp_path) == ["plain"]


def test_a_folder_that_takes_too_long_is_read_in_part(tmp_path: Path) -> None:
    """R-144: 150 ms."""
    for number in range(20):
        (tmp_path / f"f{number}").write_text("")
    ticks = iter(range(100))
    found = find_names("", cwd=str(tmp_path), most=50, now=lambda: next(ticks) * 0.03)
    assert len(found) == 5
