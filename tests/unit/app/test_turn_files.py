"""When a turn's files are looked at, and what is said when that fails."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from odek.app.turn_files import KeptTurns
from odek.cancel import CancelToken, use_token
from odek.errors import Cancelled
from odek.events import Event, FilesChanged, RequestStarted, ToolStarted, TurnEnded, TurnStarted, WarningIssued
from odek.model.types import ToolCall
from odek.operator_home import OperatorHome
from odek.snapshot.store import SnapshotStore, project_key

LIMITS: dict[str, object] = {"enabled": True, "max_file_mb": 1, "max_total_mb": 10, "max_turns": 5}
CALL, READ = (ToolStarted(call=ToolCall(id="c", name=name, arguments="{}"), title=name) for name in ("shell", "glob"))
ENDED = TurnEnded(turn=1, status="answered")


@dataclass
class Scene:
    """A conversation's turns in a folder, and the events that came out."""

    folder: Path
    kept: KeptTurns
    seen: list[Event] = field(default_factory=list)
    said: list[Event] = field(default_factory=list)

    @property
    def store(self) -> SnapshotStore:
        home = OperatorHome(folder=str(self.folder / "home" / ".odek"), uid=os.getuid(), workspaces=())
        return SnapshotStore(home, project_key(str(self.folder / "project")))

    def start(self, turn: int = 1) -> None:
        self.kept(TurnStarted(turn=turn, text="a  task", files=(), at=""))
        self.kept(RequestStarted(iteration=1))


def scene(
    tmp_path: Path, *, readonly: bool = False, tools: tuple[str, ...] = ("shell",), home: str = "home", **limits: object
) -> Scene:
    """`home` is the name of the operator's in `tmp_path`."""
    for name in ("home", "project"):
        (tmp_path / name).mkdir()
    where = OperatorHome(folder=str(tmp_path / home / ".odek"), uid=os.getuid(), workspaces=())
    host = SimpleNamespace(cwd=str(tmp_path / "project"), cwd_id=None, operator_home=where)
    said: list[Event] = []
    seen: list[Event] = []
    workspace: Any = SimpleNamespace(
        facts=SimpleNamespace(readonly=readonly),
        tools=SimpleNamespace(specs=[SimpleNamespace(name=name) for name in tools]),
        config=SimpleNamespace(settings=SimpleNamespace(snapshots=SimpleNamespace(**{**LIMITS, **limits}))),
        runtime=SimpleNamespace(host=host, emit=said.append, waiting=nullcontext),
        redact=lambda text: text,
    )
    return Scene(tmp_path, KeptTurns(seen.append, lambda: workspace, lambda: None, "key"), seen, said)


def test_the_files_are_kept_when_a_call_that_may_write_goes_on(tmp_path: Path) -> None:
    """R-272, R-278: not before a call that reads; what changed is told before the end of the turn."""
    here = scene(tmp_path)
    file = tmp_path / "project" / "a"
    file.write_text("before")
    here.start()
    here.kept(READ)
    assert not here.store.exists()
    here.kept(CALL)
    with here.store.held(wait_s=1) as held:
        (number,) = held.numbers()
        record = held.record(number)
        assert record is not None
        assert (record.is_open, record.session, record.turn, record.task) == (True, "key", 1, "a task")
        (entry,) = held.load_index()[""].entries.values()
        assert held.get(entry.digest, entry.size) == b"before"
    file.write_text("after\n")
    here.kept(ENDED)
    changed, ended = here.seen[-2:]
    assert isinstance(changed, FilesChanged)
    assert [(each.path, each.change, each.added, each.removed) for each in changed.files] == [("a", "modified", 1, 1)]
    assert (ended, here.said) == (ENDED, [])

    here.start(2)  # a look begins with the turn from now on, and is dropped where nothing may have written
    here.kept(READ)
    here.kept(ENDED)
    with here.store.held(wait_s=1) as held:
        assert held.numbers() == (number,)


@pytest.mark.parametrize(
    "settings", [{"readonly": True}, {"tools": ("read_file", "glob")}, {"enabled": False}], ids=str
)
def test_where_nothing_can_write_nothing_is_kept(settings: dict[str, Any], tmp_path: Path) -> None:
    """R-272, R-276: a read-only folder, tools that read alone, and the switch."""
    here = scene(tmp_path, **settings)
    here.start()
    here.kept(CALL)
    here.kept(ENDED)
    assert not here.store.exists()
    assert [type(event) for event in here.seen] == [TurnStarted, RequestStarted, ToolStarted, TurnEnded]


def test_what_cannot_be_kept_is_said_once_and_ends_nothing(tmp_path: Path) -> None:
    """R-276: the turns go on."""
    here = scene(tmp_path, home="missing")
    for turn in (1, 2):
        here.start(turn)
        here.kept(CALL)
        here.kept(ENDED)
    (warning,) = here.said
    assert isinstance(warning, WarningIssued)
    assert warning.text.startswith("this turn cannot be undone: the home directory ")


def test_what_is_too_large_is_named_with_the_first_look(tmp_path: Path) -> None:
    """R-276: by the first turn in a folder alone."""
    here = scene(tmp_path)
    (tmp_path / "project" / "large").write_bytes(b"x" * (1 << 20) + b"x")
    for turn in (1, 2):
        here.start(turn)
        here.kept(CALL)
        here.kept(ENDED)
    assert [cast("Any", event).text for event in here.said] == ["not kept for odek undo: large (larger than 1 MB)"]


def test_a_cancelled_turn_does_not_wait_for_its_look(tmp_path: Path) -> None:
    """R-272: while another process holds the store, say; the call does not begin, and the turn ends."""
    here = scene(tmp_path)
    token = CancelToken()
    with here.store.held(wait_s=1), use_token(token):
        here.start()
        token.cancel()
        with pytest.raises(Cancelled):
            here.kept(CALL)
    here.kept(ENDED)
    assert here.seen[-1] == ENDED
    with here.store.held(wait_s=1) as held:
        assert held.numbers() == ()
