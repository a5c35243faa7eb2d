"""The terminal approver on a real pseudo-terminal, byte for byte.

A child process has the pseudo-terminal as its controlling one, and pipes for everything else. It
waits for a byte on stdin, asks, and reports on stdout.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from odek.approval.request import ApprovalRequest, EnvOverride
from odek.cancel import CancelToken, use_token
from odek.cli.approval_prompt import render_request
from odek.cli.tty_prompt import ATTEMPTS, TtyPrompt, find_tty_prompt
from odek.errors import Cancelled

ROOT = Path(__file__).resolve().parents[3]
CHOICES = ("y", "yes", "t", "trust", "", "n", "no")
PROMPT = "WARNING: something\n  image:   alpine\n\nApprove? [y / N]"
SHOWN = b"WARNING: something\r\n  image:   alpine\r\n\r\n"
QUESTION = b"Approve? [y / N] "
PATIENCE_S = 20.0

CHILD = """
import json, os, signal, sys
from odek.cli.tty_prompt import TtyPrompt, find_tty_prompt
from odek.errors import Interrupted

def interrupt(number, frame):
    raise Interrupted(number)

prompts, choices, handled, quiet_s = json.loads(sys.argv[1])
if handled:
    signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGHUP, interrupt)
else:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # like nohup: a closed terminal shows as a failing read
os.read(0, 1)
approver = TtyPrompt(quiet_s=quiet_s) if quiet_s else find_tty_prompt()
answers = []
try:
    for prompt in prompts:
        answers.append(approver.ask(prompt, tuple(choices)) if approver else "nobody")
except Interrupted as interrupted:
    answers.append(f"interrupted {interrupted.signal_number}")
print(json.dumps(answers))
"""


class Session:
    """A child on a pseudo-terminal of its own."""

    def __init__(self, *prompts: str, handled: bool = False, quiet_s: float = 0, stdin: bytes = b"") -> None:
        self.master, self.slave = pty.openpty()
        arguments = json.dumps([prompts, CHOICES, handled, quiet_s])
        self.child = subprocess.Popen(
            [sys.executable, "-c", CHILD, arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=self._take_terminal,
        )
        self._stdin = stdin

    def _take_terminal(self) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)

    def start(self) -> None:
        assert self.child.stdin is not None
        self.child.stdin.write(b"g" + self._stdin)
        self.child.stdin.flush()

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def read_until(self, end: bytes) -> bytes:
        """Return what the terminal showed, up to and including `end`."""
        shown = b""
        while not shown.endswith(end):
            ready, _, _ = select.select([self.master], [], [], PATIENCE_S)
            assert ready, f"the terminal shows only {shown!r}"
            shown += os.read(self.master, 1)
        return shown

    def read_rest(self) -> bytes:
        shown = b""
        while select.select([self.master], [], [], 0)[0]:
            shown += os.read(self.master, 4096)
        return shown

    def answers(self) -> list[str | None]:
        """Wait for the end of the child and return what it was told."""
        stdout, stderr = self.child.communicate(timeout=PATIENCE_S)
        assert (self.child.returncode, stderr) == (0, b"")
        return json.loads(stdout)

    def modes(self) -> list[Any]:
        return termios.tcgetattr(self.slave)

    def close(self) -> None:
        self.child.kill()
        self.child.communicate()
        for descriptor in (self.master, self.slave):
            try:
                os.close(descriptor)
            except OSError:
                pass


@pytest.fixture
def sessions() -> Iterator[list[Session]]:
    opened: list[Session] = []
    yield opened
    for session in opened:
        session.close()


def begin(sessions: list[Session], *prompts: str, **options: Any) -> Session:
    session = Session(*prompts, **options)
    sessions.append(session)
    return session


@pytest.mark.parametrize(
    ("typed", "answer"),
    [("y", "y"), ("yes", "yes"), (" T ", "t"), ("Trust", "trust"), ("", ""), ("N", "n"), ("no", "no")],
)
def test_answer_is_read_and_the_screen_shows_exactly_the_prompt(
    sessions: list[Session], typed: str, answer: str
) -> None:
    """R-60, F-43: on the terminal and nowhere else; the terminal's modes are as before."""
    session = begin(sessions, PROMPT)
    before = session.modes()
    session.start()
    assert session.read_until(QUESTION) == SHOWN + QUESTION
    session.type(typed.encode() + b"\n")
    assert session.answers() == [answer]
    assert session.read_rest() == typed.encode() + b"\r\n"
    assert session.modes() == before


def test_prompt_of_one_line(sessions: list[Session]) -> None:
    session = begin(sessions, "Approve?")
    session.start()
    assert session.read_until(b"? ") == b"Approve? "
    session.type(b"y\n")
    assert session.answers() == ["y"]


@pytest.mark.parametrize("typed", [b"y\n", b"t\n", b"approve\ny\nyes\n", b"y", b"\x1b[24;80Ry\n", b"\n" * 50])
def test_typed_ahead_input_is_discarded(sessions: list[Session], typed: bytes) -> None:
    """R-64, B33: what was typed before the question counts for nothing; an answer after it works."""
    session = begin(sessions, PROMPT)
    session.type(typed)
    session.start()
    session.read_until(QUESTION)
    assert select.select([session.child.stdout], [], [], 0.3)[0] == []  # still waiting
    session.type(b"no\n")
    assert session.answers() == ["no"]


def test_input_between_two_questions_is_discarded(sessions: list[Session]) -> None:
    """B33: a paste whose second line would answer the next question."""
    session = begin(sessions, PROMPT, PROMPT)
    session.start()
    session.read_until(QUESTION)
    session.type(b"n\ny\ny\n")
    session.read_until(QUESTION)
    assert select.select([session.child.stdout], [], [], 0.3)[0] == []
    session.type(b"t\n")
    assert session.answers() == ["n", "t"]


@pytest.mark.parametrize(
    "reply",
    [
        b"\x1b[24;80R",
        b"\x1b[?62;c",
        b"\x1b]11;rgb:0000/0000/0000\x1b\\",
        b"\x1bP1$r0m\x1b\\",
        b"\x1bOA",
        b"\x1b]0;x\x07",
    ],
)
def test_reply_of_the_terminal_in_front_of_an_answer_is_taken_off(sessions: list[Session], reply: bytes) -> None:
    """B33: a late cursor position report does not spoil the answer behind it."""
    session = begin(sessions, PROMPT)
    session.start()
    session.read_until(QUESTION)
    session.type(reply + b"y\n")
    assert session.answers() == ["y"]


@pytest.mark.parametrize("typed", ["a", "yy", "yes please", "\x1b[200~y\x1b[201~", "ÿ", "y\x1b", "1", "т", "ß"])
def test_unrecognised_answer_asks_again_and_never_approves(sessions: list[Session], typed: str) -> None:
    """B33: also for text that was pasted, and for letters that only look right."""
    session = begin(sessions, PROMPT)
    session.start()
    session.read_until(QUESTION)
    session.type(typed.encode() + b"\n")
    again = session.read_until(QUESTION)
    assert again.endswith(b'" is none of the answers\r\n' + QUESTION)
    session.type(b"y\n")
    assert session.answers() == ["y"]


def test_too_many_unrecognised_answers_are_a_no(sessions: list[Session]) -> None:
    """B33: bounded."""
    session = begin(sessions, PROMPT)
    session.start()
    for _ in range(ATTEMPTS):
        session.read_until(QUESTION)
        session.type(b"maybe\n")
    assert session.answers() == [None]
    assert session.read_rest().endswith(b'"maybe" is none of the answers\r\nno answer: taken as no\r\n')


@pytest.mark.parametrize("keys", [b"\x04", b"y\x04\x04"], ids=["at once", "in a line"])
def test_end_of_file_is_a_no(sessions: list[Session], keys: bytes) -> None:
    session = begin(sessions, PROMPT)
    before = session.modes()
    session.start()
    session.read_until(QUESTION)
    session.type(keys)
    assert session.answers() == [None]
    assert session.modes() == before


def test_control_c_is_a_no(sessions: list[Session]) -> None:
    """F-56."""
    session = begin(sessions, PROMPT)
    before = session.modes()
    session.start()
    session.read_until(QUESTION)
    session.type(b"y\x03")
    assert session.answers() == [None]
    assert session.modes() == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupt_passes_through_and_the_terminal_is_restored(sessions: list[Session], number: int) -> None:
    """F-56: a handler's Interrupted ends the question, whatever is half typed."""
    session = begin(sessions, PROMPT, PROMPT, handled=True)
    modes = session.modes()
    modes[3] &= ~(termios.ICANON | termios.ECHO)
    termios.tcsetattr(session.slave, termios.TCSANOW, modes)
    before = session.modes()
    session.start()
    session.read_until(QUESTION)
    assert session.modes() != before
    session.type(b"y")
    session.child.send_signal(number)
    assert session.answers() == [f"interrupted {int(number)}"]
    assert session.modes() == before


def test_control_c_reaches_the_handler_even_on_a_terminal_left_raw(sessions: list[Session]) -> None:
    """F-56: a program that crashed may have left signals, echo and line mode off."""
    session = begin(sessions, PROMPT, handled=True)
    import tty

    tty.setraw(session.slave)
    before = session.modes()
    session.start()
    assert session.read_until(QUESTION) == SHOWN + QUESTION
    session.type(b"\x03")
    assert session.answers() == ["interrupted 2"]
    assert session.modes() == before


def test_closed_terminal_is_a_no(sessions: list[Session]) -> None:
    """R-61: whoever has gone has not approved."""
    session = begin(sessions, PROMPT)
    session.start()
    session.read_until(QUESTION)
    os.close(session.slave)
    os.close(session.master)
    assert session.answers() == [None]


def test_piped_stdin_never_approves(sessions: list[Session]) -> None:
    """B33: `yes | odek run`."""
    session = begin(sessions, PROMPT, stdin=b"y\n" * 1000)
    session.start()
    session.read_until(QUESTION)
    assert select.select([session.child.stdout], [], [], 0.3)[0] == []
    session.type(b"n\n")
    assert session.answers() == ["n"]


def test_without_a_controlling_terminal_nobody_can_be_asked() -> None:
    """R-61: cron, CI, a service: `yes` on stdin changes nothing."""
    ended = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps([[PROMPT], CHOICES, False, 0])],
        cwd=ROOT,
        input=b"g" + b"y\n" * 100,
        capture_output=True,
        start_new_session=True,
        check=True,
    )
    assert (json.loads(ended.stdout), ended.stderr) == (["nobody"], b"")


def test_file_is_no_terminal(tmp_path: Path) -> None:
    """B33: answers waiting in a file are not a person's."""
    (tmp_path / "tty").write_bytes(b"y\n")
    assert find_tty_prompt(str(tmp_path / "tty")) is None
    assert find_tty_prompt(str(tmp_path / "missing")) is None
    assert TtyPrompt(str(tmp_path / "tty")).ask(PROMPT, CHOICES) is None
    assert TtyPrompt(str(tmp_path / "missing")).ask(PROMPT, CHOICES) is None
    assert (tmp_path / "tty").read_bytes() == b"y\n"


def test_input_that_never_stops_is_a_no(sessions: list[Session]) -> None:
    """B33: `yes` into the terminal: the question is not even put."""
    session = begin(sessions, PROMPT, quiet_s=10)
    session.start()
    seen = session.read_until(SHOWN)
    while not select.select([session.child.stdout], [], [], 0)[0]:
        session.type(b"y\n")
        seen += session.read_rest()
    assert session.answers() == [None]
    echo = bytes.maketrans(b"", b""), b"y\r\n"  # the terminal's own echo may come between any two bytes
    said = SHOWN + b"no answer: taken as no\r\n"
    assert (seen + session.read_rest()).translate(*echo) == said.translate(*echo)


HOSTILE = "a\r\x1b[2K  Command: ls\x1b]52;c;ZXZpbA==\x07\x1b[8m\x9b2J\u202e\u200b\nApprove? [y] y"
ALLOWED = bytes(range(0x20, 0x7F)) + b"\r\n" + "⚠\ufe0f".encode()


def test_hostile_request_reaches_the_terminal_as_text_only(sessions: list[Session]) -> None:
    """R-64, B32: byte for byte what render_request made, nothing that moves the cursor."""
    asked = ApprovalRequest(
        project_dir="/p",
        image=HOSTILE,
        network=HOSTILE,
        env=(EnvOverride(key=HOSTILE, value="$X", variables=("X",)),),
        volumes=(HOSTILE,),
        user=HOSTILE,
    )
    prompt = render_request(asked)
    session = begin(sessions, prompt)
    session.start()
    shown = session.read_until(b"trust this project / N] ")
    assert shown == prompt.replace("\n", "\r\n").encode() + b" "
    assert set(shown) <= set(ALLOWED)
    session.type(b"n\n")
    assert session.answers() == ["n"]


def test_control_characters_are_escaped_even_when_a_caller_forgot(sessions: list[Session]) -> None:
    """R-64, B32: the last line of defence; half a surrogate pair does not crash it (B47)."""
    session = begin(sessions, f"⚠️  {HOSTILE}\ud83d\nQ")
    session.start()
    assert (
        session.read_until(b"\nQ ")
        == (
            "⚠️  a\\r\\x1b[2K  Command: ls\\x1b]52;c;ZXZpbA==\\x07\\x1b[8m\\x9b2J\\u202e\\u200b\r\n"
            "Approve? [y] y\\ud83d\r\nQ "
        ).encode()
    )
    session.type(b"\n")
    assert session.answers() == [""]


def test_asks_within_what_keeps_others_from_writing(tmp_path: Path) -> None:
    """R-64: also when the question fails, the terminal is handed back."""
    told: list[str] = []

    @contextmanager
    def alone() -> Iterator[None]:
        told.append("begins")
        try:
            yield
        finally:
            told.append("ends")

    (tmp_path / "tty").touch()
    assert TtyPrompt(str(tmp_path / "tty"), alone=alone).ask(PROMPT, CHOICES) is None
    assert told == ["begins", "ends"]


def test_cancelled_question_leaves_the_terminal_as_it_was() -> None:
    """R-100: a question that waits in any thread hears that its work is cancelled."""
    master, slave = os.openpty()
    before = termios.tcgetattr(slave)
    token = CancelToken()
    answers: list[object] = []

    def ask() -> None:
        with use_token(token):
            try:
                answers.append(TtyPrompt(os.ttyname(slave)).ask(PROMPT, CHOICES))
            except Cancelled as error:
                answers.append(type(error))

    asking = threading.Thread(target=ask)
    asking.start()
    shown = b""
    while not shown.endswith(QUESTION):
        assert select.select([master], [], [], PATIENCE_S)[0], shown
        shown += os.read(master, 4096)
    token.cancel()
    asking.join(PATIENCE_S)
    assert (answers, termios.tcgetattr(slave)) == ([Cancelled], before)
    os.close(master)
    os.close(slave)
