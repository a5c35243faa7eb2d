"""One server through its life: started, opened, called, started again when it has died, ended (R-195, R-202)."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from odek.cancel import POLL_S, current_token
from odek.mcp.connection import CallFailed, Connection, Era, Listing, McpFailure, Pipe, ServerFailed
from odek.text import truncate, visible

MAX_RESTARTS = 3
Call = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
"""a tool and its arguments in, its result out"""
_WORDS_LINES, _WORDS_CHARACTERS = 3, 200


class Server:
    """A program that offers tools. Calls that may run together do, up to a limit; any other one is alone."""

    def __init__(
        self,
        name: str,
        start: Callable[[], Pipe],
        *,
        startup_s: float,
        timeout_s: float,
        limit: int = 1,
        client: Mapping[str, Any],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`start` starts the program; it raises ServerFailed when that is not possible.

        At most `limit` calls are at work at the same time.
        """
        self.name = name
        self.listing = Listing(tools=())
        """its tools as it has described them last"""
        self._start = start
        self._startup_s = startup_s
        self._timeout_s = timeout_s
        self._client = client
        self._clock = clock
        self._limit = limit
        self._lock = threading.Lock()
        """held while the program is looked at or started"""
        self._changed = threading.Condition()
        """guards the next three"""
        self._queue: deque[object] = deque()
        self._at_work = 0
        self._is_alone = False
        """whether the call at work is one that runs alone"""
        self._connection: Connection | None = None
        self._era: Era | None = None
        self._restarts = 0

    @property
    def alive(self) -> bool:
        """whether its program has been opened and is not known to have ended"""
        return self._connection is not None

    def connect(self) -> None:
        """Start the program and ask for its tools. Raises ServerFailed, with its last words."""
        deadline = self._clock() + self._startup_s
        connection = self._new_connection()
        try:
            try:
                connection.open(deadline=deadline, era=self._era)
            except ServerFailed:
                if not connection.discovering:
                    raise
                connection.pipe.close()  # it has ended at the question of the modern era
                connection = self._new_connection()
                connection.open(deadline=deadline, era="legacy")
            self.listing = connection.list_tools(deadline=deadline)
        except CallFailed as error:
            raise _ended(connection, f"{error.reason} ({self._startup_s:g} s at most)", error.foreign) from error
        except ServerFailed as error:
            raise _ended(connection, error.reason, error.foreign) from error
        except BaseException:
            connection.pipe.close()
            raise
        self._era = connection.era
        self._connection = connection

    @contextmanager
    def in_use(self, *, together: bool = False) -> Iterator[Call]:
        """Hold the server for one call, which is yielded; one that has died meanwhile is started again.

        `together`: other such calls may be at work at the same time. Calls wait in the order in which they came.
        Raises CallFailed, and so does the call.
        """
        self._enter(together=together)
        try:
            yield partial(self._call, self._ready())
        finally:
            with self._changed:
                self._at_work -= 1
                self._changed.notify_all()

    def _enter(self, *, together: bool) -> None:
        place = object()
        with self._changed:
            self._queue.append(place)
            try:
                while self._queue[0] is not place or not self._has_room(together=together):
                    self._changed.wait(POLL_S)
                    current_token().raise_if_cancelled()
                self._at_work, self._is_alone = self._at_work + 1, not together
            finally:
                self._queue.remove(place)
                self._changed.notify_all()

    def _has_room(self, *, together: bool) -> bool:
        if not together:
            return not self._at_work
        return not self._at_work or (not self._is_alone and self._at_work < self._limit)

    def _ready(self) -> Connection:
        """Return the connection to a program that is there as far as is known. Raises CallFailed."""
        while not self._lock.acquire(timeout=POLL_S):
            current_token().raise_if_cancelled()
        try:
            self._look()
            if self._connection is not None:
                self._require_responsive(self._connection)
            if self._connection is None:
                self._restart()
            assert self._connection is not None
            return self._connection
        finally:
            self._lock.release()

    def _call(self, connection: Connection, tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            return connection.call(tool, arguments, timeout_s=self._timeout_s)
        except ServerFailed as error:
            failed = self._drop(connection, error.reason)
            raise CallFailed(f"the server {self.name} failed: {failed.reason}", foreign=failed.foreign) from error

    def refresh(self) -> bool:
        """Ask for the tools again if the server has said that they changed; return whether it did.

        Not while another thread's call is at work.
        """
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if self._at_work:
                return False
            self._look()
            if self._connection is None or not self._connection.list_changed:
                return False
            self.listing = self._connection.list_tools(deadline=self._clock() + self._startup_s)
        except McpFailure as error:  # the next call starts it again
            if self._connection is not None:
                self._drop(self._connection, error.reason)
            return False
        finally:
            self._lock.release()
        return True

    def close(self) -> None:
        """End the program."""
        connection, self._connection = self._connection, None
        self._restarts = MAX_RESTARTS
        if connection is not None:
            connection.end("odek ends it")

    def _look(self) -> None:
        """Take what the server has sent since it was last used, its end included."""
        connection = self._connection
        if connection is not None:
            try:
                connection.poll()
            except ServerFailed as error:  # the next call starts it again
                self._drop(connection, error.reason)

    def _require_responsive(self, connection: Connection) -> None:
        """Let go of a server that hangs: each further call would cost its whole time."""
        try:
            connection.require_responsive()
        except ServerFailed as error:  # as above
            self._drop(connection, error.reason)

    def _restart(self) -> None:
        if self._restarts >= MAX_RESTARTS:
            raise CallFailed(f"the server {self.name} has ended and is not started again")
        self._restarts += 1
        try:
            self.connect()
        except ServerFailed as error:
            reason = f"the server {self.name} could not be started again: {error.reason}"
            raise CallFailed(reason, foreign=error.foreign) from error

    def _new_connection(self) -> Connection:
        return Connection(self._start(), client=self._client, clock=self._clock)

    def _drop(self, connection: Connection, reason: str) -> ServerFailed:
        """Let go of a program that is of no use; return why, with its last words."""
        if self._connection is connection:  # else another of its calls has seen it first
            self._connection = None
        return _ended(connection, reason)


def last_words(stderr: bytes) -> str:
    """Return the last lines that a program has printed on stderr, on one line."""
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    return "; ".join(visible(truncate(line, _WORDS_CHARACTERS)) for line in lines[-_WORDS_LINES:])


def _ended(connection: Connection, reason: str, foreign: str = "") -> ServerFailed:
    """End the program of `connection`; return what is to be said of it, with its last words."""
    connection.end(reason)
    return ServerFailed(reason, foreign=foreign or last_words(connection.pipe.stderr_tail))
