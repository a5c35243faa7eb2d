"""What the APIs of all providers share in writing requests and reading replies. Pure.

What a server sends is never trusted to have the right type: a field of another type counts as absent, an
answer without a meaning is a ModelProtocolError.

Messages go out in an order that every server takes: the system message, then the user, then alternating roles.
A conversation may hold two messages of the user in a row (a turn was cancelled or failed), or one right after the
results of calls (the turn ended there); templates of local models refuse that, and so do some services. The
conversation itself stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from odek.model.images import Image
from odek.model.json_fields import is_object
from odek.model.types import Message, Reply, ToolCall, Usage
from odek.model.unicode_repair import valid_text
from odek.patterns import pattern

_NAME_LIMIT = 64  # what the OpenAI API accepts as a function name, with the characters below
_NAME_FORBIDDEN = pattern(r"[^A-Za-z0-9_-]")
_CUT_OFF = frozenset({"length", "max_tokens", "model_length"})


def encode_body(body: Mapping[str, Any]) -> bytes:
    """Return `body` as UTF-8. Halves of surrogate pairs are joined; lone ones become U+FFFD."""
    return valid_text(json.dumps(body, ensure_ascii=False)).encode("utf-8")


@lru_cache(maxsize=8192)  # the calls of a conversation are sent again with every request
def valid_arguments(arguments: str) -> str:
    """Return the arguments of a past call as JSON text of an object, whatever the model had written.

    Servers that parse the history refuse every later request after one invalid call (B40).
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


_ENDED = Message(role="assistant", content="[odek] The turn was ended here, before there was an answer.")
_BEGUN = Message(role="user", content="[odek] The beginning of this conversation is not sent.")


def alternating(messages: Sequence[Message]) -> list[Message]:
    """Return `messages` with neighbours of the same role joined, and missing turns filled in."""
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
    return replace(message, content=content, images=(*before.images, *message.images))


def shown_images(message: Message, *, taken: bool) -> tuple[str, list[Image]]:
    """Return the text of a message and the images to send with it; `taken`: the model takes images.

    What cannot be sent is named in the text: the model would otherwise make up what it does not see.
    """
    shown = [image for image in message.images if image.data and taken]
    why = "the file is gone or has changed" if taken else "this model takes no images"
    notes = [f"[the image {image.name} is not shown: {why}]" for image in message.images if image not in shown]
    return "\n\n".join((*notes, message.content)) if notes else message.content, shown


_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_LENGTH = 9
_SHORT = pattern(r"[A-Za-z0-9]{9}")
_ID_FORBIDDEN = pattern(r"[^A-Za-z0-9_-]")
_ID_LIMIT = 64
IdForm = Callable[[str, int], str]
"""(the id as it came, how often it was tried) → an id"""


class CallIds:
    """The ids of one conversation, each one once: other providers use the same ones in every reply."""

    def __init__(self, form: IdForm) -> None:
        self._form = form
        self._taken: set[str] = set()
        self._current: dict[str, str] = {}

    def begin(self, calls: Sequence[ToolCall]) -> None:
        """Choose the ids of one message's calls."""
        self._current = {call.id: self._choose(call.id) for call in calls}

    def find(self, call_id: str) -> str:
        """Return the id that was chosen for a call of the last message with calls."""
        return self._current.get(call_id, call_id)

    def _choose(self, wanted: str) -> str:
        attempt = 1
        while (chosen := self._form(wanted, attempt)) in self._taken:
            attempt += 1
        self._taken.add(chosen)
        return chosen


def plain_id(wanted: str, attempt: int) -> str:
    """Return `wanted` in letters, digits, "_" and "-"."""
    clean = _ID_FORBIDDEN.sub("_", wanted)[:_ID_LIMIT] or "call"
    return clean if attempt == 1 else f"{clean[: _ID_LIMIT - 8]}_{attempt}"


def short_id(wanted: str, attempt: int) -> str:
    """Return nine letters and digits, which is what the strictest servers take, and everybody else too (B86)."""
    if attempt == 1 and is_short_id(wanted):
        return wanted
    import hashlib  # loads OpenSSL, and few servers are that strict

    digest = int.from_bytes(hashlib.sha256(f"{attempt} {wanted}".encode("utf-8", "surrogatepass")).digest(), "big")
    return encode_id(digest)


def is_short_id(call_id: str) -> bool:
    """Return whether `call_id` is one that every server takes."""
    return bool(_SHORT.fullmatch(call_id))


def encode_id(number: int) -> str:
    """Return nine letters and digits that stand for `number`, which may have any size."""
    digits = []
    for _ in range(_ID_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(digits)
