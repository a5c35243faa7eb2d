"""What one session holds, and the lines of the file that it is kept in. Pure.

The file, `<id>.jsonl`, only grows: a header line, then a line for every message, and after the lines
of each step one `state` line with what changes (time, turns, model, folder, tokens). So a step costs
the same in a long session as in a short one, a list of sessions reads the head and the tail of each
file and nothing between, and a process that is killed at any byte (SIGKILL, a power cut) can spoil no
more than the lines of its last write. The form of earlier tools, one JSON object (`single.py`), would
have to be written anew for every step.

Lines are JSON objects with a "kind":

    session   first line: format, id, created_at, task, sandbox; unknown fields under "extra"
    system    the system message; the last one counts
    turn      a message of the user that begins a turn, with its time and the files given with it from elsewhere
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
from odek.session.fields import read_object, read_sandbox, read_text, read_time, read_usage, usage_fields
from odek.session.messages import decode_message, encode_message
from odek.state import parse_json

FORMAT = 1
STATE_MARK = b'{"kind":"state",'
_HEADER_MARK = b'{"kind":"session",'


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a session is; it never changes."""

    id: str
    created_at: str
    """RFC 3339"""
    task: str
    """label in lists: the beginning of the first task"""
    sandbox: bool
    """whether the session's commands were meant for a sandbox when it was made, a fall back included (R-2, D-24)"""
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
    usage: Usage
    """of all turns"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenFile:
    """A file from outside the working directory that was given with a turn, as it was then."""

    path: str
    """absolute, on this machine"""
    sha256: str
    """hex"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One message of the conversation, other than the leading system message."""

    message: Message
    starts_turn: bool = False
    at: str = ""
    """when the turn began, RFC 3339; "" when it is not known or none begins here"""
    files: tuple[GivenFile, ...] = ()
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
    fields: dict[str, Any] = {"kind": "session", "format": FORMAT, "id": header.id, "created_at": header.created_at}
    fields |= {"task": header.task, "sandbox": header.sandbox}
    return to_line({**fields, "extra": dict(header.extra)} if header.extra else fields)


def state_line(state: State) -> bytes:
    """Return the line that ends a write."""
    fields = {"updated_at": state.updated_at, "turns": state.turns, "model": state.model, "cwd": state.cwd}
    return to_line({"kind": "state", **fields, "usage": usage_fields(state.usage)})


def system_line(system: str) -> bytes:
    """Return the line that sets the system message."""
    return to_line({"kind": "system", "content": system})


def entry_line(entry: Entry) -> bytes:
    """Return the line of one message."""
    message = encode_message(entry.message, entry.extra)
    if entry.starts_turn:
        files = [{"path": file.path, "sha256": file.sha256} for file in entry.files]
        return to_line({"kind": "turn", "at": entry.at, "message": message, **({"files": files} if files else {})})
    return to_line({"kind": "message", "message": message})


def undo_line() -> bytes:
    """Return the line that takes the last turn back."""
    return to_line({"kind": "undo"})


def encode_file(transcript: Transcript) -> bytes:
    """Return a whole file that holds `transcript`."""
    lines = [header_line(transcript.header)]
    if transcript.system:
        lines.append(system_line(transcript.system))
    lines += [entry_line(entry) for entry in transcript.entries]
    return b"".join([*lines, state_line(transcript.state)])


def parse_header(line: bytes) -> Header:
    """Return what a first line says. Raises ValueError, its text fit for the user."""
    if not line.startswith(_HEADER_MARK):
        raise ValueError("it does not begin as a session does" if line else "it is empty")
    fields = read_object(parse_json(line))
    if fields.get("format") != FORMAT:
        raise ValueError("its format is unknown; it may come from a newer odek")
    return Header(
        id=read_text(fields, "id"),
        created_at=read_time(fields, "created_at"),
        task=read_text(fields, "task"),
        sandbox=read_sandbox(fields),
        extra=read_object(fields.get("extra", {})),
    )


def read_state(fields: Mapping[str, Any]) -> State:
    """Return the state in the `fields` of a state line. Raises ValueError."""
    turns = fields.get("turns")
    if type(turns) is not int or turns < 0:
        raise ValueError("it has no count of turns")
    return State(
        updated_at=read_time(fields, "updated_at"),
        turns=turns,
        model=read_text(fields, "model"),
        cwd=read_text(fields, "cwd"),
        usage=read_usage(fields.get("usage")),
    )


def read_entry(fields: Mapping[str, Any]) -> Entry:
    """Return the message in the `fields` of a turn or message line. Raises ValueError."""
    message, extra = decode_message(fields.get("message"))
    if fields.get("kind") != "turn":
        return Entry(message=message, extra=extra)
    at, files = read_text(fields, "at", default=""), _read_files(fields.get("files", []))
    return Entry(message=message, starts_turn=True, at=at, files=files, extra=extra)


def _read_files(value: object) -> tuple[GivenFile, ...]:
    if not isinstance(value, list):
        raise ValueError('its field "files" is no list')
    return tuple(
        GivenFile(path=read_text(file, "path"), sha256=read_text(file, "sha256")) for file in map(read_object, value)
    )


def to_line(value: Mapping[str, Any]) -> bytes:
    """Return `value` as one line of JSON, valid UTF-8 whatever its texts hold (B47)."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # a lone surrogate comes out as \udxxx, which inside a JSON string is its escape
    return text.encode("utf-8", errors="backslashreplace") + b"\n"
