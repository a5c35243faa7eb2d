"""A server on the loopback that answers what a test tells it to, in OpenAI's API or in Anthropic's.

    with ModelServer(calls(("shell", {"command": "ls"})), text("done")) as server:
        …run something with base_url = server.base_url…
    server.assert_all_used()

`text` and `calls` are streamed when the request asks for it, and sent as one JSON object when not.
`status`, `events` and `raw` give full control. In place of an answer a function may stand that
gets the request and returns an answer. A request beyond the script is answered with status 500
and makes `assert_all_used` fail. A request that a real provider would refuse (request_rules) fails
the test at the end of the block, whatever else the test looks at.
A request to /messages is answered as Anthropic would. A GET (of the list of models) takes its
answer from `models`; without one it is answered with 404.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal

from fakes.request_rules import broken_rules

End = Literal["close", "reset", "hang"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedRequest:
    """One request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    """names in lower case; of repeated ones the last"""
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What is sent back."""

    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    chunks: tuple[bytes, ...] = ()
    """body, sent piece by piece; the connection is closed at its end unless `length` is given"""
    length: int | None = None
    """value of Content-Length, which may lie"""
    delay_s: float = 0.0
    """before the first byte"""
    gap_s: float = 0.0
    """before each chunk but the first"""
    end: End = "close"
    """"reset" sends a TCP reset; "hang" keeps the connection open until the server stops"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Message:
    """A whole message: how it travels depends on the request."""

    content: str
    tool_calls: tuple[dict[str, Any], ...] = ()
    finish_reason: str
    usage: dict[str, Any] = field(default_factory=dict)
    delay_s: float = 0.0


Step = Answer | _Message | Callable[[ServedRequest], "Answer | _Message"]


def text(content: str, *, usage: Mapping[str, Any] | None = None, delay_s: float = 0.0) -> _Message:
    """Return a final answer."""
    return _Message(content=content, finish_reason="stop", usage=_usage(usage), delay_s=delay_s)


def calls(
    *wanted: tuple[str, object],
    content: str = "",
    usage: Mapping[str, Any] | None = None,
    finish_reason: str = "tool_calls",
) -> _Message:
    """Return tool calls, each (name, arguments); arguments are an object or raw text. Ids: call_1, …"""
    entries = tuple(
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {
                "name": name,
                "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
            },
        }
        for number, (name, arguments) in enumerate(wanted, start=1)
    )
    return _Message(content=content, tool_calls=entries, finish_reason=finish_reason, usage=_usage(usage))


def status(code: int, body: object = b"", *, headers: Sequence[tuple[str, str]] = ()) -> Answer:
    """Return an error answer; a body that is neither bytes nor text is sent as JSON."""
    return whole(body, headers=headers, code=code)


def whole(body: object, *, headers: Sequence[tuple[str, str]] = (), code: int = 200) -> Answer:
    """Return an answer that is one body, JSON unless it is bytes or text."""
    if isinstance(body, str):
        body = body.encode()
    kind = "text/plain" if isinstance(body, bytes) else "application/json"
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {name.lower() for name, _ in headers}
    content_type = () if "content-type" in given else (("Content-Type", kind),)
    return Answer(status=code, headers=(*content_type, *headers), chunks=(data,), length=len(data))


def events(
    *payloads: object, done: bool = True, end: End = "close", delay_s: float = 0.0, gap_s: float = 0.0
) -> Answer:
    """Return a stream with each payload as one event (objects as JSON, text as it stands)."""
    lines = [payload if isinstance(payload, str) else json.dumps(payload) for payload in payloads]
    lines += ["[DONE]"] if done else []
    return raw(*(f"data: {line}\n\n".encode() for line in lines), end=end, delay_s=delay_s, gap_s=gap_s)


def raw(*chunks: bytes, end: End = "close", delay_s: float = 0.0, gap_s: float = 0.0) -> Answer:
    """Return a stream made of exactly these bytes."""
    return Answer(
        headers=(("Content-Type", "text/event-stream"),), chunks=chunks, end=end, delay_s=delay_s, gap_s=gap_s
    )


def delta(finish_reason: str | None = None, **fields: object) -> dict[str, Any]:
    """Return the chunk of a stream that adds `fields` (content=…, tool_calls=[…])."""
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish_reason}]}


class ModelServer:
    """A context manager; the port is chosen by the system."""

    def __init__(self, *script: Step, tls: ssl.SSLContext | None = None, models: object = None) -> None:
        """`models` is the JSON that GET …/models is answered with, an Answer, or a function of the path."""
        self._script = list(script)
        self._models = models
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self.requests: list[ServedRequest] = []
        self.unscripted: list[ServedRequest] = []
        self.lookups: list[ServedRequest] = []
        """GET requests"""
        self.broken: list[str] = []
        """what a real provider would have refused"""
        self._server = _Server(("127.0.0.1", 0), self)
        self._scheme = "http"
        if tls is not None:
            self._scheme = "https"
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def base_url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}/v1"

    def add(self, *steps: Step) -> None:
        """Append to the script."""
        with self._lock:
            self._script.extend(steps)

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        if kind is None:
            self.assert_none_broken()

    def assert_none_broken(self) -> None:
        """Fail when a request came that a real provider would refuse."""
        assert not self.broken, f"requests that a provider would refuse: {self.broken}"

    def assert_all_used(self) -> None:
        """Fail when a request came that was not scripted, or one that was did not come."""
        self.assert_script_used()
        self.assert_none_broken()

    def assert_script_used(self) -> None:
        """As `assert_all_used`, for a request that some provider refuses and this one wants."""
        assert not self.unscripted, f"unscripted requests: {[request.body[:2000] for request in self.unscripted]}"
        assert not self._script, f"{len(self._script)} scripted answers were not asked for"

    def answer(self, request: ServedRequest) -> Answer:
        """Return what to send back for `request`."""
        with self._lock:
            if request.method == "GET":
                self.lookups.append(request)
                wanted = self._models(request.path) if callable(self._models) else self._models
                found = status(404) if wanted is None else wanted
                return found if isinstance(found, Answer) else whole(found)
            self.requests.append(request)
            self.broken += broken_rules(request.path, request.body)
        step = self.next_step(request)
        return step if isinstance(step, Answer) else as_answer(step, request)

    def next_step(self, request: ServedRequest) -> Answer | _Message:
        """Return what the script has for `request`."""
        with self._lock:
            if not self._script:
                self.unscripted.append(request)
                return status(500, {"error": {"message": "the test has no answer for this request"}})
            step = self._script.pop(0)
        return step if isinstance(step, Answer | _Message) else step(request)

    def pause(self, duration_s: float) -> None:
        """Wait, but not beyond the end of the test."""
        if duration_s > 0:
            self._stopping.wait(duration_s)

    def hang(self) -> None:
        self._stopping.wait()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False  # a handler that hangs on purpose must not hold up the test

    def __init__(self, address: tuple[str, int], owner: ModelServer) -> None:
        self.owner = owner
        super().__init__(address, _Handler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients that go away in the middle are part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        request = ServedRequest(
            method=self.command,
            path=self.path,
            headers={name.lower(): value for name, value in self.headers.items()},
            body=self.rfile.read(length),
        )
        self.close_connection = True
        with contextlib.suppress(OSError):
            self._send(self.server.owner.answer(request))

    do_GET = do_CONNECT = do_POST  # noqa: N815  the names that http.server calls

    def _send(self, answer: Answer) -> None:
        owner = self.server.owner
        owner.pause(answer.delay_s)
        self.send_response(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        if answer.length is not None:
            self.send_header("Content-Length", str(answer.length))
        self.send_header("Connection", "close")
        self.end_headers()
        for number, chunk in enumerate(answer.chunks):
            owner.pause(answer.gap_s if number else 0)
            self.wfile.write(chunk)
            self.wfile.flush()
        if answer.end == "hang":
            owner.hang()
        elif answer.end == "reset":
            # closing with a linger time of zero sends RST instead of FIN
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()

    def log_message(self, *args: object) -> None:
        """Keep the output of the tests clean."""


def _usage(given: Mapping[str, Any] | None) -> dict[str, Any]:
    return dict(given) if given is not None else {"prompt_tokens": 100, "completion_tokens": 10}


def message_of(step: object) -> dict[str, Any] | None:
    """Return the message that a step of a script stands for, None when it is an answer of another kind."""
    if not isinstance(step, _Message):
        return None
    calls = {"tool_calls": [dict(call) for call in step.tool_calls]} if step.tool_calls else {}
    return {"role": "assistant", "content": step.content or None, **calls}


def as_answer(message: _Message, request: ServedRequest, *, streamed: bool = True) -> Answer:
    """Return `message` as it travels: as a stream where one is asked for, unless the server does not stream."""
    with contextlib.suppress(ValueError):
        streamed = streamed and request.json.get("stream") is True
    if request.path.partition("?")[0].endswith("/messages"):
        answer = _anthropic_events(message) if streamed else whole(_anthropic_message(message))
    else:
        answer = _streamed(message) if streamed else _whole_message(message)
    return replace(answer, delay_s=message.delay_s)


def _whole_message(message: _Message) -> Answer:
    body: dict[str, Any] = {"role": "assistant", "content": message.content or None}
    if message.tool_calls:
        body["tool_calls"] = list(message.tool_calls)
    choice = {"index": 0, "message": body, "finish_reason": message.finish_reason}
    return whole({"object": "chat.completion", "choices": [choice], "usage": message.usage})


def _streamed(message: _Message) -> Answer:
    """Return `message` as providers stream it: text and arguments in pieces, the usage last."""
    payloads: list[object] = [delta(role="assistant", content="")]
    payloads += [delta(content=piece) for piece in _pieces(message.content)]
    for index, call in enumerate(message.tool_calls):
        head = {**call, "function": {"name": call["function"]["name"], "arguments": ""}}
        payloads.append(delta(tool_calls=[{"index": index, **head}]))
        payloads += [
            delta(tool_calls=[{"index": index, "function": {"arguments": piece}}])
            for piece in _pieces(call["function"]["arguments"])
        ]
    payloads.append(delta(finish_reason=message.finish_reason))
    payloads.append({"choices": [], "usage": message.usage})
    return events(*payloads)


_STOP_REASONS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}


def _anthropic_message(message: _Message) -> dict[str, Any]:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": message.content}] if message.content else []
    blocks += [
        {
            "type": "tool_use",
            "id": call["id"],
            "name": call["function"]["name"],
            "input": json.loads(call["function"]["arguments"]),
        }
        for call in message.tool_calls
    ]
    usage = {
        "input_tokens": message.usage.get("prompt_tokens", 0),
        "output_tokens": message.usage.get("completion_tokens", 0),
    }
    reason = _STOP_REASONS.get(message.finish_reason, message.finish_reason)
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "content": blocks, "stop_reason": reason,
        "usage": usage,
    }  # fmt: skip


def _anthropic_events(message: _Message) -> Answer:
    whole_message = _anthropic_message(message)
    start = {**whole_message, "content": [], "stop_reason": None}
    payloads: list[dict[str, Any]] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    for index, block in enumerate(whole_message["content"]):
        payloads += _block_events(index, block)
    payloads.append(
        {
            "type": "message_delta",
            "delta": {"stop_reason": whole_message["stop_reason"], "stop_sequence": None},
            "usage": {"output_tokens": whole_message["usage"]["output_tokens"]},
        }
    )
    payloads.append({"type": "message_stop"})
    return named_events(*payloads)


def _block_events(index: int, block: dict[str, Any]) -> list[dict[str, Any]]:
    if block["type"] == "text":
        start: dict[str, Any] = {**block, "text": ""}
        deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
    else:
        start = {**block, "input": {}}
        text = json.dumps(block["input"])
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ("", *_pieces(text))]
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": part} for part in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def named_events(*payloads: dict[str, Any], end: End = "close") -> Answer:
    """Return a stream of events as Anthropic names them: each by its `type`."""
    return raw(*(f"event: {part['type']}\ndata: {json.dumps(part)}\n\n".encode() for part in payloads), end=end)


def _pieces(whole_text: str) -> list[str]:
    size = max(len(whole_text) // 3, 1)
    return [whole_text[start : start + size] for start in range(0, len(whole_text), size)]
