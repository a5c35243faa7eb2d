"""A session in use: what is new is appended, nothing else is touched.

The conversation is one list that grows; `record` is given the whole list, as often as the caller
likes, and stores what it has not stored yet. So no message can be stored twice (F-98) and a write
that failed is repeated with the next. Given after each reply and each result, a killed process
loses at most the call that was running (B44).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from odek.errors import StateFileError
from odek.model.types import Message, Usage
from odek.patterns import pattern
from odek.session.codec import (
    Redact,
    compact_line,
    encode_file,
    entry_line,
    parse_file,
    redact_message,
    state_line,
    system_line,
    undo_line,
)
from odek.session.files import LIMIT_BYTES, AppendOnlyFile, SessionFolder
from odek.session.groups import keep_newest
from odek.session.ids import format_time
from odek.session.receipts import Receipt, ReceiptFile
from odek.session.transcript import Entry, GivenFile, Header, State, Transcript, count_turns
from odek.text import plural, truncate, visible

TASKS = ".tasks"
"""ends the name of the folder with what the sub-agents of a session did"""
_TASK_LENGTH = 500  # characters of a goal that are kept as a label
_NAME_LENGTH = 64
_NOT_IN_NAMES = pattern(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecorderContext:
    """What a recorder needs besides its file."""

    folder: SessionFolder
    clock: Callable[[], float]
    """seconds since 1970"""
    redact: Redact
    """takes secrets out of whatever is stored"""
    warn: Callable[[str], None]
    """gets sentences for the user"""
    limit_bytes: int = LIMIT_BYTES - (1 << 20)  # the rest is for `repair`, which drops nothing
    """a file above it loses its oldest messages"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Progress:
    """How far the conversation is stored."""

    state: State
    system: str
    recorded: int
    """messages after the system message"""
    starts: tuple[int, ...]
    """places of these at which turns begin"""
    turn_pending: bool = False


class Recorder:
    """One session, open for writing, its lock held."""

    def __init__(self, transcript: Transcript, name: str, file: AppendOnlyFile, context: RecorderContext) -> None:
        """Go on with `transcript`, calls and results paired, which `file`, called `name`, holds."""
        self.transcript = transcript
        """the session as it was when it was opened"""
        self._name = name
        self._file = file
        self._context = context
        spoken = [entry for entry in transcript.entries if entry.message.role != "system"]
        self._now = _Progress(
            state=transcript.state,
            system=transcript.system,
            recorded=len(spoken),
            starts=tuple(place for place, entry in enumerate(spoken) if entry.starts_turn),
        )
        self._system_seen = ("", "")
        self._model, self._server, self._cwd = transcript.state.model, transcript.state.server, transcript.state.cwd
        self._files: tuple[GivenFile, ...] = ()
        self._usage_before = transcript.state.usage
        self._receipts = ReceiptFile(context.folder, transcript.header, transcript.state.receipts)

    @property
    def id(self) -> str:
        return self.transcript.header.id

    @property
    def stored(self) -> State:
        """the state as it is on the disk"""
        return self._now.state

    def begin_turn(self, *, model: str, cwd: str, files: tuple[GivenFile, ...] = (), server: str = "") -> None:
        """Let the next message of the user begin a turn, made with `model` in `cwd`, with `files`.

        `server` is the provider of the model, where it was chosen by its name.
        """
        self._now = replace(self._now, turn_pending=True)
        self._usage_before = self._now.state.usage
        self._model, self._server, self._cwd = model, server, cwd
        # a path that holds a secret is not found again, which is a warning when the session goes on
        self._files = tuple(replace(file, path=self._context.redact(file.path)) for file in files)

    def record(self, messages: Sequence[Message], usage: Usage) -> None:
        """Store what is new in `messages`, the whole conversation; `usage` is that of this turn so far.

        Raises StateFileError when it cannot be stored; the next call tries again. The system message
        may change; what follows it only grows (a shorter list is a ValueError), but for `undo_turn`.
        """
        first = 1 if messages and messages[0].role == "system" else 0
        if len(messages) - first < self._now.recorded:
            raise ValueError("the conversation has lost messages that are stored")
        new = messages[first + self._now.recorded :]
        system = self._redacted(messages[0].content) if first else self._now.system
        total = self._usage_before + usage
        if not new and system == self._now.system and total == self._now.state.usage:
            return
        state = self._state(total)
        entries, starts = self._entries(new, state.updated_at)
        lines = [system_line(system)] if system != self._now.system else []
        lines += [entry_line(entry) for entry in entries]
        after = _Progress(
            state=state,
            system=system,
            recorded=self._now.recorded + len(new),
            starts=self._now.starts + starts,
            turn_pending=self._now.turn_pending and not starts,
        )
        self._append(b"".join(lines), after, turns=count_turns(entries))

    def undo_turn(self) -> int:
        """Take the last turn back; return how many messages after the system message are left.

        Raises StateFileError, also when there is no turn.
        """
        if not self._now.starts:
            raise StateFileError("there is no turn to take back", hint="see `/info`")
        *starts, left = self._now.starts
        state = self._state(self._now.state.usage)
        after = replace(self._now, state=state, recorded=left, starts=tuple(starts))
        self._append(undo_line(), after, turns=-1)
        return left

    def compact(self, kept: int, message: Message, usage: Usage) -> None:
        """Store that for the model `message` stands for all but the last `kept` messages; that cost `usage`.

        Nothing is taken away. Raises StateFileError.
        """
        state = self._state(self._now.state.usage + usage)
        line = compact_line(kept, redact_message(message, self._context.redact))
        self._append(line, replace(self._now, state=state), turns=0)
        self._usage_before += usage

    def begin_task(self, name: str, *, goal: str, sandbox: bool) -> Recorder:
        """Return the recorder of a sub-agent of this session, whose task is called `name`; safe in any thread.

        Its file stands beside the session's, and goes with it. Raises StateFileError.
        """
        folder = self._context.folder.below(self.id + TASKS)
        plain = _NOT_IN_NAMES.sub("-", name)[-_NAME_LENGTH:].lstrip("-") or "task"
        numbered = (f"{plain}.{number}" for number in itertools.count(2))  # servers use the ids of calls again
        unused = next(each for each in itertools.chain((plain,), numbered) if not folder.exists(f"{each}.jsonl"))
        at = format_time(self._context.clock())
        header = Header(
            id=unused, created_at=at, task=truncate(self._context.redact(goal), _TASK_LENGTH), sandbox=sandbox
        )
        state = State(updated_at=at, turns=0, model=self._model, cwd=self._cwd, usage=Usage())
        transcript = Transcript(header=header, state=state, system="", entries=())
        folder.write(f"{unused}.jsonl", encode_file(transcript))
        file = folder.open_for_append(f"{unused}.jsonl")
        recorder = Recorder(transcript, f"{unused}.jsonl", file, replace(self._context, folder=folder))
        recorder.begin_turn(model=self._model, cwd=self._cwd, server=self._server)
        return recorder

    def count_tasks(self) -> int:
        """Return how many tasks this session has given to sub-agents. Raises StateFileError."""
        return sum(name.endswith(".jsonl") for name in self._context.folder.below(self.id + TASKS).names())

    def repair(self, missing: Sequence[Entry]) -> None:
        """Cut a torn write away and store the results that `transcript` has and the file has not."""
        lines = [entry_line(entry) for entry in missing]
        self._file.append(b"".join([*lines, state_line(self._now.state)]))

    def add_receipt(self, receipt: Receipt) -> None:
        """Keep `receipt`, from any thread; the next `record` stores that it is there. Raises StateFileError."""
        self._receipts.add(receipt)

    def close(self) -> None:
        """Let go of the files."""
        self._file.close()
        self._receipts.close()

    def _state(self, usage: Usage) -> State:
        at = format_time(self._context.clock())
        now = replace(self._now.state, updated_at=at, model=self._model, server=self._server, cwd=self._cwd)
        return replace(now, usage=usage, receipts=self._receipts.head)

    def _redacted(self, system: str) -> str:
        if system != self._system_seen[0]:  # long, and the same at every step
            self._system_seen = (system, self._context.redact(system))
        return self._system_seen[1]

    def _entries(self, new: Sequence[Message], at: str) -> tuple[tuple[Entry, ...], tuple[int, ...]]:
        """Return the entries of messages new at `at`, and the places in the conversation where turns begin."""
        pending = self._now.turn_pending
        entries: list[Entry] = []
        starts: list[int] = []
        for place, message in enumerate(new, start=self._now.recorded):
            begins = pending and message.role == "user"
            if begins:
                pending = False
                starts.append(place)
            redacted = redact_message(message, self._context.redact)
            turn = Entry(message=redacted, starts_turn=True, at=at, files=self._files)
            entries.append(turn if begins else Entry(message=redacted))
        return tuple(entries), tuple(starts)

    def _append(self, lines: bytes, after: _Progress, *, turns: int) -> None:
        """Add `lines` and the state that they lead to; `turns` is what they add to the count of turns."""
        wanted = len(lines) + len(state_line(after.state)) + 20  # a larger count takes more digits
        if self._file.size_bytes + wanted > self._context.limit_bytes:
            self._shorten(wanted)
        state = replace(after.state, turns=max(self._now.state.turns + turns, 0))
        self._file.append(lines + state_line(state))
        self._now = replace(after, state=state)

    def _shorten(self, wanted: int) -> None:
        """Drop the oldest groups until there is room for `wanted` bytes and many more."""
        stored = parse_file(self._file.read()).transcript
        room = self._context.limit_bytes - len(encode_file(replace(stored, entries=())))
        kept = keep_newest(stored.entries, budget=room // 2, cost=lambda entry: len(entry_line(entry)) + 40)
        state = replace(stored.state, turns=count_turns(kept))
        data = encode_file(replace(stored, state=state, entries=kept))
        if len(data) + wanted > self._context.limit_bytes:
            raise StateFileError(
                f'session "{visible(self.id)}" has no room for {wanted} more bytes', hint="begin a new session"
            )
        try:
            self._context.folder.write(self._name, data)
        finally:  # the file that is there now is the one to go on with
            old, self._file = self._file, self._context.folder.open_for_append(self._name)
            old.close()
        self._now = replace(self._now, state=replace(self._now.state, turns=state.turns))
        dropped = plural(len(stored.entries) - len(kept), "message")
        self._context.warn(
            f"session {visible(self.id)} has reached its size limit: the oldest {dropped} were dropped from its file"
        )
