"""Diffs of turns: git takes them, in both directions; what cannot be shown is named."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from support.fuzz_undo import Model, model_of
from support.snapshots import in_reading, project_in, turn

from odek.snapshot.diff import Effort, diff_of, quoted, render
from odek.snapshot.project import ProjectFiles, Reading

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is what it is compared with")


def text_of(project: ProjectFiles, number: int | None = None) -> str:
    def lines(reading: Reading) -> list[str]:
        record, effort = reading.find(number), Effort()
        rows = (row for change in record.changes for row in render(diff_of(change, reading.read, effort)))
        return [text for text, _ in rows]

    found = in_reading(project, lines)
    assert isinstance(found, list)
    return "\n".join(found) + "\n"


def apply(top: Path, patch: str, *arguments: str) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(top), "GIT_CEILING_DIRECTORIES": str(top.parent)}
    subprocess.run(
        ["git", "apply", "--whitespace=nowarn", *arguments, "-"],
        input=patch.encode(), cwd=top, check=True, capture_output=True, env=environment,
    )  # fmt: skip


def git_model(model: Model) -> Model:
    """Return what git knows of a model: no folders, and of modes whether a file can be run."""
    found: Model = {}
    for path, (mode, content) in model.items():
        if mode & 0o170000 == 0o120000:
            found[path] = (0o120000, content)
        elif mode & 0o170000 == 0o100000:
            found[path] = (0o100755 if mode & 0o100 else 0o100644, content)
    return found


@needs_git
@pytest.mark.parametrize("seed", range(6))
def test_git_takes_a_diff_in_both_directions(seed: int, tmp_path: Path) -> None:
    """R-278: random edits of texts, links, modes and names of any bytes; `git apply -R` undoes them, too."""
    draw = random.Random(seed)
    project, top = project_in(tmp_path), tmp_path / "project"
    names = ("a", "b c", "sub/d", 'q"uote', "tab\tbed", "über", os.fsdecode(b"\xff"), "new\nline", "e", "f")

    def edit() -> None:
        for name in draw.sample(names, 6):
            path = top / name
            path.parent.mkdir(exist_ok=True)
            if path.is_symlink() or (path.exists() and draw.random() < 0.3):
                path.unlink()
            if draw.random() < 0.2 and not path.exists():
                path.symlink_to(draw.choice(("x", "nowhere/there")))
                continue
            old = path.read_text().splitlines(keepends=True) if path.exists() else []
            kept = [line for line in old if draw.random() < 0.8]
            for _ in range(draw.randint(0, 8)):
                kept.insert(draw.randint(0, len(kept)), f"line {draw.randint(0, 30)}\n")
            path.write_text("".join(kept) + draw.choice(("", "no end")) if draw.random() < 0.9 else "x\r\ny\r\n")
            path.chmod(draw.choice((0o644, 0o755)))

    edit()
    edit()
    before = model_of(top)
    with turn(project) as made:
        edit()
    assert made[0] is not None
    after, patch = model_of(top), text_of(project)
    apply(top, patch, "-R")
    assert git_model(model_of(top)) == git_model(before)
    apply(top, patch)
    assert git_model(model_of(top)) == git_model(after)


def test_what_cannot_be_shown_is_named(tmp_path: Path) -> None:
    """R-278: binary files, contents that were not kept, modes that git has no word for, folders."""
    project, top = project_in(tmp_path), tmp_path / "project"
    (top / "mode").write_text("x\n")
    (top / "mode").chmod(0o644)
    (top / "gone").mkdir()
    (top / "becomes a link").write_text("text\n")
    with turn(project):
        (top / "binary").write_bytes(b"\0\1")
        (top / "latin").write_bytes(b"caf\xe9\n")
        (top / "large").write_bytes(b"x" * 10_001)
        (top / "mode").chmod(0o600)
        (top / "gone").rmdir()
        (top / "new").mkdir()
        (top / "becomes a link").unlink()
        (top / "becomes a link").symlink_to("mode")
        for name in ("binary", "latin", "large"):
            (top / name).chmod(0o644)
    assert text_of(project).splitlines() == [
        "diff --git a/becomes a link b/becomes a link",
        "deleted file mode 100644",
        "--- a/becomes a link",
        "+++ /dev/null",
        "@@ -1 +0,0 @@",
        "-text",
        "diff --git a/becomes a link b/becomes a link",
        "new file mode 120000",
        "--- /dev/null",
        "+++ b/becomes a link",
        "@@ -0,0 +1 @@",
        "+mode",
        "\\ No newline at end of file",
        "diff --git a/binary b/binary",
        "new file mode 100644",
        "Binary files /dev/null and b/binary differ",
        "folder deleted: gone",
        "diff --git a/large b/large",
        "new file mode 100644",
        "its content was not kept",
        "diff --git a/latin b/latin",
        "new file mode 100644",
        "Binary files /dev/null and b/latin differ",
        "diff --git a/mode b/mode",
        "mode: 0644 → 0600",
        "new folder: new",
    ]


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("a b", "a b"),
        ("über", "über"),
        ('a"b', '"a\\"b"'),
        ("a\\b", '"a\\\\b"'),
        ("a\nb\t\x1b[2K", '"a\\nb\\t\\033[2K"'),
        ("\udcff", '"\\377"'),
        ("a\u202eb", '"a\\342\\200\\256b"'),
    ],
)
def test_names_are_shown_as_git_shows_them(path: str, shown: str) -> None:
    """R-278: what moves the cursor or hides is escaped."""
    assert quoted(path) == shown
