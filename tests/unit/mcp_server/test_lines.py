"""What a client sends as lines, and the one thread that writes to it."""

from __future__ import annotations

import os
import socket
import threading
from typing import Any

import pytest

from odek.mcp_server.lines import BACKLOG_BYTES, LineSplitter, Writer, read_lines

LONG_S = 60.0


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_lines_are_the_same_however_they_come(size: int) -> None:
    """R-174: CR LF stays for the decoder; a line over the limit is None and is skipped to its end."""
    data = b"one\n\ntwo\r\n" + b"x" * 10 + b"\n" + b"x" * 11 + b"\n" + b"y" * 500 + b"\nthree\nrest"
    splitter = LineSplitter(10)
    lines = [line for start in range(0, len(data), size) for line in splitter.feed(data[start : start + size])]
    assert lines == [b"one", b"", b"two\r", b"x" * 10, None, None, b"three"]
    assert splitter.end() == b"rest"


def test_a_line_that_never_ends_is_not_kept() -> None:
    splitter = LineSplitter(10)
    for _ in range(100):
        assert list(splitter.feed(b"z" * 8)) == []
        assert len(splitter._rest) <= 18
    assert splitter.end() is None
    assert list(splitter.feed(b"\nnext\n")) == [None, b"next"]


def test_reading_ends_with_the_input_and_with_a_wake() -> None:
    """R-180: the last line needs no end."""
    readable, writable = os.pipe()
    woken, wake = os.pipe()
    os.write(writable, b"a\nb")
    os.close(writable)
    assert list(read_lines(readable, woken, lambda _: True)) == [b"a", b"b"]
    os.close(readable)
    readable, writable = os.pipe()
    os.close(wake)
    assert list(read_lines(readable, woken, lambda _: True)) == []
    for descriptor in (readable, writable, woken):
        os.close(descriptor)


def test_flush_waits_until_all_is_written_and_no_longer_than_it_may() -> None:
    """R-171: what is sent has gone out before something else begins; a client that does not read holds up nothing."""
    readable, writable = os.pipe()
    writer = Writer(writable, on_broken=lambda: None)
    writer.flush(LONG_S)
    writer.send(b"first\n")
    writer.flush(LONG_S)
    os.set_blocking(readable, False)
    assert os.read(readable, 100) == b"first\n"
    writer.send(b"x" * (1 << 20))
    writer.flush(0.01)
    os.close(readable)
    writer.flush(LONG_S)  # nobody reads it any more
    os.close(writable)


def test_lines_of_many_threads_come_whole() -> None:
    """R-172: each message is written whole, in the order of the sends of a thread."""
    readable, writable = os.pipe()
    writer = Writer(writable, on_broken=lambda: None)
    texts = [bytes([97 + number]) * 100_000 + b"\n" for number in range(8)]
    threads = [threading.Thread(target=lambda text=text: [writer.send(text) for _ in range(5)]) for text in texts]
    got = bytearray()

    def read() -> None:
        while data := os.read(readable, 1 << 16):
            got.extend(data)

    reader = threading.Thread(target=read)
    reader.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG_S)
    writer.close(LONG_S)
    os.close(writable)
    reader.join(LONG_S)
    os.close(readable)
    lines = bytes(got).splitlines(keepends=True)
    assert sorted(lines) == sorted(texts * 5)


def test_a_reader_that_has_gone_is_noticed_and_nothing_waits_for_it() -> None:
    readable, writable = os.pipe()
    os.close(readable)
    broken = threading.Event()
    writer = Writer(writable, on_broken=broken.set)
    writer.send(b"x" * (9 << 20) + b"\n")
    assert writer.wait_for_room(lambda: False)
    assert broken.wait(LONG_S)
    writer.send(b"more\n")
    writer.close(LONG_S)
    os.close(writable)


@pytest.mark.parametrize("pair", [os.pipe, lambda: tuple(end.detach() for end in socket.socketpair())])
def test_a_client_that_has_gone_is_noticed_behind_what_it_never_read(pair: Any) -> None:
    """R-180, P-23: it has closed its side, and something holds the other one open and does not read."""
    readable, writable = pair()
    never_read, output = os.pipe()
    woken, wake = os.pipe()
    writer = Writer(output, on_broken=lambda: None)
    writer.send(b"x" * (BACKLOG_BYTES + (1 << 20)) + b"\n")
    os.write(writable, b"a\nb")
    os.close(writable)
    assert list(read_lines(readable, woken, writer.wait_for_room)) == [b"a"]
    writer.close(0)
    for descriptor in (readable, never_read, woken, wake):
        os.close(descriptor)
