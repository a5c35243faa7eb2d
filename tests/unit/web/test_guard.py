"""S-23, who may ask: the whole table of names, origins and credentials, on every route."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from fakes.live_sessions import KNOWN, FakeLive
from support.web_server import TOKEN, NoUploads

from odek.web.errors import Refused
from odek.web.guard import Credentials, check_content_type, check_host, check_origin, names_of, read_credentials
from odek.web.logins import Browser, Logins
from odek.web.request import Head, parse_head
from odek.web.response import Response
from odek.web.routes import BODY_LIMITS, ROUTES, Body
from odek.web.service import Service
from odek.web.static import FILES, PageFiles

PORT = 41277
OWN = f"127.0.0.1:{PORT}"
GOOD_HOSTS = (OWN, f"localhost:{PORT}", f"LOCALHOST:{PORT}", f"[::1]:{PORT}", "odek.example", "box:8080")
BAD_HOSTS = (
    f"evil.example:{PORT}", f"localhost.evil.example:{PORT}", f"127.0.0.1.nip.io:{PORT}", "127.0.0.1:41278",
    "127.0.0.1", "localhost", f"LOCALHOST.:{PORT}", f"localhost.:{PORT}", f"0.0.0.0:{PORT}", f"127.1:{PORT}",
    f"2130706433:{PORT}", f"127.0.0.2:{PORT}", f"[::ffff:127.0.0.1]:{PORT}", f"user@127.0.0.1:{PORT}",
    f"127.0.0.1:{PORT},evil.example", f" 127.0.0.1:{PORT} x", f"127.0.0.1:0{PORT}", "", "odek.example:41277",
    "odek.example.", "sub.odek.example", "box", "box:80", "ｌocalhost:41277",
)  # fmt: skip
FOREIGN = ("null", "http://evil.example", "http://localhost:3000", "file://", f"https://{OWN}", f"http://{OWN}.x", "")
PATHS = tuple(
    (
        route.method,
        route.path.replace("{id}", KNOWN).replace("{aid}", "a-1").replace("{tid}", "1").replace("{uid}", "u"),
    )
    for route in ROUTES
)
PUBLIC = {("GET", "/api/health"), ("POST", "/api/login")}


class Guarded:
    """A service and one login of it."""

    def __init__(self) -> None:
        self.live, self.uploads = FakeLive(), NoUploads()
        numbers = itertools.count(1)
        self.logins = Logins(TOKEN, random_hex=lambda size: f"{next(numbers):0{size * 2}x}", now=lambda: 0.0)
        self.browser: Browser = self.logins.log_in(TOKEN)
        self.service = Service(
            names=names_of(PORT, ("odek.example", "box:8080")),
            cookie_name=f"odek_{PORT}",
            logins=self.logins,
            live=self.live,
            uploads=self.uploads,
            find_files=lambda *_: [],
            random_hex=lambda size: "0" * 2 * size,
            now=lambda: 0.0,
            log=lambda _: None,
            show_bug=lambda _: None,
            pages=PageFiles(lambda name: name.encode()),
        )

    @property
    def both(self) -> dict[str, str]:
        return {"Cookie": self.cookie, "X-Odek-Key": self.browser.key}

    @property
    def cookie(self) -> str:
        return f"a=b; odek_{PORT}={self.browser.cookie}; c=d"

    def status(self, method: str, path: str, headers: dict[str, str]) -> int | str:
        """Return the status that a request gets: its code where the guard refused it, 200 where it was let in."""
        content = "application/octet-stream" if path == "/api/uploads" else "application/json"
        given = {"Content-Type": content, **headers} if method == "POST" else headers
        try:
            head = parse_head(
                "\r\n".join(
                    (f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items()), "", "")
                ).encode("utf-8")
            )
            call = self.service.admit(head, 2)
        except Refused as refused:
            return refused.code if refused.status in (401, 403, 429) else refused.status
        call.close()
        return 200


@pytest.mark.parametrize(("method", "path"), [*PATHS, *(("GET", path) for path in FILES)])
def test_only_who_names_this_server_is_answered(method: str, path: str) -> None:
    """R-128, W-2, P-2: on every route, files and health included, and whatever else the request has."""
    guarded = Guarded()
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    for host in GOOD_HOSTS:
        assert guarded.status(method, path, {"Host": host, **bearer}) == 200, host
    for host in BAD_HOSTS:
        assert guarded.status(method, path, {"Host": host, **bearer}) == "host", host
    assert guarded.status(method, path, {"Host": OWN, "host": OWN, **bearer}) == 400
    assert guarded.status(method, path, bearer) == 400
    assert guarded.live.calls == []


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_pages_of_other_origins_are_refused(method: str, path: str) -> None:
    """R-128, W-2, P-1: reading included, with whatever credentials the browser has attached."""
    guarded = Guarded()
    for origin in FOREIGN:
        assert guarded.status(method, path, {"Host": OWN, "Origin": origin, **guarded.both}) == "origin", origin
    for site in ("cross-site", "same-site", "none", "Same-Origin", ""):
        assert guarded.status(method, path, {"Host": OWN, "Sec-Fetch-Site": site, **guarded.both}) == "origin", site
    for host, origin in (
        (OWN, f"http://{OWN}"),
        (f"localhost:{PORT}", f"http://localhost:{PORT}"),
        ("odek.example", "https://odek.example"),
        ("odek.example", "http://odek.example"),
        ("box:8080", "https://box:8080"),
    ):
        same = {"Host": host, "Origin": origin, "Sec-Fetch-Site": "same-origin", **guarded.both}
        assert guarded.status(method, path, same) == 200, origin
    mixed = {"Host": OWN, "Origin": f"http://localhost:{PORT}", **guarded.both}
    assert guarded.status(method, path, mixed) == "origin"


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_either_half_alone_is_worth_nothing(method: str, path: str) -> None:
    """R-128, D-16, P-4, W-2: each combination of what is missing or wrong."""
    guarded = Guarded()
    other = guarded.logins.log_in(TOKEN)
    wrong: list[dict[str, str]] = [
        {},
        {"Cookie": guarded.cookie},
        {"X-Odek-Key": guarded.browser.key},
        {"Cookie": guarded.cookie, "X-Odek-Key": other.key},
        {"Cookie": f"odek_{PORT}={guarded.browser.key}", "X-Odek-Key": guarded.browser.cookie},
        {"Cookie": f"odek_{PORT + 1}={guarded.browser.cookie}", "X-Odek-Key": guarded.browser.key},
        {"Cookie": f"odek_{PORT}=", "X-Odek-Key": ""},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": "Bearer"},
        {"Authorization": f"Bearer {TOKEN[1:]}"},
        {"Authorization": f"Bearer {TOKEN}\xe4"},
        {"Authorization": f"Bearer {guarded.browser.key}", **guarded.both},
    ]
    for headers in wrong:
        answer = guarded.status(method, path, {"Host": OWN, **headers})
        assert answer == (200 if (method, path) in PUBLIC else "login"), headers
    for headers in (guarded.both, {"Authorization": f"bearer {TOKEN}"}, {"Authorization": "Basic x", **guarded.both}):
        assert guarded.status(method, path, {"Host": OWN, **headers}) == 200
    assert guarded.live.calls == []
    assert guarded.uploads.reserved == 0


@pytest.mark.parametrize("route", [route for route in ROUTES if route.method == "POST"], ids=lambda route: route.path)
def test_forms_of_other_sites_have_the_wrong_type(route: object) -> None:
    """R-128, P-3: what a page can send without asking first is refused, whatever the body says."""
    guarded = Guarded()
    method, path = next(pair for pair, each in zip(PATHS, ROUTES, strict=True) if each is route)
    for content in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "",
        "application/jsonx",
        "text/plain; application/json",
        "application/json, text/plain",
        "application/json; charset=utf-16",
    ):
        headers = {"Host": OWN, "Authorization": f"Bearer {TOKEN}", "Content-Type": content}
        assert guarded.status(method, path, headers) == 415, content


def head(**headers: str) -> Head:
    return Head(
        method="GET",
        path="/",
        query="",
        headers={name.replace("_", "-"): [value] for name, value in headers.items()},
        keep_alive=True,
    )


def test_ports_that_browsers_leave_out_may_be_left_out() -> None:
    """R-128: 80 and 443."""
    at_80 = names_of(80, ("a.example", "b.example:443", "c.example:8443", "[fd00::1]"))
    for host in (
        "127.0.0.1",
        "localhost:80",
        "[::1]",
        "a.example",
        "a.example:443",
        "a.example:80",
        "b.example",
        "b.example:443",
        "c.example:8443",
        "[fd00::1]",
        "[fd00::1]:443",
    ):
        check_host(head(host=host), at_80)
    for host in ("b.example:80", "c.example", "a.example:8443", "127.0.0.1:443"):
        with pytest.raises(Refused):
            check_host(head(host=host), at_80)


def test_loopback_is_never_https() -> None:
    """R-128: TLS is a proxy's, which has a name of its own."""
    names = names_of(PORT, ("a.example",))
    check_origin(head(host="a.example", origin="https://a.example"), names)
    with pytest.raises(Refused):
        check_origin(head(host=OWN, origin=f"https://{OWN}"), names)


def test_cookies_that_other_servers_set_do_not_hide_the_right_one() -> None:
    """P-4: cookies ignore ports, so another server of this machine can add one of the same name before it."""
    guarded = Guarded()
    tossed = f"odek_{PORT}=x; odek_{PORT}={guarded.browser.cookie}"
    assert guarded.status("GET", "/api/state", {"Host": OWN, **guarded.both, "Cookie": tossed}) == 200
    many = "; ".join([f"odek_{PORT}=x"] * 8)
    assert guarded.status("GET", "/api/state", {"Host": OWN, **guarded.both, "Cookie": f"{many}; {tossed}"}) == "login"


def test_credentials_are_not_printed() -> None:
    assert read_credentials(head(cookie="odek_1=c", x_odek_key="k", authorization="Bearer t"), "odek_1") == Credentials(
        cookies=("c",), key="k", bearer="t"
    )
    assert repr(Credentials(cookies=("secret",), key="secret", bearer="secret")) == "Credentials()"
    assert "secret" not in repr(Browser(id="1", cookie="secret", key="secret"))


def test_json_may_name_its_charset() -> None:
    for content in ("application/json", "Application/JSON;charset=UTF-8", 'application/json; charset="utf-8"'):
        check_content_type(head(content_type=content), "application/json")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api", 404),
        ("GET", "/api/nothing", 404),
        ("GET", "/api/sessions/a/b/c", 404),
        ("GET", "/%61pi/state", 200),
        ("GET", "/api/%73tate", 200),
        ("GET", "/api//state", 404),
        ("GET", "/api/state/", 404),
        ("GET", "/api/../app.js", 404),
        ("GET", "/nothing.js", 404),
        ("GET", "/../odek/web/static.py", 404),
        ("GET", "/%2e%2e/static.py", 404),
        ("GET", "//app.js", 404),
        ("GET", "/favicon.ico", 404),
        ("POST", "/app.js", 405),
        ("OPTIONS", "/api/state", 405),
        ("TRACE", "/api/state", 405),
        ("PUT", "/api/state", 415),
        ("HEAD", "/api/state", 200),
        ("HEAD", "/app.js", 200),
        ("HEAD", f"/api/sessions/{KNOWN}/events", 405),
        ("get", "/api/state", 405),
    ],
)
def test_unknown_paths_and_methods(method: str, path: str, status: int) -> None:
    guarded = Guarded()
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert guarded.status(method, path, {"Host": OWN, **bearer}) == status
    if status != 404 or path.startswith("/api"):
        # without a login, nothing of what there is can be learned
        expected = "login" if "pi" in path and not path.endswith(".js") else status
        if path == "/api/../app.js":
            expected = "login"
        assert guarded.status(method, path, {"Host": OWN}) == expected


def test_an_encoded_path_gets_the_same_guard() -> None:
    """R-128: `/%61pi` is `/api`, and asks for the same."""
    guarded = Guarded()
    assert guarded.status("GET", "/%61pi/state", {"Host": OWN}) == "login"
    assert guarded.status("GET", "/%61pi/state", {"Host": OWN, "Origin": "null", **guarded.both}) == "origin"
    assert guarded.status("GET", "/%2561pi/state", {"Host": OWN}) == 404


def test_a_stale_worker_of_another_program_gets_one_that_removes_itself() -> None:
    """R-128, P-6: at whatever path it was, without a login; but only under a name of this server."""
    guarded = Guarded()
    for path in ("/sw.js", "/api/state", "/", "/deep/er/worker.js"):
        worker = Head(
            method="GET",
            path=path,
            query="",
            keep_alive=True,
            headers={"host": [OWN], "service-worker": ["script"], "sec-fetch-site": ["same-origin"]},
        )
        answer = guarded.service.admit(worker, None).run(b"")
        assert b"registration.unregister()" in answer.body
        assert answer.content_type.startswith("text/javascript")
    assert guarded.status("GET", "/sw.js", {"Host": "evil.example", "Service-Worker": "script"}) == "host"
    assert guarded.status("POST", "/api/state", {"Host": OWN, "Service-Worker": "script"}) == "login"


def test_every_body_has_a_limit() -> None:
    assert set(BODY_LIMITS) == set(Body) - {Body.NONE}
    assert all((route.body is Body.NONE) == (route.method in ("GET", "DELETE")) for route in ROUTES)


def test_every_answer_type_is_a_response() -> None:
    guarded = Guarded()
    for path in FILES:
        head_of = Head(method="GET", path=path, query="", headers={"host": [OWN]}, keep_alive=True)
        assert isinstance(guarded.service.admit(head_of, None).run(b""), Response)


def test_document_names_every_route() -> None:
    """R-163: docs/SERVE.md, its table and its examples with curl."""
    document = (Path(__file__).parents[3] / "docs" / "SERVE.md").read_text()
    for route in ROUTES:
        path = route.path.replace("/api/sessions/{id}", "S")
        shown = path.replace("{aid}", "AID").replace("{tid}", "TID").replace("{uid}", "UID")
        assert f"| `{route.method} {shown}` |" in document
        called = path.replace("{aid}", "a-0123456789ab").replace("{tid}", "1").replace("{uid}", "$file")
        assert re.search(rf'"\$(base)?{re.escape(called)}[?"]', document), route.path
