"""Every command of odek at once, each at a terminal of its own, or with its output in a pipe."""

from __future__ import annotations

import fcntl
import importlib
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping
from pathlib import Path

from support.odek_process import Odek
from support.recordings import write_recording
from support.scenario import tools_only

from odek.cli.main import COMMANDS
from odek.cli.subcommands import Subcommand

PATIENCE_S = 60.0
COLOR = re.compile(r"\x1b\[[0-9;]*m")
# what a line editor and the line that shows a wait move the cursor with
CONTROL = re.compile(r"\x1b\[\?2004[hl]|\x1b\[K|\x1b\[[0-9;]*m")

_PROMPT = re.compile(r"^odek \d+> ")
_ONE_PIECE = re.compile(r" *(?:\S+  +)?(?:[^ ]+|[\"'#].*)(?: \\\\)?")

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

    def __init__(
        self, odek: Odek, env: Mapping[str, str], flags: tuple[str, ...], recording: str, columns: int
    ) -> None:
        """`columns` of each terminal; 0: stdout and stderr are a pipe."""
        self._readers: dict[int, tuple[str, ...]] = {}
        self.shown: dict[tuple[str, ...], str] = {}
        self._processes = []
        self._others: list[int] = []
        for line in LINES:
            arguments = [*line, *flags]
            if line[0] in ("run", "continue", "repl"):
                arguments[1:1] = ["--base-url", recording]
            self._start(odek, arguments, line, env, columns)
        self._read_all()

    def _start(
        self, odek: Odek, arguments: list[str], line: tuple[str, ...], env: Mapping[str, str], columns: int
    ) -> None:
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        reader, output = (master, slave) if columns else os.pipe()
        self._processes.append(
            subprocess.Popen(
                [*odek.argv, *arguments],
                stdin=slave,
                stdout=output,
                stderr=output,
                cwd=odek.cwd,
                env=odek.env() | dict(env),
                start_new_session=True,
                preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            )
        )
        os.close(slave)
        if output != slave:
            os.close(output)
            self._others.append(master)
        os.write(master, b"/exit\r\x04")
        self._readers[reader] = line

    def _read_all(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        data = dict.fromkeys(self._readers, b"")
        open_ones = set(data)
        while open_ones:
            assert time.monotonic() < deadline, [self._readers[reader] for reader in open_ones]
            for reader in select.select(list(open_ones), [], [], 1)[0]:
                try:
                    more = os.read(reader, 65536)
                except OSError:  # the other side is closed
                    more = b""
                data[reader] += more
                if not more:
                    open_ones.discard(reader)
        for process in self._processes:
            process.wait(PATIENCE_S)
        for reader, line in self._readers.items():
            self.shown[line] = data[reader].decode()
        for descriptor in (*self._readers, *self._others):
            os.close(descriptor)


def at_terminals(
    odek: Odek, tmp_path: Path, *, env: Mapping[str, str], flags: tuple[str, ...] = (), columns: int = 80
) -> AllAtTerminals:
    """Run every line without a docker client to be found."""
    recording = write_recording(tmp_path / "recording", answer="said")
    assert odek.run("run", "--no-sandbox", "--base-url", recording, "first").code == 0  # one session to list
    path = tools_only(tmp_path / "bin")
    return AllAtTerminals(odek, {"PATH": path, "TERM": "xterm-256color", **env}, flags, recording, columns)


def too_wide(text: str, columns: int) -> list[str]:
    """Return the lines of a terminal that a break at a blank would have made fit, controls taken out.

    One word behind a label and two blanks, or what is in quotes, as in an example, cannot be broken.
    """
    rows = [row.rpartition("\r")[2].rstrip() for row in CONTROL.sub("", text).replace("\r\n", "\n").split("\n")]
    rows = [_PROMPT.sub("", row) for row in rows]  # what was typed ahead of it has ended no line behind it
    return [row for row in rows if len(row) > columns and not _ONE_PIECE.fullmatch(row)]
