"""What the sub-agents of a session did: files of their own beside the session's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fakes.sessions import SYSTEM, Sessions

from odek.errors import StateFileError
from odek.model.types import Message, Usage
from odek.session.store import plan_cleanup


@pytest.fixture
def sessions(tmp_path: Path) -> Sessions:
    return Sessions(tmp_path, redact=lambda text: text.replace("sesame", "***"))


def user(text: str) -> Message:
    return Message(role="user", content=text)


def with_tasks(sessions: Sessions, *names: str) -> str:
    """Make a session with a task of each name; return its id."""
    session_id = sessions.make(SYSTEM, user("x"))
    with sessions.store.open(session_id) as recorder:
        for name in names:
            task = recorder.begin_task(name, goal=f"open sesame for {name}", sandbox=True)
            task.record((SYSTEM, user("say sesame")), Usage(input_tokens=3))
            task.record((SYSTEM, user("say sesame"), Message(role="assistant", content="no")), Usage(input_tokens=5))
            task.close()
        assert recorder.count_tasks() == len(names)
    return session_id


def files_of(sessions: Sessions, session_id: str) -> list[str]:
    return sorted(path.name for path in (sessions.path / f"{session_id}.tasks").iterdir())


def test_each_task_is_a_transcript_without_secrets(sessions: Sessions) -> None:
    """R-228: what was said, how much it used, and the goal as its label; private, in a private folder."""
    session_id = with_tasks(sessions, "c1-1", "c1-2")
    first, second = sessions.store.tasks(session_id)
    assert (first.header.id, second.header.id) == ("c1-1", "c1-2")
    assert first.header.task == "open *** for c1-1"
    assert [entry.message.content for entry in first.entries] == ["say ***", "no"]
    assert (first.state.usage.input_tokens, first.state.turns) == (5, 1)
    folder = sessions.path / f"{session_id}.tasks"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    assert [summary.header.id for summary in sessions.store.list().sessions] == [session_id]


def test_names_that_servers_make_are_names_of_files(sessions: Sessions) -> None:
    """R-228, B46: no way out of the folder; the same id again, as some servers count from 0, overwrites nothing."""
    names = ("../../config-1", "c/1", "c/1", "", "..", "ü\x00\n", "x" * 300 + "-7")
    session_id = with_tasks(sessions, *names)
    assert files_of(sessions, session_id) == sorted(
        [
            *("config-1.jsonl", "c-1.jsonl", "c-1.2.jsonl", "task.jsonl", "task.2.jsonl", "task.3.jsonl"),
            "x" * 62 + "-7.jsonl",
        ]
    )


@pytest.mark.parametrize("how", ["delete", "cleanup"])
def test_they_go_with_their_session(sessions: Sessions, how: str) -> None:
    """R-228."""
    session_id = with_tasks(sessions, "c1-1", "c1-2")
    if how == "delete":
        sessions.store.delete(session_id)
    else:
        sessions.store.cleanup(plan_cleanup(sessions.store.list().sessions, days=0, now_s=sessions.now))
    assert os.listdir(sessions.path) == []


@pytest.mark.parametrize("kind", ["link", "file", "damaged"])
def test_what_is_planted_there_is_not_followed_or_in_the_way(sessions: Sessions, kind: str, tmp_path: Path) -> None:
    """R-228, F-105: reading refuses it, deleting removes it and nothing behind it."""
    session_id = sessions.make(SYSTEM, user("x"))
    place, target = sessions.path / f"{session_id}.tasks", tmp_path / "precious"
    target.mkdir()
    (target / "a.jsonl").write_text("precious")
    if kind == "link":
        place.symlink_to(target)
    elif kind == "file":
        place.write_text("x")
    else:
        place.mkdir(mode=0o700)
        (place / "a.jsonl").write_bytes(b"not a transcript")
        (place / "a.jsonl").chmod(0o600)
    with pytest.raises(StateFileError):
        sessions.store.tasks(session_id)
    sessions.store.delete(session_id)
    assert (os.listdir(sessions.path), (target / "a.jsonl").read_text()) == ([], "precious")
