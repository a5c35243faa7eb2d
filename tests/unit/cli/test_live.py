"""The latest output of a running command on the last lines of a terminal (C4, R-262)."""

from __future__ import annotations

import pytest

from odek.cli.live import live_rows, live_rows_of_calls, watched_commands
from odek.cli.spinner import erase
from odek.events import Event, ToolOutput
from odek.executor import OutputWatch, current_watch
from odek.process import Output

HEAD = "  │ "


@pytest.mark.parametrize(
    ("tail", "columns", "rows"),
    [
        ("", 80, ()),
        ("one\ntwo\n", 80, ("one", "two")),
        ("1\n2\n3\n4\n5\n6\n\n7\n", 80, ("3", "4", "5", "6", "7")),
        ("half a line that goes on", 80, ("half a line that goes on",)),
        ("x" * 100, 40, ("x" * 34 + "…",)),
        ("日" * 40, 41, ("日" * 17 + "…",)),
        ("one\n", 39, ()),
        ("10%\r20%\r30%", 80, ("30%",)),
        ("10%\r20%\r\n", 80, ("20%",)),
        ("\x1b[1;32mgreen\x1b[0m \x1b[2J\x1b]0;title\x07x\n", 80, ("green x",)),
        ("\x1b[?25l\x1b7a\x07b\u202ec\u009b2J\n", 80, ("a\\x07b\\u202ec\\x9b2J",)),
        ("a\tb\n", 80, ("a       b",)),
        ("\x1b\n\x1b[\n", 80, ("\\x1b[",)),
    ],
)
def test_live_rows(tail: str, columns: int, rows: tuple[str, ...]) -> None:
    """R-262: at most five, each on one line, of a progress bar its last state; nothing that moves the cursor."""
    assert live_rows(tail, columns, head=HEAD) == tuple(HEAD + row for row in rows)


@pytest.mark.parametrize(
    ("outputs", "columns", "rows"),
    [
        ([("", "one\ntwo\n")], 80, ("one", "two")),
        ([("shell: make", "one\ntwo\n")], 80, ("shell: make", "  one", "  two")),
        ([("a", "1\n2\n3\n4\n"), ("b", "5\n")], 80, ("a", "  2", "  3", "  4", "b", "  5")),
        ([("a", ""), ("b", "5\n")], 80, ("a", "b", "  5")),
        ([(name, "1\n2\n") for name in "abcdef"], 80, ("c", "  2", "d", "  2", "e", "  2", "f", "  2")),
        ([("日" * 40, "x" * 99), ("b", "")], 40, ("日" * 17 + "…", "  " + "x" * 32 + "…", "b")),
        ([("a", "1\n"), ("b", "2\n")], 39, ()),
    ],
)
def test_live_rows_of_several_calls(outputs: list[tuple[str, str]], columns: int, rows: tuple[str, ...]) -> None:
    """R-376: below the title of each, eight rows in all."""
    assert live_rows_of_calls(outputs, columns, head=HEAD) == tuple(HEAD + row for row in rows)


def test_calls_of_one_reply_are_watched_each_with_its_id() -> None:
    """R-376: in their own threads; a watch that does not want them leaves them alone."""
    seen: list[Event] = []
    with watched_commands(seen.append, lambda text: text):
        watch = current_watch()
        assert watch is not None
        mine = watch.of_call("call_2")
        assert mine is not None
        mine._clock = iter((0.0, 9.0)).__next__
        mine.begin()
        mine.look(lambda: Output(head=b"", tail=b"hello", size_bytes=5))
    assert seen == [ToolOutput(call_id="call_2", tail="hello", size_bytes=5)]
    assert OutputWatch(lambda *_: None).of_call("call_2") is None


def test_what_was_drawn_is_erased_and_nothing_above_it() -> None:
    assert [erase(above) for above in (-1, 0, 3)] == ["", "\r\x1b[K", "\r\x1b[3A\x1b[J"]


def test_output_is_shown_without_secrets_also_at_the_cut() -> None:
    """R-262: the tail is redacted before it is cut."""
    seen: list[Event] = []
    secret = "s3cret" * 3
    with watched_commands(seen.append, lambda text: text.replace(secret, "[REDACTED]")):
        watch = current_watch()
        assert watch is not None
        watch._clock = iter((0.0, 9.0)).__next__
        watch.begin()
        data = (secret + "x" * 1990).encode()
        watch.look(lambda: Output(head=b"", tail=data, size_bytes=5000))
    assert current_watch() is None
    assert seen == [ToolOutput(call_id="", tail=("[REDACTED]" + "x" * 1990)[-2000:], size_bytes=5000)]
