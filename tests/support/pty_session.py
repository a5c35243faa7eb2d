"""odek at a terminal of its own: what is typed, what is seen, how it ends."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Mapping
from types import TracebackType

from support.odek_process import Odek

PATIENCE_S = 40.0
_CONTROLS = re.compile(rb"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")


class Talk:
    """A run of odek whose three streams are a pseudo-terminal, which is its controlling terminal as well."""

    def __init__(self, odek: Odek, *arguments: str, env: Mapping[str, str] | None = None, columns: int = 200) -> None:
        self.raw = b""
        """all that was written to the terminal"""
        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            os.chdir(odek.cwd)
            os.execvpe(odek.argv[0], [*odek.argv, *arguments], odek.env() | {"TERM": "xterm"} | dict(env or {}))
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        self._seen = b""
        self._code: int | None = None

    def __enter__(self) -> Talk:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._code is None:
            os.kill(self.pid, signal.SIGTERM)
            self.close()
            _, status = os.waitpid(self.pid, 0)
            self._code = os.waitstatus_to_exitcode(status)
        self.close()

    def see(self, wanted: str) -> str:
        """Wait until `wanted` is on the terminal; return what was seen up to it, and forget that."""
        deadline = time.monotonic() + PATIENCE_S
        while wanted not in self._text():
            if not self._more(deadline):
                raise AssertionError(f"{wanted!r} was not seen in {self._text()!r}")
        seen, _, _ = self._text().partition(wanted)
        self._seen = self._text()[len(seen) + len(wanted) :].encode()
        return seen

    def type(self, keys: str | bytes) -> None:
        """Press keys: "\\r" is Enter, "\\x03" Ctrl-C, "\\x04" Ctrl-D."""
        os.write(self._terminal, keys.encode() if isinstance(keys, str) else keys)

    def say(self, entry: str) -> None:
        self.type(entry + "\r")

    def end(self) -> tuple[int, str]:
        """Wait for the end; return the exit code and what was seen since the last `see`."""
        deadline = time.monotonic() + PATIENCE_S
        while self._more(deadline):
            pass
        if time.monotonic() >= deadline:
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        self._code = os.waitstatus_to_exitcode(status)
        return self._code, self._text()

    def resize(self, columns: int) -> None:
        """Make the window `columns` wide."""
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))

    @property
    def echoes(self) -> bool:
        """whether the terminal shows what is typed"""
        modes = termios.tcgetattr(self._terminal)[3]
        return bool(modes & termios.ECHO)

    def close(self) -> None:
        """Close the terminal, as a window is closed."""
        if self._terminal >= 0:
            os.close(self._terminal)
            self._terminal = -1

    def _text(self) -> str:
        return _CONTROLS.sub(b"", self._seen).decode("utf-8", errors="replace").replace("\r\n", "\n")

    def _more(self, deadline: float) -> bool:
        """Read what comes next; False at the end, and when nothing comes in time."""
        if self._terminal < 0 or not select.select([self._terminal], [], [], max(deadline - time.monotonic(), 0))[0]:
            return False
        try:
            data = os.read(self._terminal, 4096)
        except OSError:  # the other side is gone
            return False
        self._seen += data
        self.raw += data
        return bool(data)
