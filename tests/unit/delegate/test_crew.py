"""Threads of sub-agents: order, questions, time, and every way to end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from fakes.cards import command_card

from odek.approval.card import Answer, Card, Person
from odek.cancel import CancelToken, current_token, use_token
from odek.delegate.crew import Crew, Ending, Job, Line, TaskCancelled, TaskTimeUp
from odek.errors import Cancelled
from odek.events import Event, Notice

LONG_S = 10.0


class Work:
    """Notes who works at the same time as whom."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.now: set[str] = set()
        self.together: set[frozenset[str]] = set()
        self.begun: list[str] = []

    def note(self, name: str, *, writes: bool, until: Callable[[], bool]) -> Job[str]:
        def work(_: Line) -> str:
            with self.lock:
                self.now.add(name)
                self.begun.append(name)
                self.together.add(frozenset(self.now))
            wait_for(until)
            with self.lock:
                self.now.discard(name)
            return name

        return job(work, writes=writes)


def wait_for(condition: Callable[[], bool], limit_s: float = 10.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        current_token().raise_if_cancelled()
        assert time.monotonic() < deadline
        time.sleep(0.005)


def job(work: Callable[[Line], str], *, writes: bool = False, timeout_s: float = LONG_S) -> Job[str]:
    """Return a job whose work hears of its end."""

    def run(line: Line) -> str:
        with use_token(line.token):
            return work(line)

    return Job(writes=writes, timeout_s=timeout_s, work=run)


def crew_of(
    jobs: Sequence[Job[str]], *, together: int = 8, person: Person | None = None, **options: Any
) -> tuple[Crew[str], list[Ending[str]], list[Event]]:
    endings: list[Ending[str]] = []
    events: list[Event] = []
    options = {"sink": events.append, "on_end": endings.append, **options}
    return Crew(jobs, together=together, person=person, **options), endings, events


def hang(_: Line) -> str:
    current_token().wait(LONG_S)
    return "never"


def test_readers_work_together_and_writers_never() -> None:
    """R-224, D-20, P-46, W-42: a reader does not wait for a writer's turn; at most as many as allowed."""
    work = Work()
    # each reader goes on until all three have worked at the same time
    met = lambda: any(len({"r1", "r2", "r3"} & group) == 3 for group in work.together)  # noqa: E731
    jobs = [
        work.note(name, writes=name.startswith("w"), until=met if name.startswith("r") else lambda: True)
        for name in ("w1", "w2", "r1", "r2", "r3", "w3")
    ]
    crew, endings, _ = crew_of(jobs, together=4)
    crew.run()
    assert sorted(ending.result or "" for ending in endings) == ["r1", "r2", "r3", "w1", "w2", "w3"]
    assert all(len({"w1", "w2", "w3"} & group) <= 1 for group in work.together)
    assert all(len(group) <= 4 for group in work.together)
    writers = [name for name in work.begun if name.startswith("w")]
    assert writers == ["w1", "w2", "w3"]


def test_one_at_a_time_goes_in_order() -> None:
    """R-223: as on the host."""
    work = Work()
    crew, _, _ = crew_of([work.note(f"t{n}", writes=True, until=lambda: True) for n in range(5)], together=1)
    crew.run()
    assert work.begun == [f"t{n}" for n in range(5)]
    assert all(len(group) == 1 for group in work.together)


def test_events_and_endings_come_in_the_thread_that_waits() -> None:
    """R-225: a sink is called by one thread; what a job said comes before its end."""
    seen: list[tuple[str, int]] = []

    def speak(line: Line) -> str:
        line.emit(Notice("a"))
        line.emit(Notice("b"))
        return "done"

    def sink(event: Event) -> None:
        assert isinstance(event, Notice)
        seen.append((event.text, threading.get_ident()))

    jobs = [job(speak)]
    crew, _, _ = crew_of(
        jobs, sink=sink, on_end=lambda ending: seen.append((ending.result or "", threading.get_ident()))
    )
    crew.run()
    here = threading.get_ident()
    assert seen == [("a", here), ("b", here), ("done", here)]


def test_time_of_one_is_its_own() -> None:
    """R-229, W-43, P-44: what hangs ends at its time; its neighbour goes on, and has its answer."""
    done = threading.Event()

    def neighbour(_: Line) -> str:
        wait_for(done.is_set)
        return "answer"

    jobs = [job(hang, timeout_s=0.1), job(neighbour)]
    crew, endings, _ = crew_of(jobs, on_end=lambda ending: (endings.append(ending), done.set()))
    crew.run()
    first, second = endings
    assert (first.place, type(first.error), first.result) == (0, TaskTimeUp, None)
    assert (second.place, second.error, second.result) == (1, None, "answer")


class SlowPerson:
    """Answers after a while."""

    def __init__(self, seconds: float, answer: Answer = "once") -> None:
        self.seconds, self.answer = seconds, answer
        self.threads: list[int] = []
        self.open = 0
        self.most = 0

    def decide(self, card: Card) -> Answer:
        del card
        self.threads.append(threading.get_ident())
        self.open += 1
        self.most = max(self.most, self.open)
        try:
            current_token().wait(self.seconds)
        finally:
            self.open -= 1
        return self.answer


def test_time_stands_still_while_a_question_waits() -> None:
    """R-226, W-43: of who asks, not of the others; questions come one after the other, in the thread that waits."""
    person = SlowPerson(0.3)

    def ask(line: Line) -> str:
        return line.decide(command_card("ls"))

    jobs = [
        *(job(ask, timeout_s=0.25) for _ in range(2)),
        job(hang, timeout_s=0.25),
    ]
    crew, endings, _ = crew_of(jobs, person=person)
    crew.run()
    by_place = {ending.place: ending for ending in endings}
    assert (by_place[0].result, by_place[1].result) == ("once", "once")
    assert max(by_place[0].seconds, by_place[1].seconds) < 0.25
    assert isinstance(by_place[2].error, TaskTimeUp)
    assert (set(person.threads), person.most) == ({threading.get_ident()}, 1)


def test_person_of_any_thread_is_asked_by_all_at_once() -> None:
    """W-22: a page shows the questions of several sub-agents together."""
    barrier = threading.Barrier(2, timeout=10)

    class Page:
        def decide(self, card: Card) -> Answer:
            barrier.wait()
            return card.answers[0]

    jobs = [job(lambda line: line.decide(command_card("ls"))) for _ in range(2)]
    crew, endings, _ = crew_of(jobs, person=Page(), any_thread=True)
    crew.run()
    assert [ending.result for ending in endings] == ["once", "once"]


def test_question_of_a_cancelled_job_is_withdrawn() -> None:
    """R-229, P-43: the person is not left with it; the neighbour goes on."""
    person = SlowPerson(LONG_S)
    crew, endings, _ = crew_of(
        [
            job(lambda line: line.decide(command_card("ls"))),
            job(lambda _: "answer"),
        ],
        person=person,
    )

    def cancel_when_asked() -> None:
        wait_for(lambda: person.open == 1)
        crew.cancel(0)

    thread = threading.Thread(target=cancel_when_asked)
    thread.start()
    crew.run()
    thread.join()
    by_place = {ending.place: ending for ending in endings}
    assert (type(by_place[0].error), by_place[1].result) == (TaskCancelled, "answer")


def test_one_is_cancelled_and_the_others_go_on() -> None:
    """R-229, P-43: one that works, and one that has not begun."""
    began = threading.Event()

    def first(_: Line) -> str:
        began.set()
        current_token().wait(LONG_S)
        return "never"

    jobs = [
        job(first, writes=True),
        job(hang, writes=True),
        job(lambda _: "answer", writes=True),
    ]
    crew, endings, _ = crew_of(jobs)

    def cancel() -> None:
        began.wait(10)
        crew.cancel(1)
        crew.cancel(0)

    thread = threading.Thread(target=cancel)
    thread.start()
    crew.run()
    thread.join()
    assert [type(ending.error) for ending in endings] == [TaskCancelled, TaskCancelled, type(None)]
    assert endings[2].result == "answer"


class TurnOver(Cancelled):
    pass


@pytest.mark.parametrize("asking", [False, True])
def test_end_of_the_turn_ends_all(asking: bool) -> None:
    """R-229, W-10: whatever they wait for, a question included; each ending is known, and no thread is left."""
    token = CancelToken()
    person = SlowPerson(LONG_S)
    before = threading.active_count()
    work = (lambda line: line.decide(command_card("ls"))) if asking else hang
    with use_token(token):
        jobs = [job(work) for _ in range(3)]
        crew, endings, _ = crew_of(jobs, person=person)
        timer = threading.Timer(0.2, lambda: token.cancel(TurnOver))
        timer.start()
        with pytest.raises(TurnOver):
            crew.run()
        timer.join()
    assert [type(ending.error) for ending in endings] == [TurnOver] * 3
    assert threading.active_count() == before


def test_sink_that_fails_ends_all() -> None:
    """R-229: the reader of the output has gone."""

    def sink(_: Event) -> None:
        raise BrokenPipeError

    def speak(line: Line) -> str:
        line.emit(Notice("a"))
        return hang(line)

    jobs = [job(work) for work in (speak, hang)]
    crew, endings, _ = crew_of(jobs, sink=sink)
    with pytest.raises(BrokenPipeError):
        crew.run()
    assert threading.active_count() == 1 or not [t for t in threading.enumerate() if t.name.startswith("task ")]
    del endings


def test_bug_in_one_is_its_failure() -> None:
    """R-229."""

    def broken(_: Line) -> str:
        raise ZeroDivisionError

    jobs = [job(work) for work in (broken, lambda _: "answer")]
    crew, endings, _ = crew_of(jobs)
    crew.run()
    by_place = {ending.place: ending for ending in endings}
    assert (type(by_place[0].error), by_place[1].result) == (ZeroDivisionError, "answer")
