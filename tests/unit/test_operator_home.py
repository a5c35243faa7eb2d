"""E3, F3: the operator's files are the operator's, whichever way HOME leads to a project or a stranger."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support.privileges import may_become_others

from odek.config.sources import read_operator_config, read_secrets
from odek.errors import StateFileError
from odek.operator_home import OperatorHome, find_operator_home, repositories_around
from odek.session.files import SessionFolder
from odek.state import StateFolder

SHOWN = "~/.odek/config.json"
EVIL = b'{"sandbox": false}'


def found(home: Path | str, cwd: Path, **env: str) -> OperatorHome:
    return find_operator_home(home=str(home), env=env, uid=os.getuid(), cwd=str(cwd))


def fill(folder: Path) -> None:
    """Put one of each of the operator's files into `folder`."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "sessions").mkdir(mode=0o700)
    for name in ("config.json", "secrets.env", "approvals.json", "builds.json", "repl_history", "sessions/a.jsonl"):
        (folder / name).write_bytes(EVIL)
        (folder / name).chmod(0o600)


READERS: dict[str, Callable[[OperatorHome], object]] = {
    "config": lambda where: read_operator_config(where, shown=SHOWN),
    "secrets": read_secrets,
    "approvals": lambda where: StateFolder(where).read_json("approvals.json"),
    "builds": lambda where: StateFolder(where).read("builds.json"),
    "history": lambda where: StateFolder(where).read("repl_history"),
    "sessions": lambda where: SessionFolder(where).names(),
    "one session": lambda where: SessionFolder(where).read_all("a.jsonl"),
    "writing": lambda where: StateFolder(where).write("approvals.json", b"{}"),
}


def assert_refused(where: OperatorHome, words: str) -> None:
    for name, read in READERS.items():
        with pytest.raises(StateFileError) as caught:
            read(where)
        assert words in caught.value.message, name
        assert "ODEK_HOME" in caught.value.hint, name


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A checkout with a submodule; whoever made it put operator's files everywhere."""
    root = tmp_path / "repo"
    for folder in ("", "a", "a/b", "sub", "sub/deep"):
        fill(root / folder / ".odek")
    (root / ".git").mkdir()
    (root / "sub" / ".git").write_text("gitdir: ../.git/modules/sub\n")
    return root


@pytest.mark.parametrize(
    ("home", "cwd", "place"),
    [
        (".", ".", "the working directory"),
        ("a", ".", "the working directory"),
        ("a/b", ".", "the working directory"),
        (".", "a", "the repository around"),
        ("a", "a/b", "the repository around"),
        ("a", "sub", "the repository around"),
        (".", "sub/deep", "the repository around"),
        ("sub", "sub/deep", "the repository around"),
        ("a", "sub/deep", "the repository around"),
    ],
)
def test_a_home_in_the_project_is_refused(home: str, cwd: str, place: str, repository: Path) -> None:
    """E3: HOME=$PWD, HOME below, above, beside; submodules; for every kind of file alike."""
    assert_refused(found(repository / home, repository / cwd), place)


@pytest.mark.parametrize("marker", [".git", ".hg", ".svn", ".jj", ".bzr"])
def test_any_kind_of_checkout_counts(marker: str, tmp_path: Path) -> None:
    """E3: a repository is not always git's."""
    fill(tmp_path / ".odek")
    (tmp_path / marker).mkdir()
    (tmp_path / "work").mkdir()
    assert_refused(found(tmp_path, tmp_path / "work"), "the repository around")


def test_a_home_that_leads_into_the_project_by_a_link_is_refused(repository: Path, tmp_path: Path) -> None:
    """E3: "or reached by a link"; also one that the project holds and that leads out of it."""
    (tmp_path / "home").symlink_to(repository / "a")
    assert_refused(found(tmp_path / "home", repository), "the working directory")
    fill(tmp_path / "outside" / ".odek")
    (repository / "out").symlink_to(tmp_path / "outside")
    assert_refused(found(repository / "out", repository), "the working directory")
    assert_refused(found(f"{repository}/a/../out", repository / "sub"), "the repository around")


@pytest.mark.parametrize("named", ["ODEK_HOME", "HOME"])
def test_odek_home_is_the_way_out_and_no_way_in(named: str, repository: Path, tmp_path: Path) -> None:
    """E3, D10: what ODEK_HOME names counts; inside of the project it is refused as HOME is."""
    fill(tmp_path / "own")
    where = found(repository, repository, ODEK_HOME=str(tmp_path / "own"))
    assert read_operator_config(where, shown=SHOWN) == EVIL
    assert SessionFolder(where).names() == ("a.jsonl",)
    inside = repository / "a" / ".odek"
    home = inside.parent if named == "HOME" else tmp_path
    env = {} if named == "HOME" else {"ODEK_HOME": str(inside)}
    assert_refused(found(home, repository, **env), "the working directory")


def test_a_project_below_home_is_the_normal_case(tmp_path: Path) -> None:
    """E3: nothing is refused there, whether or not the project is a repository."""
    fill(tmp_path / ".odek")
    project = tmp_path / "src" / "project"
    (project / ".git").mkdir(parents=True)
    where = found(tmp_path, project)
    assert where.workspaces == (str(project),)
    assert read_operator_config(where, shown=SHOWN) == EVIL
    StateFolder(where).write("approvals.json", b"{}")
    assert read_operator_config(found(f"{project}/../..", project), shown=SHOWN) == EVIL


def test_the_folder_is_made_private_where_odek_home_says(tmp_path: Path) -> None:
    """D10: CI has a temporary folder and no HOME."""
    project = tmp_path / "project"
    project.mkdir()
    where = found("", project, ODEK_HOME=str(tmp_path / "state"))
    assert read_operator_config(where, shown=SHOWN) is None
    StateFolder(where).write("approvals.json", b"{}")
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("value", ["", "state", "./state", "~/state"])
@pytest.mark.parametrize("name", ["ODEK_HOME", "ODEK_CONFIG"])
def test_a_place_that_depends_on_the_working_directory_is_no_place(name: str, value: str, tmp_path: Path) -> None:
    """D10: also an empty variable, `ODEK_HOME="$UNSET"`."""
    with pytest.raises(StateFileError, match=f'^{name} is "{value}", not an absolute path$'):
        found(tmp_path, tmp_path, **{name: value})


# who can write there -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o602, 0o620, 0o666, 0o664, 0o777])
def test_settings_that_others_can_write_are_refused(mode: int, tmp_path: Path) -> None:
    """F3: mode 0666 was obeyed; a group counts, whoever is in it."""
    fill(tmp_path / ".odek")
    (tmp_path / ".odek/config.json").chmod(mode)
    with pytest.raises(StateFileError) as caught:
        read_operator_config(found(tmp_path, tmp_path / "work"), shown=SHOWN)
    assert caught.value.message.startswith(f'"{SHOWN}" can be written by ')
    assert f"(mode {mode:04o})" in caught.value.message
    assert caught.value.hint == f"check what it holds, then chmod go-w {SHOWN}"


def test_settings_that_others_can_read_are_fine(tmp_path: Path) -> None:
    fill(tmp_path / ".odek")
    (tmp_path / ".odek/config.json").chmod(0o644)
    assert read_operator_config(found(tmp_path, tmp_path / "work"), shown=SHOWN) == EVIL


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775, 0o1775, 0o1770])
def test_a_home_that_others_can_write_is_refused(mode: int, tmp_path: Path) -> None:
    """F3: a HOME of mode 1777 was obeyed; who can write it can put another .odek there."""
    home = tmp_path / "home"
    fill(home / ".odek")
    home.chmod(mode)
    assert_refused(found(home, tmp_path / "work"), "can be written by")


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775, 0o722, 0o770])
@pytest.mark.parametrize("name", [".odek", "state", ".odek/sessions"])
def test_a_folder_of_the_operator_that_others_can_write_is_refused(name: str, mode: int, tmp_path: Path) -> None:
    """F3, E3: it was given mode 0700 and what lay in it was obeyed, though others could have planted or removed it."""
    home = tmp_path / "home"
    fill(home / name.partition("/")[0])
    named = {"ODEK_HOME": str(home / "state")} if name == "state" else {}
    (home / name).chmod(mode)
    where = found(home, tmp_path / "work", **named)
    for label, read in READERS.items():
        if name != ".odek/sessions" or "session" in label:
            with pytest.raises(StateFileError) as caught:
                read(where)
            assert caught.value.message.startswith(f'"{home / name}" can be written by '), label
            assert caught.value.message.endswith(f"(mode {mode:04o})")
            assert f'check what it holds, then chmod 700 "{home / name}"' in caught.value.hint
    assert (home / name).stat().st_mode & 0o7777 == mode  # nothing was done to it
    (home / name).chmod(0o700)
    assert READERS["config"](where) == EVIL


def test_a_folder_far_above_counts_and_a_sticky_one_does_not(tmp_path: Path) -> None:
    """F3: /tmp above is fine, a folder that others can rename things in is not."""
    home = tmp_path / "shared" / "home"
    fill(home / ".odek")
    work = tmp_path / "work"
    work.mkdir()
    home.parent.chmod(0o1777)
    assert read_operator_config(found(home, work), shown=SHOWN) == EVIL
    home.parent.chmod(0o777)
    assert_refused(found(home, work), f'"{home.parent}" can be written by all users (mode 0777)')


@pytest.mark.parametrize("given", ["", ".odek", "above", ".odek/config.json"])
def test_what_belongs_to_another_user_is_refused(given: str, tmp_path: Path) -> None:
    """F3: a stranger's file, folder, HOME, or a folder above it."""
    if not may_become_others():
        pytest.skip("only root can give a file away")
    home = tmp_path / "above" / "home"
    fill(home / ".odek")
    os.chown(home.parent if given == "above" else home / given, 12345, 12345)
    with pytest.raises(StateFileError, match=r"belongs to (another user|uid 12345)"):
        read_operator_config(found(home, tmp_path / "work"), shown=SHOWN)


# links ---------------------------------------------------------------------------------------------------------------


def test_settings_that_are_a_link_into_the_project_are_refused(tmp_path: Path) -> None:
    """F3: the sandbox rewrites the operator's policy, the next run sends the key to its base_url."""
    home, project = tmp_path / "home", tmp_path / "project"
    fill(home / ".odek")
    (project / "conf").mkdir(parents=True)
    (project / "conf/config.json").write_bytes(EVIL)
    (project / "conf/config.json").chmod(0o600)
    (home / ".odek/config.json").unlink()
    (home / ".odek/config.json").symlink_to(project / "conf/config.json")
    for cwd in (project, project / "conf"):
        (project / ".git").mkdir(exist_ok=True)
        with pytest.raises(StateFileError, match=r'^"~/\.odek/config\.json" lies in the '):
            read_operator_config(found(home, cwd), shown=SHOWN)
    assert read_operator_config(found(home, tmp_path / "work"), shown=SHOWN) == EVIL


def test_a_link_by_way_of_the_project_is_refused(tmp_path: Path) -> None:
    """F3: the file lies outside, and what leads to it can be turned by the sandbox."""
    home, project, own = tmp_path / "home", tmp_path / "project", tmp_path / "own"
    fill(home / ".odek")
    fill(own)
    project.mkdir()
    (project / "hop").symlink_to(own)
    (home / ".odek/config.json").unlink()
    (home / ".odek/config.json").symlink_to(project / "hop" / "config.json")
    with pytest.raises(StateFileError, match="lies in the working directory"):
        read_operator_config(found(home, project), shown=SHOWN)


def test_a_link_to_where_others_can_write_is_refused(tmp_path: Path) -> None:
    """F3: owned and writable by the operator alone, all the way."""
    home, shared = tmp_path / "home", tmp_path / "shared"
    fill(home / ".odek")
    fill(shared)
    (home / ".odek/config.json").unlink()
    (home / ".odek/config.json").symlink_to(shared / "config.json")
    shared.chmod(0o777)
    with pytest.raises(StateFileError, match="can be written by all users"):
        read_operator_config(found(home, tmp_path / "work"), shown=SHOWN)


@pytest.mark.parametrize("target", ["/proc/1/root/x", "/dev/zero", "/dev/tty", "config.json", "nowhere", "fifo", "."])
def test_a_link_to_what_is_no_file_is_an_error_and_not_a_crash(target: str, tmp_path: Path) -> None:
    """E2: whatever the file system answers is data."""
    from odek.errors import OdekError

    fill(tmp_path / ".odek")
    os.mkfifo(tmp_path / ".odek/fifo", 0o600)
    (tmp_path / ".odek/config.json").unlink()
    (tmp_path / ".odek/config.json").symlink_to(target)
    with pytest.raises(OdekError):
        read_operator_config(found(tmp_path, tmp_path / "work"), shown=SHOWN)


# ODEK_CONFIG ---------------------------------------------------------------------------------------------------------


def test_odek_config_names_the_settings(repository: Path, tmp_path: Path) -> None:
    """D10: one file, for CI without HOME; the same rules, and a missing one is not "no settings"."""
    file = tmp_path / "ci.json"
    file.write_bytes(b"{}")
    file.chmod(0o644)
    where = found("", repository, ODEK_CONFIG=str(file))
    assert read_operator_config(where, shown=SHOWN) == b"{}"
    file.chmod(0o664)
    with pytest.raises(StateFileError, match="can be written by the group"):
        read_operator_config(where, shown=SHOWN)
    inside = found(tmp_path, repository / "a", ODEK_CONFIG=str(repository / ".odek/config.json"))
    with pytest.raises(StateFileError, match="lies in the repository around"):
        read_operator_config(inside, shown=SHOWN)
    from odek.errors import ConfigError

    with pytest.raises(ConfigError, match="no such file"):
        read_operator_config(found(tmp_path, repository, ODEK_CONFIG=f"{tmp_path}/missing.json"), shown=SHOWN)


def test_every_repository_on_the_way_is_named(repository: Path) -> None:
    """F6."""
    assert repositories_around(str(repository / "sub" / "deep")) == (str(repository / "sub"), str(repository))
