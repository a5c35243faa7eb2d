"""Which sessions are old enough to go, decided by a clock that may be wrong (B48). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from odek.errors import UsageError
from odek.session.ids import format_time, parse_time
from odek.session.transcript import Summary

_DAY_S = 86_400
_MOST_DAYS = 36_500


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPlan:
    """What a cleanup would delete."""

    sessions: tuple[Summary, ...]
    doubt: str
    """why a person should be asked first; "" when there is no reason"""


def plan_cleanup(summaries: Sequence[Summary], *, days: int, now_s: float) -> CleanupPlan:
    """Return the plan to delete the sessions that were last used more than `days` days before `now_s`.

    0 days means all, and is no mistake of a clock. A plan is doubtful when the clock is behind a
    session, or when nothing but what was used today would be left: so it looks after a jump of the
    clock. Raises UsageError for a negative number of days.
    """
    if days < 0:
        raise UsageError(f"the age in days cannot be negative: {days}")
    if days == 0 or not summaries:
        return CleanupPlan(sessions=tuple(summaries), doubt="")
    limit = now_s - min(days, _MOST_DAYS) * _DAY_S
    old = tuple(summary for summary in summaries if _used(summary) < limit)
    return CleanupPlan(sessions=old, doubt=_doubt(summaries, old, now_s))


def _doubt(summaries: Sequence[Summary], old: Sequence[Summary], now_s: float) -> str:
    newest = max(_used(summary) for summary in summaries)
    dates = f"the clock says {_date(now_s)}, the newest session was used on {_date(newest)}"
    if newest > now_s + _DAY_S:
        return f"the clock seems to be wrong: {dates}"
    today = sum(_used(summary) > now_s - _DAY_S for summary in summaries)
    if old and len(old) + today == len(summaries):
        return f"every session from before today would be deleted: {dates}"
    return ""


def _used(summary: Summary) -> float:
    return parse_time(summary.state.updated_at)


def _date(seconds: float) -> str:
    return format_time(seconds)[:10]
