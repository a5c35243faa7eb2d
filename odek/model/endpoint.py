"""Where a request goes: the checked base URL, and the proxy on the way there (B43).

Pure: the environment is a mapping that is passed in. The rules for proxies are those that curl
and Go share: `https_proxy` before `HTTPS_PROXY`, `all_proxy` as the last resort, `no_proxy` a
list of hosts, domains, addresses and networks. The loopback never goes through a proxy: plain
http is allowed to it only because nothing leaves this machine.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from odek.errors import ConfigError
from odek.patterns import pattern
from odek.text import truncate, visible

if TYPE_CHECKING:
    import ipaddress

_DEFAULT_PORTS = {"http": 80, "https": 443}
_VISIBLE_ASCII = pattern(r"[!-~]+")
_HOST = pattern(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")
# What may have been copied along with an address.
_ENDPOINTS = ("/chat/completions", "/completions", "/responses", "/messages", "/models")
_VERSION = pattern(r"/v\d+[a-z]*\d*(?=/|$)")
_OTHER_APIS = ("/api/v0", "/api")  # of LM Studio and Ollama, which have the one that odek uses as well
_PATHS = {
    "generativelanguage.googleapis.com": "/v1beta/openai",
    "openrouter.ai": "/api/v1",
    "api.groq.com": "/openai/v1",
    "api.fireworks.ai": "/inference/v1",
    "dashscope.aliyuncs.com": "/compatible-mode/v1",
    "dashscope-intl.aliyuncs.com": "/compatible-mode/v1",
}
_URL_HINT = "give an address like https://api.example.com/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """The parts of the address of a request."""

    scheme: str
    """http or https"""
    host: str
    """without brackets"""
    port: int
    target: str
    """path and query of a request"""

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """the address without its query, which may hold a key"""
        return visible(f"{self.scheme}://{self.authority}{self.target.partition('?')[0]}")

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseUrl:
    """The root of an API, as the settings have it."""

    scheme: str
    host: str
    port: int
    path: str
    """without a slash at its end, and without the endpoint that was copied along"""
    query: str = ""

    def endpoint(self, path: str) -> Endpoint:
        """Return the address of a request at `path`, with the query of the base URL."""
        target = f"{path}?{self.query}" if self.query else path
        return Endpoint(scheme=self.scheme, host=self.host, port=self.port, target=target)


class ApiRoot:
    """The path of the API on its server: that of the base URL, or the one that such servers usually have (B95)."""

    def __init__(self, base: BaseUrl) -> None:
        self.path = base.path
        self._host = base.host
        self._sure = False
        self._given: str | None = None
        """the path of the base URL, while another one is tried"""

    def try_other(self) -> bool:
        """After a wrong address: move to the other path, once, if there is one, else back. Return whether it moved."""
        if self._given is not None:
            self.path, self._given = self._given, None
            return False
        other = None if self._sure else other_path(self._host, self.path)
        self._sure = True
        if other is None:
            return False
        self._given, self.path = self.path, other
        return True

    def confirm(self) -> str | None:
        """Note that the API is at `path`; return the path of the base URL if that turned out to be wrong just now."""
        self._sure = True
        wrong, self._given = self._given, None
        return wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """An HTTP proxy. Only `authority` may be shown."""

    host: str
    port: int
    user: str = ""
    password: str = ""
    variable: str
    """the environment variable that named it"""

    @property
    def authority(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def headers(self) -> dict[str, str]:
        """Return the headers that only the proxy may see."""
        if not self.user:
            return {}
        token = b64encode(f"{self.user}:{self.password}".encode()).decode("ascii")
        return {"Proxy-Authorization": f"Basic {token}"}


def other_path(host: str, path: str) -> str | None:
    """Return the path of a base URL at which the API may be if it is not at `path`, None without an idea."""
    known = _PATHS.get(host.lower())
    if known is not None:
        return known if path != known else None
    stem = next((path.removesuffix(api) for api in _OTHER_APIS if path.endswith(api)), path)
    return stem + "/v1" if stem != path or not _VERSION.search(path) else None


def _bare_path(path: str) -> str:
    bare = path.rstrip("/")
    return next((bare.removesuffix(end) for end in _ENDPOINTS if bare.endswith(end)), bare)


def parse_base_url(text: str, *, allow_plain_http: bool) -> BaseUrl:
    """Return the parts of a base URL.

    Raises ConfigError unless it is an http(s) URL without user, password and fragment; plain http
    is for the loopback, and for elsewhere only with `allow_plain_http`.
    """
    shown = truncate(visible(text.partition("?")[0]), 200)  # a query may hold a key
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise ConfigError(f'base_url "{_without_userinfo(shown)}" is not valid', hint=_URL_HINT) from error
    if "@" in parts.netloc:
        # not shown: it may be a password
        raise ConfigError("base_url must not hold a user or a password", hint="put the key into api_key")
    if not _VISIBLE_ASCII.fullmatch(text) or parts.scheme not in _DEFAULT_PORTS or parts.fragment or port == 0:
        raise ConfigError(f'base_url "{_without_userinfo(shown)}" is not an http or https address', hint=_URL_HINT)
    host = parts.hostname or ""
    if not _HOST.fullmatch(host):
        raise ConfigError(f'base_url "{shown}" names no valid host', hint=_URL_HINT)
    if parts.scheme == "http" and not allow_plain_http and not is_loopback(host):
        raise ConfigError(
            f'base_url "{shown}" would send the key and the conversation unencrypted',
            hint=f"use https, or say that it is meant: ODEK_ALLOW_HTTP={visible(host)}, or the operator's file",
        )
    return BaseUrl(
        scheme=parts.scheme,
        host=host,
        port=port or _DEFAULT_PORTS[parts.scheme],
        path=_bare_path(parts.path),
        query=parts.query,
    )


def choose_proxy(base: BaseUrl, env: Mapping[str, str]) -> Proxy | None:
    """Return the proxy that `env` names for the server of `base`, or None. Raises ConfigError (no SOCKS, no TLS)."""
    if is_loopback(base.host) or _excepted(base, _lookup(env, "no_proxy")[1]):
        return None
    for name in (f"{base.scheme}_proxy", "all_proxy"):
        variable, value = _lookup(env, name)
        if value:
            return _parse_proxy(variable, value)
    return None


def checked_key(key: str) -> str:
    """Return `key`. Raises ConfigError, without showing it, when it cannot be sent in a header."""
    if key and not _VISIBLE_ASCII.fullmatch(key):
        raise ConfigError(
            "the API key holds a blank, a line end or another character that no key has",
            hint="set it again, without quotes around it",
        )
    return key


def is_loopback(host: str) -> bool:
    """Return whether `host` can only be this machine."""
    if host.lower().rstrip(".") in ("localhost", "127.0.0.1", "::1"):
        return True
    address = _address(host)
    return address is not None and address.is_loopback


def _lookup(env: Mapping[str, str], name: str) -> tuple[str, str]:
    """Return (variable, value): the lower-case spelling wins, even when it is empty."""
    variable = name if name in env else name.upper()
    return variable, env.get(variable, "").strip()


def _parse_proxy(variable: str, value: str) -> Proxy:
    try:
        parts = urlsplit(value if "://" in value else f"http://{value}")
        port = parts.port or _DEFAULT_PORTS["http"]
    except ValueError as error:
        raise ConfigError(f"the proxy in {variable} is not a valid address") from error
    host = parts.hostname or ""
    if parts.scheme != "http":
        raise ConfigError(
            f"the proxy in {variable} is of a kind that odek does not support: {truncate(visible(parts.scheme), 20)}",
            hint="name an HTTP proxy (http://HOST:PORT), or put the model's host into NO_PROXY",
        )
    if not _HOST.fullmatch(host):
        raise ConfigError(f"the proxy in {variable} names no valid host")
    return Proxy(
        host=host,
        port=port,
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        variable=variable,
    )


def _excepted(base: BaseUrl, no_proxy: str) -> bool:
    return any(_matches(base, entry.lower()) for entry in no_proxy.replace(",", " ").split())


def _matches(base: BaseUrl, entry: str) -> bool:
    if entry == "*":
        return True
    host = base.host.lower().rstrip(".")
    name, port = _split_port(entry)
    if port and port != str(base.port):
        return False
    address = _address(host)
    if address is not None:
        return _in_network(address, name)
    name = name.removeprefix("*").strip(".")
    return bool(name) and (host == name or host.endswith("." + name))


def _split_port(entry: str) -> tuple[str, str]:
    if entry.startswith("["):
        name, _, rest = entry[1:].partition("]")
        return name, rest.removeprefix(":")
    if entry.count(":") == 1:
        name, _, port = entry.partition(":")
        return name, port
    return entry, ""


def _in_network(address: ipaddress.IPv4Address | ipaddress.IPv6Address, text: str) -> bool:
    import ipaddress  # a host that has a name needs none of it

    try:
        return address in ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    if ":" not in host and not host.replace(".", "").isdecimal():
        return None  # most hosts have names, and need no ipaddress
    import ipaddress

    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _without_userinfo(text: str) -> str:
    """Return a broken URL without what may be a password in it."""
    return "…" + text.rpartition("@")[2] if "@" in text else text
