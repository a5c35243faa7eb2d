"""anthropic.py: odek's conversation as requests of Anthropic's `/v1/messages`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fakes.request_rules import broken_rules

from odek.model.anthropic import AnthropicApi
from odek.model.errors import ModelError
from odek.model.provider import RequestOptions
from odek.model.types import Message, ToolCall, ToolSpec

SHELL = ToolSpec(name="shell", description="Run.", parameters={"type": "object", "properties": {}})
OFFERED = [{"name": "shell", "description": "Run.", "input_schema": {"type": "object", "properties": {}}}]
SYSTEM = Message(role="system", content="be good")
TASK = Message(role="user", content="go")
MARK = {"cache_control": {"type": "ephemeral"}}
SIGNED = [{"type": "thinking", "thinking": "hm", "signature": "s1"}]
REFUSED = "the model's server answered 400 Bad Request"


def call(id_: str, arguments: str = '{"command":"ls"}', name: str = "shell") -> ToolCall:
    return ToolCall(id=id_, name=name, arguments=arguments)


def asks(*calls: ToolCall, content: str = "", state: str = "") -> Message:
    return Message(role="assistant", content=content, tool_calls=calls, reasoning_state=state)


def result(id_: str, text: str = "ok") -> Message:
    return Message(role="tool", content=text, tool_call_id=id_, name="shell")


def use(id_: str, given: object = None) -> dict[str, Any]:
    return {"type": "tool_use", "id": id_, "name": "shell", "input": given or {"command": "ls"}}


def body(*messages: Message, tools: tuple[ToolSpec, ...] = (SHELL,), **options: Any) -> dict[str, Any]:
    return checked(AnthropicApi(RequestOptions(**({"model": "m", "caching": False} | options))), messages, tools)


def checked(api: AnthropicApi, messages: Any = (TASK,), tools: Any = (SHELL,)) -> dict[str, Any]:
    """Return the body of a request, which must be one that the provider accepts."""
    made = api.body(messages, tools, stream=True)
    assert broken_rules("/v1/messages", json.dumps(made).encode()) == []
    return made


def turns(*messages: Message, **options: Any) -> list[tuple[str, list[dict[str, Any]]]]:
    return [(turn["role"], turn["content"]) for turn in body(*messages, **options)["messages"]]


def test_request_as_a_whole() -> None:
    """R-82: the second API; the system prompt stands beside the messages."""
    assert body(SYSTEM, TASK, temperature=0.3) == {
        "model": "m",
        "max_tokens": 8192,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "go"}]}],
        "stream": True,
        "tools": OFFERED,
        "system": [{"type": "text", "text": "be good"}],
        "temperature": 0.3,
    }


@pytest.mark.parametrize(
    ("base", "path"),
    [
        ("", "/v1/messages"),
        ("/v1", "/v1/messages"),
        ("/anthropic", "/anthropic/v1/messages"),
        ("/anthropic/v1", "/anthropic/v1/messages"),
    ],
)
def test_path_is_the_same_with_and_without_the_version(base: str, path: str) -> None:
    api = AnthropicApi(RequestOptions(model="m"))
    assert (api.chat_path(base), api.models_path(base)) == (path, path.replace("messages", "models"))


def test_key_travels_in_its_own_header() -> None:
    """F-102: the version header goes to servers of this API only."""
    api = AnthropicApi(RequestOptions(model="m"))
    assert api.headers("k") == {"anthropic-version": "2023-06-01", "x-api-key": "k"}
    assert api.headers("") == {"anthropic-version": "2023-06-01"}


def test_calls_and_their_results() -> None:
    """Results are one turn of the user's, and what the user says next belongs to it."""
    told = Message(role="user", content="and now?")
    assert turns(TASK, asks(call("a"), call("b"), content="look"), result("a"), result("b", " "), told) == [
        ("user", [{"type": "text", "text": "go"}]),
        ("assistant", [{"type": "text", "text": "look"}, use("a"), use("b")]),
        (
            "user",
            [
                {"type": "tool_result", "tool_use_id": "a", "content": "ok"},
                {"type": "tool_result", "tool_use_id": "b"},
                {"type": "text", "text": "and now?"},
            ],
        ),
    ]


def test_texts_that_are_empty_are_not_sent() -> None:
    assert turns(TASK, Message(role="assistant", content=" \n"), Message(role="user", content="again")) == [
        ("user", [{"type": "text", "text": "go"}, {"type": "text", "text": "again"}])
    ]


def test_invalid_arguments_of_the_past_are_sent_as_an_object() -> None:
    """B40"""
    _, (_, blocks), _ = turns(TASK, asks(call("a", '{"command": "l')), result("a"))
    assert blocks == [use("a", {"invalid_arguments": '{"command": "l'})]


def test_ids_are_made_valid_and_unique_in_the_conversation() -> None:
    """Other servers number their calls anew in every reply; the session may have begun with one of them."""
    made = turns(
        TASK, asks(call("call.1")), result("call.1"), asks(call("call.1"), call("")), result("call.1"), result("")
    )
    ids = [block.get("id") or block.get("tool_use_id") for _, blocks in made for block in blocks[: 2 if blocks else 0]]
    assert ids == [None, "call_1", "call_1", "call_1_2", "call", "call_1_2", "call"]


def test_name_that_no_tool_can_have_is_made_valid() -> None:
    _, (_, blocks), _ = turns(TASK, asks(call("a", name="run it!")), result("a"))
    assert blocks[0]["name"] == "run_it_"


def test_past_calls_declare_their_tools_when_none_may_be_used() -> None:
    """F-49: the request for a summary offers no tools, but the API wants those of the past declared."""
    made = body(TASK, asks(call("a"), call("b")), result("a"), result("b"), tools=())
    assert (made["tools"], made["tool_choice"]) == (
        [{"name": "shell", "input_schema": {"type": "object"}}],
        {"type": "none"},
    )
    assert "tools" not in body(TASK, tools=())


@pytest.mark.parametrize("caching", [None, True])
def test_markers_stand_where_the_next_request_finds_them(caching: bool | None) -> None:
    made = body(SYSTEM, TASK, asks(call("a")), result("a"), asks(call("b")), result("b"), caching=caching)
    assert made["system"] == [{"type": "text", "text": "be good"} | MARK]
    marked = [place for place, turn in enumerate(made["messages"]) if "cache_control" in turn["content"][-1]]
    assert marked == [2, 4]


def test_no_markers_when_they_are_switched_off() -> None:
    assert "cache_control" not in json.dumps(body(SYSTEM, TASK))


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({}, {}),
        ({"temperature": -1.0}, {}),
        ({"temperature": 1.7}, {"temperature": 1.0}),
        ({"thinking": "disabled", "temperature": 0.0}, {"thinking": {"type": "disabled"}, "temperature": 0.0}),
        (
            {"thinking": "enabled", "thinking_budget": 2000, "temperature": 0.0},
            {"thinking": {"type": "enabled", "budget_tokens": 2000}},
        ),
        ({"thinking": "low"}, {"thinking": {"type": "enabled", "budget_tokens": 4096}}),
        (
            {"thinking": "high", "output_tokens": 32_000},
            {"thinking": {"type": "enabled", "budget_tokens": 20_480}},
        ),
        # a reply must have room beside its thinking
        ({"thinking": "enabled", "thinking_budget": 9000}, {"thinking": {"type": "enabled", "budget_tokens": 4096}}),
        ({"thinking": "enabled", "output_tokens": 5000}, {}),
    ],
)
def test_thinking_and_temperature(options: dict[str, Any], sent: dict[str, Any]) -> None:
    made = body(TASK, **options)
    assert {key: made[key] for key in ("thinking", "temperature", "output_config") if key in made} == sent


def test_signed_thinking_goes_back_where_it_came_from() -> None:
    """A block that is left out or moved makes the API refuse the request."""
    state = [*SIGNED, {"type": "text", "length": 4}, {"type": "redacted_thinking", "data": "x"}, {"type": "tool_use"}]
    asked = asks(call("a"), call("b"), content="looktail", state=json.dumps(state))
    _, (_, blocks), _ = turns(TASK, asked, result("a"), result("b"), thinking="enabled")
    assert blocks == [
        *SIGNED,
        {"type": "text", "text": "look"},
        {"type": "redacted_thinking", "data": "x"},
        use("a"),
        {"type": "text", "text": "tail"},
        use("b"),
    ]


def test_signed_thinking_is_left_out_when_thinking_is_switched_off() -> None:
    _, (_, blocks), _ = turns(TASK, asks(call("a"), state=json.dumps(SIGNED)), result("a"), thinking="disabled")
    assert blocks == [use("a")]


@pytest.mark.parametrize(
    ("messages", "thinks"),
    [
        ((TASK,), True),
        ((TASK, asks(call("a"), state=json.dumps(SIGNED)), result("a")), True),
        ((TASK, asks(call("a"), state=json.dumps(SIGNED)), result("a"), asks(call("b")), result("b")), True),
        ((TASK, asks(call("a")), result("a")), False),
        ((TASK, asks(call("a")), result("a"), Message(role="user", content="next")), True),
    ],
)
def test_no_thinking_in_a_turn_that_began_without(messages: tuple[Message, ...], thinks: bool) -> None:
    """A session that is resumed, or began with another provider, has no signatures."""
    assert ("thinking" in body(*messages, thinking="enabled")) is thinks


def refusal(detail: str, status: int = 400) -> ModelError:
    return ModelError(REFUSED, status=status, detail=detail)


def test_newer_models_are_asked_for_adaptive_thinking() -> None:
    api = AnthropicApi(RequestOptions(model="m", thinking="high", caching=False, temperature=0.0))
    error = refusal('"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive"')
    assert api.adapt(error)
    made = checked(api)
    assert (made["thinking"], made["output_config"]) == ({"type": "adaptive"}, {"effort": "high"})
    assert "temperature" not in made
    assert not api.adapt(error)  # the same again: it did not help


def test_adaptive_thinking_without_a_level_has_no_effort() -> None:
    api = AnthropicApi(RequestOptions(model="m", thinking="enabled"))
    assert api.adapt(refusal("use thinking.type.adaptive"))
    assert "output_config" not in checked(api)


def test_models_that_write_less_are_asked_for_less() -> None:
    api = AnthropicApi(RequestOptions(model="m", output_tokens=32_000))
    error = refusal("max_tokens: 32000 > 4096, which is the maximum allowed number of output tokens for m")
    assert api.adapt(error)
    assert checked(api)["max_tokens"] == 4096
    assert not api.adapt(error)


@pytest.mark.parametrize(
    ("optional", "error", "learned"),
    [
        ({"temperature"}, refusal("`temperature` is deprecated for this model."), True),
        (set(), refusal("`temperature` is deprecated for this model."), False),
        ({"temperature"}, refusal("temperatures rise"), False),
        ({"temperature"}, refusal("temperature", status=500), False),
        ({"temperature"}, refusal("prompt is too long; temperature"), False),
        ({"thinking"}, refusal("thinking is not supported by this model"), True),
    ],
)
def test_only_what_nobody_asked_for_is_left_out(optional: set[str], error: ModelError, learned: bool) -> None:
    options = RequestOptions(model="m", temperature=0.0, thinking="low", optional=frozenset(optional))
    assert AnthropicApi(options).adapt(error) is learned


def test_options_that_were_refused_are_gone() -> None:
    options = RequestOptions(model="m", temperature=0.0, optional=frozenset({"temperature"}))
    api = AnthropicApi(options)
    assert "temperature" in checked(api)
    assert api.adapt(refusal("temperature is deprecated"))
    assert "temperature" not in checked(api)
    assert not api.adapt(refusal("temperature is deprecated"))
