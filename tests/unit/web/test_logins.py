"""Logins: how many there are, how often they may fail, and how much each may ask."""

from __future__ import annotations

import itertools

import pytest
from support.web_server import TOKEN

from odek.web.errors import Refused
from odek.web.guard import Credentials
from odek.web.logins import BURST, MOST_BROWSERS, MOST_FAILURES, PROGRAMS, Browser, Logins

BEARER = Credentials(bearer=TOKEN)


class Setting:
    def __init__(self) -> None:
        self.now = 1000.0
        numbers = itertools.count(1)
        self.logins = Logins(TOKEN, random_hex=lambda size: f"{next(numbers):0{2 * size}x}", now=lambda: self.now)

    def status(self, given: Credentials) -> int:
        try:
            self.logins.identify(given)
        except Refused as refused:
            return refused.status
        return 200


def halves(browser: Browser) -> Credentials:
    return Credentials(cookies=(browser.cookie,), key=browser.key)


def test_thirty_two_browsers_and_the_oldest_is_forgotten() -> None:
    """R-128."""
    setting = Setting()
    made = [setting.logins.log_in(TOKEN) for _ in range(MOST_BROWSERS + 1)]
    assert [setting.status(halves(browser)) for browser in (*made[:2], made[-1])] == [401, 200, 200]
    assert len({browser.cookie for browser in made} | {browser.key for browser in made}) == 2 * len(made)
    setting.logins.log_out(made[1].id)
    assert setting.status(halves(made[1])) == 401


def test_guessing_is_slowed_and_locks_no_one_out() -> None:
    """R-128: 20 failures a minute of all kinds, then 429 with the time to wait; a right login is taken meanwhile."""
    setting = Setting()
    browser = setting.logins.log_in(TOKEN)
    for _ in range(MOST_FAILURES // 2):
        assert setting.status(Credentials(bearer="x")) == 401
        with pytest.raises(Refused) as caught:
            setting.logins.log_in("")
        assert caught.value.status == 401
    setting.now += 40
    with pytest.raises(Refused) as caught:
        setting.logins.log_in("x" * 64)
    assert (caught.value.status, caught.value.extra) == (429, {"retry_after": 21})
    assert [setting.status(halves(browser)), setting.status(BEARER)] == [200, 200]
    setting.now += 20
    assert setting.status(Credentials()) == 401


@pytest.mark.parametrize("wrong", ["", "x", TOKEN[:-1], TOKEN + "7", TOKEN.upper() + "\x00", "ü" * 64, "\ud800"])
def test_only_the_token_logs_in(wrong: str) -> None:
    setting = Setting()
    with pytest.raises(Refused) as caught:
        setting.logins.log_in(wrong)
    assert caught.value.status == 401
    assert setting.status(Credentials(bearer=wrong)) == 401


def test_each_login_has_a_rate_of_its_own() -> None:
    """R-128: a burst of 100, then 50 a second."""
    setting = Setting()
    browser = setting.logins.log_in(TOKEN)
    assert setting.logins.identify(BEARER) == PROGRAMS
    assert [setting.status(halves(browser)) for _ in range(int(BURST) + 1)] == [200] * int(BURST) + [429]
    setting.now += 0.1
    assert [setting.status(halves(browser)) for _ in range(6)] == [200] * 5 + [429]
    assert setting.status(BEARER) == 200
    setting.now += 3600
    assert [setting.status(halves(browser)) for _ in range(int(BURST) + 1)].count(200) == BURST
