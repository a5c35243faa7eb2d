"""What both dialects share in writing requests and reading replies. Pure.

What a server sends is never trusted to have the right type: a field of another type counts as absent, an
answer without a meaning is a ModelProtocolError.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from odek.model.calls import is_object
from odek.model.surrogates import valid_text
from odek.model.types import Message, Reply, ToolCall, Usage

_NAME_LIMIT = 64  # what the OpenAI API accepts as a function name, with the characters below
_NAME_FORBIDDEN = re.compile(r"[^A-Za-z0-9_-]")
_CUT_OFF = frozenset({"length", "max_tokens", "model_length"})


def encode_body(body: Mapping[str, Any]) -> bytes:
    """Return `body` as UTF-8. Halves of surrogate pairs are joined; lone ones become U+FFFD."""
    return valid_text(json.dumps(body, ensure_ascii=False)).encode("utf-8")


@lru_cache(maxsize=8192)  # the calls of a conversation are sent again with every request
def valid_arguments(arguments: str) -> str:
    """Return the arguments of a past call as JSON text of an object, whatever the model had written.

    Servers that parse the history refuse it for ever after one invalid call (B40).
    """
    return arguments if is_object(arguments) else json.dumps({"invalid_arguments": arguments}, ensure_ascii=False)


def function_name(name: str) -> str:
    """Return `name`, which a model may have made up, in the characters and the length that servers accept."""
    return _NAME_FORBIDDEN.sub("_", name)[:_NAME_LIMIT] or "unknown"


def make_reply(message: Message, *, usage: Usage, stop: str) -> Reply:
    """Return the reply that `message` is, its text made valid; of calls that were cut off nothing is left (B40)."""
    stop = "length" if stop.lower() in _CUT_OFF else stop
    cut_off = stop in ("length", "content_filter")
    clean = replace(
        message,
        content=valid_text(message.content),
        tool_calls=tuple(_clean_call(call, cut_off=cut_off) for call in message.tool_calls),
        reasoning=valid_text(message.reasoning),
        reasoning_state=valid_text(message.reasoning_state),
    )
    return Reply(message=clean, usage=usage, stop=stop)


def _clean_call(call: ToolCall, *, cut_off: bool) -> ToolCall:
    """Return `call` with valid text; half of its arguments are dropped if the reply was cut off (B40)."""
    partial = cut_off and not is_object(call.arguments)
    return replace(
        call,
        id=valid_text(call.id),
        name=valid_text(call.name),
        arguments="{}" if partial else valid_text(call.arguments),
    )


def string(value: object) -> str:
    """Return `value` if it is text, else ""."""
    return value if isinstance(value, str) else ""
