"""http.py: one call of a model over a real connection to a scripted server."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import pytest
from fakes.model_server import (
    Answer,
    ModelServer,
    ServedRequest,
    Step,
    calls,
    delta,
    events,
    raw,
    status,
    text,
    whole,
)

from odek.errors import ConfigError, Interrupted
from odek.model.endpoint import Endpoint, Proxy
from odek.model.errors import ModelError, ModelProtocolError, ModelRejected, ModelUnreachable, WrongAddress
from odek.model.http import Effects, HttpModel
from odek.model.provider import RequestOptions
from odek.model.transport import Limits, Route, refused_hint
from odek.model.types import CallBegun, Message, Reply, ToolCall, ToolSpec, Usage

A = '{"command":"echo A"}'
B = '{"command":"echo B"}'
HALF = '{"command":"rm -rf /workspace/bu'
ASK = (Message(role="user", content="go"),)
SHELL = ToolSpec(name="shell", description="Run.", parameters={"type": "object", "properties": {}})
KEY = "sk-secret-0123456789"
KEY_HINT = (
    "the API key comes from api_key in ~/.odek/config.json, ODEK_API_KEY or the provider's own variable; "
    "`odek config view` tells which"
)


OPTION_KEYS = {field.name for field in fields(RequestOptions)}
EFFECT_KEYS = {field.name for field in fields(Effects)}


class Call:
    """One HttpModel and everything that it did besides answering."""

    def __init__(self, base_url: str, **settings: Any) -> None:
        self.notices: list[str] = []
        self.waits: list[float] = []
        self.shown: list[str] = []
        self.begun: list[str] = []
        numbers = itertools.count(1)
        options = {key: settings.pop(key) for key in OPTION_KEYS & settings.keys()}
        effects = {key: settings.pop(key) for key in EFFECT_KEYS & settings.keys()}
        given: dict[str, Any] = {
            "base_url": base_url,
            "options": RequestOptions(**({"model": "m"} | options)),
            "api_key": KEY,
            "env": {},
            "on_notice": self.notices.append,
            "effects": Effects(
                **(
                    {
                        "sleep": self.waits.append,
                        "epoch_now": lambda: 1_700_000_000.0,
                        "chance": lambda: 0.5,
                        "new_id": lambda: f"new_{next(numbers)}",
                    }
                    | effects
                )
            ),
        }
        self.model = HttpModel(**(given | settings))

    def run(self, messages: tuple[Message, ...] = ASK) -> Reply:
        return self.model.complete(messages, (SHELL,), self._take)

    def _take(self, piece: str) -> None:
        (self.begun if isinstance(piece, CallBegun) else self.shown).append(piece)

    def fail(self) -> ModelError:
        with pytest.raises(ModelError) as caught:
            self.run()
        return caught.value


@contextmanager
def served(*script: Step, **settings: Any) -> Iterator[tuple[ModelServer, Call]]:
    with ModelServer(*script) as server:
        yield server, Call(server.base_url, **settings)
    server.assert_all_used()


def answer(content: str = "", *arguments: str) -> Message:
    tool_calls = tuple(
        ToolCall(id=f"call_{number}", name="shell", arguments=given) for number, given in enumerate(arguments, start=1)
    )
    return Message(role="assistant", content=content, tool_calls=tool_calls)


def shell_delta(arguments: str, finish_reason: str | None = None, **fields: object) -> dict[str, Any]:
    return delta(finish_reason, tool_calls=[{**fields, "function": {"name": "shell", "arguments": arguments}}])


def test_streamed_reply_and_its_request() -> None:
    """R-82."""
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 5}}
    with served(calls(("shell", A), ("shell", B), content="wait", usage=usage)) as (server, call):
        reply = call.run()
    assert reply == Reply(
        message=answer("wait", A, B),
        usage=Usage(input_tokens=7, output_tokens=3, cached_tokens=5),
        stop="tool_calls",
    )
    assert ("".join(call.shown), call.begun, call.notices, call.waits) == ("wait", ["shell", "shell"], [], [])
    (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/v1/chat/completions")
    assert request.json == {
        "model": "m",
        "messages": [{"role": "user", "content": "go"}],
        "tools": [
            {"type": "function", "function": {"name": "shell", "description": "Run.", "parameters": SHELL.parameters}}
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert request.headers == {
        "host": f"127.0.0.1:{server.port}",
        "content-type": "application/json",
        "content-length": str(len(request.body)),
        "accept": "text/event-stream, application/json",
        "accept-encoding": "identity",
        "authorization": f"Bearer {KEY}",
        "user-agent": "odek",
    }


def test_no_key_no_authorization() -> None:
    """R-82: local servers need no key."""
    with served(text("hi"), api_key="") as (server, call):
        call.run()
    assert "authorization" not in server.requests[0].headers


def test_settings_arrive() -> None:
    """F-9."""
    with served(text("hi"), temperature=0.3, thinking="low") as (server, call):
        call.run()
    assert (server.requests[0].json["temperature"], server.requests[0].json["reasoning_effort"]) == (0.3, "low")


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "text/event-stream"])
def test_server_that_does_not_stream(content_type: str) -> None:
    body = json.dumps({"choices": [{"message": {"content": "hä"}, "finish_reason": "stop"}]}, ensure_ascii=False)
    with served(whole("\n\n " + body, headers=[("Content-Type", content_type)])) as (_, call):
        assert call.run() == Reply(message=answer("hä"), stop="stop")
    assert call.shown == ["hä"]


@pytest.mark.parametrize("content_type", ["application/json", "text/plain; charset=latin-1"])
def test_stream_under_a_wrong_label(content_type: str) -> None:
    body = "".join(f"data: {json.dumps(part, ensure_ascii=False)}\n\n" for part in (delta(content="hä"), delta("stop")))
    with served(whole(body, headers=[("Content-Type", content_type)])) as (_, call):
        assert call.run().message == answer("hä")


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_compressed_answer_is_decoded(encoding: str) -> None:
    """B43 (d)."""
    import zlib

    body = json.dumps({"choices": [{"message": {"content": "hi"}}]}).encode()
    packed = gzip.compress(body) if encoding == "gzip" else zlib.compress(body)
    with served(whole(packed, headers=[("Content-Encoding", encoding)])) as (_, call):
        assert call.run().message == answer("hi")


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        pytest.param(
            [shell_delta(A, index=0, id="a"), shell_delta(B, "tool_calls", index=0, id="b")],
            [("a", A), ("b", B)],
            id="a",
        ),
        pytest.param([shell_delta(A, id="a"), shell_delta(B, "tool_calls", id="b")], [("a", A), ("b", B)], id="b"),
        pytest.param([shell_delta(A), shell_delta(B, "tool_calls")], [("new_1", A), ("new_2", B)], id="g"),
        pytest.param(
            [shell_delta(A, index=0, id="x"), shell_delta(B, "tool_calls", index=1, id="x")],
            [("x", A), ("new_1", B)],
            id="h",
        ),
        pytest.param([delta("function_call", function_call={"name": "shell", "arguments": A})], [("new_1", A)], id="i"),
    ],
)
def test_calls_go_back_with_the_ids_they_came_under(stream: list[object], expected: list[tuple[str, str]]) -> None:
    """B39: the next request has one tool message per call, with distinct ids."""
    with served(events(*stream), text("done")) as (server, call):
        reply = call.run()
        assert [(made.id, made.arguments) for made in reply.message.tool_calls] == expected
        results = tuple(Message(role="tool", content="ok", tool_call_id=made.id) for made in reply.message.tool_calls)
        call.run((*ASK, reply.message, *results))
    sent = server.requests[1].json["messages"]
    assert [made["id"] for made in sent[1]["tool_calls"]] == [call_id for call_id, _ in expected]
    assert [message["tool_call_id"] for message in sent[2:]] == [call_id for call_id, _ in expected]


BROKEN = [
    pytest.param(events(shell_delta(HALF, index=0, id="a"), done=False), id="a-half-arguments"),
    pytest.param(events(shell_delta(A, index=0, id="a"), done=False), id="b-no-finish-reason"),
    pytest.param(raw(), id="d-nothing"),
    pytest.param(events(shell_delta(HALF, index=0, id="a"), done=False, end="reset", gap_s=0.05), id="e-reset"),
    pytest.param(raw(b'data: {"choices": [{"de'), id="e-in-the-middle-of-an-event"),
    pytest.param(events({"error": {"message": "overloaded"}}), id="f-error-in-a-200"),
    pytest.param(whole({"choices": []}), id="no-choices"),
    pytest.param(Answer(chunks=(b'{"choices": [{"mess',), length=500), id="whole-but-short"),
    pytest.param(whole('{"choices": [{"mess'), id="whole-but-cut"),
    pytest.param(events("oops", done=False), id="no-json"),
    pytest.param(whole(b""), id="empty"),
]


@pytest.mark.parametrize("broken", BROKEN)
def test_answer_that_breaks_off_is_asked_for_again_while_nothing_was_shown(broken: Step) -> None:
    """B40 (a), (b), (d)–(f): no half call comes out, and nothing is done twice."""
    with served(broken, calls(("shell", A))) as (_, call):
        assert call.run().message == answer("", A)
    assert (len(call.notices), call.waits, call.shown) == (1, [0.5], [])


@pytest.mark.parametrize("broken", BROKEN)
def test_answer_that_keeps_breaking_off_is_an_error(broken: Step) -> None:
    """B40: bounded attempts, and no reply."""
    with served(broken, broken, broken, broken) as (_, call):
        error = call.fail()
    assert isinstance(error, ModelProtocolError | ModelUnreachable)
    assert error.message.endswith(" (4 attempts)")
    assert call.waits == [0.5, 1.0, 2.0]


@pytest.mark.parametrize(
    "ending",
    [
        pytest.param(raw(b'data: {"choices": [{"delta": {"content": "half an ans"}}]}\n\n'), id="c-closed"),
        pytest.param(
            raw(b'data: {"choices": [{"delta": {"content": "half an ans"}}]}\n\n', b":\n", end="reset", gap_s=0.05),
            id="e-reset",
        ),
        pytest.param(events(delta(content="half an ans"), {"error": {"message": "overloaded"}}), id="f-error"),
    ],
)
def test_answer_that_breaks_off_after_text_was_shown_begins_anew(ending: Answer) -> None:
    """B130, B40 (c), (e), (f): nothing has happened but that text was shown, which is said to be void."""
    with served(ending, text("whole")) as (_, call):
        assert call.run().message.content == "whole"
    assert (call.shown[:2], "".join(call.shown[2:]), len(call.notices)) == (["half an ans", ""], "whole", 1)


def test_answer_that_keeps_breaking_off_ends_with_a_hint() -> None:
    """B130"""
    half = raw(b'data: {"choices": [{"delta": {"content": "half"}}]}\n\n')
    with served(*[half] * 4) as (_, call):
        error = call.fail()
    assert (error.message, "cuts long answers" in error.hint) == (
        "the model's answer broke off before its end (4 attempts)",
        True,
    )


def test_reply_cut_at_its_limit_says_so_and_holds_no_half_arguments() -> None:
    """B40 (g)."""
    with served(events(shell_delta(HALF, "length", index=0, id="call_1"))) as (_, call):
        assert call.run() == Reply(message=answer("", "{}"), stop="length")


def test_web_page_is_no_answer() -> None:
    """B40 (i)."""
    head = "<head><title>no</title><script>alert(1)</script></head>"
    page = whole(f"<!DOCTYPE html>{head}<p>Please <b>log in</b>", headers=[("Content-Type", "text/html")])
    with served(page) as (_, call):
        error = call.fail()
    assert (type(error), error.message, error.detail) == (
        WrongAddress,
        "the model's server sent a web page instead of an answer",
        "Please log in",
    )


def test_finished_answer_needs_no_done_and_no_clean_close() -> None:
    """B40: a finish reason is the end, whatever the connection does then."""
    for end in ("close", "reset"):
        with served(events(shell_delta(A, "tool_calls", index=0, id="call_1"), done=False, end=end)) as (_, call):
            assert call.run().message == answer("", A)


def test_server_that_never_closes_is_left_at_done() -> None:
    with served(events(delta("stop", content="hi"), end="hang")) as (_, call):
        assert call.run().message == answer("hi")


def test_whole_answer_is_read_to_its_length_and_no_further() -> None:
    body = json.dumps({"choices": [{"message": {"content": "hi"}}]}).encode()
    with served(Answer(chunks=(body,), length=len(body), end="hang")) as (_, call):
        assert call.run().message == answer("hi")


def test_silent_server_is_given_up_after_the_idle_time() -> None:
    """B40 (j): documented limits."""
    hang = raw(end="hang")
    with served(hang, text("hi"), limits=Limits(idle_s=0.1)) as (server, call):
        assert call.run().message == answer("hi")
    assert call.notices == [
        "the model's answer broke off before its end: nothing came for 0.1 s; trying again in 0.5 s (retry 1 of 3)"
    ]
    assert len(server.requests) == 2


def test_server_that_does_not_even_begin_is_given_up() -> None:
    """B40 (j)."""
    with served(text("late", delay_s=60), text("hi"), limits=Limits(idle_s=0.1)) as (server, call):
        assert call.run().message == answer("hi")
    assert call.notices == [
        f"the model's server 127.0.0.1:{server.port} is silent: nothing came for 0.1 s; "
        "trying again in 0.5 s (retry 1 of 3)"
    ]


def test_endless_answer_is_given_up_after_the_total_time() -> None:
    """B40 (k): a byte now and then does not keep a call alive, and the retry is not free of the limit."""
    clock = itertools.count(0.0, 50.0)
    dribble = raw(*[b":\n"] * 100, gap_s=0.001)
    with served(dribble, now=lambda: next(clock)) as (_, call):
        error = call.fail()
    assert (type(error), call.notices) == (ModelUnreachable, [])
    assert error.message.startswith("the model did not finish its answer within 600 s")


def test_silence_is_not_waited_for_beyond_the_total_time() -> None:
    """B40 (j)."""
    with served(raw(b": hello\n\n", end="hang"), limits=Limits(total_s=0.2)) as (server, call):
        error = call.fail()
    assert error.message == f"the model did not finish its answer within 0.2 s (127.0.0.1:{server.port})"
    assert call.notices == []


def test_answer_of_any_size_takes_bounded_memory() -> None:
    """B40 (l)."""
    line = b'data: {"choices": [{"delta": {"content": "' + b"x" * 60_000 + b'"}}]}\n\n'
    with served(raw(*[line] * 100), limits=Limits(body_bytes=1 << 20)) as (_, call):
        error = call.fail()
    assert (type(error), error.message) == (ModelProtocolError, "the model's answer is larger than 1 MiB")


@pytest.mark.parametrize("code", [408, 409, 429, 500, 502, 503, 504, 520, 529])
def test_status_that_may_pass_is_retried_with_one_notice_each(code: int) -> None:
    """F-101, R-82."""
    with served(status(code), status(code), text("hi")) as (server, call):
        assert call.run().message == answer("hi")
        assert server.requests[0].body == server.requests[1].body == server.requests[2].body
    assert call.waits == [0.5, 1.0]
    assert [notice.rpartition("; ")[2] for notice in call.notices] == [
        "trying again in 0.5 s (retry 1 of 3)",
        "trying again in 1.0 s (retry 2 of 3)",
    ]
    assert str(code) in call.notices[0]


@pytest.mark.parametrize(
    ("header", "wait_s"),
    [
        ("2", 2.0),
        ("0", 0.0),
        ("-5", 0.5),
        ("nan", 0.5),
        ("9999999999", 60.0),
        ("Tue, 14 Nov 2023 22:13:25 GMT", 5.0),
        ("Fri, 24 Nov 2023 22:13:20 GMT", 60.0),
    ],
)
@pytest.mark.parametrize("code", [429, 500, 503, 529])
def test_retry_after_replaces_the_wait_within_bounds(code: int, header: str, wait_s: float) -> None:
    """B41."""
    with served(status(code, headers=[("Retry-After", header)]), text("hi")) as (_, call):
        call.run()
    assert call.waits == [wait_s]


def test_two_retry_after_headers() -> None:
    """B41."""
    answer_429 = status(429, headers=[("Retry-After", "2"), ("Retry-After", "5")])
    with served(answer_429, text("hi")) as (_, call):
        call.run()
    assert call.waits == [5.0]


def test_attempts_are_bounded() -> None:
    """B41."""
    with served(*[status(503, {"error": {"message": "busy"}})] * 4) as (server, call):
        error = call.fail()
    assert (type(error), error.status, error.detail) == (ModelUnreachable, 503, "busy")
    assert (
        error.message
        == f"the model's server {server.base_url}/chat/completions answered 503 Service Unavailable (4 attempts)"
    )


def test_no_wait_beyond_the_total_time() -> None:
    with served(status(429, headers=[("Retry-After", "30")]), limits=Limits(total_s=20.0)) as (_, call):
        error = call.fail()
    assert (error.status, call.waits, call.notices) == (429, [], [])


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (400, ""),
        (
            401,
            KEY_HINT,
        ),
        (
            403,
            KEY_HINT,
        ),
        (404, "check model and base_url; `odek config view` shows them"),
        (422, ""),
        (501, ""),
    ],
)
def test_refusal_is_final_and_says_what_to_do(code: int, hint: str) -> None:
    """B41: a 401 is not retried, Retry-After or not."""
    with served(status(code, "no\x1b[2J", headers=[("Retry-After", "1")])) as (_, call):
        error = call.fail()
    assert (type(error), error.status, error.hint, error.detail) == (ModelRejected, code, hint, "no\\x1b[2J")
    assert call.notices == []


def test_error_text_is_bounded_and_holds_no_key() -> None:
    """Runtime 7.5: the first 2 KiB, without the key, also when it lies on the edge."""
    for body in (f"bad key {KEY}!", "x" * 2040 + KEY, "y" * 100_000):
        with served(status(401, body)) as (_, call):
            error = call.fail()
        assert KEY[:8] not in error.detail
        assert len(error.detail) <= 2048
    with served(events({"error": {"message": f"key {KEY}", "code": 401}})) as (_, call):
        assert call.fail().detail == "key [api key]"


def test_redirect_is_not_followed() -> None:
    """Runtime 7.1: the key goes nowhere else."""
    with ModelServer() as other, served(status(307, headers=[("Location", other.base_url)])) as (server, call):
        error = call.fail()
        assert error.message == (
            f"the model's server {server.base_url}/chat/completions answered 307 Temporary Redirect and points to "
            f"{other.base_url}"
        )
        assert other.requests == []


@pytest.mark.parametrize(
    ("answered", "overflow"),
    [
        (status(400, {"error": {"code": "context_length_exceeded", "message": "too long"}}), True),
        (status(400, "This model's maximum context length is 8192 tokens"), True),
        (status(413), True),
        (status(400, "temperature is out of range"), False),
        (status(401, "token limit of this key"), False),
    ],
)
def test_overflow_is_told_apart(answered: Answer, *, overflow: bool) -> None:
    """B42: whoever keeps the conversation can shorten it."""
    with served(answered) as (_, call):
        assert call.fail().context_overflow is overflow


def test_server_that_knows_no_stream_options_is_asked_without() -> None:
    refused = status(422, {"detail": "extra field: stream_options"})
    with served(refused, text("hi"), text("again")) as (server, call):
        call.run()
        call.run()
    assert [("stream_options" in request.json) for request in server.requests] == [True, False, False]
    assert (call.notices, call.waits) == ([], [])


def test_connection_refused_is_retried_and_then_explained() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    call = Call(f"http://127.0.0.1:{port}/v1")
    error = call.fail()
    assert (type(error), error.message) == (
        ModelUnreachable,
        f"the model's server 127.0.0.1:{port} could not be reached: Connection refused (4 attempts)",
    )
    assert len(call.notices) == 3


@pytest.mark.parametrize(
    ("base", "env", "start", "hint"),
    [
        ("http://127.0.0.1:%d/v1", {}, "", "start the model's server, or correct base_url"),
        ("http://localhost:%d/v1", {}, "ollama serve", "start the model's server: `ollama serve`, or correct base_url"),
        ("http://m.example/v1", {"http_proxy": "http://127.0.0.1:%d"}, "", "start the proxy, or correct http_proxy"),
        ("https://m.example/v1", {"HTTPS_PROXY": "http://127.0.0.1:%d"}, "", "start the proxy, or correct HTTPS_PROXY"),
    ],
)  # fmt: skip
def test_hint_of_a_refused_connection_is_what_starts_the_server(
    base: str, env: dict[str, str], start: str, hint: str
) -> None:
    """R-396: nothing listens there, whatever the network is like; a proxy is named by its variable."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    def with_port(text: str) -> str:
        return text % port if "%d" in text else text

    env = {name: with_port(value) for name, value in env.items()}
    call = Call(with_port(base), env=env, start=start, allow_plain_http=True)
    assert call.fail().hint.removeprefix("no program listens at that port: ") == hint


@pytest.mark.parametrize(
    ("host", "proxy", "start", "hint"),
    [
        ("::1", None, "ollama serve", "start the model's server: `ollama serve`"),
        ("127.8.9.1", None, "", "start the model's server, or"),
        ("api.example.com", None, "", "check base_url and the network"),
        ("203.0.113.9", None, "", "check base_url and the network"),
        ("192.168.1.20", None, "ollama serve", "check base_url and the network"),  # `ollama serve` here starts another
        ("localhost.example.com", None, "", "check base_url and the network"),
        ("api.example.com", "localhost", "", "start the proxy, or correct https_proxy"),
        ("api.example.com", "proxy.example", "", "check https_proxy and the network"),
        ("api.example.com", "10.0.0.1", "ollama serve", "check https_proxy and the network"),
    ],
)
def test_refused_connection_elsewhere_is_a_matter_of_the_address_and_the_network(
    host: str, proxy: str | None, start: str, hint: str
) -> None:
    """R-396: only on this machine the hint says to start what listens there."""
    to = Endpoint(scheme="https", host=host, port=443, target="/")
    by = Proxy(host=proxy, port=3128, variable="https_proxy") if proxy else None
    found = refused_hint(host, Route(to, by, None, lambda: 0.0, start))
    assert hint in found
    assert ("start the" in found) == ("start the" in hint)


@pytest.mark.parametrize("host", ["a..b", "x" * 70 + ".example"])
def test_name_that_can_be_no_host_is_an_error(host: str) -> None:
    error = Call(f"https://{host}/v1").fail()
    assert isinstance(error, ModelUnreachable)


def test_answer_that_is_no_http_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for _ in range(4):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(b"SSH-2.0-OpenSSH_9.9\r\n")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        error = Call(f"http://127.0.0.1:{listener.getsockname()[1]}/v1").fail()
        thread.join()
    assert isinstance(error, ModelUnreachable)


def test_request_that_is_cut_short_by_an_answer_gets_that_answer() -> None:
    """A server may refuse a large body before it has read it (413)."""

    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        call = Call(f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
        with pytest.raises(ModelRejected) as caught:
            call.run((Message(role="user", content="x" * (4 << 20)),))
        thread.join()
    assert caught.value.context_overflow


def interrupt_after(delay_s: float) -> Callable[[], None]:
    def raise_interrupted(number: int, frame: object) -> None:
        raise Interrupted(number)

    before = signal.signal(signal.SIGALRM, raise_interrupted)
    signal.setitimer(signal.ITIMER_REAL, delay_s)

    def undo() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

    return undo


@pytest.mark.parametrize("waiting_for", ["the head", "the body", "the retry"])
def test_signal_ends_every_wait_and_closes_the_connection(waiting_for: str) -> None:
    """B40 (j), (k), B41: Interrupted passes through, and the server sees the connection go."""
    gone = threading.Event()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {}\n\n"
    refusal = b"HTTP/1.1 429 Slow Down\r\nRetry-After: 60\r\nContent-Length: 0\r\n\r\n"
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall({"the head": b"", "the body": head, "the retry": refusal}[waiting_for])
                while connection.recv(65536):
                    pass
                gone.set()

        threading.Thread(target=serve, daemon=True).start()
        import time

        call = Call(f"http://127.0.0.1:{listener.getsockname()[1]}/v1", sleep=time.sleep)
        undo = interrupt_after(0.3)
        try:
            with pytest.raises(Interrupted):
                call.run()
        finally:
            undo()
        assert gone.wait(10)


def test_error_of_the_listener_is_not_taken_for_one_of_the_network() -> None:
    def broken_pipe(piece: str) -> None:
        raise BrokenPipeError(piece)

    with served(text("hello")) as (_, call), pytest.raises(BrokenPipeError):
        call.model.complete(ASK, (), broken_pipe)
    assert call.notices == []


def test_process_environment_is_not_read() -> None:
    """Only the mapping that is passed in counts: here, a proxy variable that points nowhere."""
    before = os.environ.get("http_proxy")
    os.environ["http_proxy"] = "http://127.0.0.1:1"
    try:
        with served(text("hi")) as (_, call):
            assert call.run().message == answer("hi")
    finally:
        del os.environ["http_proxy"]
        if before is not None:  # in a sandbox it is there and empty
            os.environ["http_proxy"] = before


def test_bad_settings_are_refused_before_anything_is_sent() -> None:
    for settings in ({"base_url": "http://example.com"}, {"api_key": "a b"}, {"env": {"http_proxy": "socks5://h"}}):
        with pytest.raises(ConfigError):
            Call(**({"base_url": "http://example.com", "allow_plain_http": "env" in settings} | settings))


def test_plain_http_elsewhere_goes_through_the_proxy_with_its_password_in_a_header_only() -> None:
    """B43 (a), (g)."""
    with ModelServer(text("hi"), status(407)) as proxy:
        env = {"http_proxy": f"http://me:pass%20word@127.0.0.1:{proxy.port}"}
        call = Call("http://model.invalid/v1", allow_plain_http=True, env=env)
        assert call.run().message == answer("hi")
        error = call.fail()
    (request, _) = proxy.requests
    assert request.path == "http://model.invalid/v1/chat/completions"
    assert request.headers["host"] == "model.invalid"
    assert request.headers["proxy-authorization"] == "Basic bWU6cGFzcyB3b3Jk"
    assert error.message == f"the proxy 127.0.0.1:{proxy.port} (http_proxy) answered 407 Proxy Authentication Required"
    assert "pass" not in error.message + error.detail


@pytest.mark.parametrize("given", [text("hi"), lambda _request: text("hi")])
def test_fake_server_answers_unstreamed_requests_as_json(given: Step) -> None:
    """The fake is used by other tests: what it does is pinned here."""
    import http.client

    asked = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]})
    with ModelServer(given) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        for code in (200, 500):
            connection.request("POST", "/v1/chat/completions", body=asked)
            response = connection.getresponse()
            assert response.status == code
            body = json.loads(response.read())
            connection.close()
            if code == 200:
                assert body["choices"][0]["message"] == {"role": "assistant", "content": "hi"}
    assert [type(request) for request in server.unscripted] == [ServedRequest]
    with pytest.raises(AssertionError):
        server.assert_all_used()
