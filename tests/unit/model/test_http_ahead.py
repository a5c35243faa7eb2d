"""A request that is at work before its reply is asked for: it is the very same one, or nothing comes of it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from fakes.model_server import ModelServer, Step, raw, status, text

from odek.cancel import CancelToken, use_token
from odek.errors import Cancelled
from odek.model.errors import ModelError
from odek.model.http import Effects, HttpModel
from odek.model.provider import RequestOptions
from odek.model.types import Message, ToolSpec

PLANNED = (Message(role="system", content="in odek-1-1"), Message(role="user", content="go"))
PROVED = (Message(role="system", content="in odek-1-1-abcdef"), Message(role="user", content="go"))
SHELL = ToolSpec(name="shell", description="Run.", parameters={"type": "object", "properties": {}})
OTHER = ToolSpec(name="shell", description="Run in odek-1-1-abcdef.", parameters={"type": "object", "properties": {}})
PATIENCE_S = 30


class Asked:
    """A model, and what it has shown and noticed."""

    def __init__(self, base_url: str) -> None:
        self.shown: list[str] = []
        self.notices: list[str] = []
        self.model = HttpModel(
            base_url=base_url,
            options=RequestOptions(model="m"),
            env={},
            on_notice=self.notices.append,
            effects=Effects(sleep=lambda _: None),
        )

    def ask(self, messages: tuple[Message, ...] = PLANNED, tool: ToolSpec = SHELL) -> str:
        return self.model.complete(messages, (tool,), self.shown.append).message.content


@contextmanager
def served(*script: Step) -> Iterator[tuple[ModelServer, Asked]]:
    with ModelServer(*script) as server:
        yield server, Asked(server.base_url)
    server.assert_all_used()


def wait_for_requests(server: ModelServer, count: int) -> None:
    event = threading.Event()
    for _ in range(PATIENCE_S * 100):
        if len(server.requests) >= count:
            return
        event.wait(0.01)
    raise AssertionError(f"{len(server.requests)} requests")


def test_the_very_same_request_takes_the_reply_and_is_sent_once() -> None:
    """R-251: nothing is shown before it is asked for."""
    with served(text("hello")) as (server, asked):
        with asked.model.ahead(PLANNED, (SHELL,)):
            wait_for_requests(server, 1)
            assert asked.shown == []
            assert asked.ask() == "hello"
        assert "".join(asked.shown) == "hello"
        assert len(server.requests) == 1


@pytest.mark.parametrize(("messages", "tool"), [(PROVED, SHELL), (PLANNED, OTHER)])
def test_another_request_is_asked_anew_and_shows_nothing_of_the_first(
    messages: tuple[Message, ...], tool: ToolSpec
) -> None:
    """R-251: the proof differs from the plan in the prompt, or in a tool's description."""
    with served(text("of the plan"), text("of the proof")) as (server, asked):
        with asked.model.ahead(PLANNED, (SHELL,)):
            wait_for_requests(server, 1)
            assert asked.ask(messages, tool) == "of the proof"
        assert "".join(asked.shown) == "of the proof"


@pytest.mark.parametrize(
    ("first", "counted"),
    [
        pytest.param(text("of the plan", usage={"prompt_tokens": 10, "completion_tokens": 3}), (22, 7), id="whole"),
        pytest.param(text("of the plan", delay_s=1), (24, 4), id="cut off"),
        pytest.param(status(401, "no"), (12, 4), id="failed"),
    ],
)
def test_what_was_dropped_is_counted(first: Step, counted: tuple[int, int]) -> None:
    """R-232, R-251: it is billed; what was cut off had a prompt as long as that of the request in its place."""
    second = text("of the proof", usage={"prompt_tokens": 12, "completion_tokens": 4})
    with served(first, second) as (server, asked), asked.model.ahead(PLANNED, (SHELL,)):
        wait_for_requests(server, 1)
        begun = asked.model._begun
        assert begun is not None
        if counted != (24, 4):
            begun._thread.join(PATIENCE_S)
        reply = asked.model.complete(PROVED, (SHELL,), lambda _: None)
        assert (reply.message.content, reply.usage.input_tokens, reply.usage.output_tokens) == (
            "of the proof",
            *counted,
        )


def test_only_the_first_request_can_take_it() -> None:
    with served(text("one"), text("two")) as (server, asked), asked.model.ahead(PLANNED, (SHELL,)):
        wait_for_requests(server, 1)
        assert [asked.ask(), asked.ask()] == ["one", "two"]


@pytest.mark.parametrize("failure", [status(503, "busy"), raw(b"")])
def test_request_that_failed_is_tried_again_and_said_when_it_is_asked_for(failure: Step) -> None:
    with served(failure, text("hello")) as (server, asked), asked.model.ahead(PLANNED, (SHELL,)):
        wait_for_requests(server, 1)
        assert asked.notices == []
        assert asked.ask() == "hello"
        assert len(asked.notices) == 1


def test_refusal_is_raised_when_the_reply_is_asked_for() -> None:
    with served(status(401, "no")) as (server, asked), asked.model.ahead(PLANNED, (SHELL,)):
        wait_for_requests(server, 1)
        with pytest.raises(ModelError, match="401"):
            asked.ask()


@contextmanager
def silent_server() -> Iterator[tuple[str, threading.Event, threading.Event]]:
    """Yield the URL of a server that never answers, what is set when it has a request, and when the client is gone."""
    heard, gone = threading.Event(), threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                heard.set()
                while connection.recv(65536):
                    pass
                gone.set()

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1", heard, gone


def test_request_that_nothing_asks_for_is_cut_off_with_the_block() -> None:
    """R-251: the sandbox was refused."""
    with silent_server() as (url, heard, gone):
        with Asked(url).model.ahead(PLANNED, (SHELL,)):
            assert heard.wait(PATIENCE_S)
        assert gone.wait(PATIENCE_S)


def test_cancel_ends_the_wait_for_the_reply_and_the_request() -> None:
    token = CancelToken()
    with silent_server() as (url, heard, gone):
        asked = Asked(url)
        with asked.model.ahead(PLANNED, (SHELL,)):
            assert heard.wait(PATIENCE_S)
            threading.Timer(0.2, token.cancel).start()
            with use_token(token), pytest.raises(Cancelled):
                asked.ask()
            assert gone.wait(PATIENCE_S)
