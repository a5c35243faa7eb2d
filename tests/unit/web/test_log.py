"""The log of a session: ids, merging, bounds, and readers that go and come back."""

from __future__ import annotations

import itertools
import random
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from odek.web import log as module
from odek.web.log import (
    EVENT_LIMIT_BYTES,
    MERGE_S,
    MOST_BYTES,
    MOST_EVENTS,
    EventLog,
    LoggedEvent,
    Subscription,
    limited,
)


@dataclass
class Clock:
    seconds: float = 100.0

    def __call__(self) -> float:
        return self.seconds


def new_log(clock: Clock | None = None, state: str = "idle") -> EventLog:
    epochs = itertools.count(1)
    return EventLog(lambda size: f"{next(epochs):0{2 * size}x}", state=lambda: state, now=clock or Clock())


def notice(text: object) -> dict[str, object]:
    return {"event": "notice", "text": str(text)}


def taken(reader: Subscription) -> list[LoggedEvent]:
    return reader.next(0) or []


def names(events: list[LoggedEvent]) -> list[tuple[str | None, str]]:
    return [(event.id, event.kind) for event in events]


def test_ids_count_from_one_and_a_greeting_comes_first() -> None:
    """R-130: `hello` has the state and the last id; ids have no gaps."""
    log = new_log(state="working")
    log.add(notice("before"))
    reader = log.subscribe(None)
    log.add(notice("a"))
    log.add({"event": "warning", "text": "b"})
    first, *rest = taken(reader)
    assert (first.id, first.kind, first.data) == (
        None, "hello", {"event": "hello", "state": "working", "last": "00000001.1"},
    )  # fmt: skip
    assert names(rest) == [("00000001.2", "notice"), ("00000001.3", "warning")]
    assert taken(reader) == []


def test_stream_that_is_cut_at_random_has_each_event_once() -> None:
    """W-6, R-130: fifty cuts, each resumed with the last id that arrived; the text is whole, too."""
    chance, clock = random.Random(7), Clock()
    log = new_log(clock)
    got: list[LoggedEvent] = []
    sent = 0
    for _ in range(50):
        reader = log.subscribe(got[-1].id if got else "00000001.0")
        for _ in range(chance.randrange(12)):
            sent += 1
            if chance.random() < 0.5:
                log.add({"event": "text", "text": f"<{sent}>"})
                clock.seconds += chance.choice((0.0, MERGE_S))
            else:
                log.add(notice(sent))
        arrived = [event for event in taken(reader) if event.id]
        got += arrived[: chance.randrange(len(arrived) + 1)]  # the rest is lost on the way
        reader.close()
    clock.seconds += 1
    got += [event for event in taken(log.subscribe(got[-1].id)) if event.id]
    assert [event.id for event in got] == [f"00000001.{number}" for number in range(1, len(got) + 1)]
    said = "".join(str(event.data["text"]) for event in got if event.kind == "text")
    told = [int(str(event.data["text"])) for event in got if event.kind == "notice"]
    assert sorted([*told, *(int(part) for part in said.strip("<>").split("><"))]) == list(range(1, sent + 1))


def test_pieces_of_text_are_one_event_in_50_ms_and_leave_with_the_whole() -> None:
    """R-130: whoever comes later gets the reply alone; whoever reads along misses nothing."""
    clock = Clock()
    log = new_log(clock)
    reader = log.subscribe(None)
    clock.seconds += MERGE_S
    for piece in ("I", " ", "will", " look"):
        log.add({"event": "text", "text": piece})
        clock.seconds += MERGE_S / 4
    assert [event.data.get("text") for event in taken(reader)] == [None, "I"]
    clock.seconds += MERGE_S
    assert [event.data["text"] for event in taken(reader)] == [" will look"]
    log.add({"event": "text", "text": "…"})
    log.add({"event": "model_replied", "content": "I will look…"})
    assert [event.kind for event in taken(reader)] == ["text", "model_replied"]
    assert names(taken(log.subscribe("00000001.0"))) == [(None, "hello"), ("00000001.4", "model_replied")]
    assert names(taken(log.subscribe("00000001.2"))) == [(None, "hello"), ("00000001.4", "model_replied")]


def test_texts_of_sub_agents_are_not_mixed() -> None:
    """R-130, R-225: each is merged by itself, and leaves with its own reply."""
    log = new_log()
    for task, piece in (("c1/1", "a"), ("c1/2", "b"), ("c1/1", "c")):
        log.add({"event": "text", "text": piece, "task": task})
    log.add({"event": "model_replied", "content": "ac", "task": "c1/1"})
    events = taken(log.subscribe("00000001.0"))[1:]
    assert [(event.kind, event.data.get("text"), event.data["task"]) for event in events] == [
        ("text", "b", "c1/2"), ("model_replied", None, "c1/1"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "after", ["00000002.1", "00000001.4", "00000001.-1", "00000001", "x", ".1", "00000001.٣", "00000001." + "9" * 400]
)
def test_id_that_the_log_does_not_hold_gets_a_reset(after: str) -> None:
    """R-130: another epoch, a number that is yet to come, and what is not an id at all."""
    log = new_log()
    for number in range(3):
        log.add(notice(number))
    assert [(event.kind, event.data["last"]) for event in taken(log.subscribe(after))] == [("reset", "00000001.3")]


def test_log_is_bounded_and_an_old_id_gets_a_reset() -> None:
    """W-6, R-130: after 6 000 events the first is gone; the oldest that is held can be resumed from."""
    log = new_log()
    for number in range(6000):
        log.add(notice(number))
    (old,) = taken(log.subscribe("00000001.1"))
    assert old.kind == "reset"
    held = taken(log.subscribe(f"00000001.{6000 - MOST_EVENTS}"))
    assert (len(held), held[1].id, held[-1].id) == (MOST_EVENTS + 1, "00000001.1001", "00000001.6000")


def test_log_is_bounded_in_bytes() -> None:
    """R-130: 4 MiB, however few events that is."""
    log = new_log()
    for _ in range(60):
        log.add(notice("x" * 100_000))
    held = taken(log.subscribe(f"00000001.{60 - 41}"))
    assert sum(event.size for event in held) <= MOST_BYTES
    assert [event.kind for event in taken(log.subscribe("00000001.1"))] == ["reset"]


def test_reader_that_does_not_keep_up_starts_over() -> None:
    """R-130: what waits for one reader is bounded as well."""
    log = new_log()
    reader = log.subscribe(None)
    for number in range(MOST_EVENTS + 10):
        log.add(notice(number))
    events = taken(reader)
    assert events[0].kind == "reset"
    assert len(events) < MOST_EVENTS


def test_transient_events_are_sent_and_not_held() -> None:
    """R-129, R-130: the latest output of a command has no id."""
    log = new_log()
    reader = log.subscribe(None)
    log.add({"event": "tool_output", "id": "c1", "tail": "x", "size_bytes": 1})
    assert names(taken(reader))[1:] == [(None, "tool_output")]
    assert names(taken(log.subscribe("00000001.0"))) == [(None, "hello")]


def test_new_life_has_a_new_epoch() -> None:
    """R-130: readers that were there take a new snapshot."""
    log = new_log()
    log.add(notice("old"))
    reader = log.subscribe("00000001.1")
    log.renew()
    log.add(notice("new"))
    assert names(taken(reader)) == [(None, "hello"), (None, "reset"), ("00000002.1", "notice")]


def test_closed_reader_gets_what_waits_and_then_the_end() -> None:
    """R-130: nothing that was logged before the end is lost."""
    log = new_log()
    reader = log.subscribe(None)
    log.add(notice("last"))
    log.close()
    assert [event.kind for event in taken(reader)] == ["hello", "notice"]
    assert reader.next(0) is None
    assert not log.has_readers


@pytest.mark.parametrize("text", ["x" * (2 * EVENT_LIMIT_BYTES), "é" * EVENT_LIMIT_BYTES, '"' * EVENT_LIMIT_BYTES])
def test_event_that_is_too_large_is_cut_in_the_middle_and_says_so(text: str) -> None:
    """R-130: 256 KiB as it is written; the ends of its texts are there."""
    event: dict[str, object] = {"event": "tool_finished", "id": "c1", "result": f"begin{text}end", "failed": False}
    cut = limited(event)
    assert module._size_of(cut) <= EVENT_LIMIT_BYTES
    result = str(cut["result"])
    assert (cut["cut"], cut["id"], result[:5], result[-3:]) == (True, "c1", "begin", "end")
    assert limited(notice("short")) == notice("short")


def test_reader_is_woken_in_another_thread() -> None:
    """R-130: by an event, and by text that is due though nothing follows it."""
    log = EventLog(lambda size: "0" * 2 * size)
    reader = log.subscribe(None)
    taken(reader)
    arrived: list[list[LoggedEvent] | None] = []
    thread = threading.Thread(target=lambda: arrived.extend(take(reader)))
    thread.start()
    log.add({"event": "text", "text": "a"})
    log.add({"event": "text", "text": "b"})
    thread.join(30)
    assert not thread.is_alive()
    assert "".join(str(event.data["text"]) for events in arrived for event in events or ()) == "ab"


def take(reader: Subscription) -> Iterator[list[LoggedEvent] | None]:
    said = ""
    while len(said) < 2:
        events = reader.next(30)
        said += "".join(str(event.data["text"]) for event in events or ())
        yield events


def test_question_is_never_cut() -> None:
    """R-133, R-134: a yes is for the whole text, so the page gets all of it."""
    log = new_log()
    reader = log.subscribe(None)
    log.add({"event": "approval_asked", "approval": {"items": [{"text": "x" * EVENT_LIMIT_BYTES}]}})
    assert len(str(taken(reader)[-1].data)) > EVENT_LIMIT_BYTES


def test_log_that_forgot_resumes_only_what_is_complete() -> None:
    """R-130: after the end of a session its events are on the disk; an id that is the last one is still good."""
    log = new_log()
    log.add(notice("a"))
    log.add({"event": "text", "text": "b"})
    log.forget()
    assert [event.kind for event in taken(log.subscribe("00000001.1"))] == ["reset"]
    assert [event.kind for event in taken(log.subscribe("00000001.2"))] == ["hello"]
    log.add(notice("c"))
    assert names(taken(log.subscribe("00000001.2")))[1:] == [("00000001.3", "notice")]
