"""Sessions in a scratch folder: a clock that is set by hand, ids in a known order, warnings kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from fakes.homes import operator_home

from odek.model.types import Message, ToolCall, Usage
from odek.session.files import SessionFolder
from odek.session.groups import history
from odek.session.store import SessionStore
from odek.session.transcript import Transcript

NOON = 1_784_116_800.0  # 2026-07-15T12:00:00Z
NOON_TEXT = "2026-07-15T12:00:00.000000Z"
FIRST_ID = f"20260715-{1:032x}"
SYSTEM = Message(role="system", content="be brief")


class Sessions:
    """A store and what was passed into it."""

    def __init__(self, home: Path, *, redact: Callable[[str], str] = str) -> None:
        self.now = NOON
        self.warnings: list[str] = []
        self.folder = SessionFolder(operator_home(home))
        self.path = home / ".odek" / "sessions"
        self._made = 0
        self.store = SessionStore(
            self.folder, clock=lambda: self.now, nonce=self._nonce, redact=redact, warn=self.warnings.append
        )

    def file(self, session_id: str = FIRST_ID) -> Path:
        return self.path / f"{session_id}.jsonl"

    def make(self, *messages: Message, task: str = "look around") -> str:
        """Make a session of one turn that holds `messages`; return its id."""
        with self.store.create(task=task, model="small", sandbox=True, cwd="/work") as recorder:
            recorder.begin_turn(model="small", cwd="/work")
            recorder.record(messages, Usage(input_tokens=10, output_tokens=2, cached_tokens=1))
            return recorder.id

    def plant(self, name: str, data: bytes) -> Path:
        """Put a file among the sessions, private as odek wants it."""
        for folder in (self.path.parent, self.path):
            folder.mkdir(mode=0o700, exist_ok=True)
        path = self.path / name
        path.write_bytes(data)
        path.chmod(0o600)
        return path

    def _nonce(self) -> str:
        self._made += 1
        return f"{self._made:032x}"


def resumed(transcript: Transcript, system: str) -> tuple[Message, ...]:
    """Return the conversation as the next request has it, under a fresh `system` message."""
    return (Message(role="system", content=system), *history(transcript))


def user(text: str) -> Message:
    return Message(role="user", content=text)


def said(text: str) -> Message:
    return Message(role="assistant", content=text)


def calls(*ids: str) -> Message:
    """An assistant message that calls the shell once for each of `ids`."""
    made = tuple(ToolCall(id=call_id, name="shell", arguments='{"command":"ls"}') for call_id in ids)
    return Message(role="assistant", tool_calls=made)


def result(call_id: str, text: str = "done") -> Message:
    return Message(role="tool", content=text, tool_call_id=call_id, name="shell")


def interrupted(call_id: str) -> Message:
    text = "interrupted: the run ended before this call had a result; it may have had effects and was not run again"
    return result(call_id, f'{{"error":"{text}"}}')


def check_pairing(messages: Sequence[Message]) -> None:
    """Fail as a strict provider would: each call has one result, in order, and no result stands alone."""
    waiting: list[str] = []
    for place, message in enumerate(messages):
        if message.role == "tool":
            assert waiting[:1] == [message.tool_call_id], f"message {place} answers no call"
            del waiting[0]
            continue
        assert not waiting, f"message {place} comes before the results of {waiting}"
        waiting = [call.id for call in message.tool_calls]
    assert not waiting, f"no results of {waiting}"
