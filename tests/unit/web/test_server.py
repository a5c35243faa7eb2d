"""A real server on loopback: what it does with connections, bodies and answers, byte by byte."""

from __future__ import annotations

import re
import socket
import threading
import time
from contextlib import ExitStack

import pytest
from fakes.live_sessions import KNOWN, FakeEvent, FakeLive
from support.fuzz_http import fuzz
from support.web_server import TOKEN, Client, RunningServer, request, serving

from odek.errors import OdekError
from odek.packaged import read_packaged
from odek.web.connections import Connections
from odek.web.errors import Refused
from odek.web.logins import MOST_BROWSERS
from odek.web.server import Server
from odek.web.streams import HEARTBEAT_S
from odek.web.wire import Gone, Wire

BEARER = ("Authorization", f"Bearer {TOKEN}")
SECURE = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


def typed(server: RunningServer, *extra: tuple[str, str]) -> dict[str, str]:
    return dict((("Host", server.host), BEARER, ("Content-Type", "application/json"), *extra))


def test_every_answer_has_its_headers_and_no_version() -> None:
    """R-127: also refusals; no header for other origins, ever."""
    with serving() as server:
        answers = [
            server.ask("GET", "/api/health"),
            server.ask("GET", "/api/state"),
            server.ask("GET", "/api/nothing"),
            server.ask("GET", "/api/state", headers=(("Origin", "http://evil.example"),)),
            server.ask("POST", "/api/sessions", body={}),
        ]
    assert [answer.status for answer in answers] == [200, 200, 404, 403, 422]
    for answer in answers:
        assert SECURE.items() <= answer.headers.items()
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["content-type"] == "application/json; charset=utf-8"
        assert "server" not in answer.headers
        assert not [name for name in answer.headers if name.startswith("access-control")]
        assert int(answer.headers["content-length"]) == len(answer.body)
    assert answers[3].code == "origin"


def test_connection_serves_one_request_after_the_other() -> None:
    """R-126: keep-alive, also where the next request came with the first; HEAD and 204 have no body."""
    with serving() as server, server.connect() as client:
        get = request("GET", "/api/health", {"Host": server.host})
        client.send(get * 2 + request("HEAD", "/api/health", {"Host": server.host}))
        assert [client.read().status, client.read().status, client.read(to_head=True).status] == [200, 200, 200]
        client.send(request("DELETE", f"/api/sessions/{KNOWN}", dict((("Host", server.host), BEARER))))
        assert client.read().status == 204
        client.send(request("GET", "/api/health", {"Host": server.host, "Connection": "close"}))
        assert client.read().headers["connection"] == "close"
        assert client.is_closed()


@pytest.mark.parametrize(
    ("method", "path", "extra", "body", "status"),
    [
        ("POST", "/api/sessions", {"Transfer-Encoding": "chunked"}, b'5\r\n{"a":\r\n0\r\n\r\n', 501),
        ("POST", "/api/sessions", {}, b"", 411),
        ("POST", "/api/sessions", {"Content-Length": "+5"}, b"{    }", 400),
        ("POST", "/api/sessions", {"Content-Length": "5", "content-length": "6"}, b"{    }", 400),
        ("POST", "/api/sessions", {"Content-Length": str(1 << 21)}, b"x" * (1 << 21), 413),
        ("POST", f"/api/sessions/{KNOWN}/undo", {"Content-Length": str((64 << 10) + 1)}, b"", 413),
        ("GET", "/api/state", {"Content-Length": "40"}, b"GET /api/state HTTP/1.1\r\nHost: evil\r\n\r\n", 200),
        ("POST", "/api/sessions", {"Content-Length": "2", "Content-Type": "text/plain"}, b"{}", 415),
        ("POST", "/api/sessions", {"Content-Length": "2", "Expect": "a-miracle"}, b"{}", 417),
        ("POST", "/api/sessions", {"Content-Length": "2", "Origin": "null"}, b"{}", 403),
    ],
)
def test_after_a_body_that_was_not_read_the_connection_closes(
    method: str, path: str, extra: dict[str, str], body: bytes, status: int
) -> None:
    """R-126, P-11: what follows is never taken for a request; the answer arrives all the same."""
    with serving() as server, server.connect() as client:
        headers = {**typed(server), **extra}
        client.send(request(method, path, headers, body))
        answer = client.read()
        assert (answer.status, answer.headers.get("connection")) == (status, "close")
        assert client.is_closed()
        assert server.live.calls == []
        assert server.ask("GET", "/api/health").status == 200


def test_refusal_without_a_body_keeps_the_connection() -> None:
    with serving() as server, server.connect() as client:
        for path, status in (("/api/state", 401), ("/nothing", 404), ("/api/health", 200)):
            client.send(request("GET", path, {"Host": server.host}))
            assert client.read().status == status


def test_client_that_waits_is_asked_for_its_body_only_when_it_is_let_in() -> None:
    """R-126: curl waits so before it sends a large file."""
    with serving() as server, server.connect() as client:
        body = b'{"text": "hello"}'
        waits = typed(server, ("Content-Length", str(len(body))), ("Expect", "100-continue"))
        client.send(request("POST", "/api/sessions", waits))
        assert client.read_until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.send(body)
        assert client.read().status == 201
        client.send(request("POST", "/api/sessions", {**waits, "Origin": "null"}))
        assert client.read().status == 403


def test_body_of_any_kind_gets_its_status_and_changes_nothing() -> None:
    """R-132: bad input is refused as the table says."""
    bodies: list[tuple[bytes, int]] = [
        (b"", 422), (b"{", 400), (b"[]", 422), (b"null", 422), (b'"x"', 422), (b"{}", 422), (b"\xff", 400),
        (b'{"text": ""}', 422), (b'{"text": "  "}', 422), (b'{"text": 1}', 422), (b'{"text": "a\\u0000"}', 422),
        (b'{"text": "\\ud800"}', 422), (b'{"text": "a", "text": "b"}', 400), (b'{"text": "a", "x": 1}', 422),
        (b'{"text": "a", "files": "u"}', 422), (b'{"text": "a", "files": ["../x"]}', 422),
        (b'{"text": "a", "files": [1]}', 422), (b'{"text": "a", "request_id": ""}', 422),
        (b'{"text": "a", "request_id": "a b"}', 422), (b'{"text": NaN}', 400), (b"[" * 60_000, 400),
        (b'{"text": "' + b"a" * ((1 << 20) + 1) + b'"}', 413), (b'{"text": null}', 422),
    ]  # fmt: skip
    with serving() as server:
        for body, status in bodies:
            assert server.ask("POST", "/api/sessions", body=body).status == status, body[:40]
        assert (server.live.calls, server.bugs) == ([], [])
        assert server.ask("POST", "/api/sessions", body={"text": "a" * (1 << 20)}).status == 201
        assert server.ask("POST", "/api/sessions", body={"files": ["u1"], "request_id": "r-1"}).status == 201
    assert server.live.calls[1] == ("create", "", ("u1",), "r-1")


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/api/sessions?limit=٣", None, 400),
        ("GET", "/api/sessions?limit=%D9%A3", None, 422),
        ("GET", "/api/sessions?limit=-1", None, 422),
        ("GET", "/api/sessions?limit=0", None, 422),
        ("GET", "/api/sessions?limit=1e3", None, 422),
        ("GET", "/api/sessions?limit=201", None, 422),
        ("GET", "/api/sessions?x=1", None, 422),
        ("GET", "/api/sessions?limit=1&before=a%20b&q=%22", None, 200),
        ("GET", "/api/sessions/..%2f..%2fetc", None, 404),
        ("GET", "/api/sessions/%2e%2e", None, 404),
        ("GET", "/api/sessions/.hidden", None, 404),
        ("GET", "/api/sessions/a%0ab", None, 404),
        ("GET", "/api/sessions/index", None, 404),
        ("GET", "/api/sessions/" + "a" * 300, None, 404),
        ("GET", "/api/sessions/", None, 404),
        ("GET", "/api/config?session=../x", None, 404),
        ("POST", f"/api/sessions/{KNOWN}/cancel", {"turn": True}, 422),
        ("POST", f"/api/sessions/{KNOWN}/cancel", {"turn": "1"}, 422),
        ("POST", f"/api/sessions/{KNOWN}/cancel", {"turn": 0}, 422),
        ("POST", f"/api/sessions/{KNOWN}/sandbox", {"action": "explode"}, 422),
        ("POST", f"/api/sessions/{KNOWN}/sandbox", {"action": ["close"]}, 422),
        ("POST", f"/api/sessions/{KNOWN}/model", {}, 422),
        ("POST", f"/api/sessions/{KNOWN}/approvals/a%2Fb", {"answer": "once", "digest": "d"}, 404),
        ("POST", f"/api/sessions/{KNOWN}/approvals/a", {"answer": "once"}, 422),
        ("POST", f"/api/sessions/{KNOWN}/approvals/a", {"answer": "once", "digest": "d", "confirm": 1}, 422),
        ("DELETE", "/api/sessions/a%2Fb", None, 404),
        ("DELETE", "/api/uploads/..", None, 404),
    ],
)
def test_ids_and_numbers_are_checked_before_anything_is_asked(
    method: str, path: str, body: object, status: int
) -> None:
    """R-127: neither the path nor what was sent comes back."""
    with serving() as server:
        # sent as UTF-8, as a careless client would
        answer = server.ask(method, path.encode().decode("latin-1"), body=body)
        assert (answer.status, server.live.calls, server.bugs) == (status, [], [])
        assert b"etc" not in answer.body
        assert b"explode" not in answer.body


def test_routes_hand_over_what_was_asked() -> None:
    with serving() as server:
        session = f"/api/sessions/{KNOWN}"
        asked: list[tuple[str, str, object, int]] = [
            ("POST", f"{session}/turns", {"text": "hi", "request_id": "r"}, 202),
            ("POST", f"{session}/cancel", {"turn": 2}, 202),
            ("POST", f"{session}/undo", {}, 200),
            ("POST", f"{session}/compact", {"words": "the tests"}, 202),
            ("POST", f"{session}/model", {"model": "m"}, 200),
            ("POST", f"{session}/sandbox", {"action": "close"}, 202),
            ("POST", f"{session}/approvals/a-1", {"answer": "once", "digest": "d"}, 200),
            ("POST", f"{session}/approvals/a-1", {"answer": "once", "digest": "d", "confirm": "approve"}, 200),
            ("POST", f"{session}/tasks/2/cancel", {}, 202),
            ("DELETE", session, None, 204),
        ]
        for method, path, body, status in asked:
            assert server.ask(method, path, body=body).status == status
        server.live.turn_is_running = False
        assert server.ask("POST", f"{session}/cancel", body={"turn": 2}).status == 200
        assert server.ask("GET", f"{session}/entries?before=5&limit=7").json["asked"] == [5, 7]
        assert server.ask("GET", "/api/sessions?limit=3&before=b&q=x%20y").json["asked"] == [3, "b", "x y"]
        assert server.ask("GET", "/api/files?q=src/&limit=9").json == {
            "files": [{"path": "src/", "folder": False, "size": 9}]
        }
    assert server.live.calls == [
        ("turn", "hi", (), "r"), ("cancel", 2), ("undo",), ("compact", "the tests"), ("model", "m"),
        ("sandbox", "close"),
        ("answer", "a-1", "once", "d", None), ("answer", "a-1", "once", "d", "approve"), ("cancel_task", "2"),
        ("delete", KNOWN), ("cancel", 2),
    ]  # fmt: skip


def test_methods_that_a_path_has_are_named() -> None:
    with serving() as server:
        answer = server.ask("PATCH", f"/api/sessions/{KNOWN}", body={})
        assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD, DELETE")
        assert server.ask("OPTIONS", "/").headers["allow"] == "GET, HEAD"


def test_refusal_shows_its_words_and_its_facts() -> None:
    """R-127: control characters of foreign names are escaped."""
    with serving() as server:
        server.live.raises = Refused(409, "changed", "network \x1b[31m\u202ex", "restart", extra={"pid": 7})
        answer = server.ask("POST", "/api/sessions", body={"text": "x"})
        assert (answer.status, answer.json) == (
            409,
            {"error": {"code": "changed", "message": "network \\x1b[31m\\u202ex", "hint": "restart", "pid": 7}},
        )


def test_a_bug_is_one_answer_and_the_server_lives() -> None:
    """R-127: no traceback, no words of the exception."""
    with serving() as server:
        server.live.raises = ValueError("a secret")
        answer = server.ask("GET", "/api/state")
        assert (answer.status, answer.code, b"secret" in answer.body) == (500, "bug", False)
        assert [type(bug) for bug in server.bugs] == [ValueError]
        assert server.ask("GET", "/api/state").status == 200


def test_login_gives_two_halves() -> None:
    """R-128: the cookie is out of reach of scripts and of other sites; secure where the page came by TLS."""
    with serving(hosts=("odek.example",)) as server:
        plain = server.ask("POST", "/api/login", body={"token": TOKEN}, headers=(("Origin", f"http://{server.host}"),))
        key, browser = plain.json["key"], plain.json["browser"]
        cookie, *attributes = plain.headers["set-cookie"].split("; ")
        assert (len(str(key)), len(str(browser)), attributes) == (64, 16, ["HttpOnly", "SameSite=Strict", "Path=/"])
        assert cookie.startswith(f"odek_{server.port}=")
        with server.connect() as client:
            halves = {"Host": server.host, "Cookie": cookie, "X-Odek-Key": str(key)}
            client.send(request("GET", "/api/state", halves))
            assert client.read().status == 200
            client.send(
                request("POST", "/api/logout", {**halves, "Content-Type": "application/json", "Content-Length": "0"})
            )
            answer = client.read()
            assert (answer.status, answer.headers["set-cookie"].split("; ")[-1]) == (200, "Max-Age=0")
            client.send(request("GET", "/api/state", halves))
            assert client.read().status == 401
        headers = {"Host": "odek.example", "Origin": "https://odek.example", "Content-Type": "application/json"}
        body = b'{"token": "%s"}' % TOKEN.encode()
        with server.connect() as client:
            client.send(request("POST", "/api/login", {**headers, "Content-Length": str(len(body))}, body))
            assert client.read().headers["set-cookie"].endswith("; Secure")


def test_page_files_are_tagged_and_locked_down() -> None:
    """R-127, R-150."""
    with serving() as server:
        server.service.pages = type(server.service.pages)(lambda name: f"<!-- {name} -->".encode())
        first = server.ask("GET", "/")
        assert (first.status, first.body) == (200, b"<!-- page/index.html -->")
        assert first.headers["cache-control"] == "no-cache"
        assert first.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
        tag = first.headers["etag"]
        assert server.ask("GET", "/", headers=(("If-None-Match", f'"x", {tag}'),)).status == 304
        assert server.ask("GET", "/app.js", headers=(("If-None-Match", tag),)).status == 200
        with server.connect() as client:
            client.send(request("GET", "/style.css", {"Host": server.host, "Sec-Fetch-Site": "cross-site"}))
            assert client.read().status == 200


def stream(server: RunningServer, client: Client, *extra: tuple[str, str], query: str = "") -> None:
    client.send(request("GET", f"/api/sessions/{KNOWN}/events{query}", dict((("Host", server.host), BEARER, *extra))))


def test_stream_is_written_as_it_comes() -> None:
    """R-130: retry first, then ids, kinds and one line of data each; the last id of the client counts."""
    with serving() as server, server.connect() as client:
        stream(server, client, ("Last-Event-ID", "5f0c11aa.9"), query="?after=5f0c11aa.1")
        head = client.read_until(b"\r\n\r\n").lower()
        assert b"content-type: text/event-stream" in head
        assert b"x-accel-buffering: no" in head
        assert b"content-length" not in head
        assert client.read_until(b"\n\n") == b"retry: 1000\n\n"
        assert client.read_until(b"\n\n") == b'event: hello\ndata: {"after":"5f0c11aa.9"}\n\n'
        (subscription,) = server.live.subscriptions
        subscription.events.put([FakeEvent("5f0c11aa.10", "text", {"text": "a\nb\u2028\ud800"})])
        text = b'{"text":"a\\nb\\u2028\\ud800"}'
        assert client.read_until(b"\n\n") == b"id: 5f0c11aa.10\nevent: text\ndata: " + text + b"\n\n"
        server.service.is_stopping = True
        subscription.events.put(None)
        assert client.read_until(b"\n\n") == b"event: bye\ndata: {}\n\n"
        assert client.is_closed()
        assert wait_until(lambda: subscription.closed)


def test_silence_is_broken_by_a_comment() -> None:
    """R-130, P-9: well before the page gives up."""
    found = re.search(r"SILENCE_MS = ([0-9_]+);", read_packaged("odek.web", "page/app.js").decode())
    assert found is not None
    assert int(found[1]) / 1000 > HEARTBEAT_S * 2
    with serving() as server, server.connect() as client:
        stream(server, client)
        client.read_until(b"hello")
        client.read_until(b"\n\n")
        server.live.subscriptions[0].events.put([])  # what a subscription gives after the time
        assert client.read_until(b"\n\n") == b":\n\n"


def test_requests_are_logged_on_demand_and_without_what_is_private() -> None:
    """R-148: no query, header or body."""
    with serving() as server:
        server.ask("GET", "/api/files?q=secret")
        assert server.log == []
        server.service.logs_requests = True
        server.ask("GET", "/api/files?q=secret")
        server.ask("GET", f"/api/state?token={TOKEN}")
        assert wait_until(lambda: server.log == ["127.0.0.1 GET /api/files 200", "127.0.0.1 GET /api/state 422"]), (
            server.log
        )


def wait_until(condition: object) -> bool:
    deadline = time.monotonic() + 20
    while not condition():  # type: ignore[operator]
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_fifth_stream_is_crowded_and_a_dead_one_makes_room() -> None:
    """R-130, P-7: a tab that was reloaded does not count until the next heartbeat."""
    with serving() as server, ExitStack() as stack:
        clients = [stack.enter_context(server.connect()) for _ in range(4)]
        for client in clients:
            stream(server, client)
            client.read_until(b"hello")
        fifth = stack.enter_context(server.connect())
        stream(server, fifth)
        fifth.read_until(b"\r\n\r\n")
        assert fifth.read_until(b"\n\n") == b"event: crowded\ndata: {}\n\n"
        assert fifth.is_closed()
        clients[0].socket.close()

        def gets_in() -> bool:
            client = stack.enter_context(server.connect())
            stream(server, client)
            client.read_until(b"\r\n\r\n")
            return b"crowded" not in client.read_until(b"\n\n")

        assert wait_until(gets_in)


def test_sixty_fifth_stream_is_refused() -> None:
    """R-130: of all browsers together."""
    with serving() as server:
        places = [server.service.streams.open(str(number // 4)) for number in range(64)]
        assert None not in places
        answer = server.ask("GET", f"/api/sessions/{KNOWN}/events")
        assert (answer.status, answer.code) == (503, "streams")


def test_log_out_ends_the_streams() -> None:
    with serving() as server, server.connect() as client:
        stream(server, client)
        client.read_until(b"hello")
        client.read_until(b"\n\n")
        server.service.streams.close_all_of("token")
        assert client.is_closed()


def test_stream_of_a_login_that_was_forgotten_gets_nothing_more() -> None:
    """R-128: the oldest of too many is forgotten, with all that it has open."""
    with serving() as server, server.connect() as client:
        browser = server.service.logins.log_in(TOKEN)
        halves = {"Host": server.host, "Cookie": f"odek_{server.port}={browser.cookie}", "X-Odek-Key": browser.key}
        client.send(request("GET", f"/api/sessions/{KNOWN}/events", halves))
        client.read_until(b"hello")
        client.read_until(b"\n\n")
        for _ in range(MOST_BROWSERS):
            server.service.logins.log_in(TOKEN)
        server.live.subscriptions[0].events.put([FakeEvent("1.1", "text", {"text": "secret"})])
        assert client.is_closed()
        assert wait_until(lambda: server.live.subscriptions[0].closed)


def test_upload_is_set_aside_before_it_is_read() -> None:
    """R-143: so many uploads at once never hold more memory than may wait."""
    with serving(room=100) as server, server.connect() as first, server.connect() as second:
        headers = {**typed(server), "Content-Type": "application/octet-stream", "X-Odek-Filename": "a%20b.txt"}
        first.send(request("POST", "/api/uploads", {**headers, "Content-Length": "60"}, b"x" * 59))
        assert wait_until(lambda: server.uploads.reserved == 60)
        second.send(request("POST", "/api/uploads", {**headers, "Content-Length": "60"}, b"x" * 60))
        assert second.read().status == 507
        first.send(b"x")
        assert (first.read().status, server.uploads.kept) == (201, [("a b.txt", b"x" * 60)])
        assert wait_until(lambda: server.uploads.reserved == 0)
    with serving() as server, server.connect() as client:
        large = {**headers, "Host": server.host, "Content-Length": str((32 << 20) + 1)}
        client.send(request("POST", "/api/uploads", large))
        assert client.read().status == 413
        assert wait_until(lambda: server.uploads.reserved == 0)


def test_requests_of_one_browser_are_limited() -> None:
    """R-128: 100 at once, 50 a second; another browser is served meanwhile."""
    with serving() as server, server.connect() as client:
        login = server.ask("POST", "/api/login", body={"token": TOKEN})
        client.send(request("GET", "/api/state", dict((("Host", server.host), BEARER))) * 300)
        statuses = [client.read().status for _ in range(300)]
        assert statuses.count(200) >= 100
        assert 429 in statuses
        halves = {"Host": server.host, "Cookie": login.headers["set-cookie"], "X-Odek-Key": str(login.json["key"])}
        client.send(request("GET", "/api/state", halves))
        assert client.read().status == 200


def test_refusals_are_logged_once_a_second_without_what_was_sent() -> None:
    """R-148."""
    with serving() as server:
        for _ in range(5):
            server.ask(
                "GET", "/api/state", headers=(("Authorization", "Bearer sesame"), ("Origin", "http://evil.example"))
            )
        assert wait_until(lambda: server.log == ["refused 127.0.0.1: 403 origin"])
        server.ask("GET", "/api/nothing")
        assert len(server.log) == 1


def test_there_is_no_thread_for_the_connection_after_the_last() -> None:
    """R-126, P-10: it is answered 503 by the thread that accepts, and those that are open go on."""
    with serving() as server, ExitStack() as stack:
        clients = [stack.enter_context(server.connect()) for _ in range(128)]
        clients[127].send(request("GET", "/api/health", {"Host": server.host}))
        assert clients[127].read().status == 200
        threads = threading.active_count()
        for _ in range(20):
            last = stack.enter_context(server.connect())
            assert last.read().status == 503
            assert last.is_closed()
        assert threading.active_count() <= threads
        assert wait_until(lambda: server.log == ["refused 127.0.0.1: 503 connections"])
        clients[0].send(request("GET", "/api/health", {"Host": server.host}))
        assert clients[0].read().status == 200


def test_who_waits_longest_makes_room_for_a_good_request() -> None:
    """R-126: idle connections do not make the server unreachable until they are closed."""
    with serving(patience_s=0.0) as server, ExitStack() as stack:
        clients = [stack.enter_context(server.connect()) for _ in range(128)]
        clients[0].send(b"GET / HTTP/1.1\r\nHo")
        assert server.ask("GET", "/api/health").status == 200
        assert sum(client.is_closed() for client in clients[:1]) == 1


def test_only_who_waits_makes_room() -> None:
    now = [0.0]
    connections = Connections(now=lambda: now[0], most=2)
    with ExitStack() as stack:
        a, b, c = (stack.enter_context(socket.socket()) for _ in range(3))
        assert connections.admit(a)
        assert connections.admit(b)
        assert not connections.admit(c)
        now[0] = 1.0
        connections.mark(a, waiting=False)
        connections.mark(b, waiting=True)
        assert not connections.admit(c)
        now[0] = 2.0
        assert connections.admit(c)
        connections.mark(b, waiting=True)  # its thread, which ends
        connections.forget(b)
        connections.forget(a)
        assert connections.admit(b)
        assert not connections.admit(a)


def pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair()


def test_slow_request_ends_and_an_idle_connection_closes() -> None:
    """R-126, P-11: a byte now and then does not keep a thread."""
    near, far = pair()
    with near, far:
        far.sendall(b"GET / HTTP/1.1\r\nHos")
        with pytest.raises(Refused) as caught:
            Wire(near, request_s=0.05).read_head()
        assert caught.value.status == 408
        wire = Wire(near, request_s=0.05)
        far.sendall(b"GET / HTTP/1.1\r\n\r\n12")
        wire.read_head()
        with pytest.raises(Refused) as caught:
            wire.read_body(3)
        assert caught.value.status == 408
        with pytest.raises(Gone):
            Wire(near, idle_s=0.05).read_head()


def test_client_that_has_gone_is_seen() -> None:
    near, far = pair()
    with near:
        wire = Wire(near)
        assert not wire.is_gone()
        far.sendall(b"x")
        assert not wire.is_gone()
        assert near.recv(1) == b"x"
        far.close()
        assert wire.is_gone()
        with pytest.raises(Gone):
            wire.send(b"x" * 1_000_000)


def test_requests_that_are_almost_right_find_no_bug() -> None:
    """R-126, R-127: each gets a status of the table; `python3 -m support.fuzz_http` sends more."""
    with serving() as server:
        found = fuzz(server, 400, seed=7)
        assert server.bugs == []
        known = {
            *("200", "201", "202", "204", "304", "400", "401", "403", "404", "405", "408", "411", "413", "415"),
            "",
        }
        assert found.keys() <= known | {"417", "422", "429", "431", "501", "505", "507"}
        assert found["200"] > 20
        assert server.ask("GET", "/api/health").status == 200


def test_a_port_that_is_taken_is_named() -> None:
    """R-147."""
    first = Server("127.0.0.1", 0)
    with pytest.raises(OdekError, match=f"127.0.0.1:{first.port} is in use") as caught:
        Server("127.0.0.1", first.port)
    assert caught.value.hint == "--addr 127.0.0.1:0 takes a free port"
    first.stop()
    again = Server("127.0.0.1", first.port)
    assert again.port == first.port
    again.stop()
    with pytest.raises(OdekError, match=r"203\.0\.113\.1:0 cannot be listened on"):
        Server("203.0.113.1", 0)


def test_ipv6_is_listened_on() -> None:
    """R-122."""
    server = Server("::1", 0)
    with socket.create_connection(("::1", server.port), timeout=10):
        pass
    server.stop()


def test_fake_is_a_live() -> None:
    assert FakeLive().create("a", (), "r") == {"id": KNOWN, "turn": 1}
