"""From the bytes of a session file back to the session, whatever the last write left there. Pure.

Every write ends with a state line and is on the disk before the next begins. Damage after the last
but one state line therefore is a write that was cut off: it is dropped from there on. Damage before
it is none of ours, and the file is not touched.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from odek.model.types import Usage
from odek.session.fields import read_object, read_text
from odek.session.transcript import (
    STATE_MARK,
    Entry,
    Header,
    State,
    Summary,
    Transcript,
    count_turns,
    parse_header,
    read_entry,
    read_state,
)
from odek.state import parse_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed:
    """What a file holds, and how much of it counts."""

    transcript: Transcript
    size_bytes: int
    """where the last whole line ends; what follows is a torn write"""
    torn_bytes: int


def parse_file(data: bytes) -> Parsed:
    """Return the session in the bytes of a file. Raises ValueError, its text fit for the user."""
    lines = data.split(b"\n")[:-1]  # a line that lacks its end was cut off
    if not lines:
        raise ValueError("its first line is cut off" if data else "it is empty")
    header = parse_header(lines[0])
    reader = _Reader(header)
    size = len(lines[0]) + 1
    states = [number for number, line in enumerate(lines, start=1) if line.startswith(STATE_MARK)]
    superseded = frozenset(states[:-2])  # half of a long file; the last one may be torn, and then the one before counts
    for number, line in enumerate(lines[1:], start=2):
        try:
            if number not in superseded:
                reader.take(read_object(parse_json(line)))
        except ValueError as error:
            later = lines[number:-1] if data.endswith(b"\n") else lines[number:]
            if any(line.startswith(STATE_MARK) for line in later):
                raise ValueError(f"line {number} cannot be read") from error
            break
        size += len(line) + 1
    return Parsed(transcript=reader.transcript(), size_bytes=size, torn_bytes=len(data) - size)


def parse_ends(head: bytes, tail: bytes) -> Summary | None:
    """Return the summary from the first line and the last bytes of a file.

    None when `tail` holds no whole state line: then the file must be read. Raises ValueError when
    `head` is no header.
    """
    header = parse_header(head)
    for line in reversed(tail.split(b"\n")[1:-1]):  # the first may be the end of a longer line
        if line.startswith(STATE_MARK):
            try:
                return Summary(header=header, state=read_state(read_object(parse_json(line))))
            except ValueError:
                return None
    return None


class _Reader:
    def __init__(self, header: Header) -> None:
        self._header = header
        self._state = State(updated_at=header.created_at, turns=0, model="", cwd="", usage=Usage())
        self._system = ""
        self._entries: list[Entry] = []

    def take(self, fields: dict[str, Any]) -> None:
        match fields.get("kind"):
            case "turn" | "message":
                self._entries.append(read_entry(fields))
            case "state":
                self._state = read_state(fields)
            case "system":
                self._system = read_text(fields, "content")
            case "undo":
                self._undo()
            case _:  # of a later odek
                read_text(fields, "kind")

    def transcript(self) -> Transcript:
        entries = tuple(self._entries)
        state = replace(self._state, turns=count_turns(entries))
        return Transcript(header=self._header, state=state, system=self._system, entries=entries)

    def _undo(self) -> None:
        for index in range(len(self._entries) - 1, -1, -1):
            if self._entries[index].starts_turn:
                del self._entries[index:]
                return
