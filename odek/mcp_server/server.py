"""The conversation with a client: which request is answered how, in both eras of the protocol (R-173, R-174).

Imports next to nothing: `initialize` is answered within milliseconds of the start. What a tool does is behind the
`Service`, which imports and prepares what it needs in its own threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Condition, Lock
from typing import Any, Protocol

from odek.cancel import POLL_S, current_token
from odek.errors import OdekError
from odek.mcp.messages import (
    BATCHES,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LEGACY,
    METHOD_NOT_FOUND,
    MODERN,
    SERVER_KEY,
    SUBSCRIPTION_KEY,
    Id,
    Json,
    Notification,
    Request,
    Response,
    RpcError,
    decode,
    encode,
    failure,
    id_of,
    message_of,
    modern_capabilities,
    notification,
    request,
    result,
)
from odek.mcp_server.calls import Call, Calls, Reply, key_of
from odek.text import truncate, visible

FORMS_SINCE = LEGACY[: LEGACY.index("2025-06-18") + 1]
"""the legacy versions in which a server can ask for a form"""
_CACHED_MS = 3_600_000
_LIST_CACHED_MS = 10_000  # the environment in it may change; who listens hears of that at once
_MOST_LISTENERS = 32
_MOST_IN_BATCH = 1000
_TITLE_LENGTH = 120
_CHANGED = "notifications/tools/list_changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """What a client wants of a tool."""

    name: str
    arguments: Mapping[str, Any]
    forms: bool
    """whether its user can be asked by a form"""
    modern: bool
    state: str
    """the `requestState` that comes back with answers; "" where there is none"""
    answers: Mapping[str, Any]
    """the answers to what was asked before, by the names of the questions"""

    @property
    def title(self) -> str:
        """one safe line for people"""
        subject = next(
            (self.arguments[key] for key in ("command", "path", "pattern", "goal") if key in self.arguments), ""
        )
        first = subject.strip().partition("\n")[0] if isinstance(subject, str) else ""
        return visible(truncate(f"{self.name}: {first}" if first else self.name, _TITLE_LENGTH))


AskClient = Callable[[str, Mapping[str, Any], float], Response | None]
"""(method, parameters, seconds) → the client's answer, None when it gave none in time; see Server.ask"""


class Service(Protocol):
    """What the tools are and do; may be used by several threads."""

    instructions: str

    def tools(self) -> Sequence[Json]:
        """Return the tools as `tools/list` shows them; may wait for half a second."""
        ...

    def call(self, call: ToolCall) -> Json:
        """Carry a call out and return its result. Raises RpcError."""
        ...


class Server:
    """Takes the lines of one client, one after the other, in one thread."""

    def __init__(
        self,
        service: Service,
        *,
        version: str,
        write: Callable[[bytes], None],
        log: Callable[[str], None],
        debug: Callable[[str], None],
        calls: Calls | None = None,
    ) -> None:
        """`log` shows a sentence to the operator, `debug` one that is wanted with ODEK_DEBUG only."""
        self._service = service
        self._info = {"name": "odek", "title": "odek", "version": version}
        self._write = write
        self._log = log
        self._debug = debug
        self._calls = calls or Calls(send=self.send, report_bug=self._report_bug)
        self._lists = Calls(send=self.send, report_bug=self._report_bug, workers=1)
        """requests that take a moment and must not wait for calls"""
        self._version = ""
        """the legacy version that `initialize` settled"""
        self._forms = False
        """whether the client of that version can show forms"""
        self._listeners: dict[tuple[bool, Id], _Listener] = {}
        self._lock = Lock()
        """guards the table of listeners"""
        self._questions: dict[str, Response | None] = {}
        """what the client was asked, by id; None as long as there is no answer"""
        self._asked = 0
        self._answered = Condition()
        """guards the two above"""

    def take(self, line: bytes | None) -> None:
        """Take one line; None: it was too long to be kept."""
        if line is None:
            self.send(failure(None, RpcError(INVALID_REQUEST, "the line is longer than 16 MiB")))
            return
        if not line.strip():
            return
        try:
            value = decode(line)
        except RpcError as error:
            self.send(failure(None, error))
            return
        if isinstance(value, list) and value and self._version == BATCHES:
            if len(value) > _MOST_IN_BATCH:
                self.send(failure(None, RpcError(INVALID_REQUEST, f"a batch has at most {_MOST_IN_BATCH} messages")))
                return
            self._take_batch(value)
        else:
            self._take_one(value, self._reply)

    def send(self, message: Json) -> None:
        """Send one message; in any thread."""
        self._write(encode(message))

    def notify_tools_changed(self) -> None:
        """Let the client know that the list of tools is another one; in any thread."""
        if self._version:
            self.send(notification(_CHANGED))
        with self._lock:
            listeners = tuple(self._listeners.values())
        for listener in listeners:
            if listener.wants_tools:
                self.send(notification(_CHANGED, {"_meta": {SUBSCRIPTION_KEY: listener.id}}))

    def ask(self, method: str, params: Mapping[str, Any], timeout_s: float) -> Response | None:
        """Send a request to the client of the legacy era and return its answer; None: it gave none in time.

        A cancel of this thread's token is raised meanwhile.
        """
        deadline = time.monotonic() + timeout_s
        with self._answered:
            self._asked += 1
            name = f"odek-{self._asked}"
            self._questions[name] = None
        self.send(request(name, method, params))
        with self._calls.suspended(), self._answered:
            try:
                while self._questions[name] is None and time.monotonic() < deadline:
                    self._answered.wait(POLL_S)
                    current_token().raise_if_cancelled()
            finally:
                answer = self._questions.pop(name)
        if answer is None:
            self.send(notification("notifications/cancelled", {"requestId": name, "reason": "no answer in time"}))
        return answer

    def finish_lists(self, patience_s: float) -> None:
        """Wait until what needs no sandbox is answered: the client has sent its last line."""
        self._lists.drain(patience_s)

    def close(self, patience_s: float) -> None:
        """Cancel all calls and wait until they have stopped, `patience_s` at most."""
        with self._lock:
            listeners = tuple(self._listeners.values())
            self._listeners.clear()
        for listener in listeners:
            meta = {SERVER_KEY: self._info, SUBSCRIPTION_KEY: listener.id}
            self.send(result(listener.id, {"resultType": "complete", "_meta": meta}))
        self._calls.close(patience_s)

    # --- what comes in

    def _take_batch(self, values: list[object]) -> None:
        batch = _Batch(len(values), lambda answers: self._write(encode(answers)))
        for value in values:
            if self._take_one(value, batch.reply):
                batch.reply(None)

    def _reply(self, answer: Json | None) -> None:
        if answer is not None:
            self.send(answer)

    def _take_one(self, value: object, reply: Reply) -> bool:
        """Answer one message, now or later; return True where there is none to come."""
        try:
            message = message_of(value)
        except RpcError as error:
            reply(failure(id_of(value) if self._is_free_request(value) else None, error))
            return False
        if isinstance(message, Request):
            self._debug(f"request {message.method!a} {message.id!a}")
            try:
                answer = self._dispatch(message, reply)
            except RpcError as error:
                answer = failure(message.id, error)
            if answer is not None:
                reply(answer)
            return False
        if isinstance(message, Notification):
            self._debug(f"notification {message.method!a}")
            if message.method == "notifications/cancelled":
                self._cancel(message.params.get("requestId"))
        else:
            self._take_answer(message)
        return True

    def _is_free_request(self, value: object) -> bool:
        """Whether an error about `value` can be taken for the answer to nothing else."""
        found = id_of(value)
        return isinstance(value, dict) and "method" in value and found is not None and not self._in_use(found)

    def _take_answer(self, message: Response) -> None:
        with self._answered:
            if isinstance(message.id, str) and self._questions.get(message.id, message) is None:  # the first counts
                self._questions[message.id] = message
                self._answered.notify_all()

    def _cancel(self, id: object) -> None:  # noqa: A002 - the protocol's word
        if not isinstance(id, (int, str)) or isinstance(id, bool):
            return
        with self._lock:
            self._listeners.pop(key_of(id), None)
        self._calls.cancel(id)
        self._lists.cancel(id)

    def _in_use(self, id: Id) -> bool:  # noqa: A002 - the protocol's word
        with self._lock:
            listens = key_of(id) in self._listeners
        return listens or id in self._calls or id in self._lists

    # --- requests

    def _dispatch(self, asked: Request, reply: Reply) -> Json | None:
        """Return the answer; None: it comes later, by `reply`. Raises RpcError."""
        if self._in_use(asked.id):
            return failure(None, RpcError(INVALID_REQUEST, "the id is in use"))
        if asked.method == "initialize":
            return result(asked.id, self._initialize(asked))
        capabilities = modern_capabilities(asked)
        if capabilities is not None:
            return self._dispatch_modern(asked, capabilities, reply)
        if asked.method == "ping":
            return result(asked.id, {})
        if not self._version:
            raise RpcError(
                INVALID_PARAMS, f"send initialize first, or the version {MODERN} in the _meta of each request"
            )
        return self._dispatch_tools(asked, reply, modern=False, forms=self._forms)

    def _dispatch_modern(self, asked: Request, capabilities: Mapping[str, Any], reply: Reply) -> Json | None:
        if asked.method == "server/discover":
            return result(asked.id, self._complete(self._discovery()))
        if asked.method == "subscriptions/listen":
            self._listen(asked)
            reply(None)
            return None
        return self._dispatch_tools(asked, reply, modern=True, forms=has_forms(capabilities))

    def _dispatch_tools(self, asked: Request, reply: Reply, *, modern: bool, forms: bool) -> Json | None:
        if asked.method == "tools/list":
            call = Call(request=asked, title="tools/list", work=partial(self._list, modern=modern), reply=reply)
            if not self._lists.begin(call):
                raise RpcError(INTERNAL_ERROR, "too many requests")
        elif asked.method == "tools/call":
            wanted = tool_call(asked.params, modern=modern, forms=forms)
            call = Call(request=asked, title=wanted.title, work=partial(self._call, wanted), reply=reply)
            if not self._calls.begin(call):
                busy = tool_error("too many calls; try again when some have ended")
                return result(asked.id, self._marked(busy, modern=modern))
        else:
            raise RpcError(METHOD_NOT_FOUND, "there is no such method")
        return None

    def _initialize(self, asked: Request) -> Json:
        version = asked.params.get("protocolVersion")
        self._version = version if version in LEGACY else LEGACY[0]
        capabilities = asked.params.get("capabilities")
        self._forms = self._version in FORMS_SINCE and has_forms(capabilities)
        return {"protocolVersion": self._version, "serverInfo": self._info, **self._offer()}

    def _offer(self) -> Json:
        return {"capabilities": {"tools": {"listChanged": True}}, "instructions": self._service.instructions}

    def _discovery(self) -> Json:
        return {"supportedVersions": [MODERN, *LEGACY], **self._offer(), "ttlMs": _CACHED_MS, "cacheScope": "private"}

    def _listen(self, asked: Request) -> None:
        """Begin a subscription; its answer comes when the process ends."""
        wanted = asked.params.get("notifications")
        if not isinstance(wanted, dict):
            raise RpcError(INVALID_PARAMS, '"notifications" must be an object')
        granted = {"toolsListChanged": True} if wanted.get("toolsListChanged") is True else {}
        with self._lock:
            if len(self._listeners) >= _MOST_LISTENERS:
                raise RpcError(INVALID_REQUEST, f"there are {_MOST_LISTENERS} subscriptions already")
            self._listeners[key_of(asked.id)] = _Listener(id=asked.id, wants_tools=bool(granted))
        self.send(
            notification(
                "notifications/subscriptions/acknowledged",
                {"notifications": granted, "_meta": {SUBSCRIPTION_KEY: asked.id}},
            )
        )

    def _list(self, *, modern: bool) -> Json:
        listed: Json = {"tools": list(self._service.tools())}
        return self._complete({**listed, "ttlMs": _LIST_CACHED_MS, "cacheScope": "private"}) if modern else listed

    def _call(self, wanted: ToolCall) -> Json:
        try:
            outcome = self._service.call(wanted)
        except OdekError as error:
            outcome = tool_error(error.message, error.hint)
        return self._marked(outcome, modern=wanted.modern)

    def _marked(self, value: Json, *, modern: bool) -> Json:
        return self._complete(value) if modern else value

    def _complete(self, value: Json) -> Json:
        return {"resultType": "complete", **value, "_meta": {SERVER_KEY: self._info}}

    def _report_bug(self, error: BaseException) -> None:
        import traceback

        self._log(f"bug: {type(error).__name__}: {error!a}")
        for line in "".join(traceback.format_exception(error)).splitlines():
            self._debug(line)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listener:
    """A request of a client that waits for notifications."""

    id: Id
    wants_tools: bool
    """whether it is to know of another list of tools"""


class _Batch:
    """The answers to the messages of one line, sent as one list when the last has come."""

    def __init__(self, count: int, send: Callable[[list[Json]], None]) -> None:
        self._left = count
        self._answers: list[Json] = []
        self._send = send
        self._lock = Lock()

    def reply(self, answer: Json | None) -> None:
        """Take the answer to one message; None: there is none."""
        with self._lock:
            self._left -= 1
            if answer is not None:
                self._answers.append(answer)
            if self._left == 0 and self._answers:
                self._send(self._answers)


def tool_call(params: Mapping[str, Any], *, modern: bool, forms: bool) -> ToolCall:
    """Return what the parameters of a `tools/call` ask for. Raises RpcError."""
    name, arguments = params.get("name"), params.get("arguments", {})
    if not isinstance(name, str):
        raise RpcError(INVALID_PARAMS, '"name" must be a string')
    if not isinstance(arguments, dict):
        raise RpcError(INVALID_PARAMS, '"arguments" must be an object')
    state, answers = params.get("requestState"), params.get("inputResponses")
    return ToolCall(
        name=name,
        arguments=arguments,
        forms=forms,
        modern=modern,
        state=state if isinstance(state, str) else "",
        answers=answers if isinstance(answers, dict) else {},
    )


def has_forms(capabilities: object) -> bool:
    """Return whether a client with these `capabilities` shows forms: `{}` means forms, `url` alone does not."""
    found = capabilities.get("elicitation") if isinstance(capabilities, dict) else None
    return isinstance(found, dict) and (not found or "form" in found)


def tool_error(message: str, hint: str = "") -> Json:
    """Return the result of a call that its tool could not do."""
    return text_result(f"{message}\nhint: {hint}" if hint else message, is_error=True)


def text_result(text: str, *, is_error: bool = False) -> Json:
    """Return a result of one text. An unset `isError` is left out, as is all that has no value (P-21)."""
    return {"content": [{"type": "text", "text": text}]} | ({"isError": True} if is_error else {})
