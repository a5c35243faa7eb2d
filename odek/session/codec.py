"""A session as the lines of its file, and back, whatever the last write left there. Pure.

The file, `<id>.jsonl`, only grows: a header line, then a line for every message, and after the lines
of each step one `state` line with what changes (time, turns, model, folder, tokens). So a step costs
the same in a long session as in a short one, a list of sessions reads the head and the tail of each
file and nothing between, and a process that is killed at any byte (SIGKILL, a power cut) can spoil no
more than the lines of its last write. The form of earlier tools, one JSON object (legacy_format.py), would
have to be written again as a whole at every step.

Lines are JSON objects with a "kind":

    session   first line: format, id, created_at, task, sandbox; unknown fields under "extra"
    system    the system message; the last one counts
    turn      a message of the user that begins a turn, with its time and the files given with it from elsewhere
    message   any other message
    undo      the last turn is taken back
    state     updated_at, turns, model, cwd, usage; ends a write

Lines of other kinds are skipped. Text is UTF-8; halves of surrogate pairs, which Python returns for file names that
are not UTF-8 (B47), are JSON escapes.

The fields of a message are those of an OpenAI-compatible chat, so that a stored conversation can be read by other
tools. Fields of the model's server that odek does not know are stored as they came, for it wants them back (`extra` of
messages and calls); unknown fields of any other message are returned with it and written again.

Every write ends with a state line and is on the disk before the next begins. Damage after the last but one state line
therefore is a write that was cut off: it is dropped from there on. Damage before it has another cause, and the file is
not touched. What is wrong is a ValueError, its text fit for the user.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from odek import strict_json
from odek.model.extras import from_json, to_json
from odek.model.images import Image
from odek.model.types import Message, Role, ToolCall, Usage
from odek.session.ids import parse_time
from odek.session.transcript import (
    Entry,
    GivenFile,
    Header,
    Origin,
    ReceiptHead,
    State,
    Summary,
    Transcript,
    count_turns,
)

FORMAT = 1
STATE_MARK = b'{"kind":"state",'
_HEADER_MARK = b'{"kind":"session",'

Redact = Callable[[str], str]
_ROLES: Mapping[str, Role] = {"system": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
_REASONING = "reasoning_content"
_REASONING_FIELD = "reasoning_field"  # the name by which it came
_STATE = "reasoning_state"
_IMAGES = "images"
_KNOWN = frozenset(
    {"role", "content", "name", "tool_calls", "tool_call_id", _REASONING, _REASONING_FIELD, _STATE, _IMAGES}
)
_CALL_FIELDS = frozenset({"id", "type", "function", "index"})


def encode_file(transcript: Transcript) -> bytes:
    """Return a whole file that holds `transcript`."""
    lines = [header_line(transcript.header)]
    if transcript.system:
        lines.append(system_line(transcript.system))
    lines += [entry_line(entry) for entry in transcript.entries]
    spoken = [entry for entry in transcript.entries if entry.message.role != "system"]
    for place, entry in enumerate(spoken):
        lines += [compact_line(len(spoken) - place, entry.compacted)] if entry.compacted else []
    return b"".join([*lines, state_line(transcript.state)])


def header_line(header: Header) -> bytes:
    """Return the first line of a file."""
    fields: dict[str, Any] = {"kind": "session", "format": FORMAT, "id": header.id, "created_at": header.created_at}
    fields |= {"task": header.task, "sandbox": header.sandbox}
    if origin := header.origin:
        fields["origin"] = {"id": origin.id, "turns": origin.turns, "receipts": _head_fields(origin.receipts)}
    return to_line({**fields, "extra": dict(header.extra)} if header.extra else fields)


def state_line(state: State) -> bytes:
    """Return the line that ends a write."""
    fields: dict[str, Any] = {"updated_at": state.updated_at, "turns": state.turns, "model": state.model}
    fields |= {"cwd": state.cwd, "usage": usage_fields(state.usage) | _cost_fields(state.usage)}
    fields |= {"server": state.server} if state.server else {}
    fields |= {"receipts": _head_fields(state.receipts)} if state.receipts else {}
    return to_line({"kind": "state", **fields})


def _head_fields(head: ReceiptHead | None) -> dict[str, Any] | None:
    return {"number": head.number, "hash": head.hash} if head else None


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


def compact_line(kept: int, message: Message) -> bytes:
    """Return the line that says: for the model, `message` stands for all but the last `kept` messages so far."""
    return to_line({"kind": "compact", "kept": kept, "message": encode_message(message, {})})


def undo_line() -> bytes:
    """Return the line that takes the last turn back."""
    return to_line({"kind": "undo"})


def to_line(value: Mapping[str, Any]) -> bytes:
    """Return `value` as one line of JSON, valid UTF-8 whatever its texts hold (B47)."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # a lone surrogate comes out as \udxxx, which inside a JSON string is its escape
    return text.encode("utf-8", errors="backslashreplace") + b"\n"


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
                reader.take(read_object(strict_json.parse(line)))
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
    `head` is not a header.
    """
    header = parse_header(head)
    for line in reversed(tail.split(b"\n")[1:-1]):  # the first may be the end of a longer line
        if line.startswith(STATE_MARK):
            try:
                return Summary(header=header, state=read_state(read_object(strict_json.parse(line))))
            except ValueError:
                return None
    return None


def parse_header(line: bytes) -> Header:
    """Return what a first line says. Raises ValueError, its text fit for the user."""
    if not line.startswith(_HEADER_MARK):
        raise ValueError("it does not begin as a session does" if line else "it is empty")
    fields = read_object(strict_json.parse(line))
    if fields.get("format") != FORMAT:
        raise ValueError("its format is unknown; it may come from a newer odek")
    return Header(
        id=read_text(fields, "id"),
        created_at=read_time(fields, "created_at"),
        task=read_text(fields, "task"),
        sandbox=read_sandbox(fields),
        origin=_read_origin(fields.get("origin")),
        extra=read_object(fields.get("extra", {})),
    )


def _read_origin(value: object) -> Origin | None:
    if value is None:
        return None
    fields = read_object(value)
    turns = fields.get("turns")
    if type(turns) is not int or turns < 0:
        raise ValueError("its origin has no count of turns")
    return Origin(id=read_text(fields, "id"), turns=turns, receipts=_read_head(fields.get("receipts")))


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
            case "compact":
                self._compact(fields)
            case _:  # of a later odek
                read_text(fields, "kind")

    def transcript(self) -> Transcript:
        entries = tuple(self._entries)
        state = replace(self._state, turns=count_turns(entries))
        return Transcript(header=self._header, state=state, system=self._system, entries=entries)

    def _compact(self, fields: dict[str, Any]) -> None:
        kept, (message, _) = fields.get("kept"), decode_message(fields.get("message"))
        spoken = [place for place, entry in enumerate(self._entries) if entry.message.role != "system"]
        if type(kept) is not int or kept < 1:
            raise ValueError("it has no count of the messages that are kept")
        if kept <= len(spoken):  # otherwise what it stands for was dropped from the file
            place = spoken[-kept]
            self._entries[place] = replace(self._entries[place], compacted=message)

    def _undo(self) -> None:
        for index in range(len(self._entries) - 1, -1, -1):
            if self._entries[index].starts_turn:
                del self._entries[index:]
                return


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
        receipts=_read_head(fields.get("receipts")),
        server=read_text(fields, "server") if "server" in fields else "",
    )


def _read_head(value: object) -> ReceiptHead | None:
    if value is None:
        return None
    fields = read_object(value)
    number = fields.get("number")
    if type(number) is not int or number < 0:
        raise ValueError("its receipts have no number")
    return ReceiptHead(number=number, hash=read_text(fields, "hash"))


def read_entry(fields: Mapping[str, Any]) -> Entry:
    """Return the message in the `fields` of a turn or message line. Raises ValueError."""
    message, extra = decode_message(fields.get("message"))
    if fields.get("kind") != "turn":
        return Entry(message=message, extra=extra)
    at, files = read_text(fields, "at", default=""), _read_files(fields.get("files", []))
    return Entry(message=message, starts_turn=True, at=at, files=files, extra=extra)


def _read_files(value: object) -> tuple[GivenFile, ...]:
    if not isinstance(value, list):
        raise ValueError('its field "files" is not a list')
    return tuple(
        GivenFile(path=read_text(file, "path"), sha256=read_text(file, "sha256")) for file in map(read_object, value)
    )


def encode_message(message: Message, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON object of `message`, with the unknown fields `extra` that it came with."""
    entry: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.reasoning:
        entry[_REASONING] = message.reasoning
    if message.reasoning_field:
        entry[_REASONING_FIELD] = message.reasoning_field
    if message.reasoning_state:
        entry[_STATE] = message.reasoning_state
    if message.tool_calls:
        entry["tool_calls"] = [_call_fields(call) for call in message.tool_calls]
    if message.tool_call_id:
        entry["tool_call_id"] = message.tool_call_id
    if message.name:
        entry["name"] = message.name
    if message.images:
        entry[_IMAGES] = [_image_fields(image) for image in message.images]
    return {**entry, **from_json(message.extra), **extra}


def decode_message(value: object) -> tuple[Message, dict[str, Any]]:
    """Return the message in a JSON object and the fields that are unknown. Raises ValueError."""
    if not isinstance(value, dict):
        raise ValueError("a message is not an object")
    role = value.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise ValueError("a message has no known role")
    message = Message(
        role=_ROLES[role],
        content=_content(value.get("content")),
        tool_calls=_calls(value.get("tool_calls")),
        tool_call_id=_text(value, "tool_call_id"),
        name=_text(value, "name"),
        reasoning=_text(value, _REASONING),
        reasoning_field=_text(value, _REASONING_FIELD),
        reasoning_state=_text(value, _STATE),
        images=tuple(map(_read_image, value[_IMAGES])) if isinstance(value.get(_IMAGES), list) else (),
    )
    unknown = {key: field for key, field in value.items() if key not in _KNOWN}
    if message.role == "assistant":
        return replace(message, extra=to_json(unknown)), {}
    return message, unknown


def redact_message(message: Message, redact: Redact) -> Message:
    """Return `message` with every text that a person or a program chose sent through `redact`."""
    clean = replace(
        message,
        content=redact(message.content),
        images=tuple(replace(each, name=redact(each.name), path=redact(each.path)) for each in message.images),
        reasoning=redact(message.reasoning),
        extra=_redacted_extra(message.extra, redact),
        tool_calls=tuple(
            replace(call, arguments=redact(call.arguments), extra=_redacted_extra(call.extra, redact))
            for call in message.tool_calls
        ),
    )
    # a signature covers what it signs: changed, the whole is worth nothing
    signed = redact(message.reasoning_state) == message.reasoning_state and clean.reasoning == message.reasoning
    return clean if signed else replace(clean, reasoning_state="")


def read_object(value: object) -> dict[str, Any]:
    """Return `value`, which must be a JSON object."""
    if not isinstance(value, dict):
        raise ValueError("it is not a JSON object")
    return value


def read_text(fields: Mapping[str, Any], key: str, *, default: str | None = None) -> str:
    """Return the text under `key`; `default` where it is missing."""
    value = fields.get(key)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise ValueError(f'its field "{key}" is not a text')
    return value


def read_time(fields: Mapping[str, Any], key: str) -> str:
    """Return the RFC 3339 time under `key`, as it is written there."""
    text = read_text(fields, key)
    try:
        parse_time(text)
    except (ValueError, OverflowError) as error:
        raise ValueError(f'its field "{key}" is not a time') from error
    return text


def read_sandbox(fields: Mapping[str, Any]) -> bool:
    """Return the sandbox bit; where there is none, the safe side: true (R-2)."""
    value = fields.get("sandbox", True)
    if not isinstance(value, bool):
        raise ValueError('its field "sandbox" is neither true nor false')
    return value


def read_usage(value: object) -> Usage:
    """Return token counts; what is missing or not a count is 0."""
    counts = value if isinstance(value, dict) else {}
    usage = Usage(**{key: counts[key] for key in usage_fields(Usage()) if type(counts.get(key)) is int})
    priced, cost = counts.get("priced_tokens"), counts.get("cost_usd")
    if type(priced) is int and priced > 0 and type(cost) is float and cost >= 0:
        return replace(usage, priced_tokens=priced, cost_usd=cost)
    return usage


def usage_fields(usage: Usage) -> dict[str, int]:
    """Return the JSON object of token counts."""
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_tokens": usage.cached_tokens,
    }


def _cost_fields(usage: Usage) -> dict[str, float]:
    return {"priced_tokens": usage.priced_tokens, "cost_usd": float(usage.cost_usd)} if usage.priced_tokens else {}


def _redacted_extra(extra: str, redact: Redact) -> str:
    """Return `extra` without the fields in which there is a secret; they may be signed as well."""
    fields = {key: value for key, value in from_json(extra).items() if not _holds_secret(value, redact)}
    return to_json(fields)


def _holds_secret(value: object, redact: Redact) -> bool:
    if isinstance(value, dict):
        return any(_holds_secret(inner, redact) for inner in value.values())
    if isinstance(value, list):
        return any(_holds_secret(inner, redact) for inner in value)
    return isinstance(value, str) and redact(value) != value


def _image_fields(image: Image) -> dict[str, str]:
    """Return where an image is and what it was: its bytes stay where they are."""
    return {"name": image.name, "media_type": image.media_type, "path": image.path, "sha256": image.sha256}


def _read_image(value: object) -> Image:
    fields = read_object(value)
    return Image(
        name=read_text(fields, "name"),
        media_type=read_text(fields, "media_type"),
        path=read_text(fields, "path"),
        sha256=read_text(fields, "sha256"),
    )


def _call_fields(call: ToolCall) -> dict[str, Any]:
    extra = from_json(call.extra)
    function = {"name": call.name, "arguments": call.arguments, **extra.pop("function", {})}
    return {"id": call.id, "type": "function", "function": function, **extra}


def _content(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, list):  # parts, as some providers and older tools have them
        return "".join(_text(part, "text") for part in value if isinstance(part, dict))
    if not isinstance(value, str):
        raise ValueError("the content of a message is not a text")
    return value


def _calls(value: object) -> tuple[ToolCall, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ValueError("the tool calls of a message are not a list")
    return tuple(_call(item) for item in value)


def _call(value: object) -> ToolCall:
    function = value.get("function") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(function, dict):
        raise ValueError("a tool call has no function")
    arguments = function.get("arguments", "")
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments, ensure_ascii=False)
    inner = {key: field for key, field in function.items() if key not in ("name", "arguments")}
    extra = {key: field for key, field in value.items() if key not in _CALL_FIELDS}
    extra |= {"function": inner} if inner else {}
    return ToolCall(id=_text(value, "id"), name=_text(function, "name"), arguments=arguments, extra=to_json(extra))


def _text(owner: Mapping[str, Any], key: str) -> str:
    value = owner.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f'the field "{key}" of a message is not a text')
    return value
