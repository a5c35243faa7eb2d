"""A file is the old one or the new one, whole, whatever happens (R-343, R-346)."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import resource
import signal
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from odek.update.release import UpdateError
from odek.update.replace import Replacement

OLD, NEW = b"old" * 1000, b"new" * 500_000


def replace(target: Path, content: bytes = NEW) -> None:
    with Replacement(str(target)) as new:
        descriptor = new.open_new()
        for at in range(0, len(content), 1 << 16):
            new.write(descriptor, content[at : at + (1 << 16)])
        os.close(descriptor)
        new.commit()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "odek"
    path.write_bytes(OLD)
    return path


def left(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("mode", [0o755, 0o700, 0o555, 0o4755])
def test_mode_and_owner_are_those_of_the_old_one(mode: int, target: Path) -> None:
    """R-346: but no bit that gives rights; a second name keeps the old content."""
    if os.geteuid() == 0:
        os.chown(target, 12345, 54321)
    target.chmod(mode)
    os.link(target, target.with_name("second"))
    before = target.stat()
    replace(target)
    after = target.stat()
    assert (after.st_uid, after.st_gid, stat.S_IMODE(after.st_mode)) == (before.st_uid, before.st_gid, mode & 0o777)
    assert (target.read_bytes(), target.with_name("second").read_bytes()) == (NEW, OLD)
    assert left(target.parent) == ["odek", "second"]


def test_the_new_one_is_private_until_it_is_in_place(target: Path) -> None:
    """R-343: what others may read or run is checked before."""
    with Replacement(str(target)) as new:
        os.close(new.open_new())
        folder, file = Path(new.path).parent.stat(), Path(new.path).stat()
        assert (stat.S_IMODE(folder.st_mode), stat.S_IMODE(file.st_mode)) == (0o700, 0o700)
        assert file.st_dev == target.stat().st_dev
    assert (target.read_bytes(), left(target.parent)) == (OLD, ["odek"])


def make_link(target: Path) -> None:
    target.unlink()
    target.symlink_to("elsewhere")


@pytest.mark.parametrize(
    "change",
    [lambda target: target.write_bytes(b"of another"), lambda target: target.unlink(), make_link],
    ids=["written", "removed", "a link"],
)
def test_a_file_that_changed_meanwhile_is_left(change: Callable[[Path], None], target: Path) -> None:
    """R-343: another update, or an installer, was quicker; a link is not followed."""
    (target.parent / "elsewhere").write_text("another program")
    with Replacement(str(target)) as new:
        os.close(new.open_new())
        change(target)
        with pytest.raises(UpdateError, match=r"has changed meanwhile|cannot be replaced"):
            new.commit()
    assert (target.parent / "elsewhere").read_text() == "another program"
    assert ".odek-update" not in left(target.parent)


def test_one_update_at_a_time(target: Path) -> None:
    """R-343: the second one says so, and what a killed one left is removed."""
    with (
        Replacement(str(target)),
        pytest.raises(UpdateError, match="another odek is being updated"),
        Replacement(str(target)),
    ):
        pass
    (target.parent / ".odek-update").mkdir()
    (target.parent / ".odek-update" / "odek").write_bytes(b"half of")
    replace(target)
    assert (target.read_bytes(), left(target.parent)) == (NEW, ["odek"])


@pytest.mark.parametrize("trap", ["link", "file", "another user's"])
def test_a_trap_in_place_of_the_private_folder_is_refused(trap: str, target: Path, tmp_path: Path) -> None:
    """R-343: in a folder that others may write, too."""
    trapped = target.parent / ".odek-update"
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "odek").write_text("precious")
    if trap == "link":
        trapped.symlink_to(victim)
    elif trap == "file":
        trapped.write_text("")
    else:
        if os.geteuid() != 0:
            pytest.skip("only root can give a folder away")
        trapped.mkdir()
        os.chown(trapped, 12345, 12345)
    with pytest.raises(UpdateError):
        replace(target)
    assert ((victim / "odek").read_text(), target.read_bytes(), os.path.lexists(trapped)) == ("precious", OLD, True)


def in_child(work: Callable[[], None]) -> int:
    """Start a process that does `work` and exits with 0, or with the errno that it ended with; return its id."""
    pid = os.fork()
    if pid:
        return pid
    code = 0
    try:
        work()
    except UpdateError as error:
        code = getattr(error.__cause__, "errno", 1) or 1
    except BaseException:
        code = 99
    finally:
        os._exit(code)


def test_a_full_disk_leaves_the_old_one(target: Path) -> None:
    """R-343: nothing half done; here it is a limit on the size of files that is reached."""

    def work() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        replace(target)

    _, status = os.waitpid(in_child(work), 0)
    assert os.waitstatus_to_exitcode(status) == errno.EFBIG
    assert (target.read_bytes(), left(target.parent)) == (OLD, ["odek"])


def test_kill_at_any_moment_leaves_one_of_the_two_whole(target: Path) -> None:
    """R-343: kill -9, 50 times; the next update removes what was left, and the lock goes with its process."""
    contents = [OLD, NEW]
    chance = random.Random(7)
    seen = set()
    for attempt in range(50):
        pid = in_child(lambda content=contents[attempt % 2]: replace(target, content))  # type: ignore[misc]
        time.sleep(chance.random() * 0.006)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        seen.add(os.path.exists(target.parent / ".odek-update"))
        assert target.read_bytes() in contents
    replace(target)
    assert (target.read_bytes(), left(target.parent)) == (NEW, ["odek"])
    assert True in seen, "it was never killed at work"


def test_the_lock_is_that_of_the_folder(target: Path) -> None:
    with Replacement(str(target)) as new:
        folder = os.open(os.path.dirname(new.path), os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(folder)
