"""The manual page and docs/CLI.md say what the program does: both are made from it, or compared with it."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from odek import errors
from odek.cli.command_docs import read_command_docs
from odek.cli.commands.man import choose_pages
from odek.cli.manual import own_flags, render_plain
from odek.cli.streams import BROKEN_PIPE_CODE
from odek.errors import UsageError
from odek.events import (
    ApprovalAnswered,
    ApprovalRequested,
    FilesChanged,
    Finished,
    ModelReplied,
    RequestStarted,
    TaskEnded,
    TaskStarted,
    TextDelta,
    TextVoided,
    ThinkingDelta,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    WarningIssued,
    to_json,
)
from odek.model.types import Message, Reply, ToolCall, Usage

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "CLI.md"
CALL = ToolCall(id="1", name="shell", arguments="{}")


@pytest.fixture(scope="module")
def manpage() -> ModuleType:
    spec = importlib.util.spec_from_file_location("odek_manpage", ROOT / "build" / "manpage.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_lists_in_the_document_are_what_the_program_has(manpage: ModuleType) -> None:
    """R-12, R-80: commands, options, slash commands, exit codes; `python3 build/manpage.py --docs` writes them anew."""
    document = DOCUMENT.read_text()
    assert document == manpage.fill_in(document, manpage.render_parts(read_command_docs()))


def test_every_exit_code_is_described(manpage: ModuleType) -> None:
    """runtime contract 2.1."""
    codes = {code for code, _ in manpage.EXIT_CODES}
    assert {str(errors.EXIT_OK), str(errors.EXIT_ERROR), str(errors.EXIT_USAGE), str(errors.EXIT_BUG)} <= codes
    assert {str(errors.BudgetExhausted.exit_code), str(BROKEN_PIPE_CODE), f"{errors.EXIT_SIGNAL_BASE}+N"} <= codes


def events_section() -> str:
    return DOCUMENT.read_text().partition("## Events")[2].partition("## Commands")[0]


def test_document_describes_every_event() -> None:
    """R-81: kinds and fields of --json, exactly."""
    reply = Reply(message=Message(role="assistant", tool_calls=(CALL,)))
    events = (
        TurnStarted(turn=1, text="", files=(), at=""),
        TurnEnded(turn=1, status="answered"),
        RequestStarted(iteration=1),
        TextDelta(text=""),
        ThinkingDelta(text=""),
        TextVoided(),
        ModelReplied(reply=reply, iteration=1),
        ToolStarted(call=CALL, title=""),
        ApprovalRequested(approval={}),
        ApprovalAnswered(id="a", answer="deny"),
        ToolFinished(call=CALL, text="", failed=False),
        FilesChanged(number=1, files=(), shared=False),
        TaskStarted(task="", of=1, goal="", facts=None),
        TaskEnded(task="", status="", usage=Usage(), seconds=0, files=()),
        WarningIssued(text=""),
        Finished(answer="", usage=Usage(), iterations=1),
    )
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", events_section(), re.MULTILINE)
    described = {kind: set(re.findall(r"`(\w+)`", re.sub(r"\(.*?\)", "", fields))) for kind, fields in rows}
    del described["event"]  # the head of the table
    assert described.pop("session") == {"id", "turn", "place", "reason"}
    assert {"message", "hint", "source", "code", "exit_code"} <= described.pop("error")  # all: test_console
    assert described == {str(fields.pop("event")): set(fields) for fields in map(to_json, events)}


def test_manual_page_is_made_from_the_same_pages(manpage: ModuleType, tmp_path: Path) -> None:
    """Equal bytes for equal sources; every command and long option is in it."""
    page = manpage.render_man(read_command_docs())
    assert page == manpage.render_man(read_command_docs())
    for each in read_command_docs():
        assert f"\\fBodek {' '.join(each.words)}".replace("-", "\\-") in page
        flags = [flag.name for flag in each.flags if flag.name != "--help"]
        assert [name for name in flags if f"\\fB{name}\\fR".replace("-", "\\-") not in page] == []
    output = tmp_path / "odek.1"
    subprocess.run([sys.executable, ROOT / "build" / "manpage.py", "--output", output], check=True, capture_output=True)
    assert output.read_text() == page


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_manual_as_text_fits(columns: int) -> None:
    """R-304: with every command and option; only what cannot be broken is longer than a line."""
    pages = read_command_docs()
    text = render_plain(pages, columns)
    assert [line for line in text.splitlines() if len(line) > columns and not re.search("[\"'>#]", line)] == []
    words = text.split()
    for each in pages:
        assert "odek " + " ".join(each.words) in " ".join(words)
        assert {name for flag in own_flags(each) for name in flag.names} <= {word.rstrip(",") for word in words}


@pytest.mark.parametrize(
    ("words", "found"), [(("session", "trim"), 1), (("version",), 1), ((), len(read_command_docs()))]
)
def test_part_of_the_manual(words: tuple[str, ...], found: int) -> None:
    """R-304."""
    assert len(choose_pages(read_command_docs(), words)) == found
    with pytest.raises(UsageError, match='there is no command "x'):
        choose_pages(read_command_docs(), ("x\x1b",))
