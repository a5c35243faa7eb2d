"""`--open`: a browser is led to the URL, and its token is in no argument."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.layering import bare_host

from odek.errors import ExecutableMissing
from odek.host import Host
from odek.web.opener import Opener

TOKEN = "7" * 64
URL = f"http://127.0.0.1:41277/#token={TOKEN}"


class Setting:
    def __init__(self, tmp_path: Path, *, program: str = "xdg-open", fails: bool = False, wait_s: float = 3600) -> None:
        home, project, programs = (tmp_path / name for name in ("home", "project", "bin"))
        for folder in (home, project, programs):
            folder.mkdir(mode=0o700)
        if program:
            (programs / program).write_text("#!/bin/sh\n")
            (programs / program).chmod(0o755)
        self.folder = home / ".odek" / "serve"
        self.started: list[tuple[tuple[str, ...], Mapping[str, str]]] = []
        self.notes: list[str] = []
        self.noted = threading.Event()
        self.fails = fails
        self.programs = programs
        env = {"PATH": f"{project}:.:{programs}", "HOME": str(home), "DISPLAY": ":0", "OPENAI_API_KEY": "secret"}
        self.host: Host = replace(bare_host(str(project)), home=str(home), env=env)
        self.opener = Opener(
            self.host, random_hex=lambda size: "ab" * size, clock=lambda: 1e12, note=self.note, start=self.start,
            wait_s=wait_s,
        )  # fmt: skip

    def start(self, argv: tuple[str, ...], *, env: Mapping[str, str]) -> None:
        if self.fails:
            raise ExecutableMissing("cannot run it")
        self.started.append((argv, env))

    def note(self, text: str) -> None:
        self.notes.append(text)
        self.noted.set()

    def files(self) -> list[str]:
        return sorted(os.listdir(self.folder)) if self.folder.exists() else []


def test_browser_gets_a_private_file_that_leads_to_the_url(tmp_path: Path) -> None:
    """R-125: its program by an absolute path that is not the project's; the token in no argument and no variable."""
    setting = Setting(tmp_path)
    (tmp_path / "project" / "xdg-open").write_text("#!/bin/sh\n")
    (tmp_path / "project" / "xdg-open").chmod(0o755)
    setting.opener.open(URL)
    (((program, path), env),) = setting.started
    assert program == str(setting.programs / "xdg-open")
    assert TOKEN not in path + "".join(env.values())
    assert env == {"PATH": str(setting.programs), "HOME": setting.host.home, "DISPLAY": ":0"}
    assert Path(path).read_text().count(URL) == 2
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    setting.opener.done()
    assert setting.files() == []
    assert setting.notes == []


@pytest.mark.parametrize("setting", [{"program": ""}, {"fails": True}])
def test_browser_that_cannot_be_had_is_a_note(tmp_path: Path, setting: dict[str, object]) -> None:
    """R-125."""
    made = Setting(tmp_path, **setting)  # type: ignore[arg-type]
    made.opener.open(URL)
    assert [note.partition(":")[0] for note in made.notes] == ["no browser was opened"]
    assert made.files() == []


def test_file_is_gone_after_a_minute_without_a_login(tmp_path: Path) -> None:
    """R-125."""
    setting = Setting(tmp_path, wait_s=0.01)
    setting.opener.open(URL)
    assert setting.noted.wait(20)
    assert setting.notes == ["no browser has come within a minute; open the URL yourself"]
    assert setting.files() == []


def test_what_killed_servers_have_left_is_removed(tmp_path: Path) -> None:
    setting = Setting(tmp_path)
    setting.folder.mkdir(parents=True, mode=0o700)
    (setting.folder / "old.html").write_text("x")
    (setting.folder / "notes.txt").write_text("x")
    setting.opener.open(URL)
    assert setting.files() == [f"{'ab' * 16}.html", "notes.txt"]


def test_link_in_the_place_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    """The token is written into no folder of another user's choice."""
    setting = Setting(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    setting.folder.parent.mkdir(mode=0o700)
    setting.folder.symlink_to(elsewhere)
    setting.opener.open(URL)
    assert (list(elsewhere.iterdir()), setting.started) == ([], [])
    assert "is a link or no folder" in setting.notes[0]
