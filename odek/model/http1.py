"""HTTP/1.1 as far as a model's server needs it: a connection that is kept, one request after the other.

In place of http.client, which loads email and ssl, two thirds of the time of a start without a sandbox, and hides
the socket whose time-outs matter here (transport.py).
"""

from __future__ import annotations

import io
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from odek.text import truncate, visible

if TYPE_CHECKING:
    import ssl

CONTINUE_CODES = range(100, 200)
WITHOUT_BODY = (204, 304)
_LINE_BYTES = 1 << 16
_MOST_HEADERS = 200
_SHOWN = 80
_LENGTH_DIGITS = 18


class HttpProtocolError(Exception):
    """What came is not HTTP."""


class ConnectionEnded(HttpProtocolError):
    """The connection was closed before the end."""


class TunnelRefused(Exception):
    """A proxy has answered a CONNECT with another status than 200."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(f"{status} {reason}")
        self.status = status
        self.reason = reason


class Headers:
    """The headers of an answer, in their order."""

    def __init__(self, pairs: tuple[tuple[str, str], ...]) -> None:
        self._pairs = pairs

    def get(self, name: str, default: str = "") -> str:
        """Return the first value of a header."""
        return next(iter(self.get_all(name)), default)

    def get_all(self, name: str) -> list[str]:
        """Return the values of a header, in any spelling."""
        return [value for key, value in self._pairs if key == name.lower()]


class Response:
    """One answer, of which the head has been read."""

    def __init__(self, file: io.BufferedReader) -> None:
        """Read the head from `file`. Raises HttpProtocolError, and OSError of the socket."""
        self._file = file
        while True:
            self.status, self.reason, is_1_1 = _read_status(file)
            self.headers = Headers(tuple(_read_headers(file)))
            if self.status not in CONTINUE_CODES:
                break
        coding = self.headers.get("transfer-encoding").lower()
        self._is_chunked = coding == "chunked"
        self._in_chunk = 0
        self.length = None if coding else _length(self.headers.get("content-length"))
        """how many bytes are to come; None: that was not announced"""
        if self.status in WITHOUT_BODY:
            self.length, self._is_chunked = 0, False
        self.is_read = self.length == 0 and not self._is_chunked
        """whether all of it has been read"""
        is_framed = self._is_chunked or self.length is not None
        words = {word.strip().lower() for word in ",".join(self.headers.get_all("connection")).split(",")}
        self.is_kept = is_1_1 and is_framed and "close" not in words
        """whether the connection takes another request behind it"""

    def read1(self, size: int) -> bytes:
        """Return what has come, at most `size` bytes; b"" at the end. Raises HttpProtocolError."""
        if self.is_read:
            return b""
        if self._is_chunked:
            return self._read_chunked(size)
        data = self._file.read1(size if self.length is None else min(size, self.length))
        if self.length is not None:
            self.length -= len(data)
        if not data or self.length == 0:
            self.is_read = True
        if not data:
            self.is_kept = False
        return data

    def _read_chunked(self, size: int) -> bytes:
        if not self._in_chunk:
            word = _read_line(self._file).partition(b";")[0].strip()
            if not word or word.strip(b"0123456789abcdefABCDEF"):
                raise HttpProtocolError("a chunk without its length") if word else ConnectionEnded("in the body")
            self._in_chunk = int(word, 16)
            if not self._in_chunk:
                for _ in _read_headers(self._file):
                    pass
                self.is_read = True
                return b""
        data = self._file.read1(min(size, self._in_chunk))
        if not data:
            raise ConnectionEnded("in the body")
        self._in_chunk -= len(data)
        if not self._in_chunk and _read_line(self._file).strip():
            raise HttpProtocolError("a chunk longer than announced")
        return data


def as_looked_up(host: str) -> str | bytes:
    """Return a host's name as it is given to a look-up.

    Python imports its codec for international names for every text, which takes longer than the look-up of most. For
    those that need it, this is done here: an interpreter must not end while another thread imports.
    """
    if host.isascii() and host:
        return host.encode()
    "".encode("idna")
    return host


class Connection:
    """A connection to a server, by way of a proxy if need be."""

    def __init__(
        self,
        address: tuple[str, int],
        tls: ssl.SSLContext | None,
        server: str,
        tunnel: tuple[str, Mapping[str, str]] | None = None,
    ) -> None:
        """`server` is whose certificate counts; `tunnel`: what a proxy is to connect to, and headers for it."""
        host, port = address
        self._address = as_looked_up(host), port
        self._tls = tls
        self._server = as_looked_up(server)
        self._tunnel = tunnel
        self.sock: socket.socket | None = None
        self.arm: Callable[[socket.socket], None] = lambda _: None
        """is called before each read, to set the time that it may take"""
        self.has_answered = False
        """whether a byte of the answer to the latest request has come"""

    def connect(self, timeout_s: float) -> None:
        """Connect. Raises OSError, TunnelRefused, HttpProtocolError, UnicodeError."""
        # zero would mean "do not wait"
        self.sock = socket.create_connection(self._address, max(timeout_s, 0.001))  # type: ignore[arg-type]
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._tunnel is not None:
            target, headers = self._tunnel
            self.sock.sendall(_head("CONNECT", target, {"Host": target, **headers}))
            answered = self._receive()
            if answered.status != 200:
                raise TunnelRefused(answered.status, answered.reason)
        if self._tls is not None:
            self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._server)

    def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> None:
        """Send a request. Raises OSError, UnicodeError."""
        assert self.sock is not None
        self.has_answered = False
        length = {} if body is None else {"Content-Length": str(len(body))}
        head = _head(method, target, {**headers, **length})
        self.arm(self.sock)
        if body is None or len(body) < _LINE_BYTES:
            self.sock.sendall(head + (body or b""))
        else:
            self.sock.sendall(head)
            self.sock.sendall(body)

    def receive(self) -> Response:
        """Return the answer to the request that was sent. Raises HttpProtocolError and OSError."""
        return self._receive()

    def close(self) -> None:
        """Close it. May be called again."""
        if self.sock is not None:
            self.sock.close()

    def _receive(self) -> Response:
        assert self.sock is not None
        return Response(io.BufferedReader(_ArmedReader(self, self.sock)))


class _ArmedReader(io.RawIOBase):
    """What is received from a socket; before each read the time that is left is looked at."""

    def __init__(self, connection: Connection, sock: socket.socket) -> None:
        self._connection = connection
        self._sock = sock

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]
        self._connection.arm(self._sock)
        count = self._sock.recv_into(buffer)
        if count:
            self._connection.has_answered = True
        return count


def _head(method: str, target: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    assert not any("\r" in line or "\n" in line for line in lines), "a header that would be two"
    return "\r\n".join((*lines, "", "")).encode("latin-1")


def _read_line(file: io.BufferedReader) -> bytes:
    line = file.readline(_LINE_BYTES + 1)
    if len(line) > _LINE_BYTES:
        raise HttpProtocolError("a line that is too long")
    return line


def _read_status(file: io.BufferedReader) -> tuple[int, str, bool]:
    """Return status, reason, and whether the server speaks HTTP/1.1."""
    line = _read_line(file)
    if not line:
        raise ConnectionEnded("the connection was closed without an answer")
    words = line.decode("latin-1").rstrip("\r\n")
    version, _, rest = words.partition(" ")
    code, _, reason = rest.strip().partition(" ")
    if not version.startswith("HTTP/1.") or len(code) != 3 or not code.isdecimal() or code < "100":
        raise HttpProtocolError(f'not an answer in HTTP: "{truncate(visible(words), _SHOWN)}"')
    return int(code), reason.strip(), version != "HTTP/1.0"


def _read_headers(file: io.BufferedReader) -> Iterator[tuple[str, str]]:
    """Yield name, in lower case, and value of each header to the empty line behind them."""
    name = value = ""
    for _ in range(_MOST_HEADERS):
        line = _read_line(file)
        if not line.endswith(b"\n"):
            raise ConnectionEnded("the connection was closed in the headers")
        text = line.decode("latin-1").rstrip("\r\n")
        if text[:1] in (" ", "\t") and name:  # a value on several lines
            value = f"{value} {text.strip()}"
            continue
        if name:
            yield name, value
        if not text:
            return
        name, _, value = text.partition(":")
        name, value = name.strip().lower(), value.strip()
    raise HttpProtocolError("too many headers")


def _length(text: str) -> int | None:
    if not (text.isdecimal() and text.isascii()):
        return None
    if len(text) > _LENGTH_DIGITS:
        raise HttpProtocolError("a length that nothing has")
    return int(text)
