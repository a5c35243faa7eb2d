"""Keeping calls and their results together: after an interrupt, and when a session is shortened. Pure.

A group is an assistant message with its results, or any other single message (model/pairing.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odek.model.pairing import group_spans, interrupted_result
from odek.model.types import Message, ToolCall
from odek.session.transcript import Entry, Transcript


def pair_results(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return `entries` with exactly one result for each call, in the order of the calls.

    A missing result becomes one that says "interrupted"; results that answer no call, or a call
    that has its answer, are left out.
    """
    paired: list[Entry] = []
    for group in split_groups(entries):
        first, results = group[0], [entry for entry in group[1:] if entry.message.role == "tool"]
        if first.message.role == "tool":
            continue
        paired.append(first)
        paired += [_take_result(call, results) for call in first.message.tool_calls]
        paired += [entry for entry in group[1:] if entry.message.role == "system"]
    return tuple(paired)


def split_groups(entries: Sequence[Entry]) -> tuple[tuple[Entry, ...], ...]:
    """Return `entries` cut into groups; see pairing.group_spans."""
    spans = group_spans([entry.message for entry in entries])
    return tuple(tuple(entries[first:end]) for first, end in spans)


def keep_newest(entries: Sequence[Entry], *, budget: int, cost: Callable[[Entry], int]) -> tuple[Entry, ...]:
    """Return the newest whole groups whose `cost` is within `budget`, headed by a user message.

    Where they begin in the middle of a turn, the message that began the turn comes first, so that
    the model still knows its task. The newest group is kept even when it alone is above `budget`.
    """
    groups = split_groups(entries)
    heads = _heads(groups)
    first = len(groups) - 1
    spent = 0
    for index in range(len(groups) - 1, -1, -1):
        spent += sum(cost(entry) for entry in groups[index])
        if spent > budget:
            break
        if spent + sum(cost(entry) for entry in heads[index]) <= budget:
            first = index
    if not groups:
        return ()
    return (*heads[first], *(entry for group in groups[first:] for entry in group))


def history(transcript: Transcript) -> tuple[Message, ...]:
    """Return the messages to go on with, without any system message, calls and results paired."""
    paired = pair_results(transcript.entries)
    return tuple(entry.message for entry in paired if entry.message.role != "system")


def compactions(transcript: Transcript) -> tuple[tuple[int, Message], ...]:
    """Return what the model gets for the messages before a place in `history`, the one that counts last."""
    spoken = [entry for entry in pair_results(transcript.entries) if entry.message.role != "system"]
    return tuple((place, entry.compacted) for place, entry in enumerate(spoken) if entry.compacted)


def _take_result(call: ToolCall, results: list[Entry]) -> Entry:
    for index, entry in enumerate(results):
        if entry.message.tool_call_id == call.id:
            return results.pop(index)
    return Entry(message=interrupted_result(call))


def _heads(groups: Sequence[tuple[Entry, ...]]) -> list[tuple[Entry, ...]]:
    """Return what must precede each group: nothing, or the beginning of its turn."""
    heads: list[tuple[Entry, ...]] = []
    asked: tuple[Entry, ...] = ()
    for group in groups:
        first = group[0]
        # a note that odek itself put in is not a task, unless there is nothing better
        task = first.starts_turn or (first.message.role == "user" and not asked)
        heads.append(() if task else asked)
        asked = group if task else asked
    return heads
