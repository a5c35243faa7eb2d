"""The two output streams: what goes where, colours, and streams that fail."""

from __future__ import annotations

import errno
import io
import threading

import pytest
from fakes.terminals import Screen

from odek.cli.spinner import render_status
from odek.cli.terminal import Terminal
from odek.errors import Interrupted, OdekError
from odek.sandbox.build.context import Ignore, measure_context


class Failing(io.StringIO):
    """A stream that cannot be written to."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number

    def write(self, _: str) -> int:
        raise OSError(self.number, "cannot")


def made(*, env: dict[str, str] | None = None, is_terminal: bool = False) -> tuple[Terminal, io.StringIO, io.StringIO]:
    stdout, stderr = io.StringIO(), io.StringIO()
    terminal = Terminal(stdout, stderr)
    terminal.configure(env=env or {}, is_terminal=is_terminal)
    return terminal, stdout, stderr


def test_answer_goes_to_stdout_and_everything_else_to_stderr() -> None:
    """R-81."""
    terminal, stdout, stderr = made()
    terminal.answer("the answer")
    terminal.answer("another\n")
    terminal.line("a line")
    terminal.note("a note")
    terminal.warn("a warning", hint="a hint")
    terminal.error(OdekError("an error", hint="what to do", detail="words\nof others"))
    terminal.interrupted(Interrupted(15))
    assert stdout.getvalue() == "the answer\nanother\n"
    assert stderr.getvalue() == (
        "a line\nodek: a note\nodek: warning: a warning\nodek: hint: a hint\n"
        "odek: error: an error\n    words\n    of others\nodek: hint: what to do\nodek: stopped by SIGTERM\n"
    )


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("number", "echoed", "answer", "shown"),
    [
        (2, True, "", "\nodek: stopped by SIGINT\n"),
        (2, False, "", "odek: stopped by SIGINT\n"),
        (2, False, "half a line", "\nodek: stopped by SIGINT\n"),
        (2, False, "a line\n", "odek: stopped by SIGINT\n"),
        (15, True, "", "odek: stopped by SIGTERM\n"),
        (15, True, "half a line", "\nodek: stopped by SIGTERM\n"),
    ],
)
def test_ctrl_c_is_told_below_what_the_terminal_wrote_of_it(number: int, echoed: bool, answer: str, shown: str) -> None:
    """R-374: and below an answer that was being written; without a blank line where there is nothing."""
    stderr = io.StringIO()
    terminal = Terminal(Tty(), stderr)
    terminal.configure(env={"TERM": "xterm"}, is_terminal=True)
    if answer:
        terminal.stream(answer)
    interruption = Interrupted(number)
    interruption.echoed = echoed
    terminal.interrupted(interruption)
    assert stderr.getvalue() == shown


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (80, "waiting for the model, 12 s"),
        (28, "waiting for the model, 12 s"),
        (27, "waiting for the mode, 12 s"),
        (6, ", 12 "),
        (1, ""),
        (0, ""),
    ],
)
def test_what_is_waited_for_stays_on_one_line(columns: int, shown: str) -> None:
    """A line as wide as the terminal could not be taken back."""
    assert render_status("waiting for the model", 12.4, columns) == shown


def test_words_of_others_are_made_visible() -> None:
    """R-64: Docker's and a provider's words, and what a bug was about."""
    terminal, _, stderr = made()
    terminal.error(OdekError("m", detail="\x1b]0;t\x07\r\u202e\tx"))
    terminal.bug(ValueError("\x1b[2J"), debug=False, code=3)
    terminal.error(OdekError("\x1b[1m", hint="\x1b[2m"))
    terminal.note("\x1b[3m")
    terminal.warn("\x1b[4m", hint="\x1b[5m")
    assert "\\x1b]0;t\\x07\\r\\u202e\tx\n" in stderr.getvalue()
    assert [character for character in "\x1b\x07\r\u202e" if character in stderr.getvalue()] == []


@pytest.mark.parametrize(
    ("env", "is_terminal", "coloured"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "xterm"}, False, False),
        ({}, True, False),
        ({"TERM": "dumb"}, True, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True, True),
    ],
)
def test_colours(env: dict[str, str], is_terminal: bool, coloured: bool) -> None:
    """F-23."""
    terminal, _, _ = made(env=env, is_terminal=is_terminal)
    assert terminal.style("x", "red", "bold") == ("\x1b[31;1mx\x1b[0m" if coloured else "x")
    terminal.without_color()
    assert terminal.style("x", "red") == "x"


def test_answer_that_cannot_be_written_is_an_error() -> None:
    """R-81: the run failed if its answer did not arrive."""
    terminal = Terminal(Failing(errno.ENOSPC), io.StringIO())
    with pytest.raises(OdekError, match="cannot be written to stdout: cannot"):
        terminal.answer("x")


def test_answer_that_nobody_reads_is_a_broken_pipe() -> None:
    terminal = Terminal(Failing(errno.EPIPE), io.StringIO())
    with pytest.raises(BrokenPipeError):
        terminal.answer("x")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EPIPE, errno.EBADF])
def test_message_that_cannot_be_written_ends_nothing(number: int) -> None:
    """A closed terminal does not keep a container from being taken down."""
    stdout = io.StringIO()
    terminal = Terminal(stdout, Failing(number))
    terminal.note("x")
    terminal.error(OdekError("x"))
    terminal.answer("still here")
    assert stdout.getvalue() == "still here\n"


@pytest.mark.parametrize("debug", [True, False])
def test_bug_is_reported_with_its_place_and_all_the_way_there_on_request(debug: bool) -> None:
    """Somebody may not be able to make it happen again."""

    def broken() -> float:
        raise ValueError("a reason")

    terminal, _, stderr = made()
    with pytest.raises(ValueError, match="reason") as raised:
        measure_context("/", (), Ignore(), now=broken)
    assert terminal.bug(raised.value, debug=debug, code=3) == 3
    shown = stderr.getvalue()
    assert shown.startswith(
        "odek: internal error: ValueError: a reason (in odek.sandbox.build.context.measure_context)\n"
    )
    assert ("Traceback" in shown, "ODEK_DEBUG=1" in shown) == (debug, not debug)


def test_nothing_is_written_over_a_question() -> None:
    """R-64: the line that tells what is being waited for is away while somebody is asked, and back afterwards."""

    def waits() -> bool:
        return "running this test" in [thread.name for thread in threading.enumerate()]

    terminal, _, _ = made(env={"TERM": "xterm"}, is_terminal=True)
    with terminal.suspended():
        assert not waits()
    assert not waits()
    terminal.show_status("running this test")
    assert waits()
    with terminal.suspended():
        assert not waits()
    assert waits()
    terminal.clear_status()
    assert not waits()


def test_note_in_the_middle_of_a_wait_does_not_end_it() -> None:
    """B41: what is waited for is told again after "trying again"."""
    terminal, _, stderr = made(env={"TERM": "xterm"}, is_terminal=True)
    terminal.aside("nothing is waited for")
    terminal.show_status("running this test")
    terminal.aside("trying again")
    assert "running this test" in [thread.name for thread in threading.enumerate()]
    terminal.clear_status()
    assert stderr.getvalue() == "odek: nothing is waited for\nodek: trying again\n"


COLORED = {"TERM": "xterm"}


@pytest.mark.parametrize(
    ("env", "is_terminal", "printed"),
    [
        (COLORED, True, "\x1b[32mok\x1b[0m  evil \\x1b[2K\n"),
        ({**COLORED, "NO_COLOR": "1"}, True, "ok  evil \\x1b[2K\n"),
        ({"TERM": "dumb"}, True, "ok  evil \\x1b[2K\n"),
        ({}, True, "ok  evil \\x1b[2K\n"),
        (COLORED, False, "ok  evil \x1b[2K\n"),
    ],
)
def test_colours_of_an_answer_are_seen_as_colours_or_not_at_all(
    env: dict[str, str], is_terminal: bool, printed: str
) -> None:
    """V1: styles are joined with what makes foreign text harmless; a file gets neither."""
    screen = Screen(is_terminal=is_terminal)
    screen.terminal.configure(env=env, is_terminal=True)
    screen.terminal.answer_spans((("ok", ("green",)), ("  evil \x1b[2K", ())))
    assert screen.stdout == printed


def test_colours_end_for_both_streams() -> None:
    """V2."""
    screen = Screen(is_terminal=True)
    screen.terminal.configure(env=COLORED, is_terminal=True)
    screen.terminal.without_color()
    screen.terminal.answer_spans((("ok", ("green",)),))
    screen.terminal.warn("careful")
    assert (screen.stdout, screen.stderr) == ("ok\n", "odek: warning: careful\n")


class Narrow(Terminal):
    columns = 30  # type: ignore[assignment]


def test_sentences_break_between_words_at_a_terminal() -> None:
    """C4: notes, warnings, errors and hints; a log gets each on one line."""
    for is_terminal, width in ((True, 30), (False, 1000)):
        terminal = Narrow(io.StringIO(), stderr := io.StringIO())
        terminal.configure(env={"TERM": "xterm", "NO_COLOR": "1"}, is_terminal=is_terminal)
        terminal.note("a note that is longer than the terminal is wide")
        terminal.warn("a warning, longer than the terminal", hint="one hint that is about as long as that")
        terminal.error(OdekError("an error that does not fit, too", detail="and words of others that do not"))
        text = stderr.getvalue()
        assert max(map(len, text.splitlines())) <= width
        assert " ".join(text.split()) == (
            "odek: a note that is longer than the terminal is wide odek: warning: a warning, longer than the terminal "
            "odek: hint: one hint that is about as long as that odek: error: an error that does not fit, too "
            "and words of others that do not"
        )


def test_a_path_without_end_is_shown_by_its_ends() -> None:
    """R-399: in errors, hints and warnings; what stands around it is whole, and so is a long message of short words."""
    screen = Screen()
    path, words = "/home/" + "x" * 4000 + "/.odek", "word " * 200
    screen.terminal.error(OdekError(f'"{path}" cannot be opened', hint=f'chmod go-w "{path}", or not'))
    screen.terminal.warn(f"{words}{path}\n{path}", hint=path)
    shown = screen.stderr
    assert (len(shown) < 4000, shown.count("…"), shown.count("/.odek"), shown.count("word ")) == (True, 5, 5, 200)
    assert 'xxx/.odek" cannot be opened' in shown
    screen = Screen()
    screen.terminal.warn("y" * 400)
    assert "y" * 400 in screen.stderr
