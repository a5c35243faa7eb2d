"""Who may ask (R-128), decided before anything else looks at a request. Pure.

Every web page that the user opens can send requests to this server, a name of another site can be made to mean
127.0.0.1, and every other server of this machine gets the cookies that are set here. So a request has to name this
server (Host), come from its page (Origin, Sec-Fetch-Site), and prove its login by two halves, of which no other page
has both (D-16).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field

from odek.web.errors import Refused
from odek.web.request import Head

JSON = "application/json"
RAW = "application/octet-stream"
KEY_HEADER = "x-odek-key"
_DEFAULT_PORTS = {80: "http", 443: "https"}
_MOST_COOKIES = 8  # of one name: other servers of this machine can set it, too


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What a browser may call this server, as its Host header says it."""

    own: frozenset[str]
    """loopback, with the port that is listened on"""
    further: frozenset[str]
    """of serve.hosts: these can be behind a proxy that speaks TLS"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What a request proves itself with; nothing of it has been compared yet."""

    cookies: tuple[str, ...] = field(default=(), repr=False)
    key: str = field(default="", repr=False)
    bearer: str = field(default="", repr=False)


def names_of(port: int, hosts: Sequence[str]) -> Names:
    """Return the names of a server that listens on `port`; `hosts` are the entries of serve.hosts, `name[:port]`."""
    own = {spelled for name in ("127.0.0.1", "localhost", "[::1]") for spelled in _spellings(f"{name}:{port}")}
    further = {spelled for entry in hosts for spelled in _spellings(entry)}
    return Names(own=frozenset(own), further=frozenset(further - own))


def check_host(head: Head, names: Names) -> None:
    """Raise Refused unless the request is for this server by one of its names (DNS rebinding)."""
    host = head.get("host").lower()
    if host not in names.own and host not in names.further:
        raise Refused(
            403, "host", "this server is not called that",
            "use the URL that odek printed; further names go into serve.hosts",
        )  # fmt: skip


def check_origin(head: Head, names: Names) -> None:
    """Raise Refused for a request that a page of another origin made, whatever its method."""
    host = head.get("host").lower()
    origins = {f"http://{host}"} | ({f"https://{host}"} if host in names.further else set())
    if head.has("origin") and head.get("origin").lower() not in origins:
        raise _other_origin()
    if head.has("sec-fetch-site") and head.get("sec-fetch-site") != "same-origin":
        raise _other_origin()


def read_credentials(head: Head, cookie_name: str) -> Credentials:
    """Return what the request proves itself with."""
    pairs = (pair.strip() for value in head.headers.get("cookie", ()) for pair in value.split(";"))
    cookies = tuple(pair[len(cookie_name) + 1 :] for pair in pairs if pair.startswith(f"{cookie_name}="))
    scheme, _, bearer = head.get("authorization").partition(" ")
    return Credentials(
        cookies=cookies[:_MOST_COOKIES],
        key=head.get(KEY_HEADER),
        bearer=bearer.strip(" ") if scheme.lower() == "bearer" else "",
    )


def check_content_type(head: Head, wanted: str) -> None:
    """Raise Refused unless the body is of the type `wanted`, which no form of another site can send."""
    given, _, parameters = head.get("content-type").partition(";")
    charset = parameters.strip().lower().replace('"', "")
    if given.strip().lower() != wanted or charset not in ("", "charset=utf-8"):
        raise Refused(415, "content_type", f"the body must be {wanted}", f"send Content-Type: {wanted}")


def is_service_worker(head: Head) -> bool:
    """Return whether a browser asks for the script of a service worker that another program left on this origin."""
    return head.method == "GET" and "script" in head.headers.get("service-worker", ())


def is_loopback(address: str) -> bool:
    """Return whether only this machine reaches the IP `address`."""
    return ipaddress.ip_address(address).is_loopback


def _spellings(entry: str) -> set[str]:
    """Return the Host headers for `entry`: browsers leave out the port where it is the scheme's own."""
    entry = entry.lower()
    name, colon, port = entry.rpartition(":")
    if not colon or entry.endswith("]"):
        return {entry, *(f"{entry}:{default}" for default in _DEFAULT_PORTS)}
    return {entry, name} if int(port) in _DEFAULT_PORTS else {entry}


def _other_origin() -> Refused:
    return Refused(403, "origin", "pages of other origins may not ask")
