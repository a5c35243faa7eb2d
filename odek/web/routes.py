"""The routes of `odek serve`, one row each, and what answers them. docs/SERVE.md has them with curl."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from odek.web import fields
from odek.web.errors import Refused
from odek.web.request import Head
from odek.web.response import Response, json_response
from odek.web.streams import STREAM, Subscription

_SMALL_BYTES = 64 << 10
UPLOAD_LIMIT_BYTES = 32 << 20


class Body(Enum):
    """What a request carries."""

    NONE = "nothing"
    SMALL = "a JSON object"
    MESSAGE = "a JSON object with a text"
    FILE = "the bytes of a file"


BODY_LIMITS = {
    Body.SMALL: _SMALL_BYTES,
    Body.MESSAGE: fields.TEXT_LIMIT_BYTES + _SMALL_BYTES,
    Body.FILE: UPLOAD_LIMIT_BYTES,
}
"""how large it may be"""


class Live(Protocol):
    """The sessions that are served. Every method may raise Refused; dicts are ready to become JSON."""

    def state(self) -> dict[str, object]: ...
    def config(self, session_id: str | None) -> dict[str, object]: ...
    def list(self, limit: int, before: str | None, q: str) -> dict[str, object]: ...
    def create(self, text: str, files: Sequence[str], request_id: str) -> dict[str, object]: ...
    def snapshot(self, session_id: str) -> dict[str, object]: ...
    def entries(self, session_id: str, before: int | None, limit: int) -> dict[str, object]: ...
    def start_turn(self, session_id: str, text: str, files: Sequence[str], request_id: str) -> dict[str, object]: ...
    def cancel(self, session_id: str, turn: int) -> bool: ...
    def undo(self, session_id: str) -> dict[str, object]: ...
    def set_model(self, session_id: str, name: str) -> dict[str, object]: ...
    def compact(self, session_id: str, words: str) -> None: ...
    def sandbox(self, session_id: str, action: str) -> object: ...
    def answer(
        self, session_id: str, approval_id: str, answer: str, digest: str, confirm: str | None
    ) -> dict[str, object]: ...
    def cancel_task(self, session_id: str, task_id: str) -> object: ...
    def delete(self, session_id: str) -> object: ...
    def subscribe(self, session_id: str, after: str | None) -> Subscription: ...


class Service(Protocol):
    """What else the routes need of the server."""

    live: Live

    @property
    def is_stopping(self) -> bool: ...
    def log_in(self, token: str, *, secure: bool) -> Response: ...
    def log_out(self, browser: str) -> Response: ...
    def keep_upload(self, name: str, data: bytes, browser: str) -> dict[str, object]: ...
    def drop_upload(self, upload_id: str) -> None: ...
    def find_files(self, beginning: str, limit: int) -> Sequence[Mapping[str, object]]: ...
    def new_request_id(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request, its parts checked."""

    head: Head
    ids: Mapping[str, str]
    """what stands in the path"""
    query: Mapping[str, str]
    fields: Mapping[str, object]
    body: bytes
    browser: str
    """who asks: the id of a login"""

    @property
    def session(self) -> str:
        return fields.check_session_id(self.ids["id"])


Answer = Callable[[Service, Ask], Response]


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method of one path."""

    method: str
    path: str
    """names in braces are one segment"""
    answer: Answer
    body: Body = Body.NONE
    fields: tuple[str, ...] = ()
    """known in the body"""
    query: tuple[str, ...] = ()
    """known in the query"""
    public: bool = False
    """asks for no login"""
    streams: bool = False

    def match(self, segments: Sequence[str]) -> dict[str, str] | None:
        """Return what stands for the names in the path, None when it is another path."""
        parts = self.path[1:].split("/")
        if len(parts) != len(segments):
            return None
        pairs = tuple(zip(parts, segments, strict=True))
        if any(part != segment for part, segment in pairs if not part.startswith("{")):
            return None
        return {part.strip("{}"): segment for part, segment in pairs if part.startswith("{")}


def _health(service: Service, _: Ask) -> Response:
    stopping = service.is_stopping
    return json_response({"ok": not stopping}, status=503 if stopping else 200)


def _login(service: Service, ask: Ask) -> Response:
    secure = ask.head.get("origin").lower().startswith("https:")
    return service.log_in(fields.read_text(ask.fields, "token"), secure=secure)


def _logout(service: Service, ask: Ask) -> Response:
    return service.log_out(ask.browser)


def _state(service: Service, _: Ask) -> Response:
    return json_response(service.live.state())


def _config(service: Service, ask: Ask) -> Response:
    session = ask.query.get("session")
    return json_response(service.live.config(None if session is None else fields.check_session_id(session)))


def _sessions(service: Service, ask: Ask) -> Response:
    limit = fields.read_number(ask.query, "limit", default=50, least=1, most=200)
    return json_response(service.live.list(limit, ask.query.get("before"), ask.query.get("q", "")))


def _create(service: Service, ask: Ask) -> Response:
    return json_response(service.live.create(*_message(service, ask)), status=201)


def _snapshot(service: Service, ask: Ask) -> Response:
    return json_response(service.live.snapshot(ask.session))


def _entries(service: Service, ask: Ask) -> Response:
    before = fields.read_number(ask.query, "before", default=0, least=1, most=10**9 - 1) or None
    limit = fields.read_number(ask.query, "limit", default=100, least=1, most=2000)
    return json_response(service.live.entries(ask.session, before, limit))


def _events(_: Service, __: Ask) -> Response:
    return STREAM


def _turn(service: Service, ask: Ask) -> Response:
    return json_response(service.live.start_turn(ask.session, *_message(service, ask)), status=202)


def _cancel(service: Service, ask: Ask) -> Response:
    turn = fields.read_turn(ask.fields)
    was_running = service.live.cancel(ask.session, turn)
    return json_response({"turn": turn}, status=202 if was_running else 200)


def _undo(service: Service, ask: Ask) -> Response:
    return json_response(service.live.undo(ask.session))


def _model(service: Service, ask: Ask) -> Response:
    return json_response(service.live.set_model(ask.session, fields.read_text(ask.fields, "model")))


def _compact(service: Service, ask: Ask) -> Response:
    service.live.compact(ask.session, fields.read_text(ask.fields, "words", default="", most=4000))
    return json_response({}, status=202)


def _sandbox(service: Service, ask: Ask) -> Response:
    action = fields.read_choice(ask.fields, "action", ("restart", "close"))
    service.live.sandbox(ask.session, action)
    return json_response({"action": action}, status=202)


def _approval(service: Service, ask: Ask) -> Response:
    session, card = ask.session, fields.check_name(ask.ids["aid"], "question")
    confirm = fields.read_text(ask.fields, "confirm", default="") or None
    answer, digest = fields.read_text(ask.fields, "answer", most=64), fields.read_text(ask.fields, "digest", most=128)
    return json_response(service.live.answer(session, card, answer, digest, confirm))


def _cancel_task(service: Service, ask: Ask) -> Response:
    session, task = ask.session, ask.ids["tid"]  # looked up among the tasks at work, and named by the model's server
    service.live.cancel_task(session, task)
    return json_response({"task": task}, status=202)


def _delete(service: Service, ask: Ask) -> Response:
    service.live.delete(ask.session)
    return Response(status=204)


def _upload(service: Service, ask: Ask) -> Response:
    return json_response(service.keep_upload(ask.head.get("x-odek-filename"), ask.body, ask.browser), status=201)


def _drop_upload(service: Service, ask: Ask) -> Response:
    service.drop_upload(fields.check_name(ask.ids["uid"], "upload"))
    return Response(status=204)


def _files(service: Service, ask: Ask) -> Response:
    limit = fields.read_number(ask.query, "limit", default=50, least=1, most=50)
    return json_response({"files": list(service.find_files(ask.query.get("q", ""), limit))})


def _message(service: Service, ask: Ask) -> tuple[str, tuple[str, ...], str]:
    text, files = fields.read_message(ask.fields), fields.read_names(ask.fields, "files")
    # without an id of its own, each request is another message
    return text, files, fields.read_name(ask.fields, "request_id", default=service.new_request_id())


_SESSION = "/api/sessions/{id}"
_MESSAGE = ("text", "files", "request_id")
ROUTES: tuple[Route, ...] = (
    Route(method="GET", path="/api/health", answer=_health, public=True),
    Route(method="POST", path="/api/login", answer=_login, body=Body.SMALL, fields=("token",), public=True),
    Route(method="POST", path="/api/logout", answer=_logout, body=Body.SMALL),
    Route(method="GET", path="/api/state", answer=_state),
    Route(method="GET", path="/api/config", answer=_config, query=("session",)),
    Route(method="GET", path="/api/sessions", answer=_sessions, query=("limit", "before", "q")),
    Route(method="POST", path="/api/sessions", answer=_create, body=Body.MESSAGE, fields=_MESSAGE),
    Route(method="GET", path=_SESSION, answer=_snapshot),
    Route(method="DELETE", path=_SESSION, answer=_delete),
    Route(method="GET", path=f"{_SESSION}/entries", answer=_entries, query=("before", "limit")),
    Route(method="GET", path=f"{_SESSION}/events", answer=_events, query=("after",), streams=True),
    Route(method="POST", path=f"{_SESSION}/turns", answer=_turn, body=Body.MESSAGE, fields=_MESSAGE),
    Route(method="POST", path=f"{_SESSION}/cancel", answer=_cancel, body=Body.SMALL, fields=("turn",)),
    Route(method="POST", path=f"{_SESSION}/undo", answer=_undo, body=Body.SMALL),
    Route(method="POST", path=f"{_SESSION}/model", answer=_model, body=Body.SMALL, fields=("model",)),
    Route(method="POST", path=f"{_SESSION}/compact", answer=_compact, body=Body.SMALL, fields=("words",)),
    Route(method="POST", path=f"{_SESSION}/sandbox", answer=_sandbox, body=Body.SMALL, fields=("action",)),
    Route(
        method="POST",
        path=f"{_SESSION}/approvals/{{aid}}",
        answer=_approval,
        body=Body.SMALL,
        fields=("answer", "digest", "confirm"),
    ),
    Route(method="POST", path=f"{_SESSION}/tasks/{{tid}}/cancel", answer=_cancel_task, body=Body.SMALL),
    Route(method="POST", path="/api/uploads", answer=_upload, body=Body.FILE),
    Route(method="DELETE", path="/api/uploads/{uid}", answer=_drop_upload),
    Route(method="GET", path="/api/files", answer=_files, query=("q", "limit")),
)


def find_routes(segments: Sequence[str]) -> tuple[tuple[Route, dict[str, str]], ...]:
    """Return the routes of a path, one for each method it knows, with what stands for the names in it."""
    return tuple((route, ids) for route in ROUTES if (ids := route.match(segments)) is not None)


def choose_route(segments: Sequence[str], method: str) -> tuple[Route, dict[str, str]]:
    """Return the route of a request. Raises Refused: 404, 405 with the methods that there are."""
    found = find_routes(segments)
    if not found:
        raise fields.not_found("route")
    for route, ids in found:
        if method == route.method or (method == "HEAD" and route.method == "GET" and not route.streams):
            return route, ids
    raise wrong_method([method for route, _ in found for method in _methods(route)])


def wrong_method(allowed: Sequence[str]) -> Refused:
    return Refused(405, "method", "this path has no such method", extra={"allow": list(allowed)})


def _methods(route: Route) -> tuple[str, ...]:
    return ("GET", "HEAD") if route.method == "GET" and not route.streams else (route.method,)
