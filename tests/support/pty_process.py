"""The program at a pseudo-terminal: what a person would see, read byte for byte, and keys to press."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import subprocess
import termios
from collections.abc import Mapping
from pathlib import Path

from support.odek_process import Odek, Outcome

PATIENCE_S = 60.0


class AtTerminal:
    """A run of odek whose controlling terminal is ours; stdin is empty, stdout and stderr are pipes."""

    def __init__(
        self, odek: Odek, *arguments: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> None:
        self._master, self._slave = pty.openpty()
        self._seen = b""
        self._process = subprocess.Popen(
            [*odek.argv, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="backslashreplace",
            env=odek.env() | dict(env or {}),
            cwd=cwd or odek.cwd,
            start_new_session=True,
            preexec_fn=self._take_terminal,
        )

    def __enter__(self) -> AtTerminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.communicate(timeout=20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.communicate()
        os.close(self._master)
        os.close(self._slave)

    def read_until(self, end: str) -> str:
        """Return what the terminal shows from where it was read last, up to and including `end`."""
        wanted = end.encode()
        shown = b""
        while not shown.endswith(wanted):
            shown += self._read(1, f"waiting for {end!r} after {shown!r}")
        return shown.decode()

    def type(self, keys: str) -> None:
        """Press keys; "\\x03" is Ctrl-C, "\\x04" the end of input."""
        os.write(self._master, keys.encode())

    def end(self) -> Outcome:
        """Wait for the end of the run."""
        try:
            stdout, stderr = self._process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"odek does not end; the terminal shows {self.rest()!r}") from None
        return Outcome(code=self._process.returncode, stdout=stdout, stderr=stderr)

    @property
    def modes(self) -> list[object]:
        """the settings of the terminal, as `stty -g` shows them"""
        return termios.tcgetattr(self._slave)

    def rest(self) -> str:
        """Return what the terminal shows now and was not read yet."""
        shown = b""
        while select.select([self._master], [], [], 0)[0]:
            shown += os.read(self._master, 4096)
        return shown.decode()

    def _read(self, size: int, what: str) -> bytes:
        waited = 0.0
        while not select.select([self._master], [], [], 0.2)[0]:
            waited += 0.2
            assert waited < PATIENCE_S, what
            if self._process.poll() is not None and not select.select([self._master], [], [], 0)[0]:
                raise AssertionError(f"odek ended, {what}: {self.end()}")
        return os.read(self._master, size)

    def _take_terminal(self) -> None:
        fcntl.ioctl(self._slave, termios.TIOCSCTTY, 0)
