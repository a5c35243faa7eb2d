"""What a client sent, read strictly (R-126). Pure: bytes in, a Head or a Refused out.

Two readers of one message that disagree on where it ends are how requests are smuggled. So nothing is guessed: what
RFC 9112 lets a server repair is refused here, and the connection closes after it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from odek.patterns import pattern
from odek.web.errors import Refused

LINE_LIMIT_BYTES = 8 << 10
HEAD_LIMIT_BYTES = 64 << 10
MOST_HEADERS = 64
END_OF_HEAD = b"\r\n\r\n"
_TOKEN = pattern(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# what may stand in a value: no controls but the tab; bytes above ASCII come from cookies of other servers
_VALUE = pattern(rb"[\t\x20-\x7e\x80-\xff]*")
_TARGET = pattern(rb"/[\x21\x22\x24-\x7e]*")  # printable ASCII without "#"
_VERSION = pattern(rb"HTTP/1\.[01]")
_LENGTH = pattern(r"[0-9]{1,10}", re.ASCII)
_BAD_ESCAPE = pattern(r"%(?![0-9A-Fa-f]{2})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """The request line and the headers."""

    method: str
    path: str
    """as it was sent: percent-encoded"""
    query: str
    headers: Mapping[str, Sequence[str]]
    """values in order, by the name in lower case"""
    keep_alive: bool

    def get(self, name: str) -> str:
        """Return the value of a header that may stand there once; "" when it is missing or there are several."""
        values = self.headers.get(name, ())
        return values[0] if len(values) == 1 else ""

    def has(self, name: str) -> bool:
        return name in self.headers


def find_end(data: bytes | bytearray) -> int:
    """Return where the head in `data` ends, 0 when more is to come. Raises Refused when it cannot become one."""
    end = data.find(END_OF_HEAD)
    if (end < 0 and len(data) > HEAD_LIMIT_BYTES) or end > HEAD_LIMIT_BYTES:
        raise _too_large("the head of the request")
    head = bytes(data if end < 0 else data[:end])
    lines = head.split(b"\n")
    if any(not line.endswith(b"\r") for line in lines[:-1]):
        raise Refused(400, "bad_request", "a line does not end with CR LF")
    if any(len(line) > LINE_LIMIT_BYTES for line in lines):
        raise _too_large("a line")
    if len(lines) > MOST_HEADERS + (2 if end < 0 else 1):
        raise _too_large(f"more than {MOST_HEADERS} headers")
    return end + len(END_OF_HEAD) if end >= 0 else 0


def parse_head(data: bytes) -> Head:
    """Return the head that `data`, up to and with the empty line, holds. Raises Refused."""
    first, *rest = data.removesuffix(END_OF_HEAD).split(b"\r\n")
    method, path, query, version = _request_line(first)
    headers: dict[str, list[str]] = {}
    for line in rest:
        name, value = _header(line)
        headers.setdefault(name, []).append(value)
    hosts = headers.get("host", [])
    if len(hosts) != 1:
        raise Refused(400, "bad_request", "there must be exactly one Host header")
    tokens = {word.strip() for value in headers.get("connection", ()) for word in value.lower().split(",")}
    keep_alive = version == b"HTTP/1.1" and "close" not in tokens
    return Head(method=method, path=path, query=query, headers=headers, keep_alive=keep_alive)


def body_length(head: Head) -> int | None:
    """Return how many bytes follow the head; None: none were announced. Raises Refused."""
    if head.has("transfer-encoding"):
        raise Refused(501, "not_implemented", "a body with Transfer-Encoding is not taken", "send Content-Length")
    if not head.has("content-length"):
        return None
    length = head.get("content-length")
    if not _LENGTH.fullmatch(length):
        raise Refused(400, "bad_request", "Content-Length is not one whole number")
    return int(length)


def require_expectation(head: Head) -> bool:
    """Return whether the client waits to be asked for the body. Raises Refused for other expectations."""
    if not head.has("expect"):
        return False
    if head.get("expect").lower() != "100-continue":
        raise Refused(417, "expectation", "the only expectation that is met is 100-continue")
    return True


def decode_path(path: str) -> tuple[str, ...]:
    """Return the segments of a path, percent-encoding decoded once. Raises Refused."""
    return tuple(_decoded(segment) for segment in path[1:].split("/"))


def decode_query(query: str, known: Sequence[str]) -> dict[str, str]:
    """Return the parameters by name; only those `known`, each once. Raises Refused."""
    found: dict[str, str] = {}
    for part in filter(None, query.split("&")):
        name, _, value = part.replace("+", " ").partition("=")
        name = _decoded(name)
        if name not in known or name in found:
            raise Refused(422, "query", "a parameter is unknown or given twice", f"known here: {', '.join(known)}")
        found[name] = _decoded(value)
    return found


def decode_text(text: str) -> str:
    """Return a percent-encoded text, such as a file name in a header, decoded once. Raises Refused."""
    return _decoded(text)


def _request_line(line: bytes) -> tuple[str, str, str, bytes]:
    method, _, rest = line.partition(b" ")
    target, _, version = rest.partition(b" ")
    if not _TOKEN.fullmatch(method) or not version.startswith(b"HTTP/"):
        raise Refused(400, "bad_request", "the request line cannot be read")
    if not _VERSION.fullmatch(version):
        raise Refused(505, "version", "the version of HTTP is neither 1.0 nor 1.1")
    if not _TARGET.fullmatch(target):
        raise Refused(400, "bad_request", "the target is not a path in ASCII")
    path, _, query = target.decode("ascii").partition("?")
    return method.decode("ascii"), path, query, version


def _header(line: bytes) -> tuple[str, str]:
    name, colon, value = line.partition(b":")
    # a blank before the colon, or at the start (a folded line), is not part of a token
    if not colon or not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
        raise Refused(400, "bad_request", "a header cannot be read")
    return name.decode("ascii").lower(), value.decode("latin-1").strip(" \t")


def _decoded(text: str) -> str:
    if _BAD_ESCAPE.search(text):
        raise Refused(400, "bad_request", "a percent sign is not followed by two hex digits")
    plain = re.sub(rb"%(..)", lambda found: bytes((int(found[1], 16),)), text.encode("latin-1"))
    try:
        decoded = plain.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused(400, "bad_request", "what is percent-encoded is not UTF-8") from None
    if "\0" in decoded:
        raise Refused(400, "bad_request", "there is a NUL in the target")
    return decoded


def _too_large(what: str) -> Refused:
    return Refused(431, "too_large", f"{what} is over the limit" if "more" not in what else f"there are {what}")
