"""Trims a conversation to the model's context window (F-52, F-53, F-54, B42). Pure.

The conversation itself is never shortened: what is sent is a view of it, and a `TrimState` says which. It only
moves forward, and further than it must, so that requests keep their beginning from one to the next and the
provider's prompt cache stays useful. Where the user had it compacted (compaction.py), one message stands for the
older part, and all of this is about what follows.

Never left out: the system message, the user's first and latest message, the newest group. A group is
a message of the user, or one of the model with the results of its calls: calls and results stay or
go together. One notice, in the user's first message, says what is missing; servers differ in where else
they take one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from odek.model.images import ESTIMATED_TOKENS
from odek.model.pairing import group_spans
from odek.model.types import Message, ToolSpec
from odek.text import plural

MESSAGE_TOKENS = 50
CALL_TOKENS = 30
TOOL_TOKENS = 30
ODEK_NOTE = "[odek]"
"""how what odek itself says in the user's place begins"""
_NO_WORDS = Message(role="assistant", content=f"{ODEK_NOTE} (no reply)")
_WINDOW_SHARE = 3 / 4  # of the window for what is sent: the estimate is rough, and the reply needs room
_TARGET = 2 / 3  # of the budget: where trimming stops
_RESULT_SHARE = 4  # one result may take this part of the budget
_LEAST_RESULT_CHARACTERS = 2000
_BYTES_PER_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TrimState:
    """Where the view of a conversation differs from it."""

    place: int = 0
    """groups that begin before this message are left out, unless pinned"""
    result_characters: int | None = None
    """tool results are sent up to this length; None: whole"""


UNTRIMMED = TrimState()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compaction:
    """What is sent in the place of the older part of a conversation."""

    place: int
    """all messages before this one are replaced, but for the system message; a group begins here"""
    message: Message
    """by this one, in the user's place"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    first: int
    end: int
    droppable: bool


class ContextWindow:
    """Chooses what is sent of one conversation, and remembers how far that is trimmed."""

    def __init__(self, window: Callable[[int], int | None], compaction: Compaction | None = None) -> None:
        """`window` is Model.window."""
        self._window = window
        self.compaction = compaction
        self.trim = UNTRIMMED

    def view(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> tuple[Message, ...]:
        """Return what is sent of `messages`: as much as fits the model's window, as far as that is known."""
        messages = compacted(messages, self.compaction)
        view = trimmed(messages, self.trim)
        fitting = self._fitting(messages, tools, view)
        if fitting != self.trim:
            self.trim = fitting
            view = trimmed(messages, fitting)
        return view

    def shrink(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], view: Sequence[Message]
    ) -> tuple[Message, ...] | None:
        """Return a smaller view than one that was refused as too long, None when nothing more can be left out.

        The refusal may have said how large the window is.
        """
        messages = compacted(messages, self.compaction)
        fitting = self._fitting(messages, tools, view)
        smaller = fitting if trimmed(messages, fitting) != view else trim_further(messages, self.trim)
        if smaller is None:
            return None
        self.trim = smaller
        return trimmed(messages, smaller)

    def _fitting(self, messages: Sequence[Message], tools: Sequence[ToolSpec], view: Sequence[Message]) -> TrimState:
        """Return the state with which `view` fits the model's window, if that is known."""
        size = estimate_tokens(view, tools)
        window = self._window(size)
        if window is None or size <= window * _WINDOW_SHARE:
            return self.trim
        return trim_to(messages, tools, self.trim, int(window * _WINDOW_SHARE))


def compacted(messages: Sequence[Message], compaction: Compaction | None) -> Sequence[Message]:
    """Return `messages` with the older part replaced."""
    if compaction is None:
        return messages
    head = [message for message in messages[:1] if message.role == "system"]
    return (*head, compaction.message, *messages[compaction.place :])


def estimate_tokens(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
    """Return about how many tokens a request with these takes: everything that is sent counts (F-52)."""
    return sum(map(_message_tokens, messages)) + sum(map(_tool_tokens, tools))


def trimmed(messages: Sequence[Message], trim: TrimState) -> tuple[Message, ...]:
    """Return what is sent of `messages` with `trim`; see `take_turns`."""
    if trim == UNTRIMMED:
        return take_turns(messages)
    dropped = [group for group in _groups(messages) if group.droppable and group.first < trim.place]
    missing = {place for group in dropped for place in range(group.first, group.end)}
    kept = [
        _shortened(message, trim.result_characters) for place, message in enumerate(messages) if place not in missing
    ]
    return take_turns(_with_notice(kept, len(dropped)) if dropped else kept)


def take_turns(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return `messages` with words of the model wherever a message of the user would follow another or a result.

    Strict chat templates refuse either in every further request. It comes of groups that are left out, of a process
    that was killed, and of sessions that other tools have stored.
    """
    ordered: list[Message] = []
    for message in messages:
        if message.role == "user" and ordered and ordered[-1].role in ("user", "tool"):
            ordered.append(_NO_WORDS)
        ordered.append(message)
    return tuple(ordered)


def trim_to(messages: Sequence[Message], tools: Sequence[ToolSpec], trim: TrimState, budget_tokens: int) -> TrimState:
    """Return a state whose view takes at most `budget_tokens`, as far as possible; `trim` itself if its view does.

    First, results that fill much of the budget are shortened; then the oldest groups go, until a good
    part of the budget is free again; last, what results are left is shortened further.
    """
    size = _Sizer(messages, tools)
    if size(trim) <= budget_tokens:
        return trim
    share = max(budget_tokens * _BYTES_PER_TOKEN // _RESULT_SHARE, _LEAST_RESULT_CHARACTERS)
    trim = replace(trim, result_characters=min(share, trim.result_characters or share))
    trim = _drop_until(lambda tried: size(tried) <= budget_tokens * _TARGET, messages, trim)
    while size(trim) > budget_tokens and (shorter := _with_shorter_results(messages, trim)) != trim:
        trim = shorter
    return trim


def trim_further(messages: Sequence[Message], trim: TrimState) -> TrimState | None:
    """Return a state that sends much less, for a provider that found the request too long.

    Half of the groups that may go are left out, the oldest ones. If there are none, or if a single
    result is a third of the rest, results are trim to half of the longest. None: nothing can go.
    """
    droppable = _droppable(messages, trim)
    smaller = trim
    if droppable:
        smaller = replace(trim, place=droppable[(len(droppable) - 1) // 2].end)
    view = trimmed(messages, smaller)
    longest = max((len(message.content) for message in view if message.role == "tool"), default=0)
    if not droppable or longest * 3 > sum(len(message.content) for message in view):
        smaller = _with_shorter_results(messages, smaller)
    return None if smaller == trim else smaller


class _Sizer:
    """Estimates the views of one conversation; the tools are counted once."""

    def __init__(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> None:
        self._messages = messages
        self._tools = sum(map(_tool_tokens, tools))

    def __call__(self, trim: TrimState) -> int:
        return self._tools + sum(map(_message_tokens, trimmed(self._messages, trim)))


def _drop_until(enough: Callable[[TrimState], bool], messages: Sequence[Message], trim: TrimState) -> TrimState:
    """Return `trim` advanced to the first group with which it is `enough`, or past the last one."""
    if enough(trim):
        return trim
    droppable = _droppable(messages, trim)
    low, high = 0, len(droppable) - 1
    while low < high:  # the more is dropped, the smaller it gets: found by halving
        middle = (low + high) // 2
        if enough(replace(trim, place=droppable[middle].end)):
            high = middle
        else:
            low = middle + 1
    return replace(trim, place=droppable[low].end) if droppable else trim


def _droppable(messages: Sequence[Message], trim: TrimState) -> list[_Group]:
    return [group for group in _groups(messages) if group.droppable and group.first >= trim.place]


def _with_shorter_results(messages: Sequence[Message], trim: TrimState) -> TrimState:
    """Return `trim` with results up to half the length of the longest one, itself when they are short."""
    longest = max((len(message.content) for message in trimmed(messages, trim) if message.role == "tool"), default=0)
    limit = max(min(longest, trim.result_characters or longest) // 2, _LEAST_RESULT_CHARACTERS)
    return replace(trim, result_characters=limit) if longest > limit else trim


def _groups(messages: Sequence[Message]) -> list[_Group]:
    """Return the groups after the system message, and which of them may be left out."""
    spans = [span for span in group_spans(messages) if messages[span[0]].role != "system"]
    users = [first for first, _ in spans if is_users(messages[first])]
    pinned = {*users[:1], *users[-1:], *(first for first, _ in spans[-1:])}
    return [_Group(first=first, end=end, droppable=first not in pinned) for first, end in spans]


def is_users(message: Message) -> bool:
    """Return whether it is a message of the user, and not one of odek's in the user's place."""
    return message.role == "user" and not message.content.startswith(ODEK_NOTE)


def _with_notice(messages: list[Message], dropped: int) -> list[Message]:
    place = next((place for place, message in enumerate(messages) if is_users(message)), None)
    if place is None:
        return messages
    notice = (
        f"{ODEK_NOTE} {plural(dropped, 'earlier step')} of this conversation no longer fit and are left out here. What "
        "was done in them is done; look at the files again for what you need to know."
    )
    first = messages[place]
    return [*messages[:place], replace(first, content=f"{first.content}\n\n{notice}"), *messages[place + 1 :]]


def _shortened(message: Message, limit: int | None) -> Message:
    if limit is None or message.role != "tool" or len(message.content) <= limit:
        return message
    return replace(message, content=truncate_middle(message.content, limit))


def truncate_middle(text: str, limit: int) -> str:
    """Return the head and the tail of `text`, `limit` characters in all, and a mark in between."""
    omitted = len(text) - limit
    if omitted <= 0:
        return text
    head = limit // 2
    return f"{text[:head]}\n[{omitted} characters left out]\n{text[-(limit - head) :]}"


def _message_tokens(message: Message) -> int:
    tokens = MESSAGE_TOKENS + ESTIMATED_TOKENS * len(message.images)
    for text in (message.content, message.reasoning, message.reasoning_state, message.name, message.tool_call_id):
        if text:  # most of them are empty, and a long conversation is counted at each step
            tokens += _text_tokens(text)
    for call in message.tool_calls:
        tokens += CALL_TOKENS + _text_tokens(call.name) + _text_tokens(call.arguments)
    return tokens


def _tool_tokens(tool: ToolSpec) -> int:
    schema = json.dumps(dict(tool.parameters), ensure_ascii=False)
    return TOOL_TOKENS + sum(map(_text_tokens, (tool.name, tool.description, schema)))


def _text_tokens(text: str) -> int:
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    return (size + _BYTES_PER_TOKEN - 1) // _BYTES_PER_TOKEN
