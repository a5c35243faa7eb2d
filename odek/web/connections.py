"""How many clients are connected, and which of them makes room for the next one (P-10, P-11)."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress

MOST = 128
PATIENCE_S = 1.0
"""how long a client that has not sent a whole request keeps its place when there is no other"""


class Connections:
    """The open connections of a server, each with the time since when it waits for a request."""

    def __init__(self, *, now: Callable[[], float], most: int = MOST, patience_s: float = PATIENCE_S) -> None:
        self._now = now
        self._most = most
        self._patience_s = patience_s
        self._lock = threading.Lock()
        self._waiting_since: dict[socket.socket, float | None] = {}

    def admit(self, client: socket.socket) -> bool:
        """Return whether there is room for `client`; the one that has waited longest with nothing to do makes it."""
        with self._lock:
            if len(self._waiting_since) >= self._most and not self._make_room():
                return False
            self._waiting_since[client] = self._now()
            return True

    def mark(self, client: socket.socket, *, waiting: bool) -> None:
        """Note that `client` is being waited for, or answered; only one that waits makes room for others."""
        with self._lock:
            if client in self._waiting_since:
                self._waiting_since[client] = self._now() if waiting else None

    def forget(self, client: socket.socket) -> None:
        with self._lock:
            self._waiting_since.pop(client, None)

    def _make_room(self) -> bool:
        now = self._now()
        idle = [(since, client) for client, since in self._waiting_since.items() if since is not None]
        since, client = min(idle, key=lambda entry: entry[0], default=(now, None))
        if client is None or now - since < self._patience_s:
            return False
        del self._waiting_since[client]
        with suppress(OSError):  # it has gone already
            client.shutdown(socket.SHUT_RDWR)  # wakes its thread, which closes it
        return True
