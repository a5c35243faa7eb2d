"""A model call that is cancelled while its server is silent, in the main thread and in another one."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

import pytest

from odek.cancel import CancelToken, use_token
from odek.errors import Cancelled, Interrupted, TimeLimitReached
from odek.model.errors import ModelError
from odek.model.http import Effects, HttpModel
from odek.model.provider import RequestOptions
from odek.model.transport import Limits
from odek.model.types import Message

PATIENCE_S = 30
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
PIECE = b'data: {"choices":[{"index":0,"delta":{"content":"half"}}]}\n\n'
LATE = b'data: {"choices":[{"index":0,"delta":{"content":"late"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
BUSY = b"HTTP/1.1 429 Slow Down\r\nRetry-After: 60\r\nContent-Length: 0\r\n\r\n"
STARTING = b'HTTP/1.1 503 x\r\nContent-Length: 58\r\n\r\n{"error":{"code":503,"message":"Loading model","type":"x"}}'
ANNOUNCED = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
SMALL = (Message(role="user", content="go"),)
LARGE = (Message(role="user", content="x" * (24 << 20)),)

# what the server does before it falls silent: bytes that it sends, whether it reads the request
SILENCES: dict[str, tuple[bytes | None, tuple[Message, ...]]] = {
    "before it takes the connection": (None, SMALL),
    "while it takes the request": (None, LARGE),
    "before the head": (b"", SMALL),
    "in the head": (HEAD[:20], SMALL),
    "after the head": (HEAD, SMALL),
    "in the stream": (HEAD + PIECE, SMALL),
    "in a body whose length is known": (ANNOUNCED, SMALL),
    "between two tries": (BUSY, SMALL),
    "while it loads its model": (STARTING, SMALL),
}


@contextmanager
def silent_server(sends: bytes | None) -> Iterator[tuple[int, threading.Event, threading.Event]]:
    """Yield the port of a server, what is set when it has fallen silent, and what is set when the client has gone.

    When the client has gone, the rest of an answer is sent.
    """
    silent, gone = threading.Event(), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                if sends is not None:
                    connection.recv(65536)
                    connection.sendall(sends)
                silent.set()
                if sends is not None:
                    with suppress(OSError):
                        while connection.recv(65536):
                            pass
                    gone.set()
                    with suppress(OSError):
                        connection.sendall(LATE)
                else:
                    gone.wait(PATIENCE_S)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1], silent, gone
        finally:
            if sends is None:
                gone.set()
            thread.join(PATIENCE_S)


def model_at(url: str, *, env: dict[str, str] | None = None) -> HttpModel:
    return HttpModel(
        base_url=url, options=RequestOptions(model="m"), env=env or {}, on_notice=lambda _: None, allow_plain_http=True
    )


def outcome(work: Callable[[], object], token: CancelToken, until: threading.Event) -> BaseException | None:
    """Return what `work` raises in a thread whose token is cancelled when `until` is set."""
    raised: list[BaseException] = []

    def run() -> None:
        with use_token(token):
            try:
                work()
            except BaseException as error:
                raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert until.wait(PATIENCE_S)
    token.cancel(partial(Interrupted, 15))
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    return raised[0] if raised else None


@pytest.mark.parametrize("when", SILENCES)
def test_call_in_a_thread_is_left_whatever_the_server_does_not_say(when: str) -> None:
    """R-101: its own limits are two minutes of silence; what comes later is dropped."""
    sends, messages = SILENCES[when]
    shown: list[str] = []
    with silent_server(sends) as (port, silent, gone):
        model = model_at(f"http://127.0.0.1:{port}/v1")
        error = outcome(lambda: model.complete(messages, (), shown.append), CancelToken(), silent)
        assert isinstance(error, Interrupted)
        if sends is not None:
            assert gone.wait(PATIENCE_S)  # the server sees that nobody waits any more
    assert "late" not in "".join(shown)


@pytest.mark.parametrize("when", ["before TLS", "before the proxy's word"])
def test_call_is_left_while_it_connects(when: str) -> None:
    """R-101: there is no socket to shut down yet; the attempt is left to a thread of its own."""
    with silent_server(None) as (port, silent, _):
        env = {"https_proxy": f"http://127.0.0.1:{port}"} if when == "before the proxy's word" else {}
        host = "model.invalid" if env else f"127.0.0.1:{port}"
        model = model_at(f"https://{host}/v1", env=env)
        error = outcome(lambda: model.complete(SMALL, (), pytest.fail), CancelToken(), silent)
        assert isinstance(error, Interrupted)
        assert [thread.name for thread in threading.enumerate() if thread.name == "connect"] == ["connect"]


@pytest.mark.parametrize("ask", ["models", "window"])
def test_look_up_is_left(ask: str) -> None:
    """R-101: the list of models and the model's window are asked for in the same way."""
    with silent_server(b"") as (port, silent, _):
        model = model_at(f"http://127.0.0.1:{port}/v1")
        work = model.models if ask == "models" else partial(model.window, 1_000_000)
        assert isinstance(outcome(work, CancelToken(), silent), Interrupted)


@pytest.mark.parametrize("cause", [partial(Interrupted, 2), TimeLimitReached])
def test_main_thread_is_left_too(cause: Callable[[], Cancelled]) -> None:
    """R-101: by a timer, or by a signal handler that cancels and raises nothing."""
    with silent_server(HEAD + PIECE) as (port, silent, _):
        model = model_at(f"http://127.0.0.1:{port}/v1")
        token = CancelToken()

        def cancel() -> None:
            silent.wait(PATIENCE_S)
            token.cancel(cause)

        threading.Thread(target=cancel, daemon=True).start()
        with pytest.raises(type(cause())), use_token(token):
            model.complete(SMALL, (), lambda _: None)


def test_another_call_goes_on() -> None:
    """R-101: two conversations in two threads; the cancel of one shuts down its socket alone."""
    token, shown = CancelToken(), list[str]()
    release = threading.Event()
    with silent_server(HEAD) as (port, silent, _), socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(HEAD + PIECE)
                release.wait(PATIENCE_S)
                connection.sendall(LATE)

        threading.Thread(target=serve, daemon=True).start()
        replies: list[str] = []

        def second() -> None:
            model = model_at(f"http://127.0.0.1:{listener.getsockname()[1]}/v1")
            with use_token(CancelToken()):
                replies.append(model.complete(SMALL, (), shown.append).message.content)

        other = threading.Thread(target=second, daemon=True)
        other.start()
        model = model_at(f"http://127.0.0.1:{port}/v1")
        assert isinstance(outcome(lambda: model.complete(SMALL, (), lambda _: None), token, silent), Interrupted)
        release.set()
        other.join(PATIENCE_S)
    assert replies == ["halflate"]


def test_a_cancelled_token_lets_no_call_begin_and_a_heard_one_does() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
        token = CancelToken()
        token.cancel()
        with use_token(token), pytest.raises(Cancelled):
            model_at(url).complete(SMALL, (), pytest.fail)

        def refuse() -> None:
            for _ in range(2):  # the first try was under way already, or not
                connection, _ = listener.accept()
                with connection:
                    if connection.recv(65536):
                        connection.sendall(b"HTTP/1.1 400 x\r\nContent-Length: 0\r\n\r\n")
                        return

        threading.Thread(target=refuse, daemon=True).start()
        with use_token(token), pytest.raises(ModelError, match="400"):
            model_at(url).complete(SMALL, (), pytest.fail)


def test_time_to_connect_is_limited_whatever_connecting_waits_for() -> None:
    """A look-up of a name takes no time-out of a socket; here a clock that runs ahead stands for one that hangs."""
    clock = itertools.count(0, 8)
    with silent_server(None) as (port, _, _):
        model = HttpModel(
            base_url=f"https://127.0.0.1:{port}/v1",
            options=RequestOptions(model="m"),
            env={},
            on_notice=lambda _: None,
            limits=Limits(total_s=10**6),
            effects=Effects(sleep=lambda _: None, now=lambda: float(next(clock))),
        )
        with pytest.raises(ModelError, match="could not be reached: no connection within 30 s"):
            model.complete(SMALL, (), pytest.fail)
