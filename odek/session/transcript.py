"""What one session holds, and the two forms it has in a file. Pure.

The file that odek writes, `<id>.jsonl`, only grows: a header line, then a line for every message,
and after the lines of each step one `state` line with what changes (time, turns, model, folder,
tokens). So a step costs the same in a long session as in a short one, a list of sessions reads the
head and the tail of each file and nothing between, and a process that is killed at any byte
(SIGKILL, power) can spoil no more than the lines of its last write.

The form of earlier tools, `<id>.json`, is one object with all messages. It would have to be written
anew for every step; odek reads it, and exports to it. Its field names are a contract.

Lines are JSON objects with a "kind":

    session   first line: format, id, created_at, task, sandbox, and unknown fields under "extra"
    system    the system message; the last one counts
    turn      a message of the user that begins a turn, with its time
    message   any other message
    undo      the last turn is taken back
    state     updated_at, turns, model, cwd, usage; ends a write

Lines of other kinds are passed over. Text is UTF-8; halves of surrogate pairs, which Python hands out
for file names that are not UTF-8 (B47), stand as JSON escapes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from odek.model.types import Message, Usage
from odek.session.ids import parse_time
from odek.session.messages import decode_message, encode_message
from odek.state import parse_json

FORMAT = 1
STATE_MARK = b'{"kind":"state",'
_HEADER_MARK = b'{"kind":"session",'
_OBJECT_FIELDS = (
    "id", "created_at", "updated_at", "model", "turns", "task", "sandbox", "cwd", "usage", "messages",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a session is; it never changes."""

    id: str
    created_at: str
    """RFC 3339"""
    task: str
    """label in lists: the beginning of the first task"""
    sandbox: bool
    """whether the commands of the session ran in a sandbox when it was made (R-2)"""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """fields of other tools, kept as they are"""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What a session has come to."""

    updated_at: str
    """RFC 3339"""
    turns: int
    model: str
    cwd: str
    """the working directory; "" when it is not known"""
    usage: Usage = Usage()
    """of all turns"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One message of the conversation, other than the leading system message."""

    message: Message
    starts_turn: bool = False
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A session without its messages."""

    header: Header
    state: State


@dataclass(frozen=True, slots=True, kw_only=True)
class Transcript:
    """A whole session."""

    header: Header
    state: State
    system: str
    """"" when there is none"""
    entries: tuple[Entry, ...]


def count_turns(entries: tuple[Entry, ...]) -> int:
    """Return how many turns the user began."""
    return sum(entry.starts_turn for entry in entries)


def header_line(header: Header) -> bytes:
    """Return the first line of a file."""
    known = {"created_at": header.created_at, "task": header.task, "sandbox": header.sandbox}
    extra = {"extra": dict(header.extra)} if header.extra else {}
    return _line({"kind": "session", "format": FORMAT, "id": header.id, **known, **extra})


def state_line(state: State) -> bytes:
    """Return the line that ends a write."""
    return _line({"kind": "state", **_state_fields(state)})


def system_line(system: str) -> bytes:
    """Return the line that sets the system message."""
    return _line({"kind": "system", "content": system})


def entry_line(entry: Entry, at: str) -> bytes:
    """Return the line of one message; `at` is the time, RFC 3339, that a turn begins."""
    message = encode_message(entry.message, entry.extra)
    if entry.starts_turn:
        return _line({"kind": "turn", "at": at, "message": message})
    return _line({"kind": "message", "message": message})


def undo_line() -> bytes:
    """Return the line that takes the last turn back."""
    return _line({"kind": "undo"})


def encode_file(transcript: Transcript) -> bytes:
    """Return a whole file that holds `transcript`."""
    lines = [header_line(transcript.header)]
    if transcript.system:
        lines.append(system_line(transcript.system))
    lines += [entry_line(entry, transcript.state.updated_at) for entry in transcript.entries]
    return b"".join([*lines, state_line(transcript.state)])


def encode_object(transcript: Transcript) -> bytes:
    """Return `transcript` as the single JSON object of earlier tools, unknown fields included."""
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
        "usage": _usage_fields(state.usage),
        "messages": messages,
    }
    return _line({**fields, **header.extra})


def parse_object(data: bytes) -> Transcript:
    """Return the session in a single JSON object. Raises ValueError, its text fit for the user.

    Turns are counted anew, for earlier tools miscounted them (F-98). A missing `sandbox` is true.
    """
    fields = _object(parse_json(data))
    raw = fields.get("messages")
    if not isinstance(raw, list):
        raise ValueError("it has no list of messages")
    entries = tuple(_object_entry(message) for message in raw)
    system = ""
    if entries and entries[0].message.role == "system":
        system, entries = entries[0].message.content, entries[1:]
    header = Header(
        id=_text(fields, "id"),
        created_at=_time(fields, "created_at"),
        task=_text(fields, "task", default=""),
        sandbox=_flag(fields, "sandbox"),
        extra={key: value for key, value in fields.items() if key not in _OBJECT_FIELDS},
    )
    state = State(
        updated_at=_time(fields, "updated_at"),
        turns=count_turns(entries),
        model=_text(fields, "model", default=""),
        cwd=_text(fields, "cwd", default=""),
        usage=_usage(fields.get("usage")),
    )
    return Transcript(header=header, state=state, system=system, entries=entries)


def parse_header(line: bytes) -> Header:
    """Return what a first line says. Raises ValueError."""
    if not line.startswith(_HEADER_MARK):
        raise ValueError("it does not begin as a session does" if line else "it is empty")
    fields = _object(parse_json(line))
    if fields.get("format") != FORMAT:
        raise ValueError("its format is unknown; it may come from a newer odek")
    return Header(
        id=_text(fields, "id"),
        created_at=_time(fields, "created_at"),
        task=_text(fields, "task"),
        sandbox=_flag(fields, "sandbox"),
        extra=_object(fields.get("extra", {})),
    )


def parse_state(line: bytes) -> State:
    """Return what a state line says. Raises ValueError."""
    return read_state(_object(parse_json(line)))


def read_state(fields: Mapping[str, Any]) -> State:
    """Return the state in the `fields` of a state line. Raises ValueError."""
    turns = fields.get("turns")
    if type(turns) is not int or turns < 0:
        raise ValueError("it has no count of turns")
    return State(
        updated_at=_time(fields, "updated_at"),
        turns=turns,
        model=_text(fields, "model"),
        cwd=_text(fields, "cwd"),
        usage=_usage(fields.get("usage")),
    )


def read_entry(fields: Mapping[str, Any]) -> Entry:
    """Return the message in the `fields` of a turn or message line. Raises ValueError."""
    message, extra = decode_message(fields.get("message"))
    return Entry(message=message, starts_turn=fields.get("kind") == "turn", extra=extra)


def _object_entry(value: object) -> Entry:
    message, extra = decode_message(value)
    return Entry(message=message, starts_turn=message.role == "user", extra=extra)


def _state_fields(state: State) -> dict[str, Any]:
    return {
        "updated_at": state.updated_at,
        "turns": state.turns,
        "model": state.model,
        "cwd": state.cwd,
        "usage": _usage_fields(state.usage),
    }


def _usage_fields(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_tokens": usage.cached_tokens,
    }


def _usage(value: object) -> Usage:
    counts = value if isinstance(value, dict) else {}
    return Usage(**{key: counts[key] for key in _usage_fields(Usage()) if type(counts.get(key)) is int})


def _line(value: dict[str, Any]) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # a lone surrogate comes out as \udxxx, which inside a JSON string is its escape
    return text.encode("utf-8", errors="backslashreplace") + b"\n"


def _object(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    return value


def _text(fields: Mapping[str, Any], key: str, *, default: str | None = None) -> str:
    value = fields.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise ValueError(f'its field "{key}" is no text')
    return value


def _time(fields: Mapping[str, Any], key: str) -> str:
    text = _text(fields, key)
    try:
        parse_time(text)
    except ValueError as error:
        raise ValueError(f'its field "{key}" is no time') from error
    return text


def _flag(fields: Mapping[str, Any], key: str) -> bool:
    value = fields.get(key, True)  # not said: the closed side
    if not isinstance(value, bool):
        raise ValueError(f'its field "{key}" is neither true nor false')
    return value
