"""The settings of `odek serve`, all of them the operator's alone (R-121), and how addresses and names are written."""

from __future__ import annotations

from odek.config.options import Option, OptionGroup
from odek.config.values import Text, Texts, Whole
from odek.errors import ConfigError
from odek.patterns import pattern
from odek.strict_json import quoted

_ONLY = ("serve",)
_PORT = pattern(r"[0-9]{1,5}")
_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = pattern(rf"{_LABEL}(?:\.{_LABEL})*")


def parse_addr(text: str, origin: str) -> str:
    """Return HOST:PORT with an IP address as its host, in brackets that of IPv6. Raises ConfigError."""
    host, colon, port = text.rpartition(":")
    literal = "127.0.0.1" if host.lower() == "localhost" else _address(host)
    if not colon or not literal or not _is_port(port):
        raise ConfigError(
            f"{quoted(text)} is not an address to listen on ({origin})",
            hint="write an IP address or localhost, and a port, as in 127.0.0.1:8080 or [::1]:0",
        )
    return f"{literal}:{int(port)}"


def parse_hosts(entries: tuple[str, ...], origin: str) -> tuple[str, ...]:
    """Return what browsers may call the server, `name[:port]` each, in lower case. Raises ConfigError."""
    return tuple(dict.fromkeys(_parse_host(entry, origin) for entry in entries))


def split_addr(addr: str) -> tuple[str, int]:
    """Return the IP address and the port of what `parse_addr` returned."""
    host, _, port = addr.rpartition(":")
    return host.strip("[]"), int(port)


class ServeSettings(OptionGroup):
    """Where `odek serve` listens, and how much it takes."""

    addr = Option(
        "serve.addr", Text(parse=parse_addr), "Where to listen; port 0 takes a free one", default="127.0.0.1:0",
        env=("ODEK_SERVE_ADDR",), flag="--addr", metavar="HOST:PORT", commands=_ONLY, group="serve",
    )  # fmt: skip
    hosts = Option(
        "serve.hosts", Texts(parse_hosts), "Further names that browsers may use, as name or name:port", default=(),
        env=("ODEK_SERVE_HOSTS",), flag="--hosts", metavar="NAME,…", commands=_ONLY, group="serve",
    )  # fmt: skip
    max_sandboxes = Option(
        "serve.max_sandboxes", Whole(1, 64), "How many containers may live at once", default=8,
        env=("ODEK_SERVE_MAX_SANDBOXES",), group="serve",
    )  # fmt: skip
    idle_seconds = Option(
        "serve.idle_seconds", Whole(60, 86400), "Seconds until the container of an unused session ends", default=1800,
        env=("ODEK_SERVE_IDLE_SECONDS",), group="serve",
    )  # fmt: skip
    approval_seconds = Option(
        "serve.approval_seconds", Whole(1, 86400), "Seconds until a question that has no answer is a no", default=3600,
        env=("ODEK_SERVE_APPROVAL_SECONDS",), group="serve",
    )  # fmt: skip


def _parse_host(entry: str, origin: str) -> str:
    text = entry.lower()
    name, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        name, port = text, ""
    is_name = _NAME.fullmatch(name) or (name.startswith("[") and _address(name))
    if not is_name or len(name) > 253 or (colon and not text.endswith("]") and not _is_port(port)):
        raise ConfigError(
            f"{quoted(entry)} cannot be the name of a server ({origin})",
            hint="write it as it stands in the address bar between // and /, such as odek.example.org or box:8080",
        )
    return text


def _address(host: str) -> str:
    """Return the IP address `host`, of IPv6 in its brackets; "" when it is none."""
    import ipaddress  # few runs have an address to read

    try:
        if host.startswith("[") and host.endswith("]"):
            return f"[{ipaddress.IPv6Address(host[1:-1])}]" if "%" not in host else ""
        return str(ipaddress.IPv4Address(host))
    except ValueError:
        return ""


def _is_port(text: str) -> bool:
    return bool(_PORT.fullmatch(text)) and int(text) <= 65535
