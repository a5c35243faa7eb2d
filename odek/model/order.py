"""The order of messages that every server takes: after the system message the user, then roles that alternate. Pure.

A conversation may hold two messages of the user in a row (a turn was cancelled or failed), or one right after
the results of calls (the turn ended there); templates of local models refuse that, and so do some services.
So what is sent alternates by construction, whatever the history holds; the conversation itself stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from odek.model.types import Message

_ENDED = Message(role="assistant", content="[odek] The turn was ended here, before there was an answer.")
_BEGUN = Message(role="user", content="[odek] The beginning of this conversation is not sent.")


def alternating(messages: Sequence[Message]) -> list[Message]:
    """Return `messages` with what stands next to its like joined, and with what is missing between them."""
    system = "\n\n".join(message.content for message in messages if message.role == "system")
    ordered: list[Message] = [Message(role="system", content=system)] if system else []
    for message in messages:
        if message.role == "system" or _says_nothing(message):
            continue
        before = ordered[-1] if ordered and ordered[-1].role != "system" else None
        if before is not None and _joins(before, message):
            ordered[-1] = _joined(before, message)
            continue
        if message.role == "user" and before is not None and before.role == "tool":
            ordered.append(_ENDED)
        if message.role == "assistant" and before is None:
            ordered.append(_BEGUN)
        ordered.append(message)
    return ordered


def _says_nothing(message: Message) -> bool:
    return message.role == "assistant" and not message.content.strip() and not message.tool_calls


def _joins(before: Message, message: Message) -> bool:
    return before.role == message.role and message.role in ("user", "assistant") and not before.tool_calls


def _joined(before: Message, message: Message) -> Message:
    """Return both as one: the texts of both, the rest of the later one."""
    content = "\n\n".join(text for text in (before.content, message.content) if text.strip())
    return replace(message, content=content)
