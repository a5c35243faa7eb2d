"""A real server of `odek serve` on loopback, with sessions that a test chooses; and a client that sends any bytes."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from fakes.live_sessions import FakeLive

from odek.web.errors import Refused
from odek.web.guard import names_of
from odek.web.logins import Logins
from odek.web.routes import Live
from odek.web.server import Server
from odek.web.service import Service

TOKEN = "7" * 64


class NoUploads:
    """Keeps nothing; `reserved` is what is set aside at present."""

    def __init__(self, room: int = 64 << 20) -> None:
        self.reserved = 0
        self.kept: list[tuple[str, bytes]] = []
        self._room = room

    def reserve(self, size: int) -> None:
        if self.reserved + size > self._room:
            raise Refused(507, "full", "too much is waiting")
        self.reserved += size

    def release(self, size: int) -> None:
        self.reserved -= size

    def keep(self, name: str, data: bytes, browser: str) -> dict[str, object]:
        del browser
        self.kept.append((name, data))
        return {"id": "u1", "name": name, "size": len(data)}

    def drop(self, upload_id: str) -> None:
        del upload_id


@dataclass(slots=True, kw_only=True)
class RunningServer:
    """A server that accepts, and what it is made of."""

    port: int
    service: Service
    live: FakeLive
    uploads: NoUploads
    log: list[str] = field(default_factory=list)
    bugs: list[Exception] = field(default_factory=list)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}/#token={TOKEN}"

    def connect(self) -> Client:
        return Client(socket.create_connection(("127.0.0.1", self.port), timeout=30))

    def ask(self, method: str, path: str, *, body: object = None, headers: Sequence[tuple[str, str]] = ()) -> Answer:
        """Send one request with the token on a connection of its own and return the answer."""
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        typed = () if body is None else (("Content-Type", "application/json"), ("Content-Length", str(len(data))))
        given = (("Host", self.host), ("Authorization", f"Bearer {TOKEN}"), *typed, *headers)
        with self.connect() as client:
            client.send(request(method, path, dict(given), data))
            return client.read()


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    """names in lower case"""
    body: bytes

    @property
    def json(self) -> dict[str, object]:
        value = json.loads(self.body)
        assert isinstance(value, dict)
        return value

    @property
    def code(self) -> str:
        """the code of a refusal"""
        error = self.json["error"]
        assert isinstance(error, dict)
        return str(error["code"])


class Client:
    """One connection."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._received = b""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        with suppress(OSError):  # the server may have refused and closed already
            self.socket.sendall(data)

    def read(self, *, to_head: bool = False) -> Answer:
        """Read one answer; `to_head`: it is one without a body."""
        head = self.read_until(b"\r\n\r\n").decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = 0 if to_head else int(headers.get("content-length", "0"))
        while len(self._received) < length:
            self._receive()
        body, self._received = self._received[:length], self._received[length:]
        return Answer(status=int(first.split()[1]), headers=headers, body=body)

    def read_until(self, mark: bytes) -> bytes:
        while mark not in self._received:
            self._receive()
        found, _, self._received = self._received.partition(mark)
        return found + mark

    def is_closed(self) -> bool:
        """Return whether the server has ended the connection and sent nothing more."""
        try:
            return not self._received and self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _receive(self) -> None:
        data = self.socket.recv(1 << 16)
        if not data:
            raise EOFError(self._received)
        self._received += data


def parse_answer(data: bytes) -> Answer:
    """Return one whole answer."""
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return Answer(status=int(first.split()[1]), headers=headers, body=body)


def request(method: str, path: str, headers: dict[str, str], body: bytes = b"") -> bytes:
    """Return the bytes of a request with exactly these headers."""
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


@contextmanager
def serving(
    live: Live | None = None, *, hosts: Sequence[str] = (), room: int = 64 << 20, patience_s: float = 3600
) -> Iterator[RunningServer]:
    """Serve `live` on a free port of 127.0.0.1."""
    server = Server("127.0.0.1", 0, patience_s=patience_s)
    log: list[str] = []
    bugs: list[Exception] = []
    uploads, fake = NoUploads(room), FakeLive()
    service = Service(
        names=names_of(server.port, hosts),
        cookie_name=f"odek_{server.port}",
        logins=Logins(TOKEN, random_hex=lambda size: os.urandom(size).hex(), now=time.monotonic),
        live=live or fake,
        uploads=uploads,
        find_files=lambda beginning, limit: [{"path": beginning, "folder": False, "size": limit}],
        random_hex=lambda size: os.urandom(size).hex(),
        now=time.monotonic,
        log=log.append,
        show_bug=bugs.append,
    )
    server.start(service)
    try:
        yield RunningServer(port=server.port, service=service, live=fake, uploads=uploads, log=log, bugs=bugs)
    finally:
        server.stop()
