"""Files below ~/.odek: who may have written them, what they hold, how they change."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fakes.homes import operator_home
from support.privileges import may_become_others

from odek import strict_json
from odek.errors import StateFileError
from odek.operator_home import way_out_of
from odek.state import StateFolder

UID = os.getuid()
NAME = "approvals.json"


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    return StateFolder(operator_home(tmp_path))


def plant(home: Path, data: bytes, *, mode: int = 0o600) -> Path:
    (home / ".odek").mkdir(mode=0o700, exist_ok=True)
    path = home / ".odek" / NAME
    path.write_bytes(data)
    path.chmod(mode)
    return path


def permissions(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_missing_file_and_folder_read_as_none_and_are_not_made(folder: StateFolder, tmp_path: Path) -> None:
    assert (folder.read(NAME), folder.read_json(NAME)) == (None, None)
    assert list(tmp_path.iterdir()) == []
    plant(tmp_path, b"{}").unlink()
    assert folder.read(NAME) is None


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_written_file_is_private_whatever_the_umask(folder: StateFolder, tmp_path: Path, umask: int) -> None:
    """R-61, F-60: 0600 in a folder of 0700."""
    (tmp_path / ".odek").mkdir(mode=0o700)
    before = os.umask(umask)
    try:
        folder.write_json(NAME, {"b": 1, "a": True})
    finally:
        os.umask(before)
    path = tmp_path / ".odek" / NAME
    assert (permissions(path), permissions(path.parent)) == (0o600, 0o700)
    assert path.read_bytes() == b'{\n  "a": true,\n  "b": 1\n}\n'
    assert folder.read_json(NAME) == {"a": True, "b": 1}


def test_folders_below_are_made_and_private(tmp_path: Path) -> None:
    """F-60."""
    sessions = StateFolder(operator_home(tmp_path), parts=("sessions", "audit"))
    sessions.write("x", b"1")
    made = [tmp_path / ".odek", tmp_path / ".odek/sessions", tmp_path / ".odek/sessions/audit"]
    assert [permissions(path) for path in made] == [0o700] * 3
    assert sessions.path("x") == f"{tmp_path}/.odek/sessions/audit/x"
    assert sessions.read("x") == b"1"


def test_readable_folder_is_made_private_before_anything_is_read(folder: StateFolder, tmp_path: Path) -> None:
    """F-60: a folder that another tool made 0755."""
    path = plant(tmp_path, b"{}")
    path.parent.chmod(0o755)
    assert folder.read_json(NAME) == {}
    assert permissions(path.parent) == 0o700


@pytest.mark.parametrize("mode", [0o604, 0o640, 0o620, 0o602, 0o601, 0o666])
def test_file_open_to_others_is_refused(folder: StateFolder, tmp_path: Path, mode: int) -> None:
    """R-61, B30: an approvals file made 0666."""
    path = plant(tmp_path, b"{}", mode=mode)
    with pytest.raises(StateFileError) as caught:
        folder.read(NAME)
    assert caught.value.message == f'"{path}" is open to other users (mode {mode:04o})'
    assert caught.value.hint == f'check what it holds, then chmod 600 "{path}"'


def test_file_of_another_user_is_refused(tmp_path: Path) -> None:
    """R-61: whoever owns the file wrote the approvals."""
    if not may_become_others():
        pytest.skip("only root can give a file away")
    path = plant(tmp_path, b"{}")
    os.chown(path, 12345, 12345)
    with pytest.raises(StateFileError, match="belongs to another user"):
        StateFolder(operator_home(tmp_path)).read(NAME)


def test_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    """R-61: its owner could put any file there."""
    plant(tmp_path, b"{}")
    stranger = StateFolder(operator_home(tmp_path, uid=UID + 1))
    for attempt in (lambda: stranger.read(NAME), lambda: stranger.write(NAME, b"")):
        with pytest.raises(StateFileError) as caught:
            attempt()
        assert caught.value.message == f'"{tmp_path}/.odek" belongs to another user'
    assert (tmp_path / ".odek" / NAME).read_bytes() == b"{}"


def test_link_in_place_of_the_file_is_refused(folder: StateFolder, tmp_path: Path) -> None:
    """R-61, B30: an approvals file replaced by a symlink; a dangling one is not a missing file."""
    path = plant(tmp_path, b"{}")
    for target in ("elsewhere", "nowhere"):
        (tmp_path / "elsewhere").write_bytes(b"{}")
        path.unlink()
        path.symlink_to(tmp_path / target)
        with pytest.raises(StateFileError) as caught:
            folder.read(NAME)
        assert (caught.value.message, caught.value.hint) == (f'"{path}" is a symbolic link', "remove the link")


def test_link_in_place_of_the_folder_is_refused(folder: StateFolder, tmp_path: Path) -> None:
    """R-61: everything in it would be somewhere else."""
    (tmp_path / "other").mkdir(mode=0o700)
    (tmp_path / ".odek").symlink_to("other")
    for attempt in (lambda: folder.read(NAME), lambda: folder.write(NAME, b"{}")):
        with pytest.raises(StateFileError) as caught:
            attempt()
        assert caught.value.message == f'"{tmp_path}/.odek" is a link or no folder'
    assert list((tmp_path / "other").iterdir()) == []


def test_writing_replaces_a_link_and_not_what_it_points_to(folder: StateFolder, tmp_path: Path) -> None:
    path = plant(tmp_path, b"{}")
    (tmp_path / "target").write_bytes(b"precious")
    path.unlink()
    path.symlink_to(tmp_path / "target")
    folder.write(NAME, b"new")
    assert ((tmp_path / "target").read_bytes(), path.read_bytes(), path.is_symlink()) == (b"precious", b"new", False)


@pytest.mark.parametrize("kind", ["fifo", "folder"])
def test_anything_but_a_regular_file_is_refused_without_waiting(folder: StateFolder, tmp_path: Path, kind: str) -> None:
    """B37: a FIFO nobody writes to must not hang the program."""
    path = plant(tmp_path, b"")
    path.unlink()
    os.mkfifo(path, 0o600) if kind == "fifo" else path.mkdir(mode=0o700)
    with pytest.raises(StateFileError, match="is not a regular file"):
        folder.read(NAME)


def test_file_over_the_limit_is_refused(folder: StateFolder, tmp_path: Path) -> None:
    """B46: a sparse file of 3 GB is not read into memory."""
    path = plant(tmp_path, b"")
    os.truncate(path, 3 << 30)
    with pytest.raises(StateFileError) as caught:
        folder.read(NAME, limit_bytes=100)
    assert caught.value.message == f'"{path}" is larger than 100 bytes'
    os.truncate(path, 100)
    assert folder.read(NAME, limit_bytes=100) == bytes(100)


@pytest.mark.parametrize("name", ["", ".", "..", "../config", "a/b", "/etc/passwd", "a\0b"])
def test_name_that_leaves_the_folder_is_refused(folder: StateFolder, tmp_path: Path, name: str) -> None:
    """B46: an id `../../config`."""
    (tmp_path / ".odek").mkdir(mode=0o700)
    for attempt in (lambda: folder.read(name), lambda: folder.write(name, b"x")):
        with pytest.raises(StateFileError, match="cannot be the name of a state file"):
            attempt()
    if name:
        with pytest.raises(StateFileError, match="cannot be the name of a state file"):
            StateFolder(operator_home(tmp_path), parts=(name,))
    assert sorted(path.name for path in tmp_path.rglob("*")) == [".odek"]


def test_folder_that_cannot_be_made_or_opened_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StateFileError) as caught:
        StateFolder(operator_home("/proc")).write(NAME, b"")
    assert caught.value.message == '"/proc/.odek" cannot be made'
    long = "x" * 300
    with pytest.raises(StateFileError) as caught:
        StateFolder(operator_home(tmp_path), parts=(long,)).write(NAME, b"")
    assert caught.value.message == f'"{tmp_path}/.odek/{long}" cannot be opened: File name too long'


@pytest.mark.parametrize("home", ["", "/nonexistent/home"])
def test_without_a_home_nothing_is_read_or_written(home: str) -> None:
    nowhere = StateFolder(operator_home(home))
    for attempt in (lambda: nowhere.read(NAME), lambda: nowhere.write(NAME, b"")):
        with pytest.raises(StateFileError) as caught:
            attempt()
        assert caught.value.hint == "set HOME or ODEK_HOME"


def test_failed_write_leaves_the_old_file_and_no_other(folder: StateFolder, tmp_path: Path) -> None:
    """B46: a write that cannot be finished (here: a folder in the way) changes nothing."""
    path = plant(tmp_path, b"")
    path.unlink()
    path.mkdir()
    with pytest.raises(StateFileError, match="cannot be written: Is a directory"):
        folder.write(NAME, b"new")
    assert [entry.name for entry in path.parent.iterdir()] == [NAME]


@pytest.mark.parametrize(
    ("number", "hint"),
    [(errno.ENOSPC, "free some space"), (errno.EDQUOT, "free some space"), (errno.EIO, "check the disk and")],
)
def test_full_disk_is_told_apart(number: int, hint: str, folder: StateFolder) -> None:
    assert folder._failed(NAME, "written", OSError(number, "no")).hint.startswith(hint)


def test_file_system_that_is_read_only_names_the_way_out(folder: StateFolder) -> None:
    """R-379: ODEK_HOME, and not an owner or a mode that are as they should be."""
    error = OSError(errno.EROFS, os.strerror(errno.EROFS))
    assert "let ODEK_HOME name a folder" in folder._failed("x", "written", error).hint
    assert way_out_of(error, "check its owner").startswith("nothing can be written there; let ODEK_HOME")
    assert way_out_of(OSError(errno.EACCES, ""), "check its owner") == "check its owner"


def test_full_disk_leaves_the_old_file_and_no_other(folder: StateFolder, tmp_path: Path) -> None:
    """B46: the old file is never replaced by a shorter one."""
    import resource
    import signal

    path = plant(tmp_path, b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # EFBIG in the middle, as a full disk gives ENOSPC
    try:
        with pytest.raises(StateFileError, match="cannot be written: File too large"):
            folder.write(NAME, bytes(100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == b"old"
    assert [entry.name for entry in path.parent.iterdir()] == [NAME]


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
        (b'{\r\n"a": [1, 2.5, null, true]\r\n}\r\n', {"a": [1, 2.5, None, True]}),
        (b'"\\ud83d"', "\ud83d"),
        (b"0", 0),
    ],
)
def test_strict_json_accepts(data: bytes, value: object) -> None:
    """B37: a byte order mark and CRLF are fine."""
    assert strict_json.parse(data) == value


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "line 1, column 1: the file ends too early"),
        (b'{"a": 1', "line 1, column 8: the file ends too early"),
        (b'{"a": 1} x', "line 1, column 10: extra data"),
        ('{"a": 1}'.encode("utf-16"), "it is not UTF-8 but looks like UTF-16"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b"[-Infinity]", "-Infinity is not JSON"),
        (b"1e999", "the number 1e999 is too large"),
        (b"9" * 5000, "the number 99999999999999999999999… is too large"),
        (b"[" * 100_000, "it is nested too deeply"),
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', 'the key "c" is in one object twice'),
        (b'{"ab": 1, "a\\u0062": 2}', 'the key "ab" is in one object twice'),
        (b'{"\\u001b": 1, "\\u001b": 2}', 'the key "\\u001b" is in one object twice'),
    ],
)
def test_strict_json_refuses(folder: StateFolder, tmp_path: Path, data: bytes, reason: str) -> None:
    """B37, B38: what does not parse is damaged, never absent; duplicate keys name the key."""
    with pytest.raises(ValueError) as caught:
        strict_json.parse(data)
    assert str(caught.value) == reason
    path = plant(tmp_path, data)
    with pytest.raises(StateFileError) as refused:
        folder.read_json(NAME)
    assert refused.value.message == f'"{path}" is damaged: {reason}'


@pytest.mark.parametrize("data", [b'{"a": 1,}', b'{"a": 1 // no\n}'])
def test_strict_json_refuses_comments_and_trailing_commas(data: bytes) -> None:
    """B37 (the words for it differ between Python versions)."""
    with pytest.raises(ValueError, match=r"^line 1, column "):
        strict_json.parse(data)


def test_bare_null_is_damage_and_not_absence(folder: StateFolder, tmp_path: Path) -> None:
    """B46: a state file that holds `null`."""
    plant(tmp_path, b"null")
    with pytest.raises(StateFileError, match="is damaged: it holds nothing but null"):
        folder.read_json(NAME)


def test_hostile_path_is_shown_escaped(tmp_path: Path) -> None:
    """R-64."""
    home = tmp_path / "a\x1b[2Kb"
    home.mkdir()
    plant(home, b"", mode=0o644)
    with pytest.raises(StateFileError) as caught:
        StateFolder(operator_home(home)).read(NAME)
    assert caught.value.message == f'"{tmp_path}/a\\x1b[2Kb/.odek/{NAME}" is open to other users (mode 0644)'


def test_lock_is_refused_while_another_holds_it_and_names_the_holder(folder: StateFolder, tmp_path: Path) -> None:
    """B45: bounded waiting, and the holder's pid."""
    now = [0.0]
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        now[0] += seconds

    with folder.locked(NAME):
        with pytest.raises(StateFileError) as caught:
            folder.locked(NAME, wait_s=0.05, clock=lambda: now[0], sleep=nap).__enter__()
        with folder.locked("other"):
            pass
    assert caught.value.message == f'"{tmp_path}/.odek/{NAME}" is in use by process {os.getpid()}'
    assert naps == [0.02, 0.02, 0.02]
    with folder.locked(NAME, sleep=lambda _: pytest.fail("the lock was not let go")):
        pass


def test_lock_waits_until_the_holder_lets_go(folder: StateFolder) -> None:
    holder = folder.locked(NAME)
    holder.__enter__()

    def let_go(seconds: float) -> None:
        holder.__exit__(None, None, None)

    with folder.locked(NAME, sleep=let_go), pytest.raises(StateFileError, match="is in use"):
        folder.locked(NAME, wait_s=0).__enter__()


def test_lock_is_let_go_when_the_work_fails(folder: StateFolder) -> None:
    with pytest.raises(KeyError), folder.locked(NAME):
        raise KeyError
    with folder.locked(NAME, wait_s=0):
        pass


def test_lock_of_a_killed_process_does_not_block(folder: StateFolder, tmp_path: Path) -> None:
    """B45: a stale lock of a dead process."""
    code = (
        "import os, signal, sys; from tests.fakes.homes import operator_home; from odek.state import StateFolder\n"
        f"with StateFolder(operator_home(sys.argv[1])).locked({NAME!r}):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    root = Path(__file__).resolve().parents[2]
    ended = subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=root, check=False)
    assert ended.returncode == -9
    assert (tmp_path / ".odek" / f"{NAME}.lock").exists()
    with folder.locked(NAME, wait_s=0):
        pass


def test_link_in_place_of_the_lock_is_refused(folder: StateFolder, tmp_path: Path) -> None:
    plant(tmp_path, b"{}")
    (tmp_path / "victim").write_bytes(b"precious")
    (tmp_path / ".odek" / f"{NAME}.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(StateFileError, match="is a symbolic link"):
        folder.locked(NAME).__enter__()
    assert (tmp_path / "victim").read_bytes() == b"precious"


def test_processes_that_count_under_the_lock_lose_nothing(folder: StateFolder, tmp_path: Path) -> None:
    """F-99: read, change and write are one step for all processes."""
    code = (
        "import os, sys; from tests.fakes.homes import operator_home; from odek.state import StateFolder\n"
        "folder = StateFolder(operator_home(sys.argv[1]))\n"
        "for _ in range(10):\n"
        "    with folder.locked('n', wait_s=60):\n"
        "        folder.write_json('n', 1 + (folder.read_json('n') or 0))"
    )
    root = Path(__file__).resolve().parents[2]
    running = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=root) for _ in range(5)]
    assert [child.wait() for child in running] == [0] * 5
    assert json.loads((tmp_path / ".odek" / "n").read_bytes()) == 50
    assert sorted(entry.name for entry in (tmp_path / ".odek").iterdir()) == ["n", "n.lock"]
