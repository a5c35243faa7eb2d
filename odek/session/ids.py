"""Names and times of sessions.

An id is the UTC date and 32 random hex digits. Ids that other tools made are read under a looser
rule: whatever is one plain file name. The clock is read as it is: it may jump (B48), so nothing
here assumes that later stamps are larger, and no stamp is part of a decision about waiting.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

from odek.errors import StateFileError
from odek.patterns import pattern
from odek.text import visible

_NONCE = pattern(r"[0-9a-f]{32}")
_TIME = pattern(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:\d\d)",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LAST_S = 253402300799.0  # the end of the year 9999, where datetime ends as well
RESERVED = frozenset({"index"})  # index.json is the cache of another tool, not a session


def new_id(now_s: float, nonce: str) -> str:
    """Return the id of a session made at `now_s` (seconds since 1970); `nonce` is 32 hex digits."""
    if not _NONCE.fullmatch(nonce):
        raise ValueError(f"a nonce is 32 lower case hex digits, not {nonce!r}")
    return f"{_moment(now_s):%Y%m%d}-{nonce}"


def check_id(session_id: str) -> None:
    """Raise StateFileError unless `session_id` can name a file in the folder of sessions (B46)."""
    plain = not any(part in session_id for part in ("/", "\\", "..", "\0"))
    if not plain or session_id == "" or session_id.startswith(".") or session_id in RESERVED:
        raise StateFileError(f'"{visible(session_id)}" is not the id of a session', hint="see `odek session list`")


def format_time(seconds: float) -> str:
    """Return `seconds` since 1970 as RFC 3339 in UTC, with microseconds."""
    return _moment(seconds).isoformat(timespec="microseconds").replace("+00:00", "Z")


def parse_time(text: str) -> float:
    """Return the seconds since 1970 of an RFC 3339 time. Raises ValueError."""
    found = _TIME.fullmatch(text)
    if not found:
        raise ValueError(f'"{visible(text[:40])}" is not a time')
    year, month, day, hour, minute, second = (int(group) for group in found.groups()[:6])
    fraction, zone = found.group(7) or "0", found.group(8)
    # a leap second has no place in Python's calendar
    moment = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=timezone.utc)
    return (moment - _EPOCH - _offset(zone)).total_seconds() + float(f"0.{fraction}")


def _offset(zone: str) -> timedelta:
    if zone in "Zz":
        return timedelta()
    size = timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6]))
    return -size if zone[0] == "-" else size


def _moment(seconds: float) -> datetime:
    return _EPOCH + timedelta(seconds=min(max(seconds, 0.0), _LAST_S))
