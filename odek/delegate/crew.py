"""Sub-agents at work: a thread for each, and one that waits for them, shows what they do and asks what they ask.

The waiting thread is that of the turn. All events reach the sink in it, and so do questions, one after the other,
unless the person can be asked from several threads. A sub-agent's time is watched by a thread of its own, so that a
question that is open for long holds nothing up; while one of its own is open, its time stands still (R-226).
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from odek.approval.card import Answer, Card, Person
from odek.cancel import POLL_S, CancelToken, current_token, use_token
from odek.errors import Cancelled
from odek.events import Event, Sink

T = TypeVar("T")

STOP_PATIENCE_S = 35.0  # longer than an executor takes to stop a command (agent/calls.py)


class TaskTimeUp(Cancelled):
    """The time of one sub-agent is over."""


class TaskCancelled(Cancelled):
    """One sub-agent is to end, and the others go on."""


class Clock:
    """The time that a sub-agent has worked: without that in which it waits for an answer."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._began: float | None = None
        self._worked_s = 0.0

    def start(self) -> None:
        """Let the time run."""
        with self._lock:
            self._began = self._now()

    @property
    def elapsed_s(self) -> float:
        """seconds so far"""
        with self._lock:
            return self._worked_s + (0.0 if self._began is None else self._now() - self._began)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let the time stand still within the block."""
        worked_s = self.elapsed_s
        with self._lock:
            self._worked_s, self._began = worked_s, None
        try:
            yield
        finally:
            self.start()


@dataclass(slots=True, eq=False)
class _Question:
    card: Card
    line: Line
    settled: threading.Event = field(default_factory=threading.Event)
    answer: Answer | None = None
    error: Exception | None = None
    """what asking raised: that nobody answered, say"""


class Line:
    """What a sub-agent's thread has of the thread that waits for it."""

    def __init__(self, crew: _Inbox, token: CancelToken, clock: Clock) -> None:
        self.token = token
        self.clock = clock
        self._inbox = crew

    def emit(self, event: Event) -> None:
        """Have `event` shown."""
        self._inbox.put(event)

    def decide(self, card: Card) -> Answer:
        """See Person; the time of the sub-agent stands still until there is an answer."""
        with self.clock.paused():
            question = _Question(card, self)
            self._inbox.put(question)
            while not question.settled.wait(POLL_S):
                current_token().raise_if_cancelled()
            current_token().raise_if_cancelled()
            if question.error is not None:
                raise question.error
            return question.answer or card.refusal


class DirectLine(Line):
    """A line whose questions go straight to a person who takes them from any thread."""

    def __init__(self, crew: _Inbox, token: CancelToken, clock: Clock, person: Person) -> None:
        super().__init__(crew, token, clock)
        self._person = person

    def decide(self, card: Card) -> Answer:
        """See Line."""
        with self.clock.paused():
            return self._person.decide(card)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job(Generic[T]):
    """The work of one sub-agent."""

    writes: bool
    """whether it may change the folder: at most one such works at a time"""
    timeout_s: float
    work: Callable[[Line], T]


@dataclass(slots=True, eq=False)
class Ending(Generic[T]):
    """How a job ended: with a result, or with what its work raised."""

    place: int
    """of the job, from 0"""
    seconds: float
    result: T | None = None
    error: BaseException | None = None


_Inbox = queue.SimpleQueue[Any]
"""holds an Event, a _Question or an Ending"""


@dataclass(slots=True, eq=False)
class _Running:
    line: Line
    thread: threading.Thread | None = None
    late: bool = False
    """whether its time is up"""


class Crew(Generic[T]):
    """Does jobs: those that only read at the same time, of the others one at a time (R-224)."""

    def __init__(
        self,
        jobs: Sequence[Job[T]],
        *,
        together: int,
        sink: Sink,
        person: Person | None,
        any_thread: bool = False,
        on_end: Callable[[Ending[T]], None],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """Do at most `together` at once. `sink` gets the events and `on_end` each ending, in the thread that waits.

        `any_thread`: `person` may be asked from several threads at the same time.
        """
        self._jobs = jobs
        self._together = together
        self._sink = sink
        self._person = person
        self._on_end = on_end
        self._now = now
        self._inbox: _Inbox = queue.SimpleQueue()
        turn = current_token()
        direct = person if any_thread else None
        self._members = [_Running(self._line(CancelToken(turn), direct)) for _ in jobs]
        self._waiting = list(range(len(jobs)))
        self._working: set[int] = set()
        self._done = threading.Event()

    def cancel(self, place: int) -> None:
        """End one job, whether it has begun or not; from any thread."""
        self._members[place].line.token.cancel(TaskCancelled)

    def run(self) -> None:
        """Return when all have ended; what cancels this thread's work, or a sink raises, ends all and is raised."""
        watch = threading.Thread(target=self._watch, daemon=True)
        watch.start()
        try:
            while self._waiting or self._working:
                self._begin()
                current_token().raise_if_cancelled()
                self._take(POLL_S)
        except BaseException:
            self._stop_all()
            raise
        finally:
            self._done.set()
            watch.join()

    def _line(self, token: CancelToken, direct: Person | None) -> Line:
        clock = Clock(self._now)
        return Line(self._inbox, token, clock) if direct is None else DirectLine(self._inbox, token, clock, direct)

    def _begin(self) -> None:
        """Start what may begin now, in the order of the jobs."""
        for place in tuple(self._waiting):
            busy = self._jobs[place].writes and any(self._jobs[other].writes for other in self._working)
            if busy or len(self._working) >= self._together:
                continue
            self._waiting.remove(place)
            self._working.add(place)
            thread = threading.Thread(target=self._work, args=(place,), name=f"task {place + 1}", daemon=True)
            self._members[place].thread = thread
            thread.start()

    def _work(self, place: int) -> None:
        line = self._members[place].line
        ending: Ending[T] = Ending(place, 0.0)
        line.clock.start()
        try:
            ending.result = self._jobs[place].work(line)
        except BaseException as error:  # the result of the task says what it was
            ending.error = error
        ending.seconds = line.clock.elapsed_s
        self._inbox.put(ending)

    def _take(self, timeout_s: float) -> None:
        try:
            message = self._inbox.get(timeout=timeout_s)
        except queue.Empty:
            return
        if isinstance(message, Ending):
            self._working.discard(message.place)
            self._on_end(message)
        elif isinstance(message, _Question):
            self._ask(message)
        else:
            self._sink(message)

    def _ask(self, question: _Question) -> None:
        """Ask in this thread; a question of a sub-agent that is to end is withdrawn."""
        assert self._person is not None
        try:
            with use_token(CancelToken(question.line.token)) as token:
                token.raise_if_cancelled()
                question.answer = self._person.decide(question.card)
        except Cancelled:
            current_token().raise_if_cancelled()
        except Exception as error:  # it is raised in the sub-agent that asked
            question.error = error
        finally:
            question.settled.set()

    def _watch(self) -> None:
        """Cancel each whose time is over, once."""
        while not self._done.wait(POLL_S):
            for place in tuple(self._working):
                member = self._members[place]
                if not member.late and member.line.clock.elapsed_s >= self._jobs[place].timeout_s:
                    member.late = True
                    member.line.token.cancel(TaskTimeUp)

    def _stop_all(self) -> None:
        """End what works, and show what is known of its end; nothing is left when this returns."""
        for member in self._members:
            if not member.line.token.cancelled:  # else it has heard of it already
                member.line.token.cancel()
        deadline = time.monotonic() + STOP_PATIENCE_S
        for member in self._members:
            if member.thread is not None:
                member.thread.join(max(deadline - time.monotonic(), 0))
        with suppress(OSError):  # the reader of the output may be gone, and the reason for the end
            while not self._inbox.empty():
                self._take(0)
