"""One client's socket: what it sends, within its times, and what it is sent (R-126)."""

from __future__ import annotations

import select
import socket
import time
from contextlib import suppress

from odek.web.errors import Refused
from odek.web.request import find_end

IDLE_S = 60.0
REQUEST_S = 15.0
WRITE_S = 10.0
_SLOWEST_BYTES_S = 256 << 10  # a body that comes faster has more time: 32 MiB may take two minutes
_LINGER_S = 2.0
_CHUNK_BYTES = 1 << 16


class Gone(Exception):
    """The client has closed its connection, or has been silent for too long between two requests."""


class Wire:
    """A connected client. What has arrived of the next request is kept."""

    def __init__(self, client: socket.socket, *, request_s: float = REQUEST_S, idle_s: float = IDLE_S) -> None:
        self._client = client
        self._request_s = request_s
        self._idle_s = idle_s
        self._received = bytearray()
        self._deadline = 0.0

    def read_head(self) -> bytes:
        """Return the next head with its empty line. Raises Refused for what cannot become one, and Gone."""
        if not self._received:
            self._receive(time.monotonic() + self._idle_s)
        self._deadline = time.monotonic() + self._request_s
        while not (end := find_end(self._received)):
            self._receive(self._deadline, begun=True)
        return self._take(end)

    def read_body(self, length: int) -> bytes:
        """Return the next `length` bytes. Raises Refused when they do not come in time, and Gone."""
        while len(self._received) < length:
            self._receive(self._deadline + len(self._received) / _SLOWEST_BYTES_S, begun=True)
        return self._take(length)

    def send(self, data: bytes) -> None:
        """Write all of `data`. Raises Gone when it cannot be written for 10 s."""
        try:
            self._client.settimeout(WRITE_S)
            for start in range(0, len(data), _CHUNK_BYTES):
                self._client.sendall(data[start : start + _CHUNK_BYTES])
        except OSError as error:
            raise Gone from error

    def linger(self) -> None:
        """End the connection, without taking back the answer from a client that is still sending."""
        deadline = time.monotonic() + _LINGER_S
        with suppress(OSError, Gone, Refused):
            self._client.shutdown(socket.SHUT_WR)
            while True:
                self._received.clear()
                self._receive(deadline)

    def abandon(self) -> None:
        """End the connection from another thread; what waits for it ends as well."""
        with suppress(OSError):
            self._client.shutdown(socket.SHUT_RDWR)

    def is_gone(self) -> bool:
        """Return whether the client has closed its side; from any thread."""
        try:
            waits = select.poll()
            waits.register(self._client, select.POLLIN)
            # asked first: `recv` of a socket with a time limit would wait, whatever its flags
            return bool(waits.poll(0)) and self._client.recv(1, socket.MSG_PEEK) == b""
        except (OSError, ValueError):  # it was closed meanwhile
            return True

    def _take(self, length: int) -> bytes:
        taken = bytes(self._received[:length])
        del self._received[:length]
        return taken

    def _receive(self, deadline: float, *, begun: bool = False) -> None:
        left = deadline - time.monotonic()
        try:
            if left <= 0:
                raise TimeoutError
            self._client.settimeout(left)
            data = self._client.recv(_CHUNK_BYTES)
        except TimeoutError as error:
            if begun:
                raise Refused(408, "timeout", "the request was not complete in time") from error
            raise Gone from error
        except OSError as error:
            raise Gone from error
        if not data:
            raise Gone
        self._received += data
