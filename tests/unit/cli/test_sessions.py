"""odek session: lists, shows, exports, shortens and deletes (R-85, F-34 to F-36, B46, B48)."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from fakes.docker import FakeDocker
from fakes.layering import make_host, make_layers
from fakes.notices import Notes
from fakes.runtimes import fake_runtime
from fakes.sessions import FIRST_ID, NOON, SYSTEM, Sessions, calls, result, said, user
from fakes.terminals import Screen

from odek.app.config import config_of
from odek.app.stored_sessions import find_session, resume_session
from odek.cli.commands.sessions import main, render_listing
from odek.config.options import Source
from odek.errors import OdekError, StateFileError, UsageError
from odek.session.store import SessionList
from odek.session.transcript import Transcript

HELLO = (SYSTEM, user("look\x1b[2J around"), calls("a"), result("a", "x" * 300), said("done"))


@dataclass
class Desk:
    """`odek session` on a folder of sessions."""

    sessions: Sessions
    home: Path

    def run(self, *arguments: str) -> tuple[str, str]:
        screen = Screen()
        host = make_host(self.home, uid=os.getuid())
        assert main(list(arguments), host, screen.terminal) == 0
        return screen.stdout, screen.stderr


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    home = Path(make_host(tmp_path, uid=os.getuid()).home)
    home.mkdir(exist_ok=True)
    return Desk(sessions=Sessions(home), home=tmp_path)


def test_no_sessions(desk: Desk) -> None:
    assert desk.run("list") == ("No sessions found.\n", "")
    assert json.loads(desk.run("list", "--json")[0]) == {"sessions": [], "damaged": []}


def test_listing_shows_ids_models_and_what_is_damaged(desk: Desk) -> None:
    """F-34, B46: full ids in a column that holds them; a damaged file is one warning and hides no other."""
    desk.sessions.make(*HELLO, task="look\x1b[2J around")
    desk.sessions.plant("empty.jsonl", b"")
    shown, warned = desk.run("list")
    head, row = shown.splitlines()
    assert head.split() == ["ID", "TURNS", "PLACE", "MODEL", "USED", "TASK"]
    assert row.split()[:4] == [FIRST_ID, "1", "sandbox", "small"]
    assert row.endswith("look\\x1b[2J around")
    assert [line.index(word) for line, word in ((head, "TURNS"), (row, " 1 "))] == [43, 42]
    reason = f'"{desk.sessions.path}/empty.jsonl" is damaged: it is empty'
    assert warned == f"odek: warning: a session is skipped: {reason}\n"
    listed = json.loads(desk.run("list", "--json")[0])
    assert [entry["id"] for entry in listed["sessions"]] == [FIRST_ID]
    assert [entry["file"] for entry in listed["damaged"]] == ["empty.jsonl"]


def test_only_the_newest_are_listed_unless_all_are_asked_for(desk: Desk) -> None:
    for number in range(22):
        desk.sessions.now = NOON + number
        desk.sessions.make(SYSTEM, user(str(number)), task=str(number))
    shown, noted = desk.run("list")
    assert [line.split()[-1] for line in shown.splitlines()[1:]] == [str(number) for number in range(21, 1, -1)]
    assert noted == "odek: 2 older ones: odek session list --all\n"
    assert len(desk.run("list", "--all")[0].splitlines()) == 23


@pytest.mark.parametrize(
    ("seconds", "age"),
    [(-1e9, "just now"), (0, "just now"), (59, "59 seconds ago"), (3600, "1 hour ago"), (3 * 86_400, "3 days ago")],
)
def test_age_of_a_session(seconds: float, age: str, desk: Desk) -> None:
    """B48: a clock that was set back makes no negative age."""
    desk.sessions.make(SYSTEM, user("x"))
    (summary,) = desk.sessions.store.list().sessions
    assert age in render_listing((summary,), now_s=NOON + seconds)


@pytest.mark.parametrize(
    ("ids", "shown"),
    [
        ((f"20260715-{'a1' * 16}", f"20260715-{'b2' * 16}"), ["20260715-a1a1a1a1", "20260715-b2b2b2b2"]),
        (("made-by-another-tool-1", "made-by-another-tool-2"), ["made-by-another-tool-1", "made-by-another-tool-2"]),
    ],
)
def test_listing_on_a_narrow_terminal_keeps_to_its_lines(ids: tuple[str, ...], shown: list[str], desk: Desk) -> None:
    """F-34: ids as short as tells them apart; in full where there is room."""
    desk.sessions.make(*HELLO, task="find out why " * 5)
    (summary,) = desk.sessions.store.list().sessions
    sessions = [replace(summary, header=replace(summary.header, id=session_id)) for session_id in ids]
    lines = render_listing(sessions, now_s=NOON, columns=70).splitlines()
    assert [line.split()[0] for line in lines] == ["ID", *shown]
    assert [len(line) <= 70 for line in lines[1:]] == [True, True]
    narrow = render_listing(sessions, now_s=NOON, columns=40).splitlines()
    assert [len(line) <= 40 and "find out" in line for line in narrow[1:]] == [True, True]
    assert render_listing(sessions, now_s=NOON, columns=200) == render_listing(sessions, now_s=NOON)


def test_show_prints_a_conversation_safely(desk: Desk) -> None:
    """F-59, B03: turns from 1, results cut unless asked for in full; no escape reaches the terminal."""
    desk.sessions.make(*HELLO)
    shown, _ = desk.run("show", FIRST_ID[:12])
    assert shown.split("\n\n", 1)[1] == (
        "── turn 1\nlook\\x1b[2J around\n\n"
        '── assistant\n→ shell {"command":"ls"}\n\n'
        f"── result of shell\n{'x' * 200}…\n(300 characters; --full shows them)\n\n"
        "── assistant\ndone\n"
    )
    full, _ = desk.run("show", "--full")
    assert "x" * 300 in full
    assert "── system\nbe brief\n" in full


def test_export_and_show_json_are_one_object(desk: Desk) -> None:
    desk.sessions.make(*HELLO)
    exported, _ = desk.run("export", FIRST_ID)
    fields = json.loads(exported)
    assert (fields["id"], len(fields["messages"]), fields["sandbox"]) == (FIRST_ID, 5, True)
    assert desk.run("show", "--json")[0] == exported


def test_export_writes_a_file_that_was_not_there(desk: Desk) -> None:
    """R-286: for the user alone; what exists is left as it is, a link that leads nowhere included."""
    desk.sessions.make(*HELLO)
    path, link = desk.home / "out.md", desk.home / "link.md"
    printed, _ = desk.run("export", "--markdown")
    shown, notes = desk.run("export", "--markdown", "--output", str(path))
    assert (shown, path.read_text()) == ("", printed)
    assert str(path) in notes
    assert path.stat().st_mode & 0o777 == 0o600
    link.symlink_to(desk.home / "elsewhere")
    for there in (path, link, desk.home):
        with pytest.raises(UsageError, match="exists"):
            desk.run("export", "--output", str(there))
    assert path.read_text() == printed
    assert not (desk.home / "elsewhere").exists()
    with pytest.raises(UsageError, match="cannot be written"):
        desk.run("export", "--output", str(desk.home / "no" / "folder.json"))


def test_delete_takes_what_exists_and_refuses_what_does_not(desk: Desk) -> None:
    """F-35: an unknown session is an error, and nothing of the same call is deleted."""
    desk.sessions.make(*HELLO)
    with pytest.raises(StateFileError, match="there is no session"):
        desk.run("delete", FIRST_ID, "20260715-nothing", FIRST_ID)
    assert desk.run("delete", FIRST_ID)[0] == f"deleted session {FIRST_ID}\n"
    assert desk.sessions.store.list() == SessionList(sessions=(), damaged=())


def test_trim_and_cleanup(desk: Desk) -> None:
    """F-36, B48."""
    desk.sessions.make(*HELLO, user("more"), said("yes"))
    assert desk.run("trim", FIRST_ID, "4")[0] == f"dropped 3 messages from session {FIRST_ID}\n"
    assert desk.run("cleanup", "40000")[0] == "deleted 0 sessions\n"
    assert json.loads(desk.run("cleanup", "0", "--json")[0]) == {"deleted": [FIRST_ID], "kept": []}


@pytest.mark.parametrize(
    "arguments",
    [(), ("list", "x"), ("shwo",), ("delete",), ("trim", FIRST_ID), ("trim", FIRST_ID, "four"), ("cleanup", "-1x")],
)
def test_words_that_make_no_sense_are_refused(arguments: tuple[str, ...], desk: Desk) -> None:
    with pytest.raises(UsageError):
        desk.run(*arguments)


def test_beginning_of_an_id_is_enough_while_there_is_one(desk: Desk) -> None:
    """R-284: four characters or more, with the date or without; several sessions are named, damaged ones as well."""
    store = desk.sessions.store
    warnings: list[str] = []

    def find(text: str) -> str:
        return find_session(store, text, warn=warnings.append)

    with pytest.raises(StateFileError, match="no session yet"):
        find("")
    first = desk.sessions.make(SYSTEM, user("1"))
    second = desk.sessions.make(SYSTEM, user("2"))
    assert find(first) == first
    assert find(second) == second
    assert find("") in (first, second)
    assert find("nowhere") == "nowhere"
    with pytest.raises(UsageError, match='"202" is too short for an id'):
        find("202")
    for text in ("20260715", "0000"):
        with pytest.raises(UsageError, match=f'"{text}" is the beginning of 2 sessions') as several:
            find(text)
        assert several.value.hint == f"write more of the id: {first}, {second}"
    desk.sessions.plant(f"20260716-abcdef{0:026x}.jsonl", b"{")  # damaged
    assert find("20260716") == find("abcd") == find("20260716-ab") == f"20260716-abcdef{0:026x}"
    desk.sessions.plant(f"abcdefgh-{'1' * 32}.json", b"{")  # of another tool
    with pytest.raises(UsageError, match='"abcdef" is the beginning of 2 sessions'):
        find("abcdef")
    find("")
    assert len(warnings) == 2
    for number in range(8):
        desk.sessions.plant(f"20260717-{number}{0:031x}.jsonl", b"{")
    with pytest.raises(UsageError) as many:
        find("2026")
    assert many.value.hint.count(", ") == 8
    assert many.value.hint.endswith(", …")


@pytest.mark.parametrize("command", ["show", "export", "receipts", "verify", "delete", "trim"])
def test_every_action_takes_the_beginning_of_an_id(command: str, desk: Desk) -> None:
    """R-284."""
    session_id = desk.sessions.make(SYSTEM, user("1"))
    more = ("5",) if command == "trim" else ()
    desk.run(command, session_id[:12], *more)
    with pytest.raises(StateFileError):
        desk.run(command, "nowhere", *more)
    assert (desk.sessions.store.find(session_id) is None) is (command == "delete")


def stored(desk: Desk, *, sandbox: bool = True) -> Transcript:
    with desk.sessions.store.create(task="t", model="small", sandbox=sandbox, cwd="/elsewhere") as recorder:
        return recorder.transcript


@pytest.mark.parametrize(
    ("sandbox", "operator", "here", "refused"),
    [
        (True, {}, False, True),
        (True, {}, True, False),
        (True, {"sandbox": False}, False, False),
        (False, {}, False, False),
        (False, {"sandbox": True}, False, True),
    ],
)
def test_another_folder_is_not_given_to_a_sandbox_by_mistake(
    sandbox: bool, operator: dict[str, object], here: bool, refused: bool, desk: Desk, tmp_path: Path
) -> None:
    """runtime contract 6.2: refused when sandboxed, unless --here; on the host it is said."""
    host = make_host(tmp_path, uid=os.getuid())
    config = config_of(make_layers(operator=operator))
    warnings = Notes()
    runtime = fake_runtime(host, FakeDocker(), emit=warnings)
    stored(desk, sandbox=sandbox)

    def require() -> None:
        with desk.sessions.store.open(FIRST_ID) as recorder:
            resume_session(recorder, config, runtime, command="continue", here=here)

    if refused:
        with pytest.raises(OdekError) as error:
            require()
        assert error.value.message == f'the session worked in "/elsewhere", this is "{host.cwd}"'
    else:
        require()
        assert warnings.warnings == [f'the session worked in "/elsewhere", this is "{host.cwd}"']


@pytest.mark.parametrize(
    ("layers", "model", "source"),
    [
        ({"operator": {"model": "file"}, "env": {"ODEK_MODEL": "variable"}}, "small", Source.FLAG),
        ({"flags": {"model": "flag"}}, "flag", Source.FLAG),
    ],
)
def test_model_of_a_session_beats_files_and_variables_not_flags(
    layers: dict[str, dict[str, object]], model: str, source: Source
) -> None:
    config = config_of(make_layers(**layers)).with_chosen_model("small", "", origin="the session")  # type: ignore[arg-type]
    assert (config.settings.model.model, config.settings.source_of("model")) == (model, source)
