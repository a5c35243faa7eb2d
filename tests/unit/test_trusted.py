"""Files that the host trusts later, and how a change of them is told."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from odek.trusted import MAX_FOLDERS, SLACK_NS, changed_since, counts, describe_changes


@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/pre-commit", ".git/config", ".git/modules/sub/hooks/post-checkout",
        ".git/worktrees/x/config.worktree",
        "vendor/sub/.git/config", "vendor/sub/.git/hooks/a", ".git", "sub/.git", ".git/info/attributes",
        ".envrc", "deep/er/.envrc", ".vscode/tasks.json", "a/.vscode/settings.json", "odek.json", "Dockerfile.odek",
        "AGENTS.md", ".github/workflows/ci.yml", ".husky/pre-push", ".odek/skills/x/SKILL.md", ".cargo/config.toml",
    ],
)  # fmt: skip
def test_counts_when_the_host_may_run_or_obey_it(path: str) -> None:
    """B55: hooks, settings of git, editors and CI, and odek's own files."""
    assert counts(path)


@pytest.mark.parametrize(
    "path",
    ["README.md", "src/main.py", ".git/index", ".git/HEAD", ".git/objects/ab/cd", "git/config", "hooks/pre-commit",
     ".github/dependabot.yml", "workflows/ci.yml", "odek.json.bak", "my-odek.json"],
)  # fmt: skip
def test_does_not_count_when_it_is_ordinary_work(path: str) -> None:
    """B55: a list that names everything would be read by nobody."""
    assert not counts(path)


def test_lists_what_changed_and_nothing_else(tmp_path: Path) -> None:
    """B55: a planted hook, a nested repository, a changed odek.json; times set back do not hide them."""
    (tmp_path / ".git/hooks").mkdir(parents=True)
    (tmp_path / ".git/config").write_text("old")
    _age(tmp_path / ".git/config")
    start = time.time_ns() + 10_000_000_000  # after everything made so far, whatever the slack
    later = start + 20_000_000_000
    assert changed_since(str(tmp_path), later) == ()
    (tmp_path / "vendor/sub/.git").mkdir(parents=True)
    for name in (".git/hooks/pre-commit", "vendor/sub/.git/config", "odek.json", "README.md"):
        (tmp_path / name).write_text("x")
    os.utime(tmp_path / "odek.json", (0, 0))
    found = changed_since(str(tmp_path), time.time_ns())
    assert found == (".git/config", ".git/hooks/pre-commit", "odek.json", "vendor/sub/.git/config")


def _age(path: Path) -> None:
    os.utime(path, (0, 0))


def test_passes_over_links_and_unreadable_folders(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "odek.json").write_text("x")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(outside)
    (inside / "loop").symlink_to(inside)
    assert changed_since(str(inside), 0) == ()


def test_ends_in_a_tree_without_end(tmp_path: Path) -> None:
    for number in range(MAX_FOLDERS + 5):
        (tmp_path / f"d{number}").mkdir()
    (tmp_path / "odek.json").write_text("x")
    assert changed_since(str(tmp_path), 0) == ("odek.json",)


@pytest.mark.parametrize("flood", [".", ".git", "vendor/sub", ".git/.git/.vscode/.git", ".vscode/.vscode/.vscode"])
def test_flood_of_folders_hides_nothing(flood: str, tmp_path: Path) -> None:
    """B55: three thousand empty folders beside a hook are made in a moment."""
    names = (".git/hooks/pre-commit", ".github/workflows/ci.yml", ".vscode/tasks.json")
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True)
    for number in range(MAX_FOLDERS + 5):
        (tmp_path / flood / f"d{number}" / ".git").mkdir(parents=True)
    for name in names:
        (tmp_path / name).write_text("x")
    assert set(names) <= set(changed_since(str(tmp_path), 0))


@pytest.mark.parametrize("name", [".git/hooks", ".vscode", ".github/workflows", "a/.husky", "vendor/x/.git/info"])
def test_folder_that_was_put_there_is_told_although_its_files_are_older(name: str, tmp_path: Path) -> None:
    """B55: a renamed folder leaves the times of what is in it alone."""
    innocent = tmp_path / "docs"
    innocent.mkdir()
    (innocent / "pre-commit").write_text("x")
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    time.sleep(2 * SLACK_NS / 1e9)
    start = time.time_ns()
    innocent.rename(tmp_path / name)
    assert changed_since(str(tmp_path), start) == (name,)
    (tmp_path / name / "second").write_text("x")
    assert changed_since(str(tmp_path), start) == (f"{name}/second",)


@pytest.mark.parametrize("name", [".git", ".git/hooks", ".vscode", ".github", ".github/workflows", "a/.idea"])
def test_link_in_the_place_of_such_a_folder_is_told(name: str, tmp_path: Path) -> None:
    """B55: git and editors follow it."""
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    assert changed_since(str(tmp_path), 0) == (name,)


def test_describes_with_escapes_and_a_bound() -> None:
    """R-64: a file name cannot rewrite the terminal."""
    assert describe_changes(()) == ""
    assert describe_changes((".envrc",)) == "files changed that this machine may run or trust later: .envrc"
    assert "\x1b" not in describe_changes(("a\x1b[2K/.envrc",))
    assert describe_changes(tuple(f"{n}/.envrc" for n in range(20))).endswith(" and 8 more")
