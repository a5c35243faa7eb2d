"""A model that plays back recorded replies, and one that records them (R-87).

A recording is JSON Lines in UTF-8. The first line is the header; `title` may be left out:

    {"odek_replay": 1, "title": "tests against redis"}

Every further line is one reply of the model; each key may be left out:

    {"content": "I look first.",
     "tool_calls": [{"name": "shell", "arguments": {"command": "ls"}, "id": "call_1"}],
     "usage": {"input_tokens": 900, "output_tokens": 20, "cached_tokens": 0},
     "stop": "tool_calls", "reasoning": "", "expect": ["exit code 0"], "if_denied": ""}

(on one line). `arguments` is an object, or text that is passed on unchanged. `expect` lists
texts that must occur in what came in since the reply before, that is in the tool results and the
user's words: a recording that no longer fits what really happens stops the run instead of
playing on. `if_denied` is what the model says instead, as its last words, where that is so because
the person said no to an operation. Empty lines are skipped; unknown keys are refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

from odek import safefile
from odek.cancel import current_token
from odek.model.errors import ModelError
from odek.model.json_fields import parsed
from odek.model.types import Message, Model, Reply, ToolCall, ToolSpec, Usage
from odek.model.unicode_repair import valid_text
from odek.text import truncate, visible

FORMAT = 1
_HEADER_KEYS = frozenset({"odek_replay", "title"})
_REPLY_KEYS = frozenset({"content", "tool_calls", "usage", "stop", "reasoning", "expect", "if_denied"})
_CALL_KEYS = frozenset({"name", "arguments", "id"})
_USAGE_KEYS = ("input_tokens", "output_tokens", "cached_tokens")
_DENIED = '{"error":"operation denied'
_SHOWN = 400
_FORMAT_HINT = "record one with --record FILE, and look at its lines"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedReply:
    """One reply of a recording."""

    reply: Reply
    expect: tuple[str, ...]
    """texts that must have come in before"""
    if_denied: str = ""
    """the last words where they did not, for a person said no; "": the run stops"""
    line: int
    """line number in the file, from 1"""


class ReplayModel:
    """Answers from a recording, whatever it is asked. Implements types.Model."""

    def __init__(self, path: str, read_text: Callable[[str], str]) -> None:
        """Read the recording at `path`. Raises ModelError when it cannot be read or understood."""
        self._origin = path
        try:
            text = read_text(path)
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not UTF-8 text"
            raise ModelError(f'the recording "{_shown(path)}" cannot be read: {reason}') from error
        self._replies = load_replay(text, path)
        self._next = 0

    def complete(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec],  # noqa: ARG002  part of the protocol
        on_text: Callable[[str], None],
    ) -> Reply:
        """Return the next recorded reply. Raises ModelError when none is left, or when it does not fit."""
        current_token().raise_if_cancelled()
        if self._next == len(self._replies):
            count = f"{self._next} {'reply' if self._next == 1 else 'replies'}"
            raise ModelError(
                f'the recording "{_shown(self._origin)}" has run out after {count}',
                hint="the run asked the model more often than when it was recorded; record it again",
            )
        recorded, arrived = self._replies[self._next], arrived_text(messages)
        if recorded.if_denied and _DENIED in arrived:
            self._next, reply = len(self._replies), _last_words(recorded.if_denied)
        else:
            self._check(recorded, arrived)
            self._next, reply = self._next + 1, recorded.reply
        if reply.message.content:
            on_text(reply.message.content)
        return reply

    def ahead(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> AbstractContextManager[None]:  # noqa: ARG002
        """Do nothing: a recorded reply is there at once, and is counted when it is asked for."""
        return nullcontext()

    def connect(self) -> None:
        """Do nothing: a recording is here."""

    def window(self, conversation_tokens: int) -> int | None:  # noqa: ARG002  part of the protocol
        """Return None: a recording has room for anything."""
        return None

    def _check(self, recorded: RecordedReply, arrived: str) -> None:
        for expected in recorded.expect:
            if expected not in arrived:
                raise ModelError(
                    f'the recording no longer fits what happens ("{_shown(self._origin)}", line {recorded.line}): '
                    f'expected "{_shown(expected)}"',
                    hint="record it again, or correct its expect list",
                    detail=f"what came instead: {_shown(arrived) or '(nothing)'}",
                )


class RecordingModel:
    """Passes every call on to `inner` and writes its replies to a file that replays."""

    def __init__(self, inner: Model, path: str, *, project: str = "", title: str = "") -> None:
        """Create `path` (absolute, mode 0600), to which no link in the folder `project` leads.

        Raises ModelError when it exists or cannot be written.

        What is written are the model's replies and nothing of the requests: no key, no prompt.
        """
        self._inner = inner
        self._path = path
        try:
            self._file = safefile.create_chosen(path, project or os.path.dirname(path))
        except FileExistsError as error:
            raise ModelError(
                f'the recording "{_shown(path)}" exists already', hint="choose another name, or remove it"
            ) from error
        except (OSError, ValueError) as error:
            raise ModelError(f'the recording "{_shown(path)}" cannot be created: {_os_reason(error)}') from error
        self._write({"odek_replay": FORMAT} | ({"title": title} if title else {}))

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSpec], on_text: Callable[[str], None]) -> Reply:
        """Return what the inner model answers, once it is on disk."""
        reply = self._inner.complete(messages, tools, on_text)
        self._write(render_reply(reply))
        return reply

    def ahead(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> AbstractContextManager[None]:
        """Let the inner model do it; what it says is recorded when it is asked for."""
        return self._inner.ahead(messages, tools)

    def connect(self) -> None:
        """Let the inner model do it."""
        self._inner.connect()

    def window(self, conversation_tokens: int) -> int | None:
        """Return what the inner model says."""
        return self._inner.window(conversation_tokens)

    def close(self) -> None:
        """Close the file; the recording is complete after every reply already."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _write(self, entry: dict[str, Any]) -> None:
        pending = valid_text(json.dumps(entry, ensure_ascii=False) + "\n").encode("utf-8")
        try:
            while pending:
                pending = pending[os.write(self._file, pending) :]
        except OSError as error:
            raise ModelError(f'the recording "{_shown(self._path)}" cannot be written: {_os_reason(error)}') from error


def arrived_text(messages: Sequence[Message]) -> str:
    """Return the text of the messages after the model's last reply (of all, before the first)."""
    last = max((place for place, message in enumerate(messages) if message.role == "assistant"), default=-1)
    return "\n".join(message.content for message in messages[last + 1 :])


def render_reply(reply: Reply) -> dict[str, Any]:
    """Return `reply` as one entry of a recording; `load_replay` gives the same reply back."""
    message = reply.message
    entry: dict[str, Any] = {"content": message.content}
    if message.tool_calls:
        entry["tool_calls"] = [
            {"name": call.name, "arguments": _render_arguments(call.arguments), "id": call.id}
            for call in message.tool_calls
        ]
    if message.reasoning:
        entry["reasoning"] = message.reasoning
    entry["usage"] = {key: getattr(reply.usage, key) for key in _USAGE_KEYS}
    entry["stop"] = reply.stop
    return entry


def load_replay(text: str, origin: str) -> tuple[RecordedReply, ...]:
    """Return the replies of a recording. Raises ModelError with file and line."""
    entries = [
        (number, _parse_line(line, _Place(origin, number)))
        # not splitlines(): JSON text may hold U+2028 and its like
        for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1)
        if line.strip()
    ]
    if not entries:
        raise _Place(origin, 1).error("is empty")
    first_line, header = entries[0]
    place = _Place(origin, first_line)
    version = header.get("odek_replay")
    if version is None:
        raise place.error('must begin with the header {"odek_replay": 1}')
    if version != FORMAT or isinstance(version, bool):
        raise place.error(f"is of version {_shown(json.dumps(version))}; this odek understands version {FORMAT}")
    place.check_keys(header, _HEADER_KEYS)
    place.text_of(header, "title")
    return tuple(_parse_reply(entry, _Place(origin, number)) for number, entry in entries[1:])


class _Place:
    """A line of a recording: what it says is checked here, and errors name it."""

    def __init__(self, origin: str, line: int) -> None:
        self.origin = origin
        self.line = line

    def error(self, what: str) -> ModelError:
        return ModelError(f'the recording "{_shown(self.origin)}", line {self.line}: {what}', hint=_FORMAT_HINT)

    def check_keys(self, entry: dict[str, Any], known: frozenset[str]) -> None:
        for key in entry:
            if key not in known:
                raise self.error(f'unknown key "{_shown(key)}"')

    def text_of(self, entry: dict[str, Any], key: str, default: str = "") -> str:
        value = entry.get(key, default)
        if not isinstance(value, str):
            raise self.error(f'"{key}" must be a text')
        return valid_text(value)

    def list_of(self, entry: dict[str, Any], key: str, kind: type, noun: str) -> list[Any]:
        values = entry.get(key, [])
        if not isinstance(values, list) or not all(isinstance(value, kind) for value in values):
            raise self.error(f'"{key}" must be a list of {noun}')
        return values


def _parse_line(line: str, place: _Place) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise place.error(f"not valid JSON ({_shown(str(error))})") from error
    if not isinstance(value, dict):
        raise place.error("no JSON object")
    return value


def _parse_reply(entry: dict[str, Any], place: _Place) -> RecordedReply:
    place.check_keys(entry, _REPLY_KEYS)
    calls = tuple(
        _parse_call(call, place, number)
        for number, call in enumerate(place.list_of(entry, "tool_calls", dict, "objects"), start=1)
    )
    if len({call.id for call in calls}) < len(calls):
        raise place.error("two tool calls have the same id")
    message = Message(
        role="assistant",
        content=place.text_of(entry, "content"),
        tool_calls=calls,
        reasoning=place.text_of(entry, "reasoning"),
    )
    stop = place.text_of(entry, "stop", "tool_calls" if calls else "stop")
    reply = Reply(message=message, usage=_parse_usage(entry.get("usage", {}), place), stop=stop)
    expect = tuple(place.list_of(entry, "expect", str, "texts"))
    return RecordedReply(reply=reply, expect=expect, if_denied=place.text_of(entry, "if_denied"), line=place.line)


def _last_words(text: str) -> Reply:
    return Reply(message=Message(role="assistant", content=text), usage=Usage(), stop="stop")


def _parse_call(entry: dict[str, Any], place: _Place, number: int) -> ToolCall:
    place.check_keys(entry, _CALL_KEYS)
    name = place.text_of(entry, "name")
    if not name:
        raise place.error("a tool call has no name")
    arguments = entry.get("arguments", {})
    if not isinstance(arguments, (dict, str)):
        raise place.error('"arguments" must be an object or a text')
    call_id = place.text_of(entry, "id") or f"replay_{place.line}_{number}"
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return ToolCall(id=call_id, name=name, arguments=valid_text(text))


def _parse_usage(entry: object, place: _Place) -> Usage:
    if not isinstance(entry, dict):
        raise place.error('"usage" must be an object')
    place.check_keys(entry, frozenset(_USAGE_KEYS))
    for key, value in entry.items():
        if type(value) is not int or value < 0:
            raise place.error(f'"{key}" must be a whole number')
    return Usage(**entry)


def _render_arguments(text: str) -> object:
    """Return `text` as an object where that loses nothing, for the sake of readers."""
    value = parsed(text)
    return value if isinstance(value, dict) and json.dumps(value, ensure_ascii=False) == text else text


def _os_reason(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else visible(str(error))


def _shown(text: str) -> str:
    return truncate(visible(text), _SHOWN)
