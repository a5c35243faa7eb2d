"""Model servers as strict as the real ones: each refuses what its like refuses, and answers in its own ways.

    with Keeper(ZOO["mistral"], calls(("shell", {"command": "ls"})), text("done")) as server:
        …

One process, a row per server. A row says what must be so in a request (`rules`, each returning a refusal or None),
how an answer looks (`dress`, which gets the message of the script and adds ids, reasoning, signatures) and what
becomes of the events of a stream. A request that is refused takes nothing from the script.

The rows follow documentation and public reports, named at each; what is not known is as OpenAI's documentation has
it. None of them was written with access to the service.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from fakes.model_server import (
    Answer,
    ModelServer,
    ServedRequest,
    Step,
    as_answer,
    delta,
    events,
    message_of,
    raw,
    status,
    whole,
)
from fakes.request_rules import broken_rules

Json = dict[str, Any]
Rule = Callable[[Json, Mapping[str, str]], Answer | None]
Dress = Callable[[Json, int], Json]
"""(message, how many were given before) → the message as this server sends it"""

ARGUMENT = {"role", "content", "name", "tool_calls", "tool_call_id", "refusal", "audio", "function_call"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One server."""

    name: str
    source: str
    """where it is documented or was reported"""
    rules: tuple[Rule, ...] = ()
    dress: Dress = lambda message, _: message
    before: tuple[bytes, ...] = ()
    """what comes ahead of the events of a stream"""
    whole_events: bool = False
    """whether a stream sends each call in one event, under one index"""
    finish: str = "tool_calls"
    """its finish reason for a message with calls"""
    path: str = "/v1"
    provider: str = "openai"


class Keeper(ModelServer):
    """A server of one kind with a script of messages."""

    def __init__(self, kind: Kind, *script: Step, streams: bool = True) -> None:
        """`streams`: whether it answers a request for a stream with one, or with one JSON object."""
        super().__init__(*script, models={"object": "list", "data": [{"id": "m", "object": "model"}]})
        self.kind = kind
        self.refusals: list[str] = []
        self._streams = streams
        self._given = 0

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.kind.path}"

    def answer(self, request: ServedRequest) -> Answer:
        """Refuse what this kind refuses, else answer in its ways."""
        if request.method == "GET":
            return super().answer(request)
        refusal = self._refusal(request)
        if refusal is not None:
            self.refusals.append(b"".join(refusal.chunks).decode())
            return refusal
        self.requests.append(request)
        step = self.next_step(request)
        if isinstance(step, Answer):
            return step
        message = message_of(step)
        if message is None or self.kind.provider == "anthropic":
            return as_answer(step, request, streamed=self._streams)
        self._given += 1
        dressed = self.kind.dress(message, self._given)
        return (
            self._stream(dressed, step) if self._streams and request.json.get("stream") else self._body(dressed, step)
        )

    def _refusal(self, request: ServedRequest) -> Answer | None:
        broken = broken_rules(request.path, request.body)
        if broken:
            return error(400, f"invalid request: {broken}")
        if not request.path.partition("?")[0].startswith(self.kind.path):
            return error(404, "no such path")
        return next((found for rule in self.kind.rules if (found := rule(request.json, request.headers))), None)

    def _reason(self, message: Json, step: Step) -> str:
        given: str = step.finish_reason  # type: ignore[union-attr]  it is a message
        return self.kind.finish if message.get("tool_calls") and given == "tool_calls" else given

    def _body(self, message: Json, step: Step) -> Answer:
        choice = {"index": 0, "message": message, "finish_reason": self._reason(message, step)}
        usage = {"prompt_tokens": 100, "completion_tokens": 10}
        return whole({"object": "chat.completion", "choices": [choice], "usage": usage})

    def _stream(self, message: Json, step: Step) -> Answer:
        payloads = [delta(role="assistant", content="")]
        payloads += [delta(**{name: value}) for name, value in message.items() if name not in ("role", "tool_calls")]
        for index, made in enumerate(message.get("tool_calls", [])):
            payloads += self._fragments(index, made)
        payloads += [delta(self._reason(message, step)), {"choices": [], "usage": {"prompt_tokens": 100}}]
        stream = events(*payloads)
        return raw(*self.kind.before, *stream.chunks)

    def _fragments(self, index: int, made: Json) -> list[Json]:
        if self.kind.whole_events:
            return [delta(tool_calls=[{"index": 0, **made}])]
        arguments = made["function"]["arguments"]
        middle = len(arguments) // 2
        head = {**made, "function": {**made["function"], "arguments": arguments[:middle]}}
        rest = {"index": index, "function": {"arguments": arguments[middle:]}}
        return [delta(tool_calls=[{"index": index, **head}]), delta(tool_calls=[rest])]


def error(code: int, message: str, **fields: object) -> Answer:
    """Return a refusal in OpenAI's form."""
    return status(code, {"error": {"message": message, "type": "invalid_request_error", **fields}})


# --- rules


def assistant_messages(request: Json) -> list[Json]:
    return [message for message in request["messages"] if message["role"] == "assistant"]


def called(request: Json) -> list[Json]:
    return [message for message in assistant_messages(request) if message.get("tool_calls")]


def this_turn(request: Json) -> list[Json]:
    """Return the messages since the user's last word."""
    users = [place for place, message in enumerate(request["messages"]) if message["role"] == "user"]
    since: list[Json] = request["messages"][users[-1] + 1 :]
    return since


def no_fields_but(*allowed: str, code: int = 400, words: str = "property '{name}' is unsupported") -> Rule:
    """A server that refuses every field of an assistant's message that it does not document."""

    def rule(request: Json, _: Mapping[str, str]) -> Answer | None:
        for place, message in enumerate(request["messages"]):
            for name in message.keys() - ARGUMENT - set(allowed):
                return error(code, f"'messages.{place}' : {words.format(name=name)}")
            for call in message.get("tool_calls") or ():
                for name in call.keys() - {"id", "type", "function", "index"}:
                    return error(code, f"'messages.{place}.tool_calls' : {words.format(name=name)}")
        return None

    return rule


def wants_with_calls(name: str, words: str) -> Rule:
    """A server that refuses a message with calls without this field."""

    def rule(request: Json, _: Mapping[str, str]) -> Answer | None:
        missing = any(name not in message for message in called(request))
        return error(400, words) if missing else None

    return rule


def wants_short_ids(request: Json, _: Mapping[str, str]) -> Answer | None:
    for message in called(request):
        for call in message["tool_calls"]:
            if not re.fullmatch(r"[A-Za-z0-9]{9}", call["id"]):
                words = f"Tool call id was {call['id']} but must be a-z, A-Z, 0-9, with a length of 9."
                return status(
                    400, {"object": "error", "message": words, "type": "invalid_function_call", "code": "3280"}
                )
    return None


def wants_signatures(request: Json, _: Mapping[str, str]) -> Answer | None:
    """Within a turn, the first call of each message must bear the signature that came with it."""
    for message in this_turn(request):
        calls = message.get("tool_calls") or [None]
        if calls[0] is not None and "thought_signature" not in json.dumps(calls[0].get("extra_content", {})):
            words = "Function call is missing a thought_signature in functionCall parts."
            return status(400, [{"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}])
    return None


def wants_properties(request: Json, _: Mapping[str, str]) -> Answer | None:
    for tool in request.get("tools", ()):
        if tool["function"]["parameters"].get("properties") == {}:
            words = "function_declarations[0].parameters.properties: should be non-empty for OBJECT type"
            return status(400, [{"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}])
    return None


def wants_details(request: Json, _: Mapping[str, str]) -> Answer | None:
    """Within a turn, the details of reasoning must come back as they were, signature and all."""
    for message in this_turn(request):
        if message.get("tool_calls") and message.get("reasoning_details") != DETAILS:
            raw_words = json.dumps({"error": {"message": "Invalid `signature` in `thinking` block"}})
            return status(
                400, {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw_words}}}
            )
    return None


def wants_thinking_in_the_text(request: Json, _: Mapping[str, str]) -> Answer | None:
    for message in this_turn(request):
        if message.get("tool_calls") and not str(message.get("content")).startswith("<think>"):
            return whole(
                {"choices": None, "base_resp": {"status_code": 2013, "status_msg": "invalid params: thinking"}}
            )
    return None


def wants_tools_for_calls(request: Json, _: Mapping[str, str]) -> Answer | None:
    if called(request) and not request.get("tools"):
        words = "The toolConfig field must be defined when using toolUse and toolResult content blocks."
        return error(400, f"litellm.BadRequestError: BedrockException - {json.dumps({'message': words})}")
    for message in called(request):
        for call in message["tool_calls"]:
            if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call["id"]):
                return error(400, f"toolUseId {call['id']}: Member must satisfy the pattern [a-zA-Z0-9_-]+")
    return None


def wants_text(request: Json, _: Mapping[str, str]) -> Answer | None:
    for message in assistant_messages(request):
        if message.get("content") is None:
            return error(400, "messages: content: Input should be a valid string")
    return None


def refuses(name: str, words: str, code: int = 400) -> Rule:
    """A server that knows no such option."""
    return lambda request, _: error(code, words) if name in request else None


def wants_key_header(_: Json, headers: Mapping[str, str]) -> Answer | None:
    if "api-key" not in headers:
        words = "Access denied due to invalid subscription key or wrong API endpoint."
        return status(401, {"error": {"code": "401", "message": words}})
    return None


def wants_short_enough_ids(request: Json, _: Mapping[str, str]) -> Answer | None:
    for message in called(request):
        for place, call in enumerate(message["tool_calls"]):
            if len(call["id"]) > 40:
                words = f"Invalid 'messages[{place}].tool_calls[0].id': string too long. Expected maximum length 40"
                return error(400, words)
    return None


# --- how answers look

DETAILS = [
    {"type": "reasoning.text", "text": "I look.", "signature": "EqQBCkYI", "format": "anthropic-claude-v1", "index": 0}
]


def with_ids(form: str) -> Dress:
    """Return a dress with ids of that form: `{given}` and `{place}` are numbers."""

    def dress(message: Json, given: int) -> Json:
        calls = [
            {**call, "id": form.format(given=given, place=place)}
            for place, call in enumerate(message.get("tool_calls", []))
        ]
        return {**message, "tool_calls": calls} if calls else message

    return dress


def with_fields(**fields: Any) -> Dress:
    return lambda message, _: {**message, **fields}


def signed(message: Json, given: int) -> Json:
    calls = [dict(call) for call in message.get("tool_calls", [])]
    if not calls:
        return message
    calls[0]["extra_content"] = {"google": {"thought_signature": f"AY89a18Iw{given}=="}}
    return {
        **message,
        "tool_calls": [{**call, "id": f"function-call-{given}{place}"} for place, call in enumerate(calls)],
    }


def thinking_in_the_text(message: Json, _: int) -> Json:
    return {**message, "content": f"<think>\nI look.\n</think>\n\n{message.get('content') or ''}"}


def objects_for_arguments(message: Json, _: int) -> Json:
    calls = [
        {**call, "function": {**call["function"], "arguments": json.loads(call["function"]["arguments"])}}
        for call in message.get("tool_calls", [])
    ]
    return {**message, "tool_calls": calls} if calls else message


def all_of(*dresses: Dress) -> Dress:
    def dress(message: Json, given: int) -> Json:
        for one in dresses:
            message = one(message, given)
        return message

    return dress


ZOO: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind(
            name="openai",
            source="platform.openai.com/docs/api-reference/chat; ids of 40 characters: vercel/ai #2471",
            rules=(wants_short_enough_ids,),
            dress=all_of(
                with_ids("call_{given}abcdefghijklmnopqrst{place}"), with_fields(refusal=None, annotations=[])
            ),
        ),
        Kind(
            name="azure",
            source="learn.microsoft.com/azure/ai-services/openai/reference; BerriAI/litellm #8572 (path, api-key)",
            rules=(wants_key_header,),
            dress=with_ids("call_{given}az{place}"),
            before=(b'data: {"choices": [], "prompt_filter_results": [{"prompt_index": 0}]}\n\n',),
            path="/openai/deployments/my-chat",
        ),
        Kind(
            name="deepseek thinking",
            source="api-docs.deepseek.com/guides/thinking_mode; continuedev/continue #10193, earendil-works/pi #3636",
            rules=(
                wants_with_calls("reasoning_content", "Missing `reasoning_content` field in the assistant message"),
            ),
            dress=all_of(with_fields(reasoning_content="I look."), with_ids("call_{place}_{given}")),
            before=(b": keep-alive\n\n",),
        ),
        Kind(
            name="gemini",
            source="ai.google.dev/gemini-api/docs/openai, thought-signatures; securo-finance/securo #884, "
            "SWE-agent/SWE-agent #1431",
            rules=(wants_signatures, wants_properties),
            dress=signed,
            whole_events=True,
            finish="stop",
            path="/v1beta/openai",
        ),
        Kind(
            name="openrouter",
            source="openrouter.ai/docs (reasoning tokens); microsoft/agent-framework #2947",
            rules=(wants_details,),
            dress=all_of(
                with_fields(reasoning="I look.", reasoning_details=DETAILS), with_ids("toolu_{given}or{place}")
            ),
            before=(b": OPENROUTER PROCESSING\n\n",),
            path="/api/v1",
        ),
        Kind(
            name="mistral",
            source="docs.mistral.ai/api; nearai/ironclaw #1241 (ids), datapizza-labs/datapizza-ai #98 (order)",
            rules=(
                wants_short_ids,
                no_fields_but(code=422, words="Extra inputs are not permitted: {name}"),
                refuses("stream_options", "stream_options: Extra inputs are not permitted", 422),
            ),
            dress=with_ids("M{given:04}x{place:03}"),
        ),
        Kind(
            name="groq",
            source="console.groq.com/docs; NousResearch/hermes-agent #11089, janhq/jan #8136",
            rules=(no_fields_but("reasoning"),),
            dress=all_of(with_fields(reasoning="I look."), with_ids("fc_{given}-{place}")),
            path="/openai/v1",
        ),
        Kind(
            name="vllm",
            source="docs.vllm.ai (reasoning outputs, tool calling); vllm-project/vllm #27755",
            dress=all_of(with_fields(reasoning="I look."), with_ids("chatcmpl-tool-{given:032}{place}")),
        ),
        Kind(
            name="llama.cpp old",
            source="ggml-org/llama.cpp #14566 (errors), #19851 (templates)",
            rules=(refuses("tool_choice", "tool_choice: only auto is supported"),),
            dress=with_ids(""),
            whole_events=True,
            finish="stop",
        ),
        Kind(
            name="llama.cpp new",
            source="github.com/ggml-org/llama.cpp tools/server/README.md; sipeed/picoclaw #207 (roles)",
            dress=all_of(with_fields(reasoning_content="I look."), with_ids("QFN59{given}Oa{place}")),
        ),
        Kind(
            name="ollama",
            source="docs.ollama.com/openai; pydantic/pydantic-ai #703",
            dress=all_of(with_fields(reasoning="I look."), with_ids("call_{place}")),
            whole_events=True,
            finish="stop",
        ),
        Kind(
            name="lm studio",
            source="lmstudio.ai/docs/api; lmstudio-ai/lmstudio-bug-tracker #618",
            rules=(wants_text,),
            dress=with_ids("{given}{place}"),
        ),
        Kind(
            name="tgi",
            source="huggingface.co/docs/text-generation-inference/messages_api; huggingface/text-generation-inference "
            "#2749",
            rules=(refuses("stream_options", "stream_options: unknown field", 422),),
            dress=all_of(objects_for_arguments, with_ids("0")),
            whole_events=True,
        ),
        Kind(
            name="litellm before bedrock",
            source="BerriAI/litellm #24158; onyx-dot-app/onyx #7842, vercel/ai #7528",
            rules=(wants_tools_for_calls,),
            dress=all_of(
                with_ids("tooluse_{given}-{place}"), with_fields(provider_specific_fields={"citations": None})
            ),
        ),
        Kind(
            name="dashscope",
            source="alibabacloud.com/help/en/model-studio; QwenLM/qwen-code #98",
            dress=all_of(with_fields(reasoning_content=""), with_ids("call_{given}ds{place}")),
            path="/compatible-mode/v1",
        ),
        Kind(
            name="minimax",
            source="platform.minimax.io/docs (function calling); MiniMax-AI/MiniMax-M2 #18, lobehub/lobehub #10255",
            rules=(wants_thinking_in_the_text,),
            dress=all_of(thinking_in_the_text, with_ids("call_function_{given}_{place}")),
        ),
        Kind(
            name="anthropic",
            source="docs.anthropic.com/en/api/messages",
            provider="anthropic",
        ),
    )
}
