"""One conversation in its place: what is kept of it, how it goes on, and that several live beside each other."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from fakes.containers import inspected
from fakes.docker import FakeDocker
from fakes.engines import INFO
from fakes.layering import make_host, make_layers
from fakes.model import ScriptedModel, call_reply, text_reply
from fakes.notices import Notes
from fakes.runtimes import NONCE, fake_runtime, script_start, spec_of
from fakes.sessions import FIRST_ID, SYSTEM, Sessions, said, user

from odek.app.attachments import read_ctx_files
from odek.app.config import Config, config_of
from odek.app.conversation import Conversation, open_conversation, prepare_conversation
from odek.app.isolation import CommandProfile
from odek.app.runtime import Runtime
from odek.app.stored_sessions import given_files, resume_session
from odek.app.workspace import look_ahead
from odek.config.settings import Settings
from odek.errors import Interrupted, OdekError, StateFileError, UsageError
from odek.events import Event, Sink, ToolFinished, ToolStarted, TurnEnded, TurnStarted, ignore
from odek.host import Host
from odek.model.types import Message, Model, Reply, ToolSpec, Usage
from odek.sandbox.container.container import Container
from odek.sandbox.docker import INFO_ARGV, find_image_argv
from odek.sandbox.errors import SandboxConfigError, SandboxLost
from odek.session.groups import history
from odek.session.store import SessionStore

ON_HOST = {"sandbox": False}
IN_SANDBOX = {"sandbox_image": "some/image:1"}


@dataclass
class Desk:
    """Opens conversations on one machine."""

    host: Host
    docker: FakeDocker = field(default_factory=FakeDocker)
    models: list[ScriptedModel] = field(default_factory=list)
    notes: Notes = field(default_factory=Notes)
    asked: list[str] = field(default_factory=list)
    """the models that were asked for, by name"""

    def script(self, *replies: Reply) -> ScriptedModel:
        """Let the next model that is made answer with `replies`."""
        self.models.append(ScriptedModel(replies))
        return self.models[-1]

    def open(
        self, flags: dict[str, object], *, sink: Sink = ignore, command: str = "repl", needed: bool = True, **more: Any
    ) -> Conversation:
        profile, config = CommandProfile(command=command, session_needed=needed), self.config(flags)
        return open_conversation(profile, config, self.runtime(), sink=sink, **more)

    def config(self, flags: dict[str, object]) -> Config:
        return config_of(
            make_layers(operator={"model": "small"}, env={"ODEK_SUPPRESS_SANDBOX_WARNING": "1"}, flags=flags)
        )

    def runtime(self) -> Any:
        return fake_runtime(self.host, self.docker, new_model=self._new_model, emit=self.notes)

    def _new_model(self, settings: Settings) -> Model:
        self.asked.append(settings.model.model)
        return self.models.pop(0)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(host=replace(make_host(tmp_path, uid=os.getuid()), gid=os.getgid()))


@pytest.fixture
def sessions(desk: Desk) -> Sessions:
    return Sessions(Path(desk.host.home))


def roles(messages: Sequence[Any]) -> list[str]:
    return [message.role for message in messages]


LOOK = ("glob", {"pattern": "*"})


def test_every_step_is_on_the_disk_before_the_next(desk: Desk, sessions: Sessions) -> None:
    """F-58, B44: what was said and done is readable in the file when a tool starts and when it has ended."""
    seen: list[list[str]] = []

    def look(event: Event) -> None:
        if isinstance(event, (ToolStarted, ToolFinished)):
            seen.append(roles([entry.message for entry in sessions.store.read(FIRST_ID).entries]))

    desk.script(call_reply(LOOK, LOOK), call_reply(LOOK), text_reply("answer"))
    with desk.open(ON_HOST, sink=look, store=sessions.store) as conversation:
        assert conversation.session_id is None
        assert conversation.send("task") == "answer"
        # the results that are still to come are stored as interrupted
        assert seen[0] == ["user", "assistant", "tool", "tool"]
        assert len(seen[-1]) == len(seen[0]) + 2
        stored = sessions.store.read(FIRST_ID)
        assert history(stored) == tuple(conversation.agent.messages[1:])
        assert (stored.state.turns, conversation.turns, stored.header.task) == (1, 1, "task")
    assert desk.notes.notes == [f"session saved; go on with: odek repl --id {FIRST_ID}"]


@pytest.mark.parametrize("ending", [Interrupted(2), OdekError("gone")], ids=["signal", "error"])
def test_turn_that_was_ended_is_kept(ending: BaseException, desk: Desk, sessions: Sessions) -> None:
    """F-49, F-58: an error, an interrupt; the conversation in the file is whole."""

    def end(event: Event) -> None:
        if isinstance(event, ToolFinished):
            raise ending

    desk.script(call_reply(LOOK))
    with desk.open(ON_HOST, sink=end, store=sessions.store, command="run") as conversation:
        with pytest.raises(type(ending)):
            conversation.send("task")
        assert history(sessions.store.read(FIRST_ID)) == tuple(conversation.agent.messages[1:])
        assert roles(conversation.agent.messages) == ["system", "user", "assistant", "tool", "assistant"]
    assert desk.notes.notes == [f"session saved; go on with: odek continue --id {FIRST_ID} TASK"]


def test_disk_that_is_full_is_a_warning_and_does_not_end_the_turn(desk: Desk, sessions: Sessions) -> None:
    """B46: once, however many steps cannot be saved."""

    def remove(event: Event) -> None:
        if isinstance(event, ToolStarted) and sessions.file().exists():
            sessions.file().unlink()

    desk.script(call_reply(LOOK), call_reply(LOOK), text_reply("answer"))
    with desk.open(ON_HOST, sink=remove, store=sessions.store) as conversation:
        assert conversation.send("task") == "answer"
        with pytest.raises(StateFileError, match="was removed while it was in use"):
            conversation.require_saved()
    assert desk.notes.notes == [f"session saved in part; go on with: odek repl --id {FIRST_ID}"]
    assert len(desk.notes.warnings) == 1


def test_session_that_cannot_be_made_is_one_warning_and_ends_no_turn(desk: Desk, sessions: Sessions) -> None:
    """R-397: on a full disk or a read-only HOME a repl goes on unkept; where keeping it was asked for it stops."""
    place = Path(desk.host.home, ".odek")
    place.mkdir(mode=0o700, exist_ok=True)
    (place / "sessions").write_text("a file where the folder would be")
    desk.script(text_reply("one"), text_reply("two"))
    with desk.open(ON_HOST, needed=False, store=sessions.store) as conversation:
        with pytest.raises(StateFileError):
            conversation.begin_session("first")  # as `odek run --session` does, before the model is asked
        assert [conversation.send("first"), conversation.send("second")] == ["one", "two"]
        conversation.require_saved()
        assert (conversation.session_id, len(desk.notes.warnings)) == (None, 1)
        assert desk.notes.warnings[0] == conversation.unkept
        assert conversation.unkept.startswith(f'this conversation is not kept: "{place}')
        assert conversation.turns == 2  # by which /diff and /undo find what the last one did to files
        for act in (conversation.undo, lambda: conversation.compact("")):
            with pytest.raises(OdekError, match="this conversation is not kept: "):
                act()
        assert roles(conversation.history) == ["user", "assistant"] * 2
    assert desk.notes.notes == []
    model = desk.script()
    with desk.open(ON_HOST, store=sessions.store) as conversation, pytest.raises(StateFileError):
        conversation.send("first")  # whatever the command is called
    assert model.requests == []


def test_nothing_is_kept_of_a_conversation_in_which_nothing_was_said(desk: Desk, sessions: Sessions) -> None:
    desk.script()
    desk.open(ON_HOST, store=sessions.store).close()
    assert (sessions.store.list().sessions, desk.notes.notes) == ((), [])


@pytest.mark.parametrize("command", ["repl", "continue"])
def test_turn_in_another_folder_leaves_the_session_in_its_own(command: str, desk: Desk, sessions: Sessions) -> None:
    """A12: `--here` gives the sandbox this folder for now; the session can go on in its own afterwards."""
    sessions.make(SYSTEM, user("x"), said("y"))  # in /work
    script_start(desk.docker, spec_of(desk.host))
    desk.script(text_reply("answer"))
    with sessions.store.open(FIRST_ID) as recorder:
        resumed = resume_session(recorder, desk.config(IN_SANDBOX), desk.runtime(), command=command, here=True)
        with open_conversation(
            resumed.profile, resumed.config, desk.runtime(), sink=ignore, resumed=resumed
        ) as conversation:
            assert conversation.send("task") == "answer"
    assert desk.notes.warnings == [f'the session worked in "/work", this is "{desk.host.cwd}"']
    state = sessions.store.read(FIRST_ID).state
    assert (state.cwd, state.turns) == ("/work", 2)


def test_model_is_shown_once_which_files_are_gone(desk: Desk, sessions: Sessions) -> None:
    """D-3: whichever command the session goes on with."""
    outside = Path(desk.host.home, "notes")
    outside.write_text("x")
    files = given_files(read_ctx_files((str(outside),), cwd=desk.host.cwd, home=desk.host.home))
    with sessions.store.create(task="t", model="small", sandbox=True, cwd=desk.host.cwd) as recorder:
        recorder.begin_turn(model="small", cwd=desk.host.cwd, files=files)
        recorder.record((SYSTEM, user("t"), said("y")), Usage())
    outside.unlink()
    script_start(desk.docker, spec_of(desk.host))
    model = desk.script(text_reply("one"), text_reply("two"))
    with sessions.store.open(FIRST_ID) as recorder:
        resumed = resume_session(recorder, desk.config(IN_SANDBOX), desk.runtime(), command="repl", here=False)
        with open_conversation(
            resumed.profile, resumed.config, desk.runtime(), sink=ignore, resumed=resumed
        ) as conversation:
            conversation.send("first")
            conversation.send("second")
    asked = [message.content for message in model.requests[1].messages if message.role == "user"]
    assert asked[-2:] == ["[no longer in the sandbox: /ctx/notes]\n\nfirst", "second"]


def test_two_conversations_live_beside_each_other(desk: Desk, sessions: Sessions, tmp_path: Path) -> None:
    """R-107: each has its container, model, gate and session; what ends one leaves the other as it is."""
    other = Desk(host=replace(make_host(tmp_path / "b", uid=os.getuid()), gid=os.getgid()))
    for each in (desk, other):
        script_start(each.docker, spec_of(each.host))
    first, second = desk.script(text_reply("1"), text_reply("3")), other.script(text_reply("2"), text_reply("4"))
    with desk.open(IN_SANDBOX, store=sessions.store) as a:
        b = other.open(IN_SANDBOX, store=sessions.store)
        assert [a.send("one"), b.send("two"), a.send("three")] == ["1", "2", "3"]
        assert a.session_id != b.session_id
        a.workspace.refused["destructive"] = 1
        assert b.workspace.refused == {}
        a.close()
        (lease,) = [client for client in other.docker.clients if client.args[0] == "run"]
        assert not lease.released
        assert b.send("four") == "4"
        b.close()
        assert lease.released
    assert [roles(model.requests[-1].messages) for model in (first, second)] == [
        ["system", "user", "assistant", "user"],
        ["system", "user", "assistant", "user"],
    ]
    assert [summary.state.turns for summary in sessions.store.list().sessions] == [2, 2]


def test_model_is_exchanged_between_two_turns(desk: Desk) -> None:
    """And stays exchanged when a turn is taken back or the container is made anew."""
    desk.script(text_reply("small one"))
    large = desk.script(text_reply("large one"))
    with desk.open(ON_HOST) as conversation:
        assert conversation.send("x") == "small one"
        conversation.set_model("large")
        assert conversation.send("y") == "large one"
        assert (conversation.settings.model.model, desk.asked) == ("large", ["small", "large"])
    assert roles(large.requests[0].messages) == ["system", "user", "assistant", "user"]


@pytest.mark.parametrize("name", ["a b", "a\nb", "x" * 129, "\x1b[2J"])
def test_name_that_no_model_has_is_refused(name: str, desk: Desk) -> None:
    desk.script()
    with desk.open(ON_HOST) as conversation, pytest.raises(UsageError, match="is not a name of a model"):
        conversation.set_model(name)


def test_undo_takes_the_last_turn_back(desk: Desk, sessions: Sessions) -> None:
    """On the disk and for the model, which is the one in use."""
    model = desk.script(text_reply("1"), text_reply("2"), text_reply("3"))
    with desk.open(ON_HOST, store=sessions.store) as conversation:
        with pytest.raises(StateFileError, match="no turn to take back"):
            conversation.undo()
        conversation.send("one")
        conversation.send("two")
        conversation.undo()
        assert (conversation.turns, roles(conversation.agent.messages)) == (1, ["system", "user", "assistant"])
        conversation.send("three")
    asked = [message.content for message in model.requests[-1].messages if message.role == "user"]
    assert asked == ["one", "three"]


def test_restart_goes_on_in_a_new_container_or_not_at_all(desk: Desk) -> None:
    """R-42, D-11: never on the host."""
    desk.docker.on("info", stdout=INFO, times=1).without_daemon(times=1)
    script_start(desk.docker, spec_of(desk.host))
    desk.script(text_reply("1"))
    desk.script()
    model = desk.script(text_reply("2"))
    with desk.open(IN_SANDBOX) as conversation:
        conversation.send("one")
        with pytest.raises(OdekError, match="not reachable"):
            conversation.restart()
        assert (conversation.lost, conversation.workspace.facts is not None) == (True, True)
        conversation.restart()
        assert (conversation.lost, conversation.send("two")) == (False, "2")
    assert roles(model.requests[0].messages) == ["system", "user", "assistant", "user"]
    assert len(desk.docker.called("run")) == 2


def test_conversation_on_the_host_has_no_sandbox_to_restart(desk: Desk) -> None:
    desk.script()
    with desk.open(ON_HOST) as conversation, pytest.raises(UsageError, match="there is no sandbox to start again"):
        conversation.restart()
    assert not conversation.lost


def test_lost_sandbox_is_explained_by_the_engine(desk: Desk) -> None:
    """R-42: whichever command the conversation is of."""
    started = inspected(spec_of(desk.host), name="odek-1-1", nonce=NONCE)
    desk.docker.on("inspect", stdout=json.dumps([started]), times=1).on("inspect", code=1, stdout="[]")
    script_start(desk.docker, spec_of(desk.host))
    desk.docker.on("exec", code=1, stderr="Error response from daemon: No such container: odek-1-1")
    desk.docker.on("events", stdout="oom\ndie 137\n")
    desk.script(call_reply(("shell", {"command": "true"})))
    with desk.open(IN_SANDBOX) as conversation:
        with pytest.raises(SandboxLost, match="because the memory limit was reached; raise sandbox_memory"):
            conversation.send("x")
        assert conversation.lost


def test_sandbox_that_is_gone_when_files_are_given_is_known_as_lost(desk: Desk, tmp_path: Path) -> None:
    """R-42, R-138: or each message with a file would fail again, in a container that no message replaces."""
    started = inspected(spec_of(desk.host), name="odek-1-1", nonce=NONCE)
    desk.docker.on("inspect", stdout=json.dumps([started]), times=1).on("inspect", code=1, stdout="[]")
    script_start(desk.docker, spec_of(desk.host))
    desk.docker.on("exec", code=1, stderr="Error response from daemon: No such container: odek-1-1")
    desk.docker.on("events", stdout="oom\ndie 137\n")
    desk.script()
    (tmp_path / "notes.txt").write_text("x")
    files = read_ctx_files((str(tmp_path / "notes.txt"),), cwd=desk.host.cwd, home=desk.host.home)
    with desk.open(IN_SANDBOX) as conversation:
        conversation.accept("read it", files)
        with pytest.raises(SandboxLost, match="because the memory limit was reached"):
            conversation.work("read it")
        assert (conversation.lost, conversation.is_open) == (True, False)


def test_task_whose_place_could_not_be_made_is_stored_and_closed(desk: Desk, sessions: Sessions) -> None:
    """R-132, R-139: the file is whole each time, the error is the turn's, and the turn after it has its own task."""
    events: list[Event] = []

    def start(_: Runtime) -> Container:
        raise SandboxConfigError("no engine", hint="start it")

    for _ in range(2):
        desk.script()
    conversation = prepare_conversation(
        CommandProfile(command="serve", never_on_host=True), desk.config(IN_SANDBOX), desk.runtime(),
        sink=events.append, store=sessions.store, start=start, expected=None,
    )  # fmt: skip
    for number, task in enumerate(("one", "two"), start=1):
        conversation.accept(task)
        assert history(sessions.store.read(FIRST_ID))[-1].content == task, "on the disk before the work begins"
        with pytest.raises(SandboxConfigError, match="no engine"):
            conversation.work(task)
        stored = sessions.store.read(FIRST_ID)
        assert roles(history(stored)) == ["user", "assistant"] * number
        assert (history(stored), stored.state.turns) == (conversation.history, number)
    conversation.close()
    ended = [event for event in events if isinstance(event, TurnEnded)]
    assert [(event.turn, event.status, event.message, event.hint) for event in ended] == [
        (1, "failed", "no engine", "start it"), (2, "failed", "no engine", "start it"),
    ]  # fmt: skip


def test_model_is_asked_while_the_container_is_made(desk: Desk) -> None:
    """R-251: exactly what is asked when it is there, but for what the proof finds different: here the name."""
    script_start(desk.docker, spec_of(desk.host))
    Path(desk.host.cwd, "AGENTS.md").write_text("Tabs.")
    model = desk.script(text_reply("done"))
    with desk.open(IN_SANDBOX, command="run", first="a task") as conversation:
        assert conversation.send("a task") == "done"
    (ahead,), (asked,) = model.begun, model.requests
    name = ahead.messages[0].content.partition("- Container: ")[2].partition("\n")[0]
    found = {name: "odek-1-1", f"User: {desk.host.uid}:{desk.host.gid}": "User: 1000:1000"}
    expected = repr(asked)
    for planned, proved in found.items():
        assert planned in repr(ahead)
        expected = expected.replace(proved, planned)
    assert repr(ahead) == expected


def test_model_is_not_asked_before_a_sandbox_that_was_refused(desk: Desk) -> None:
    """R-251, R-7: no daemon, no image, no approval: these come first, and so does whatever could lead to the host."""
    desk.docker.without_daemon()
    model, fallen_back = desk.script(text_reply("done")), desk.script(text_reply("done"))
    with pytest.raises(OdekError, match="not reachable"):
        desk.open({**IN_SANDBOX, "sandbox": True}, command="run", first="a task")
    with desk.open(IN_SANDBOX, command="run", first="a task") as conversation:
        assert conversation.workspace.facts is None
    assert model.begun == fallen_back.begun == []
    assert model.connected == fallen_back.connected == 0


def test_start_that_fails_after_the_model_was_asked_ends_as_without(desk: Desk) -> None:
    """R-251: the reply is dropped, the place stays the sandbox."""
    script_start(desk.docker.on("inspect", stdout="[]"), spec_of(desk.host))
    model = desk.script(text_reply("done"))
    with pytest.raises(OdekError, match="does not show the state of the container"):
        desk.open(IN_SANDBOX, command="run", first="a task")
    assert (len(model.begun), model.requests) == (1, [])


def test_docker_is_asked_about_itself_as_soon_as_there_is_a_model(desk: Desk) -> None:
    """R-257: so while what a sandbox needs is imported; only where there is to be one, and nothing else is wrong."""
    desk.script(text_reply("done"))
    with desk.open(ON_HOST, command="run"):
        assert desk.docker.looked_ahead == []

    def no_model(_: Settings) -> Model:
        raise UsageError("no such model")

    runtime = replace(desk.runtime(), new_model=no_model)
    with pytest.raises(UsageError, match="no such model"):
        open_conversation(CommandProfile(command="run"), desk.config(IN_SANDBOX), runtime, sink=ignore)
    assert desk.docker.looked_ahead == []
    with look_ahead(CommandProfile(command="run"), desk.config(IN_SANDBOX), runtime, None):
        begun = list(desk.docker.looked_ahead)
    assert begun == [INFO_ARGV, find_image_argv("some/image:1")]

    def prepared_before(_: Runtime) -> Container:
        raise AssertionError("nothing is started here")

    with look_ahead(CommandProfile(command="serve"), desk.config(IN_SANDBOX), runtime, prepared_before):
        assert desk.docker.looked_ahead == begun
    assert desk.docker.calls == []
    desk.docker.looked_ahead.clear()
    by_project = config_of(make_layers(project={"sandbox_image": "other/image:1"}))
    with look_ahead(CommandProfile(command="run"), by_project, runtime, None):  # there may be a question
        assert desk.docker.looked_ahead == []
    (Path(desk.host.cwd) / "Dockerfile.odek").touch()
    with look_ahead(CommandProfile(command="run"), desk.config({}), runtime, None):
        assert desk.docker.looked_ahead == []


def test_conversation_on_the_host_is_not_asked_ahead(desk: Desk) -> None:
    """R-251: there is nothing to wait for."""
    model = desk.script(text_reply("done"))
    with desk.open(ON_HOST, command="run", first="a task") as conversation:
        assert conversation.send("a task") == "done"
    assert (model.begun, model.connected) == ([], 0)


class Reading(ScriptedModel):
    """Looks at what is stored when it is asked ahead."""

    def __init__(self, store: SessionStore, *replies: Reply) -> None:
        super().__init__(replies)
        self.store = store
        self.stored: list[list[str]] = []

    def ahead(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> AbstractContextManager[None]:
        self.stored.append([message.content for message in history(self.store.read(FIRST_ID))])
        return super().ahead(messages, tools)


def test_task_of_a_kept_session_is_stored_before_the_model_is_asked_ahead(desk: Desk, sessions: Sessions) -> None:
    """R-85, R-251: and it is one turn with one task, as without; a session that goes on is asked with its history."""
    starts, turns = list[Event](), []
    for number, task in enumerate(("one", "two"), start=1):
        script_start(desk.docker, spec_of(desk.host))
        model = Reading(sessions.store, text_reply(f"answer {number}"))
        desk.models.append(model)
        more: dict[str, Any] = {"store": sessions.store}
        if number == 2:
            recorder = sessions.store.open(FIRST_ID)
            resumed = resume_session(
                recorder.__enter__(), desk.config(IN_SANDBOX), desk.runtime(), command="continue", here=False
            )
            more = {"resumed": resumed}
        with desk.open(IN_SANDBOX, command="run", first=task, sink=starts.append, **more) as conversation:
            assert conversation.send(task) == f"answer {number}"
        if number == 2:
            recorder.__exit__(None, None, None)
        (ahead,), (asked,) = model.begun, model.requests
        assert model.stored == [[message.content for message in asked.messages[1:]]]
        assert ahead.messages[1:] == asked.messages[1:]
        turns.append(sessions.store.read(FIRST_ID).state.turns)
    stored = sessions.store.read(FIRST_ID)
    assert [message.content for message in history(stored)] == ["one", "answer 1", "two", "answer 2"]
    assert turns == [1, 2]
    assert [event.turn for event in starts if isinstance(event, TurnStarted)] == [1, 2]


def test_task_of_a_kept_session_whose_start_fails_is_stored_and_closed(desk: Desk, sessions: Sessions) -> None:
    """R-85, R-251: the provider has seen it."""
    script_start(desk.docker.on("inspect", stdout="[]"), spec_of(desk.host))
    model = desk.script(text_reply("done"))
    with pytest.raises(OdekError, match="does not show the state of the container"):
        desk.open(IN_SANDBOX, command="run", first="a task", store=sessions.store)
    assert (len(model.begun), model.requests) == (1, [])
    assert roles(history(sessions.store.read(FIRST_ID))) == ["user", "assistant"]


def test_task_that_cannot_be_stored_is_not_sent_ahead(desk: Desk, sessions: Sessions) -> None:
    """R-85, R-251: and its turn says why."""
    script_start(desk.docker, spec_of(desk.host))
    folder = Path(desk.host.home, ".odek")
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / "sessions").write_text("")
    model = desk.script(text_reply("done"))
    with pytest.raises(StateFileError):
        desk.open(IN_SANDBOX, command="run", first="a task", store=sessions.store).send("a task")
    assert model.begun == model.requests == []


@pytest.mark.parametrize("more", [{}, {"first": "a task", "attachments": "given"}], ids=["no task yet", "files"])
def test_where_no_request_can_go_ahead_the_connection_does(desk: Desk, more: dict[str, Any], tmp_path: Path) -> None:
    """R-256: once the container is being made, and so approved."""
    script_start(desk.docker, spec_of(desk.host))
    (tmp_path / "given").write_text("x")
    if more:
        more = {**more, "attachments": read_ctx_files((str(tmp_path / "given"),), cwd=desk.host.cwd, home="")}
    model = desk.script(text_reply("done"))
    with suppress(OdekError), desk.open(IN_SANDBOX, **more):  # this container has no place for files
        pass
    assert (model.begun, model.connected) == ([], 1)
