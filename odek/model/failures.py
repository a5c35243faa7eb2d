"""Answers that are no answers, as errors a user can act on: statuses and `error` objects."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from odek.model.errors import ModelError, ModelProtocolError, ModelRejected, ModelUnreachable
from odek.model.retry import is_retryable
from odek.text import clip, visible, visible_lines

ERROR_TEXT_LIMIT = 2048
_REASON_LIMIT = 80
_HTTP_ERRORS = range(400, 600)
_REDIRECTS = range(300, 400)
_KEY_HINT = (
    "the API key comes from api_key in ~/.odek/config.json, ODEK_API_KEY or the provider's own variable; "
    "`odek config view` tells which"
)
# What Anthropic calls its errors (and OpenAI some of them), as the status that goes with each: inside a
# stream there is no other.
_TYPE_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_HINTS = {
    401: _KEY_HINT,
    402: "the account behind the API key has no credit",
    403: _KEY_HINT,
    404: "check model and base_url; `odek config view` shows them",
    407: "the proxy wants a user and a password: http://USER:PASSWORD@HOST:PORT in the proxy variable",
}


def status_error(
    status: int, reason: str, text: str, *, server: str, location: str = "", retry_after_s: float | None = None
) -> ModelError:
    """Return the error for an answer with any status but 200.

    `text` is its body; `server` is how the message names who answered; `location` is where a
    redirect points. Redirects are never followed: they would take the key along.
    """
    line = f"{status} {clip(visible(reason), _REASON_LIMIT)}".strip()
    if status in _REDIRECTS:
        return ModelRejected(
            f"{server} answered {line} and points to {clip(visible(location), 200) or 'nowhere'}",
            hint="odek follows no redirects; set base_url to the address that is meant",
            status=status,
        )
    retryable = is_retryable(status)
    kind = ModelUnreachable if retryable else ModelRejected
    return kind(
        f"{server} answered {line}",
        hint=_HINTS.get(status, ""),
        detail=error_text(text),
        status=status,
        retryable=retryable,
        retry_after_s=retry_after_s,
    )


def raise_for_error(payload: Mapping[str, Any]) -> None:
    """Raise the ModelError that a 200 answer with an `error` in it really is."""
    error = payload if payload.get("object") == "error" else payload.get("error")
    if not error:
        return
    text = error.get("message") if isinstance(error, dict) else error
    status = _named_status(error)
    kind: type[ModelError] = ModelProtocolError if not status or is_retryable(status) else ModelRejected
    raise kind(
        "the model's server answered with an error",
        hint=_HINTS.get(status, ""),
        detail=error_text(text if isinstance(text, str) else json.dumps(error, ensure_ascii=False)),
        status=status,
        retryable=kind is ModelProtocolError,
    )


def error_text(text: str) -> str:
    """Return a server's own words, safe to print and of bounded length."""
    return clip(visible_lines(text[:ERROR_TEXT_LIMIT].strip()), ERROR_TEXT_LIMIT)


def _named_status(error: object) -> int:
    """Return the HTTP status that an error object names, 0 when it names none."""
    if not isinstance(error, dict):
        return 0
    for key in ("code", "status", "status_code"):
        value = error.get(key)
        if isinstance(value, str) and value.isascii() and value.isdigit():
            value = int(value[:4])
        if type(value) is int and value in _HTTP_ERRORS:
            return value
    kind = error.get("type")
    return _TYPE_STATUSES.get(kind, 0) if isinstance(kind, str) else 0
