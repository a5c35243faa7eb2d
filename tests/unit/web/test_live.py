"""Live sessions without HTTP and without Docker: turns, their codes, what is shown, and what is shared."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from fakes.model import ScriptedModel, call_reply, text_reply
from support.served import Gate, Served, wait_for

from odek.app import environment
from odek.approval.gatekeeper import HOST
from odek.errors import Cancelled, OdekError
from odek.events import SandboxChanged
from odek.model.types import Usage
from odek.redact import MARK
from odek.sandbox.errors import DaemonUnreachable
from odek.session.groups import history
from odek.web import live as live_module
from odek.web.errors import Refused
from odek.web.place import Place
from odek.web.session import LiveSession

LOOK = ("glob", {"pattern": "*"})
ASKED = ("shell", {"command": "make x", "description": "build it"})


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    yield made
    made.close()


def refusal(call: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(Refused) as caught:
        call()
    return caught.value.status, caught.value.code


def kinds(events: list[Any]) -> list[str]:
    return [str(event["event"]) for event in events if event["event"] not in ("hello", "reset", "text")]


def test_without_docker_nothing_is_served_and_nothing_runs_on_the_host(tmp_path: Path) -> None:
    """R-7, R-138: the default of `run` would fall back here; `serve` never does."""
    served = Served(tmp_path, flags={})
    with pytest.raises(DaemonUnreachable):
        served.open()
    assert not hasattr(served, "live")


def test_turn_from_its_message_to_its_answer(served: Served) -> None:
    """R-129, R-131, R-132, R-137: events in their order; the snapshot fits to the last one; the file holds it all."""
    model = served.script(
        call_reply(LOOK, content="I look", usage=Usage(input_tokens=100, output_tokens=10)),
        text_reply("done", usage=Usage(input_tokens=120, output_tokens=5)),
    )
    live = served.open()
    session, snapshot = served.finish("look around")
    events = served.until(session, "turn_ended", after=snapshot["last_event"].split(".")[0] + ".0")
    assert kinds(events) == [
        *("turn_started", "model_asked", "model_replied", "tool_started", "tool_finished"),
        *("model_asked", "model_replied", "finished", "turn_ended"),
    ]
    system = model.requests[0].messages[0].content
    assert "a web page; the answer is shown as Markdown" in system
    assert system.rstrip().splitlines()[-4:] == environment.render_host(served.host.cwd).splitlines()
    usage = {"input_tokens": 220, "output_tokens": 15, "cached_tokens": 0}
    assert {**events[-1], "seconds": 0} == {
        "event": "turn_ended", "turn": 1, "status": "answered", "error": None, "usage": usage, "session_usage": usage,
        "seconds": 0, "context": {"tokens": 125, "window": None},
    }  # fmt: skip
    assert [(entry["n"], entry["kind"], entry.get("text")) for entry in snapshot["entries"]] == [
        (1, "user", "look around"), (2, "assistant", "I look"), (3, "call", None),
        (4, "result", "(no match)\nmatches: 0"),
        (5, "assistant", "done"),
    ]  # fmt: skip
    assert snapshot["entries"][2] == {
        "n": 3, "kind": "call", "id": "call_1", "name": "glob", "arguments": '{"pattern": "*"}', "title": "glob: *",
    }  # fmt: skip
    shown = {key: snapshot[key] for key in ("id", "title", "turns", "state", "turn", "usage", "context", "writable")}
    assert shown == {
        "id": session, "title": "look around", "turns": 1, "state": "idle", "turn": None, "usage": usage,
        "context": {"tokens": 125, "window": None}, "writable": {"ok": True},
    }  # fmt: skip
    assert snapshot["last_event"] == live.subscribe(session).next(0)[0].data["last"]  # type: ignore[index]


def test_a_secret_that_is_typed_or_said_is_in_no_event_and_no_snapshot(served: Served) -> None:
    """R-360: live events are redacted as snapshots and files are; the window is known while the turn goes on."""
    secret = "hunter2-Zq81-xx"
    reply = call_reply(("glob", {"pattern": secret}), content=f"it is {secret}", usage=Usage(input_tokens=9))
    gate = Gate((reply, text_reply(f"so {secret} it is")))
    gate.inner = ScriptedModel((reply, text_reply(f"so {secret} it is")), window=8000)
    served.models.append(gate)
    served.env = {"SOME_TOKEN": secret}
    served.host = replace(served.host, env={**served.host.env, **served.env})
    live = served.open()
    session = str(live.create(f"use {secret}", (), "r1")["id"])
    epoch = str(live.snapshot(session)["last_event"]).split(".")[0]
    gate.let_go.release()
    assert all(gate.arrived.acquire(timeout=30) for _ in range(2))
    under_way = live.snapshot(session)
    assert under_way["context"] == {"tokens": 9, "window": 8000}
    gate.let_go.release()
    events = served.until(session, "turn_ended", after=f"{epoch}.0")
    assert events[-1]["context"]["window"] == 8000
    assert kinds(events).count("model_replied") == 2
    for seen in (events, under_way, live.snapshot(session), live.state(), live.list(10)):
        assert (secret in repr(seen), MARK in repr(seen)) == (False, True)


def test_snapshot_of_a_turn_under_way(served: Served) -> None:
    """R-131: the turn, what is running, who is asked; a reload finds the question again (P-12)."""
    model = served.gate(call_reply(ASKED), text_reply("done"))
    live = served.open()
    session = str(live.create("build", (), "r1")["id"])
    assert model.arrived.acquire(timeout=30)
    snapshot = live.snapshot(session)
    assert (snapshot["state"], snapshot["turn"]["turn"], snapshot["turn"]["running"]) == ("working", 1, [])  # type: ignore[index]
    model.let_go.release()
    snapshot = served.when(session, lambda found: found["approvals"])
    assert (snapshot["state"], snapshot["turn"]["text"], snapshot["turn"]["running"]) == (
        "asking", "build", [{"id": "call_1", "title": "shell: make x"}],
    )  # fmt: skip
    (card,) = snapshot["approvals"]
    assert (card["place"], card["boundary"], card["items"][0]["text"], card["items"][0]["reason"]) == (
        HOST, HOST, "make x", "build it",
    )  # fmt: skip
    (state,) = live.state()["sessions"]  # type: ignore[misc]
    assert state == {"id": session, "title": "build", "state": "asking", "turn": 1, "approvals": 1}
    assert live.answer(session, card["id"], "deny", card["digest"])["answer"] == "deny"
    model.let_go.release()
    snapshot = served.settled(session)
    assert "operation denied by user" in snapshot["entries"][-2]["text"]
    assert snapshot["entries"][-2]["failed"] is True


def test_one_request_is_one_turn_however_often_it_comes(served: Served) -> None:
    """R-132: also at the same time, also while the first is being worked on; another id is another request."""
    served.script(text_reply("one"), text_reply("two"))
    served.script(text_reply("other"))
    live, made = served.open(), list[dict[str, object]]()
    threads = [threading.Thread(target=lambda: made.append(live.create("a", (), "same"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    session = str(made[0]["id"])
    assert made == [{"id": session, "turn": 1}] * 8
    served.settled(session)
    assert live.start_turn(session, "b", (), "same") == {"turn": 2}, "ids count for a session each"
    assert live.start_turn(session, "b", (), "same") == {"turn": 2}
    served.settled(session)
    assert live.create("a", (), "different")["id"] != session
    assert len(live.list()["sessions"]) == 2  # type: ignore[arg-type]


def test_repeat_after_ten_minutes_is_a_new_request(tmp_path: Path) -> None:
    """R-132."""
    served = Served(tmp_path)
    seconds = [1000.0]
    served.script(text_reply("one"))
    served.script(text_reply("two"))
    live = served.open()
    live._now = lambda: seconds[0]
    first = live.create("a", (), "same")
    seconds[0] += 601
    assert live.create("a", (), "same")["id"] != first["id"]
    live._now = live_module.time.monotonic
    served.close()


def test_second_turn_is_refused_while_one_is_under_way(served: Served) -> None:
    """R-132: 409 `busy`, and so are undo, another model, a restart, close and delete; nothing has changed."""
    model = served.gate(text_reply("done"))
    live = served.open()
    session = str(live.create("a", (), "r1")["id"])
    for attempt in (
        lambda: live.start_turn(session, "b", (), "r2"),
        lambda: live.undo(session),
        lambda: live.set_model(session, "other"),
        lambda: live.sandbox(session, "restart"),
        lambda: live.sandbox(session, "close"),
        lambda: live.delete(session),
    ):
        assert refusal(attempt) == (409, "busy")
    model.let_go.release()
    assert served.settled(session)["turns"] == 1


@pytest.mark.parametrize(
    ("text", "files", "request_id", "expected"),
    [
        ("", (), "r", (422, "text")),
        ("a\0b", (), "r", (422, "text")),
        ("\ud800", (), "r", (422, "text")),
        ("x" * ((1 << 20) + 1), (), "r", (413, "text")),
        ("é" * (1 << 20), (), "r", (413, "text")),
        ("a", (), "", (422, "request_id")),
        ("a", (), "r" * 101, (422, "request_id")),
    ],
    ids=["empty", "nul", "surrogate", "large", "large in UTF-8", "no request", "long request"],
)
def test_message_that_cannot_be_one(
    served: Served, text: str, files: tuple[str, ...], request_id: str, expected: tuple[int, str]
) -> None:
    """R-132: refused before anything is made."""
    live = served.open()
    assert refusal(lambda: live.create(text, files, request_id)) == expected
    assert live.list()["sessions"] == []
    assert live.state()["sessions"] == []


def test_largest_message_and_files_alone(served: Served) -> None:
    """R-132, R-143: 1 MiB of text; a file without a word is a message."""
    model = served.script(text_reply("a"), text_reply("b"))
    served.open()
    session, _ = served.finish("x" * (1 << 20))
    _, snapshot = served.finish("", session, [served.upload("notes.txt", b"from outside")])
    assert (snapshot["turns"], snapshot["entries"][-2]["files"]) == (2, [str(served.root / "notes.txt")])
    assert "from outside" in model.requests[-1].messages[-1].content


def test_session_that_is_not_there_or_damaged(served: Served) -> None:
    """R-132, R-136: 404 and 409 on each route; the list names what is damaged."""
    live = served.open()
    folder = Path(served.host.home) / ".odek" / "sessions"
    folder.mkdir(mode=0o700)
    (folder / "20990101-bad.jsonl").write_bytes(b"{nonsense\n")
    (folder / "20990101-bad.jsonl").chmod(0o600)
    for name, status in (("20990101-none", (404, "unknown")), ("20990101-bad", (409, "damaged"))):
        assert refusal(lambda: live.snapshot(name)) == status  # noqa: B023
        assert refusal(lambda: live.entries(name)) == status  # noqa: B023
        assert refusal(lambda: live.start_turn(name, "a", (), "r")) == status  # noqa: B023
        assert refusal(lambda: live.undo(name)) == status  # noqa: B023
    for attempt in (
        lambda: live.cancel("20990101-none", 1),
        lambda: live.subscribe("20990101-none"),
        lambda: live.config("20990101-none"),
        lambda: live.set_model("20990101-none", "m"),
        lambda: live.sandbox("20990101-none", "close"),
        lambda: live.delete("20990101-none"),
        lambda: live.answer("20990101-none", "a-1", "once", ""),
        lambda: live.snapshot("../../etc/passwd"),
    ):
        assert refusal(attempt) == (404, "unknown")
    (damaged,) = live.list()["damaged"]  # type: ignore[misc]
    assert damaged["id"] == "20990101-bad.jsonl"
    assert live.state()["sessions"] == [], "what was refused is not live"


def test_session_of_another_place_is_shown_and_not_continued(served: Served) -> None:
    """W-11, R-132, R-136: 409 with where it can go on; reading takes no lock."""
    live, store = served.open(), served.live._serving.store
    with store.create(task="there", model="m", sandbox=False, cwd="/elsewhere") as there:
        pass
    with store.create(task="boxed", model="m", sandbox=True, cwd=served.host.cwd) as boxed:
        pass
    assert refusal(lambda: live.start_turn(there.id, "a", (), "r")) == (409, "elsewhere")
    assert refusal(lambda: live.start_turn(boxed.id, "a", (), "r")) == (409, "begun_in_sandbox")
    listed = {entry["title"]: entry["elsewhere"] for entry in live.list()["sessions"]}  # type: ignore[union-attr]
    assert listed == {"there": True, "boxed": False}
    assert live.snapshot(there.id)["writable"]["code"] == "elsewhere"  # type: ignore[index]
    assert live.snapshot(boxed.id)["writable"]["code"] == "begun_in_sandbox"  # type: ignore[index]


def test_session_that_is_in_use_names_its_holder(served: Served) -> None:
    """W-11, R-132: 409 `in_use`; readable all the same; free, it goes on."""
    served.script(text_reply("here"))
    live, store = served.open(), served.live._serving.store
    with store.create(task="held", model="m", sandbox=False, cwd=served.host.cwd) as held:
        snapshot = live.snapshot(held.id)
        assert snapshot["writable"] == {
            "ok": False, "code": "in_use", "message": f"it is in use by process {os.getpid()}",
            "hint": "wait for it to end",
        }  # fmt: skip
        assert refusal(lambda: live.start_turn(held.id, "a", (), "r")) == (409, "in_use")
        assert refusal(lambda: live.delete(held.id)) == (409, "in_use")
        assert refusal(lambda: live.undo(held.id)) == (409, "in_use")
    assert live.snapshot(held.id)["writable"] == {"ok": True}
    assert served.finish("a", held.id)[1]["turns"] == 1
    with pytest.raises(OdekError, match="in use by process"), store.open(held.id):
        pass
    live.sandbox(held.id, "close")
    wait_for(lambda: not live._serving.store.holder(held.id))
    with store.open(held.id) as recorder:
        assert [message.content for message in history(recorder.transcript)] == ["a", "here"]


def test_session_goes_on_where_the_command_line_left_it(served: Served) -> None:
    """R-135, R-130: a page that looks on gets `reset` when it goes live; all turns are there."""
    served.script(text_reply("one"))
    again = served.script(text_reply("two"))
    live = served.open()
    session, before = served.finish("first")
    live.sandbox(session, "close")
    stored = served.when(session, lambda found: not found["live"])
    assert [entry.get("text") for entry in stored["entries"]] == ["first", "one"]
    reader = live.subscribe(session, before["last_event"])
    _, after = served.finish("second", session)
    assert [entry["text"] for entry in after["entries"]] == ["first", "one", "second", "two"]
    assert [message.content for message in again.requests[0].messages[1:]] == ["first", "one", "second"]
    seen = [event.kind for event in reader.next(0) or []]
    assert seen.index("reset") < seen.index("turn_started")
    assert after["last_event"].split(".")[0] != before["last_event"].split(".")[0]


def test_cancel_ends_the_turn_and_the_next_one_works(served: Served) -> None:
    """W-10, R-145: during a request; of another turn, or none, it does nothing."""
    model = served.gate(text_reply("too late"), text_reply("next"))
    model.inner._replies.pop(0)
    live = served.open()
    session = str(live.create("a", (), "r1")["id"])
    assert model.arrived.acquire(timeout=30)
    assert live.cancel(session, 7) is False
    assert live.cancel(session, 1) is True
    snapshot = served.settled(session)
    assert served.until(session, "turn_ended", after=snapshot["last_event"].split(".")[0] + ".0")[-1]["status"] == (
        "cancelled"
    )
    assert live.cancel(session, 1) is False
    model.let_go.release()
    _, snapshot = served.finish("b", session)
    assert [entry["kind"] for entry in snapshot["entries"]] == ["user", "note", "user", "assistant"]


def test_cancel_of_an_open_question(served: Served) -> None:
    """W-10, W-16, R-145: the card is settled as cancelled, the call has a result, the next turn works."""
    served.script(call_reply(ASKED), text_reply("next"))
    live = served.open()
    session = str(live.create("a", (), "r1")["id"])
    (card,) = served.when(session, lambda found: found["approvals"])["approvals"]
    assert live.cancel(session, 1)
    snapshot = served.settled(session)
    assert snapshot["approvals"] == []
    assert refusal(lambda: live.answer(session, card["id"], "once", card["digest"])) == (410, "cancelled")
    assert [entry["kind"] for entry in snapshot["entries"]] == ["user", "call", "result", "note"]
    _, snapshot = served.finish("b", session)
    assert snapshot["entries"][-1]["text"] == "next"


def test_failed_turn_says_why_and_the_session_lives(served: Served) -> None:
    """R-132: an error of the model; a bug is `failed` with the code `bug`, logged, and the server lives."""
    served.script(OdekError("no credit", hint="pay"), ZeroDivisionError("secret words"), text_reply("well"))
    live = served.open()
    session, snapshot = served.finish("a")
    epoch = snapshot["last_event"].split(".")[0]
    ended = served.until(session, "turn_ended", after=f"{epoch}.0")[-1]
    assert (ended["status"], ended["error"]) == ("failed", {"message": "no credit", "hint": "pay"})
    _, snapshot = served.finish("b", session)
    events = served.live.subscribe(session, f"{epoch}.0").next(0) or []
    assert [event.data["error"] for event in events if event.kind == "turn_ended"][1]["code"] == "bug"
    assert any("ZeroDivisionError" in line for line in served.lines)
    _, snapshot = served.finish("c", session)
    assert (snapshot["entries"][-1]["text"], live.state()["sessions"][0]["state"]) == ("well", "idle")  # type: ignore[index]


def test_undo_takes_the_last_turn_back(served: Served) -> None:
    """R-131: the page is made to look again; on the disk as well; nothing to undo is 409."""
    model = served.script(text_reply("one"), text_reply("two"), text_reply("three"), text_reply("four"))
    live = served.open()
    session, _ = served.finish("a")
    served.finish("b", session)
    reader = live.subscribe(session)
    assert live.undo(session) == {"turns": 1}
    assert [event.kind for event in reader.next(0) or []] == ["hello", "reset"]
    assert [entry["text"] for entry in live.snapshot(session)["entries"]] == ["a", "one"]  # type: ignore[union-attr]
    _, snapshot = served.finish("c", session)
    assert [entry["text"] for entry in snapshot["entries"]] == ["a", "one", "c", "three"]
    assert [message.content for message in model.requests[-1].messages[1:]] == ["a", "one", "c"]
    served.finish("[odek] not a note", session)  # a message of the user's like any other
    live.undo(session)
    assert [entry["text"] for entry in live.snapshot(session)["entries"]] == ["a", "one", "c", "three"]  # type: ignore[union-attr]
    live.undo(session)
    live.sandbox(session, "close")
    served.when(session, lambda found: not found["live"])
    assert live.undo(session) == {"turns": 0}
    assert refusal(lambda: live.undo(session)) == (409, "refused")
    wait_for(lambda: not live._serving.store.holder(session)), "only a message makes it live"


def test_summary_stands_for_the_older_part(served: Served) -> None:
    """R-365: as `/compact`: what is shown and stored stays, the next request is shorter; what fails is a warning."""
    gate = served.gate(*map(text_reply, ("long " * 4000, "two", "SUMMARY", "three")))
    live = served.open()
    assert refusal(lambda: live.compact("20260101-000000-00000000", "")) == (404, "unknown")
    for _ in range(2):
        gate.let_go.release()
    session, _ = served.finish("a")
    _, before = served.finish("b", session)
    live.compact(session, "the names")
    assert refusal(lambda: live.undo(session)) == (409, "busy")
    gate.let_go.release()
    notice = served.until(session, "notice", after=str(before["last_event"]))[-1]["text"]
    assert notice.startswith("a request took about ")
    snapshot = served.when(session, lambda found: found["state"] == "idle")
    assert [entry["kind"] for entry in snapshot["entries"]] == ["user", "assistant"] * 2
    assert f"takes {snapshot['context']['tokens']} now" in notice
    live.compact(session, "")
    warning = served.until(session, "warning", after=str(snapshot["last_event"]))[-1]["text"]
    assert "nothing to compact" in warning
    gate.let_go.release()
    served.when(session, lambda found: found["state"] == "idle")
    served.finish("c", session)
    sent = [message.content for message in gate.inner.requests[-1].messages[1:]]
    assert "SUMMARY" in sent[0]
    assert sent[1:] == ["[odek] (no reply)", "b", "two", "c"]
    assert "the names" in gate.inner.requests[2].messages[-1].content
    live.sandbox(session, "close")
    served.when(session, lambda found: not found["live"])
    assert refusal(lambda: live.compact(session, "")) == (409, "closed")


def test_another_model_from_the_next_turn_on(served: Served) -> None:
    """R-132: in a live session and in one that is not; what is not a name is 422."""
    served.script(text_reply("one"))
    live = served.open()
    session, _ = served.finish("a")
    changed = served.script(text_reply("two"))
    assert live.set_model(session, "other") == {"model": "other"}
    for name in ("no such name", "", "m" * 129, "m\n"):
        assert refusal(lambda name=name: live.set_model(session, name)) == (422, "model")  # type: ignore[misc]
    _, snapshot = served.finish("b", session)
    assert (snapshot["model"], len(changed.requests)) == ("other", 1)
    live.sandbox(session, "close")
    served.when(session, lambda found: not found["live"])
    for name in ("no such name", "", "m" * 129, "m\n"):
        assert refusal(lambda name=name: live.set_model(session, name)) == (422, "model")  # type: ignore[misc]
    served.script()
    assert live.set_model(session, "third") == {"model": "third"}
    for number in range(70):  # looking at many others does not forget it
        assert refusal(lambda number=number: live.snapshot(f"other-{number}")) == (404, "unknown")  # type: ignore[misc]
    served.script(text_reply("three"))
    assert served.finish("c", session)[1]["model"] == "third"


def test_list_goes_by_pages_and_finds_titles(served: Served) -> None:
    """R-136: newest first, each once; a limit or a place that makes no sense is 422."""
    live, store = served.open(), served.live._serving.store
    for number in range(7):
        with store.create(task=f"Task {number}", model="m", sandbox=False, cwd=served.host.cwd):
            pass
    seen: list[str] = []
    before = None
    for _ in range(4):
        page = live.list(2, before)
        seen += [entry["title"] for entry in page["sessions"]]  # type: ignore[union-attr]
        before = page["next"]  # type: ignore[assignment]
    assert (seen, before) == ([f"Task {number}" for number in reversed(range(7))], None)
    assert [entry["title"] for entry in live.list(9, None, "TASK 3")["sessions"]] == ["Task 3"]  # type: ignore[union-attr]
    assert refusal(lambda: live.list(0)) == (422, "limit")
    assert refusal(lambda: live.list(201)) == (422, "limit")
    assert refusal(lambda: live.list(5, "20990101-none")) == (422, "before")


def test_older_entries_come_in_slices(served: Served) -> None:
    """R-131: a snapshot has the newest hundred; the others are asked for by number."""
    turns = 60
    served.script(*(text_reply(f"answer {number}") for number in range(turns)))
    live = served.open()
    session, _ = served.finish("task 0")
    for number in range(1, turns):
        served.finish(f"task {number}", session)
    snapshot = live.snapshot(session)
    assert (len(snapshot["entries"]), snapshot["first"]) == (100, 2 * turns - 99)  # type: ignore[arg-type]
    older = live.entries(session, snapshot["first"], 15)  # type: ignore[arg-type]
    assert ([entry["n"] for entry in older["entries"]], older["first"]) == (list(range(6, 21)), 6)  # type: ignore[union-attr]
    assert live.entries(session, 6, 2000)["first"] == 1
    assert live.entries(session, 1) == {"entries": [], "first": 1}
    live.sandbox(session, "close")
    served.when(session, lambda found: not found["live"])
    stored = live.snapshot(session)
    texts = [(entry["n"], entry["text"]) for entry in stored["entries"]]  # type: ignore[union-attr]
    assert texts == [(entry["n"], entry["text"]) for entry in snapshot["entries"]]  # type: ignore[union-attr]
    assert live.entries(session, 21, 15) == older | {"entries": live.entries(session, 21, 15)["entries"]}


def test_too_many_sessions_are_refused_with_those_that_could_be_closed(tmp_path: Path) -> None:
    """R-141: 503 `sandboxes`; nothing is closed by itself; closing one makes room."""
    served = Served(tmp_path, operator={"serve": {"max_sandboxes": 2}})
    served.script(text_reply("one"))
    working = served.gate(text_reply("two"))
    live = served.open()
    idle, _ = served.finish("a")
    busy = str(live.create("b", (), "r2")["id"])
    with pytest.raises(Refused) as caught:
        live.create("c", (), "r3")
    found = caught.value
    assert (found.status, found.code, found.extra) == (503, "sandboxes", {"sessions": [{"id": idle, "state": "idle"}]})
    live.sandbox(idle, "close")
    served.when(idle, lambda snapshot: not snapshot["live"])
    served.script(text_reply("three"))
    served.finish("c")
    working.let_go.release()
    served.settled(busy)
    served.close()


def test_unused_session_ends_by_itself(tmp_path: Path) -> None:
    """R-138: after its idle time, with a line in the log; the next message brings it back."""
    served = Served(tmp_path, operator={"serve": {"idle_seconds": 60}})
    served.script(text_reply("one"))
    served.script(text_reply("two"))
    live = served.open()
    session, _ = served.finish("a")
    ended = live._live(session)
    assert ended is not None
    with ended.place.log.lock:
        assert not ended.is_closing
    assert ended._close_idle(), "nothing waits"
    ended._jobs.put(None)
    ended.thread.join(30)
    assert served.lines[-1].endswith("session has ended (idle)")
    assert live.snapshot(session)["live"] is False
    assert served.finish("b", session)[1]["turns"] == 2
    served.close()


def test_deleted_session_is_gone_with_its_files(served: Served) -> None:
    """R-138: one that is live here ends first; its uploads are forgotten; readers get the end."""
    served.script(text_reply("one"))
    live = served.open()
    session, _ = served.finish("a")
    reader = live.subscribe(session)
    live.delete(session)
    assert refusal(lambda: live.snapshot(session)) == (404, "unknown")
    assert (served.forgotten, live.list()["sessions"], live.state()["sessions"]) == ([session], [], [])
    assert reader.next(0) is not None
    assert reader.next(0) is None


def test_end_of_the_server_ends_turns_and_questions(served: Served) -> None:
    """W-10, R-134, R-145: interrupted, cards closed, nothing begins any more, each call has its result."""
    served.script(call_reply(ASKED))
    waiting = served.gate()
    live = served.open()
    asking = str(live.create("a", (), "r1")["id"])
    (card,) = served.when(asking, lambda found: found["approvals"])["approvals"]
    working = str(live.create("b", (), "r2")["id"])
    assert waiting.arrived.acquire(timeout=30)
    readers = [live.subscribe(each) for each in (asking, working)]
    assert live.close_all(30, signal_number=2)
    for reader in readers:
        events = reader.next(0) or []
        assert [event.data["status"] for event in events if event.kind == "turn_ended"] == ["interrupted"]
        assert reader.next(0) is None
    assert refusal(lambda: live.answer(asking, card["id"], "once", card["digest"])) == (410, "closed")
    assert refusal(lambda: live.create("c", (), "r3")) == (503, "stopping")
    assert refusal(lambda: live.start_turn(asking, "c", (), "r3")) == (503, "stopping")
    assert refusal(lambda: live.subscribe(asking)) == (503, "stopping")
    stored = history(live._serving.store.read(asking))
    assert [message.role for message in stored] == ["user", "assistant", "tool", "assistant"]


def test_settings_are_those_of_config_view(served: Served) -> None:
    """W-14, R-142: with a session what the tool shows there; no secret and no token anywhere."""
    served.operator = {"api_key": "sk-planted-0123456789", "sandbox_env": {"TOKEN": "planted-in-the-box"}}
    served.env = {"SOME_API_KEY": "planted-outside-42"}
    served.__post_init__()
    served.script(call_reply(("config_view", {})), text_reply("it is planted-outside-42"))
    live = served.open()
    session, snapshot = served.finish("show planted-outside-42")
    seen = json.loads(snapshot["entries"][2]["text"].split("\n", 1)[1].rsplit("\n", 1)[0])
    assert live.config(session) == seen
    whole = live.config()
    assert {key: whole[key] for key in ("model", "base_url", "api_key", "tools", "source")} == {
        key: seen[key] for key in ("model", "base_url", "api_key", "tools", "source")
    }
    assert (whole["planned"]["place"], whole["containers"], whole["grant"]) == (  # type: ignore[index]
        "host", [], {"asked": False, "how": "none"},
    )  # fmt: skip
    answers = (whole, seen, live.state(), live.list(), snapshot, live.entries(session), served.lines)
    for secret in ("sk-planted-0123456789", "planted-in-the-box", "planted-outside-42"):
        assert secret not in json.dumps(answers)


def test_sub_agents_are_shown_and_can_be_stopped(served: Served) -> None:
    """W-10, R-145: one alone, and all with the turn; what is not at work is 404."""
    brief = {"goal": "look around"}
    served.script(call_reply(("delegate_tasks", {"tasks": [brief]})), text_reply("stopped one"),
                  call_reply(("delegate_tasks", {"tasks": [brief]})), text_reply("next"))  # fmt: skip
    children = [served.gate(), served.gate()]
    live = served.open()
    session = str(live.create("a", (), "r1")["id"])
    (task,) = served.when(session, lambda found: found["tasks"])["tasks"]
    assert (task["goal"], task["of"], task["status"]) == ("look around", 1, "working")
    assert children[0].arrived.acquire(timeout=30)
    assert refusal(lambda: live.cancel_task(session, "call_1/9")) == (404, "unknown")
    live.cancel_task(session, task["task"])
    snapshot = served.settled(session)
    assert snapshot["entries"][-1]["text"] == "stopped one"
    assert refusal(lambda: live.cancel_task(session, task["task"])) == (404, "unknown")
    live.start_turn(session, "b", (), "r2")
    assert children[1].arrived.acquire(timeout=30)
    assert live.cancel(session, 2)
    assert served.settled(session)["tasks"] == []
    assert served.finish("c", session)[1]["entries"][-1]["text"] == "next"


@pytest.mark.parametrize("ending", [OdekError("a file cannot be given"), Cancelled()])
def test_restart_that_fails_behind_the_start_says_so(served: Served, ending: BaseException) -> None:
    """R-138: the container that was announced does not come; only of what fails before it the start itself speaks."""
    served.open()
    serving = replace(served.live._serving, sandboxes=cast("Any", object()))
    place = Place(serving)
    session = LiveSession(serving, place, on_known=lambda _: None)

    def restart() -> None:
        session._emit(SandboxChanged("starting"))
        raise ending

    session.id = "s"
    session.conversation = cast("Any", SimpleNamespace(end_workspace=lambda: None, restart=restart))
    reader = place.log.subscribe(None)
    session.restart()
    told = [event.data for event in reader.next(0) or [] if event.kind == "sandbox"]
    reader.close()
    assert [event["state"] for event in told] == ["closed", "starting", "closed"]
    assert told[-1]["reason"] in ("a file cannot be given", "the start was cancelled")
