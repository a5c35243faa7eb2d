"""Answers, as values and as bytes (R-127). Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from odek.text import visible, visible_lines
from odek.web.errors import Refused

JSON_TYPE = "application/json; charset=utf-8"
# No header for other origins (CORS) is ever among them.
_ALWAYS = (
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
)
_REASONS = {
    100: "Continue", 200: "OK", 201: "Created", 202: "Accepted", 204: "No Content", 304: "Not Modified",
    400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed",
    408: "Request Timeout", 409: "Conflict", 410: "Gone", 411: "Length Required", 413: "Content Too Large",
    415: "Unsupported Media Type", 417: "Expectation Failed", 422: "Unprocessable Content", 429: "Too Many Requests",
    431: "Request Header Fields Too Large", 500: "Internal Server Error", 501: "Not Implemented",
    503: "Service Unavailable", 505: "HTTP Version Not Supported", 507: "Insufficient Storage",
}  # fmt: skip
_BODILESS = (204, 304)


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """One answer; a stream has no body here and writes its own."""

    status: int = 200
    body: bytes = b""
    content_type: str = JSON_TYPE
    headers: tuple[tuple[str, str], ...] = ()
    cache: str = "no-store"
    streams: bool = False
    """its length is not known; the end of the connection is its end"""


def json_response(value: object, *, status: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    """Return `value` as JSON on one line."""
    return Response(status=status, body=to_bytes(value), headers=headers)


def to_bytes(value: object) -> bytes:
    """Return `value` as JSON in ASCII, on one line: lone surrogates of file names pass as escapes."""
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def error_response(refused: Refused) -> Response:
    """Return a refusal as JSON, its texts safe to show; `retry_after` and `allow` of it become headers."""
    extra = dict(refused.extra)
    headers = []
    if "retry_after" in extra:
        headers.append(("Retry-After", str(extra["retry_after"])))
    allow = extra.get("allow")
    if isinstance(allow, (list, tuple)):
        headers.append(("Allow", ", ".join(map(str, allow))))
    error = {
        "code": refused.code,
        "message": visible_lines(refused.message),
        "hint": visible_lines(refused.hint),
        **extra,
    }
    return json_response({"error": error}, status=refused.status, headers=tuple(headers))


def render(response: Response, *, keep_alive: bool, without_body: bool = False) -> bytes:
    """Return the bytes of an answer; `without_body`: it is one to HEAD."""
    lines = [f"HTTP/1.1 {response.status} {_REASONS[response.status]}", *_header_lines(response)]
    if not keep_alive:
        lines.append("Connection: close")
    head = "\r\n".join((*lines, "", "")).encode("latin-1")
    return head if without_body or response.status in _BODILESS else head + response.body


def log_line(refused: Refused) -> str:
    """Return what the log says of a refusal: no text that the client sent."""
    return f"{refused.status} {visible(refused.code)}"


def _header_lines(response: Response) -> Iterator[str]:
    yield f"Cache-Control: {response.cache}"
    for name, value in (*_ALWAYS, *response.headers):
        yield f"{name}: {value}"
    if response.status in _BODILESS:
        return
    yield f"Content-Type: {response.content_type}"
    if not response.streams:
        yield f"Content-Length: {len(response.body)}"
