"""What is typed in a conversation: history, completion, lines."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from fakes.homes import operator_home

from odek.cli.prompt_input import (
    HISTORY_FILE,
    LINE_LIMIT_BYTES,
    MOST_ENTRIES,
    InputHistory,
    StreamReader,
    add_entry,
    complete,
    parse_entries,
    read_paste,
    render_entries,
)
from odek.errors import UsageError
from odek.state import StateFolder


@pytest.mark.parametrize("entry", ["plain", "two\nlines", "back\\slash", "\\n is no line end", "ü 🙂", "tab\there"])
def test_history_keeps_an_entry_as_it_was_typed(entry: str) -> None:
    assert parse_entries(render_entries([entry, entry + "x"])) == (entry, entry + "x")


def test_history_drops_repetitions_blanks_and_the_oldest() -> None:
    """F-32."""
    entries = tuple(str(number) for number in range(MOST_ENTRIES))
    assert add_entry(entries, entries[-1]) == entries
    assert add_entry(entries, " \n") == entries
    assert add_entry(entries, "x" * 20_000) == entries
    assert add_entry(entries, "new") == (*entries[1:], "new")
    assert add_entry((), "a") == ("a",)


def log_in(home: Path, warnings: list[str]) -> InputHistory:
    folder = StateFolder(operator_home(home))
    return InputHistory(folder, redact=lambda text: text.replace("hunter22", "…"), warn=warnings.append)


def test_history_file_is_private_redacted_and_shared(tmp_path: Path) -> None:
    """F-32: made with mode 0600; what two conversations type does not push each other out."""
    warnings: list[str] = []
    one, two = log_in(tmp_path, warnings), log_in(tmp_path, warnings)
    assert one.read() == ()
    one.add("first")
    two.add("my key is hunter22")
    one.add("third")
    assert two.read() == ("first", "my key is …", "third")
    path = tmp_path / ".odek" / HISTORY_FILE
    assert (path.stat().st_mode & 0o777, path.read_text()) == (0o600, "first\nmy key is …\nthird\n")
    assert warnings == []


def test_history_that_cannot_be_trusted_is_told_once_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".odek").mkdir(mode=0o700)
    path = tmp_path / ".odek" / HISTORY_FILE
    path.write_text("planted\n")
    path.chmod(0o644)
    warnings: list[str] = []
    log = log_in(tmp_path, warnings)
    assert log.read() == ()
    log.add("typed")
    assert path.read_text() == "planted\n"
    assert warnings == [f'what you type is not remembered: "{path}" is open to other users (mode 0644)']


def test_tab_asks_for_a_command_first_and_offers_files(tmp_path: Path) -> None:
    (tmp_path / "src" / "deep").mkdir(parents=True)
    for name in ("src/main.py", "src/made up.py", "src/m\x1b[2J", "setup.py", ".hidden", "we\udcffird"):
        (tmp_path / name).touch()

    def offered(word: str, line: str = "") -> tuple[str, ...]:
        command = {("/", ""): ("/help",), ("@s", "/give "): ("@spoon",)}
        return complete(word, line, command=lambda *typed: command.get(typed), cwd=str(tmp_path))

    assert offered("/") == ("/help",)
    assert offered("@s", "/give ") == ("@spoon",)
    assert offered("@s") == ("@setup.py", "@src/")
    assert offered("@src/m") == ("@src/main.py",)
    assert offered("@src/") == ("@src/deep/", "@src/main.py")
    assert offered("@.h") == ("@.hidden",)
    assert offered("@") == ("@setup.py", "@src/")
    assert offered("@nowhere/x") == offered("@/etc/pass") == offered("@../") == offered("s") == ()


def test_pipe_gives_every_line_to_one_reader() -> None:
    """F-31: CRLF, no line end at the end of the file, bytes that are no UTF-8, and a line that is too long."""
    data = b"one\r\n\n" + b"x" * (LINE_LIMIT_BYTES + 5) + b"\nw\xffe\nlast"
    lines = StreamReader(io.BytesIO(data), interactive=False, ask=lambda _: pytest.fail("nobody sees a prompt"))
    assert [lines.read(">"), lines.read(">")] == ["one", ""]
    with pytest.raises(UsageError):
        lines.read(">")
    assert [lines.read(">"), lines.read(">"), lines.read(">")] == ["w\ufffde", "last", None]


def test_prompt_is_shown_where_somebody_sees_it() -> None:
    shown: list[str] = []
    assert StreamReader(io.BytesIO(b"a\n"), interactive=True, ask=shown.append).read("odek 1> ") == "a"
    assert shown == ["odek 1> "]


@pytest.mark.parametrize(
    ("sent", "text", "left"),
    [
        (b"a\r\nb\r\n\x1b[201~", "a\nb\n", b""),
        (b"a\rb\r\r\nc\x1b[201~", "a\nb\n\nc", b""),
        (b"a\nb\x1b[201~\rnext", "a\nb", b"\rnext"),
        ("ü🙂\x1b[31m\0\x1b[201~".encode(), "ü🙂\x1b[31m", b""),
        (b"\xff\x1b[201~", "\ufffd", b""),
        (b"breaks off", "breaks off", b""),
        (b"\x1b[201~", "", b""),
    ],
)
def test_paste_has_one_line_end_a_line(sent: bytes, text: str, left: bytes) -> None:
    """C6: whatever the system is that it was copied on; nothing is taken of what follows it."""
    reader, writer = os.pipe()
    os.write(writer, sent)
    os.close(writer)
    assert read_paste(reader) == text
    assert os.read(reader, 100) == left
    os.close(reader)
