"""One conversation goes through every kind of server, each as strict as its like, and is refused for good by none."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any

import pytest
from fakes.model_server import Step, calls, text
from fakes.tools import FakeToolbox
from fakes.zoo import ZOO, Keeper, Kind

from odek.agent.loop import Agent
from odek.errors import OdekError
from odek.model.http import Effects, HttpModel
from odek.model.provider import RequestOptions
from odek.model.types import Message, ToolCall, ToolSpec
from odek.session.codec import decode_message, encode_message
from odek.tools.registry import ToolResult

ANSWER_WAYS = pytest.mark.parametrize("streams", [True, False], ids=["stream", "whole"])
SHELL = ToolSpec(
    name="shell", description="Run.", parameters={"type": "object", "properties": {"command": {"type": "string"}}}
)
MOST_LESSONS = 4
"""requests that a server may refuse before it has all that it wants"""


def carry_out(call: ToolCall) -> ToolResult:
    """Carry out nothing, and refuse what is dangerous."""
    refused = "rm -rf" in call.arguments
    return ToolResult(text='{"error":"refused"}' if refused else "ok", failed=refused)


def run(*commands: str) -> Step:
    return calls(*(("shell", {"command": command}) for command in commands), content="I look.")


SCRIPT: tuple[Step, ...] = (
    run("ls"),
    run("cat a", "cat b"),
    run("rm -rf /"),
    calls(("shell", '{"command": "make te'), finish_reason="length"),
    text("first answer"),
    run("make"),
    text("second answer"),
    run("make test"),
    text("a summary"),
)


def stored(messages: Sequence[Message]) -> list[Message]:
    """Return `messages` as a session on disk gives them back."""
    lines = [json.dumps(encode_message(message, {})) for message in messages]
    return [decode_message(json.loads(line))[0] for line in lines]


def client(server: Keeper) -> HttpModel:
    return HttpModel(
        base_url=server.base_url,
        options=RequestOptions(model="m", temperature=0.0, optional=frozenset({"temperature"})),
        provider="anthropic" if server.kind.provider == "anthropic" else "openai",
        api_key="sk-0123456789",
        env={},
        on_notice=lambda _: None,
        effects=Effects(sleep=lambda _: None),
    )


def agent(server: Keeper, history: Sequence[Message], *, max_iterations: int = 20) -> Agent:
    tools: Any = FakeToolbox(carry_out, specs=(SHELL,))
    box: Any = tools
    return Agent(
        model=client(server),
        tools=box,
        sink=lambda _: None,
        max_iterations=max_iterations,
        system="be brief",
        history=history,
    )


def converse(server: Keeper, history: Sequence[Message]) -> list[Message]:
    """Have the whole of SCRIPT with one server: a session, its continuation, and a task that reaches its limit."""
    first = agent(server, stored(history))
    assert first.run("look around") == "first answer"
    again = agent(server, stored(first.messages))
    assert again.run("and now build it") == "second answer"
    short = agent(server, stored(again.messages), max_iterations=1)
    with pytest.raises(OdekError, match="max iterations") as caught:
        short.run("test it")
    assert caught.value.detail == "a summary"
    return short.messages


@ANSWER_WAYS
@pytest.mark.parametrize("kind", ZOO.values(), ids=list(ZOO))
def test_conversation_with_each_kind_of_server(kind: Kind, *, streams: bool) -> None:
    """B81 to B92: call, calls at once, a refusal, a reply that is cut off, a session that goes on, a summary."""
    with Keeper(kind, *SCRIPT, streams=streams) as server:
        converse(server, ())
    server.assert_script_used()
    # three clients, each of which learns anew
    assert len(server.refusals) <= 3 * MOST_LESSONS, server.refusals


@ANSWER_WAYS
def test_conversation_moves_from_server_to_server_in_a_ring(*, streams: bool) -> None:
    """B83, B85, B86: what one has sent, the next refuses or demands otherwise; none of it is the end."""
    history: list[Message] = []
    for kind in (*ZOO.values(), *list(ZOO.values())[:3]):
        with Keeper(kind, *SCRIPT, streams=streams) as server:
            history = converse(server, history)
        server.assert_script_used()
        assert len(server.refusals) <= 3 * MOST_LESSONS, (kind.name, server.refusals)
    kept = json.dumps([encode_message(message, {}) for message in history])
    assert ("thought_signature" in kept, "EqQBCkYI" in kept, '"reasoning_field"' in kept) == (True, True, True)


def naive_requests() -> list[bytes]:
    """Return what a client sends that keeps of a message what OpenAI documents, with and without more."""
    function = {"name": "shell", "arguments": '{"command": "ls"}'}
    bodies = []
    for more in ({}, {"reasoning_content": "hm"}):
        called = {"role": "assistant", "content": None, "tool_calls": [], **more}
        called["tool_calls"] = [{"id": "call:" + "a" * 40, "type": "function", "function": function}]
        messages = [
            {"role": "user", "content": "go"},
            called,
            {"role": "tool", "tool_call_id": "call:" + "a" * 40, "content": "ok"},
        ]
        options = {"stream_options": {"include_usage": True}, "tool_choice": "none"}
        bodies.append(json.dumps({"model": "m", "messages": messages, "stream": True, **options}).encode())
    return bodies


@pytest.mark.parametrize("kind", [kind for kind in ZOO.values() if kind.rules], ids=lambda kind: kind.name)
def test_each_kind_refuses_what_its_like_refuses(kind: Kind) -> None:
    """The tests above would pass with servers that take anything."""
    with Keeper(kind, *[text("taken")] * 2) as server:
        url = f"{server.base_url}/chat/completions"
        codes = []
        for body in naive_requests():
            asked = urllib.request.Request(url, data=body, headers={"Content-Type": "application/json"})
            try:
                with urllib.request.urlopen(asked, timeout=10) as response:
                    codes.append(response.status)
            except urllib.error.HTTPError as refusal:
                codes.append(refusal.code)
        assert server.refusals, codes


def test_each_kind_has_its_source() -> None:
    assert all(kind.source for kind in ZOO.values())
    assert len(ZOO) == 17
