"""Real processes on one folder of sessions: killed, at once, and with a full disk."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from fakes.sessions import SYSTEM, Sessions, check_pairing, resumed, said, user

from odek.errors import StateFileError
from odek.model.types import Message, Usage
from odek.session.groups import history

ROOT = Path(__file__).resolve().parents[3]
START = """
import os, secrets, sys, time
from odek.errors import StateFileError
from odek.model.types import Message, ToolCall, Usage
from odek.operator_home import OperatorHome
from odek.session.files import SessionFolder
from odek.session.groups import history
from odek.session.store import SessionStore
home, *arguments = sys.argv[1:]
store = SessionStore(
    SessionFolder(OperatorHome(folder=home + '/.odek', uid=os.getuid(), workspaces=())),
    clock=time.time, nonce=lambda: secrets.token_hex(16), redact=str, warn=lambda text: None,
)
"""
# One step after the other: a call, its result, an answer. Each line says how much is stored.
WRITER = (
    START
    + """
with store.open(arguments[0]) as recorder:
    messages = [Message(role="system", content="s"), *history(recorder.transcript)]
    step = len(messages)
    while True:
        call = ToolCall(id=f"c{step}", name="shell", arguments="{}")
        for message in (
            Message(role="user", content=f"u{step}"),
            Message(role="assistant", tool_calls=(call,)),
            Message(role="tool", content="x" * (step * 37 % 5000), tool_call_id=call.id, name="shell"),
            Message(role="assistant", content=f"a{step}"),
        ):
            messages.append(message)
            recorder.begin_turn(model="m", cwd="/")
            recorder.record(messages, Usage())
            print(len(messages) - 1, flush=True)
        step += 1
"""
)


def start(code: str, home: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, str(home), *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_writer_killed_at_any_moment_loses_nothing_that_it_reported(tmp_path: Path) -> None:
    """R-85, B44: SIGKILL, again and again, on one session; each resume goes on from a valid conversation."""
    sessions = Sessions(tmp_path)
    session_id = sessions.make(SYSTEM, user("x"))
    before: tuple[Message, ...] = (user("x"),)
    moments = random.Random(7)
    for _ in range(12):
        with start(WRITER, tmp_path, session_id) as child:
            assert child.stdout is not None
            reported = int(child.stdout.readline())
            for _ in range(moments.randrange(40)):
                reported = int(child.stdout.readline())
            child.send_signal(signal.SIGKILL)
            reported = max([reported, *map(int, child.stdout.read().split())])
        now = history(sessions.store.read(session_id))
        assert len(now) >= reported
        assert now[: len(before)] == before
        check_pairing(now)
        before = now
    with sessions.store.open(session_id) as recorder:
        recorder.record([*resumed(recorder.transcript, "s"), user("go on")], Usage())
    assert history(sessions.store.read(session_id)) == (*before, user("go on"))
    (summary,) = sessions.store.list().sessions
    assert summary.state == sessions.store.read(session_id).state


def test_second_process_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    """B45: two `continue` at once; a reader is not held up, and the lock dies with its holder."""
    sessions = Sessions(tmp_path)
    session_id = sessions.make(SYSTEM, user("x"))
    with start(WRITER, tmp_path, session_id) as child:
        assert child.stdout is not None
        child.stdout.readline()
        for attempt in (lambda: sessions.store.open(session_id).__enter__(), lambda: sessions.store.delete(session_id)):
            with pytest.raises(StateFileError) as caught:
                attempt()
            assert caught.value.message == f'"{sessions.path}/{session_id}" is in use by process {child.pid}'
        check_pairing(history(sessions.store.read(session_id)))
        assert len(sessions.store.list().sessions) == 1
        child.kill()
    sessions.store.delete(session_id)
    assert list(sessions.path.iterdir()) == []


ONE_TURN = (
    START
    + """
for number in range(5):
    with store.create(task="t", model="m", sandbox=True, cwd="/") as recorder:
        recorder.begin_turn(model="m", cwd="/")
        recorder.record([Message(role="user", content=f"{arguments[0]}.{number}")], Usage())
"""
)


def test_many_processes_make_many_sessions(tmp_path: Path) -> None:
    """B45: 50 at once, 50 ids, 50 readable files."""
    children = [start(ONE_TURN, tmp_path, str(number)) for number in range(10)]
    assert [child.communicate()[0] for child in children] == [""] * 10
    store = Sessions(tmp_path).store
    listing = store.list()
    assert listing.damaged == ()
    tasks = sorted(history(store.read(summary.header.id))[0].content for summary in listing.sessions)
    assert tasks == sorted(f"{process}.{number}" for process in range(10) for number in range(5))


TRY_TURN = (
    START
    + """
sys.stdin.readline()
try:
    with store.open(arguments[0]) as recorder:
        recorder.begin_turn(model="m", cwd="/")
        task = Message(role="user", content=arguments[1])
        recorder.record([Message(role="system", content="s"), *history(recorder.transcript), task], Usage())
        print("stored", flush=True)
        sys.stdin.readline()
except StateFileError as error:
    print(error.message.rpartition(" is ")[2].rpartition(" ")[0])
"""
)


def test_of_turns_at_once_one_is_stored_and_the_others_are_refused(tmp_path: Path) -> None:
    """B45: no turn vanishes without a word."""
    sessions = Sessions(tmp_path)
    session_id = sessions.make(SYSTEM, user("x"))
    children = [start(TRY_TURN, tmp_path, session_id, str(number)) for number in range(6)]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    answers = [child.stdout.readline().strip() for child in children if child.stdout]
    for child in children:
        child.communicate("end\n")
    assert sorted(answers) == ["in use by process"] * 5 + ["stored"]
    assert history(sessions.store.read(session_id)) == (user("x"), user(str(answers.index("stored"))))


@contextmanager
def small_disk(place: Path) -> Iterator[None]:
    """Mount a disk of 1 MiB at `place`."""
    if os.getuid() != 0:
        pytest.skip("only root can mount a small disk")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m,mode=700", "odek", str(place)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.decode(errors='replace').strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


def fill(place: Path) -> Path:
    """Take all the space that is left at `place`; return the file that has it."""
    path = place / "filler"
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"x" * 512)
    return path


def test_full_disk_costs_nothing_that_was_stored(tmp_path: Path) -> None:
    """B46: the user is told, the old content stays, and with free space everything follows."""
    with small_disk(tmp_path):
        sessions = Sessions(tmp_path)
        session_id = sessions.make(SYSTEM, user("x"), said("y"))
        with sessions.store.open(session_id) as recorder:
            messages = [*resumed(recorder.transcript, SYSTEM.content), user("more"), said("z" * 20_000)]
            filler = fill(tmp_path)
            before = sessions.file().read_bytes()
            with pytest.raises(StateFileError) as caught:
                recorder.record(messages, Usage())
            assert caught.value.message == f'"{sessions.file()}" cannot be written: No space left on device'
            assert sessions.file().read_bytes() == before
            with pytest.raises(StateFileError, match="No space left on device"):
                sessions.make(user("another"))
            assert [summary.header.id for summary in sessions.store.list().sessions] == [session_id]
            filler.unlink()
            recorder.record(messages, Usage())
        assert history(sessions.store.read(session_id)) == tuple(messages[1:])
        listing = sessions.store.list()
        assert ([summary.header.id for summary in listing.sessions], listing.damaged) == ([session_id], ())


def test_full_disk_while_a_session_is_trimmed_leaves_it_as_it_was(tmp_path: Path) -> None:
    """B46: a file is never replaced by a shorter one that is not whole."""
    with small_disk(tmp_path):
        sessions = Sessions(tmp_path)
        session_id = sessions.make(SYSTEM, user("x" * 30_000), *(said(str(number) * 20_000) for number in range(6)))
        before = sessions.file().read_bytes()
        fill(tmp_path)
        with pytest.raises(StateFileError, match="No space left on device"):
            sessions.store.trim(session_id, 4)
        assert sessions.file().read_bytes() == before
        sessions.store.delete(session_id)
        assert sessions.store.list().sessions == ()
