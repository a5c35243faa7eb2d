"""A session as one Markdown document for people (R-286). Pure.

Everything that was said or printed stands in code fences that are longer than any in it, with control and invisible
characters escaped: nothing in it can end its fence, load a picture, or pass for a heading of the document.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from odek.model.types import Message, ToolCall
from odek.session.transcript import Entry, Transcript
from odek.text import plural, render_usd, visible, visible_lines

_COMMANDS = ("command", "commands")
_DIFFS = ("patch", "batch_patch", "diff")


def render_markdown(transcript: Transcript) -> str:
    """Return the document, which ends with a line end."""
    lines = ["# Session", "", *_facts(transcript)]
    turn = 0
    for entry in transcript.entries:
        turn += entry.starts_turn
        lines += _entry(entry, turn)
    return "\n".join(lines) + "\n"


def _facts(transcript: Transcript) -> Iterator[str]:
    header, state = transcript.header, transcript.state
    used, unpriced = state.usage, state.usage.input_tokens + state.usage.output_tokens - state.usage.priced_tokens
    cost = "not known" if used.known_cost_usd is None else render_usd(used.cost_usd)
    cost += f", and {unpriced} tokens whose price is not known" if used.known_cost_usd is not None and unpriced else ""
    rows = [("Session", header.id), ("Task", header.task)]
    rows += [("Origin", f"{header.origin.id}, after {plural(header.origin.turns, 'turn')}")] if header.origin else []
    rows += [
        ("Model", state.model),
        ("Place", "sandbox" if header.sandbox else "this host, without a sandbox"),
        ("Folder", state.cwd or "not known"),
        ("Created", header.created_at),
        ("Updated", state.updated_at),
        ("Turns", str(state.turns)),
        ("Tokens", f"{used.input_tokens} in, {used.output_tokens} out"),
        ("Cost", cost),
    ]
    yield from (f"- {name}: {_code(value)}" for name, value in rows if value)


def _entry(entry: Entry, turn: int) -> Iterator[str]:
    message = entry.message
    if entry.compacted:
        yield from ("", "### Compacted: in place of what is above the model gets", "")
        yield from _fenced(entry.compacted.content, "text")
    if message.role == "user":
        at = f" · {_code(entry.at)}" if entry.at else ""
        yield from ("", f"## Turn {turn}{at}" if entry.starts_turn else "### A note to the model", "")
        yield from _fenced(message.content, "text")
        for file in entry.files:
            yield from ("", f"Given file: {_code(file.path)}, SHA-256 {_code(file.sha256)}")
    elif message.role == "tool":
        yield from _result(message)
    elif message.role == "assistant":
        if message.content.strip():
            yield from ("", "### The model" if message.tool_calls else "### Answer", "")
            yield from _fenced(message.content, "markdown")
        for call in message.tool_calls:
            yield from _call(call)


def _call(call: ToolCall) -> Iterator[str]:
    yield from ("", f"### Call of {_code(call.name)}", "")
    arguments = _object(call.arguments)
    commands = [value for key in _COMMANDS for value in _texts(arguments.get(key))]
    if arguments.keys() <= {*_COMMANDS, "description", "timeout"} and commands:
        yield from _fenced("\n".join(commands), "sh")
        return
    whole = json.dumps(arguments, indent=2, ensure_ascii=False) if arguments else call.arguments
    yield from _fenced(whole, "json" if arguments else "text")


def _result(message: Message) -> Iterator[str]:
    yield from ("", f"### Result of {_code(message.name or 'a call')}", "")
    yield from _fenced(message.content, "diff" if message.name in _DIFFS else "text")


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _texts(value: object) -> list[str]:
    found = value if isinstance(value, list) else [value]
    return [each for each in found if isinstance(each, str)]


def _fenced(text: str, language: str) -> tuple[str, ...]:
    """Return `text` between two fences that it cannot end."""
    shown = visible_lines(text).rstrip("\n")
    fence = "`" * max(3, _longest_run(shown) + 1)
    return f"{fence}{language}", shown, fence


def _code(text: str) -> str:
    """Return `text` as a span of code on one line."""
    shown = visible(text)
    ticks = "`" * (_longest_run(shown) + 1)
    blank = " " if shown[:1] in ("`", " ") or shown[-1:] in ("`", " ") else ""  # the one that Markdown takes off
    return f"{ticks}{blank}{shown}{blank}{ticks}"


def _longest_run(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)
