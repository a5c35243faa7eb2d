"""Sessions for the eye and for machines: lists, and one conversation from end to end. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from odek.model.types import Message, ToolCall
from odek.session.ids import parse_time
from odek.session.store import Unreadable
from odek.session.transcript import Entry, Summary, Transcript
from odek.text import plural, truncate, visible, visible_lines

_TASK_WIDTH = 50
_ID_LENGTH = 17  # the date and eight digits, where there is no room for all
_MODEL_WIDTH = 24
_RESULT_LENGTH = 200
_AGES = ((60, "second", 1), (3600, "minute", 60), (86_400, "hour", 3600), (float("inf"), "day", 86_400))


def render_listing(sessions: Sequence[Summary], *, now_s: float, columns: int = 0) -> str:
    """Return a table, one session a line, ids in full (F-34).

    Where that is wider than a terminal of `columns`, ids are cut to what tells them apart, tasks at its edge.
    """
    rows = [("ID", "TURNS", "PLACE", "MODEL", "USED", "TASK"), *(_row(summary, now_s) for summary in sessions)]
    lines = _aligned(rows)
    if not columns or max(map(len, lines)) <= columns:
        return "\n".join(lines)
    length = _ID_LENGTH
    while len({row[0][:length] for row in rows}) < len(rows):
        length += 1
    return "\n".join(truncate(line, columns) for line in _aligned([(row[0][:length], *row[1:]) for row in rows]))


def _row(summary: Summary, now_s: float) -> tuple[str, ...]:
    header, state = summary.header, summary.state
    return (
        visible(header.id),
        str(state.turns),
        "sandbox" if header.sandbox else "host",
        truncate(visible(state.model), _MODEL_WIDTH) or "-",
        _age(now_s - parse_time(state.updated_at)),
        truncate(visible(header.task), _TASK_WIDTH),
    )


def _aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def listing_json(sessions: Sequence[Summary], damaged: Sequence[Unreadable]) -> dict[str, Any]:
    """Return the same for machines, and the files that cannot be used."""
    return {
        "sessions": [
            {
                "id": summary.header.id,
                "created_at": summary.header.created_at,
                "updated_at": summary.state.updated_at,
                "turns": summary.state.turns,
                "model": summary.state.model,
                "sandbox": summary.header.sandbox,
                "cwd": summary.state.cwd,
                "task": summary.header.task,
            }
            for summary in sessions
        ],
        "damaged": [{"file": entry.name, "reason": entry.reason} for entry in damaged],
    }


def render_session(transcript: Transcript, *, full: bool) -> str:
    """Return a whole conversation; tool results at most 200 characters of each unless `full`."""
    header, state = transcript.header, transcript.state
    lines = [
        f"Session  {visible(header.id)}",
        f"Model    {visible(state.model)}",
        f"Place    {'sandbox' if header.sandbox else 'host'}, {visible(state.cwd) or '(folder unknown)'}",
        f"Turns    {state.turns}",
        f"Tokens   {state.usage.input_tokens} in, {state.usage.output_tokens} out",
        f"Created  {visible(header.created_at)}",
        f"Updated  {visible(state.updated_at)}",
        f"Task     {visible(header.task)}",
    ]
    if full and transcript.system:
        lines += ["", "── system", visible_lines(transcript.system).rstrip()]
    turn = 0
    for entry in transcript.entries:
        turn += entry.starts_turn
        lines += ["", *_entry(entry, turn, full=full)]
    return "\n".join(lines)


def _entry(entry: Entry, turn: int, *, full: bool) -> Iterator[str]:
    message = entry.message
    if message.role == "user":
        yield f"── turn {turn}" if entry.starts_turn else "── note"
        yield visible_lines(message.content).rstrip()
    elif message.role == "tool":
        yield f"── result of {visible(message.name) or 'a call'}"
        yield visible_lines(message.content).rstrip() if full else _shortened(message)
    else:
        yield f"── {message.role}"
        if message.content:
            yield visible_lines(message.content).rstrip()
        yield from map(_call, message.tool_calls)


def _call(call: ToolCall) -> str:
    return f"→ {visible(call.name)} {visible(call.arguments)}"


def _shortened(message: Message) -> str:
    text = message.content
    if len(text) <= _RESULT_LENGTH:
        return visible_lines(text).rstrip()
    return f"{visible_lines(text[:_RESULT_LENGTH])}…\n({plural(len(text), 'character')}; --full shows them)"


def _age(seconds: float) -> str:
    """Return "3 hours ago"; a time that is still to come, by a clock that was set back, is "just now"."""
    for limit, unit, size in _AGES:
        if seconds < limit:
            count = int(seconds // size)
            return f"{plural(count, unit)} ago" if count > 0 else "just now"
    return ""
