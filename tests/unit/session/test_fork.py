"""A session that begins with another one's history (R-285)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fakes.sessions import SYSTEM, Sessions, calls, result, said, user

from odek.errors import StateFileError
from odek.model.types import Usage
from odek.session.groups import history
from odek.session.receipts import Receipt
from odek.session.transcript import Origin

RECEIPT = Receipt(
    at="2026-07-15T12:00:00Z",
    kind="command",
    place="sandbox",
    container="c" * 64,
    image="sha256:" + "d" * 64,
    network="none",
    networks=(),
    user="1000:1000",
    risk=(),
    decision="policy",
    command_sha256="1" * 64,
    output_sha256="2" * 64,
    exit_status=0,
)


@pytest.fixture
def sessions(tmp_path: Path) -> Sessions:
    return Sessions(tmp_path)


def old_session(sessions: Sessions) -> str:
    made = (SYSTEM, user("task"), calls("1"), result("1"), said("answer"))
    session_id = sessions.make(*made)
    with sessions.store.open(session_id) as recorder:
        recorder.add_receipt(RECEIPT)
        recorder.add_receipt(RECEIPT)
        recorder.begin_turn(model="small", cwd="/work")
        recorder.record((*made, user("more"), said("done")), Usage(input_tokens=5))
    return session_id


def test_fork_begins_with_what_was_said_and_leaves_the_other_as_it_is(sessions: Sessions) -> None:
    """R-285: also while the other is in use; tokens are counted from here, the place stays what it was."""
    old = old_session(sessions)
    before = {path.name: path.read_bytes() for path in sessions.path.iterdir() if path.suffix != ".lock"}
    with sessions.store.open(old), sessions.store.fork(old) as recorder:
        assert recorder.stored.turns == 2
        said_before = (SYSTEM, *history(sessions.store.read(old)))
        recorder.begin_turn(model="small", cwd="/work")
        recorder.record((*said_before, user("another way"), said("so")), Usage(input_tokens=7))
        new = recorder.id
    assert {name: (sessions.path / name).read_bytes() for name in before} == before
    assert sessions.store.read(new).header.sandbox is True
    one, other = sessions.store.read(old), sessions.store.read(new)
    assert history(other) == (*history(one), user("another way"), said("so"))
    assert (other.state.turns, other.state.usage) == (3, Usage(input_tokens=7))
    assert (other.system, other.header.task, other.state.cwd) == (one.system, one.header.task, one.state.cwd)
    assert other.header.origin == Origin(id=old, turns=2, receipts=one.state.receipts)
    assert other.header.extra == {}
    with sessions.store.open(new) as recorder:
        assert recorder.undo_turn() == len(history(one))
        assert recorder.undo_turn() == 4


def test_fork_of_another_tools_session_takes_no_token_along(sessions: Sessions) -> None:
    """R-285: what other tools keep with a session, as the token of a page, is that session's alone."""
    fields = {"id": "old", "auth_token": "00", "created_at": "2025-01-01T00:00:00Z", "sandbox": False}
    fields |= {"updated_at": "2025-01-02T00:00:00Z", "messages": [{"role": "user", "content": "old"}]}
    sessions.plant("old.json", json.dumps(fields).encode())
    with sessions.store.fork("old") as recorder:
        assert "auth_token" not in sessions.file(recorder.id).read_text()
        assert recorder.transcript.header.sandbox is False
    assert (sessions.path / "old.json").exists()


def test_receipts_of_a_fork_are_a_chain_that_names_its_origin(sessions: Sessions) -> None:
    """R-285: it begins after the origin's last receipt; another origin, or one that was changed, shows."""
    old = old_session(sessions)
    with sessions.store.fork(old) as recorder:
        new = recorder.id
        recorder.add_receipt(RECEIPT)
        recorder.begin_turn(model="small", cwd="/work")
        recorder.record((SYSTEM, *history(sessions.store.read(new)), user("x"), said("y")), Usage())
    assert len(sessions.store.check_receipts(new).receipts) == 1
    assert sessions.store.check_receipts(new).broken_line is None
    found = sessions.store.check_origin(new)
    assert found is not None
    assert found[1] is not None
    assert (found[0].id, found[1].broken_line, len(found[1].receipts)) == (old, None, 2)
    assert sessions.store.check_origin(old) is None

    path = sessions.file(new)
    whole = path.read_text()
    path.write_text(whole.replace('"number":2', '"number":1', 1))  # another place in the origin's chain
    assert sessions.store.check_receipts(new).broken_line == 1
    path.write_text(whole)

    receipts = sessions.path / f"{old}.receipts"
    receipts.write_bytes(receipts.read_bytes().splitlines(keepends=True)[0])
    changed = sessions.store.check_origin(new)
    assert changed is not None
    assert changed[1] is not None
    assert changed[1].broken_line == 2
    sessions.store.delete(old)
    assert sessions.store.check_origin(new) == (found[0], None)


def test_fork_of_a_fork(sessions: Sessions) -> None:
    """R-285: each chain begins with the one before; a session is found whole whichever is deleted."""
    first = old_session(sessions)
    with sessions.store.fork(first) as recorder:
        second = recorder.id
    with sessions.store.fork(second) as recorder:
        third = recorder.id
        recorder.add_receipt(RECEIPT)
    origin = sessions.store.read(third).header.origin
    assert origin is not None
    assert (origin.id, origin.receipts) == (second, None)
    sessions.store.delete(first)
    assert sessions.store.check_receipts(third).broken_line is None
    with pytest.raises(StateFileError), sessions.store.fork(first):
        pass
    assert len(sessions.store.ids()) == 2
