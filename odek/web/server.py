"""The HTTP server: connections, one thread each, and the requests on them (R-126).

It knows no route: an Application says whether a request is let in, and answers it.
"""

from __future__ import annotations

import errno
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from odek.errors import OdekError
from odek.web.connections import PATIENCE_S, Connections
from odek.web.errors import Refused
from odek.web.request import Head, body_length, parse_head, require_expectation
from odek.web.response import Response, error_response, render
from odek.web.wire import Gone, Wire

_FULL = Refused(503, "connections", "there are too many connections", "close some, then try again")
_BUG = Refused(500, "bug", "internal error; this is a bug of odek", "ODEK_DEBUG=1 shows where it happened")
_ACCEPT_FAILED_S = 0.05
_BACKLOG = 128
_POLL_S = 0.5


class Call(Protocol):
    """A request that was let in."""

    @property
    def body_limit_bytes(self) -> int | None:
        """how large its body may be; None: it takes none"""

    @property
    def is_trusted(self) -> bool:
        """whether it comes with a login: its connection does not make room for others while its body arrives"""

    def run(self, body: bytes) -> Response: ...

    def stream(self, wire: Wire) -> None:
        """Write what follows the answer, until the client or the stream has ended. Raises Gone."""

    def close(self) -> None:
        """Let go of what was set aside for it."""


class Application(Protocol):
    """What is served."""

    def admit(self, head: Head, length: int | None) -> Call:
        """Decide who may ask and what is asked for; `length` is that of the body. Raises Refused."""

    def refused(self, refused: Refused, peer: str) -> None:
        """Take note of a refusal; `peer` is the client's address."""

    def failed(self, error: Exception) -> None:
        """Take note of a bug."""

    def answered(self, head: Head, status: int, peer: str) -> None:
        """Take note of an answer."""


class Server:
    """Listens from the moment it is made; `start` begins to accept."""

    def __init__(self, host: str, port: int, *, patience_s: float = PATIENCE_S) -> None:
        """`host` is an IP address; port 0 takes a free one. Raises OdekError when it cannot be had."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.socket(family, socket.SOCK_STREAM)
        self._connections = Connections(now=time.monotonic, patience_s=patience_s)
        self._ends = threading.Event()
        try:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                self._listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            self._listener.bind((host, port))
            self._listener.listen(_BACKLOG)
            self._listener.settimeout(_POLL_S)
        except OSError as error:
            self._listener.close()
            raise _not_listening(host, port, error) from error
        self.port: int = self._listener.getsockname()[1]

    def start(self, app: Application) -> None:
        """Accept connections, in a thread of its own, and let `app` answer."""
        threading.Thread(target=self._accept, args=(app,), name="accept", daemon=True).start()

    def stop(self) -> None:
        """Take no further connections; those that are open go on."""
        self._ends.set()
        self._listener.close()

    def _accept(self, app: Application) -> None:
        while not self._ends.is_set():
            try:
                client, address = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:  # stopped, or no descriptor is free: what waits would be asked for again at once
                self._ends.wait(_ACCEPT_FAILED_S)
                continue
            self._take(client, str(address[0]), app)

    def _take(self, client: socket.socket, peer: str, app: Application) -> None:
        """Start a thread for a connection, or turn it away here: a flood of them gets no threads (P-10)."""
        if self._connections.admit(client):
            try:
                threading.Thread(target=self._serve, args=(client, peer, app), daemon=True).start()
                return
            except RuntimeError:  # there can be no further thread
                self._connections.forget(client)
        with client, suppress(OSError):
            client.setblocking(False)
            client.send(render(error_response(_FULL), keep_alive=False))
            client.shutdown(socket.SHUT_WR)
        app.refused(_FULL, peer)

    def _serve(self, client: socket.socket, peer: str, app: Application) -> None:
        """Answer the requests of one client until it has no more."""
        mark = partial(self._connections.mark, client)
        try:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            wire = Wire(client)
            while _Exchange(app, wire, peer, mark).run():
                pass
            mark(waiting=True)
            wire.linger()
        except (Gone, OSError):
            pass
        except Exception as error:
            app.failed(error)
        finally:
            self._connections.forget(client)
            client.close()


@dataclass(slots=True)
class _Exchange:
    """One request and its answer."""

    app: Application
    wire: Wire
    peer: str
    mark: Callable[..., None]
    """notes whether the client is being waited for"""
    head: Head | None = None
    keep_alive: bool = False

    def run(self) -> bool:
        """Return whether the connection stays open for another one. Raises Gone."""
        with ExitStack() as stack:
            try:
                call, response = self._carry_out(stack)
            except Gone:
                raise
            except Refused as refused:
                self.app.refused(refused, self.peer)
                call, response = None, error_response(refused)
            except Exception as error:
                self.app.failed(error)
                call, response, self.keep_alive = None, error_response(_BUG), False
            if self.head is not None:
                self.app.answered(self.head, response.status, self.peer)
            keep_alive = self.keep_alive and not response.streams
            self.wire.send(
                render(
                    response, keep_alive=keep_alive, without_body=self.head is not None and self.head.method == "HEAD"
                )
            )
            if call is not None and response.streams:
                call.stream(self.wire)
            return keep_alive

    def _carry_out(self, stack: ExitStack) -> tuple[Call, Response]:
        self.mark(waiting=True)
        head = parse_head(self.wire.read_head())
        self.head = head
        length = body_length(head)
        is_awaited = require_expectation(head)
        # after an answer to a request whose body was not read, nothing on this connection can be made sense of
        self.keep_alive = head.keep_alive and not length
        call = self.app.admit(head, length)
        stack.callback(call.close)
        self.mark(waiting=not call.is_trusted)
        body = b""
        if call.body_limit_bytes is not None:
            self.keep_alive = False
            body = self._read_body(length, call.body_limit_bytes, is_awaited=is_awaited)
            self.keep_alive = head.keep_alive
        self.mark(waiting=False)
        return call, call.run(body)

    def _read_body(self, length: int | None, limit_bytes: int, *, is_awaited: bool) -> bytes:
        if length is None:
            raise Refused(411, "length", "the length of the body is missing", "send Content-Length")
        if length > limit_bytes:
            raise Refused(413, "too_large", f"the body is larger than {limit_bytes} bytes")
        if is_awaited:
            self.wire.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        return self.wire.read_body(length)


def _not_listening(host: str, port: int, error: OSError) -> OdekError:
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if error.errno == errno.EADDRINUSE:
        return OdekError(f"{shown} is in use", hint="--addr 127.0.0.1:0 takes a free port")
    return OdekError(
        f"{shown} cannot be listened on: {getattr(error, 'strerror', error)}",
        hint="--addr 127.0.0.1:0 takes a free port",
    )
