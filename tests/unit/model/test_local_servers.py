"""Answers as real servers gave them, recorded with SmolLM2-135M and shortened: what they did is what is kept.

`llama.cpp` is its own HTTP server (b11549, in the package xllamacpp), `llama-cpp-python` the server of that package
(0.3.36). docs/DEVELOPMENT.md tells how to ask them again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from fakes.model_server import Answer, ModelServer, events, raw, status, whole

from odek.model.errors import ModelError
from odek.model.http import WINDOW_LOOKUP_TOKENS, Effects, HttpModel
from odek.model.profiles import parse_window
from odek.model.provider import RequestOptions
from odek.model.types import Message, Reply, ToolCall, ToolSpec, Usage

SHELL = ToolSpec(name="shell", description="Run.", parameters={"type": "object", "properties": {}})
LS = '{"command": "ls"}'
OVERFLOW = {
    "llama.cpp": {
        "error": {
            "code": 400,
            "message": "request (2010 tokens) exceeds the available context size (1024 tokens), try increasing it",
            "type": "exceed_context_size_error",
            "n_prompt_tokens": 2010,
            "n_ctx": 1024,
        }
    },
    "llama-cpp-python": {
        "error": {
            "message": "This model's maximum context length is 1024 tokens. However, you requested 2031 tokens (2031 "
            "in the messages, None in the completion). Please reduce the length of the messages or completion.",
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        }
    },
}


def ask(*script: Answer, notices: list[str] | None = None) -> tuple[Reply, ModelServer]:
    numbers = itertools.count(1)
    with ModelServer(*script) as server:
        model = client(server, [] if notices is None else notices, lambda: f"new_{next(numbers)}")
        reply = model.complete((Message(role="user", content="go"),), (SHELL,), lambda _: None)
    server.assert_all_used()
    return reply, server


def client(server: ModelServer, notices: list[str], new_id: Callable[[], str] = lambda: "new_1") -> HttpModel:
    return HttpModel(
        base_url=server.base_url,
        options=RequestOptions(model="m"),
        env={},
        on_notice=notices.append,
        effects=Effects(sleep=lambda _: None, chance=lambda: 0.5, new_id=new_id),
    )


def cpp(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    choice = {"finish_reason": finish_reason, "index": 0, "delta": delta}
    return {"choices": [choice], "id": "chatcmpl-1", "system_fingerprint": "b0", "object": "chat.completion.chunk"}


def cpp_arguments(text: str, **head: str) -> dict[str, Any]:
    function = {"name": "shell", "arguments": text} if head else {"arguments": text}
    return cpp({"tool_calls": [{"index": 0, **head, "function": function}]})


def python(finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": finish_reason, "logprobs": None, "delta": delta}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", "choices": [choice]}


def python_arguments(text: str) -> dict[str, Any]:
    function = {"name": "shell", "arguments": text}
    call = {"index": 0, "id": "call__0_shell_cmpl-1", "type": "function", "function": function}
    return python(role=None, content=None, function_call=function, tool_calls=[call])


def test_llama_cpp_calls_a_tool() -> None:
    """R-82: no content at all is null, and the timings come with the usage."""
    usage = {"completion_tokens": 29, "prompt_tokens": 208, "prompt_tokens_details": {"cached_tokens": 207}}
    reply, _ = ask(
        events(
            cpp({"role": "assistant", "content": None}),
            cpp_arguments("{", id="QFN59OaA", type="function"),
            *(cpp_arguments(piece) for piece in ('"', "command", '":', ' "', "ls", '"', "}")),
            cpp({}, "tool_calls"),
            {"choices": [], "id": "chatcmpl-1", "usage": usage, "timings": {"cache_n": 207, "prompt_n": 1}},
        )
    )
    call = ToolCall(id="QFN59OaA", name="shell", arguments=LS)
    assert reply == Reply(
        message=Message(role="assistant", tool_calls=(call,)),
        usage=Usage(input_tokens=208, output_tokens=29, cached_tokens=207),
        stop="tool_calls",
    )


def test_llama_cpp_python_says_a_call_in_two_ways_and_means_one() -> None:
    """B39: each fragment stands under function_call and under tool_calls, with id and name every time; no usage."""
    nothing = {"role": None, "content": None, "function_call": None, "tool_calls": None}
    reply, _ = ask(
        events(
            python(**(nothing | {"role": "assistant"})),
            *(python_arguments(piece) for piece in ('{"', "command", '":', ' "', "ls", '"}', "")),
            python("tool_calls", **nothing),
        )
    )
    call = ToolCall(id="call__0_shell_cmpl-1", name="shell", arguments=LS)
    assert reply == Reply(message=Message(role="assistant", tool_calls=(call,)), stop="tool_calls")


@pytest.mark.parametrize("server", OVERFLOW)
def test_too_long_a_conversation_is_recognised_and_tells_the_window(server: str) -> None:
    """B42"""
    with ModelServer(status(400, OVERFLOW[server])) as scripted:
        model = client(scripted, [])
        with pytest.raises(ModelError) as caught:
            model.complete((Message(role="user", content="go"),), (), lambda _: None)
        assert (caught.value.context_overflow, model.window(WINDOW_LOOKUP_TOKENS)) == (True, 1024)
    assert scripted.lookups == []


def test_empty_stream_is_asked_for_again_without_a_stream() -> None:
    """B40 (d): llama-cpp-python promises a stream, finds the conversation too long, and ends it without a word."""
    notices: list[str] = []
    with ModelServer(raw(), status(400, OVERFLOW["llama-cpp-python"])) as server, pytest.raises(ModelError) as caught:
        client(server, notices).complete((Message(role="user", content="go"),), (), lambda _: None)
    server.assert_all_used()
    assert caught.value.context_overflow
    assert [request.json["stream"] for request in server.requests] == [True, False]
    assert "stream_options" not in server.requests[1].json
    assert notices == ["the model's server sent an empty answer; trying again in 0.5 s (retry 1 of 3)"]


def test_whole_answer_after_an_empty_stream_is_an_answer() -> None:
    message = {"content": "hi", "role": "assistant"}
    usage = {"prompt_tokens": 21, "completion_tokens": 2, "total_tokens": 23}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    reply, _ = ask(raw(), whole({"object": "chat.completion", "model": "m", "choices": [choice], "usage": usage}))
    assert (reply.message.content, reply.usage) == ("hi", Usage(input_tokens=21, output_tokens=2))


def test_server_that_dies_while_it_writes() -> None:
    """B40 (c): a chunked answer without its end, as a killed server leaves it."""
    head = (("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked"))
    event = b'data: {"choices": [{"index": 0, "delta": {"content": "Once"}, "finish_reason": null}]}\n\n'
    half = Answer(headers=head, chunks=(b"%x\r\n%b\r\n" % (len(event), event),))
    with ModelServer(*[half] * 4) as server, pytest.raises(ModelError) as caught:
        client(server, []).complete((Message(role="user", content="go"),), (), lambda _: None)
    assert caught.value.message == "the model's answer broke off before its end: the connection was closed (4 attempts)"


def test_windows_in_their_lists_of_models() -> None:
    """F-102: llama.cpp tells the window in force; llama-cpp-python tells none."""
    entry = {"id": "/m.gguf", "object": "model", "owned_by": "llamacpp", "meta": {"n_ctx": 1024, "n_ctx_train": 8192}}
    told = {"models": [{"name": "/m.gguf", "type": "model"}], "object": "list", "data": [entry]}
    silent = {"object": "list", "data": [{"id": "/m.gguf", "object": "model", "owned_by": "me", "permissions": []}]}
    assert (parse_window(told, "m"), parse_window(silent, "m")) == (1024, None)


def test_llama_cpp_python_wants_text_beside_calls_even_if_there_is_none() -> None:
    """R-82: it refuses null with a 500 that quotes its checks; others refuse an empty text, so null comes first."""
    refusal = (
        "2 validation errors:\n  {'type': 'literal_error', 'loc': ('body', 'messages', 1, "
        "'ChatCompletionRequestSystemMessage', 'role'), 'msg': \"Input should be 'system'\", 'input': 'assistant'}\n"
        "  {'type': 'string_type', 'loc': ('body', 'messages', 1, 'ChatCompletionRequestAssistantMessage', 'content'), "
        "'msg': 'Input should be a valid string', 'input': None}\n"
    )
    error = {"message": refusal, "type": "internal_server_error", "param": None, "code": None}
    call = ToolCall(id="call__0", name="shell", arguments=LS)
    messages = (
        Message(role="user", content="go"),
        Message(role="assistant", tool_calls=(call,)),
        Message(role="tool", content="x", tool_call_id=call.id, name="shell"),
    )
    done = events(python(content="done"), python("stop"))
    notices: list[str] = []
    with ModelServer(status(500, {"error": error}), done, done) as server:
        model = client(server, notices)
        for _ in range(2):
            assert model.complete(messages, (SHELL,), lambda _: None).message.content == "done"
    server.assert_all_used()
    assert [request.json["messages"][1]["content"] for request in server.requests] == [None, "", ""]
    assert notices == []
