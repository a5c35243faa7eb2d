"""The rules by which the fakes of a model judge every request: each catches what it is there for."""

from __future__ import annotations

import copy
import http.client
import json
from collections.abc import Callable
from typing import Any

import pytest
from fakes.model import ScriptedModel, text_reply
from fakes.model_server import ModelServer, text
from fakes.request_rules import broken_rules

from odek.model.types import Message, ToolCall, ToolSpec

OPENAI, ANTHROPIC = "/v1/chat/completions", "/v1/messages"
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
Request = dict[str, Any]


def openai_request() -> Request:
    function = {"name": "shell", "description": "Run.", "parameters": copy.deepcopy(SCHEMA)}
    calls = [
        {"id": name, "type": "function", "function": {"name": "shell", "arguments": '{"command": "ls"}'}}
        for name in ("a", "b")
    ]
    return {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "a task"},
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": "a", "content": ""},
            {"role": "tool", "tool_call_id": "b", "content": "x"},
        ],
        "tools": [{"type": "function", "function": function}],
    }


def anthropic_request() -> Request:
    uses = [{"type": "tool_use", "id": name, "name": "shell", "input": {}} for name in ("a", "b")]
    results = [{"type": "tool_result", "tool_use_id": name, "content": "x"} for name in ("a", "b")]
    return {
        "model": "m",
        "max_tokens": 10,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "a task"}]},
            {"role": "assistant", "content": uses},
            {"role": "user", "content": results},
        ],
        "tools": [{"name": "shell", "description": "Run.", "input_schema": copy.deepcopy(SCHEMA)}],
    }


def broken(path: str, request: Request) -> list[str]:
    return broken_rules(path, json.dumps(request).encode())


def test_good_requests_pass() -> None:
    assert (broken(OPENAI, openai_request()), broken(ANTHROPIC, anthropic_request())) == ([], [])


def parameters(request: Request) -> Request:
    found: Request = request["tools"][0]["function"]["parameters"]
    return found


Damage = Callable[[Request], object]


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        (lambda r: r["messages"].pop(3), "a result without its call, or out of order"),
        (lambda r: r["messages"].insert(4, r["messages"].pop(3)), "out of order"),
        (lambda r: r["messages"].pop(), "calls without results at the end: ['b']"),
        (lambda r: r["messages"].insert(4, {"role": "user", "content": "x"}), "calls without results before it"),
        (lambda r: r["messages"].pop(2), "a result without its call"),
        (lambda r: r["messages"][2]["tool_calls"][1].update(id="a"), "two calls with one id"),
        (lambda r: r["messages"][2]["tool_calls"][1].update(id=""), "a call without an id"),
        (lambda r: r["messages"][2]["tool_calls"][0]["function"].update(name="a b"), "the name 'a b'"),
        (
            lambda r: r["messages"][2]["tool_calls"][0]["function"].update(arguments="[1]"),
            "arguments that are no object",
        ),
        (lambda r: r["messages"][2]["tool_calls"][0]["function"].update(arguments='{"co'), "JSONDecodeError"),
        (lambda r: r["messages"].insert(1, dict(r["messages"][1])), "user after user"),
        (lambda r: r["messages"].append({"role": "user", "content": "and"}), "user after tool"),
        (lambda r: r["messages"].append({"role": "system", "content": "x"}), "a system message in the middle"),
        (lambda r: r["messages"].append({"role": "assistant", "content": "x"}), "nothing is asked at the end"),
        (lambda r: r["messages"][1].update(content=""), "it is empty"),
        (lambda r: r["messages"][1].update(content=None), "content that is no text"),
        (lambda r: r["messages"][1].update(role="tools"), "the role 'tools'"),
        (lambda r: r["messages"][1].update(content="\ud83d"), "no JSON in UTF-8"),
        (lambda r: r["messages"].clear(), "no messages"),
        (lambda r: r.pop("messages"), "a field is missing"),
        (lambda r: r.update(model=""), "no model"),
        (lambda r: r.update(temperature=3), "the temperature"),
        (lambda r: r.update(temperature=float("nan")), "NaN is no JSON"),
        (lambda r: r.update(stream=False), "options of a stream without one"),
        (lambda r: r.update(tools=[]), "an empty list of tools"),
        (lambda r: r["tools"].append(r["tools"][0]), "no name, or that of another tool"),
        (lambda r: parameters(r).pop("properties"), "no properties"),
        (lambda r: parameters(r).update(required=["other"]), "something is required that is not described"),
        (lambda r: parameters(r)["properties"]["command"].update(type="text"), "arguments.command: the type 'text'"),
        (lambda r: parameters(r)["properties"]["command"].update(type="array"), "KeyError('items')"),
    ],
)
def test_what_a_provider_refuses_is_seen(damage: Damage, rule: str) -> None:
    """B42, B44: pairing, order, ids, doubled messages, UTF-8, the schemas of the tools."""
    request = openai_request()
    damage(request)
    assert rule in " ".join(broken(OPENAI, request))


@pytest.mark.parametrize(
    ("damage", "rule"),
    [
        (lambda r: r["messages"][2]["content"].pop(), "results ['a'] for calls ['a', 'b']"),
        (lambda r: r["messages"].pop(), "calls without results at the end"),
        (lambda r: r["messages"].insert(0, dict(r["messages"][0])), "turn 1: role user"),
        (lambda r: r["messages"][1]["content"][1].update(id="a"), "for calls ['a', 'a']"),
        (lambda r: r["messages"][0]["content"][0].update(text=" "), "an empty text"),
        (lambda r: r["tools"][0].update(name="a b"), "no name, or that of another tool"),
        (lambda r: r.pop("tools"), "no tools declared"),
    ],
)
def test_what_the_other_provider_refuses_is_seen(damage: Damage, rule: str) -> None:
    request = anthropic_request()
    damage(request)
    assert rule in " ".join(broken(ANTHROPIC, request))


def ask_badly() -> None:
    request = openai_request()
    request["messages"].pop()
    with ModelServer(text("hi")) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        connection.request("POST", OPENAI, body=json.dumps(request))
        assert connection.getresponse().status == 200
        connection.close()


def test_server_fails_a_test_that_looks_at_nothing() -> None:
    """One bad request anywhere in the suite is seen, whatever the test is about."""
    with pytest.raises(AssertionError, match="a provider would refuse"):
        ask_badly()


def test_scripted_model_refuses_what_a_provider_would() -> None:
    """The same rules without a server, for both APIs."""
    task = Message(role="user", content="x")
    call = Message(role="assistant", tool_calls=(ToolCall(id="a", name="shell", arguments="{}"),))
    spec = ToolSpec(name="shell", description="", parameters={"type": "object"})
    for messages, specs in (((task, call), ()), ((task,), (spec,))):
        with pytest.raises(AssertionError, match="a provider would refuse"):
            ScriptedModel([text_reply("hi")]).complete(messages, specs, lambda _: None)
