"""The folder of sessions: what is in it, whatever is in it."""

from __future__ import annotations

import json
import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from fakes.sessions import FIRST_ID, NOON, NOON_TEXT, SYSTEM, Sessions, calls, interrupted, result, resumed, said, user

from odek.errors import StateFileError, UsageError
from odek.model.types import Message, Usage
from odek.session.groups import history
from odek.session.store import Cleaned, Unreadable, plan_cleanup
from odek.session.transcript import Header, State, Summary

OLD_ID = "20250101-old"
NONE = Usage()


@pytest.fixture
def sessions(tmp_path: Path) -> Sessions:
    return Sessions(tmp_path)


def names(sessions: Sessions) -> list[str]:
    return sorted(path.name for path in sessions.path.iterdir())


def old_object(session_id: str = OLD_ID, **changed: object) -> bytes:
    fields = {
        "id": session_id,
        "auth_token": "00",
        "created_at": "2025-01-01T00:00:00Z",
        "updated_at": "2025-01-02T00:00:00Z",
        "model": "",
        "turns": 2,
        "task": "old",
        "sandbox": False,
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "old"}],
    }
    return json.dumps({**fields, **changed}).encode()


def test_new_session_is_private_and_listed(sessions: Sessions) -> None:
    """R-85, F-33, F-60: label, model, folder, sandbox bit and times; 0600 in 0700."""
    assert sessions.make(SYSTEM, user("x"), task="look around") == FIRST_ID
    path = sessions.file()
    assert [place.stat().st_mode & 0o7777 for place in (path, sessions.path, sessions.path.parent)] == [
        0o600,
        0o700,
        0o700,
    ]
    summary = Summary(
        header=Header(id=FIRST_ID, created_at=NOON_TEXT, task="look around", sandbox=True),
        state=State(
            updated_at=NOON_TEXT,
            turns=1,
            model="small",
            cwd="/work",
            usage=Usage(input_tokens=10, output_tokens=2, cached_tokens=1),
        ),
    )
    listing = sessions.store.list()
    assert (listing.sessions, listing.damaged) == ((summary,), ())


def test_nothing_is_listed_and_nothing_made_without_sessions(sessions: Sessions, tmp_path: Path) -> None:
    listing = sessions.store.list()
    assert (listing.sessions, listing.damaged) == ((), ())
    for attempt in (sessions.store.read, sessions.store.delete, sessions.store.export):
        with pytest.raises(StateFileError, match=f'^there is no session "{FIRST_ID}"$'):
            attempt(FIRST_ID)
    assert list(tmp_path.iterdir()) == []


def test_long_task_is_a_short_label(sessions: Sessions) -> None:
    sessions.make(user("x"), task="y" * 2000)
    (summary,) = sessions.store.list().sessions
    assert summary.header.task == "y" * 499 + "…"


def test_list_is_newest_first_by_last_use(sessions: Sessions) -> None:
    ids = []
    for hours in (2, 0, 1):
        sessions.now = NOON + hours * 3600
        ids.append(sessions.make(user("x")))
    sessions.plant(f"{OLD_ID}.json", old_object())
    assert [summary.header.id for summary in sessions.store.list().sessions] == [ids[0], ids[2], ids[1], OLD_ID]


@pytest.mark.parametrize("size", [10, 20_000, 300_000])
def test_list_shows_the_last_state_however_long_the_lines_are(sessions: Sessions, size: int) -> None:
    """R-85: a torn line longer than what a list reads of the end included."""
    sessions.make(SYSTEM, user("x"), said("y" * size))
    with sessions.file().open("ab") as file:
        file.write(b'{"kind":"message","message":' + b"z" * size)
    (summary,) = sessions.store.list().sessions
    assert (summary.state.turns, summary.state.usage.input_tokens) == (1, 10)


def test_list_shows_a_session_with_a_long_header(sessions: Sessions) -> None:
    sessions.plant(f"{OLD_ID}.json", old_object(buffer="z" * 100_000))
    with sessions.store.open(OLD_ID):
        pass
    (summary,) = sessions.store.list().sessions
    assert (summary.header.id, len(summary.header.extra["buffer"])) == (OLD_ID, 100_000)


def test_damaged_files_are_listed_and_hide_nothing(sessions: Sessions, tmp_path: Path) -> None:
    """B46, F-105: what may lie in the folder; the good session is listed, read and found all the same."""
    good = sessions.make(user("x"))
    where = sessions.path
    for name in ("a.json", "b.jsonl"):
        sessions.plant(name, b"")
    sessions.plant("c.json", b'{"id": "c", "mess')
    sessions.plant("d.json", b"null")
    (where / "e.json").mkdir()
    (where / "f.jsonl").symlink_to("/etc/passwd")
    for name in ("g.json", "g2.jsonl"):
        os.truncate(sessions.plant(name, b""), 3 << 30)
    os.mkfifo(where / "h.jsonl", 0o600)
    sessions.plant("i.json", old_object("other\x1b[2J"))
    sessions.plant("j.json", old_object("../../config"))
    sessions.plant("k..l.json", old_object("k..l"))
    sessions.plant("m.json", old_object("m")).chmod(0o644)
    sessions.plant("n.jsonl", sessions.file().read_bytes())
    sessions.plant("o.json", b'{"id":"o","id":"o"}')
    weird = os.fsencode(where) + b"/we\xffird.json"
    with open(os.open(weird, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
        file.write(b"x")
    for ignored in ("index.json", ".tmp-1.json", "notes.txt", "z.lock"):
        sessions.plant(ignored, b"x")
    listing = sessions.store.list()
    assert [summary.header.id for summary in listing.sessions] == [good]
    damaged = {
        "a.json": f'"{where}/a.json" is damaged: line 1, column 1: the file ends too early',
        "b.jsonl": f'"{where}/b.jsonl" is damaged: it is empty',
        "c.json": f'"{where}/c.json" is damaged: line 1, column ',
        "d.json": f'"{where}/d.json" is damaged: it is not a JSON object',
        "e.json": f'"{where}/e.json" is not a regular file',
        "f.jsonl": f'"{where}/f.jsonl" is a symbolic link',
        "g.json": f'"{where}/g.json" is larger than 32 MiB',
        "g2.jsonl": f'"{where}/g2.jsonl" is larger than 32 MiB',
        "h.jsonl": f'"{where}/h.jsonl" is not a regular file',
        "i.json": f'"{where}/i.json" is damaged: it says that its id is "other\\x1b[2J"',
        "j.json": f'"{where}/j.json" is damaged: it says that its id is "../../config"',
        "k..l.json": '"k..l" is not the id of a session',
        "m.json": f'"{where}/m.json" is open to other users (mode 0644)',
        "n.jsonl": f'"{where}/n.jsonl" is damaged: it says that its id is "{good}"',
        "o.json": f'"{where}/o.json" is damaged: the key "id" is in one object twice',
        "we\udcffird.json": f'"{where}/we\\udcffird.json" is damaged: line 1, column ',
    }
    assert [entry.name for entry in listing.damaged] == sorted(damaged)
    for entry in listing.damaged:
        assert entry.reason.startswith(damaged[entry.name])
    assert sessions.store.read(good).header.id == good


@pytest.mark.parametrize("kind", ["empty", "link", "fifo", "not UTF-8"])
def test_damaged_session_can_be_deleted_and_is_not_opened(sessions: Sessions, kind: str) -> None:
    """F-105: nothing in the folder is in the way for ever; what a link points to stays."""
    session_id = "we\udcffird" if kind == "not UTF-8" else "x"
    path = sessions.plant(f"{session_id}.jsonl", b"")
    if kind == "link":
        path.unlink()
        path.symlink_to(sessions.plant("target", b"precious"))
    if kind == "fifo":
        path.unlink()
        os.mkfifo(path, 0o600)
    with pytest.raises(StateFileError), sessions.store.open(session_id):
        pytest.fail("opened")
    sessions.store.delete(session_id)
    left = {"target": b"precious"} if kind == "link" else {}
    locks = {name for name in names(sessions) if name.endswith(".lock")}
    assert {name: (sessions.path / name).read_bytes() for name in names(sessions)} == left
    assert locks == set()


def test_unknown_session_cannot_be_deleted(sessions: Sessions) -> None:
    """F-35."""
    sessions.make(user("x"))
    before = names(sessions)
    for session_id in ("20260715-" + "f" * 32, "x"):
        with pytest.raises(StateFileError) as caught:
            sessions.store.delete(session_id)
        assert caught.value.message == f'there is no session "{session_id}"'
        assert caught.value.hint == "see `odek session list`"
    assert names(sessions) == before


@pytest.mark.parametrize("session_id", ["../../config", "a/b", "", "index", "\x1b[2J/"])
def test_no_way_leads_out_of_the_folder(sessions: Sessions, tmp_path: Path, session_id: str) -> None:
    """B46: an id `../../config`."""
    (tmp_path / "config.json").write_bytes(old_object())
    for attempt in (sessions.store.read, sessions.store.delete, sessions.store.export):
        with pytest.raises(StateFileError, match="is not the id of a session"):
            attempt(session_id)
    with pytest.raises(StateFileError, match="is not the id of a session"), sessions.store.open(session_id):
        pytest.fail("opened")
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


def test_deleted_session_leaves_nothing(sessions: Sessions) -> None:
    sessions.store.delete(sessions.make(user("x")))
    sessions.plant(f"{OLD_ID}.json", old_object())
    sessions.store.delete(OLD_ID)
    assert names(sessions) == []


def test_session_in_use_is_left_alone_by_everybody_else(sessions: Sessions) -> None:
    """B45, F-99: open, delete, trim and cleanup name the holder; reading and listing go on."""
    session_id = sessions.make(SYSTEM, user("x"), said("y"))
    plan = plan_cleanup(sessions.store.list().sessions, days=0, now_s=NOON)
    busy = f'"{sessions.path}/{session_id}" is in use by process {os.getpid()}'
    with sessions.store.open(session_id) as recorder:
        for attempt in (
            lambda: sessions.store.open(session_id).__enter__(),
            lambda: sessions.store.delete(session_id),
            lambda: sessions.store.trim(session_id, 2),
        ):
            with pytest.raises(StateFileError) as caught:
                attempt()
            assert caught.value.message == busy
            assert "`odek serve`" in caught.value.hint
        kept = Unreadable(name=session_id, reason=busy)
        assert sessions.store.cleanup(plan) == Cleaned(deleted=(), kept=(kept,))
        assert len(sessions.store.list().sessions) == 1
        recorder.record([*resumed(recorder.transcript, "s"), user("more")], NONE)
        assert history(sessions.store.read(session_id)) == (user("x"), said("y"), user("more"))
    sessions.store.delete(session_id)


def test_torn_write_is_repaired_before_the_session_goes_on(sessions: Sessions) -> None:
    """R-85: the file is whole again, and the user is told."""
    session_id = sessions.make(SYSTEM, user("x"), said("y"))
    with sessions.file().open("ab") as file:
        file.write(b'{"kind":"message","message":{"ro')
    with sessions.store.open(session_id) as recorder:
        assert sessions.file().read_bytes().endswith(b"}}\n")
        assert history(recorder.transcript) == (user("x"), said("y"))
    assert sessions.warnings == [f"session {session_id}: the last write was cut off; 32 bytes were dropped"]
    with sessions.store.open(session_id):
        pass
    assert len(sessions.warnings) == 1


def test_interrupted_calls_are_marked_once_and_the_user_is_told(sessions: Sessions) -> None:
    """B44: stored, so that any reader of the file sees complete groups."""
    session_id = sessions.make(SYSTEM, user("x"), calls("a", "b", "c"), result("a", "kept"))
    whole = (user("x"), calls("a", "b", "c"), result("a", "kept"), interrupted("b"), interrupted("c"))
    assert history(sessions.store.read(session_id)) == whole
    with sessions.store.open(session_id) as recorder:
        assert history(recorder.transcript) == whole
        recorder.record([*resumed(recorder.transcript, "s"), user("go on")], NONE)
    assert sessions.warnings == [
        f"session {session_id}: 2 tool calls had no result when odek ended; marked as interrupted, not run again"
    ]
    assert sessions.file().read_bytes().count(b"interrupted: the run ended") == 2
    assert history(sessions.store.read(session_id)) == (*whole, user("go on"))


def test_results_out_of_order_are_put_right_at_every_reading(sessions: Sessions) -> None:
    """B44: a call between two finished ones was running."""
    session_id = sessions.make(user("x"), calls("a", "b", "c"), result("c"), result("a"))
    whole: tuple[Message, ...] = (user("x"), calls("a", "b", "c"), result("a"), interrupted("b"), result("c"))
    for text in ("1", "2"):
        with sessions.store.open(session_id) as recorder:
            assert history(recorder.transcript) == whole
            whole = (*whole, user(text))
            recorder.record([SYSTEM, *whole], NONE)
    assert history(sessions.store.read(session_id)) == whole


def test_session_of_an_earlier_tool_goes_on_with_all_that_it_had(sessions: Sessions) -> None:
    """R-85: unknown fields, ids of another shape, the sandbox bit; the old file gives way to the new."""
    sessions.plant(f"{OLD_ID}.json", old_object(buffer={"x": 1}))
    assert sessions.store.read(OLD_ID).system == "s"
    with sessions.store.open(OLD_ID) as recorder:
        assert recorder.transcript.header.sandbox is False
        recorder.begin_turn(model="large", cwd="/work")
        recorder.record([*resumed(recorder.transcript, "new"), user("more")], NONE)
    assert names(sessions) == [f"{OLD_ID}.jsonl", f"{OLD_ID}.lock"]
    assert json.loads(sessions.store.export(OLD_ID)) == {
        "id": OLD_ID,
        "created_at": "2025-01-01T00:00:00Z",
        "updated_at": NOON_TEXT,
        "model": "large",
        "turns": 2,
        "task": "old",
        "sandbox": False,
        "cwd": "/work",
        "usage": {"input_tokens": 0, "output_tokens": 0, "cached_tokens": 0},
        "messages": [
            {"role": "system", "content": "new"},
            {"role": "user", "content": "old"},
            {"role": "user", "content": "more"},
        ],
        "auth_token": "00",
        "buffer": {"x": 1},
    }


def test_both_forms_of_one_session_are_one_session(sessions: Sessions) -> None:
    """R-85: killed between the new file and the removal of the old one."""
    sessions.plant(f"{OLD_ID}.json", old_object())
    with sessions.store.open(OLD_ID):
        pass
    sessions.plant(f"{OLD_ID}.json", old_object(task="stale"))
    assert [summary.header.task for summary in sessions.store.list().sessions] == ["old"]
    sessions.store.delete(OLD_ID)
    assert names(sessions) == []


def test_trim_keeps_whole_groups_and_counts_again(sessions: Sessions) -> None:
    """F-36."""
    session_id = sessions.make(SYSTEM, user("one"), said("1"))
    with sessions.store.open(session_id) as recorder:
        recorder.begin_turn(model="m", cwd="/")
        added = [user("two"), calls("a", "b"), result("a"), result("b"), said("2")]
        recorder.record([*resumed(recorder.transcript, "s"), *added], NONE)
    assert sessions.store.trim(session_id, 5) == 5
    whole = sessions.store.read(session_id)
    assert (whole.system, history(whole), whole.state.turns) == ("s", (user("two"), said("2")), 1)
    assert sessions.store.trim(session_id, 99) == 0
    assert sessions.store.read(session_id) == whole
    with pytest.raises(UsageError):
        sessions.store.trim(session_id, 1)


def test_cleanup_deletes_what_was_planned_and_is_as_it_was(sessions: Sessions) -> None:
    """B45: a session that was used since the plan is kept."""
    ids = [sessions.make(user(str(number))) for number in range(3)]
    plan = plan_cleanup(sessions.store.list().sessions, days=0, now_s=NOON)
    sessions.now += 1
    with sessions.store.open(ids[1]) as recorder:
        recorder.record([SYSTEM, user("1"), said("more")], NONE)
    sessions.store.delete(ids[0])
    done = sessions.store.cleanup(plan)
    assert done.deleted == (ids[2],)
    assert sorted(done.kept, key=lambda kept: kept.name) == [
        Unreadable(name=ids[0], reason=f'there is no session "{ids[0]}"'),
        Unreadable(name=ids[1], reason="it was used since then"),
    ]
    assert names(sessions) == [f"{ids[1]}.jsonl", f"{ids[1]}.lock"]


def test_id_that_is_taken_is_not_overwritten(tmp_path: Path) -> None:
    """R-85: two sessions never share a file, even with a broken source of random numbers."""
    first, second = Sessions(tmp_path), Sessions(tmp_path)
    session_id = first.make(user("x"))
    with pytest.raises(StateFileError, match="already"):
        second.make(user("y"))
    assert history(first.store.read(session_id)) == (user("x"),)


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Let no file grow beyond `size`: EFBIG comes where a full disk gives ENOSPC."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


def test_write_that_stops_in_the_middle_is_taken_back(sessions: Sessions) -> None:
    """B46: nothing of the old is lost, nothing of the new stands half, the user is told."""
    session_id = sessions.make(SYSTEM, user("x"))
    before = sessions.file().read_bytes()
    with sessions.store.open(session_id) as recorder:
        messages = [*resumed(recorder.transcript, SYSTEM.content), said("y" * 5000)]
        with file_size_limit(len(before) + 1000):
            with pytest.raises(StateFileError) as caught:
                recorder.record(messages, NONE)
            assert sessions.file().read_bytes() == before
        assert caught.value.message == f'"{sessions.file()}" cannot be written: File too large'
        assert caught.value.hint == "free some space; what was saved before is whole"
        recorder.record(messages, NONE)
    assert history(sessions.store.read(session_id)) == (user("x"), said("y" * 5000))


def test_session_that_cannot_be_made_leaves_nothing(sessions: Sessions) -> None:
    """B46."""
    with file_size_limit(10), pytest.raises(StateFileError, match="cannot be written"):
        sessions.make(user("x"))
    assert names(sessions) == []


@pytest.mark.parametrize("text", ["\ud83d", "a\udcffb", "größer \U0001f600", "nl\nname"])
def test_text_and_folders_that_are_not_utf_8_are_kept(sessions: Sessions, text: str) -> None:
    """B47: a task, a folder and a reply with lone surrogates."""
    with sessions.store.create(task=text, model="m", sandbox=True, cwd=f"/{text}") as recorder:
        recorder.record([SYSTEM, user(text), said(text)], NONE)
    whole = sessions.store.read(recorder.id)
    assert (whole.header.task, whole.state.cwd, history(whole)) == (text, f"/{text}", (user(text), said(text)))
    sessions.file().read_bytes().decode("utf-8")
    assert [summary.state.cwd for summary in sessions.store.list().sessions] == [f"/{text}"]
