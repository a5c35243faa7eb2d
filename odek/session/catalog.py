"""Reading sessions: which there are and what they hold, whoever is using them.

There is no index that could be wrong (F-105): a list looks at the files themselves, at the two ends
of each. A reader needs no lock, for what is written is never changed, only added to or replaced as a
whole. One damaged file is one line in the list and hides no other (B46).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from odek.errors import StateError
from odek.session.files import SessionFolder
from odek.session.groups import pair_results
from odek.session.ids import RESERVED, check_id, parse_time
from odek.session.reading import Parsed, parse_ends, parse_file
from odek.session.single import encode_object, parse_object
from odek.session.transcript import Header, Summary, Transcript
from odek.text import clip, visible

GROWING = ".jsonl"
SINGLE = ".json"  # of earlier tools
_HEAD_BYTES = 16 << 10
_TAIL_BYTES = 16 << 10
_DAMAGED = "look at it, then repair or delete it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """A file among the sessions that cannot be used, or a session that was left alone."""

    name: str
    """of the file, or the id; as it is, not fit for a terminal"""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What is in the folder."""

    sessions: tuple[Summary, ...]
    """newest first"""
    damaged: tuple[Unreadable, ...]


class SessionCatalog:
    """All sessions of one user, to read."""

    def __init__(self, folder: SessionFolder) -> None:
        self._folder = folder

    def read(self, session_id: str) -> Transcript:
        """Return a session, calls and results paired, whether or not it is in use. Raises StateError."""
        self.require(session_id)
        return paired(self.load(session_id)[0].transcript)

    def export(self, session_id: str) -> bytes:
        """Return a session as the single JSON object of earlier tools. Raises StateError."""
        return encode_object(self.read(session_id))

    def list(self) -> Listing:
        """Return all sessions, newest first, and what looks like one and is not usable.

        Raises StateError only when the folder itself cannot be read.
        """
        sessions: list[Summary] = []
        damaged: list[Unreadable] = []
        for name in _session_files(self._folder.names()):
            try:
                summary = self.summary(name)
            except StateError as error:
                damaged.append(Unreadable(name=name, reason=error.message))
            else:
                sessions += [summary] if summary else []
        sessions.sort(key=_recency, reverse=True)
        return Listing(sessions=tuple(sessions), damaged=tuple(damaged))

    def latest(self) -> Summary | None:
        """Return the session that was used last, passing over damaged ones; None without any."""
        sessions = self.list().sessions
        return sessions[0] if sessions else None

    def load(self, session_id: str) -> tuple[Parsed, str]:
        """Return what the file of a session holds, and the file's name."""
        name = self.find(session_id) or ""
        data = self._folder.read_all(name) if name else None
        if data is None:
            raise unknown(session_id)
        try:
            if name.endswith(GROWING):
                parsed = parse_file(data)
            else:
                parsed = Parsed(transcript=parse_object(data), size_bytes=len(data), torn_bytes=0)
            _check_owner(parsed.transcript.header, session_id)
        except ValueError as error:
            raise self._damaged(name, error) from error
        return parsed, name

    def summary(self, name: str) -> Summary | None:
        """Return what a list shows of a file, None when it is gone by now. Raises StateError."""
        session_id, growing = _split(name)
        check_id(session_id)
        try:
            summary = self._summary_of_ends(name) if growing else None
            if summary is None:
                data = self._folder.read_all(name)
                if data is None:
                    return None
                whole = parse_file(data).transcript if growing else parse_object(data)
                summary = Summary(header=whole.header, state=whole.state)
            _check_owner(summary.header, session_id)
        except ValueError as error:
            raise self._damaged(name, error) from error
        return summary

    def find(self, session_id: str) -> str | None:
        """Return the name of the file that counts for a session, None without any."""
        return next((name for name in file_names(session_id) if self._folder.holds(name)), None)

    def require(self, session_id: str) -> None:
        """Raise StateError unless there is something of that id, damaged or not."""
        check_id(session_id)
        if self.find(session_id) is None:
            raise unknown(session_id)

    def _summary_of_ends(self, name: str) -> Summary | None:
        ends = self._folder.read_ends(name, head_bytes=_HEAD_BYTES, tail_bytes=_TAIL_BYTES)
        if ends is None:
            return None
        first_line, end, _ = ends[0].partition(b"\n")
        if not end and first_line.startswith(b"{"):  # a long header
            return None
        return parse_ends(first_line, ends[1])

    def _damaged(self, name: str, error: ValueError) -> StateError:
        return StateError(f'"{visible(self._folder.path(name))}" is damaged: {error}', hint=_DAMAGED)


def unknown(session_id: str) -> StateError:
    """Return the error for a session that does not exist."""
    return StateError(f'there is no session "{visible(session_id)}"', hint="see `odek session list`")


def paired(transcript: Transcript) -> Transcript:
    """Return `transcript` with one result for each call."""
    return replace(transcript, entries=pair_results(transcript.entries))


def file_names(session_id: str) -> tuple[str, str]:
    """Return the names that a session's file may have, the one that counts first."""
    return session_id + GROWING, session_id + SINGLE


def _check_owner(header: Header, session_id: str) -> None:
    """Refuse a file that says it is another session: whoever renamed it has mixed up two (B46)."""
    if header.id != session_id:
        raise ValueError(f'it says that its id is "{visible(clip(header.id, 100))}"')


def _split(name: str) -> tuple[str, bool]:
    """Return the id in the name of a file, and whether it is a growing one."""
    growing = name.endswith(GROWING)
    return name.removesuffix(GROWING if growing else SINGLE), growing


def _session_files(names: tuple[str, ...]) -> Iterator[str]:
    """Yield what claims to be a session; the growing file stands for both forms."""
    present = frozenset(names)
    for name in names:
        session_id, growing = _split(name)
        hidden = name.startswith(".") or session_id in RESERVED
        if name.endswith((GROWING, SINGLE)) and not hidden and (growing or session_id + GROWING not in present):
            yield name


def _recency(summary: Summary) -> tuple[float, str, str]:
    return parse_time(summary.state.updated_at), summary.header.created_at, summary.header.id
