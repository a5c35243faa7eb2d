"""anthropic_stream.py: replies of Anthropic's `/v1/messages`, whole and in events."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from odek.model.anthropic_stream import AnthropicAccumulator, parse_message
from odek.model.errors import ModelError, ModelProtocolError, ModelRejected
from odek.model.tool_call_stream import NewId
from odek.model.types import Message, Reply, ToolCall, Usage

START = {"type": "message_start", "message": {"usage": {"input_tokens": 7, "output_tokens": 1}}}
STOP = {"type": "message_stop"}


def new_id() -> NewId:
    numbers = itertools.count(1)
    return lambda: f"new_{next(numbers)}"


def begin(index: int, **block: object) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def more(index: int, **delta: object) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": delta}


def end(reason: str | None, **usage: int) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


def assemble(*chunks: object) -> tuple[Reply, list[str]]:
    assembler = AnthropicAccumulator(new_id())
    shown = [assembler.feed(chunk) for chunk in chunks]
    return assembler.finish(), [text for text in shown if text]


def fail(*chunks: object) -> ModelError:
    with pytest.raises(ModelError) as caught:
        assemble(*chunks)
    return caught.value


def test_what_begins_is_said_as_it_begins() -> None:
    """R-255: each call, and each object in a list of its arguments."""
    assembler = AnthropicAccumulator(new_id())
    said: list[list[tuple[str, bool]]] = []
    for chunk in (
        begin(0, type="tool_use", id="toolu_1", name="parallel_shell", input={}),
        more(0, type="input_json_delta", partial_json='{"commands":[{"command":"a {[{"},'),
        more(0, type="input_json_delta", partial_json='{"command":"b"}]}'),
        begin(1, type="text", text="x"),
        begin(2, type="tool_use", id="toolu_2", name="shell", input={}),
    ):
        assembler.feed(chunk)
        said.append([(begun, begun.is_object) for begun in assembler.take_begun()])
    each = [("parallel_shell", True)]
    assert said == [[("parallel_shell", False)], each, each, [], [("shell", False)]]


def test_text_and_calls_and_usage() -> None:
    """Input read from and written to a cache is input too."""
    usage = {"input_tokens": 7, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 100, "output_tokens": 1}
    reply, shown = assemble(
        {"type": "message_start", "message": {"usage": usage}},
        {"type": "ping"},
        begin(0, type="text", text=""),
        more(0, type="text_delta", text="I "),
        more(0, type="text_delta", text="look."),
        {"type": "content_block_stop", "index": 0},
        begin(1, type="tool_use", id="toolu_1", name="shell", input={}),
        more(1, type="input_json_delta", partial_json=""),
        more(1, type="input_json_delta", partial_json='{"command":'),
        begin(2, type="tool_use", id="toolu_2", name="shell", input={}),
        more(2, type="input_json_delta", partial_json='{"command":"b"}'),
        more(1, type="input_json_delta", partial_json='"a"}'),
        end("tool_use", output_tokens=30),
        STOP,
    )
    calls = tuple(
        ToolCall(id=f"toolu_{number}", name="shell", arguments=f'{{"command":"{name}"}}')
        for number, name in ((1, "a"), (2, "b"))
    )
    assert reply == Reply(
        message=Message(role="assistant", content="I look.", tool_calls=calls),
        usage=Usage(input_tokens=127, output_tokens=30, cached_tokens=100),
        stop="tool_calls",
    )
    assert shown == ["I ", "look."]


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("pause_turn", "pause_turn"),
    ],
)
def test_reasons_get_the_names_of_the_other_api(reason: str, stop: str) -> None:
    assert assemble(START, begin(0, type="text", text="hi"), end(reason))[0].stop == stop


def test_thinking_is_kept_with_its_signature_and_place() -> None:
    reply, shown = assemble(
        START,
        begin(0, type="thinking", thinking="", signature=""),
        more(0, type="thinking_delta", thinking="hm"),
        more(0, type="signature_delta", signature="si"),
        more(0, type="signature_delta", signature="gn"),
        begin(1, type="text", text="ab"),
        begin(2, type="redacted_thinking", data="xyz"),
        begin(3, type="tool_use", id="t", name="shell", input={}),
        end("tool_use"),
    )
    assert (reply.message.reasoning, reply.message.content, shown) == ("hm", "ab", ["ab"])
    assert json.loads(reply.message.reasoning_state) == [
        {"type": "thinking", "thinking": "hm", "signature": "sign"},
        {"type": "text", "length": 2},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "tool_use"},
    ]


def test_thinking_without_a_signature_is_not_sent_back() -> None:
    reply, _ = assemble(
        START, begin(0, type="thinking", thinking="hm"), begin(1, type="text", text="a"), end("end_turn")
    )
    assert (reply.message.reasoning, reply.message.reasoning_state) == ("hm", "")


def test_halves_of_a_character_are_joined() -> None:
    reply, shown = assemble(
        START,
        begin(0, type="text", text=""),
        more(0, type="text_delta", text="\ud83d"),
        more(0, type="text_delta", text="\ude00!\ud83d"),
        end("end_turn"),
    )
    assert (reply.message.content, shown) == ("\U0001f600!\ufffd", ["\U0001f600!"])


def test_arguments_may_come_with_the_start_of_a_block() -> None:
    """Gateways that do not stream send them whole."""
    reply, _ = assemble(
        START, begin(0, type="tool_use", id="t", name="shell", input={"command": "ls"}), end("tool_use")
    )
    assert reply.message.tool_calls == (ToolCall(id="t", name="shell", arguments='{"command": "ls"}'),)


def test_missing_and_repeated_ids_are_replaced() -> None:
    """B39 (g), (h)"""
    reply, _ = assemble(
        START,
        *(begin(index, type="tool_use", id=id_, name="shell", input={}) for index, id_ in enumerate(("t", "t", ""))),
        end("tool_use"),
    )
    assert [call.id for call in reply.message.tool_calls] == ["t", "new_1", "new_2"]
    assert [call.arguments for call in reply.message.tool_calls] == ["{}"] * 3


HALF = (begin(0, type="tool_use", id="t", name="shell"), more(0, partial_json='{"command":"rm -rf /workspace/bu'))
WHOLE = (begin(0, type="tool_use", id="t", name="shell"), more(0, partial_json='{"command":"ls"}'))


@pytest.mark.parametrize(
    "chunks",
    [
        (START,),
        (START, *HALF),
        (START, *HALF, STOP),
        (START, *WHOLE),
        (START, begin(0, type="text", text="half an ans")),
        (START, STOP),
        (),
    ],
)
def test_stream_that_breaks_off_is_an_error(chunks: tuple[object, ...]) -> None:
    """B40 (a) to (d): nothing of it is acted on; it may be tried again."""
    error = fail(*chunks)
    assert (type(error), error.message, error.retryable) == (
        ModelProtocolError,
        "the model's answer broke off before its end",
        True,
    )


def test_whole_calls_and_the_end_of_the_message_are_enough() -> None:
    """B40 (b): declared complete."""
    assert assemble(START, *WHOLE, STOP)[0].message.tool_calls[0].arguments == '{"command":"ls"}'


def test_half_a_call_that_was_cut_off_leaves_no_arguments() -> None:
    """B40 (g)"""
    reply, _ = assemble(START, *HALF, end("max_tokens"), STOP)
    assert (reply.stop, reply.message.tool_calls[0].arguments) == ("length", "{}")


@pytest.mark.parametrize(
    ("kind", "status", "type_", "retryable"),
    [
        ("overloaded_error", 529, ModelProtocolError, True),
        ("rate_limit_error", 429, ModelProtocolError, True),
        ("api_error", 500, ModelProtocolError, True),
        ("invalid_request_error", 400, ModelRejected, False),
        ("authentication_error", 401, ModelRejected, False),
        ("surprise_error", 0, ModelProtocolError, True),
    ],
)
def test_error_in_the_stream(kind: str, status: int, type_: type[ModelError], retryable: bool) -> None:
    """B40 (f): an error inside a 200 is one."""
    error = fail(START, {"type": "error", "error": {"type": kind, "message": "words\x1b"}})
    assert (type(error), error.status, error.retryable, error.detail) == (type_, status, retryable, "words\\x1b")


def test_a_conversation_that_is_too_long_is_known_as_such() -> None:
    error = fail({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"}})
    assert error.context_overflow


@pytest.mark.parametrize(
    "chunk",
    [None, [], "x", more(0, text="x"), more(3, text="x") | {"index": "3"}],
    ids=["null", "list", "text", "a", "b"],
)
def test_events_that_make_no_sense_are_errors(chunk: object) -> None:
    assert fail(chunk).retryable


@pytest.mark.parametrize(
    "chunk",
    [
        {},
        {"type": "new_event"},
        {"type": 3},
        begin(9, type="server_tool_use", name="search"),
        {"type": "message_delta", "delta": None, "usage": {"output_tokens": "many", "input_tokens": True}},
        {"type": "message_start", "message": []},
    ],
)
def test_what_is_not_known_is_read_over(chunk: object) -> None:
    reply, _ = assemble(START, chunk, begin(0, type="text", text="hi"), end("end_turn", output_tokens=2), STOP)
    assert reply == Reply(
        message=Message(role="assistant", content="hi"), usage=Usage(input_tokens=7, output_tokens=2), stop="stop"
    )


def test_end_of_the_message_is_the_end() -> None:
    assembler = AnthropicAccumulator(new_id())
    states = []
    for chunk in (START, begin(0, type="text", text="hi"), end("end_turn"), STOP):
        assembler.feed(chunk)
        states.append((assembler.complete, assembler.ended))
    assert states == [(False, False), (False, False), (True, False), (True, True)]


def test_done_of_a_gateway_is_the_end_as_well() -> None:
    assembler = AnthropicAccumulator(new_id())
    assembler.feed(begin(0, type="text", text="hi"))
    assembler.mark_done()
    assert assembler.finish().message.content == "hi"


def test_whole_message() -> None:
    payload = {
        "type": "message",
        "content": [{"type": "text", "text": "hi"}, {"type": "tool_use", "id": "t", "name": "n", "input": {"a": 1}}],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "output_tokens": 4},
    }
    assert parse_message(payload, new_id()) == Reply(
        message=Message(role="assistant", content="hi", tool_calls=(ToolCall(id="t", name="n", arguments='{"a": 1}'),)),
        usage=Usage(input_tokens=3, output_tokens=4),
        stop="tool_calls",
    )


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        ([], "the model's server sent JSON that is not an object"),
        ({}, "the model's server sent an answer without a message"),
        ({"content": "hi"}, "the model's server sent an answer without a message"),
        ({"type": "error", "error": {"type": "api_error"}}, "the model's server answered with an error"),
    ],
)
def test_whole_answer_that_is_none(payload: object, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        parse_message(payload, new_id())
    assert caught.value.message == message
