"""Files from outside that were given with earlier turns of a session (R-43, D-3)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fakes.layering import make_host
from fakes.sessions import NOON_TEXT, user

from odek.app.attachments import read_ctx_files
from odek.app.stored_sessions import earlier_files, given_files
from odek.host import Host
from odek.model.types import Usage
from odek.session.transcript import Entry, GivenFile, Header, State, Transcript


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return make_host(Path(os.path.realpath(tmp_path)), uid=os.getuid())


def never(text: str) -> None:
    raise AssertionError(text)


def kept(*turns: tuple[GivenFile, ...], sandbox: bool = True) -> Transcript:
    return Transcript(
        header=Header(id="s", created_at=NOON_TEXT, task="x", sandbox=sandbox),
        state=State(updated_at=NOON_TEXT, turns=len(turns), model="m", cwd="/", usage=Usage()),
        system="",
        entries=tuple(Entry(message=user("x"), starts_turn=True, files=files) for files in turns),
    )


def beside(host: Host, name: str, text: str) -> str:
    path = Path(host.cwd).parent / "home" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return str(path)


def given(host: Host, *paths: str) -> tuple[GivenFile, ...]:
    return given_files(read_ctx_files(paths, cwd=host.cwd, home=host.home))


def test_what_lies_in_the_working_directory_is_not_kept(host: Host) -> None:
    (Path(host.cwd) / "in").write_text("x")
    out = beside(host, "out", "x")
    digest = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
    assert given(host, "in", out) == (GivenFile(path=out, sha256=digest),)


def test_files_that_are_what_they_were_come_back_and_the_others_are_told(host: Host) -> None:
    """D-3: never a file with another content under a name that the model knows."""
    same, changed, gone = (beside(host, name, "x") for name in ("same", "changed", "gone"))
    transcript = kept(given(host, same, changed), given(host, gone))
    Path(changed).write_text("y")
    Path(gone).unlink()
    warnings: list[str] = []
    files, missing = earlier_files(transcript, (), host, warn=warnings.append)
    assert [(file.path, file.data) for file in files] == [(same, b"x")]
    assert missing == ("/ctx/changed", "/ctx/gone")
    assert warnings == [
        f'"{path}", given with an earlier turn, is gone or has changed: the sandbox lacks it now'
        for path in (changed, gone)
    ]


def test_last_file_of_a_name_is_the_one(host: Host) -> None:
    """As it was when it was given last; one that is given now takes its place without a word."""
    path = beside(host, "notes", "old")
    first = given(host, path)
    Path(path).write_text("new")
    transcript = kept(first, given(host, path))
    assert earlier_files(kept(first), (), host, warn=lambda _: None) == ((), ("/ctx/notes",))
    assert [file.data for file in earlier_files(transcript, (), host, warn=never)[0]] == [b"new"]
    now = read_ctx_files((path,), cwd=host.cwd, home=host.home)
    assert earlier_files(kept(first), now, host, warn=never) == ((), ())


def test_session_of_the_host_needs_none(host: Host) -> None:
    """Without a sandbox the model was told the real path."""
    transcript = kept((GivenFile(path="/nowhere", sha256=""),), sandbox=False)
    assert earlier_files(transcript, (), host, warn=never) == ((), ())
