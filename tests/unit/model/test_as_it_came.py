"""What a server sent goes back to it as it came, and what another server refuses is left out: section by section."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from fakes.model_server import Answer, ModelServer, ServedRequest, delta, events, status, text, whole

from odek.model.http import Effects, HttpModel, ProviderName
from odek.model.provider import RequestOptions
from odek.model.types import Message, Thought, ToolCall, ToolSpec
from odek.session.codec import decode_message, encode_message

ASK = Message(role="user", content="go")
SHELL = ToolSpec(
    name="shell", description="Run.", parameters={"type": "object", "properties": {"command": {"type": "string"}}}
)
LS = '{"command": "ls"}'
BOTH_WAYS = pytest.mark.parametrize("streamed", [True, False], ids=["stream", "whole"])


def client(server: ModelServer, provider: ProviderName = "openai") -> HttpModel:
    return HttpModel(
        base_url=server.base_url,
        options=RequestOptions(model="m"),
        provider=provider,
        env={},
        on_notice=lambda _: None,
        effects=Effects(sleep=lambda _: None),
    )


def call(call_id: str = "c1", **beside: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "shell", "arguments": LS}, **beside}


def said(*, streamed: bool, stop: str = "tool_calls", **message: Any) -> Answer:
    """Return an answer that holds `message`, in one piece or as a stream of one delta a field."""
    if not streamed:
        return whole({"choices": [{"message": {"role": "assistant", **message}, "finish_reason": stop}]})
    return events(*(delta(**{name: value}) for name, value in message.items()), delta(stop))


def result(made: ToolCall) -> Message:
    return Message(role="tool", content="ok", tool_call_id=made.id, name=made.name)


def stored(message: Message) -> Message:
    """Return `message` as a session gives it back."""
    again, extra = decode_message(json.loads(json.dumps(encode_message(message, {}))))
    assert extra == {}
    return again


def sent_back(*answers: Answer, provider: ProviderName = "openai") -> dict[str, Any]:
    """Return the message of the model in the request that follows the first of `answers`."""
    with ModelServer(*answers, text("done")) as server:
        model = client(server, provider)
        first = model.complete((ASK,), (SHELL,), lambda _: None).message
        assert stored(first) == first
        results = map(result, first.tool_calls)
        model.complete((ASK, stored(first), *results), (SHELL,), lambda _: None)
    server.assert_all_used()
    message: dict[str, Any] = server.requests[-1].json["messages"][1]
    return message


@BOTH_WAYS
@pytest.mark.parametrize(
    "beside",
    [
        {"extra_content": {"google": {"thought_signature": "AY89a18IwQ=="}}},
        {"extra_content": {"vertex": {"thought_signature": "AY89a18IwQ=="}}},
        {"provider_specific_fields": {"thought_signature": "x"}},
        {"thought_signature": "x", "another": [1, {"two": None}]},
    ],
)
def test_what_stands_beside_a_function_goes_back(beside: dict[str, Any], *, streamed: bool) -> None:
    """B81: whatever it is called, whole and streamed, and through a stored session."""
    sent = sent_back(said(streamed=streamed, tool_calls=[call(**beside), call("c2")]))
    assert sent["tool_calls"] == [call(**beside), call("c2")]


def test_what_stands_in_a_function_or_comes_in_a_fragment_of_its_own_goes_back() -> None:
    """B81"""
    inside = {"name": "shell", "arguments": LS, "provider_specific_fields": {"signature": "s"}}
    fragments = [
        delta(
            tool_calls=[{"index": 0, "id": "c1", "type": "function", "function": {"name": "shell", "arguments": ""}}]
        ),
        delta(tool_calls=[{"index": 0, "function": {"arguments": LS}}]),
        delta(tool_calls=[{"index": 0, "extra_content": {"google": {"thought_signature": "s"}}}]),
        delta("tool_calls"),
    ]
    assert sent_back(said(streamed=False, tool_calls=[{**call(), "function": inside}]))["tool_calls"][0][
        "function"
    ] == (inside)
    assert sent_back(events(*fragments))["tool_calls"] == [call(extra_content={"google": {"thought_signature": "s"}})]


def test_details_of_reasoning_go_back_whole() -> None:
    """B82: in pieces that belong together by their index, a signature last, another part after it."""
    part = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}
    sealed = {"type": "reasoning.encrypted", "data": "xyz", "id": "rs_1", "index": 1}
    pieces = [{**part, "text": "Look "}, {**part, "text": "first."}, {**part, "signature": "EqQB"}, sealed]
    streamed = events(
        *(delta(reasoning_details=[piece]) for piece in pieces), delta(tool_calls=[call()]), delta("tool_calls")
    )
    wanted = [{**part, "text": "Look first.", "signature": "EqQB"}, sealed]
    assert sent_back(streamed)["reasoning_details"] == wanted
    assert sent_back(said(streamed=False, tool_calls=[call()], reasoning_details=wanted))["reasoning_details"] == wanted


@BOTH_WAYS
@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "reasoning_text", "thinking"])
@pytest.mark.parametrize("thoughts", ["because", ""])
def test_reasoning_goes_back_under_its_name(name: str, thoughts: str, *, streamed: bool) -> None:
    """B83, B84: an empty field too, for its server wants it."""
    assert sent_back(said(streamed=streamed, tool_calls=[call()], **{name: thoughts}))[name] == thoughts


def test_reasoning_under_two_names_goes_back_under_both() -> None:
    """B84"""
    sent = sent_back(said(streamed=False, tool_calls=[call()], reasoning_content="hm", reasoning="hm"))
    assert (sent["reasoning_content"], sent["reasoning"]) == ("hm", "hm")


@BOTH_WAYS
def test_thinking_among_the_parts_of_the_content_goes_back_there(*, streamed: bool) -> None:
    """B84: as Mistral has it."""
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    words = {"type": "text", "text": "I look."}
    sent = sent_back(said(streamed=streamed, content=[thought, words], tool_calls=[call()]))
    assert sent["content"] == [thought, words]


def with_calls(**changes: Any) -> Message:
    message = Message(role="assistant", tool_calls=(ToolCall(id="call_1", name="shell", arguments=LS),))
    return replace(message, **changes)


def refusing(words: str, when: Callable[[dict[str, Any]], bool], *, code: int = 400) -> Callable[[ServedRequest], Any]:
    def answer(request: ServedRequest) -> Any:
        return status(code, {"error": {"message": words}}) if when(request.json) else text("done")

    return answer


def messages_of(request: dict[str, Any], role: str) -> list[dict[str, Any]]:
    return [message for message in request["messages"] if message["role"] == role]


def history(*spoken: Message) -> tuple[Message, ...]:
    """Return a conversation in which each of `spoken` has its results, and the user the last word."""
    messages: list[Message] = []
    for number, message in enumerate(spoken):
        messages += [replace(ASK, content=f"task {number}"), message, *map(result, message.tool_calls)]
        messages.append(Message(role="assistant", content="so"))
    return (*messages, ASK)


def requests_after(
    server_rule: Callable[[ServedRequest], Any], messages: Iterable[Message], *, times: int
) -> list[dict[str, Any]]:
    """Return what was sent for two calls with `messages`, for which the server had to be asked so often in all."""
    with ModelServer(*[server_rule] * times) as server:
        model = client(server)
        for _ in range(2):
            assert model.complete(tuple(messages), (SHELL,), lambda _: None).message.content == "done"
    server.assert_all_used()
    return [request.json for request in server.requests]


@pytest.mark.parametrize(
    "words",
    [
        "Missing `reasoning_content` field in the assistant message at message index 1.",
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
        "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
    ],
)
def test_field_that_a_server_demands_is_sent_with_every_call(words: str) -> None:
    """B83: a session that was begun elsewhere is not dead."""
    spoken = (with_calls(), with_calls(reasoning="hm", reasoning_field="reasoning"))
    rule = refusing(words, lambda r: any("reasoning_content" not in m for m in called(r)))
    *_, last = requests_after(rule, history(*spoken), times=3)
    assert [message["reasoning_content"] for message in called(last)] == ["", "hm"]


def called(request: dict[str, Any]) -> list[dict[str, Any]]:
    return [message for message in messages_of(request, "assistant") if "tool_calls" in message]


def test_server_that_sends_the_field_gets_it_with_every_call() -> None:
    """B83: without being asked."""
    spoken = (with_calls(reasoning="hm", reasoning_field="reasoning_content"), with_calls())
    last = requests_after(lambda _: text("done"), history(*spoken), times=2)[-1]
    assert [message["reasoning_content"] for message in called(last)] == ["hm", ""]


@pytest.mark.parametrize(
    ("code", "words", "names"),
    [
        (400, "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property "
         "'reasoning_content' is unsupported)]", {"reasoning_content"}),
        (422, "[{'type': 'extra_forbidden', 'loc': ['body', 'messages', 1, 'assistant', 'reasoning_content'], 'msg': "
         "'Extra inputs are not permitted'}]", {"reasoning_content"}),
        (400, "Unrecognized request argument supplied: extra_content", {"extra_content"}),
        (400, "Additional properties are not allowed ('reasoning_details' was unexpected)", {"reasoning_details"}),
        (400, "validation of the request failed", {"reasoning_content", "extra_content", "reasoning_details"}),
        (400, "", {"reasoning_content", "extra_content", "reasoning_details"}),
    ],
)  # fmt: skip
def test_what_a_server_refuses_is_left_out_from_then_on(code: int, words: str, names: set[str]) -> None:
    """B85: named or not; what it does not mind stays."""
    one = with_calls(
        reasoning="hm", reasoning_field="reasoning_content", extra='{"reasoning_details": [{"text": "hm"}]}'
    )
    calls = (replace(one.tool_calls[0], extra='{"extra_content": {"google": {"thought_signature": "s"}}}'),)
    rule = refusing(words, lambda r: any(f'"{name}"' in json.dumps(r["messages"]) for name in names), code=code)
    *_, last = requests_after(rule, history(replace(one, tool_calls=calls)), times=3)
    for name in ("reasoning_content", "extra_content", "reasoning_details"):
        assert (name in json.dumps(last)) is (name not in names)


def test_a_refusal_for_another_reason_takes_nothing_away() -> None:
    """B85: tried once without what is not documented, which goes back to its server again afterwards."""
    spoken = history(with_calls(reasoning="hm", reasoning_field="reasoning_content"))
    wrong = status(400, {"error": {"message": "the model is out of office"}})
    with ModelServer(wrong, wrong, text("done")) as server:
        model = client(server)
        with pytest.raises(Exception, match="400"):
            model.complete(spoken, (SHELL,), lambda _: None)
        model.complete(spoken, (SHELL,), lambda _: None)
    server.assert_all_used()
    assert ["hm" in json.dumps(request.json) for request in server.requests] == [True, False, True]


@pytest.mark.parametrize(
    "words",
    [
        "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.",
        "Invalid 'messages[2].tool_call_id': string too long. Expected a string with maximum length 40",
        "toolUseId: Value at 'messages.2' failed to satisfy constraint: [a-zA-Z0-9_-]+",
        "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
    ],
)
def test_ids_are_rewritten_when_a_server_asks_in_calls_and_results_alike(words: str) -> None:
    """B86"""
    long = ToolCall(id="chatcmpl-tool-" + "f" * 40, name="shell", arguments=LS)
    spoken = (
        with_calls(),
        with_calls(tool_calls=(long, ToolCall(id="Ab3dE6gH9", name="shell", arguments=LS))),
        with_calls(),
    )

    def ids(request: dict[str, Any]) -> list[str]:
        return [made["id"] for message in called(request) for made in message["tool_calls"]]

    def odd(request: dict[str, Any]) -> bool:
        return any(len(name) != 9 or not name.isalnum() for name in ids(request))

    *_, before, last = requests_after(refusing(words, odd), history(*spoken), times=3)
    assert before["messages"] == last["messages"]
    assert [message["tool_call_id"] for message in messages_of(last, "tool")] == ids(last)
    assert (len(set(ids(last))), ids(last)[2]) == (4, "Ab3dE6gH9")


def test_our_own_ids_fit_everywhere() -> None:
    """B86: for a server that sends none."""
    with ModelServer(
        said(streamed=True, tool_calls=[{"index": 0, "function": {"name": "shell", "arguments": LS}}])
    ) as server:
        (made,) = client(server).complete((ASK,), (SHELL,), lambda _: None).message.tool_calls
    assert (len(made.id), made.id.isalnum(), made.id.isascii()) == (9, True, True)


def test_request_for_words_alone_declares_the_tools_of_the_past() -> None:
    """B92: and says that none may be called; without calls in the history there is nothing to declare."""
    with ModelServer(text("so"), text("so")) as server:
        model = client(server)
        model.complete(history(with_calls()), (), lambda _: None)
        model.complete((ASK,), (), lambda _: None)
    after, before = (request.json for request in server.requests)
    parameters = {"type": "object", "properties": {"command": {"type": "string"}}}
    assert [tool["function"] for tool in after["tools"]] == [
        {"name": "shell", "description": "", "parameters": parameters}
    ]
    assert after["tool_choice"] == "none"
    assert before.keys().isdisjoint({"tools", "tool_choice"})


def test_server_that_knows_no_tool_choice_is_asked_without() -> None:
    """B92"""
    rule = refusing("unknown parameter: tool_choice", lambda r: "tool_choice" in r)
    with ModelServer(rule, rule) as server:
        client(server).complete(history(with_calls()), (), lambda _: None)
    server.assert_all_used()


def test_server_that_refuses_empty_properties_gets_none() -> None:
    """B117: Gemini refuses them, OpenAI refuses their absence; no tool of odek's has none, a foreign one may."""
    words = "GenerateContentRequest.tools[0].function_declarations[0].parameters.properties: should be non-empty"
    bare = ToolSpec(name="now", description="The time.", parameters={"type": "object", "properties": {}})

    def empty(request: dict[str, Any]) -> bool:
        return request["tools"][0]["function"]["parameters"].get("properties") == {}

    rule = refusing(words, empty)
    server = ModelServer(rule, rule)
    with pytest.raises(AssertionError, match="no properties"), server:  # which OpenAI would refuse
        client(server).complete((ASK,), (bare,), lambda _: None)
    server.assert_script_used()


@pytest.mark.parametrize(
    ("spoken", "roles"),
    [
        ("u u u", "user"),
        ("u a a u", "user assistant user"),
        ("a u", "user assistant user"),
        ("u c t u", "user assistant tool assistant user"),
        ("u c t c t", "user assistant tool assistant tool"),
        ("u c t u a u u", "user assistant tool assistant user assistant user"),
        ("u e u", "user"),
        ("s u s u", "system user"),
    ],
)
def test_what_is_sent_alternates_whatever_the_history_holds(spoken: str, roles: str) -> None:
    """A23: by construction; nothing that was said is lost."""
    kinds = {
        "s": Message(role="system", content="be brief"),
        "u": ASK,
        "a": Message(role="assistant", content="so"),
        "e": Message(role="assistant"),
        "c": with_calls(),
        "t": result(with_calls().tool_calls[0]),
    }
    messages = tuple(kinds[kind] for kind in spoken.split())
    with ModelServer(text("done")) as server:
        client(server).complete(messages, (SHELL,), lambda _: None)
    sent = server.requests[0].json["messages"]
    assert " ".join(message["role"] for message in sent) == roles
    assert sum(message["content"].count("go") for message in sent if message["content"]) == spoken.count("u")


@BOTH_WAYS
@pytest.mark.parametrize(
    ("content", "thinking", "answer"),
    [
        ("<think>hm\n</think>\n\nYes.", "hm\n", "Yes."),
        ("\n<think>hm</think>Yes.", "hm", "Yes."),
        ("<thinking>hm</thinking>\nYes.", "hm", "Yes."),
        ("[THINK]hm[/THINK]Yes.", "hm", "Yes."),
        ("<think>hm", "hm", ""),
        ("<think></think>\n\nYes.", "", "Yes."),
        ("hm\n</think>\n\nYes.", "hm\n", "Yes."),
        ("The tag <think> opens it.", "", "The tag <think> opens it."),
        ("`</think>` closes it.", "", "`</think>` closes it."),
        ("```\n</think>\n```", "", "```\n</think>\n```"),
        ("<thin ice>", "", "<thin ice>"),
        ("<", "", "<"),
    ],
)
def test_thinking_in_the_text_is_no_part_of_the_answer(
    content: str, thinking: str, answer: str, *, streamed: bool
) -> None:
    """B111: in pieces of one character too."""
    pieces = events(*(delta(content=piece) for piece in content), delta("stop"))
    shown: list[str] = []
    with ModelServer(pieces if streamed else said(streamed=False, content=content, stop="stop")) as server:
        message = client(server).complete((ASK,), (SHELL,), shown.append).message
    assert (message.reasoning, message.content) == (thinking, answer)
    thoughts = "".join(piece for piece in shown if isinstance(piece, Thought))
    text = "".join(piece for piece in shown if not isinstance(piece, Thought))
    if not content.startswith("hm") and content != "<":  # what these are shows at the end only
        assert (text.strip(), thoughts.strip()) == (answer, thinking.strip())


@BOTH_WAYS
@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "both"])
def test_thinking_is_shown_as_it_arrives_and_once(field: str, *, streamed: bool) -> None:
    """B111: whatever the name of the field."""
    names = ("reasoning_content", "reasoning") if field == "both" else (field,)
    thoughts = [dict.fromkeys(names, piece) for piece in ("I ", "look.")]
    pieces = events(*(delta(**thought) for thought in thoughts), delta(content="Yes."), delta("stop"))
    shown: list[str] = []
    whole = said(streamed=False, content="Yes.", stop="stop", **dict.fromkeys(names, "I look."))
    with ModelServer(pieces if streamed else whole) as server:
        client(server).complete((ASK,), (SHELL,), shown.append)
    kinds = [isinstance(piece, Thought) for piece in shown]
    assert (kinds, shown) == (
        ([True, True, False], ["I ", "look.", "Yes."]) if streamed else ([True, False], ["I look.", "Yes."])
    )


def test_thinking_in_the_text_goes_back_within_its_turn_alone() -> None:
    """B111: templates take it out of turns that are over; MiniMax wants it in the present one."""
    first = said(streamed=True, content="<think>hm</think>\n\nI look.", tool_calls=[call()])
    assert sent_back(first)["content"] == "<think>hm</think>\n\nI look."
    over = with_calls(content="I look.", reasoning="hm", reasoning_field="<think>")
    last = requests_after(lambda _: text("done"), history(over), times=2)[-1]
    assert called(last)[0]["content"] == "I look."


def test_signed_thinking_of_another_provider_is_left_out_when_it_is_refused() -> None:
    """B85: what the server itself signs afterwards goes back to it; a state that is not one is no harm."""
    state = json.dumps([{"type": "thinking", "thinking": "hm", "signature": "theirs"}, {"type": "tool_use"}])
    spoken = history(with_calls(reasoning="hm", reasoning_state=state), with_calls(reasoning_state="{oops"))
    refusal = status(
        400, {"error": {"type": "invalid_request_error", "message": "Invalid `signature` in `thinking` block"}}
    )
    with ModelServer(refusal, text("done"), text("done")) as server:
        model = client(server, "anthropic")
        for messages in (
            spoken,
            (*spoken, with_calls(reasoning_state=state.replace("theirs", "ours")), result(with_calls().tool_calls[0])),
        ):
            model.complete(messages, (SHELL,), lambda _: None)
    server.assert_all_used()
    sent = [json.dumps(request.json) for request in server.requests]
    assert [("theirs" in body, "ours" in body) for body in sent] == [(True, False), (False, False), (False, True)]
