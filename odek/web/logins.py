"""Who is logged in: pairs of a cookie and a key, the token of this process, and how often both may fail (R-128).

A right credential is always taken. Only wrong ones count against the limit, so that no other program of this machine
can lock the user out by guessing.
"""

from __future__ import annotations

import hmac
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from odek.web.errors import Refused
from odek.web.guard import Credentials

MOST_BROWSERS = 32
MOST_FAILURES = 20
FAILURES_S = 60.0
REQUESTS_A_SECOND = 50.0
BURST = 100.0
PROGRAMS = "token"
"""what all that use the token are called, where browsers have an id"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Browser:
    """One login. Either half alone is worth nothing (D-16)."""

    id: str
    cookie: str = field(repr=False)
    key: str = field(repr=False)


@dataclass(slots=True)
class _Bucket:
    level: float
    at: float


class Logins:
    """The logins of one server; safe in any thread."""

    def __init__(self, token: str, *, random_hex: Callable[[int], str], now: Callable[[], float]) -> None:
        """`now` is a monotonic clock in seconds."""
        self._token = token
        self._random_hex = random_hex
        self._now = now
        self._lock = threading.Lock()
        self._browsers: OrderedDict[str, Browser] = OrderedDict()
        self._failures: deque[float] = deque()
        self._buckets: dict[str, _Bucket] = {}

    def log_in(self, token: str) -> Browser:
        """Return a new login for who has the token; the oldest of too many is forgotten. Raises Refused."""
        if not _same(token, self._token):
            raise self._failed("the token is not this server's", "use the URL that odek printed")
        made = Browser(id=self._random_hex(8), cookie=self._random_hex(32), key=self._random_hex(32))
        with self._lock:
            self._browsers[made.id] = made
            while len(self._browsers) > MOST_BROWSERS:
                forgotten, _ = self._browsers.popitem(last=False)
                self._buckets.pop(forgotten, None)
        return made

    def identify(self, given: Credentials) -> str:
        """Return the id of the login that a request has both halves of, PROGRAMS for the token. Raises Refused."""
        found = self._find(given)
        if not found:
            raise self._failed("log in first", "open the URL that odek printed")
        self._spend(found)
        return found

    def knows(self, who: str) -> bool:
        """Return whether what `identify` once returned is still logged in."""
        with self._lock:
            return who == PROGRAMS or who in self._browsers

    def log_out(self, browser: str) -> None:
        """Forget a login."""
        with self._lock:
            self._browsers.pop(browser, None)
            self._buckets.pop(browser, None)

    def _find(self, given: Credentials) -> str:
        if given.bearer:
            return PROGRAMS if _same(given.bearer, self._token) else ""
        with self._lock:
            browsers = tuple(self._browsers.values())
        found = ""
        for browser in browsers:
            has_cookie = any(_same(cookie, browser.cookie) for cookie in given.cookies)
            if _same(given.key, browser.key) and has_cookie:
                found = browser.id
        return found

    def _failed(self, message: str, hint: str) -> Refused:
        now = self._now()
        with self._lock:
            while self._failures and now - self._failures[0] >= FAILURES_S:
                self._failures.popleft()
            if len(self._failures) < MOST_FAILURES:
                self._failures.append(now)
                return Refused(401, "login", message, hint)
            wait = int(FAILURES_S - (now - self._failures[0])) + 1
        return Refused(429, "failures", "too many failed logins", f"wait {wait} s", extra={"retry_after": wait})

    def _spend(self, who: str) -> None:
        """Take one request off what `who` may send at present. Raises Refused."""
        now = self._now()
        with self._lock:
            bucket = self._buckets.setdefault(who, _Bucket(BURST, now))
            bucket.level = min(BURST, bucket.level + (now - bucket.at) * REQUESTS_A_SECOND)
            bucket.at = now
            if bucket.level >= 1:
                bucket.level -= 1
                return
        raise Refused(429, "too_many", "too many requests a second", "ask more slowly", extra={"retry_after": 1})


def _same(given: str, right: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), right.encode())
