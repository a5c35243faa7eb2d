"""All sessions of one user: read, make, open, shorten and delete them (R-2, R-85).

The writer of a session holds its lock for as long as it is in use, against every other process; a second one gets an
error that names the holder (B45). The lock of a process that died is free. A reader needs no lock, for what is written
is never changed, only added to or replaced as a whole.

There is no index that could be wrong (F-105): a list reads the files themselves, the two ends of each. One damaged
file is one line in the list and hides no other (B46).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from odek.errors import StateFileError, StateFileInUse, UsageError
from odek.model.types import Usage
from odek.session.codec import Parsed, Redact, encode_file, parse_ends, parse_file
from odek.session.files import SessionFolder
from odek.session.groups import keep_newest, pair_results
from odek.session.ids import RESERVED, check_id, format_time, new_id, parse_time
from odek.session.legacy_format import encode_object, parse_object
from odek.session.receipts import SUFFIX, Verdict, check_receipts
from odek.session.recorder import TASKS, Recorder, RecorderContext
from odek.session.transcript import Entry, Header, Origin, ReceiptHead, State, Summary, Transcript, count_turns
from odek.text import plural, truncate, visible

JSON_LINES = ".jsonl"
LEGACY = ".json"  # of earlier tools
TASK_LENGTH = 500  # characters of the first task that are kept as a label
_HEAD_BYTES = 16 << 10
_TAIL_BYTES = 16 << 10
_LOCK_WAIT_S = 0.2  # for a holder that has just come and needs a moment to write who it is; not for a turn to end
_DAY_S = 86_400
_MOST_DAYS = 36_500
_DAMAGED = "look at it, then repair or delete it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A file among the sessions that cannot be used, or a session that was left alone."""

    name: str
    """of the file, or the id; as it is, not fit for a terminal"""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionList:
    """What is in the folder."""

    sessions: tuple[Summary, ...]
    """newest first"""
    damaged: tuple[Unreadable, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPlan:
    """What a cleanup would delete."""

    sessions: tuple[Summary, ...]
    doubt: str
    """why a person should be asked first; "" for no reason"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """What a cleanup did."""

    deleted: tuple[str, ...]
    kept: tuple[Unreadable, ...]
    """sessions that could not be deleted, with the reason"""


class SessionStore:
    """All sessions of one user, to read and to write."""

    def __init__(
        self,
        folder: SessionFolder,
        *,
        clock: Callable[[], float],
        nonce: Callable[[], str],
        redact: Redact,
        warn: Callable[[str], None],
    ) -> None:
        """`clock` gives seconds since 1970, `nonce` 32 random hex digits; `redact` takes secrets out
        of what is stored; `warn` gets sentences for the user."""
        self._folder = folder
        self._clock = clock
        self._nonce = nonce
        self._context = RecorderContext(folder=folder, clock=clock, redact=redact, warn=warn)

    def read(self, session_id: str) -> Transcript:
        """Return a session, calls and results paired, whether or not it is in use. Raises StateFileError."""
        self.require(session_id)
        return _paired(self._load(session_id)[0].transcript)

    def export(self, session_id: str) -> bytes:
        """Return a session as the single JSON object of earlier tools. Raises StateFileError."""
        return encode_object(self.read(session_id))

    def check_receipts(self, session_id: str) -> Verdict:
        """Return whether the receipts of a session are whole, and which there are. Raises StateFileError."""
        transcript = self.read(session_id)  # first: a session in use may get more of them meanwhile
        return self._check(transcript.header, transcript.state.receipts)

    def check_origin(self, session_id: str) -> tuple[Origin, Verdict | None] | None:
        """Return what a session was forked from, and whether that one's receipts up to then are whole.

        None: it was not. A verdict of None: that session is gone. Raises StateFileError.
        """
        origin = self.read(session_id).header.origin
        if origin is None:
            return None
        if self.find(origin.id) is None:
            return origin, None
        return origin, self._check(self.read(origin.id).header, origin.receipts)

    def _check(self, header: Header, known: ReceiptHead | None) -> Verdict:
        data = self._folder.read_all(header.id + SUFFIX) or b""
        return check_receipts(data, header.id, expected=known, origin=header.origin)

    def tasks(self, session_id: str) -> tuple[Transcript, ...]:
        """Return what the sub-agents of a session did, by name. Raises StateFileError."""
        folder = self._folder.below(session_id + TASKS)
        found = []
        for name in folder.names():
            data = folder.read_all(name) if name.endswith(JSON_LINES) else None
            try:
                found += [] if data is None else [_paired(parse_file(data).transcript)]
            except ValueError as error:
                raise StateFileError(f'"{visible(folder.path(name))}" is damaged: {error}', hint=_DAMAGED) from error
        return tuple(found)

    def list(self) -> SessionList:
        """Return all sessions, newest first, and what looks like one and is not usable.

        Raises StateFileError only when the folder itself cannot be read.
        """
        sessions: list[Summary] = []
        damaged: list[Unreadable] = []
        for name in _session_files(self._folder.names()):
            try:
                summary = self._summary(name)
            except StateFileError as error:
                damaged.append(Unreadable(name=name, reason=error.message))
            else:
                sessions += [summary] if summary else []
        sessions.sort(key=_recency, reverse=True)
        return SessionList(sessions=tuple(sessions), damaged=tuple(damaged))

    def find(self, session_id: str) -> str | None:
        """Return the name of the file that counts for a session, None without any."""
        return next((name for name in _file_names(session_id) if self._folder.exists(name)), None)

    def holder(self, session_id: str) -> str | None:
        """Return the process that holds a session, see StateFolder.holder. Raises StateFileError."""
        check_id(session_id)
        return self._folder.holder(session_id)

    def require(self, session_id: str) -> None:
        """Raise StateFileError unless there is something of that id, damaged or not."""
        check_id(session_id)
        if self.find(session_id) is None:
            raise _unknown(session_id)

    def ids(self) -> tuple[str, ...]:
        """Return the ids of all sessions, sorted, damaged or not. Raises StateFileError."""
        return tuple(_split(name)[0] for name in _session_files(self._folder.names()))

    @contextmanager
    def create(self, *, task: str, model: str, sandbox: bool, cwd: str) -> Iterator[Recorder]:
        """Make a session and hold it. `sandbox` is whether its commands are meant for a sandbox.

        Raises StateFileError when it cannot be made; then nothing is left behind.
        """
        now = self._clock()
        session_id, at = new_id(now, self._nonce()), format_time(now)
        label = truncate(self._context.redact(task), TASK_LENGTH)
        header = Header(id=session_id, created_at=at, task=label, sandbox=sandbox)
        state = State(updated_at=at, turns=0, model=model, cwd=cwd, usage=Usage())
        with self._new(Transcript(header=header, state=state, system="", entries=())) as recorder:
            yield recorder

    @contextmanager
    def fork(self, session_id: str) -> Iterator[Recorder]:
        """Make a session that begins with all that was said in another, and hold it.

        That one is only read, and may be in use. What was used and executed stays with it: tokens are counted
        from here, and a new chain of receipts names the other one's last. Raises StateFileError.
        """
        old, now = self.read(session_id), self._clock()
        at, state = format_time(now), old.state
        origin = Origin(id=session_id, turns=state.turns, receipts=state.receipts)
        header = Header(
            id=new_id(now, self._nonce()),
            created_at=at,
            task=old.header.task,
            sandbox=old.header.sandbox,
            origin=origin,
        )
        state = replace(state, updated_at=at, usage=Usage(), receipts=None)
        with self._new(replace(old, header=header, state=state)) as recorder:
            yield recorder

    @contextmanager
    def _new(self, transcript: Transcript) -> Iterator[Recorder]:
        session_id = transcript.header.id
        with self._held(session_id):
            if self.find(session_id) is not None:
                raise StateFileError(f'there is a session "{session_id}" already', hint="try again")
            self._folder.write(session_id + JSON_LINES, encode_file(transcript))
            with self._recorder(transcript, None) as recorder:
                yield recorder

    @contextmanager
    def open(self, session_id: str) -> Iterator[Recorder]:
        """Open a session to go on with it, and hold it.

        What an interrupted process left undone is put right first, and said. Raises StateFileError:
        no such session, in use by another process (which one), damaged.
        """
        self.require(session_id)
        with self._held(session_id):
            parsed, name = self._load(session_id)
            transcript = _paired(parsed.transcript)
            if name == session_id + LEGACY:
                self._folder.write(session_id + JSON_LINES, encode_file(transcript))
                self._folder.remove(name)  # all that it held is in the new file
                with self._recorder(transcript, None) as recorder:
                    yield recorder
            else:
                with self._recorder(transcript, parsed) as recorder:
                    yield recorder

    def delete(self, session_id: str) -> None:
        """Remove a session, damaged or not. Raises StateFileError: no such session, or in use."""
        self.require(session_id)
        with self._held(session_id):
            self._remove(session_id)

    def trim(self, session_id: str, keep: int) -> int:
        """Shorten a session to about its last `keep` messages, the system message counted.

        Whole groups are kept, and the user's message that began the first of them. Return how many
        messages are gone. Raises StateFileError as `open` does, UsageError for a `keep` below 2.
        """
        if keep < 2:
            raise UsageError(f"a session cannot be trimmed to {plural(keep, 'message')}", hint="keep 2 or more")
        with self.open(session_id) as recorder:
            whole = recorder.transcript
            entries = keep_newest(whole.entries, budget=keep - 1, cost=_one)
            state = replace(whole.state, turns=count_turns(entries))
            self._folder.write(session_id + JSON_LINES, encode_file(replace(whole, state=state, entries=entries)))
        return len(whole.entries) - len(entries)

    def cleanup(self, plan: CleanupPlan) -> Cleaned:
        """Delete the sessions of `plan`; those that are in use, or were used since, are kept."""
        deleted: list[str] = []
        kept: list[Unreadable] = []
        for planned in plan.sessions:
            session_id = planned.header.id
            try:
                with self._held(session_id):
                    name = self.find(session_id)
                    if name is not None and self._summary(name) != planned:
                        raise StateFileError("it was used since then")
                    self._remove(session_id)
            except StateFileError as error:
                kept.append(Unreadable(name=session_id, reason=error.message))
            else:
                deleted.append(session_id)
        return Cleaned(deleted=tuple(deleted), kept=tuple(kept))

    @contextmanager
    def _held(self, session_id: str) -> Iterator[None]:
        """Hold the lock of a session; its file goes with the session.

        Removing a lock lets two holders in, but only when no session is left to hold: ids do not return.
        """
        with ExitStack() as stack:
            try:
                stack.enter_context(self._folder.locked(session_id, wait_s=_LOCK_WAIT_S))
            except StateFileInUse as error:
                hint = "wait for it to end, then try again; if it is `odek serve`, close the session in its page"
                raise StateFileInUse(error.message, hint=hint, holder=error.holder) from error
            try:
                yield
            finally:
                if self.find(session_id) is None:
                    self._folder.remove(f"{session_id}.lock")

    @contextmanager
    def _recorder(self, transcript: Transcript, parsed: Parsed | None) -> Iterator[Recorder]:
        """Open the file for appending; when it was read as `parsed`, what is missing is put right."""
        name = transcript.header.id + JSON_LINES
        file = self._folder.open_for_append(name, size_bytes=parsed.size_bytes if parsed else None)
        recorder = Recorder(transcript, name, file, self._context)
        try:
            if parsed:
                self._repair(transcript, parsed, recorder)
            yield recorder
        finally:
            recorder.close()

    def _repair(self, transcript: Transcript, parsed: Parsed, recorder: Recorder) -> None:
        """Put right on the disk what an interrupted process left there, and say so."""
        raw, shown = parsed.transcript.entries, visible(transcript.header.id)
        missing = transcript.entries[len(raw) :] if transcript.entries[: len(raw)] == raw else ()
        if missing or parsed.torn_bytes:
            recorder.repair(missing)
        if parsed.torn_bytes:
            self._context.warn(f"session {shown}: the last write was cut off; {parsed.torn_bytes} bytes were dropped")
        if missing:
            self._context.warn(
                f"session {shown}: {plural(len(missing), 'tool call')} had no result when odek ended; "
                "marked as interrupted, not run again"
            )

    def _remove(self, session_id: str) -> None:
        self._folder.remove_folder(session_id + TASKS)
        removed = [self._folder.remove(name) for name in _file_names(session_id)]
        self._folder.remove(session_id + SUFFIX)
        if not any(removed):
            raise _unknown(session_id)

    def _load(self, session_id: str) -> tuple[Parsed, str]:
        """Return what the file of a session holds, and the file's name."""
        name = self.find(session_id) or ""
        data = self._folder.read_all(name) if name else None
        if data is None:
            raise _unknown(session_id)
        try:
            if name.endswith(JSON_LINES):
                parsed = parse_file(data)
            else:
                parsed = Parsed(transcript=parse_object(data), size_bytes=len(data), torn_bytes=0)
            _check_owner(parsed.transcript.header, session_id)
        except ValueError as error:
            raise self._damaged(name, error) from error
        return parsed, name

    def _summary(self, name: str) -> Summary | None:
        """Return what a list shows of a file, None when it is gone by now. Raises StateFileError."""
        session_id, is_json_lines = _split(name)
        check_id(session_id)
        try:
            summary = self._summary_of_ends(name) if is_json_lines else None
            if summary is None:
                data = self._folder.read_all(name)
                if data is None:
                    return None
                whole = parse_file(data).transcript if is_json_lines else parse_object(data)
                summary = Summary(header=whole.header, state=whole.state)
            _check_owner(summary.header, session_id)
        except ValueError as error:
            raise self._damaged(name, error) from error
        return summary

    def _summary_of_ends(self, name: str) -> Summary | None:
        ends = self._folder.read_ends(name, head_bytes=_HEAD_BYTES, tail_bytes=_TAIL_BYTES)
        if ends is None:
            return None
        first_line, end, _ = ends[0].partition(b"\n")
        if not end and first_line.startswith(b"{"):  # a long header
            return None
        return parse_ends(first_line, ends[1])

    def _damaged(self, name: str, error: ValueError) -> StateFileError:
        return StateFileError(f'"{visible(self._folder.path(name))}" is damaged: {error}', hint=_DAMAGED)


def plan_cleanup(summaries: Sequence[Summary], *, days: int, now_s: float) -> CleanupPlan:
    """Return the plan to delete the sessions that were last used more than `days` days before `now_s`.

    0 days means all, and does not depend on the clock. A plan is doubtful when the clock is behind a
    session, or when nothing but what was used today would be left: so it looks after a jump of the
    clock. Raises UsageError for a negative number of days.
    """
    if days < 0:
        raise UsageError(f"the age in days cannot be negative: {days}")
    if days == 0 or not summaries:
        return CleanupPlan(sessions=tuple(summaries), doubt="")
    limit = now_s - min(days, _MOST_DAYS) * _DAY_S
    old = tuple(summary for summary in summaries if _used(summary) < limit)
    return CleanupPlan(sessions=old, doubt=_doubt(summaries, old, now_s))


def _unknown(session_id: str) -> StateFileError:
    """Return the error for a session that does not exist."""
    return StateFileError(f'there is no session "{visible(session_id)}"', hint="see `odek session list`")


def _paired(transcript: Transcript) -> Transcript:
    """Return `transcript` with one result for each call."""
    return replace(transcript, entries=pair_results(transcript.entries))


def _file_names(session_id: str) -> tuple[str, str]:
    """Return the names that a session's file may have, the one that counts first."""
    return session_id + JSON_LINES, session_id + LEGACY


def _check_owner(header: Header, session_id: str) -> None:
    """Refuse a file that says it is another session: its name was mixed up with another's (B46)."""
    if header.id != session_id:
        raise ValueError(f'it says that its id is "{visible(truncate(header.id, 100))}"')


def _split(name: str) -> tuple[str, bool]:
    """Return the id in the name of a file, and whether it is in JSON lines."""
    is_json_lines = name.endswith(JSON_LINES)
    return name.removesuffix(JSON_LINES if is_json_lines else LEGACY), is_json_lines


def _session_files(names: tuple[str, ...]) -> Iterator[str]:
    """Yield what claims to be a session; where both forms are there, the one in JSON lines."""
    present = frozenset(names)
    for name in names:
        session_id, is_json_lines = _split(name)
        hidden = name.startswith(".") or session_id in RESERVED
        if (
            name.endswith((JSON_LINES, LEGACY))
            and not hidden
            and (is_json_lines or session_id + JSON_LINES not in present)
        ):
            yield name


def _recency(summary: Summary) -> tuple[float, str, str]:
    return parse_time(summary.state.updated_at), summary.header.created_at, summary.header.id


def _doubt(summaries: Sequence[Summary], old: Sequence[Summary], now_s: float) -> str:
    newest = max(_used(summary) for summary in summaries)
    dates = f"the clock says {_date(now_s)}, the newest session was used on {_date(newest)}"
    if newest > now_s + _DAY_S:
        return f"the clock seems to be wrong: {dates}"
    today = sum(_used(summary) > now_s - _DAY_S for summary in summaries)
    if old and len(old) + today == len(summaries):
        return f"every session from before today would be deleted: {dates}"
    return ""


def _used(summary: Summary) -> float:
    return parse_time(summary.state.updated_at)


def _date(seconds: float) -> str:
    return format_time(seconds)[:10]


def _one(_entry: Entry) -> int:
    return 1
