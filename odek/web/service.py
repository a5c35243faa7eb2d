"""What `odek serve` answers with: the guard, the page's files and the routes, over the live sessions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from odek.text import visible
from odek.web import guard
from odek.web.errors import Refused
from odek.web.fields import parse_object
from odek.web.logins import Logins
from odek.web.request import Head, decode_path, decode_query, decode_text
from odek.web.response import Response, json_response, log_line
from odek.web.routes import BODY_LIMITS, Ask, Body, Live, Route, choose_route, wrong_method
from odek.web.static import FILES, PageFiles, self_removing_worker
from odek.web.streams import Stream, Streams, Subscription, frame, write_stream
from odek.web.wire import Wire

_REFUSALS_KEPT = 1000


class Uploads(Protocol):
    """Files that wait for the message they belong to."""

    def reserve(self, size: int) -> None:
        """Set `size` bytes aside. Raises Refused when there is no room."""

    def release(self, size: int) -> None: ...
    def keep(self, name: str, data: bytes, browser: str) -> dict[str, object]: ...
    def drop(self, upload_id: str) -> None: ...


@dataclass(slots=True, kw_only=True)
class Service:
    """One server's application (server.py) and what its routes work with (routes.py)."""

    names: guard.Names
    cookie_name: str
    logins: Logins
    live: Live
    uploads: Uploads
    find_files: Callable[[str, int], Sequence[Mapping[str, object]]]
    random_hex: Callable[[int], str]
    now: Callable[[], float]
    log: Callable[[str], None]
    """one line for the operator; called in any thread"""
    show_bug: Callable[[Exception], None]
    on_login: Callable[[], None] = lambda: None
    logs_requests: bool = False
    pages: PageFiles = field(default_factory=PageFiles)
    streams: Streams = field(default_factory=Streams)
    is_stopping: bool = False
    _told: dict[tuple[str, str], float] = field(default_factory=dict)
    """when a refusal was logged last, by its code and the client's address"""

    def admit(self, head: Head, length: int | None) -> Call:
        """Decide who may ask, then what is asked for, without a look at the body. Raises Refused."""
        guard.check_host(head, self.names)
        if guard.is_service_worker(head):
            return Call(self_removing_worker)
        segments = decode_path(head.path)
        if segments[0] != "api":
            return self._page_file(head, "/" + "/".join(segments))
        guard.check_origin(head, self.names)
        browser = "" if _is_public(segments) else self.logins.identify(guard.read_credentials(head, self.cookie_name))
        if head.method in ("POST", "PATCH", "PUT"):
            guard.check_content_type(head, guard.RAW if segments == ("api", "uploads") else guard.JSON)
        route, ids = choose_route(segments, head.method)
        query = decode_query(head.query, route.query)
        return self._call(route, Ask(head=head, ids=ids, query=query, fields={}, body=b"", browser=browser), length)

    def refused(self, refused: Refused, peer: str) -> None:
        """Log a refusal of the guard or the framing: its code and the peer, at most once a second for each."""
        if refused.status in (404, 409, 410, 422):  # answers to a page or a program that is logged in
            return
        now, key = self.now(), (refused.code, peer)
        if now - self._told.get(key, now - 1) < 1:
            return
        if len(self._told) >= _REFUSALS_KEPT:
            self._told.clear()
        self._told[key] = now
        self.log(f"refused {peer}: {log_line(refused)}")

    def failed(self, error: Exception) -> None:
        self.show_bug(error)

    def answered(self, head: Head, status: int, peer: str) -> None:
        if self.logs_requests:  # without the query, headers and bodies
            self.log(f"{peer} {visible(head.method)} {visible(head.path)} {status}")

    def log_in(self, token: str, *, secure: bool) -> Response:
        browser = self.logins.log_in(token)
        self.on_login()
        cookie = f"{self.cookie_name}={browser.cookie}; {_cookie_attributes(secure=secure)}"
        return json_response({"key": browser.key, "browser": browser.id}, headers=(("Set-Cookie", cookie),))

    def log_out(self, browser: str) -> Response:
        self.logins.log_out(browser)
        self.streams.close_all_of(browser)
        expired = f"{self.cookie_name}=; {_cookie_attributes(secure=False)}; Max-Age=0"
        return json_response({}, headers=(("Set-Cookie", expired),))

    def keep_upload(self, name: str, data: bytes, browser: str) -> dict[str, object]:
        return self.uploads.keep(decode_text(name), data, browser)

    def drop_upload(self, upload_id: str) -> None:
        self.uploads.drop(upload_id)

    def new_request_id(self) -> str:
        return self.random_hex(16)

    def _page_file(self, head: Head, path: str) -> Call:
        if path not in FILES:
            raise Refused(404, "not_found", "there is no such file")
        if head.method not in ("GET", "HEAD"):
            raise wrong_method(["GET", "HEAD"])
        return Call(lambda: self.pages.answer(path, head))

    def _call(self, route: Route, ask: Ask, length: int | None) -> Call:
        reserved = length or 0
        # what is too large for any place is refused as that, by who reads it
        if route.body is Body.FILE and 0 < reserved <= BODY_LIMITS[Body.FILE]:
            self.uploads.reserve(reserved)
            return RouteCall(self, route, ask, release=lambda: self.uploads.release(reserved))
        return StreamCall(self, route, ask) if route.streams else RouteCall(self, route, ask)


class Call:
    """A request that was let in; without a body, a login or a stream."""

    body_limit_bytes: int | None = None
    is_trusted = False

    def __init__(self, answer: Callable[[], Response]) -> None:
        self._answer = answer

    def run(self, body: bytes) -> Response:
        del body
        return self._answer()

    def stream(self, wire: Wire) -> None:
        raise NotImplementedError

    def close(self) -> None:
        pass


class RouteCall(Call):
    """A request that a route answers."""

    def __init__(self, service: Service, route: Route, ask: Ask, *, release: Callable[[], None] = lambda: None) -> None:
        self._service = service
        self._route = route
        self._ask = ask
        self._release = release
        self.body_limit_bytes = BODY_LIMITS.get(route.body)
        self.is_trusted = not route.public

    def run(self, body: bytes) -> Response:
        known = parse_object(body, self._route.fields) if self._route.body in (Body.SMALL, Body.MESSAGE) else {}
        return self._route.answer(self._service, _with_body(self._ask, known, body))

    def close(self) -> None:
        self._release()


class StreamCall(RouteCall):
    """A request for the events of a session."""

    _place: Stream | None = None
    _subscription: Subscription | None = None

    def run(self, body: bytes) -> Response:
        ask = self._ask
        after = ask.head.get("last-event-id") or ask.query.get("after")
        session = ask.session
        self._place = self._service.streams.open(ask.browser)
        if self._place is not None:
            self._subscription = self._service.live.subscribe(session, after)
        return super().run(body)

    def stream(self, wire: Wire) -> None:
        if self._place is None or self._subscription is None:
            wire.send(frame("crowded", {}))
            return
        self._place.wire = wire
        service, browser = self._service, self._ask.browser
        write_stream(
            wire,
            self._subscription,
            may_go_on=lambda: service.logins.knows(browser),
            is_stopping=lambda: service.is_stopping,
        )

    def close(self) -> None:
        if self._subscription is not None:
            self._subscription.close()
        if self._place is not None:
            self._service.streams.close(self._place)


def _is_public(segments: Sequence[str]) -> bool:
    return tuple(segments) in (("api", "health"), ("api", "login"))


def _with_body(ask: Ask, known: Mapping[str, object], body: bytes) -> Ask:
    return Ask(head=ask.head, ids=ask.ids, query=ask.query, fields=known, body=body, browser=ask.browser)


def _cookie_attributes(*, secure: bool) -> str:
    return "HttpOnly; SameSite=Strict; Path=/" + ("; Secure" if secure else "")
