"""A conversation as the entries that a page draws: from its messages, and from what happens in a turn (R-131). Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from odek.agent.context_window import ODEK_NOTE
from odek.agent.loop import IN_PLACE_OF_REPLIES
from odek.app.tools import TOOLS
from odek.model.types import Message, ToolCall
from odek.patterns import pattern
from odek.tools.arguments import ArgumentError, parse_arguments
from odek.tools.registry import call_title

Entry = dict[str, object]
_BLOCK = pattern(r"--- (?P<name>[^\n]+) ---\n.*?\n--- end (?P=name) ---\n\n", re.DOTALL)
_GONE = pattern(r"\[no longer in the sandbox: [^\n]*\]\n\n")
_TITLES = {tool.name: tool.title_arguments for tool in TOOLS}


def entries_of(
    messages: Sequence[Message], failed: Mapping[str, bool], redact: Callable[[str], str] = str
) -> list[Entry]:
    """Return the entries of `messages`, without numbers; `failed`: which calls did, as far as that is known."""
    return [entry for message in messages for entry in _entries(message, failed, redact)]


def numbered(entries: Sequence[Entry], first: int) -> list[Entry]:
    """Return `entries` with their numbers, of which the first is `first`."""
    return [{"n": number, **entry} for number, entry in enumerate(entries, first)]


def _entries(message: Message, failed: Mapping[str, bool], redact: Callable[[str], str]) -> list[Entry]:
    match message.role:
        case "user":
            text, files = split_task(message.content)
            if text.startswith(ODEK_NOTE):
                return [{"kind": "note", "text": redact(text)}]
            return [{"kind": "user", "text": redact(text), "files": [redact(name) for name in files]}]
        case "assistant":
            kind = "note" if message.content in IN_PLACE_OF_REPLIES else "assistant"
            said: list[Entry] = [{"kind": kind, "text": redact(message.content)}] if message.content.strip() else []
            return [*said, *(call_entry(call, redact) for call in message.tool_calls)]
        case "tool":
            known = failed.get(message.tool_call_id)
            fields = {"id": message.tool_call_id, "name": redact(message.name), "text": redact(message.content)}
            return [{"kind": "result", **fields, "failed": known}]
        case _:
            return []


def call_entry(call: ToolCall, redact: Callable[[str], str]) -> Entry:
    """Return the entry of one call."""
    fields = {"id": call.id, "name": redact(call.name), "arguments": redact(call.arguments)}
    return {"kind": "call", **fields, "title": redact(title_of(call))}


def title_of(call: ToolCall) -> str:
    """Return the line that stands for `call`, as the event of its start has it."""
    try:
        values = parse_arguments(call.arguments)
    except ArgumentError:
        return call_title(call.name, "")
    named = _TITLES.get(call.name, ())
    return call_title(call.name, next((values[key] for key in named if isinstance(values.get(key), str)), ""))


def split_task(content: str) -> tuple[str, list[str]]:
    """Return what the user wrote, and the names of the files whose contents precede it for the model."""
    gone = _GONE.match(content)
    place = gone.end() if gone else 0
    names: list[str] = []
    while (block := _BLOCK.match(content, place)) is not None:
        names.append(block["name"])
        place = block.end()
    return content[place:], names
