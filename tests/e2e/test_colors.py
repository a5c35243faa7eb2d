"""Every command at a terminal with colours, and with each way to say that there shall be none."""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import pty
import re
import select
import subprocess
import termios
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.odek_process import Odek
from support.recordings import write_recording
from support.scenario import tools_only

from odek.cli.main import COMMANDS
from odek.cli.subcommands import Subcommand

PATIENCE_S = 60.0
COLOR = re.compile(r"\x1b\[[0-9;]*m")
# what a line editor and the line that shows a wait move the cursor with
CONTROL = re.compile(r"\x1b\[\?2004[hl]|\x1b\[K|\x1b\[[0-9;]*m")

ACTIONS: dict[str, Mapping[str, Subcommand]] = {
    name: found
    for name, (module, _) in COMMANDS.items()
    if (found := getattr(importlib.import_module(module), "ACTIONS", {}))
}
ARGUMENTS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("run",): ("--no-sandbox", "say it"),
    ("continue",): ("once more",),
    ("repl",): ("--no-sandbox",),
    ("completion",): ("bash",),
    ("danger", "explain"): ("rm -rf /",),
    ("setup",): ("--check",),  # it would ask
}
LINES = (
    *((name, *ARGUMENTS.get((name,), ())) for name in COMMANDS if name not in ACTIONS),
    *(
        (name, *words.split(), *ARGUMENTS.get((name, words), ()))
        for name, actions in ACTIONS.items()
        for words in actions
    ),
    ("no-such-command",),
    ("sandbox", "no-such-action"),
)
"""a line of every command and action that ends soon and needs no engine: those of the sandbox find no client"""
COLORED = (("run", "--no-sandbox", "say it"), ("models",), ("sandbox", "doctor"), ("selftest",), ("demo",))


class AllAtTerminals:
    """Command lines that run at the same time, each with its three streams on a terminal of its own."""

    def __init__(self, odek: Odek, env: Mapping[str, str], flags: tuple[str, ...], recording: str) -> None:
        self._masters: dict[int, tuple[str, ...]] = {}
        self.shown: dict[tuple[str, ...], str] = {}
        self._processes = []
        for line in LINES:
            master, slave = pty.openpty()
            arguments = [*line, *flags]
            if line[0] in ("run", "continue", "repl"):
                arguments[1:1] = ["--base-url", recording]
            process = subprocess.Popen(
                [*odek.argv, *arguments],
                stdin=slave, stdout=slave, stderr=slave, cwd=odek.cwd, env=odek.env() | dict(env),
                start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            )  # fmt: skip
            os.close(slave)
            os.write(master, b"/exit\r\x04")
            self._processes.append(process)
            self._masters[master] = line
            self.shown[line] = ""
        self._read_all()

    def _read_all(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        data = dict.fromkeys(self._masters, b"")
        open_ones = set(data)
        while open_ones:
            assert time.monotonic() < deadline, [self._masters[master] for master in open_ones]
            for master in select.select(list(open_ones), [], [], 1)[0]:
                try:
                    more = os.read(master, 65536)
                except OSError:  # the other side is closed
                    more = b""
                data[master] += more
                if not more:
                    open_ones.discard(master)
        for process in self._processes:
            process.wait(PATIENCE_S)
        for master, line in self._masters.items():
            self.shown[line] = data[master].decode()
            os.close(master)


def at_terminals(odek: Odek, tmp_path: Path, *, env: Mapping[str, str], flags: tuple[str, ...] = ()) -> AllAtTerminals:
    """Run every line without a docker client to be found."""
    recording = write_recording(tmp_path / "recording", answer="said")
    assert odek.run("run", "--no-sandbox", "--base-url", recording, "first").code == 0  # one session to list
    return AllAtTerminals(
        odek, {"PATH": tools_only(tmp_path / "bin"), "TERM": "xterm-256color", **env}, flags, recording
    )


def test_no_command_shows_an_escape_that_was_meant_as_a_colour(odek: Odek, tmp_path: Path) -> None:
    """V1, C1: colours are seen as colours, nothing else moves the cursor, and no escape is spelled out."""
    seen = at_terminals(odek, tmp_path, env={})
    spelled = {line: text for line, text in seen.shown.items() if "\\x1b" in text or "\\033" in text}
    moved = {line: text for line, text in seen.shown.items() if "\x1b" in CONTROL.sub("", text)}
    assert (spelled, moved) == ({}, {})
    unknown = [line for line, text in seen.shown.items() if "unknown command" in text or "is not an action" in text]
    assert unknown == [("no-such-command",), ("sandbox", "no-such-action")]
    assert [line for line in COLORED if not COLOR.search(seen.shown[line])] == []


@pytest.mark.parametrize("way", ["flag", "variable", "file"])
def test_no_color_holds_in_every_command(odek: Odek, tmp_path: Path, way: str) -> None:
    """V2, C2: said by the flag, by the variable, or by the settings file; also in errors of a command line."""
    env = {"ODEK_NO_COLOR": "1"} if way == "variable" else {}
    if way == "file":
        settings = odek.home / ".odek" / "config.json"
        settings.parent.mkdir(mode=0o700)
        settings.write_text(json.dumps({"no_color": True}))
        settings.chmod(0o600)
    seen = at_terminals(odek, tmp_path, env=env, flags=("--no-color",) if way == "flag" else ())
    assert "odek: " in seen.shown["sandbox", "verify"]  # it did run
    assert {line: text for line, text in seen.shown.items() if COLOR.search(text) or "\\x1b" in text} == {}
