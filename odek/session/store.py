"""Writing sessions: make, open, shorten and delete them (R-2, R-85).

Whoever writes to a session holds its lock for as long as it is in use, against every other process;
a second one is told whose it is (B45). The lock of a process that died holds nobody up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from odek.errors import StateError, UsageError
from odek.model.types import Usage
from odek.session.catalog import GROWING, SINGLE, SessionCatalog, Unreadable, file_names, paired, unknown
from odek.session.cleanup import CleanupPlan
from odek.session.files import SessionFolder
from odek.session.groups import keep_newest
from odek.session.ids import format_time, new_id
from odek.session.messages import Redact
from odek.session.reading import Parsed
from odek.session.recorder import Recorder, Surroundings
from odek.session.transcript import Entry, Header, State, Transcript, count_turns, encode_file
from odek.text import clip, plural, visible

# Nobody waits for a turn to end; but a holder that has just come needs a moment to say who it is.
_LOCK_WAIT_S = 0.2
TASK_LENGTH = 500  # characters of the first task that are kept as a label


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """What a cleanup did."""

    deleted: tuple[str, ...]
    kept: tuple[Unreadable, ...]
    """sessions that could not be deleted, with the reason"""


class SessionStore(SessionCatalog):
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
        super().__init__(folder)
        self._clock = clock
        self._nonce = nonce
        self._around = Surroundings(folder=folder, clock=clock, redact=redact, warn=warn)

    @contextmanager
    def create(self, *, task: str, model: str, sandbox: bool, cwd: str) -> Iterator[Recorder]:
        """Make a session and hold it. `sandbox` is whether its commands are meant for a sandbox.

        Raises StateError when it cannot be made; then nothing is left behind.
        """
        now = self._clock()
        session_id, at = new_id(now, self._nonce()), format_time(now)
        label = clip(self._around.redact(task), TASK_LENGTH)
        header = Header(id=session_id, created_at=at, task=label, sandbox=sandbox)
        state = State(updated_at=at, turns=0, model=model, cwd=cwd, usage=Usage())
        transcript = Transcript(header=header, state=state, system="", entries=())
        with self._held(session_id):
            if self.find(session_id) is not None:
                raise StateError(f'there is a session "{session_id}" already', hint="try again")
            self._folder.write(session_id + GROWING, encode_file(transcript))
            with self._recorder(transcript, None) as recorder:
                yield recorder

    @contextmanager
    def open(self, session_id: str) -> Iterator[Recorder]:
        """Open a session to go on with it, and hold it.

        What an interrupted process left undone is put right first, and said. Raises StateError:
        no such session, in use by another process (which one), damaged.
        """
        self.require(session_id)
        with self._held(session_id):
            parsed, name = self.load(session_id)
            transcript = paired(parsed.transcript)
            if name == session_id + SINGLE:
                self._folder.write(session_id + GROWING, encode_file(transcript))
                self._folder.remove(name)  # all that it held is in the new file
                with self._recorder(transcript, None) as recorder:
                    yield recorder
            else:
                with self._recorder(transcript, parsed) as recorder:
                    yield recorder

    def delete(self, session_id: str) -> None:
        """Remove a session, damaged or not. Raises StateError: no such session, or in use."""
        self.require(session_id)
        with self._held(session_id):
            self._remove(session_id)

    def trim(self, session_id: str, keep: int) -> int:
        """Shorten a session to about its last `keep` messages, the system message counted.

        Whole groups are kept, and the user's message that began the first of them. Return how many
        messages are gone. Raises StateError as `open` does, UsageError for a `keep` below 2.
        """
        if keep < 2:
            raise UsageError(f"a session cannot be trimmed to {plural(keep, 'message')}", hint="keep 2 or more")
        with self.open(session_id) as recorder:
            whole = recorder.transcript
            entries = keep_newest(whole.entries, budget=keep - 1, cost=_one)
            state = replace(whole.state, turns=count_turns(entries))
            self._folder.write(session_id + GROWING, encode_file(replace(whole, state=state, entries=entries)))
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
                    if name is not None and self.summary(name) != planned:
                        raise StateError("it was used meanwhile")
                    self._remove(session_id)
            except StateError as error:
                kept.append(Unreadable(name=session_id, reason=error.message))
            else:
                deleted.append(session_id)
        return Cleaned(deleted=tuple(deleted), kept=tuple(kept))

    @contextmanager
    def _held(self, session_id: str) -> Iterator[None]:
        """Hold the lock of a session; its file goes with the session.

        Removing a lock lets two holders in, but only when no session is left to hold: ids do not return.
        """
        with self._folder.locked(session_id, wait_s=_LOCK_WAIT_S):
            try:
                yield
            finally:
                if self.find(session_id) is None:
                    self._folder.remove(f"{session_id}.lock")

    @contextmanager
    def _recorder(self, transcript: Transcript, parsed: Parsed | None) -> Iterator[Recorder]:
        """Open the growing file; when it was read as `parsed`, what is missing is put right."""
        name = transcript.header.id + GROWING
        file = self._folder.grow(name, size_bytes=parsed.size_bytes if parsed else None)
        recorder = Recorder(transcript, name, file, self._around)
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
            recorder.mend(missing)
        if parsed.torn_bytes:
            self._around.warn(f"session {shown}: the last write was cut off; {parsed.torn_bytes} bytes were dropped")
        if missing:
            self._around.warn(
                f"session {shown}: {plural(len(missing), 'tool call')} had no result when odek ended; "
                "marked as interrupted, not run again"
            )

    def _remove(self, session_id: str) -> None:
        removed = [self._folder.remove(name) for name in file_names(session_id)]
        if not any(removed):
            raise unknown(session_id)


def _one(_entry: Entry) -> int:
    return 1
