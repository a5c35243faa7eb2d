"""Error responses, by status or `error` object, as errors a user can act on, and when to try again (B41)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import NoReturn

from odek.model.errors import ModelError, ModelProtocolError, ModelRejected, ModelUnreachable, WrongAddress
from odek.model.json_fields import parsed
from odek.model.sense import may_pass, stated_delay_s, values_of, words_of
from odek.patterns import pattern
from odek.text import truncate, visible, visible_lines

MAX_RETRIES = 3
START_LIMIT_S = 300.0  # that a server may take to load its model
START_POLL_S = 2.0
RETRY_AFTER_LIMIT_S = 60.0
_BASE_WAIT_S = 1.0
# 408 timeout, 409 conflict (a lock of the provider), 429 too many; 520–529 are those of
# Cloudflare and of overloaded providers. 501 and 505 will not change.
_STATUSES = frozenset({408, 409, 429, 500, 502, 503, 504, *range(520, 530)})
_SECONDS = pattern(r"[0-9]+(?:\.[0-9]+)?")
_MANY_DIGITS = 9


def is_retryable(status: int) -> bool:
    """Return whether a request that got this HTTP status may succeed a little later."""
    return status in _STATUSES


def backoff_s(retry: int, chance: Callable[[], float]) -> float:
    """Return the wait before retry number `retry` (1, 2, …): anything up to 1, 2, 4 … seconds.

    The whole range is used ("full jitter"), so that many clients do not come back together.
    """
    return chance() * _BASE_WAIT_S * float(2 ** (retry - 1))


def bounded_wait(wait_s: float | None) -> float | None:
    """Return a wait that a server asks for in its words, within 0 … 60 s."""
    return None if wait_s is None else min(max(wait_s, 0.0), RETRY_AFTER_LIMIT_S)


def parse_retry_after(values: Sequence[str], now_epoch_s: float) -> float | None:
    """Return the wait that Retry-After headers ask for, within 0 … 60 s; None when none makes sense.

    Seconds or an HTTP date (RFC 9110, 10.2.3). Of several the longest counts.
    """
    waits = [wait for value in values for wait in _parse_value(value, now_epoch_s)]
    return max(waits) if waits else None


def _parse_value(value: str, now_epoch_s: float) -> list[float]:
    parts = [part.strip() for part in value.split(",")]
    if all(_SECONDS.fullmatch(part) for part in parts):
        return [_seconds(part) for part in parts]
    wait = _until_date(value.strip(), now_epoch_s)
    return [] if wait is None else [wait]


def _seconds(digits: str) -> float:
    whole = digits.partition(".")[0].lstrip("0")
    # decided by length, since the number may have any
    return RETRY_AFTER_LIMIT_S if len(whole) > _MANY_DIGITS else min(float(digits), RETRY_AFTER_LIMIT_S)


def _until_date(value: str, now_epoch_s: float) -> float | None:
    from email.utils import parsedate_to_datetime  # rarely needed

    try:
        when = parsedate_to_datetime(value).timestamp()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return min(max(when - now_epoch_s, 0.0), RETRY_AFTER_LIMIT_S)


ERROR_TEXT_LIMIT = 2048
_REASON_LIMIT = 80
_HTTP_ERRORS = range(400, 600)
_TAG = pattern(r"<[^<>]{0,1000}>")
_HIDDEN = pattern(r"<(script|style|head)\b.{0,20000}?</\1>|<!--.{0,20000}?-->", re.IGNORECASE | re.DOTALL)
_UNKNOWN_PATH = pattern(
    r"unexpected endpoint|unknown (?:endpoint|path|route)|no such (?:endpoint|route)", re.IGNORECASE
)
_OF_AN_INPUT = pattern(r"support (?:image|tool)", re.IGNORECASE)
_OF_A_MODEL = pattern(r"\bmodel|\bdeployment", re.IGNORECASE)
# Servers that say so with another status: DeepSeek, OpenRouter, LM Studio, DashScope, Moonshot, llama.cpp's router.
_NO_SUCH_MODEL = pattern(
    r"(?:unknown|invalid|no such|unrecognized|not a valid) model\b|model_not_found"
    r"|\bmodel\b.{0,100}?(?:not exist|n't exist|not found|is invalid|not available)",
    re.IGNORECASE | re.DOTALL,
)
HTTP_NOT_FOUND = 404
_REDIRECTS = range(300, 400)
KEY_HINT = (
    "the API key comes from api_key in ~/.odek/config.json, ODEK_API_KEY or the provider's own variable; "
    "`odek config view` tells which"
)
# What servers call their errors, as the status that goes with each: inside a stream there is no other.
_TYPE_STATUSES = {
    **dict.fromkeys(("invalid_request_error", "invalid_parameter_error", "invalid_argument", "bad_request"), 400),
    **dict.fromkeys(("context_length_exceeded", "exceed_context_size_error", "validation"), 400),
    **dict.fromkeys(("authentication_error", "invalid_api_key", "unauthenticated"), 401),
    **dict.fromkeys(("permission_error", "permission_denied"), 403),
    **dict.fromkeys(("not_found_error", "not_found", "model_not_found", "deploymentnotfound"), 404),
    **dict.fromkeys(("request_too_large",), 413),
    **dict.fromkeys(("rate_limit_error", "rate_limit_exceeded", "insufficient_quota", "resource_exhausted"), 429),
    **dict.fromkeys(("api_error", "server_error", "internal_server_error", "internal_error", "internal"), 500),
    **dict.fromkeys(("unavailable_error", "unavailable"), 503),
    **dict.fromkeys(("timeout_error", "deadline_exceeded"), 504),
    **dict.fromkeys(("overloaded_error",), 529),
}
# MiniMax has numbers of its own, under a 200.
_BASE_STATUSES = {1001: 504, 1002: 429, 1004: 401, 1008: 402, 1013: 500, 1039: 429, 2013: 400, 2049: 401}
_HINTS = {
    401: KEY_HINT,
    402: "the account behind the API key has no credit",
    403: KEY_HINT,
    404: "check model and base_url; `odek config view` shows them",
    407: "the proxy wants a user and a password: http://USER:PASSWORD@HOST:PORT in the proxy variable",
}


BROKE_OFF = "the model's answer broke off before its end"
BROKE_OFF_HINT = (
    "run the task again; if it happens each time, something on the way cuts long answers (a time limit of a proxy), "
    "or the server ran out of memory"
)


def is_wrong_address(error: ModelError) -> bool:
    """Return whether nothing at the address that was asked knows the API."""
    of_model = _OF_A_MODEL.search(error.said) or _OF_AN_INPUT.search(error.said)
    unknown_path = error.status in (404, 405) and not of_model
    return unknown_path or isinstance(error, WrongAddress)


def is_unknown_model(error: ModelError) -> bool:
    """Return whether a server says that it has no such model."""
    if error.status == HTTP_NOT_FOUND:
        return bool(_OF_A_MODEL.search(error.said))
    return error.status in (0, 400, 403, 422) and bool(_NO_SUCH_MODEL.search(error.said))


def status_error(
    status: int, reason: str, text: str, *, server: str, location: str = "", retry_after_s: float | None = None
) -> ModelError:
    """Return the error for an answer with any status but 200.

    `text` is its body; `server` is how the message names who answered; `location` is where a
    redirect points. Redirects are never followed: they would take the key along.
    """
    line = f"{status} {truncate(visible(reason), _REASON_LIMIT)}".strip()
    if status in _REDIRECTS:
        return ModelRejected(
            f"{server} answered {line} and points to {truncate(visible(location), 200) or 'nowhere'}",
            hint="odek follows no redirects; set base_url to the address that is meant",
            status=status,
        )
    return _made(
        ModelUnreachable,
        f"{server} answered {line}",
        status,
        text,
        retry_after_s=retry_after_s if retry_after_s is not None else bounded_wait(stated_delay_s(values_of(text))),
    )


def raise_for_error(payload: object) -> None:
    """Raise the ModelError that a 200 answer with an error in it really is."""
    error = _error_in(payload)
    if error:
        raise _said_error(json.dumps(payload, ensure_ascii=False), error, unknown=True)


def raise_named_error(data: str) -> NoReturn:
    """Raise the ModelError that an event is which its server calls an error: JSON or plain words."""
    payload = parsed(data)
    raise _said_error(data, _error_in(payload) or payload, unknown=False)


def raise_for_silence(payload: object) -> NoReturn:
    """Raise the ModelError for a whole answer without a message: what it says instead (B89)."""
    text = json.dumps(payload, ensure_ascii=False)
    if not words_of(payload):
        raise ModelProtocolError(
            "the model's server sent an answer without a message", detail=error_text(text), retryable=True
        )
    raise _said_error(text, payload, unknown=False)


def _said_error(text: str, payload: object, *, unknown: bool) -> ModelError:
    """Return the error inside a 200: `text` as it came, `payload` the object that names its kind.

    `unknown` is whether to ask again where the words do not tell.
    """
    if _UNKNOWN_PATH.search(text):
        return WrongAddress(
            "the model's server knows no such path", hint=_HINTS[404], detail=error_text(shown_words(text))
        )
    status = _named_status(payload)
    return _made(ModelProtocolError, "the model's server answered with an error", status, text, unknown=unknown)


def _made(
    passing: type[ModelError],
    message: str,
    status: int,
    text: str,
    *,
    retry_after_s: float | None = None,
    unknown: bool = True,
) -> ModelError:
    """Return an error of the class `passing`, or a ModelRejected when asking again changes nothing."""
    said = values_of(text[: ERROR_TEXT_LIMIT * 4])
    retryable = may_pass(status, said, by_status=is_retryable(status), unknown=unknown)
    kind = passing if retryable else ModelRejected
    return kind(
        message,
        hint=_HINTS.get(status, ""),
        detail=error_text(shown_words(text)),
        status=status,
        retryable=retryable,
        retry_after_s=retry_after_s,
        said=said,
    )


def _error_in(payload: object) -> object:
    """Return what of `payload` is an error, wherever its server puts it, None when nothing is."""
    if isinstance(payload, list):  # Google's
        return next((found for item in payload if (found := _error_in(item))), None)
    if not isinstance(payload, dict):
        return None
    if payload.get("object") == "error":
        return payload
    base = payload.get("base_resp")
    if isinstance(base, dict) and base.get("status_code") not in (None, 0):
        return base
    return payload.get("error")


def shown_words(text: str) -> str:
    """Return what a server says to people in the body of an error: JSON, a proxy's page, or plain words."""
    start = text.lstrip()[:1]
    if start in ("{", "["):
        return words_of(parsed(text)) or text
    if start == "<":
        page = _TAG.sub(" ", _HIDDEN.sub(" ", text))
        return " ".join(page.split())
    return text


def error_text(text: str) -> str:
    """Return a server's own words, safe to print and of bounded length."""
    return truncate(visible_lines(text[:ERROR_TEXT_LIMIT].strip()), ERROR_TEXT_LIMIT)


def _named_status(error: object) -> int:
    """Return the HTTP status that an error object names, 0 when it names none."""
    if not isinstance(error, dict):
        return 0
    base = error.get("status_code")
    if type(base) is int and base in _BASE_STATUSES:
        return _BASE_STATUSES[base]
    for key in ("code", "status", "status_code", "type"):
        value = error.get(key)
        if isinstance(value, str) and value.isascii() and value.isdigit():
            value = int(value[:4])
        if type(value) is int and value in _HTTP_ERRORS:
            return value
        if isinstance(value, str) and value.lower() in _TYPE_STATUSES:
            return _TYPE_STATUSES[value.lower()]
    return 0
