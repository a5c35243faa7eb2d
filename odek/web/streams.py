"""The event streams that are open: how many a browser may hold, and how one is written (R-130, P-7, P-9)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from odek.web.errors import Refused
from odek.web.response import Response, to_bytes
from odek.web.wire import Wire

MOST_A_BROWSER = 4
MOST = 64
HEARTBEAT_S = 10.0
"""the page gives up after 25 s of silence"""
RETRY_MS = 1000
_COMMENT = b":\n\n"
STREAM = Response(content_type="text/event-stream; charset=utf-8", headers=(("X-Accel-Buffering", "no"),), streams=True)
"""what precedes a stream; a proxy must not hold it back"""


class LoggedEvent(Protocol):
    """One event as the log of a session has it."""

    @property
    def id(self) -> str | None: ...
    @property
    def kind(self) -> str: ...
    @property
    def data(self) -> object: ...


class Subscription(Protocol):
    """The events of one session from some moment on."""

    def next(self, timeout_s: float) -> Sequence[LoggedEvent] | None:
        """Return what has come, nothing after `timeout_s`, None when there will be no more."""

    def close(self) -> None: ...


@dataclass(slots=True, eq=False)
class Stream:
    """One stream of a browser, from the moment it was asked for."""

    browser: str
    wire: Wire | None = field(default=None)
    """None: nothing has been written yet"""


class Streams:
    """Those that are open in one server; safe in any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = threading.Condition(self._lock)
        self._open: list[Stream] = []

    def open(self, browser: str) -> Stream | None:
        """Return a place for one more stream, None when this browser has enough. Raises Refused."""
        with self._lock:
            mine = [stream for stream in self._open if stream.browser == browser]
            if len(mine) >= MOST_A_BROWSER or len(self._open) >= MOST:
                self._drop_gone()  # a tab that was reloaded: its old stream would be noticed at the next heartbeat
                mine = [stream for stream in self._open if stream.browser == browser]
            if len(mine) >= MOST_A_BROWSER:
                return None
            if len(self._open) >= MOST:
                raise Refused(503, "streams", f"{MOST} streams are open", "close a tab, then try again")
            made = Stream(browser)
            self._open.append(made)
            return made

    def close(self, stream: Stream) -> None:
        with self._lock:
            if stream in self._open:
                self._open.remove(stream)
                self._closed.notify_all()

    def wait_until_closed(self, timeout_s: float) -> None:
        """Wait until no stream is open, for so long at most."""
        with self._closed:
            self._closed.wait_for(lambda: not self._open, timeout_s)

    def close_all_of(self, browser: str) -> None:
        """End the streams of a browser that has logged out."""
        with self._lock:
            mine = [stream for stream in self._open if stream.browser == browser]
            self._open = [stream for stream in self._open if stream.browser != browser]
        for stream in mine:
            if stream.wire is not None:
                stream.wire.abandon()

    def _drop_gone(self) -> None:
        for stream in tuple(self._open):
            if stream.wire is not None and stream.wire.is_gone():
                self._open.remove(stream)
                stream.wire.abandon()


def write_stream(
    wire: Wire, subscription: Subscription, *, may_go_on: Callable[[], bool], is_stopping: Callable[[], bool]
) -> None:
    """Write events as they come, and a comment when none do, until the login is forgotten. Raises Gone."""
    wire.send(f"retry: {RETRY_MS}\n\n".encode())
    while (events := subscription.next(HEARTBEAT_S)) is not None:
        if not may_go_on():
            return
        wire.send(b"".join(frames(events)) or _COMMENT)
    if is_stopping():
        wire.send(frame("bye", {}))


def frames(events: Iterable[LoggedEvent]) -> Iterable[bytes]:
    """Yield `events` as they are written. Pure."""
    return (frame(event.kind, event.data, event_id=event.id) for event in events)


def frame(kind: str, data: object, *, event_id: str | None = None) -> bytes:
    """Return one event as it is written: JSON has no line ends, so its data is one line. Pure."""
    named = f"id: {event_id}\n" if event_id else ""
    return f"{named}event: {kind}\ndata: ".encode() + to_bytes(data) + b"\n\n"
