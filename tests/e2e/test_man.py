"""odek man: with the viewer of the system, with a pager, and without either."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from support.odek_process import Odek
from support.pty_session import Talk
from support.scenario import tools_only


@pytest.mark.parametrize("programs", [("man", "less"), ("less",), ()], ids=lambda names: "+".join(names) or "neither")
def test_manual_is_shown_by_what_there_is(programs: tuple[str, ...], odek: Odek, tmp_path: Path) -> None:
    """R-304: `man` gets the page, a pager the text; where there is neither, or it fails, the text is printed."""
    folder = Path(tools_only(tmp_path / "bin"))
    for name in programs:
        (folder / name).write_text(f'#!/bin/sh\necho "{name} $1 key=$ODEK_API_KEY"; head -n 1 <"$2"\n')
        (folder / name).chmod(0o755)
    if not (folder / "head").exists():
        (folder / "head").symlink_to(shutil.which("head") or "head")
    with Talk(odek, "man", "version", env={"PATH": str(folder), "ODEK_API_KEY": "secret-canary"}) as talk:
        code, seen = talk.end()
    first = {"man": "man -l key=\n.TH ODEK 1", "less": "less -F key=\nNAME"}[programs[0]] if programs else "NAME\n"
    assert (code, seen.startswith(first)) == (0, True), seen
    assert ("EXIT STATUS" in seen) == (not programs)


def test_manual_in_a_pipe_is_text(odek: Odek, tmp_path: Path) -> None:
    """R-304: 80 columns, without overstrikes; a program of the project is not the viewer."""
    (odek.cwd / "man").write_text("#!/bin/sh\ntouch made\n")
    (odek.cwd / "man").chmod(0o755)
    done = odek.run("man", "session", env={"PATH": f"{odek.cwd}:{os.environ['PATH']}"})
    assert (done.code, done.stderr, "\b" in done.stdout, "\x1b" in done.stdout) == (0, "", False, False)
    assert max(map(len, done.stdout.splitlines())) <= 80
    with Talk(odek, "man", "version", env={"PATH": f"{odek.cwd}:{tools_only(tmp_path / 'bin')}"}) as talk:
        code, seen = talk.end()
    assert (code, seen.startswith("NAME"), (odek.cwd / "made").exists()) == (0, True, False)
