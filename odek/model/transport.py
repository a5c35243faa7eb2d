"""One HTTP exchange with a model's server: connection, proxy, TLS, compression, time limits, errors (R-82, B43)."""

from __future__ import annotations

import os
import queue
import socket
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from odek.cancel import POLL_S, current_token
from odek.errors import ConfigError
from odek.model.endpoint import Endpoint, Proxy, is_loopback
from odek.model.errors import ModelError, ModelProtocolError, ModelUnreachable
from odek.model.http1 import Connection, ConnectionEnded, HttpProtocolError, Response, TunnelRefused
from odek.model.http_errors import BROKE_OFF, BROKE_OFF_HINT, status_error
from odek.text import truncate, visible

if TYPE_CHECKING:
    import ssl

_PIECE_BYTES = 1 << 16
_ZLIB_WINDOW = zlib.MAX_WBITS
_GZIP_WINDOW = zlib.MAX_WBITS | 16
_RAW_WINDOW = -zlib.MAX_WBITS
_DEFLATE_METHOD = 8


class BodyDecoder:
    """Undoes a Content-Encoding piece by piece, never more than `limit_bytes` in all."""

    def __init__(self, encoding: str, *, limit_bytes: int) -> None:
        """Raises ModelProtocolError for an encoding other than gzip, deflate and identity."""
        self._encoding = encoding.strip().lower().removeprefix("x-")
        if self._encoding not in ("", "identity", "gzip", "deflate"):
            shown = truncate(visible(encoding), 40)
            raise ModelProtocolError(f'the model\'s server sent its answer in the encoding "{shown}", unasked')
        self._left = limit_bytes
        self._limit_bytes = limit_bytes
        self._inflater = zlib.decompressobj(_GZIP_WINDOW) if self._encoding == "gzip" else None

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield what `chunk` decodes to. Raises ModelProtocolError."""
        if self._encoding in ("", "identity"):
            yield self._counted(chunk)
            return
        if self._inflater is None and chunk:
            self._inflater = zlib.decompressobj(_deflate_window(chunk))
        while self._inflater is not None and not self._inflater.eof:
            try:
                piece = self._inflater.decompress(chunk, _PIECE_BYTES)
            except zlib.error as error:
                raise ModelProtocolError(f"the model's server sent broken {self._encoding} data") from error
            yield self._counted(piece)
            chunk = self._inflater.unconsumed_tail
            if not chunk and len(piece) < _PIECE_BYTES:  # a full piece may have left more behind
                return

    def _counted(self, piece: bytes) -> bytes:
        self._left -= len(piece)
        if self._left < 0:
            raise ModelProtocolError(f"the model's answer is larger than {self._limit_bytes >> 20} MiB")
        return piece


def _deflate_window(start: bytes) -> int:
    """Return the window for "deflate", which servers understand with and without zlib's header."""
    return _ZLIB_WINDOW if start[0] & 0x0F == _DEFLATE_METHOD else _RAW_WINDOW


_READ_BYTES = 1 << 16
_AFTER_FINISH_S = 5.0  # for the usage that follows the end of the answer
_PROXY_AUTHENTICATION_REQUIRED = 407
_KEPT_S = 50.0  # routers on the way forget what is silent for minutes, and say nothing of it
_REST_S = 0.02  # for the end of an answer behind the end of its text: mostly it came along


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long and how much."""

    connect_s: float = 30.0
    idle_s: float = 120.0
    total_s: float = 600.0
    body_bytes: int = 50 << 20


DEFAULT_LIMITS = Limits()


def refused_hint(host: str, route: Route) -> str:
    """Return what to do where a connection to `host`, the model's, was refused on `route`. Pure.

    On this machine no program listens there. Elsewhere that is one cause of several: a wrong address, a firewall.
    """
    proxy = route.proxy
    if not is_loopback(proxy.host if proxy else host):
        return f"check {proxy.variable if proxy else 'base_url'} and the network, and whether a server listens there"
    if proxy:
        return f"start the proxy, or correct {proxy.variable}"
    by = f": `{route.start}`" if route.start else ""
    return f"no program listens at that port: start the model's server{by}, or correct base_url"


class Route:
    """The way to a model's server, and the connection that is kept on it from one request to the next.

    May be used by several threads.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        proxy: Proxy | None,
        tls: ssl.SSLContext | None,
        now: Callable[[], float],
        start: str = "",
    ) -> None:
        """`endpoint` is any address of the server, `start` the command that starts it, "" where that is not known."""
        self.proxy = proxy
        self.start = start
        self._now = now
        host, port = (endpoint.host, endpoint.port) if proxy is None else (proxy.host, proxy.port)
        tunnel = None
        if proxy is not None and tls is not None:
            tunnel = f"{endpoint.authority}:443" if endpoint.port == 443 else endpoint.authority, proxy.headers()
        self._new = partial(Connection, (host, port), tls, endpoint.host, tunnel)
        self._kept: deque[tuple[Connection, float]] = deque()

    def take(self) -> Connection | None:
        """Return the connection that was kept, unless it has been idle for long or its server has closed it."""
        while self._kept:
            with suppress(IndexError):  # another thread was quicker
                connection, since = self._kept.pop()
                if self._now() - since < _KEPT_S and _is_silent(connection):
                    return connection
                connection.close()
        return None

    def new(self) -> Connection:
        """Return one that is not connected yet."""
        return self._new()

    def connect_ahead(self, timeout_s: float) -> None:
        """Connect in a thread, unless one is kept, and keep the connection if that works."""
        if self._kept:
            return
        connection = self._new()

        def work() -> None:
            try:
                connection.connect(timeout_s)
                self.keep(connection)
            except Exception:  # the next request tries it again, and says what is wrong
                connection.close()

        threading.Thread(target=work, name="connect", daemon=True).start()

    def keep(self, connection: Connection) -> None:
        """Keep a connection whose answer has been read to its end."""
        self._kept.append((connection, self._now()))

    def __del__(self) -> None:
        while self._kept:
            self._kept.pop()[0].close()


def _is_silent(connection: Connection) -> bool:
    """Return whether nothing has come since the last answer: neither its server's goodbye nor anything else."""
    import select

    if connection.sock is None:
        return False
    poll = select.poll()  # `select` takes no descriptor above 1023, and a server of many sessions has such
    poll.register(connection.sock, select.POLLIN)
    return not poll.poll(0)


class HttpExchange:
    """One request and its answer; closed at the end of its block, its connection kept where that can be.

    A cancel of the thread's token is raised within a fraction of a second, whatever is waited for: it shuts the
    socket down, and an attempt to connect is left to a thread whose outcome is dropped.
    """

    def __init__(
        self, endpoint: Endpoint, route: Route, limits: Limits, now: Callable[[], float], deadline_s: float
    ) -> None:
        self._endpoint = endpoint
        self._route = route
        self._limits = limits
        self._idle_s = limits.idle_s
        self._now = now
        self._deadline_s = deadline_s
        self._connect_until_s = min(now() + limits.connect_s, deadline_s)
        self._connected = False
        self._connecting = False
        self._closed = False
        self._token = current_token()
        self._blocks = ExitStack()
        self._connection: Connection | None = None
        self._socket: socket.socket | None = None
        self._response: Response | None = None

    def __enter__(self) -> HttpExchange:
        self._blocks.enter_context(self._token.on_cancel(self._shut_down))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._blocks.close()
        self._close(keep=kind is None)

    def peer_description(self, status: int) -> str:
        """Return whom to blame in a message."""
        proxy = self._route.proxy
        if proxy is not None and status == _PROXY_AUTHENTICATION_REQUIRED:
            return f"the proxy {proxy.authority} ({proxy.variable})"
        return f"the model's server {self._endpoint.shown}"

    def send(self, headers: dict[str, str], body: bytes | None) -> Response:
        """Send a POST, or a GET without `body`; return the answer, of which only the head has been read.

        A kept connection may have been closed at this very moment: what fails on it before a byte of an answer came is
        sent once more, on a new one. Raises ModelUnreachable, or what `status_error` makes of a proxy's refusal.
        """
        target, proxy = self._endpoint.target, self._route.proxy
        headers = {"Host": self._endpoint.authority, **headers}
        if proxy is not None and self._endpoint.scheme == "http":
            target = self._endpoint.url
            headers = headers | proxy.headers()
        kept = self._route.take()
        if kept is not None:
            self._use(kept)
            try:
                return self._request(kept, target, headers, body)
            except (OSError, HttpProtocolError) as error:
                self._token.raise_if_cancelled()
                if kept.has_answered or isinstance(error, TimeoutError):
                    raise self._as_model_error(error, self._silence, broken=False) from error
                kept.close()
        with self._explained(f"no connection within {self._limits.connect_s:g} s"):
            connection = self._connect()
        self._use(connection)
        self._token.raise_if_cancelled()  # from now on a cancel finds a socket to shut down
        with self._explained(self._silence):
            return self._request(connection, target, headers, body)

    def _use(self, connection: Connection) -> None:
        self._connection, self._socket, self._connected = connection, connection.sock, True
        connection.arm = self._arm

    def _request(self, connection: Connection, target: str, headers: Mapping[str, str], body: bytes | None) -> Response:
        # a server that wants no more of the request may have answered nevertheless
        with suppress(BrokenPipeError):
            connection.send("GET" if body is None else "POST", target, headers, body)
        self._response = connection.receive()
        return self._response

    @property
    def _silence(self) -> str:
        return f"nothing came for {self._idle_s:g} s"

    def chunks(self) -> Iterator[bytes]:
        """Yield the decoded body as it arrives. Raises ModelUnreachable or ModelProtocolError."""
        assert self._response is not None
        decoder = BodyDecoder(self._response.headers.get("Content-Encoding"), limit_bytes=self._limits.body_bytes)
        while not self._response.is_read:
            with self._explained(f"nothing came for {self._idle_s:g} s", broken=True):
                chunk = self._response.read1(_READ_BYTES)
            self._token.raise_if_cancelled()  # what looks like the end of the answer may be that of the socket
            if not chunk:
                return
            yield from decoder.feed(chunk)

    def shorten_timeout(self) -> None:
        """Wait less from now on: what matters has arrived."""
        self._idle_s = min(self._idle_s, _AFTER_FINISH_S)

    def check_complete(self) -> None:
        """Raise ModelUnreachable (retryable) when fewer bytes came than the head had announced."""
        if self._response is not None and self._response.length:
            raise ModelUnreachable(BROKE_OFF, hint=BROKE_OFF_HINT, retryable=True)

    def _connect(self) -> Connection:
        """Connect in a thread, because looking up a name and greeting a server cannot be interrupted."""
        ended: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
        connection = self._connection = self._route.new()
        connection.arm = self._arm

        def work() -> None:
            try:
                connection.connect(self._connect_until_s - self._now())
                error = None
            except Exception as raised:  # raised again in the thread that waits, if it still does
                error = raised
            self._connecting = False
            if self._closed:
                connection.close()
            ended.put(error)

        self._connecting = True
        threading.Thread(target=work, name="connect", daemon=True).start()
        while True:
            self._token.raise_if_cancelled()
            try:
                error = ended.get(timeout=POLL_S)
            except queue.Empty:
                if self._now() >= self._connect_until_s:
                    raise TimeoutError from None
                continue
            if error is not None:
                raise error
            return connection

    def _shut_down(self) -> None:
        """Wake the thread that reads or writes; to close the socket would not."""
        if self._socket is not None:
            with suppress(OSError):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # a TLS socket's own would disturb that thread

    def _close(self, *, keep: bool) -> None:
        """Let go of the connection, whatever state it is in; of one that is being made, its thread does."""
        self._closed = True
        connection, response = self._connection, self._response
        if connection is None or self._connecting:
            return
        if keep and response is not None and response.is_kept and not self._token.cancelled and self._read_rest():
            self._route.keep(connection)
        else:
            connection.close()

    def _read_rest(self) -> bool:
        """Return whether the answer has come to its end: that of its text comes first, and is enough to go on."""
        assert self._connection is not None
        assert self._response is not None
        self._connection.arm = lambda sock: sock.settimeout(_REST_S)
        try:
            while not self._response.is_read:
                if self._response.read1(_READ_BYTES).strip():
                    return False
        except (OSError, HttpProtocolError):
            return False
        return self._response.is_kept

    def _arm(self, sock: socket.socket) -> None:
        """Let the next operation of `sock` take no longer than what is left (F13): a head can come byte by byte."""
        left_s = (self._deadline_s if self._connected else self._connect_until_s) - self._now()
        if left_s <= 0 and self._connected:
            raise self._too_long()
        if left_s <= 0:
            raise TimeoutError
        sock.settimeout(min(self._idle_s, left_s))

    def _too_long(self) -> ModelError:
        return ModelUnreachable(
            f"the model did not finish its answer within {self._limits.total_s:g} s ({self._endpoint.authority})"
        )

    @contextmanager
    def _explained(self, on_timeout: str, *, broken: bool = False) -> Iterator[None]:
        """Turn what the network can raise into a ModelError; `broken`: the answer had already begun."""
        try:
            yield
        except (OSError, HttpProtocolError, TunnelRefused, UnicodeError) as error:
            self._token.raise_if_cancelled()  # then the error is that of a socket that was shut down
            raise self._as_model_error(error, on_timeout, broken=broken) from error

    def _as_model_error(self, error: Exception, on_timeout: str, *, broken: bool) -> ModelError:
        if isinstance(error, TimeoutError):
            if self._now() >= self._deadline_s:
                return self._too_long()
            if self._socket is not None and not broken:
                silent = f"the model's server {self._endpoint.authority} is silent: {on_timeout}"
                return ModelUnreachable(silent, retryable=True)
            return self._unreachable(on_timeout, broken=broken)
        untrusted = getattr(error, "verify_message", None)  # of an ssl.SSLCertVerificationError
        if untrusted is not None:
            return ModelUnreachable(
                f"the certificate of {self._endpoint.authority} is not trusted: {visible(untrusted)}",
                hint="if the server has a CA of its own, name its file in SSL_CERT_FILE",
            )
        proxy = self._route.proxy
        if isinstance(error, TunnelRefused) and proxy is not None:
            server = f"the proxy {proxy.authority} ({proxy.variable})"
            return status_error(error.status, error.reason, "", server=server)
        return self._unreachable(
            _reason(error),
            broken=broken,
            hint=refused_hint(self._endpoint.host, self._route) if isinstance(error, ConnectionRefusedError) else "",
        )

    def _unreachable(self, reason: str, *, broken: bool, hint: str = "") -> ModelError:
        if broken:
            return ModelUnreachable(f"{BROKE_OFF}: {reason}", hint=BROKE_OFF_HINT, retryable=True)
        proxy = self._route.proxy
        way = f" through the proxy {proxy.authority} ({proxy.variable})" if proxy else ""
        return ModelUnreachable(
            f"the model's server {self._endpoint.authority} could not be reached{way}: {reason}",
            hint=hint or "check base_url and the network; `odek config view` shows the settings in force",
            retryable=True,
        )


def _reason(error: Exception) -> str:
    if isinstance(error, ConnectionEnded):
        return "the connection was closed"
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return truncate(visible(text), 200) or type(error).__name__


# Where systems keep their CAs. A Python that was built elsewhere (a frozen binary, one from
# python.org) looks in places that do not exist here.
_SYSTEM_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/usr/local/etc/openssl/cert.pem",
)


def read_tls_context(env: Mapping[str, str]) -> ssl.SSLContext:
    """Return a verifying context. Raises ConfigError when SSL_CERT_FILE or SSL_CERT_DIR cannot be used."""
    import ssl  # a server of one's own mostly has none

    file = env.get("SSL_CERT_FILE") or None
    folder = env.get("SSL_CERT_DIR") or None
    if folder is not None and not os.path.isdir(folder):  # OpenSSL would say nothing
        raise ConfigError(f'SSL_CERT_DIR names no directory: "{_shown_path(folder)}"')
    try:
        context = ssl.create_default_context(cafile=file, capath=folder)
    except OSError as error:
        reason = "it holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise ConfigError(f'SSL_CERT_FILE "{_shown_path(file or "")}" cannot be used: {reason}') from error
    if file is None and folder is None and not has_cas(context, ssl.get_default_verify_paths().openssl_capath):
        load_first_bundle(context, _SYSTEM_BUNDLES)
    return context


def has_cas(context: ssl.SSLContext, folder: str) -> bool:
    """Return whether `context` holds a CA, or will look one up in OpenSSL's `folder`.

    There it finds files by a hash of their subject, and nothing in a folder that has a bundle alone.
    """
    if context.cert_store_stats()["x509_ca"]:
        return True
    return os.path.isdir(folder) and any(_is_hashed(name) for name in os.listdir(folder))


def _is_hashed(name: str) -> bool:
    subject, _, number = name.partition(".")
    return len(subject) == 8 and set(subject) <= set("0123456789abcdef") and number.isdecimal()


def load_first_bundle(context: ssl.SSLContext, bundles: Sequence[str]) -> None:
    """Load the first file of `bundles` that exists, if any does."""
    for bundle in bundles:
        if os.path.isfile(bundle):
            context.load_verify_locations(cafile=bundle)
            return


def _shown_path(path: str) -> str:
    return truncate(visible(path), 200)
