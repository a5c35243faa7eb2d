"""Files that the host trusts later, and how a change of them is told."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.privileges import may_become_others

from odek import trusted_files
from odek.danger.paths import Place, trusted_name
from odek.trusted_files import MAX_FOLDERS, FileStamp, Snapshot, describe_changes, diff_snapshots, take_snapshot

TICK_S = 0.012  # two changes of a file within one have the same time


def see(folder: Path) -> Snapshot:
    return take_snapshot(str(folder.resolve()), now_ns=time.time_ns())


def changes(folder: Path, act: Callable[[Path], object]) -> tuple[str, ...]:
    """Return what is told when `act` happens to `folder`."""
    before = see(folder)
    time.sleep(TICK_S)
    act(folder)
    return diff_snapshots(before, see(folder))


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")


def put_repository(folder: Path) -> None:
    """Make `folder` what `git init --bare` does, with something in it that git would run."""
    put(folder, "HEAD", "config", "hooks/pre-commit", "info/exclude", "description")
    (folder / "objects/ab").mkdir(parents=True)
    (folder / "refs").mkdir()


@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/pre-commit", ".git/config", ".git/commondir", "vendor/sub/.git/config", "vendor/sub/.git/hooks/a",
        ".git", "sub/.git", ".git/info/attributes", ".envrc", "deep/er/.envrc", ".vscode/tasks.json",
        "a/.vscode/settings.json", "odek.json", "Dockerfile.odek", "AGENTS.md", "docs/Agents.MD",
        ".github/workflows/ci.yml", ".github/actions/x/action.yml", ".husky/pre-push",
        ".githooks/pre-push", ".odek/skills/x/SKILL.md",
        ".cargo/config.toml", "a/b/c/d/e/f/g/h/.envrc", ".GIT/config", ".claude/settings.json", "Jenkinsfile",
    ],
)  # fmt: skip
def test_tells_what_the_host_may_run_or_obey(path: str, tmp_path: Path) -> None:
    """B55, D-6: hooks, settings of git, editors and CI, odek's own files; whatever is told is asked about, too."""
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    assert changes(tmp_path, lambda folder: put(folder, path)) == (path,)
    assert changes(tmp_path, lambda folder: put(folder, path)) == (path,)
    assert changes(tmp_path, lambda folder: (folder / path).unlink()) == (path,)
    assert trusted_name(f"/workspace/{path}", Place(home="/tmp", cwd="/workspace", workspace="/workspace"))


@pytest.mark.parametrize("name", sorted(trusted_files.FILES | trusted_files.FOLDERS | {trusted_files.GIT}))
def test_name_of_the_list_is_known_to_both_who_go_by_it(name: str, tmp_path: Path) -> None:
    """B55, D-6."""
    assert changes(tmp_path, lambda folder: put(folder, f"sub/{name}")) == (f"sub/{name}",)
    assert trusted_name(f"/workspace/sub/{name}", Place(home="/tmp", cwd="/workspace", workspace="/workspace"))


@pytest.mark.parametrize(
    "path",
    ["README.md", "src/main.py", ".git/index", ".git/HEAD", ".git/objects/ab/cd", "git/config", "hooks/pre-commit",
     "workflows/ci.yml", "odek.json.bak", "my-odek.json", "HEAD", "node_modules/x/.npmrc", ".git/objects/config"],
)  # fmt: skip
def test_does_not_tell_ordinary_work(path: str, tmp_path: Path) -> None:
    """B55: a list that names everything would be read by nobody."""
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    assert changes(tmp_path, lambda folder: put(folder, path)) == ()


def test_file_with_its_time_set_back_is_told(tmp_path: Path) -> None:
    """B55: the time of the change of the inode is the kernel's."""
    put(tmp_path, "odek.json", ".envrc")
    times = (tmp_path / "odek.json").stat()

    def act(folder: Path) -> None:
        (folder / "odek.json").write_text("y")
        os.utime(folder / "odek.json", ns=(times.st_atime_ns, times.st_mtime_ns))

    assert changes(tmp_path, act) == ("odek.json",)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("docs/.git", ".git"), ("docs/dot-git", ".git"), ("docs/x", ".vscode"), ("docs/x", "a/.husky"),
        ("docs/x", ".github"), ("docs/x", ".github/workflows"), ("docs/x", ".git/hooks"), ("docs/x", "v/x/.git/info"),
        ("docs/x", ".git/modules/x"),
    ],
)  # fmt: skip
def test_folder_that_was_moved_in_is_told_although_all_in_it_is_older(old: str, new: str, tmp_path: Path) -> None:
    """B55: a renamed folder leaves the times of what is in it alone; what is added afterwards hides nothing."""
    put_repository(tmp_path / old)
    (tmp_path / new).parent.mkdir(parents=True, exist_ok=True)

    def act(folder: Path) -> None:
        (folder / old).rename(folder / new)
        put(folder, f"{new}/hooks/second")

    assert new in changes(tmp_path, act)


def test_folder_above_that_was_moved_is_told(tmp_path: Path) -> None:
    """B55: an old repository with its old hooks at another place is another one."""
    put_repository(tmp_path / "fixtures/project/.git")
    put(tmp_path, "fixtures/project/.vscode/tasks.json", "fixtures/project/main.c")
    told = changes(tmp_path, lambda folder: (folder / "fixtures/project").rename(folder / "project"))
    assert told == ("fixtures/project/.git", "fixtures/project/.vscode", "project/.git", "project/.vscode")


def test_exchange_of_two_folders_is_told(tmp_path: Path) -> None:
    """B55: all names are as before, and all that is in them."""
    put_repository(tmp_path / ".git")
    put_repository(tmp_path / "evil")

    def act(folder: Path) -> None:
        (folder / ".git").rename(folder / "kept")
        (folder / "evil").rename(folder / ".git")
        (folder / "kept").rename(folder / "evil")

    assert changes(tmp_path, act) == (".git", "evil")


def test_repository_by_another_name_is_told(tmp_path: Path) -> None:
    """B55: whoever calls git in it runs what its config names, wherever it came from."""
    put_repository(tmp_path / "sub/.git")
    assert changes(tmp_path, lambda folder: (folder / "sub/.git").rename(folder / "x")) == ("sub/.git", "x")
    assert changes(tmp_path, lambda folder: put(folder, "x/config", "x/HEAD", "x/objects/1")) == ("x/config",)
    assert changes(tmp_path, lambda folder: put(folder, "x/hooks/pre-commit")) == ("x/hooks/pre-commit",)


def test_working_directory_that_becomes_a_repository_itself_is_told(tmp_path: Path) -> None:
    """B55: a project has a `config` and `hooks` of its own until somebody puts the rest beside it."""
    put(tmp_path, "config", "hooks/pre-commit", "logs/sub/.envrc")
    told = changes(tmp_path, lambda folder: put(folder, "HEAD", "objects/x", "refs/x"))
    assert told == ("config", "hooks")
    assert changes(tmp_path, lambda folder: put(folder, "logs/sub/.envrc")) == ("logs/sub/.envrc",)


def test_new_clone_is_told_as_one(tmp_path: Path) -> None:
    """B55: `git clone`, `git init`, a submodule and a worktree."""
    assert changes(tmp_path, lambda folder: put_repository(folder / "sub/.git")) == ("sub/.git",)
    assert changes(tmp_path, lambda folder: put(folder, "tree/.git")) == ("tree/.git",)
    put(tmp_path, ".git/HEAD")
    module, tree = tmp_path / ".git/modules/m", tmp_path / ".git/worktrees/t"
    assert changes(tmp_path, lambda _: put_repository(module)) == (".git/modules/m",)
    assert changes(tmp_path, lambda _: put(module, "hooks/pre-commit")) == (".git/modules/m/hooks/pre-commit",)
    assert changes(tmp_path, lambda _: put(tree, "HEAD", "commondir")) == (".git/worktrees/t",)
    assert changes(tmp_path, lambda _: put(tree, "config.worktree")) == (".git/worktrees/t/config.worktree",)


def test_work_in_a_repository_is_not_told(tmp_path: Path) -> None:
    """B55: a commit makes and removes files in .git, and with it its time."""
    put_repository(tmp_path / ".git")

    def commit(folder: Path) -> None:
        put(
            folder,
            "new.c",
            ".git/index.lock",
            ".git/COMMIT_EDITMSG",
            ".git/objects/ab/cd",
            ".git/logs/HEAD",
            ".git/HEAD",
        )
        (folder / ".git/index.lock").rename(folder / ".git/index")

    assert changes(tmp_path, commit) == ()


@pytest.mark.parametrize("name", [".git", ".git/hooks", ".vscode", ".github", "a/.idea"])
def test_link_in_the_place_of_such_a_folder_is_told(name: str, tmp_path: Path) -> None:
    """B55: git and editors follow it; so what is written where it leads is told as well."""
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    target = tmp_path / "elsewhere"
    target.mkdir()
    assert changes(tmp_path, lambda folder: (folder / name).symlink_to(target)) == (name,)
    inner = "config" if name == ".git" else "pre-commit"
    assert changes(tmp_path, lambda folder: put(folder, f"elsewhere/{inner}")) == (f"{name}/{inner}",)
    assert changes(tmp_path, lambda folder: target.rename(folder / "other")) == (name,)


def test_file_behind_a_link_is_told(tmp_path: Path) -> None:
    """B55: AGENTS.md that is a link to docs/agents.txt."""
    put(tmp_path, "docs/agents.txt")
    (tmp_path / "AGENTS.md").symlink_to("docs/agents.txt")
    (tmp_path / ".envrc").symlink_to("nowhere")
    assert changes(tmp_path, lambda folder: put(folder, "docs/agents.txt")) == ("AGENTS.md",)
    assert changes(tmp_path, lambda folder: put(folder, "nowhere")) == (".envrc",)


def test_passes_over_links_that_lead_out_or_round(tmp_path: Path) -> None:
    put(tmp_path, "outside/odek.json", "outside/tasks.json", "inside/src/a")
    inside = tmp_path / "inside"
    (inside / "link").symlink_to(tmp_path / "outside")
    (inside / ".vscode").symlink_to(tmp_path / "outside")
    (inside / "src/loop").symlink_to(inside)
    (inside / "src/.idea").symlink_to(inside / "src")
    assert changes(inside, lambda _: put(tmp_path, "outside/odek.json", "outside/tasks.json")) == ()
    assert see(inside).whole


def test_tree_without_end_is_told_to_be_one(tmp_path: Path) -> None:
    """B55: what was left out is no reason to keep quiet."""
    put(tmp_path, "AGENTS.md")
    before = see(tmp_path)
    for number in range(MAX_FOLDERS + 5):
        (tmp_path / f"d{number}").mkdir()
    flooded = see(tmp_path)
    left_out = f"only {MAX_FOLDERS} folders were looked into, there are more now"
    assert (
        describe_changes(before, flooded)
        == f"not every file was looked at that this machine may trust later: {left_out}"
    )
    assert describe_changes(flooded, see(tmp_path)) == describe_changes(before, flooded).removesuffix(" now")
    put(tmp_path, "odek.json")
    assert describe_changes(before, see(tmp_path)).endswith(f"trust later: odek.json ({left_out})")


def test_what_the_first_look_may_have_left_out_goes_by_its_time() -> None:
    def seen(**times: int) -> dict[str, FileStamp]:
        return {name: FileStamp(identity=(1, 2, time), ctime_ns=time) for name, time in times.items()}

    before = Snapshot(found={}, whole=False, taken_ns=10**12)
    after = Snapshot(found=seen(old=10**11, new=10**12 + 1), whole=False, taken_ns=2 * 10**12)
    assert diff_snapshots(before, after) == ("new",)
    assert diff_snapshots(replace(before, whole=True), after) == ("new", "old")
    assert diff_snapshots(Snapshot(found=seen(gone=1), whole=False, taken_ns=10**12), after) == ("new",)


@pytest.mark.once
@pytest.mark.parametrize(
    "flood", [".", ".git", "vendor/sub", ".git/.git/.vscode/.git", ".vscode/.vscode/.vscode", ".vscode"]
)
def test_flood_of_folders_hides_nothing(flood: str, tmp_path: Path) -> None:
    """B55: three thousand empty folders beside a hook are made in a moment."""
    names = (".git/hooks/pre-commit", ".github/ci.yml", ".vscode/tasks.json")
    put(tmp_path, *names)
    for number in range(MAX_FOLDERS + 5):
        (tmp_path / flood / f"d{number}" / ".git").mkdir(parents=True)
    assert set(names) <= set(changes(tmp_path, lambda folder: put(folder, *names)))


def test_describes_with_escapes_and_a_bound(tmp_path: Path) -> None:
    """R-64: a file name cannot rewrite the terminal."""
    before = see(tmp_path)
    assert describe_changes(before, before) == ""
    put(tmp_path, "a\x1b[2K/.envrc")
    told = describe_changes(before, see(tmp_path))
    assert told.startswith("files changed that this machine may run or trust later: a")
    assert "\x1b" not in told
    put(tmp_path, *(f"{number}/.envrc" for number in range(19)))
    assert describe_changes(before, see(tmp_path)).endswith(" and 8 more")


@pytest.mark.parametrize(
    ("place", "told"),
    [(".git/hooks", (".git/hooks",)), ("sub/.vscode", ("sub/.vscode",)), ("sub", ("sub",)), ("", (".", ".git"))],
)
def test_folder_that_can_no_longer_be_listed_is_told(place: str, told: tuple[str, ...]) -> None:
    """B55: what is in it is used by its name; one that was closed before is none of the run's doing."""

    def plant(folder: Path) -> None:
        put(folder / place, "pre-commit")
        (folder / place).chmod(0o311)

    user = os.geteuid()
    os.seteuid(65534 if may_become_others() else user)  # root may list every folder
    try:
        with tempfile.TemporaryDirectory() as name:  # pytest's own folder is closed to others
            folder = Path(name)
            put(folder, ".git/HEAD", ".git/config")
            (folder / place).mkdir(parents=True, exist_ok=True)
            assert changes(folder, plant) == told
            assert changes(folder, lambda _: None) == ()
            (folder / place).chmod(0o755)
    finally:
        os.seteuid(user)


@pytest.mark.parametrize(
    "path",
    [
        ".hg/hgrc", ".hg/hgrc-not-shared", ".jj/repo/config.toml", "app.code-workspace", "x.sublime-project",
        ".idea/a.iml",
        ".devcontainer.json", ".devcontainer/x/devcontainer.json", "lefthook.yaml", "lefthook.toml", ".lefthook.toml",
        "lefthook-local.yml", ".lefthook/pre-commit/a.sh", ".mvn/jvm.config", ".mvn/extensions.xml", "sub/.Rprofile",
        ".Renviron", ".pnpmfile.cjs", ".yarn/releases/yarn-4.cjs", ".yarn/plugins/p.cjs", ".yarnrc.yml",
        "usercustomize.py", ".aider.conf.yml", ".cursorrules", ".windsurfrules", ".gemini/settings.json",
        ".codex/config.toml", ".continue/config.json", ".windsurf/x", ".clinerules/a.md", ".clinerules",
        ".roo/mcp.json",
        "opencode.json", ".kiro/hooks/a", ".config/mise/config.toml", ".config/mise.toml", ".mise.local.toml",
        ".autoenv.zsh", ".vimrc", ".nvim/init.lua", ".fleet/run.json", ".run/x.run.xml", ".zed/tasks.json", ".irbrc",
        ".overcommit.yml", ".huskyrc.json", ".lfsconfig", ".bundle/config", ".forgejo/workflows/ci.yml", "bunfig.toml",
        ".git/modules/m/config", ".gdbearlyinit", "Jenkinsfile.release", "CLAUDE.local.md", "rust-toolchain.toml",
        "sub/rust-toolchain", "global.json", "NuGet.Config", ".bazelversion", ".bazeliskrc", "tools/bazel", ".sbtopts",
        ".jvmopts", ".perldb", ".jdbrc", ".ctags.d/x.ctags", ".poetry/plugins/x/entry_points.txt", ".pdm-plugins/x.pth",
        "captainhook.json",
    ],
)  # fmt: skip
def test_tells_what_any_program_runs_or_obeys_when_it_is_started_there(path: str, tmp_path: Path) -> None:
    """F11: by kind; whatever is told is asked about, too."""
    (tmp_path / ".git/modules/m/objects").mkdir(parents=True)
    put(tmp_path, ".git/modules/m/HEAD", ".git/modules/m/refs/x")
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    assert changes(tmp_path, lambda folder: put(folder, path)) == (path,)
    assert changes(tmp_path, lambda folder: put(folder, path)) == (path,)
    assert trusted_name(f"/workspace/{path}", Place(home="/tmp", cwd="/workspace", workspace="/workspace"))


@pytest.mark.parametrize(
    "path",
    [
        "Makefile", "package.json", "tests/conftest.py", "setup.py", ".hg/store/00changelog.i", ".yarn/cache/a.zip",
        ".config/app.toml", ".jj/repo/store/x", "releases/yarn.cjs", "hgrc", "config.toml", "lefthooks.py",
        ".bundle/x/y",
        "eslint.config.js", "code-workspace", "Jenkins/x", ".gitignore", ".editorconfig",
    ],
)  # fmt: skip
def test_does_not_tell_what_one_asks_for_by_name(path: str, tmp_path: Path) -> None:
    """F11: builds, tests and linters are ordinary work, as is what tools keep for themselves."""
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    assert changes(tmp_path, lambda folder: put(folder, path)) == ()
    assert not trusted_name(f"/workspace/{path}", Place(home="/tmp", cwd="/workspace", workspace="/workspace"))


@pytest.mark.parametrize(
    ("config", "path"),
    [
        ("[core]\n\thooksPath = tools/hooks\n", "tools/hooks/pre-commit"),
        ("[core] hookspath=./tools/hooks ; here", "tools/hooks/pre-commit"),
        ('[core]\nhooksPath = "{top}/tools/hooks"\n', "tools/hooks/pre-commit"),
        ("[include]\n\tpath = ../build/git.inc\n", "build/git.inc"),
        ('[includeIf "onbranch:main"]\npath = ../build/git.inc\n', "build/git.inc"),
        ("[core]\nfsmonitor = ./bin/watch --fast\n", "bin/watch"),
        ("[alias]\n x = !sh bin/watch\n", "bin/watch"),
        ('[filter "a"]\n clean = python3 \\\n bin/watch %f\n', "bin/watch"),
        ("[core]\nattributesFile = build/attributes\n", "build/attributes"),
    ],
)
def test_what_git_is_told_to_run_or_obey_is_told(config: str, path: str, tmp_path: Path) -> None:
    """F11: the folder of core.hooksPath, the file of include.path, programs."""
    put_repository(tmp_path / ".git")
    put(tmp_path, path, "tools/other", "src/hooks/pre-commit")
    (tmp_path / ".git/config").write_text(config.replace("{top}", str(tmp_path)))
    assert changes(tmp_path, lambda folder: put(folder, path)) == (path,)
    assert changes(tmp_path, lambda folder: put(folder, "tools/other", "src/hooks/pre-commit")) == ()


def test_what_an_included_file_names_is_told(tmp_path: Path) -> None:
    """F11: settings of git that include others, and themselves."""
    put_repository(tmp_path / ".git")
    put(tmp_path, "hooks.d/pre-commit")
    (tmp_path / ".git/config").write_text("[include]\npath = ../a.inc\n")
    (tmp_path / "a.inc").write_text("[include]\npath = a.inc\n[core]\nhooksPath = hooks.d\n")
    assert changes(tmp_path, lambda folder: put(folder, "hooks.d/pre-commit")) == ("hooks.d/pre-commit",)


@pytest.mark.parametrize(
    "config",
    ["[remote \"o\"]\nurl = src\n", "[core]\nworktree = src\n", "[core]\nhooksPath = .\n",
     "[core]\nhooksPath = ../../x\n",
     "[core]\nhooksPath = /etc\n", "[user]\nname = src\n", "[core]\nhooksPath\n", "[", "\0",
     "[core]\nhooksPath = \"a\0b\"\n"],
)  # fmt: skip
def test_what_git_does_not_run_is_not_told(config: str, tmp_path: Path) -> None:
    """F11: and nothing outside is looked at, whatever is written there."""
    put_repository(tmp_path / ".git")
    put(tmp_path, "src/a")
    (tmp_path / ".git/config").write_text(config)
    assert changes(tmp_path, lambda folder: put(folder, "src/a", "b")) == ()


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o6711])
def test_program_that_runs_as_its_owner_is_told(mode: int, tmp_path: Path) -> None:
    """F11: who runs it here runs it as the user who works with odek."""
    put(tmp_path, "bin/a", "bin/b")
    before = see(tmp_path)
    time.sleep(TICK_S)
    (tmp_path / "bin/a").chmod(mode)
    after = take_snapshot(str(tmp_path.resolve()), now_ns=time.time_ns(), since_ns=before.taken_ns)
    assert diff_snapshots(before, after) == ("bin/a",)
    later = after.taken_ns + 10**12
    assert diff_snapshots(before, take_snapshot(str(tmp_path.resolve()), now_ns=later, since_ns=later)) == ()


LINKS = (
    "/proc/1/root/x",
    "/proc/self/mem",
    "/dev/zero",
    "x" * 4000,
    "loop",
    "../..",
    "/",
    "a/" * 200,
    "fifo",
    "\udcff",
)


@pytest.mark.parametrize("target", LINKS, ids=range(len(LINKS)))
@pytest.mark.parametrize(
    "name", ["AGENTS.md", ".git", ".vscode", ".git/hooks", ".git/config", "Dockerfile.odek", ".hg"]
)
def test_whatever_a_link_leads_to_the_list_comes(name: str, target: str, tmp_path: Path) -> None:
    """E2: an internal error took the place of the list; run by a user to whom /proc/1/root is closed."""
    user = os.geteuid()
    os.seteuid(65534 if may_become_others() else user)
    try:
        with tempfile.TemporaryDirectory() as folder_name:
            folder = Path(folder_name)
            put(folder, ".envrc")
            (folder / name).parent.mkdir(exist_ok=True)
            os.mkfifo(folder / "fifo")
            (folder / "loop").symlink_to("loop")
            before = see(folder)
            time.sleep(TICK_S)
            (folder / name).symlink_to(target)
            put(folder, ".envrc")
            assert diff_snapshots(before, see(folder)) == tuple(sorted((".envrc", name)))
    finally:
        os.seteuid(user)


@pytest.mark.parametrize("name", [b"a\xff/.envrc", b"\xfe.code-workspace", b"x\n/.vscode/a\x1b"])
def test_name_that_is_not_text_is_told(name: bytes, tmp_path: Path) -> None:
    """E2: names are bytes."""
    path = os.fsdecode(name)
    (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
    before = see(tmp_path)
    put(tmp_path, path)
    assert diff_snapshots(before, see(tmp_path)) != ()
    assert describe_changes(before, see(tmp_path)).isprintable()


def test_folder_that_is_exchanged_for_a_link_while_it_is_looked_at_shows_nothing_outside(tmp_path: Path) -> None:
    """E2: a thousand looks while somebody swaps the folder; none leaves the workspace, none fails."""
    import threading

    inside, outside = tmp_path / "inside", tmp_path / "outside"
    put(inside, "a/.vscode/tasks.json")
    put(outside, ".vscode/canary", ".envrc")
    done = threading.Event()

    def swap() -> None:
        while not done.is_set():
            (inside / "a").rename(inside / "b")
            (inside / "a").symlink_to(outside)
            (inside / "a").unlink()
            (inside / "b").rename(inside / "a")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(300):
            assert not {path for path in see(inside).found if "canary" in path or path.endswith(".envrc")}
    finally:
        done.set()
        thread.join()


def test_folder_that_is_skipped_takes_none_of_the_folders_of_a_look(tmp_path: Path) -> None:
    """F11: a /proc that is mounted below the folder hides nothing that lies deeper beside it."""
    for number in range(MAX_FOLDERS):
        (tmp_path / "proc" / str(number)).mkdir(parents=True)
    (tmp_path / "proc" / "1" / ".git" / "hooks").mkdir(parents=True)
    deep = tmp_path / "a" / "b" / "c"
    (deep / ".git" / "hooks").mkdir(parents=True)
    (deep / ".git" / "hooks" / "pre-commit").write_text("x")
    seen = take_snapshot(str(tmp_path.resolve()), now_ns=time.time_ns(), skipped=frozenset({"proc"}))
    assert (seen.whole, "a/b/c/.git/hooks/pre-commit" in seen.found) == (True, True)
    assert not any(path.startswith("proc/1/.git/") for path in seen.found)
    assert not take_snapshot(str(tmp_path.resolve()), now_ns=time.time_ns()).whole
