"""What comes by stdin beside a task (A24)."""

from __future__ import annotations

import io
import os
import pty
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes.terminals import Screen

from odek.app.attachments import STDIN_LIMIT_BYTES
from odek.cli.task import read_beside, read_task
from odek.cli.terminal import Terminal
from odek.errors import UsageError


def read(descriptor: int, *, patience_s: float = 30.0) -> tuple[bytes, str]:
    """Return what was read, and what was told; a pipe that has begun may stall for no time at all."""
    stderr = io.StringIO()
    return read_beside(
        descriptor, Terminal(io.StringIO(), stderr), patience_s=patience_s, stall_s=0.01
    ), stderr.getvalue()


def pipe(*pieces: bytes, closed: bool) -> tuple[int, int]:
    reader, writer = os.pipe()
    for piece in pieces:
        os.write(writer, piece)
    if closed:
        os.close(writer)
    return reader, writer


def test_pipe_with_data_is_read_to_its_end() -> None:
    """A24: `git diff | odek run "review this"`."""
    reader, _ = pipe(b"diff ", b"+line\n", closed=True)
    assert read(reader) == (b"diff +line\n", "")
    os.close(reader)


def test_socket_is_read_as_a_pipe() -> None:
    """A24: as sshd and some shells make them."""
    mine, theirs = socket.socketpair()
    mine.sendall(b"data")
    mine.close()
    assert read(theirs.fileno()) == (b"data", "")
    theirs.close()


def test_file_is_read_from_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"onetwo")
    with open(tmp_path / "f", "rb", buffering=0) as file:
        file.seek(3)
        assert read(file.fileno()) == (b"two", "")
        assert read(file.fileno()) == (b"", "")


def closed_pipe() -> int:
    return pipe(closed=True)[0]


def terminal() -> int:
    return pty.openpty()[1]


def null() -> int:
    return os.open("/dev/null", os.O_RDONLY)


def nothing() -> int:
    descriptor = null()
    os.close(descriptor)
    return descriptor


def folder() -> int:
    return os.open("/", os.O_RDONLY)


@pytest.mark.parametrize("source", [closed_pipe, terminal, null, nothing, folder], ids=lambda source: source.__name__)
def test_nothing_is_read_and_nothing_said_where_nothing_can_come(source: Callable[[], int]) -> None:
    """A24: an empty pipe, cron's /dev/null, a closed stdin, the terminal of a person."""
    assert read(source()) == (b"", "")


def test_pipe_that_stays_silent_is_left_alone_and_that_is_told() -> None:
    """A24: the stdin of a CI runner may stay open for ever."""
    reader, writer = pipe(closed=False)
    data, told = read(reader, patience_s=0.01)
    assert data == b""
    assert "odek: warning: stdin is a pipe, but nothing came within 0.01 s; the task goes without it\n" in told
    assert "`--ctx -` waits for it; `</dev/null` says that there is nothing to read" in told
    os.close(reader)
    os.close(writer)


def test_pipe_that_stops_in_the_middle_ends_it() -> None:
    """A24: `tail -f log | odek run …`; half of the input is not what was meant."""
    reader, writer = pipe(b"half", closed=False)
    with pytest.raises(UsageError, match=r"stdin was not closed: nothing came for 0\.01 s after 4 bytes"):
        read(reader)
    os.close(reader)
    os.close(writer)


def test_no_more_is_read_than_can_be_attached(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * (STDIN_LIMIT_BYTES * 2))
    with open(tmp_path / "f", "rb", buffering=0) as file:
        data, _ = read(file.fileno())
    assert STDIN_LIMIT_BYTES < len(data) < STDIN_LIMIT_BYTES * 2


@pytest.mark.parametrize("words", [[], [" "], ["", ""]])
def test_hint_of_a_missing_task_names_stdin(words: list[str]) -> None:
    """A24: `echo task | odek run`."""
    with pytest.raises(UsageError) as refused:
        read_task(words, command="run", terminal=Screen().terminal)
    assert (refused.value.message, refused.value.exit_code) == ("no task provided", 2)
    assert "`odek run -` reads the task from stdin" in refused.value.hint
