"""Classify a server's error text: was the request too long, can asking again help. Pure.

No list of sentences, for each server has its own and changes them: a status says what kind of refusal it may be,
and words that stand near each other say the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from odek.model.json_fields import parsed
from odek.patterns import pattern

_TOO_LARGE = 413
_MAY_BE_OVERFLOW = (0, 400, 413, 422, 500)  # 0: said inside a 200
_DEEPEST = 9
_FLAGS = re.IGNORECASE | re.DOTALL

# What can be too long about a conversation, and how that is said, either one first.
_MEASURED = (
    r"(?:context(?:[ _](?:length|window|size|limit))?|prompts?|inputs?|conversation|sequence|tokens?|n_ctx"
    r"|max_model_len)"
)
_EXCESS = (
    r"(?:exceed\w*|too (?:long|large|many|big)|(?:longer|larger|greater|bigger|more|higher) than|over(?:flow|size)\w*"
    r"|over|maximum|max (?:length|context|prompt)|limit\w*|at most|must be <=|length should be|reduce|shorten"
    r"|(?:not|n't) fit|tokens > \d+)"
)
_SIZE = r"\b(?:messages?|request(?: entity| body)?|payload|body)\b.{0,40}\b(?:exceeds?|too (?:long|large|big))\b"
_LENGTH = pattern(rf"\b{_MEASURED}\b.{{0,90}}\b{_EXCESS}|\b{_EXCESS}\b.{{0,60}}\b{_MEASURED}\b|{_SIZE}", _FLAGS)
_OTHER_TONGUES = pattern(r"超长|过长|超过.{0,12}(?:长度|限制)|超出.{0,12}(?:长度|限制)")
_SURELY = pattern(
    r"context[ _](?:length|window|size|limit)|maximum (?:context|prompt|model)|prompt (?:is )?too long"
    r"|input is too long|prompt length|too many tokens|exceed_context|n_ctx|input tokens|`inputs` tokens|input length",
    _FLAGS,
)
# Limits that a shorter conversation does not meet.
_ELSEWHERE = pattern(
    r"max_(?:completion_|output_|new_)?tokens\b|completion tokens|output tokens|temperature|top_p|stop sequences?"
    r"|tool[_ ]?(?:call|use)?[_ .\[\]\d]*(?:id|name|description)|tools?['\"`]?: array|function name"
    r"|(?:string|array) too long|image|per (?:minute|day|hour)|rate.?limit|\bTPM\b|quota",
    _FLAGS,
)
_PER_REQUEST = pattern(r"request too large|reduce your message size", _FLAGS)
_VAGUE = pattern(r"exceed|limit|too |length|\blong|large|size|max|token|context|reduce|trunc", _FLAGS)

# What no second attempt changes, whatever the status.
_NEVER = pattern(
    r"insufficient[_ ](?:quota|balance|credits?|funds)|billing|credit balance|out of credits|arrear|payment required"
    r"|(?:account|key|project)\b.{0,40}\b(?:suspended|deactivated|disabled|expired|overdue)"
    r"|jinja|chat.?template|raise_exception|roles must alternate|does not support|not supported|unsupported"
    r"|invalid_request_error|validation error|unexpected endpoint",
    _FLAGS,
)
_QUOTA = pattern(r"exceeded your current quota|quota exceeded", _FLAGS)
_SOON = pattern(r"(?:retry|try again) in|retrydelay", _FLAGS)
_PASSING = pattern(
    r"overload|busy|time[d_ -]?out|temporar|try again|retry|rate.?limit|too many requests|throttl|unavailable|capacity"
    r"|internal|server.?error|upstream|connection|crash|cuda|out of memory",
    _FLAGS,
)
_REFUSING = pattern(
    r"invalid|not allowed|not found|denied|forbidden|unauthori[sz]ed|unauthenticated|permission|illegal|expired"
    r"|unknown|must |required|missing|validat|bad request|no such|does not exist|content.?(?:policy|filter)",
    _FLAGS,
)
_LOADING = pattern(
    r"\bloading\b.{0,20}\bmodel|\bmodel\b.{0,60}\b(?:loading|not.{0,10}loaded)\b|warming up|starting up", _FLAGS
)
_DELAYS = (
    pattern(r"(?:retry|try again) in (?P<seconds>\d{1,6}(?:\.\d{1,9})?) ?s", _FLAGS),
    pattern(r'"retryDelay": ?"(?P<seconds>\d{1,6}(?:\.\d{1,9})?)s"', _FLAGS),
)
_WORD_KEYS = (
    *("message", "msg", "detail", "error", "errors", "error_msg", "error_message", "errmsg", "status_msg", "ret"),
    *("reason", "title", "metadata", "raw", "base_resp", "fault", "faultstring", "description"),
)


def is_overflow(status: int, said: str) -> bool:
    """Return whether a refusal says that the conversation is too long for the model."""
    if status == _TOO_LARGE:
        return not re.search("image", said, _FLAGS)
    if status not in _MAY_BE_OVERFLOW:
        return False
    if _SURELY.search(said) and (_LENGTH.search(said) or "context_length" in said.lower()):
        return not re.search(r"per (?:minute|day|hour)", said, _FLAGS)
    measured = _LENGTH.search(said) and not _ELSEWHERE.search(said)
    return bool(measured or _OTHER_TONGUES.search(said) or _PER_REQUEST.search(said))


def may_be_overflow(status: int, said: str) -> bool:
    """Return whether a refusal that is not understood may mean a conversation that is too long."""
    return status in (400, 422) and (not said.strip() or bool(_VAGUE.search(said)))


def may_pass(status: int, said: str, *, by_status: bool, unknown: bool) -> bool:
    """Return whether the same request may succeed a little later.

    `by_status` is what the status alone would say, `unknown` what to assume where neither it nor the words tell.
    """
    if is_overflow(status, said) or _NEVER.search(said):
        return False
    if _QUOTA.search(said) and not _SOON.search(said):
        return False
    if status:
        return by_status
    return bool(_PASSING.search(said)) or (unknown and not _REFUSING.search(said))


def is_loading(status: int, said: str) -> bool:
    """Return whether a server says that it is still starting."""
    return status in (0, 503) and bool(_LOADING.search(said))


def stated_delay_s(said: str) -> float | None:
    """Return the wait that a refusal asks for in its words, None when it names none."""
    found = next((match for pattern in _DELAYS if (match := pattern.search(said))), None)
    return float(found["seconds"]) if found else None


def values_of(text: str) -> str:
    """Return the body of an error for decisions: of JSON its values, for its keys are words as well."""
    payload = parsed(text) if text.lstrip()[:1] in ("{", "[") else None
    return "\n".join(_values(payload, "", _DEEPEST)) if isinstance(payload, dict | list) else text


def _values(value: object, key: str, depth: int) -> Iterator[str]:
    if depth == 0:
        return
    if isinstance(value, str):
        yield f'"{key}": "{value}"' if key == "retryDelay" else values_of(value)
    elif isinstance(value, int | float):
        yield f'"{key}": {value}'
    elif isinstance(value, list):
        for item in value:
            yield from _values(item, key, depth - 1)
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from _values(inner, name, depth - 1)


def words_of(payload: object) -> str:
    """Return the words for people in a JSON value that is not a reply, wherever they are; "" for none."""
    return "; ".join(dict.fromkeys(_words(payload, _DEEPEST)))


def _words(value: object, depth: int) -> Iterator[str]:
    if depth == 0:
        return
    if isinstance(value, str) and value.strip():
        inner = list(_words(parsed(value), depth - 1)) if value.lstrip()[:1] in ("{", "[") else []
        yield from inner or [value.strip()]
    elif isinstance(value, list):
        for item in value:
            yield from _words(item, depth - 1)
    elif isinstance(value, Mapping):
        place = value.get("loc")
        shown = ".".join(map(str, place)) + ": " if isinstance(place, list) else ""
        for key in _WORD_KEYS:
            yield from (shown + words for words in _words(value.get(key), depth - 1))
