"""When a request is tried again, and after what wait (B41)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

MAX_RETRIES = 3
START_LIMIT_S = 300.0  # that a server may take to load its model
START_POLL_S = 2.0
RETRY_AFTER_LIMIT_S = 60.0
_BASE_WAIT_S = 1.0
# 408 timeout, 409 conflict (a lock of the provider), 429 too many; 520–529 are those of
# Cloudflare and of overloaded providers. 501 and 505 will not change.
_STATUSES = frozenset({408, 409, 429, 500, 502, 503, 504, *range(520, 530)})
_SECONDS = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_MANY_DIGITS = 9


def is_retryable(status: int) -> bool:
    """Return whether an answer with this HTTP status may be another one a little later."""
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
