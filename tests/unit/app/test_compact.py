"""Compacting a conversation: what is stored of it, and how it goes on (R-282)."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.docker import FakeDocker
from fakes.layering import make_host, make_layers
from fakes.model import ScriptedModel, text_reply
from fakes.notices import Notes
from fakes.runtimes import fake_runtime
from fakes.sessions import FIRST_ID, Sessions

from odek.app.config import config_of
from odek.app.conversation import Conversation, open_conversation
from odek.app.isolation import CommandProfile
from odek.app.stored_sessions import resume_session
from odek.errors import Interrupted, StateFileError, UsageError
from odek.model.types import Message, Reply, Usage
from odek.session.groups import compactions, history

LONG = "word " * 8000


class Desk:
    def __init__(self, tmp_path: Path) -> None:
        self.host = replace(make_host(tmp_path, uid=os.getuid()), gid=os.getgid())
        self.sessions = Sessions(Path(self.host.home))
        env = {"ODEK_SUPPRESS_SANDBOX_WARNING": "1"}
        self.config = config_of(make_layers(operator={"model": "small"}, env=env, flags={"sandbox": False}))

    def open(self, *replies: Reply | BaseException) -> tuple[Conversation, ScriptedModel]:
        model = ScriptedModel(replies)
        runtime = fake_runtime(self.host, FakeDocker(), new_model=lambda _: model, emit=Notes())
        profile = CommandProfile(command="repl")
        store = self.sessions.store
        return open_conversation(profile, self.config, runtime, sink=lambda _: None, store=store), model

    def sent(self, session_id: str, task: str) -> list[str]:
        """Return what a resumed session sends with `task`, without the system message."""
        model = ScriptedModel([text_reply("went on")])
        runtime = fake_runtime(self.host, FakeDocker(), new_model=lambda _: model, emit=Notes())
        with self.sessions.store.open(session_id) as recorder:
            resumed = resume_session(recorder, self.config, runtime, command="continue", here=False)
            with open_conversation(
                resumed.profile, resumed.config, runtime, sink=lambda _: None, resumed=resumed
            ) as conversation:
                conversation.send(task)
        return [message.content for message in model.requests[0].messages[1:]]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_session_keeps_all_and_goes_on_with_the_summary(desk: Desk) -> None:
    """R-282: after a restart of odek as before it; what the summary cost is counted."""
    conversation, model = desk.open(
        text_reply(LONG), text_reply("second"), text_reply("SUMMARY", usage=Usage(input_tokens=9)), text_reply("third")
    )
    with conversation:
        conversation.send("one")
        conversation.send("two")
        before, after = conversation.compact("")
        assert after < before
        conversation.send("three")
        assert conversation.summary is not None
        assert conversation.summary.state.usage.input_tokens == 9
    now = [message.content for message in model.requests[-1].messages[1:]]
    assert "SUMMARY" in now[0]
    assert now[1:] == ["[odek] (no reply)", "two", "second", "three"]
    whole = history(desk.sessions.store.read(FIRST_ID))
    assert [message.content for message in whole] == ["one", LONG, "two", "second", "three", "third"]
    assert desk.sent(FIRST_ID, "four") == [*now, "third", "four"]


def test_undo_over_a_summary_brings_back_what_it_stood_for(desk: Desk) -> None:
    """R-282: the same in memory and on the disk."""
    conversation, model = desk.open(text_reply(LONG), text_reply("second"), text_reply("SUMMARY"), text_reply("other"))
    with conversation:
        conversation.send("one")
        conversation.send("two")
        conversation.compact("")
        assert len(compactions(desk.sessions.store.read(FIRST_ID))) == 1
        conversation.undo()
        assert compactions(desk.sessions.store.read(FIRST_ID)) == ()
        conversation.send("another two")
    assert [message.content for message in model.requests[-1].messages[1:]] == ["one", LONG, "another two"]


def test_second_summary_takes_the_place_of_the_first(desk: Desk) -> None:
    """R-282: and an undo brings the first one back."""
    long, short = text_reply(LONG), text_reply("short")
    conversation, _ = desk.open(long, short, text_reply("FIRST"), long, short, text_reply("SECOND"))
    with conversation:
        conversation.send("one")
        conversation.send("two")
        conversation.compact("")
        conversation.send("three")
        conversation.send("four")
        conversation.compact("")
    whole = desk.sent(FIRST_ID, "go on")
    assert "SECOND" in whole[0]
    assert "FIRST" not in "".join(whole)
    assert "- one\n- two\n- three" in whole[0]
    with desk.sessions.store.open(FIRST_ID) as recorder:
        recorder.undo_turn()
        recorder.undo_turn()
    restored = desk.sent(FIRST_ID, "go on")
    assert "FIRST" in restored[0]
    assert "SECOND" not in "".join(restored)


@pytest.mark.parametrize("failure", [Interrupted(2), text_reply("")], ids=["cancelled", "empty"])
def test_failure_leaves_session_and_conversation(failure: Reply | BaseException, desk: Desk) -> None:
    """R-282."""
    conversation, model = desk.open(text_reply(LONG), failure, text_reply("second"))
    with conversation:
        conversation.send("one")
        stored = desk.sessions.file().read_bytes()
        with pytest.raises((Interrupted, Exception)):
            conversation.compact("")
        assert desk.sessions.file().read_bytes() == stored
        conversation.send("two")
    assert [message.content for message in model.requests[-1].messages[1:]] == ["one", LONG, "two"]


def test_summary_that_cannot_be_stored_is_not_used(desk: Desk) -> None:
    """R-282: or the session would go on differently than the conversation did."""
    conversation, model = desk.open(text_reply(LONG), text_reply("1"), text_reply("SUMMARY"), text_reply("second"))
    with conversation:
        conversation.send("one")
        conversation.send("short")
        desk.sessions.file().unlink()
        with pytest.raises(StateFileError):
            conversation.compact("")
        conversation.send("two")
        with pytest.raises(StateFileError):
            conversation.require_saved()
    assert [message.content for message in model.requests[-1].messages[1:]] == ["one", LONG, "short", "1", "two"]


def test_nothing_said_yet_is_nothing_to_compact(desk: Desk) -> None:
    """R-282."""
    conversation, model = desk.open()
    with conversation, pytest.raises(UsageError, match="nothing to compact"):
        conversation.compact("")
    assert model.requests == []


def test_copies_and_shorter_sessions_keep_the_summary(desk: Desk) -> None:
    """R-282, R-285: a fork goes on as its origin would; a trimmed session, too, as long as it holds what follows it."""
    conversation, _ = desk.open(
        text_reply("first"), text_reply(LONG), text_reply("third"), text_reply("SUMMARY"), text_reply("fourth")
    )
    with conversation:
        for task in ("one", "two", "three"):
            conversation.send(task)
        conversation.compact("")
        conversation.send("four")
    with desk.sessions.store.fork(FIRST_ID) as recorder:
        forked = recorder.id
    assert desk.sent(forked, "go on")[0] == desk.sent(FIRST_ID, "go on")[0]
    desk.sessions.store.trim(forked, 7)
    assert "SUMMARY" in desk.sent(forked, "go on")[0]
    desk.sessions.store.trim(forked, 2)
    assert "SUMMARY" not in "".join(desk.sent(forked, "go on"))


def test_secrets_in_a_summary_are_not_stored(tmp_path: Path) -> None:
    """R-282: it goes through the same door as every message."""
    sessions = Sessions(tmp_path, redact=lambda text: text.replace("hunter2", "[REDACTED]"))
    messages = (Message(role="user", content="x"), Message(role="assistant", content="y"))
    session_id = sessions.make(*messages)
    with sessions.store.open(session_id) as recorder:
        recorder.compact(1, Message(role="user", content="it is hunter2"), Usage())
    assert "hunter2" not in sessions.file().read_text()
    ((place, message),) = compactions(sessions.store.read(session_id))
    assert (place, message.content) == (1, "it is [REDACTED]")
