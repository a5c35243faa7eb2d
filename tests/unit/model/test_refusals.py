"""What servers answer when they have no answer: found wherever they put it, understood by its sense."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fakes.model_server import Answer, ModelServer, ServedRequest, delta, events, raw, status, text, whole

from odek.model.endpoint import other_path, parse_base_url
from odek.model.errors import ModelError
from odek.model.http import Effects, HttpModel
from odek.model.http_errors import START_LIMIT_S
from odek.model.profiles import list_names, parse_stated_window
from odek.model.provider import RequestOptions
from odek.model.sense import is_loading, is_overflow, may_be_overflow, words_of
from odek.model.transport import Limits
from odek.model.types import Message

ASK = (Message(role="user", content="go"),)
Rule = Callable[[ServedRequest], Any]


class Call:
    """One model, and what it said."""

    def __init__(self, base_url: str, *, now: Callable[[], float] = time.monotonic, **settings: Any) -> None:
        self.notices: list[str] = []
        self.waits: list[float] = []
        given: dict[str, Any] = {
            "base_url": base_url,
            "options": RequestOptions(model="m"),
            "env": {},
            "on_notice": self.notices.append,
            "effects": Effects(sleep=self.waits.append, chance=lambda: 0.5, now=now),
        }
        self.model = HttpModel(**(given | settings))

    def run(self) -> str:
        return self.model.complete(ASK, (), lambda _: None).message.content

    def fail(self) -> ModelError:
        with pytest.raises(ModelError) as caught:
            self.run()
        return caught.value


def failed(*script: Answer, **settings: Any) -> tuple[ModelError, Call]:
    with ModelServer(*script) as server:
        call = Call(server.base_url, **settings)
        error = call.fail()
    server.assert_all_used()
    return error, call


@pytest.mark.parametrize(
    "noise", ["data: : keepalive\n\n", "data: :\n\n", "data: ping\n\n", "data: [PING]\n\n", "data: null\n\n",
              "data: {}\n\n", "data: \n\n",
              "event: ping\ndata: {\"type\": \"ping\"}\n\n", ": OPENROUTER PROCESSING\n\n"]
)  # fmt: skip
def test_what_keeps_a_connection_open_is_skipped(noise: str) -> None:
    """B87"""
    said = [b'data: {"choices": [{"delta": {"content": "%b"}}]}\n\n' % piece for piece in (b"he", b"llo")]
    stop = b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\n'
    chunk = noise.encode()
    with ModelServer(raw(chunk, said[0], chunk, said[1], chunk, stop)) as server:
        assert Call(server.base_url).run() == "hello"


OVERFLOW_WORDS = "the request exceeds the available context size. try increasing the context size"
ERROR_PLACES: dict[str, tuple[Answer, str]] = {
    "B88 a field of the stream": (
        raw(b'error: {"code":400,"message":"%b","type":"invalid_request_error"}\n\n' % OVERFLOW_WORDS.encode()),
        OVERFLOW_WORDS,
    ),
    "B89 a named event": (raw(b'event:error\ndata: {"code": 1234, "message": "not your day"}\n\n'), "not your day"),
    "B89 a named event in words": (raw(b"event: error\ndata: no such luck\n\n"), "no such luck"),
    "B89 ret": (whole({"ret": ["FAIL_SYS_USER_VALIDATE::illegal"]}), "FAIL_SYS_USER_VALIDATE::illegal"),
    "B89 detail": (whole({"detail": "Invalid token"}), "Invalid token"),
    "B89 detail in a stream": (events({"detail": "Invalid token"}), "Invalid token"),
    "B89 details with places": (
        status(422, {"detail": [{"loc": ["body", "model"], "msg": "field required"}]}), "body.model: field required"),
    "B89 code and message": (whole({"code": "InvalidParameter", "message": "wrong model"}), "wrong model"),
    "B89 a list": (status(400, [{"error": {"code": 400, "message": "no key", "status": "INVALID"}}]), "no key"),
    "B89 a list in a 200": (whole([{"error": {"code": 400, "message": "no key"}}]), "no key"),
    "B89 an error in an error": (
        status(400, {"error": {"message": "Provider said no", "metadata": {"raw": '{"error": {"message": "bad"}}'}}}),
        "Provider said no; bad",
    ),
    "B89 a number of its own": (
        whole({"choices": None, "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}),
        "insufficient balance",
    ),
    "B89 a proxy's page": (
        status(403, "<html><head><title>x</title></head><body><h1>403</h1>Blocked by policy</body></html>"),
        "403 Blocked by policy",
    ),
    "a template": (status(500, {"error": {"code": 500, "message": "Jinja Exception: roles must alternate"}}),
                   "Jinja Exception: roles must alternate"),
    "no tools": (status(500, {"error": {"message": "gemma3 does not support tools"}}), "gemma3 does not support tools"),
}  # fmt: skip


@pytest.mark.parametrize("place", ERROR_PLACES)
def test_a_refusal_is_found_shown_in_its_words_and_not_repeated(place: str) -> None:
    """B88, B89: one request, wherever the server says why."""
    answer, words = ERROR_PLACES[place]
    error, call = failed(answer)
    assert (error.detail, call.notices, error.context_overflow) == (words, [], words == OVERFLOW_WORDS)


def test_words_are_bounded_and_safe() -> None:
    """B89"""
    error, _ = failed(whole({"ret": ["\x1b[2J" + "x" * 10_000]}))
    assert error.detail.startswith("\\x1b[2J")
    assert len(error.detail) <= 2048


def test_words_deep_inside_end_somewhere() -> None:
    deep: object = "x"
    for _ in range(500):
        deep = {"error": [deep]}
    assert words_of(deep) == ""


@pytest.mark.parametrize(
    ("answer", "attempts"),
    [
        (status(429, {"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}), 1),
        (status(429, {"error": {"type": "insufficient_quota"}}, headers=[("Retry-After", "60")]), 1),
        (status(429, {"error": {"message": "Your credit balance is too low"}}), 1),
        (status(429, {"code": "Arrearage", "message": "your account is in arrears"}), 1),
        (status(503, {"error": {"message": "insufficient_user_quota: top up, see billing"}}), 1),
        (status(429, {"error": {"message": "Rate limit reached for m: Limit 30000, try again in 1.5s"}}), 4),
        (status(429, [{"error": {"message": "You exceeded your current quota. Please retry in 12.5s."}}]), 4),
        (status(429), 4),
    ],
)
def test_what_cannot_change_is_asked_once(answer: Answer, attempts: int) -> None:
    """B94: a quota that is used up, also with a Retry-After; a limit of the minute is waited for."""
    error, call = failed(*[answer] * attempts)
    assert (error.status, len(call.waits)) == (answer.status, attempts - 1)


def test_wait_that_is_asked_for_in_words_is_kept() -> None:
    """B94: Google names no Retry-After."""
    detail = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "37s"}
    refusal = status(429, [{"error": {"code": 429, "message": "quota exceeded", "details": [detail]}}])
    with ModelServer(refusal, text("done")) as server:
        call = Call(server.base_url)
        assert call.run() == "done"
    assert call.waits == [37.0]


OVERFLOWS = [
    (400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens.", 131072),
    (400, "Input exceeds max length", None),
    (400, "prompt token count of 128015 exceeds the limit of 128000", 128000),
    (400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", 1048576),
    (400, "Your request exceeded model token limit: 262144", 262144),
    (400, "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
     32768),
    (400, "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]", 30720),
    (400, "The decoder prompt (length 5000) is longer than the maximum model length of 4096.", 4096),
    (400, "prompt is too long: 213462 tokens > 200000 maximum", 200000),
    (400, "input length and `max_tokens` exceed context limit: 199000 + 8192 > 200000", None),
    (400, "Input is too long for requested model.", None),
    (422, "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and "
     "1 `max_new_tokens`", 4096),
    (400, "invalid params, context window exceeds limit (2013)", None),
    (400, "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context "
     "length of only 4096 tokens", 4096),
    (400, "prompt too long; exceeded max context length by 312 tokens", None),
    (400, "输入长度超过限制", None),
    (413, "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested 7321, please reduce your "
     "message size and try again.", None),
    (413, "", None),
    (0, "request (2010 tokens) exceeds the available context size (1024 tokens), try increasing it", 1024),
    (500, "the request exceeds the available context size", None),
]  # fmt: skip


@pytest.mark.parametrize(("code", "words", "window"), OVERFLOWS)
def test_too_long_a_conversation_is_understood_by_its_sense(code: int, words: str, window: int | None) -> None:
    """B115"""
    assert is_overflow(code, words)
    assert parse_stated_window(words) == window


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (400, "max_tokens is too large: 100000. This model supports at most 8192 completion tokens"),
        (400, "`max_tokens` must be less than or equal to `8192`"),
        (400, "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40"),
        (400, "Invalid 'tools': array too long. Expected an array with maximum length 128"),
        (400, "Invalid request: the maximum number of tools is 128"),
        (400, "tools.0.name: String should have at most 64 characters"),
        (400, "temperature exceeds its maximum"),
        (400, "The image exceeds the limit of 5 MB"),
        (429, "Rate limit reached: too many tokens per minute"),
        (401, "the token has expired; the limit is one hour"),
        (400, "unknown model"),
        (503, "the model is overloaded"),
        (400, "Unexpected role 'user' after role 'tool'"),
        (400, "messages with role 'tool' must be a response to a preceding message"),
        (404, "context length"),
    ],
)
def test_other_limits_are_not_taken_for_it(code: int, words: str) -> None:
    """B115"""
    assert not is_overflow(code, words)


@pytest.mark.parametrize(
    ("code", "words", "maybe"),
    [
        (400, "", True),
        (400, "upstream said: too big, sorry", True),
        (422, "le contexte dépasse la limite (max 4096)", True),
        (400, "unknown model", False),
        (401, "too long", False),
    ],
)
def test_what_is_not_understood_may_be_it(code: int, words: str, *, maybe: bool) -> None:
    """B115: tried once with less, by the loop."""
    assert may_be_overflow(code, words) is maybe


@pytest.mark.parametrize(
    ("code", "words", "loading"),
    [
        (503, "Loading model", True),
        (503, "Model m is currently loading", True),
        (503, "llm server loading model", True),
        (503, "the model is not loaded yet", True),
        (503, "Service warming up", True),
        (503, "overloaded", False),
        (503, "too much load on this model's server", False),
        (400, "error loading model: no such file", False),
    ],
)
def test_server_that_loads_its_model_is_known(code: int, words: str, *, loading: bool) -> None:
    """B116"""
    assert is_loading(code, words) is loading


LOADING = status(503, {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}})


def test_loading_is_waited_for_and_said_once() -> None:
    """B116: ten looks are no ten attempts."""
    with ModelServer(*[LOADING] * 10, text("done")) as server:
        call = Call(server.base_url)
        assert call.run() == "done"
    assert (call.waits, call.notices) == (
        [2.0] * 10,
        ["the model's server is loading its model; waiting for it, 300 s at most"],
    )


def test_loading_that_does_not_end_ends_the_wait() -> None:
    """B116: up to the limit of a start, then as any other failure."""
    clock = iter(range(0, 100_000, 50))
    looks = int(START_LIMIT_S // 50)
    with ModelServer(*[LOADING] * (looks + 20)) as server:
        call = Call(server.base_url, now=lambda: float(next(clock)), limits=Limits(total_s=100_000.0))
        error = call.fail()
    assert (error.status, error.message.endswith("(4 attempts)")) == (503, True)
    assert 4 <= len(server.requests) <= looks + 4


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1", "/v1"),
        ("/v1/", "/v1"),
        ("/v1/chat/completions", "/v1"),
        ("/v1/chat/completions/", "/v1"),
        ("/v1/completions", "/v1"),
        ("/v1/models", "/v1"),
        ("/v1/messages", "/v1"),
        ("", ""),
        ("/openai/deployments/my-chat", "/openai/deployments/my-chat"),
    ],
)
def test_endpoint_that_was_copied_along_is_left_off(path: str, expected: str) -> None:
    """B95"""
    assert parse_base_url(f"https://h{path}", allow_plain_http=False).path == expected


@pytest.mark.parametrize(
    ("host", "path", "expected"),
    [
        ("127.0.0.1", "", "/v1"),
        ("127.0.0.1", "/v1", None),
        ("127.0.0.1", "/api", "/v1"),
        ("127.0.0.1", "/api/v0", "/v1"),
        ("h", "/proxy", "/proxy/v1"),
        ("h", "/api/paas/v4", None),
        ("h", "/v1beta/openai", None),
        ("generativelanguage.googleapis.com", "", "/v1beta/openai"),
        ("generativelanguage.googleapis.com", "/v1beta", "/v1beta/openai"),
        ("openrouter.ai", "/v1", "/api/v1"),
        ("api.groq.com", "/v1", "/openai/v1"),
    ],
)
def test_where_the_api_may_be_instead(host: str, path: str, expected: str | None) -> None:
    """B95"""
    assert other_path(host, path) == expected


def only_at(path: str, otherwise: Answer) -> Rule:
    return lambda request: text("done") if request.path == path else otherwise


NOWHERE = {
    "llama.cpp": status(404, {"error": {"code": 404, "message": "File Not Found", "type": "not_found_error"}}),
    "FastAPI": status(404, {"detail": "Not Found"}),
    "Ollama": status(404, "404 page not found"),
    "LM Studio": whole({"error": "Unexpected endpoint or method. (POST /chat/completions)"}),
    "a web page": whole("<html>Welcome</html>"),
    "a method": status(405, {"detail": "Method Not Allowed"}),
}


@pytest.mark.parametrize("server_kind", NOWHERE)
def test_right_address_is_tried_once_used_and_said(server_kind: str) -> None:
    """B95: without /v1."""
    rule = only_at("/v1/chat/completions", NOWHERE[server_kind])
    with ModelServer(*[rule] * 3, models={"data": []}) as server:
        root = server.base_url.removesuffix("/v1")
        call = Call(root + "/")
        assert [call.run(), call.run()] == ["done", "done"]
        assert call.model.models() == ()
    server.assert_all_used()
    assert call.notices == [
        f"{root}/chat/completions is not the API; {root}/v1/chat/completions is, and is used: set base_url to it"
    ]
    assert [request.path for request in server.lookups] == ["/v1/models"]


def test_list_of_models_is_found_at_the_right_address_too() -> None:
    """B95"""
    with ModelServer(models=lambda path: {"data": [{"id": "m"}]} if path == "/v1/models" else None) as server:
        call = Call(server.base_url.removesuffix("/v1"))
        assert (call.model.models(), call.model.address, len(call.notices)) == (("m",), server.base_url, 1)


@pytest.mark.parametrize("end", ["/chat/completions", "/v1/chat/completions"])
def test_whole_endpoint_is_understood(end: str) -> None:
    """B95: no request is lost."""
    with ModelServer(only_at(end, status(404))) as server:
        call = Call(server.base_url.removesuffix("/v1") + end)
        assert (call.run(), call.notices) == ("done", [])


def test_address_that_was_asked_stands_in_the_error() -> None:
    """B95: neither is the API, so the one of base_url counts; its query, which may hold a key, is not shown."""
    with ModelServer(*[NOWHERE["Ollama"]] * 2) as server:
        root = server.base_url.removesuffix("/v1")
        call = Call(f"{root}/llm?key=hunter2hunter2")
        error = call.fail()
    server.assert_all_used()
    assert (error.message, error.detail, call.notices) == (
        f"the model's server {root}/llm/chat/completions answered 404 Not Found",
        "404 page not found",
        [],
    )


def test_unknown_model_names_those_that_the_server_has() -> None:
    """B95: which is no question of the address."""
    unknown = status(404, {"error": {"message": "The model `m` does not exist", "code": "model_not_found"}})
    names = [f"m{number}" for number in range(10)]
    with ModelServer(unknown, models={"data": [{"id": name} for name in names]}) as server:
        error = Call(server.base_url.removesuffix("/v1")).fail()
    server.assert_all_used()
    assert error.hint == "the server has m0, m1, m2, m3, m4, m5, m6, m7 and 2 more"


NO_SUCH_MODEL = {
    "DeepSeek": status(400, {"error": {"message": "Model Not Exist", "type": "invalid_request_error"}}),
    "OpenRouter": status(400, {"error": {"message": "m is not a valid model ID", "code": 400}}),
    "Mistral": status(400, {"object": "error", "message": "Invalid model: m", "type": "invalid_model", "code": "1500"}),
    "DashScope": status(404, {"error": {"code": "model_not_found", "message": "The model `m` does not exist"}}),
    "Ollama": status(404, {"error": {"message": 'model "m" not found, try pulling it first'}}),
    "Anthropic": status(404, {"type": "error", "error": {"type": "not_found_error", "message": "model: m"}}),
    "Gemini": status(404, [{"error": {"code": 404, "message": "models/m is not found for API version v1main"}}]),
    "MiniMax": whole({"base_resp": {"status_code": 2013, "status_msg": "invalid params, unknown model 'm'"}}),
}


@pytest.mark.parametrize("server_kind", NO_SUCH_MODEL)
def test_unknown_model_is_understood_in_each_servers_words(server_kind: str) -> None:
    """R-231: whatever the status; the name that is nearest stands first, and the request is made once."""
    names = {"data": [{"id": "big"}, {"id": "m-2"}]}
    with ModelServer(NO_SUCH_MODEL[server_kind], models=names) as server:
        assert Call(server.base_url).fail().hint == "the server has m-2, big"
    server.assert_all_used()


@pytest.mark.parametrize(
    "words", ["This model does not support image input", "the model's context length is 8", "tool not found"]
)
def test_other_refusals_are_not_of_the_models_name(words: str) -> None:
    """R-231"""
    with ModelServer(*[status(400, {"error": {"message": words}})] * 3, models={"data": [{"id": "big"}]}) as server:
        assert "the server has" not in Call(server.base_url).fail().hint


@pytest.mark.parametrize(
    ("payload", "names"),
    [
        ({"data": [{"id": "a"}, {"id": "b"}]}, ("a", "b")),
        ({"models": [{"name": "models/gemini"}]}, ("gemini",)),
        ([{"id": "a"}], ("a",)),
        ({"data": [{"id": "a"}], "models": [{"name": "a"}, {"model": "b"}]}, ("a", "b")),
        ({"data": [None, 3, {"id": 4}]}, ()),
        (None, ()),
    ],
)
def test_lists_of_models(payload: object, names: tuple[str, ...]) -> None:
    assert list_names(payload) == names


@contextmanager
def dripping(send: Callable[[socket.socket, threading.Event], None]) -> Iterator[str]:
    """A server that does what it likes with the connection."""
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                try:
                    send(connection, done)
                except OSError:
                    return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        done.set()
        thread.join()


def head_byte_by_byte(connection: socket.socket, done: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    while not done.wait(0.05):
        connection.sendall(b"x")


def endless_continue(connection: socket.socket, done: threading.Event) -> None:
    while not done.wait(0.001):
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")


def body_byte_by_byte(connection: socket.socket, done: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while not done.wait(0.05):
        connection.sendall(b"1;")


@pytest.mark.parametrize("send", [head_byte_by_byte, endless_continue, body_byte_by_byte])
def test_limits_hold_for_the_whole_of_a_call(send: Callable[[socket.socket, threading.Event], None]) -> None:
    """F13: each byte comes in time, the answer never."""
    with dripping(send) as base_url:
        error = Call(base_url, limits=Limits(total_s=0.6, idle_s=30.0)).fail()
    assert error.message.startswith("the model did not finish its answer within 0.6 s")


def test_limit_of_a_connection_holds_for_a_proxy_that_drips() -> None:
    """F13: the answer to a CONNECT too."""
    with dripping(head_byte_by_byte) as proxy:
        env = {"https_proxy": proxy.removesuffix("/v1")}
        error = Call("https://api.example/v1", env=env, limits=Limits(total_s=1.0, connect_s=0.5)).fail()
    assert "no connection within 0.5 s" in error.message or "did not finish" in error.message


def test_stream_that_ends_with_words_of_its_own_is_a_reply() -> None:
    """B89: what stands beside the chunks is no error."""
    timings = {"timings": {"cache_n": 1}, "id": "x"}
    with ModelServer(events(timings, delta(content="hi"), {"message": ""}, delta("stop"))) as server:
        assert Call(server.base_url).run() == "hi"
