"""Calls and their results stay together: providers refuse a conversation that has one without the other (B44). Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise

from odek.model.types import Message, ToolCall

_INTERRUPTED = "interrupted: the run ended before this call had a result; it may have had effects and was not run again"


def group_spans(messages: Sequence[Message]) -> list[tuple[int, int]]:
    """Return where each group begins and ends: a message with the results of its calls, or any other single message.

    Earlier tools put system messages between and behind results; these belong to the group. A result without a
    call before it is a group of its own.
    """
    starts: list[int] = []
    for place, message in enumerate(messages):
        if message.role not in ("tool", "system") or not starts or not messages[starts[-1]].tool_calls:
            starts.append(place)
    return list(pairwise([*starts, len(messages)]))


def tool_result(call: ToolCall, text: str) -> Message:
    """Return the message with the result of `call`."""
    return Message(role="tool", content=text, tool_call_id=call.id, name=call.name)


def error_result(call: ToolCall, error: str) -> Message:
    """Return the result of a `call` that was not carried out."""
    return tool_result(call, json.dumps({"error": error}, separators=(",", ":")))


def interrupted_result(call: ToolCall) -> Message:
    """Return the result of a `call` of which nothing more is known, for the run was ended."""
    return error_result(call, _INTERRUPTED)
