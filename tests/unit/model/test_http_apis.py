"""http.py with both APIs: the same promises, what is learned from refusals, windows that are looked up."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fakes.model_server import ModelServer, calls, named_events, status, text

from odek.model.errors import ModelError
from odek.model.http import WINDOW_LOOKUP_TOKENS, Effects, HttpModel, ProviderName
from odek.model.provider import RequestOptions
from odek.model.types import Message, ToolSpec

ASK = (Message(role="user", content="go"),)
SHELL = ToolSpec(name="shell", description="Run.", parameters={"type": "object", "properties": {}})
BOTH = pytest.mark.parametrize("provider", ["openai", "anthropic"])
PATHS = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}


EFFECTS = Effects(sleep=lambda _: None, chance=lambda: 0.0)


def client(server: ModelServer, provider: ProviderName = "openai", **settings: Any) -> HttpModel:
    options = RequestOptions(model=settings.pop("model", "m"), temperature=0.0, **settings.pop("options", {}))
    given: dict[str, Any] = {"env": {}, "on_notice": lambda _: None, "effects": EFFECTS}
    return HttpModel(base_url=server.base_url, options=options, provider=provider, **(given | settings))


def ask(model: HttpModel, messages: tuple[Message, ...] = ASK) -> Message:
    return model.complete(messages, (SHELL,), lambda _: None).message


def refused(detail: str) -> Any:
    return status(400, {"type": "error", "error": {"type": "invalid_request_error", "message": detail}})


@BOTH
def test_conversation_with_calls(provider: ProviderName) -> None:
    """R-82: one script, two APIs; the server finds nothing to refuse."""
    with ModelServer(calls(("shell", {"command": "a"}), ("shell", {}), content="look"), text("done")) as server:
        model = client(server, provider, api_key="sk-secret-0123456789")
        asked = ask(model)
        results = tuple(
            Message(role="tool", content="ok", tool_call_id=call.id, name=call.name) for call in asked.tool_calls
        )
        assert ask(model, (*ASK, asked, *results)).content == "done"
    server.assert_all_used()
    assert [request.path for request in server.requests] == [PATHS[provider]] * 2
    assert [(call.id, json.loads(call.arguments)) for call in asked.tool_calls] == [
        ("call_1", {"command": "a"}),
        ("call_2", {}),
    ]
    headers = server.requests[0].headers
    key = {"authorization": "Bearer sk-secret-0123456789", "x-api-key": "sk-secret-0123456789"}
    mine = "authorization" if provider == "openai" else "x-api-key"
    assert {name: headers[name] for name in key if name in headers} == {mine: key[mine]}
    assert headers.get("anthropic-version") == (None if provider == "openai" else "2023-06-01")


@BOTH
def test_server_that_does_not_stream(provider: ProviderName) -> None:
    bodies = {
        "openai": {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]},
        "anthropic": {"content": [{"type": "text", "text": "hi"}], "stop_reason": "end_turn"},
    }
    with ModelServer(status(200, bodies[provider])) as server:
        assert ask(client(server, provider)).content == "hi"


def test_overloaded_in_the_stream_is_tried_again() -> None:
    """B40 (f), B41"""
    overloaded = named_events({"type": "error", "error": {"type": "overloaded_error", "message": "busy"}})
    notices: list[str] = []
    with ModelServer(overloaded, status(529, {"type": "error"}), text("done")) as server:
        assert ask(client(server, "anthropic", on_notice=notices.append)).content == "done"
    server.assert_all_used()
    assert len(notices) == 2


@BOTH
def test_key_in_an_error_is_not_shown(provider: ProviderName) -> None:
    answer = status(401, {"error": {"message": "bad key sk-secret-0123456789"}})
    with ModelServer(answer) as server, pytest.raises(ModelError) as caught:
        ask(client(server, provider, api_key="sk-secret-0123456789"))
    assert "sk-secret" not in caught.value.detail
    assert "[api key]" in caught.value.detail


@BOTH
def test_temperature_that_nobody_asked_for_is_left_out_when_it_is_refused(provider: ProviderName) -> None:
    error = refused("Unsupported value: 'temperature' does not support 0 with this model.")
    with ModelServer(error, text("one"), text("two")) as server:
        model = client(server, provider, options={"optional": frozenset({"temperature"})})
        assert [ask(model).content, ask(model).content] == ["one", "two"]
    server.assert_all_used()
    assert ["temperature" in request.json for request in server.requests] == [True, False, False]


@BOTH
def test_temperature_that_somebody_asked_for_is_an_error_when_it_is_refused(provider: ProviderName) -> None:
    with ModelServer(refused("temperature is not supported")) as server, pytest.raises(ModelError) as caught:
        ask(client(server, provider))
    server.assert_all_used()
    assert "temperature is not supported" in caught.value.detail


def test_several_options_are_learned_in_one_call() -> None:
    with ModelServer(
        refused("stream_options: unknown"), refused("temperature: unknown"), refused("reasoning_effort"), text("done")
    ) as server:
        options = {"thinking": "low", "optional": frozenset({"temperature", "thinking"})}
        assert ask(client(server, options=options)).content == "done"
    server.assert_all_used()
    assert {"stream_options", "temperature", "reasoning_effort"} & server.requests[-1].json.keys() == set()


def test_server_that_refuses_whatever_is_sent_is_not_asked_for_ever() -> None:
    with ModelServer(*[refused("max_tokens: 9 > 8; adaptive; temperature; thinking")] * 4) as server:
        options = {"thinking": "low", "optional": frozenset({"temperature", "thinking"})}
        with pytest.raises(ModelError):
            ask(client(server, "anthropic", options=options))
    assert 2 <= len(server.requests) <= 5


MODELS = {"data": [{"id": "m", "context_length": 8192}]}


@BOTH
def test_window_is_looked_up_once_and_only_when_it_matters(provider: ProviderName) -> None:
    """F-102: not at the start, not when it is known, one request."""
    with ModelServer(models=MODELS) as server:
        model = client(server, provider, api_key="sk-secret-0123456789")
        assert model.window(WINDOW_LOOKUP_TOKENS - 1) is None
        assert server.lookups == []
        assert [model.window(WINDOW_LOOKUP_TOKENS), model.window(10), model.window(10**6)] == [8192] * 3
    (lookup,) = server.lookups
    assert (lookup.method, lookup.path) == ("GET", "/v1/models")
    assert lookup.headers.get("authorization" if provider == "openai" else "x-api-key", "").endswith("0123456789")


def test_known_window_is_not_looked_up() -> None:
    """F-102"""
    with ModelServer(models=MODELS) as server:
        assert client(server, window=100).window(10**6) == 100
    assert server.lookups == []


@pytest.mark.parametrize(
    "models", [None, "no JSON", {"data": []}, status(401, "no"), status(302, b"", headers=(("Location", "/x"),))]
)
def test_failed_lookup_is_silent_and_not_repeated(models: object) -> None:
    notices: list[str] = []
    with ModelServer(models=models) as server:
        model = client(server, on_notice=notices.append)
        assert [model.window(10**6), model.window(10**6)] == [None, None]
    assert (len(server.lookups), notices) == (1, [])


def test_lookup_of_a_server_that_is_gone_is_silent() -> None:
    with ModelServer() as server:
        model = client(server)
    assert model.window(10**6) is None


def test_markers_for_the_cache_leave_the_system_prompt_where_it_is() -> None:
    """Runtime 7.4: servers of the plain kind would lose it otherwise."""
    said = Message(role="assistant", content="well")
    with ModelServer(text("hi")) as server:
        model = client(server, options={"caching": True})
        ask(model, (Message(role="system", content="be good"), *ASK, said, Message(role="user", content="more")))
    mark = {"cache_control": {"type": "ephemeral"}}
    assert server.requests[0].json["messages"] == [
        {"role": "system", "content": [{"type": "text", "text": "be good"} | mark]},
        {"role": "user", "content": [{"type": "text", "text": "go"} | mark]},
        {"role": "assistant", "content": "well"},
        {"role": "user", "content": "more"},
    ]
