"""The format in which earlier tools keep a session: one JSON object, `<id>.json`. Pure.

odek reads it and exports to it; its field names are a contract. Fields that are unknown here
(`auth_token` and others) are kept in both directions.
"""

from __future__ import annotations

from odek import strict_json
from odek.session.codec import (
    decode_message,
    encode_message,
    read_object,
    read_sandbox,
    read_text,
    read_time,
    read_usage,
    to_line,
    usage_fields,
)
from odek.session.transcript import Entry, Header, State, Transcript, count_turns

_FIELDS = frozenset({"id", "created_at", "updated_at", "model", "turns", "task", "sandbox", "cwd", "usage", "messages"})


def encode_object(transcript: Transcript) -> bytes:
    """Return `transcript` as a single JSON object, the system message first in its messages."""
    header, state = transcript.header, transcript.state
    messages = [encode_message(entry.message, entry.extra) for entry in transcript.entries]
    if transcript.system:
        messages.insert(0, {"role": "system", "content": transcript.system})
    fields = {
        "id": header.id,
        "created_at": header.created_at,
        "updated_at": state.updated_at,
        "model": state.model,
        "turns": state.turns,
        "task": header.task,
        "sandbox": header.sandbox,
        "cwd": state.cwd,
        "usage": usage_fields(state.usage),
        "messages": messages,
    }
    return to_line({**fields, **header.extra})


def parse_object(data: bytes) -> Transcript:
    """Return the session in a single JSON object. Raises ValueError, its text fit for the user.

    Turns are counted again: earlier tools miscounted them (F-98).
    """
    fields = read_object(strict_json.parse(data))
    raw = fields.get("messages")
    if not isinstance(raw, list):
        raise ValueError("it has no list of messages")
    entries = tuple(_entry(message) for message in raw)
    system = ""
    if entries and entries[0].message.role == "system":
        system, entries = entries[0].message.content, entries[1:]
    header = Header(
        id=read_text(fields, "id"),
        created_at=read_time(fields, "created_at"),
        task=read_text(fields, "task", default=""),
        sandbox=read_sandbox(fields),
        extra={key: value for key, value in fields.items() if key not in _FIELDS},
    )
    state = State(
        updated_at=read_time(fields, "updated_at"),
        turns=count_turns(entries),
        model=read_text(fields, "model", default=""),
        cwd=read_text(fields, "cwd", default=""),
        usage=read_usage(fields.get("usage")),
    )
    return Transcript(header=header, state=state, system=system, entries=entries)


def _entry(value: object) -> Entry:
    message, extra = decode_message(value)
    return Entry(message=message, starts_turn=message.role == "user", extra=extra)
