"""openai.py and openai_stream.py: requests out, replies in."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from odek.model.errors import ModelError, ModelProtocolError, ModelRejected
from odek.model.openai import request_body
from odek.model.openai_stream import OpenAiAccumulator, parse_reply, parse_usage
from odek.model.provider import RequestOptions
from odek.model.types import Message, Reply, ToolCall, ToolSpec, Usage
from odek.model.unicode_repair import valid_text
from odek.model.wire import encode_body

A = '{"command":"echo A"}'
TOOL = ToolSpec(name="shell", description="Run a command.", parameters={"type": "object"})
OPTIONS = RequestOptions(model="m", temperature=0.0)


def no_id() -> str:
    raise AssertionError("no id had to be invented")


def delta(finish_reason: str | None = None, **fields: object) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish_reason}]}


def call_delta(arguments: str, finish_reason: str | None = None, **fields: object) -> dict[str, Any]:
    return delta(
        finish_reason, tool_calls=[{"index": 0, **fields, "function": {"name": "shell", "arguments": arguments}}]
    )


def assemble(*chunks: object, done: bool = False) -> tuple[Reply, list[str]]:
    assembler = OpenAiAccumulator(no_id)
    shown = [text for text in (assembler.feed(chunk) for chunk in chunks) if text]
    if done:
        assembler.mark_done()
    return assembler.finish(), shown


def test_request_has_messages_tools_and_settings() -> None:
    """R-82."""
    call = ToolCall(id="a", name="shell", arguments=A)
    messages = (
        Message(role="system", content="be brief"),
        Message(role="user", content="go"),
        Message(role="assistant", tool_calls=(call,), reasoning="hm"),
        Message(role="tool", content="A", tool_call_id="a", name="shell"),
        Message(role="assistant", content="done"),
    )
    assert request_body(OPTIONS, messages, (TOOL,), stream=False) == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "go"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "a", "type": "function", "function": {"name": "shell", "arguments": A}}],
                "reasoning_content": "hm",
            },
            {"role": "tool", "content": "A", "tool_call_id": "a", "name": "shell"},
            {"role": "assistant", "content": "done"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {"name": "shell", "description": "Run a command.", "parameters": {"type": "object"}},
            }
        ],
        "stream": False,
        "temperature": 0.0,
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        pytest.param({}, {"stream": False, "temperature": 0.0}, id="plain"),
        pytest.param({"temperature": None}, {"stream": False}, id="no-temperature"),
        pytest.param({"temperature": -1.0}, {"stream": False}, id="negative-temperature"),
        pytest.param({"temperature": 0.7}, {"stream": False, "temperature": 0.7}, id="F-9"),
        pytest.param(
            {"stream": True},
            {"stream": True, "stream_options": {"include_usage": True}, "temperature": 0.0},
            id="stream",
        ),
        pytest.param(
            {"thinking": "enabled", "thinking_budget": 9},
            {"stream": False, "temperature": 1, "thinking": {"type": "enabled", "budget_tokens": 9}},
            id="thinking",
        ),
        pytest.param(
            {"thinking": "disabled"},
            {"stream": False, "temperature": 0.0, "thinking": {"type": "disabled"}},
            id="no-thinking",
        ),
        pytest.param(
            {"thinking": "high"}, {"stream": False, "temperature": 0.0, "reasoning_effort": "high"}, id="effort"
        ),
    ],
)
def test_request_options(changes: dict[str, Any], expected: dict[str, Any]) -> None:
    """R-82, F-9: a temperature arrives; empty tools are left out."""
    options = {key: value for key, value in changes.items() if key != "stream"}
    body = request_body(replace(OPTIONS, **options), (), (), stream="stream" in changes)
    assert body == {"model": "m", "messages": [], **expected}


def test_unknown_thinking_is_not_dropped_silently() -> None:
    """F-8."""
    with pytest.raises(ValueError, match="hihg"):
        request_body(replace(OPTIONS, thinking="hihg"), (), (), stream=False)


@pytest.mark.parametrize(
    ("name", "arguments", "sent_name", "sent_arguments"),
    [
        pytest.param(
            "shell",
            '{"command":"rm -rf /workspace/bu',
            "shell",
            {"invalid_arguments": '{"command":"rm -rf /workspace/bu'},
            id="half",
        ),
        pytest.param("shell", "[1]", "shell", {"invalid_arguments": "[1]"}, id="no-object"),
        pytest.param("", "{}", "unknown", {}, id="no-name"),
        pytest.param("functions.shell:0 ", "{}", "functions_shell_0_", {}, id="odd-name"),
    ],
)
def test_call_that_providers_would_refuse_is_sent_in_a_valid_form(
    name: str, arguments: str, sent_name: str, sent_arguments: object
) -> None:
    """B40: a broken call must not spoil every later request."""
    message = Message(role="assistant", tool_calls=(ToolCall(id="a", name=name, arguments=arguments),))
    sent = request_body(OPTIONS, (Message(role="user", content="go"), message), (), stream=False)["messages"][1][
        "tool_calls"
    ][0]["function"]
    assert (sent["name"], json.loads(sent["arguments"])) == (sent_name, sent_arguments)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("ä😀", "ä😀"), ("\ud83d\ude00", "😀"), ("a\ud83db", "a\ufffdb"), ("\ude00\ud83d", "\ufffd\ufffd"), ("", "")],
)
def test_surrogates_leave_as_valid_utf_8(text: str, expected: str) -> None:
    assert valid_text(text) == expected
    assert json.loads(encode_body({"text": text})) == {"text": expected}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param({"content": "hi"}, Message(role="assistant", content="hi"), id="text"),
        pytest.param({"content": None}, Message(role="assistant"), id="null"),
        pytest.param(
            {"content": [{"type": "text", "text": "a"}, {"type": "image"}, "x", {"text": "b"}]},
            Message(role="assistant", content="ab"),
            id="F-101-parts",
        ),
        pytest.param({"content": None, "refusal": "no"}, Message(role="assistant", content="no"), id="refusal"),
        pytest.param(
            {"content": "hi", "reasoning_content": "hm", "extra": {}},
            Message(role="assistant", content="hi", reasoning="hm", reasoning_field="reasoning_content"),
            id="reasoning",
        ),
        pytest.param({"content": "\ud83d"}, Message(role="assistant", content="\ufffd"), id="surrogate"),
    ],
)
def test_whole_reply_is_read(message: dict[str, Any], expected: Message) -> None:
    payload = {"choices": [{"message": message, "finish_reason": "stop"}], "usage": {"prompt_tokens": 3}}
    assert parse_reply(payload, no_id) == Reply(message=expected, usage=Usage(input_tokens=3), stop="stop")


@pytest.mark.parametrize(
    "payload", [[], "x", None, {}, {"choices": []}, {"choices": [{}]}, {"choices": [{"message": "x"}]}]
)
def test_whole_reply_without_a_message_is_an_error(payload: object) -> None:
    with pytest.raises(ModelProtocolError):
        parse_reply(payload, no_id)


@pytest.mark.parametrize(
    ("payload", "kind", "detail", "retryable"),
    [
        ({"error": {"message": "overloaded"}}, ModelProtocolError, "overloaded", True),
        ({"error": "boom\x1b[2J"}, ModelProtocolError, "boom\\x1b[2J", True),
        ({"error": {"message": "slow down", "code": 429}}, ModelProtocolError, "slow down", True),
        ({"error": {"message": "bad key", "code": "401"}}, ModelRejected, "bad key", False),
        ({"error": {"code": "invalid"}}, ModelRejected, '{"error": {"code": "invalid"}}', False),
        ({"object": "error", "message": "no such model", "code": 404}, ModelRejected, "no such model", False),
    ],
)
def test_error_inside_a_200_is_an_error(
    payload: dict[str, Any], kind: type[ModelError], detail: str, *, retryable: bool
) -> None:
    """B40 (f), streamed and not."""
    for read in (lambda: parse_reply(payload, no_id), lambda: OpenAiAccumulator(no_id).feed(payload)):
        with pytest.raises(ModelError) as caught:
            read()
        assert (type(caught.value), caught.value.detail, caught.value.retryable) == (kind, detail, retryable)


def test_stream_is_assembled_with_usage_from_the_last_chunk() -> None:
    """B40 (h): the usage chunk has no choices."""
    reply, shown = assemble(
        {"choices": [], "prompt_filter_results": []},
        delta(role="assistant", content=""),
        delta(reasoning_content="h"),
        delta(reasoning_content="m"),
        delta(content="a"),
        {"choices": [{"index": 1, "delta": {"content": "another choice"}}]},
        delta(content=[{"type": "text", "text": "b"}]),
        delta("stop"),
        {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}},
    )
    message = Message(role="assistant", content="ab", reasoning="hm", reasoning_field="reasoning_content")
    assert reply == Reply(message=message, usage=Usage(input_tokens=5, output_tokens=2), stop="stop")
    assert shown == ["a", "b"]


def test_surrogate_pair_in_two_chunks_is_one_character() -> None:
    reply, shown = assemble(delta(content="a\ud83d"), delta(content="\ude00b"), delta("stop", content="\ud83d"))
    assert (reply.message.content, shown) == ("a😀b\ufffd", ["a", "😀b"])


def test_message_in_place_of_deltas_is_read_once() -> None:
    whole = {"choices": [{"message": {"content": "ab"}, "finish_reason": "stop"}]}
    assert assemble(whole)[0].message.content == "ab"
    assert assemble(delta(content="ab"), whole)[0].message.content == "ab"


@pytest.mark.parametrize(
    "chunks",
    [
        pytest.param([call_delta('{"command":"rm -rf /workspace/bu', id="a")], id="a-half-arguments"),
        pytest.param([call_delta(A, id="a")], id="b-no-finish-reason"),
        pytest.param([delta(content="hello")], id="c-text-only"),
        pytest.param([], id="d-nothing"),
        pytest.param([delta(role="assistant", content="")], id="d-nothing-but-a-role"),
    ],
)
def test_stream_without_its_end_is_no_reply(chunks: list[dict[str, Any]]) -> None:
    """B40 (a)–(d)."""
    with pytest.raises(ModelProtocolError) as caught:
        assemble(*chunks)
    assert caught.value.retryable


def test_done_without_finish_reason_is_an_end_for_whole_calls_and_text_only() -> None:
    """B40 (b): executed only if declared complete."""
    assert assemble(call_delta(A, id="a"), done=True)[0].message.tool_calls == (
        ToolCall(id="a", name="shell", arguments=A),
    )
    assert assemble(delta(content="hello"), done=True)[0].message.content == "hello"
    for chunks in ([call_delta(A[:9], id="a")], []):
        with pytest.raises(ModelProtocolError):
            assemble(*chunks, done=True)


@pytest.mark.parametrize("word", ["length", "max_tokens", "model_length", "MAX_TOKENS"])
def test_reply_cut_at_the_limit_holds_no_half_arguments(word: str) -> None:
    """B40 (g): half a call is neither run nor stored; whoever sees "length" runs none of them."""
    half = call_delta('{"command":"rm -rf /workspace/bu', word, id="a")
    whole = {"choices": [{"message": half["choices"][0]["delta"], "finish_reason": word}]}
    for reply in (assemble(half)[0], parse_reply(whole, no_id)):
        assert reply.stop == "length"
        assert reply.message.tool_calls == (ToolCall(id="a", name="shell", arguments="{}"),)


def test_invalid_arguments_of_a_finished_reply_are_kept_as_written() -> None:
    assert assemble(call_delta("{oops}", "tool_calls", id="a"))[0].message.tool_calls[0].arguments == "{oops}"


@pytest.mark.parametrize("chunk", [None, 3, "x", []])
def test_event_that_is_no_object_is_an_error(chunk: object) -> None:
    with pytest.raises(ModelProtocolError):
        OpenAiAccumulator(no_id).feed(chunk)


def test_finish_reason_error_is_an_error() -> None:
    with pytest.raises(ModelProtocolError):
        assemble(delta("error"))


@pytest.mark.parametrize(
    "chunk",
    [
        {"choices": None},
        {"choices": [None]},
        {"choices": [{"delta": None}]},
        {"choices": [{"delta": {"tool_calls": 3, "content": 4}}]},
    ],
)
def test_chunk_with_fields_of_another_type_adds_nothing(chunk: dict[str, Any]) -> None:
    assert assemble(chunk, delta("stop", content="x"))[0].message == Message(role="assistant", content="x")


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (None, Usage()),
        ("x", Usage()),
        ({"prompt_tokens": 5, "completion_tokens": 2}, Usage(input_tokens=5, output_tokens=2)),
        ({"input_tokens": 5, "output_tokens": 2}, Usage(input_tokens=5, output_tokens=2)),
        ({"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 4}}, Usage(input_tokens=5, cached_tokens=4)),
        ({"prompt_tokens": 5, "cache_read_input_tokens": 3}, Usage(input_tokens=5, cached_tokens=3)),
        (
            {"prompt_tokens": 5, "prompt_cache_hit_tokens": 4, "prompt_tokens_details": {"cached_tokens": 4}},
            Usage(input_tokens=5, cached_tokens=4),
        ),
        ({"prompt_tokens": -1, "completion_tokens": True, "prompt_tokens_details": 7}, Usage()),
        ({"prompt_tokens": "5", "completion_tokens": 2.5, "prompt_tokens_details": None}, Usage()),
    ],
)
def test_usage_under_every_name(raw: object, expected: Usage) -> None:
    assert parse_usage(raw) == expected
