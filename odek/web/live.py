"""The sessions that `odek serve` shows: those on the disk, and those that are live here. Knows no HTTP.

Every method may be called in any thread. One lock guards the table, each session's log another one; neither is held
while Docker is asked, a file is read, or a socket is written to. What cannot be done is a `Refused`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from threading import Lock
from typing import TypeVar

from odek import __version__
from odek.app.config import require_model_name
from odek.errors import Interrupted, OdekError, StateFileError, StateFileInUse
from odek.session.groups import history
from odek.session.transcript import Transcript
from odek.text import visible
from odek.web import settings_shown, snapshots
from odek.web.entries import Entry, entries_of, numbered
from odek.web.errors import Refused
from odek.web.log import Subscription
from odek.web.place import Place, Serving
from odek.web.promise import Promise
from odek.web.session import LiveSession

T = TypeVar("T")
Entries = list[Entry]
Sessions = list[LiveSession]
MOST_LISTED = 200
_REPEATS_S = 600.0
"""how long the answer to a request is repeated"""
_PLACES_KEPT = 64
_ENDING_S = 5.0
"""for a turn that has told its end, to let go of the session"""
_WAIT_S = 600.0
"""for a job of a session that is idle"""


@dataclass(slots=True)
class _Repeat:
    """A request that was made, and its answer when there is one."""

    at: float
    answer: Promise[dict[str, object]] = field(default_factory=Promise)


class LiveSessions:
    """See the module."""

    def __init__(self, serving: Serving, *, grant: str, now: Callable[[], float] = time.monotonic) -> None:
        """`grant` is how the project's request was approved, as `/api/config` says it."""
        self._serving = serving
        self._settings = serving.config.settings.serve
        self._grant = grant
        self._now = now
        self._lock = Lock()
        self._sessions: dict[str, LiveSession] = {}
        self._opening: list[LiveSession] = []
        """sessions that are not in the table yet"""
        self._places: dict[str, Place] = {}
        self._repeats: dict[tuple[str, str], _Repeat] = {}
        self._stopping = False

    # looking

    def state(self) -> dict[str, object]:
        """Return what a page asks for again and again: a look at memory, no more."""
        live = self._all_live()
        sandboxes = self._serving.sandboxes
        refusal = sandboxes.refusal if sandboxes else None
        return {
            "folder": visible(self._serving.runtime.host.cwd),
            "version": __version__,
            "model": self._serving.config.settings.model.model,
            "sandbox": sandboxes is not None,
            "sessions": [snapshots.state_of(session) for session in live],
            "refusal": refusal and {"code": "changed", "message": refusal.message, "hint": refusal.hint},
            "stopping": self._stopping,
        }

    def list(self, limit: int = 50, before: str | None = None, q: str = "") -> dict[str, object]:
        """Return the newest sessions, or those before the one with the id `before`; `q` is part of their titles."""
        if not 1 <= limit <= MOST_LISTED:
            raise Refused(422, "limit", f"limit is 1 to {MOST_LISTED}")
        try:
            found = self._serving.store.list()
        except StateFileError as error:
            raise Refused.because(error, status=500, code="damaged") from error
        wanted = [summary for summary in found.sessions if q.casefold() in summary.header.task.casefold()]
        if before:
            places = [place for place, summary in enumerate(wanted) if summary.header.id == before]
            if not places:
                raise Refused(422, "before", "there is no such session in the list")
            wanted = wanted[places[0] + 1 :]
        page = wanted[:limit]
        return {
            "sessions": [snapshots.listed(summary, self._live(summary.header.id), self._serving) for summary in page],
            "next": page[-1].header.id if len(wanted) > limit else None,
            "damaged": [{"id": visible(each.name), "reason": each.reason} for each in found.damaged],
        }

    def snapshot(self, session_id: str) -> dict[str, object]:
        """Return a session as it is now; later events follow `last_event`."""
        session, place = self._live(session_id), self._place(session_id)
        if session is not None:
            shown = snapshots.of_live(session)
            if shown is not None:
                return shown
        return snapshots.of_stored(self._read(session_id), place, self._serving)

    def entries(self, session_id: str, before: int | None = None, limit: int = snapshots.NEWEST) -> dict[str, object]:
        """Return up to `limit` entries before the number `before`, the newest without one."""
        if not 1 <= limit <= 2000:
            raise Refused(422, "limit", "limit is 1 to 2000")
        entries = self._entries(session_id)
        end = len(entries) if before is None else max(min(before - 1, len(entries)), 0)
        first = max(end - limit, 0)
        return {"entries": numbered(entries[first:end], first + 1), "first": first + 1}

    def config(self, session_id: str | None = None) -> dict[str, object]:
        """Return the settings in force; with a session, what the tool `config_view` shows there (R-142)."""
        if session_id is None:
            return settings_shown.of_server(self._serving, self._all_live(), grant=self._grant)
        session = self._live(session_id)
        if session is None:
            self._require(session_id)
        applied = session.applied() if session else None
        return applied or settings_shown.planned(self._serving)

    def subscribe(self, session_id: str, after: str | None = None) -> Subscription:
        """Return the events of a session behind the id `after`, also before it is live."""
        if self._stopping:
            raise _stopping()
        if self._live(session_id) is None:
            self._require(session_id)
        return self._place(session_id).log.subscribe(after)

    # turns

    def create(self, text: str, files: Sequence[str], request_id: str) -> dict[str, object]:
        """Begin a session with its first message; both are on the disk when this returns."""
        _check_text(text, files)

        def begin() -> dict[str, object]:
            place = Place(self._serving)
            place.busy = True
            session = self._open(LiveSession(self._serving, place, on_known=self._register))
            accepted = session.start_turn(text, files)
            try:
                if accepted is None:
                    raise _stopping()
                turn = _result(accepted)
            finally:
                self._opened(session)
            return {"id": session.id, "turn": turn}

        return self._once("", request_id, begin)

    def start_turn(self, session_id: str, text: str, files: Sequence[str], request_id: str) -> dict[str, object]:
        """Begin a turn of a session, which goes live if it is not; the task is on the disk when this returns."""
        _check_text(text, files)

        def begin() -> dict[str, object]:
            session = self._make_busy(session_id)
            accepted = session.start_turn(text, files)
            if accepted is None:
                self._make_idle(session)
                raise _busy()
            return {"turn": _result(accepted)}

        return self._once(session_id, request_id, begin)

    def cancel(self, session_id: str, turn: int) -> bool:
        """Cancel a turn; return whether it was under way."""
        session = self._live(session_id)
        if session is None:
            self._require(session_id)
            return False
        return session.cancel(turn)

    def cancel_task(self, session_id: str, task_id: str) -> None:
        """Cancel one sub-agent of the turn that is under way."""
        session = self._live(session_id)
        if session is None or not session.cancel_task(task_id):
            raise Refused(404, "unknown", "there is no such task at work")

    def answer(
        self, session_id: str, approval_id: str, answer: object, digest: object, confirm: object = None
    ) -> dict[str, object]:
        """Answer a question of a session."""
        self._require(session_id)
        return self._place(session_id).cards.answer(approval_id, answer, digest, confirm)

    # changes of an idle session

    def undo(self, session_id: str) -> dict[str, object]:
        """Take the last turn back; files stay as they are."""
        return self._idle_job(session_id, lambda session: session.undo())

    def set_model(self, session_id: str, name: str) -> dict[str, object]:
        """Ask another model from the next turn on."""
        if self._live(session_id) is None:
            self._require(session_id)
            try:
                require_model_name(name)
                config = self._serving.config.with_model(name, origin="the page")
                self._serving.runtime.new_model(config.settings)
            except OdekError as error:
                raise Refused.because(error, status=422, code="model") from error
            self._place(session_id).model = name
            return {"model": config.settings.model.model}
        return self._idle_job(session_id, lambda session: session.set_model(name), refusal=(422, "model"))

    def compact(self, session_id: str, words: str) -> None:
        """Have a summary written that stands for the older part of the conversation; an event says when it does."""
        if self._live(session_id) is None:
            self._require(session_id)
            raise Refused(409, "closed", "the session is not live", "send it a message first")
        session = self._make_busy(session_id)
        if session.submit(partial(session.compact, words)) is None:
            self._make_idle(session)
            raise _busy()

    def sandbox(self, session_id: str, action: str) -> dict[str, object]:
        """Close a session, which lets go of its container and its lock, or give it a new container."""
        if action not in ("restart", "close"):
            raise Refused(422, "action", "action is restart or close")
        if self._live(session_id) is None:
            self._require(session_id)
            if action == "close":
                return {}
            raise Refused(409, "closed", "the session has no sandbox", "the next message makes one")
        session = self._make_busy(session_id)
        if action == "close":
            session.close("closed")
            return {}
        if self._serving.sandboxes is None:
            self._make_idle(session)
            raise Refused(409, "no_sandbox", "commands run on this host; there is no sandbox to start again")
        if session.submit(session.restart) is None:
            self._make_idle(session)
            raise _busy()
        return {}

    def delete(self, session_id: str) -> None:
        """Remove a session with its files; one that is live here ends first."""
        session = self._live(session_id)
        if session is not None:
            session = self._make_busy(session_id)
            session.close("deleted")
            session.thread.join(_WAIT_S)
        self._require(session_id)
        try:
            self._serving.store.delete(session_id)
        except StateFileInUse as error:
            raise Refused.because(error, status=409, code="in_use") from error
        except StateFileError as error:
            raise Refused.because(error, status=404, code="unknown") from error
        self._serving.forget_files(session_id)
        with self._lock:
            place = self._places.pop(session_id, None)
        if place is not None:
            place.log.close()

    def close_all(self, deadline_s: float, *, signal_number: int = 15) -> bool:
        """End every session, side by side, within `deadline_s` seconds; return whether all have ended.

        Nothing begins any more. What is left when the time is over ends with the process, by its lease.
        """
        with self._lock:
            self._stopping = True
            sessions, places = [*self._sessions.values(), *self._opening], list(self._places.values())
        until = self._now() + deadline_s
        for session in sessions:
            session.close("the server has ended")
            session.cancel(-1, partial(Interrupted, signal_number))
        for session in sessions:
            session.thread.join(max(until - self._now(), 0))
        for place in places:
            place.log.close()
        return not any(session.thread.is_alive() for session in sessions)

    # the table

    def _live(self, session_id: str) -> LiveSession | None:
        with self._lock:
            session = self._sessions.get(session_id)
            return session if session is not None and session.place.live else None

    def _all_live(self) -> Sessions:
        with self._lock:
            return [session for session in self._sessions.values() if session.place.live]

    def _place(self, session_id: str) -> Place:
        with self._lock:
            place = self._places.pop(session_id, None) or Place(self._serving)
            self._places[session_id] = place  # the newest last
            spare = [name for name, each in self._places.items() if each.is_unused]
            for name in spare[: max(len(spare) - _PLACES_KEPT, 0)]:
                if name != session_id:
                    del self._places[name]
            return place

    def _open(self, session: LiveSession) -> LiveSession:
        """Start the thread of a session, if there is room for it. Raises Refused."""
        with self._lock:
            self._require_room()
            self._opening.append(session)
        session.thread.start()
        return session

    def _opened(self, session: LiveSession) -> None:
        with self._lock:
            if session in self._opening:
                self._opening.remove(session)

    def _register(self, session: LiveSession) -> None:
        """Enter a session whose id is known."""
        with self._lock:
            ended = [name for name, each in self._sessions.items() if not each.thread.is_alive()]
            for name in ended:
                del self._sessions[name]
            self._sessions[session.id] = session
            self._places[session.id] = session.place
            self._opening.remove(session)

    def _require_room(self) -> None:
        """Raise Refused when no further session may go live; the lock is held."""
        if self._stopping:
            raise _stopping()
        live = [session for session in self._sessions.values() if session.thread.is_alive()]
        if len(live) + len(self._opening) < self._settings.max_sandboxes:
            return
        closable = [
            {"id": session.id, "state": session.place.state} for session in live if session.place.state != "working"
        ]
        raise Refused(
            503,
            "sandboxes",
            f"{self._settings.max_sandboxes} sandboxes are live, and that is the limit",
            "close one of them, or raise serve.max_sandboxes",
            extra={"sessions": closable},
        )

    def _make_busy(self, session_id: str) -> LiveSession:
        """Return a live session for one job; it goes live if it is not. Raises Refused."""
        place = self._place(session_id)
        with place.log.lock:
            place.log.lock.wait_for(lambda: not (place.busy and place.is_ending), _ENDING_S)
            if place.busy:
                raise _busy()
            place.busy = True
        try:
            return self._live_and_well(session_id) or self._go_live(session_id, place)
        except BaseException:
            with place.log.lock:
                place.busy = False
            raise

    def _live_and_well(self, session_id: str) -> LiveSession | None:
        session = self._live(session_id)
        if session is not None and session.is_closing:
            session.thread.join(_WAIT_S)
            return None
        return session

    def _go_live(self, session_id: str, place: Place) -> LiveSession:
        self._require(session_id)
        session = self._open(LiveSession(self._serving, place, on_known=self._register))
        try:
            ready = session.submit(partial(session.go_live, session_id))
            if ready is None:
                raise _stopping()
            _result(ready)
        except BaseException:
            session.close("refused")
            raise
        finally:
            self._opened(session)
        return session

    def _make_idle(self, session: LiveSession) -> None:
        with session.place.log.lock:
            session.place.busy = False

    def _idle_job(
        self, session_id: str, job: Callable[[LiveSession], T], *, refusal: tuple[int, str] = (409, "refused")
    ) -> T:
        before = self._live(session_id)
        session = self._make_busy(session_id)
        try:
            done = session.submit(partial(job, session))
            if done is None:
                raise _busy()
            return _result(done, refusal)
        finally:
            if session is before:
                self._make_idle(session)
            else:  # only a message makes a session live
                session.close("closed")

    # requests that are repeated

    def _once(self, session_id: str, request_id: str, begin: Callable[[], dict[str, object]]) -> dict[str, object]:
        """Return what `begin` does, or did for the same request within ten minutes."""
        if not request_id or len(request_id) > 100:
            raise Refused(422, "request_id", "request_id is a text of 1 to 100 characters")
        key = (session_id, request_id)
        with self._lock:
            now = self._now()
            for name in [name for name, each in self._repeats.items() if now - each.at > _REPEATS_S]:
                del self._repeats[name]
            known = self._repeats.get(key)
            made = known or self._repeats.setdefault(key, _Repeat(at=now))
        if known is not None:
            return _result(known.answer)
        try:
            answer = begin()
        except BaseException as error:
            with self._lock:
                self._repeats.pop(key, None)  # what was refused may be tried again
            made.answer.fail(error)
            raise
        made.answer.keep(answer)
        return answer

    # what is shown

    def _read(self, session_id: str) -> Transcript:
        self._require(session_id)
        try:
            return self._serving.store.read(session_id)
        except StateFileError as error:
            raise Refused.because(error, status=409, code="damaged") from error

    def _entries(self, session_id: str) -> Entries:
        session = self._live(session_id)
        if session is not None:
            with session.place.log.lock:
                if session.place.live:
                    return list(session.place.view.entries)
        return entries_of(history(self._read(session_id)), {}, self._serving.redact)

    def _require(self, session_id: str) -> None:
        """Raise Refused unless there is a session with that id, damaged or not."""
        try:
            self._serving.store.require(session_id)
        except StateFileError as error:
            raise Refused.because(error, status=404, code="unknown") from error


def _check_text(text: str, files: Sequence[str]) -> None:
    """Raise Refused for what cannot be a message."""
    if not text and not files:
        raise Refused(422, "text", "a message needs a text or a file")
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise Refused(422, "text", "the text is not valid UTF-8") from error
    if "\0" in text:
        raise Refused(422, "text", "the text holds a NUL")
    if size > 1 << 20:
        raise Refused(413, "text", "the text is larger than 1 MiB", "put it into a file")


def _result(done: Promise[T], refusal: tuple[int, str] = (409, "refused")) -> T:
    """Return what a session's thread has for us; its errors become Refused."""
    if not done.wait(_WAIT_S):
        raise Refused(503, "busy", "the session does not answer", "try again")
    try:
        return done.value()
    except Refused:
        raise
    except OdekError as error:
        status, code = refusal
        raise Refused.because(error, status=status, code=code) from error


def _busy() -> Refused:
    return Refused(409, "busy", "the session is at work", "wait for its turn to end, or stop it")


def _stopping() -> Refused:
    return Refused(503, "stopping", "the server is stopping")
