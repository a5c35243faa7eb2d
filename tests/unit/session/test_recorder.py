"""What is said is stored once, in order, whatever happens in between."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from threading import Thread

import pytest
from fakes.sessions import FIRST_ID, NOON, SYSTEM, Sessions, calls, check_pairing, result, resumed, said, user

from odek.cli import signals
from odek.errors import Interrupted, StateFileError
from odek.model.types import Message, Usage
from odek.session.files import AppendOnlyFile
from odek.session.groups import history
from odek.session.receipts import Receipt
from odek.session.recorder import Recorder, RecorderContext
from odek.session.transcript import GivenFile, Transcript

NONE = Usage()


@pytest.fixture
def sessions(tmp_path: Path) -> Sessions:
    return Sessions(tmp_path)


def stored(sessions: Sessions, session_id: str = FIRST_ID) -> Transcript:
    return sessions.store.read(session_id)


def spoken(sessions: Sessions, session_id: str = FIRST_ID) -> list[Message]:
    return list(history(stored(sessions, session_id)))


@contextmanager
def made(sessions: Sessions) -> Iterator[Recorder]:
    with sessions.store.create(task="look", model="small", sandbox=True, cwd="/work") as recorder:
        yield recorder


def test_each_message_is_stored_once_however_often_it_is_given(sessions: Sessions) -> None:
    """R-85, F-98: no message twice, one turn counted as one."""
    steps = [user("look"), calls("a", "b"), result("a"), result("b"), said("two files")]
    with made(sessions) as recorder:
        recorder.begin_turn(model="small", cwd="/work")
        for count in range(1, len(steps) + 1):
            for _ in range(2):
                recorder.record([SYSTEM, *steps[:count]], Usage(input_tokens=count))
            assert spoken(sessions)[:count] == steps[:count]
    whole = stored(sessions)
    assert (whole.system, list(history(whole))) == (SYSTEM.content, steps)
    assert (whole.state.turns, whole.state.usage) == (1, Usage(input_tokens=5))
    assert [entry.starts_turn for entry in whole.entries] == [True, False, False, False, False]
    assert whole.state == recorder.stored


def test_nothing_new_writes_nothing(sessions: Sessions) -> None:
    with made(sessions) as recorder:
        recorder.record([SYSTEM, user("x")], NONE)
        before = sessions.file().stat()
        sessions.now += 60
        recorder.record([SYSTEM, user("x")], NONE)
        after = sessions.file().stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def test_step_costs_the_same_in_a_long_session(sessions: Sessions) -> None:
    """R-85: what is written for a step does not grow with the session."""
    sizes = []
    messages = [SYSTEM]
    with made(sessions) as recorder:
        for _ in range(300):
            messages.append(user("x"))
            recorder.record(messages, NONE)
            sizes.append(sessions.file().stat().st_size)
    # the first one also wrote the system message
    assert {after - before for before, after in pairwise(sizes[1:])} == {sizes[2] - sizes[1]}


def test_turns_add_up_over_resumes(sessions: Sessions) -> None:
    """R-85: usage, turns, model, folder and time after a resume; notes of odek's are no turns."""
    sessions.make(SYSTEM, user("one"), said("1"))
    sessions.now += 3600
    with sessions.store.open(FIRST_ID) as recorder:
        messages = list(resumed(recorder.transcript, "be loud"))
        recorder.begin_turn(model="large", cwd="/other")
        messages += [user("two"), user("[odek] too long"), said("2")]
        recorder.record(messages, Usage(input_tokens=5, output_tokens=1))
    whole = stored(sessions)
    assert whole.system == "be loud"
    assert list(history(whole)) == [user("one"), said("1"), user("two"), user("[odek] too long"), said("2")]
    assert whole.state == replace(
        whole.state,
        updated_at="2026-07-15T13:00:00.000000Z",
        turns=2,
        model="large",
        cwd="/other",
        usage=Usage(input_tokens=15, output_tokens=3, cached_tokens=1),
    )
    assert [entry.at for entry in whole.entries if entry.starts_turn] == [
        "2026-07-15T12:00:00.000000Z",
        "2026-07-15T13:00:00.000000Z",
    ]


def test_tokens_of_the_turns_of_one_conversation_add_up(sessions: Sessions) -> None:
    """R-85: each turn counts from nothing, the session goes on counting."""
    messages = [SYSTEM]
    with made(sessions) as recorder:
        for tokens in (5, 7):
            recorder.begin_turn(model="small", cwd="/work")
            messages += [user("x"), said("y")]
            for so_far in (1, tokens):
                recorder.record(messages, Usage(input_tokens=so_far))
    assert stored(sessions).state.usage == Usage(input_tokens=12)


def test_sandbox_bit_stays_what_it_was(sessions: Sessions) -> None:
    """R-2: written when the session is made, by what really happened."""
    for really in (True, False):
        with sessions.store.create(task="x", model="m", sandbox=really, cwd="/") as recorder:
            recorder.begin_turn(model="other", cwd="/elsewhere")
            recorder.record([user("x")], NONE)
        assert stored(sessions, recorder.id).header.sandbox is really


def test_conversation_that_became_shorter_is_a_mistake(sessions: Sessions) -> None:
    """R-85: else what follows would be left out without a word."""
    with made(sessions) as recorder:
        recorder.record([SYSTEM, user("x"), said("y")], NONE)
        with pytest.raises(ValueError, match="lost messages"):
            recorder.record([SYSTEM, user("x")], NONE)


def test_undone_turn_is_gone_and_the_next_follows_what_is_left(sessions: Sessions) -> None:
    with made(sessions) as recorder:
        messages = [SYSTEM]
        for text in ("one", "two", "three"):
            recorder.begin_turn(model="small", cwd="/work")
            messages += [user(text), said(text)]
            recorder.record(messages, NONE)
        assert recorder.undo_turn() == 4
        assert recorder.undo_turn() == 2
        del messages[1 + 2 :]
        assert recorder.stored.turns == 1
        recorder.begin_turn(model="small", cwd="/work")
        recorder.record([*messages, user("four")], NONE)
    assert spoken(sessions) == [user("one"), said("one"), user("four")]
    assert stored(sessions).state.turns == 2
    with sessions.store.open(FIRST_ID) as again:
        assert (again.undo_turn(), again.undo_turn()) == (2, 0)
        with pytest.raises(StateFileError, match="no turn to take back"):
            again.undo_turn()
    assert spoken(sessions) == []


def test_secrets_are_stored_nowhere(tmp_path: Path) -> None:
    """R-85, F-50: redaction of every text, arguments, the label and paths of files included."""
    sessions = Sessions(tmp_path, redact=lambda text: text.replace("hunter2", "[redacted]"))
    secret = Message(
        role="assistant",
        content="hunter2",
        reasoning="hunter2",
        reasoning_state='[{"type":"thinking","thinking":"hunter2","signature":"s"}]',
        extra='{"details":[{"text":"hunter2"}]}',
        tool_calls=(
            replace(calls("a").tool_calls[0], arguments='{"command":"echo hunter2"}', extra='{"x":"hunter2"}'),
        ),
    )
    with sessions.store.create(task="use hunter2", model="m", sandbox=True, cwd="/") as recorder:
        recorder.begin_turn(model="m", cwd="/", files=(GivenFile(path="/srv/hunter2/notes", sha256="00"),))
        spoken_now = [Message(role="system", content="hunter2"), user("hunter2"), secret, result("a", "hunter2")]
        recorder.record(spoken_now, NONE)
        before = sessions.file().stat().st_size
        recorder.record(spoken_now, NONE)
    data = sessions.file().read_bytes()
    assert (data.count(b"hunter2"), data.count(b"[redacted]"), len(data)) == (0, 8, before)


class FailingFile(AppendOnlyFile):
    """A file whose disk is full as often as it is told."""

    full = False

    def append(self, data: bytes) -> None:
        if self.full:
            raise StateFileError("no space")
        super().append(data)


class SignalledFile(AppendOnlyFile):
    """A file at which a signal arrives just after the data are on the disk."""

    signalled = False

    def append(self, data: bytes) -> None:
        super().append(data)
        if self.signalled:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture
def handled_signals() -> Iterator[None]:
    """The handlers of odek itself, and afterwards those that were there before."""
    before = {number: signal.getsignal(number) for number in (*signals.HANDLED, signal.SIGALRM)}
    signals.install()
    yield
    signals.rearm()
    for number, handler in before.items():
        signal.signal(number, handler)


def recorder_on(
    sessions: Sessions, kind: type[AppendOnlyFile], *, limit_bytes: int = 1 << 20
) -> tuple[Recorder, AppendOnlyFile]:
    """A recorder of an existing session on a file of another kind."""
    path = sessions.file()
    file = kind(os.open(path, os.O_RDWR), str(path), path.stat().st_size)
    around = RecorderContext(
        folder=sessions.folder, clock=lambda: NOON, redact=str, warn=sessions.warnings.append, limit_bytes=limit_bytes
    )
    return Recorder(stored(sessions), path.name, file, around), file


def test_failed_write_is_made_up_for_by_the_next(sessions: Sessions) -> None:
    """B45, B46: one refused write does not turn saving off, and nothing is left out."""
    sessions.make(SYSTEM, user("one"), said("1"))
    recorder, file = recorder_on(sessions, FailingFile)
    assert isinstance(file, FailingFile)
    messages: list[Message] = [SYSTEM, *spoken(sessions)]
    recorder.begin_turn(model="small", cwd="/work")
    file.full = True
    for message in (user("two"), calls("a"), result("a")):
        messages.append(message)
        with pytest.raises(StateFileError):
            recorder.record(messages, NONE)
    file.full = False
    messages.append(said("2"))
    recorder.record(messages, NONE)
    recorder.close()
    assert (spoken(sessions), stored(sessions).state.turns) == (messages[1:], 2)


@pytest.mark.usefixtures("handled_signals")
def test_signal_after_a_write_does_not_make_it_twice(sessions: Sessions) -> None:
    """B44, F-98, R-100: at the worst moment; in a turn a signal raises nothing before what was begun is done."""
    sessions.make(SYSTEM, user("one"), said("1"))
    recorder, file = recorder_on(sessions, SignalledFile)
    assert isinstance(file, SignalledFile)
    messages = [SYSTEM, *spoken(sessions), user("two")]
    recorder.begin_turn(model="small", cwd="/work")
    file.signalled = True
    with pytest.raises(Interrupted), signals.turn():
        recorder.record(messages, NONE)
    file.signalled = False
    messages.append(said("2"))
    recorder.record(messages, NONE)
    recorder.close()
    assert (spoken(sessions), stored(sessions).state.turns) == (messages[1:], 2)


def test_session_at_its_limit_loses_its_oldest_groups_and_says_so(sessions: Sessions) -> None:
    """R-85: whole groups go, the newest stay, the count of turns is that of what is left."""
    sessions.make(SYSTEM, user("turn 0"), said("0"))
    recorder, _ = recorder_on(sessions, AppendOnlyFile, limit_bytes=8000)
    messages: list[Message] = [SYSTEM, *spoken(sessions)]
    for number in range(1, 30):
        recorder.begin_turn(model="small", cwd="/work")
        for message in (user(f"turn {number}"), calls("a"), result("a", "x" * 100), said(str(number))):
            messages.append(message)
            recorder.record(messages, NONE)
            assert sessions.file().stat().st_size <= 8000
    left = spoken(sessions)
    assert left[0].role == "user"
    assert messages[1 - len(left) :] == left[1:]
    assert 4 < len(left) < len(messages) - 1
    check_pairing(left)
    turns = sum(message.role == "user" for message in left)
    assert (stored(sessions).state.turns, recorder.stored.turns) == (turns, turns)
    assert sessions.warnings
    assert all("has reached its size limit: the oldest" in text for text in sessions.warnings)
    with pytest.raises(StateFileError, match="has no room for"):
        recorder.record([*messages, said("y" * 9000)], NONE)
    assert spoken(sessions) == left
    recorder.record([*messages, said("short")], NONE)
    recorder.close()
    assert spoken(sessions)[-1] == said("short")


def test_undo_reaches_a_turn_that_was_dropped_at_the_limit(sessions: Sessions) -> None:
    sessions.make(SYSTEM, user("turn 0"), said("0"))
    recorder, _ = recorder_on(sessions, AppendOnlyFile, limit_bytes=4000)
    messages: list[Message] = [SYSTEM, *spoken(sessions)]
    for number in range(1, 12):
        recorder.begin_turn(model="small", cwd="/work")
        messages += [user(f"turn {number}"), said("x" * 100)]
        recorder.record(messages, NONE)
    assert len(spoken(sessions)) < len(messages) - 1
    lefts = [recorder.undo_turn() for _ in range(12)]
    assert lefts == list(range(22, -1, -2))
    recorder.close()
    assert (spoken(sessions), stored(sessions).state.turns) == ([], 0)


def test_file_that_was_removed_is_reported_and_not_brought_back(sessions: Sessions) -> None:
    """B45: somebody deletes the file of a running session by hand."""
    with made(sessions) as recorder:
        sessions.file().unlink()
        with pytest.raises(StateFileError, match="was removed while it was in use"):
            recorder.record([user("x")], NONE)
    assert list(sessions.path.iterdir()) == []


RECEIPT = Receipt(
    at="2026-11-30T09:00:00Z",
    kind="command",
    place="host",
    container="",
    image="",
    network="host",
    networks=(),
    user="0:0",
    risk=("safe",),
    decision="policy",
    command_sha256="1" * 64,
    output_sha256="2" * 64,
    exit_status=0,
)


def receipts_file(sessions: Sessions) -> Path:
    return sessions.file().with_suffix(".receipts")


def keep_one(sessions: Sessions) -> None:
    with made(sessions) as recorder:
        recorder.add_receipt(RECEIPT)
        recorder.record([SYSTEM, user("x")], NONE)


def test_receipts_go_on_after_a_line_that_the_transcript_does_not_know(sessions: Sessions) -> None:
    """The process was killed between the two; the end of a line that was cut off goes."""
    keep_one(sessions)
    known = stored(sessions).state.receipts
    with sessions.store.open(FIRST_ID) as recorder:
        recorder.add_receipt(RECEIPT)
    assert stored(sessions).state.receipts == known
    with receipts_file(sessions).open("ab") as file:
        file.write(b'{"at":"2026')
    assert sessions.store.check_receipts(FIRST_ID).broken_line == 3
    with sessions.store.open(FIRST_ID) as recorder:
        recorder.add_receipt(RECEIPT)
        recorder.record([SYSTEM, user("x"), said("y")], NONE)
    verdict = sessions.store.check_receipts(FIRST_ID)
    assert (len(verdict.receipts), verdict.broken_line) == (3, None)
    state = stored(sessions).state
    assert state.receipts is not None
    assert state.receipts.number == 3


@pytest.mark.parametrize("left", [b"", b"not a receipt\n", b'{"number":"x","hash":1}\n', None])
def test_break_in_receipts_is_not_healed_by_what_follows(left: bytes | None, sessions: Sessions) -> None:
    keep_one(sessions)
    file = receipts_file(sessions)
    file.unlink() if left is None else file.write_bytes(left)
    with sessions.store.open(FIRST_ID) as recorder:
        recorder.add_receipt(RECEIPT)
        recorder.record([SYSTEM, user("x"), said("y")], NONE)
    assert sessions.store.check_receipts(FIRST_ID).broken_line == 1


def test_shortened_and_trimmed_sessions_know_their_receipts(sessions: Sessions) -> None:
    keep_one(sessions)
    sessions.store.trim(FIRST_ID, 2)
    state = stored(sessions).state
    assert (state.receipts is not None, sessions.store.check_receipts(FIRST_ID).broken_line) == (True, None)


def test_receipts_of_many_threads_are_one_chain(sessions: Sessions) -> None:
    with made(sessions) as recorder:
        threads = [Thread(target=recorder.add_receipt, args=(RECEIPT,)) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        recorder.record([SYSTEM, user("x")], NONE)
    verdict = sessions.store.check_receipts(FIRST_ID)
    assert (len(verdict.receipts), verdict.broken_line) == (16, None)


def test_receipt_that_is_a_link_is_refused(sessions: Sessions, tmp_path: Path) -> None:
    keep_one(sessions)
    receipts_file(sessions).unlink()
    (tmp_path / "target").write_bytes(b"")
    receipts_file(sessions).symlink_to(tmp_path / "target")
    with sessions.store.open(FIRST_ID) as recorder, pytest.raises(StateFileError):
        recorder.add_receipt(RECEIPT)
    assert (tmp_path / "target").read_bytes() == b""
