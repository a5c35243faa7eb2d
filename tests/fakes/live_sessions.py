"""Sessions that do nothing: the HTTP server's tests see what arrived and choose what is answered."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from dataclasses import dataclass, field

from odek.web.errors import Refused

KNOWN = "20261130-00000000000000000000000000000001"


@dataclass(frozen=True, slots=True)
class FakeEvent:
    """An event as the log of a session has it."""

    id: str | None
    kind: str
    data: object


class FakeSubscription:
    """Events that a test puts in; None ends it."""

    def __init__(self) -> None:
        self.events: queue.SimpleQueue[list[FakeEvent] | None] = queue.SimpleQueue()
        self.closed = False

    def next(self, timeout_s: float) -> list[FakeEvent] | None:
        try:
            return self.events.get(timeout=timeout_s)
        except queue.Empty:
            return []

    def close(self) -> None:
        self.closed = True


@dataclass(slots=True)
class FakeLive:
    """Knows one session, KNOWN; `calls` has everything that was asked of it, reading apart."""

    calls: list[tuple[object, ...]] = field(default_factory=list)
    subscriptions: list[FakeSubscription] = field(default_factory=list)
    raises: Exception | None = None
    """what the next call raises instead"""
    turn_is_running: bool = True

    def state(self) -> dict[str, object]:
        self._maybe_raise()
        return {"folder": "/src/app", "sessions": [], "refusal": None}

    def config(self, session_id: str | None) -> dict[str, object]:
        self._known(session_id)
        return {"session": session_id}

    def list(self, limit: int, before: str | None, q: str) -> dict[str, object]:
        return {"sessions": [], "next": None, "damaged": [], "asked": [limit, before, q]}

    def create(self, text: str, files: Sequence[str], request_id: str) -> dict[str, object]:
        self._maybe_raise()
        self.calls.append(("create", text, tuple(files), request_id))
        return {"id": KNOWN, "turn": 1}

    def snapshot(self, session_id: str) -> dict[str, object]:
        self._known(session_id)
        return {"id": session_id}

    def entries(self, session_id: str, before: int | None, limit: int) -> dict[str, object]:
        self._known(session_id)
        return {"entries": [], "first": 1, "asked": [before, limit]}

    def start_turn(self, session_id: str, text: str, files: Sequence[str], request_id: str) -> dict[str, object]:
        self._known(session_id)
        self.calls.append(("turn", text, tuple(files), request_id))
        return {"turn": 2}

    def cancel(self, session_id: str, turn: int) -> bool:
        self._known(session_id)
        self.calls.append(("cancel", turn))
        return self.turn_is_running

    def compact(self, session_id: str, words: str) -> None:
        self._known(session_id)
        self.calls.append(("compact", words))

    def undo(self, session_id: str) -> dict[str, object]:
        self._known(session_id)
        self.calls.append(("undo",))
        return {"turns": 0}

    def set_model(self, session_id: str, name: str) -> dict[str, object]:
        self._known(session_id)
        self.calls.append(("model", name))
        return {"model": name}

    def sandbox(self, session_id: str, action: str) -> None:
        self._known(session_id)
        self.calls.append(("sandbox", action))

    def answer(
        self, session_id: str, approval_id: str, answer: str, digest: str, confirm: str | None
    ) -> dict[str, object]:
        self._known(session_id)
        self.calls.append(("answer", approval_id, answer, digest, confirm))
        return {"answer": answer, "at": "2026-11-30T12:00:00Z"}

    def cancel_task(self, session_id: str, task_id: str) -> None:
        self._known(session_id)
        self.calls.append(("cancel_task", task_id))

    def delete(self, session_id: str) -> None:
        self._known(session_id)
        self.calls.append(("delete", session_id))

    def subscribe(self, session_id: str, after: str | None) -> FakeSubscription:
        self._known(session_id)
        made = FakeSubscription()
        made.events.put([FakeEvent(None, "hello", {"after": after})])
        self.subscriptions.append(made)
        return made

    def _known(self, session_id: str | None) -> None:
        self._maybe_raise()
        if session_id not in (None, KNOWN):
            raise Refused(404, "not_found", "there is no such session")

    def _maybe_raise(self) -> None:
        error, self.raises = self.raises, None
        if error is not None:
            raise error
