"""The connection to a model's server is kept from one request to the next, and never at the price of an answer."""

from __future__ import annotations

import io
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import pytest

from odek.cancel import CancelToken, use_token
from odek.errors import Cancelled
from odek.model.errors import ModelError
from odek.model.http import Effects, HttpModel
from odek.model.http1 import ConnectionEnded, HttpProtocolError, Response
from odek.model.provider import RequestOptions
from odek.model.types import Message

ASK = (Message(role="user", content="go"),)
PATIENCE_S = 30
BODY = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}'
STREAM = b'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


def head(*lines: str, version: str = "1.1") -> bytes:
    return "\r\n".join((f"HTTP/{version} 200 OK", *lines, "", "")).encode()


def whole(*lines: str, version: str = "1.1") -> bytes:
    return head(f"Content-Length: {len(BODY)}", *lines, version=version) + BODY


def chunked(*chunks: bytes) -> bytes:
    return head("Transfer-Encoding: chunked") + b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)


KEPT = {
    "with a length": whole(),
    "in chunks": chunked(BODY, b""),
    "as a stream": chunked(STREAM, b""),
    "as a stream whose end comes behind its text": chunked(STREAM[:-14], STREAM[-14:], b""),
}
NOT_KEPT = {
    "the server says so": whole("Connection: Close"),
    "an old server": whole(version="1.0"),
    "no length": head() + BODY,
    "a stream without its end": chunked(STREAM),
    "more behind the end": chunked(STREAM, b"data: x\n\n"),
}


class Server:
    """Answers the requests of each connection with what is scripted for it; None: it closes without an answer."""

    def __init__(self, *connections: Sequence[bytes | None]) -> None:
        self._script = connections
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        self.served: list[int] = []
        """of each connection, how many requests came"""
        self.gone = threading.Event()
        """set when a client has closed, or the server"""
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        for number, answers in enumerate(self._script):
            with suppress(OSError):
                connection, _ = self._listener.accept()
                self.served.append(0)
                with connection, connection.makefile("rb") as file:
                    for answer in answers:
                        if not self._read_request(file):
                            break
                        self.served[number] += 1
                        if answer is None:
                            break
                        connection.sendall(answer)
                    else:
                        connection.settimeout(0.5 if number + 1 < len(self._script) else PATIENCE_S)
                        with suppress(TimeoutError):
                            file.read(1)
                self.gone.set()

    @staticmethod
    def _read_request(file: io.BufferedReader) -> bool:
        length = 0
        while line := file.readline().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split()[1])
        return bool(file.read(length))

    def close(self) -> None:
        self._listener.close()


@contextmanager
def asked(*connections: Sequence[bytes | None], now: Iterator[float] | None = None) -> Iterator[tuple[Server, Model]]:
    server = Server(*connections)
    yield server, Model(server.url)
    server.close()


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so() and time.monotonic() < deadline:
        time.sleep(0.01)


class Model:
    def __init__(self, url: str) -> None:
        self.notices: list[str] = []
        self.time = 1000.0
        self.model = HttpModel(
            base_url=url,
            options=RequestOptions(model="m"),
            env={},
            on_notice=self.notices.append,
            effects=Effects(sleep=lambda _: None, now=lambda: self.time),
        )

    def ask(self) -> str:
        return self.model.complete(ASK, (), lambda _: None).message.content


@pytest.mark.parametrize("answer", KEPT.values(), ids=KEPT)
def test_next_request_goes_on_the_same_connection(answer: bytes) -> None:
    """R-252."""
    with asked([answer, answer, whole()]) as (server, model):
        assert [model.ask(), model.ask(), model.ask()] == ["hi"] * 3
        assert (server.served, model.notices) == ([3], [])


def test_request_takes_the_connection_that_was_opened_for_it() -> None:
    """R-256: of which there is one, however often it is asked for."""
    with asked([whole(), whole()]) as (server, model):
        for _ in range(3):
            model.model.connect()
            wait_until(lambda: bool(server.served and model.model._route._kept))
        assert server.served == [0]
        assert [model.ask(), model.ask()] == ["hi"] * 2
        assert (server.served, model.notices) == ([2], [])


def test_connection_that_could_not_be_opened_ahead_is_the_requests_matter() -> None:
    """R-256: and one that the server gives up is left in silence."""
    server = Server([], [whole()])
    model = Model(server.url)
    model.model.connect()
    assert server.gone.wait(PATIENCE_S)
    assert (model.ask(), server.served, model.notices) == ("hi", [0, 1], [])
    server.close()
    refused = Model("http://127.0.0.1:9/v1")
    refused.model.connect()
    with pytest.raises(ModelError):
        refused.ask()


@pytest.mark.parametrize("answer", NOT_KEPT.values(), ids=NOT_KEPT)
def test_connection_that_cannot_be_kept_is_left(answer: bytes) -> None:
    with asked([answer], [whole()]) as (server, model):
        assert model.ask() == "hi"
        assert (server.gone.wait(PATIENCE_S), model.ask()) == (True, "hi")
        assert (server.served, model.notices) == ([1, 1], [])


def test_connection_that_the_server_has_closed_meanwhile_is_not_used() -> None:
    """R-252: it said nothing of it in its answer."""
    with asked([whole()], [whole()]) as (server, model):
        model.ask()
        assert server.gone.wait(PATIENCE_S)
        assert (model.ask(), server.served, model.notices) == ("hi", [1, 1], [])


def test_request_on_a_kept_connection_that_gets_no_byte_is_sent_once_more_on_a_new_one() -> None:
    """R-252: the server closed it while the request was on its way."""
    with asked([whole(), None], [whole()]) as (server, model):
        assert [model.ask(), model.ask()] == ["hi", "hi"]
        assert (server.served, model.notices) == ([2, 1], [])


def test_request_on_a_new_connection_that_gets_no_byte_is_a_failure_that_is_said() -> None:
    with asked([None], [whole()]) as (server, model):
        assert model.ask() == "hi"
        assert (server.served, len(model.notices)) == ([1, 1], 1)


def test_answer_that_has_begun_on_a_kept_connection_is_not_asked_for_again_in_silence() -> None:
    """R-252: never after a byte of an answer."""
    with asked([whole(), b"HTTP/1.1 2"], [whole()]) as (server, model):
        assert [model.ask(), model.ask()] == ["hi", "hi"]
        assert (server.served, len(model.notices)) == ([2, 1], 1)


def test_connection_that_was_idle_for_long_is_left() -> None:
    """R-252: a router on the way may have forgotten it, and would swallow the request."""
    with asked([whole()], [whole()]) as (server, model):
        model.ask()
        model.time += 60
        assert (model.ask(), server.served) == ("hi", [1, 1])


def test_cancel_of_a_request_on_a_kept_connection_closes_it_and_is_raised() -> None:
    """R-101: what looks like the server's goodbye is the cancel's, and is not sent again."""
    with asked([whole(), b""]) as (server, model):
        model.ask()
        token = CancelToken()
        threading.Timer(0.3, token.cancel).start()
        with use_token(token), pytest.raises(Cancelled):
            model.ask()
        assert server.gone.wait(PATIENCE_S)
        assert server.served == [2]


def read(data: bytes) -> tuple[Response, bytes]:
    response = Response(io.BufferedReader(io.BytesIO(data)))  # type: ignore[arg-type]
    body = b""
    while piece := response.read1(7):
        body += piece
    return response, body


def test_head_is_read_as_servers_write_it() -> None:
    data = (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200\r\nX-Long:  a\r\n\tb\r\nRetry-After: 1\nretry-after:2\r\n"
        b"Content-Length: 12\r\n\r\nhello, world and more"
    )
    response, body = read(data)
    assert (response.status, response.reason, body) == (200, "", b"hello, world")
    assert (response.headers.get("x-long"), response.headers.get_all("Retry-After")) == ("a b", ["1", "2"])
    assert (response.headers.get("none"), response.is_read, response.is_kept) == ("", True, True)


def test_chunks_may_have_extensions_and_trailers() -> None:
    response, body = read(
        head("Transfer-Encoding: Chunked") + b"5;x=y\r\nhello\r\nA\r\n0123456789\r\n0\r\nX: y\r\n\r\n"
    )
    assert (body, response.is_kept, response.is_read) == (b"hello0123456789", True, True)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", ConnectionEnded),
        (b"HTTP/1.1 200 OK\r\nX: y", ConnectionEnded),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 300, HttpProtocolError),
        (b"HTTP/1.1 200 " + b"x" * 70_000, HttpProtocolError),
        (b"HTTP/2 200 OK\r\n\r\n", HttpProtocolError),
        (b"HTTP/1.1 2000 OK\r\n\r\n", HttpProtocolError),
        (b"HTTP/1.1 099 OK\r\n\r\n", HttpProtocolError),
        (b"SSH-2.0-OpenSSH_9.9\r\n", HttpProtocolError),
        (chunked(b"hello"), ConnectionEnded),
        (head("Transfer-Encoding: chunked") + b"9\r\nhello", ConnectionEnded),
        (head("Transfer-Encoding: chunked") + b"-5\r\nhello", HttpProtocolError),
        (head("Transfer-Encoding: chunked") + b"2\r\nhello", HttpProtocolError),
    ],
)
def test_what_is_not_http_is_an_error(data: bytes, error: type[Exception]) -> None:
    with pytest.raises(HttpProtocolError) as caught:
        read(data)
    assert type(caught.value) is error


@pytest.mark.parametrize("length", ["-1", "x", "1, 1", "\u0661"])
def test_length_that_is_not_a_number_is_none(length: str) -> None:
    """The body then ends with the connection."""
    response, body = read(head()[:-2] + f"Content-Length: {length}\r\n\r\nhello".encode())
    assert (body, response.is_kept) == (b"hello", False)


def test_a_length_that_nothing_has_is_an_error_of_the_server() -> None:
    """As digits that Python does not take for a number; not odek's bug."""
    for length in ("9" * 19, "0" * 5000):
        with pytest.raises(HttpProtocolError, match="a length that nothing has"):
            read(head()[:-2] + f"Content-Length: {length}\r\n\r\nhello".encode())
