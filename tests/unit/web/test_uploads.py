"""Uploads: how they are named, how long they are kept, and where."""

from __future__ import annotations

import itertools
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import pictures
from fakes.homes import operator_home
from fakes.layering import bare_host
from support.odek_process import Odek

from odek.app.attachments import Attachment
from odek.app.stored_sessions import open_store
from odek.web.errors import Refused
from odek.web.uploads import KEPT_S, Uploads, clean_name, unused_name

SESSION = "20261130-00000000000000000000000000000001"


@pytest.mark.parametrize(
    ("given", "cleaned"),
    [
        ("notes.txt", "notes.txt"),
        ("../../x", "x"),
        ("a/b", "b"),
        ("C:\\Users\\me\\x.txt", "x.txt"),
        (".bashrc", "bashrc"),
        ("...", "upload"),
        ("..", "upload"),
        ("", "upload"),
        ("a/", "upload"),
        (" . .env ", "env"),
        ("a\x00b\x1b[31m\u202e\u200bc\n.txt", "ab[31mc.txt"),
        ("x" * 300, "x" * 200),
        ("x" * 300 + ".tar.gz", "x" * 197 + ".gz"),
        ("ä" * 300, "ä" * 100),
        ("😀" * 100 + ".png", "😀" * 49 + ".png"),
        ("a." + "b" * 300, "a." + "b" * 198),
        ("größe 2.pdf", "größe 2.pdf"),
        ("\u115f", "upload"),
    ],
)
def test_name_is_a_plain_one(given: str, cleaned: str) -> None:
    """R-143, W-17."""
    assert clean_name(given) == cleaned
    assert clean_name(cleaned) == cleaned
    assert len(os.fsencode(cleaned)) <= 200


def test_equal_names_get_a_number() -> None:
    taken = ("a.txt", "a-2.txt", "b", ".c")
    assert [unused_name(name, taken) for name in ("a.txt", "b", "d", "a-2.txt")] == ["a-3.txt", "b-2", "d", "a-2-2.txt"]


class Setting:
    def __init__(self, tmp_path: Path) -> None:
        self.now = 1_000_000.0
        home = tmp_path / "home"
        home.mkdir(mode=0o700)
        self.folder = home / ".odek" / "uploads"
        numbers = itertools.count(1)
        self.uploads = Uploads(
            operator_home(home), random_hex=lambda size: f"{next(numbers):0{2 * size}x}", clock=lambda: self.now
        )

    def keep(self, name: str, data: bytes = b"abc", browser: str = "b1") -> str:
        return str(self.uploads.keep(name, data, browser)["id"])

    def files(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self.folder)): path.read_bytes() for path in self.folder.rglob("*") if path.is_file()
        }


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(tmp_path)


def test_upload_waits_and_then_belongs_to_the_session(setting: Setting) -> None:
    """R-143, W-17: private, under its name, which no other file of the session has."""
    ids = [setting.keep("a.txt", b"one"), setting.keep("../a.txt", b"two"), setting.keep("c", b"")]
    assert sorted(setting.files().values()) == [b"", b"one", b"two"]
    taken = setting.uploads.take([ids[0], ids[1], ids[0]], SESSION)
    where = os.path.realpath(setting.folder / SESSION)
    assert taken == (
        Attachment(name="a.txt", source="upload:a.txt", path=f"{where}/a.txt", relative="", data=b"one"),
        Attachment(name="a-2.txt", source="upload:a-2.txt", path=f"{where}/a-2.txt", relative="", data=b"two"),
    )
    assert setting.files() == {f"b1/{ids[2]}": b"", f"{SESSION}/a.txt": b"one", f"{SESSION}/a-2.txt": b"two"}
    for path in setting.folder.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    assert setting.uploads.take(ids[:1], SESSION) == taken[:1]


def test_picture_is_shown_to_the_model_and_other_files_are_for_the_tools(setting: Setting) -> None:
    """R-143: by its bytes, whatever its name says; a damaged one is a file."""
    picture = pictures.png(3, 2)
    sent = {"a.png": picture, "shot": picture, "b.png": b"text", "c.png": picture[:12]}
    taken = setting.uploads.take([setting.keep(name, data) for name, data in sent.items()], SESSION)
    assert [file.name for file in taken if file.is_image] == ["a.png", "shot"]


def test_message_that_failed_can_be_sent_again(setting: Setting) -> None:
    """R-156: under the id of another session, as its first message makes one."""
    upload = setting.keep("a.txt")
    setting.uploads.take([upload], SESSION)
    (again,) = setting.uploads.take([upload], "20261130-00000000000000000000000000000002")
    assert again.data == b"abc"


def test_unknown_changed_and_removed_files_are_refused(setting: Setting) -> None:
    known = setting.keep("a.txt")
    for ids, status in ((["x"], 422), ([known, "x"], 422), (["../../etc/passwd"], 422)):
        with pytest.raises(Refused) as caught:
            setting.uploads.take(ids, SESSION)
        assert caught.value.status == status
    assert list(setting.files()) == [f"b1/{known}"]
    (setting.folder / "b1" / known).write_bytes(b"other")
    with pytest.raises(Refused, match="not what it was"):
        setting.uploads.take([known], SESSION)
    setting.uploads.drop(known)
    for upload_id in (known, "x"):
        with pytest.raises(Refused) as caught:
            setting.uploads.drop(upload_id)
        assert caught.value.status == 404
    assert setting.files() == {}


def test_links_below_the_folder_are_not_followed(setting: Setting, tmp_path: Path) -> None:
    """A link in the place of an upload, or of a folder, never leads to another file."""
    known = setting.keep("a.txt")
    target = tmp_path / "target"
    target.write_text("secret")
    (setting.folder / "b1" / known).unlink()
    (setting.folder / "b1" / known).symlink_to(target)
    with pytest.raises(Refused) as caught:
        setting.uploads.take([known], SESSION)
    assert caught.value.status == 507
    (setting.folder / "b2").symlink_to(tmp_path)
    with pytest.raises(Refused) as caught:
        setting.keep("a", browser="b2")
    assert caught.value.status == 507
    assert target.read_text() == "secret"


def test_no_more_may_wait_than_there_is_room_for(setting: Setting) -> None:
    """R-143: what is on its way counts, what was sent does not."""
    setting.uploads.reserve(40 << 20)
    with pytest.raises(Refused) as caught:
        setting.uploads.reserve(25 << 20)
    assert caught.value.status == 507
    setting.uploads.release(40 << 20)
    kept = setting.keep("a", b"x" * (1 << 20))
    with pytest.raises(Refused):
        setting.uploads.reserve(64 << 20)
    setting.uploads.take([kept], SESSION)
    setting.uploads.reserve(64 << 20)


def test_unsent_files_go_after_an_hour_or_with_the_server(setting: Setting) -> None:
    """R-143: sent ones stay as long as their session."""
    old, sent = setting.keep("a"), setting.keep("b")
    setting.uploads.take([sent], SESSION)
    setting.now += KEPT_S
    young = setting.keep("c")
    setting.uploads.expire()
    assert set(setting.files()) == {f"{SESSION}/b", f"b1/{young}"}
    with pytest.raises(Refused):
        setting.uploads.take([old], SESSION)
    setting.uploads.close()
    assert set(setting.files()) == {f"{SESSION}/b"}
    setting.uploads.forget(SESSION)
    assert list(setting.folder.iterdir()) == []


def test_what_others_left_behind_is_swept(setting: Setting) -> None:
    for folder, age in (("b9", 7200), ("b8", 10), (SESSION, 7200), ("20260101-gone", 7200)):
        (setting.folder / folder).mkdir(parents=True, mode=0o700)
        path = setting.folder / folder / "f"
        path.touch(mode=0o600)
        os.utime(path, (setting.now - age, setting.now - age))
    for each in (setting.folder, setting.folder.parent):
        each.chmod(0o700)
    setting.uploads.sweep(lambda name: name == SESSION)
    assert set(setting.files()) == {"b8/f", f"{SESSION}/f"}


def test_session_that_is_deleted_at_the_terminal_takes_its_files_along(tmp_path: Path) -> None:
    """R-143: `odek session delete` and `cleanup`, without a server."""
    odek = Odek(home=tmp_path / "home", cwd=tmp_path / "cwd")
    odek.cwd.mkdir()
    uploads = Setting(tmp_path).folder
    host = replace(bare_host(str(odek.cwd)), home=str(odek.home))
    for action in ("delete", "cleanup"):
        store = open_store(host, str, warn=print)
        with store.create(task="t", model="m", sandbox=False, cwd=host.cwd) as recorder:
            session = recorder.id
        for folder in (uploads / session, uploads / "of-another"):
            folder.mkdir(parents=True, mode=0o700, exist_ok=True)
            (folder / "a.txt").touch(mode=0o600)
        outcome = odek.run("session", action, *((session,) if action == "delete" else ("0", "--yes")))
        assert outcome.code == 0, outcome.stderr
        assert [path.name for path in uploads.iterdir()] == ["of-another"]
