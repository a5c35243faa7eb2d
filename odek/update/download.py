"""Files of a release, over HTTPS: redirects are followed, sizes and times are bounded.

The proxy, the certificate authorities and HTTP itself are those of the model's client (model/endpoint.py, transport.py,
http1.py). Plain HTTP is for a server of this machine, and no redirect leads to it from anywhere else.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urljoin, urlsplit

from odek.errors import ConfigError
from odek.model.endpoint import BaseUrl, Endpoint, Proxy, choose_proxy, is_loopback
from odek.model.http1 import Connection, HttpProtocolError, Response, TunnelRefused
from odek.model.transport import Route, read_tls_context
from odek.patterns import pattern
from odek.text import truncate, visible
from odek.update.release import UpdateError

SMALL_BYTES = 1 << 20
_CONNECT_S = 20.0
_IDLE_S = 30.0
_SMALL_S = 60.0
_FILE_S = 1800.0
_REDIRECTS = (301, 302, 303, 307, 308)
_MOST_REDIRECTS = 5
_PORTS = {"http": 80, "https": 443}
_ASCII = pattern(r"[!-~]{1,8000}")
_HOST = pattern(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")
_PIECE_BYTES = 1 << 16
_TRY_LATER = "try again later, or get the release another way: scripts/install.sh --from"


class Fetch(Protocol):
    """Gets what is at an address, piece by piece. Raises UpdateError."""

    def __call__(self, address: str, limit_bytes: int, sink: Callable[[bytes, int | None], None]) -> None:
        """`sink` gets each piece, and how long the whole was announced to be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """Implements Fetch."""

    env: Mapping[str, str]
    """proxy variables, SSL_CERT_FILE and SSL_CERT_DIR"""
    now: Callable[[], float] = time.monotonic

    def __call__(self, address: str, limit_bytes: int, sink: Callable[[bytes, int | None], None]) -> None:
        deadline_s = self.now() + (_SMALL_S if limit_bytes <= SMALL_BYTES else _FILE_S)
        place = parse_address(address)
        for _ in range(_MOST_REDIRECTS + 1):
            target = self._get(place, limit_bytes, sink, deadline_s)
            if target is None:
                return
            place = follow(place, target)
        raise UpdateError(f"{place.authority} redirects without end")

    def _get(
        self, place: Endpoint, limit_bytes: int, sink: Callable[[bytes, int | None], None], deadline_s: float
    ) -> str | None:
        """Give the body to `sink`; return where a redirect points instead."""
        proxy = _proxy_for(place, self.env)
        tls = read_tls_context(self.env) if place.scheme == "https" else None
        connection = Route(place, proxy, tls, self.now).new()

        def arm(sock: socket.socket) -> None:
            left_s = deadline_s - self.now()
            if left_s <= 0:
                raise TimeoutError("it takes too long")
            sock.settimeout(min(_IDLE_S, left_s))

        connection.arm = arm
        try:
            with closing(connection):
                return _exchange(connection, place, limit_bytes, sink)
        except (OSError, HttpProtocolError, TunnelRefused, UnicodeError) as error:
            raise _unreachable(place, proxy, error) from error


def parse_address(text: str) -> Endpoint:
    """Return the parts of an address. Raises UpdateError unless it is https, or http of this machine."""
    shown = truncate(visible(text.partition("?")[0].rpartition("@")[2]), 200)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise UpdateError(f'"{shown}" is not an address') from error
    host = parts.hostname or ""
    is_odd = ("[" in parts.netloc) != (":" in host)  # Python up to 3.10 takes any text in brackets
    if not _ASCII.fullmatch(text) or "@" in parts.netloc or not _HOST.fullmatch(host) or port == 0 or is_odd:
        raise UpdateError(f'"{shown}" is not an address', hint="it looks like https://host.example/odek/releases")
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(host)):
        raise UpdateError(f'"{shown}" is not an https address, and nothing else is downloaded from')
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return Endpoint(scheme=parts.scheme, host=host, port=port or _PORTS[parts.scheme], target=target)


def follow(place: Endpoint, location: str) -> Endpoint:
    """Return where a redirect of `place` leads. Raises UpdateError for one that gives up TLS."""
    try:
        joined = urljoin(place.url, location)
    except ValueError as error:
        shown = truncate(visible(location.partition("?")[0].rpartition("@")[2]), 200)
        raise UpdateError(f'{place.authority} redirects to "{shown}", which is not an address') from error
    new = parse_address(joined)
    if new.scheme == "http" and place.scheme != "http":
        raise UpdateError(f"{place.authority} redirects to {new.shown}, without encryption")
    return new


def _proxy_for(place: Endpoint, env: Mapping[str, str]) -> Proxy | None:
    try:
        return choose_proxy(BaseUrl(scheme=place.scheme, host=place.host, port=place.port, path=""), env)
    except ConfigError as error:
        raise UpdateError(error.message, hint=f"set another proxy, or put {place.host} into NO_PROXY") from error


def _exchange(
    connection: Connection, place: Endpoint, limit_bytes: int, sink: Callable[[bytes, int | None], None]
) -> str | None:
    connection.connect(_CONNECT_S)
    headers = {"Host": place.authority, "Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "odek"}
    connection.send("GET", place.target, {**headers, "Connection": "close"}, None)
    response = connection.receive()
    if response.status in _REDIRECTS:
        return response.headers.get("Location")
    if response.status != 200:
        raise _refused(place, response)
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        raise UpdateError(f"{place.shown} came compressed, unasked")
    announced, count = response.length, 0
    if (announced or 0) > limit_bytes:
        raise _too_large(place, limit_bytes)
    while chunk := response.read1(_PIECE_BYTES):
        count += len(chunk)
        if count > limit_bytes:
            raise _too_large(place, limit_bytes)
        sink(chunk, announced)
    if response.length:
        raise UpdateError(f"the download of {place.shown} was cut off", hint="try again")
    return None


def _too_large(place: Endpoint, limit_bytes: int) -> UpdateError:
    return UpdateError(f"{place.shown} is larger than {limit_bytes >> 20} MiB, which no file of a release is")


def _refused(place: Endpoint, response: Response) -> UpdateError:
    status = f"{response.status} {truncate(visible(response.reason), 60)}".strip()
    if response.status in (404, 410):
        return UpdateError(f"there is no {place.shown} ({status})", hint="check the version and the address")
    if response.status in (403, 429):
        wait = response.headers.get("Retry-After")
        hint = f"wait {wait} seconds, or " if wait.isdigit() and len(wait) < 7 else ""
        return UpdateError(f"{place.authority} refuses for now, or for good: {status}", hint=hint + _TRY_LATER)
    return UpdateError(f"{place.authority} answered {status} for {place.shown}", hint=_TRY_LATER)


def _unreachable(place: Endpoint, proxy: Proxy | None, error: Exception) -> UpdateError:
    way = f" through the proxy {proxy.authority} ({proxy.variable})" if proxy else ""
    untrusted = getattr(error, "verify_message", None)  # of an ssl.SSLCertVerificationError
    if untrusted is not None:
        return UpdateError(
            f"the certificate of {place.authority} is not trusted: {visible(untrusted)}",
            hint="if the server has a CA of its own, name its file in SSL_CERT_FILE",
        )
    if isinstance(error, TunnelRefused) and proxy is not None:
        return UpdateError(f"the proxy {proxy.authority} ({proxy.variable}) answered {visible(str(error))}")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if isinstance(error, TimeoutError):
        reason = "nothing came, or too slowly"
    shown = truncate(visible(reason), 200) or type(error).__name__
    return UpdateError(f"{place.authority} could not be reached{way}: {shown}", hint="check the network")
