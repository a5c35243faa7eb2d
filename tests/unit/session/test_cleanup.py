"""Old sessions, and clocks that are wrong."""

from __future__ import annotations

import pytest
from fakes.sessions import NOON

from odek.errors import UsageError
from odek.model.types import Usage
from odek.session.ids import format_time
from odek.session.store import CleanupPlan, plan_cleanup
from odek.session.transcript import Header, State, Summary

DAY = 86_400
IN_1970 = 1000.0
IN_2100 = 4_102_444_800.0


def used(*days_ago: float) -> tuple[Summary, ...]:
    return tuple(
        Summary(
            header=Header(id=str(age), created_at=format_time(0), task="", sandbox=True),
            state=State(updated_at=format_time(NOON - age * DAY), turns=1, model="m", cwd="/", usage=Usage()),
        )
        for age in days_ago
    )


@pytest.mark.parametrize(
    ("ages", "days", "now_s", "gone", "doubt"),
    [
        pytest.param((0, 5, 31, 40), 30, NOON, ("31", "40"), "", id="by age"),
        pytest.param((0, 30), 30, NOON, (), "", id="not older than the limit"),
        pytest.param((), 30, NOON, (), "", id="no sessions"),
        pytest.param((0, 5), 0, NOON, ("0", "5"), "", id="all, as asked"),
        pytest.param((0, 5), 0, IN_1970, ("0", "5"), "", id="all, whatever the clock says"),
        pytest.param((0, 5), 10**30, NOON, (), "", id="an age beyond any clock"),
        pytest.param(
            (31, 40),
            30,
            NOON,
            ("31", "40"),
            "every session from before today would be deleted: "
            "the clock says 2026-07-15, the newest session was used on 2026-06-14",
            id="nothing would be left",
        ),
        pytest.param(
            (0, 5),
            30,
            IN_2100,
            ("0", "5"),
            "every session from before today would be deleted: "
            "the clock says 2100-01-01, the newest session was used on 2026-07-15",
            id="clock in 2100",
        ),
        pytest.param(
            (0, 5),
            30,
            IN_1970,
            (),
            "the clock seems to be wrong: the clock says 1970-01-01, the newest session was used on 2026-07-15",
            id="clock in 1970",
        ),
        pytest.param(
            (-365, 5, 40),
            30,
            NOON,
            ("40",),
            "the clock seems to be wrong: the clock says 2026-07-15, the newest session was used on 2027-07-15",
            id="a session from the future",
        ),
    ],
)
def test_plan_and_its_doubt(
    ages: tuple[float, ...], days: int, now_s: float, gone: tuple[str, ...], doubt: str
) -> None:
    """B48: a cleanup by a wrong clock does not delete everything without asking."""
    plan = plan_cleanup(used(*ages), days=days, now_s=now_s)
    assert (tuple(summary.header.id for summary in plan.sessions), plan.doubt) == (gone, doubt)


def test_one_session_made_under_the_wrong_clock_does_not_make_it_right() -> None:
    """B48: the clock jumps to 2100, a session is made, then a cleanup runs."""
    jumped = Summary(
        header=used(0)[0].header,
        state=State(updated_at=format_time(IN_2100), turns=1, model="m", cwd="/", usage=Usage()),
    )
    plan = plan_cleanup((jumped, *used(0, 5)), days=30, now_s=IN_2100 + 60)
    assert [summary.header.id for summary in plan.sessions] == ["0", "5"]
    assert plan.doubt.startswith("every session from before today would be deleted")


def test_negative_age_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot be negative: -1"):
        plan_cleanup((), days=-1, now_s=NOON)


def test_plan_is_a_plain_value() -> None:
    assert plan_cleanup((), days=3, now_s=NOON) == CleanupPlan(sessions=(), doubt="")
