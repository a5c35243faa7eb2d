"""The events of one live session, in order, for readers that come, go, and come back (R-130).

An id is `<epoch>.<number>`: the epoch is new whenever the session goes live, the number counts from 1. The log is
bounded; a reader that asks for more than it holds gets a `reset` and takes a snapshot. Pieces of text are merged and
leave the log when the whole reply is in it. With `lock` held, the log and what was derived from it fit together.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Condition

from odek.agent.context_window import truncate_middle

MOST_EVENTS = 5000
MOST_BYTES = 4 << 20
EVENT_LIMIT_BYTES = 256 << 10
MERGE_S = 0.05
"""pieces of text become one event in this time"""
_EPOCH_BYTES = 4
_TRANSIENT = frozenset({"tool_output"})
_NEVER_CUT = frozenset({"approval_asked"})
"""a yes is for all of the text, so all of it is sent; what can be asked about is bounded (gatekeeper.QUESTION_LIMIT)"""
_WHOLE = frozenset({"model_replied", "text_voided", "turn_ended"})
"""after them no piece of text before counts"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedEvent:
    """One event as a reader gets it."""

    id: str | None
    """None: it is not part of the log"""
    kind: str
    data: Mapping[str, object]
    size: int = 0


class Subscription:
    """The events of one session from some moment on; for one thread."""

    def __init__(self, log: EventLog, first: list[LoggedEvent]) -> None:
        self._log = log
        self._waiting = deque(first)
        self._closed = False

    def next(self, timeout_s: float) -> list[LoggedEvent] | None:
        """Return what has come, nothing after `timeout_s`, None when there will be no more."""
        log = self._log
        deadline = log.now() + timeout_s
        with log.lock:
            while not self._waiting and not self._closed:
                due = log.flush_due()
                left = deadline - log.now()
                if self._waiting or left <= 0:
                    break
                log.lock.wait(left if due is None else min(left, due))
            events, self._waiting = list(self._waiting), deque()
            return events if events or not self._closed else None

    def close(self) -> None:
        """Take no more; safe in any thread."""
        with self._log.lock:
            self._log.drop(self)
            self._closed = True
            self._log.lock.notify_all()

    def put(self, event: LoggedEvent) -> None:
        """Add an event; the log's lock is held. One that does not keep up starts over."""
        if len(self._waiting) >= MOST_EVENTS:
            self._waiting.clear()
            event = self._log.reset_event()
        self._waiting.append(event)


class EventLog:
    """See the module. Every method may be called in any thread."""

    def __init__(
        self,
        new_epoch: Callable[[int], str],
        *,
        state: Callable[[], str] = lambda: "idle",
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`new_epoch` gives random hex digits, twice as many as the bytes asked for; `state` is that of the session."""
        self.lock = Condition()
        self.now = now
        self._new_epoch = new_epoch
        self._state = state
        self._epoch = new_epoch(_EPOCH_BYTES)
        self._number = 0
        self._held: deque[tuple[int, LoggedEvent]] = deque()
        self._size = 0
        self._lost = 0
        """the last number that the log had to drop"""
        self._text: dict[object, list[str]] = {}
        """what is being merged, by the sub-agent that says it; None: the agent itself"""
        self._flushed = now()
        self._readers: list[Subscription] = []

    @property
    def last(self) -> str:
        """the id of the newest event"""
        return f"{self._epoch}.{self._number}"

    @property
    def has_readers(self) -> bool:
        return bool(self._readers)

    def add(self, data: Mapping[str, object]) -> None:
        """Add an event: its kind under "event", then its fields."""
        kind = str(data["event"])
        with self.lock:
            if kind == "text":
                self._text.setdefault(data.get("task"), []).append(str(data["text"]))
                self.flush_due()
                self.lock.notify_all()
                return
            self.flush()
            if kind in _TRANSIENT:
                self._send(LoggedEvent(id=None, kind=kind, data=limited(data)))
                return
            if kind in _WHOLE:
                self._forget_text(data.get("task"))
            self._append(kind, data)

    def flush(self) -> None:
        """Log the text that is being merged; the lock is held."""
        merged, self._text = self._text, {}
        for task, pieces in merged.items():
            self._flushed = self.now()
            named = {} if task is None else {"task": task}
            self._append("text", {"event": "text", "text": "".join(pieces), **named})

    def flush_due(self) -> float | None:
        """Log merged text that is due; return after how many seconds the rest is, None without any.

        The lock is held.
        """
        left = self._flushed + MERGE_S - self.now()
        if left <= 0:
            self.flush()
        return left if self._text else None

    def forget(self) -> None:
        """Hold no event any more: a reader that has not had them all starts over."""
        with self.lock:
            self.flush()
            self._held.clear()
            self._size, self._lost = 0, self._number

    def renew(self) -> None:
        """Begin a new epoch: what was read so far may differ from what is there now."""
        with self.lock:
            self._epoch = self._new_epoch(_EPOCH_BYTES)
            self._number = self._lost = self._size = 0
            self._held.clear()
            self._text.clear()
            self._send(self.reset_event())

    def subscribe(self, after: str | None) -> Subscription:
        """Return the events behind the id `after`, from now on without one."""
        with self.lock:
            self.flush()
            number = self._number if not after else self._number_of(after)
            if number is None:
                first = [self.reset_event()]
            else:
                hello = LoggedEvent(id=None, kind="hello", data=self._greeting("hello"))
                first = [hello, *(event for place, event in self._held if place > number)]
            made = Subscription(self, first)
            self._readers.append(made)
            return made

    def close(self) -> None:
        """End all subscriptions, after what waits for them."""
        with self.lock:
            for reader in tuple(self._readers):
                reader.close()

    def drop(self, reader: Subscription) -> None:
        """Send no more to `reader`; the lock is held."""
        if reader in self._readers:
            self._readers.remove(reader)

    def reset_event(self) -> LoggedEvent:
        """Return what makes a reader take a new snapshot."""
        return LoggedEvent(id=None, kind="reset", data=self._greeting("reset"))

    def _greeting(self, kind: str) -> dict[str, object]:
        return {"event": kind, "state": self._state(), "last": self.last}

    def _number_of(self, after: str) -> int | None:
        """Return the number in an id of which nothing later was dropped, None for any other."""
        epoch, _, digits = after.partition(".")
        if epoch != self._epoch or not (digits.isascii() and digits.isdigit()) or len(digits) > 15:
            return None
        number = int(digits)
        return number if self._lost <= number <= self._number else None

    def _append(self, kind: str, data: Mapping[str, object]) -> None:
        self._number += 1
        kept = data if kind in _NEVER_CUT else limited(data)
        event = LoggedEvent(id=self.last, kind=kind, data=kept, size=_size_of(kept))
        self._held.append((self._number, event))
        self._size += event.size
        while len(self._held) > MOST_EVENTS or self._size > MOST_BYTES:
            self._lost, gone = self._held.popleft()
            self._size -= gone.size
        self._send(event)

    def forget_question(self, card_id: str) -> None:
        """Hold a question no longer that is settled; the lock is held."""
        self._hold_only(lambda event: event.kind != "approval_asked" or _asked(event.data) != card_id)

    def _forget_text(self, task: object) -> None:
        self._hold_only(lambda event: event.kind != "text" or event.data.get("task") != task)

    def _hold_only(self, is_kept: Callable[[LoggedEvent], bool]) -> None:
        kept = deque((place, event) for place, event in self._held if is_kept(event))
        self._held, self._size = kept, sum(event.size for _, event in kept)

    def _send(self, event: LoggedEvent) -> None:
        for reader in self._readers:
            reader.put(event)
        self.lock.notify_all()


def _asked(data: Mapping[str, object]) -> object:
    card = data["approval"]
    return card["id"] if isinstance(card, Mapping) else None


def limited(data: Mapping[str, object]) -> Mapping[str, object]:
    """Return `data` with its long texts cut in the middle where it is too large for one event. Pure."""
    if _size_of(data) <= EVENT_LIMIT_BYTES:
        return data
    most = EVENT_LIMIT_BYTES // 4
    while True:
        cut = {**_cut(data, most), "cut": True}
        if _size_of(cut) <= EVENT_LIMIT_BYTES or most < 64:
            return cut
        most //= 2


def _cut(value: Mapping[str, object], most: int) -> dict[str, object]:
    return {key: _cut_value(each, most) for key, each in value.items()}


def _cut_value(value: object, most: int) -> object:
    if isinstance(value, str):
        return truncate_middle(value, most)
    if isinstance(value, Mapping):
        return _cut(value, most)
    if isinstance(value, list):
        return [_cut_value(each, most) for each in value]
    return value


def _size_of(data: Mapping[str, object]) -> int:
    return len(json.dumps(data, ensure_ascii=False).encode("utf-8", "surrogatepass"))
