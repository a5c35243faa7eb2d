"""Long-lived children that are talked to line by line, such as servers on their stdin and stdout (R-109).

Memory is bounded: output stays in the pipe while lines wait to be received, and of stderr the end is kept. A
cancel of the thread's token is raised from every wait.
"""

from __future__ import annotations

import os
import selectors
import signal
import time
from collections.abc import Callable, Mapping

from odek.process import Running

LINE_LIMIT_BYTES = 16 << 20
STDERR_TAIL_BYTES = 64 << 10


class LineTooLong(Exception):
    """A child printed more than `Piped` takes for one line."""


class Piped(Running):
    """A child process with lines in both directions; used by one thread at a time."""

    def __init__(
        self,
        argv: tuple[str, ...],
        *,
        env: Mapping[str, str],
        cwd: str | None = None,
        line_limit_bytes: int = LINE_LIMIT_BYTES,
        on_stderr: Callable[[bytes], None] | None = None,
    ) -> None:
        """Start `argv` as Running does. `on_stderr` gets each chunk of stderr instead of `stderr_tail`."""
        self._received = bytearray()
        self._scanned = 0  # bytes of `_received` that hold no line end
        self._limit_bytes = line_limit_bytes
        self._paused: int | None = None  # descriptor of a stdout that is not read at present
        self._discards = False
        self._stderr_tail = bytearray()
        super().__init__(argv, env=env, hold_stdin=True, cwd=cwd, limit_bytes=0, on_stderr=on_stderr or self._keep_tail)
        assert self._child.stdin is not None
        os.set_blocking(self._child.stdin.fileno(), False)

    @property
    def stderr_tail(self) -> bytes:
        """the end of what has arrived on stderr"""
        return bytes(self._stderr_tail[-STDERR_TAIL_BYTES:])

    @property
    def exited(self) -> bool:
        """whether the child has ended; it stays a zombie until `kill`, so that its group keeps its number"""
        if self._child.returncode is not None or not hasattr(os, "waitid"):
            return super().exited
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    @property
    def finished(self) -> bool:
        return self._paused is None and super().finished

    def send_line(self, line: bytes, *, timeout_s: float) -> None:
        """Write `line` and a line end. Raises BrokenPipeError, and TimeoutError for a child that does not read.

        A line that was not written whole is the last one: stdin is closed then.
        """
        assert self._child.stdin is not None
        if not self._hold_stdin or self._stdin_refused or self._child.stdin.closed:
            raise BrokenPipeError("the child takes no more input")
        self._pending = memoryview(line + b"\n")
        self._selector.register(self._child.stdin, selectors.EVENT_WRITE, "stdin")
        try:
            self._pump_until(lambda: not self._pending, timeout_s)
        finally:
            if self._pending:
                self.release()
        if self._stdin_refused:
            raise BrokenPipeError("the child takes no more input")

    def receive_line(self, *, timeout_s: float) -> bytes | None:
        """Return the next line without its end; None at the end of the output.

        Raises TimeoutError, and LineTooLong, after which nothing can be received any more.
        """
        self._pump_until(lambda: self._has_line() or not self._reads_stdout(), timeout_s)
        end = self._received.find(b"\n", self._scanned)
        if end < 0 and self._paused is not None:
            raise LineTooLong(f"more than {self._limit_bytes} bytes without a line end")
        if end < 0 and not self._received:
            return None
        line = bytes(self._received[: end if end >= 0 else len(self._received)])
        del self._received[: len(line) + 1]
        self._scanned = 0
        if len(self._received) < self._limit_bytes:
            self._go_on_reading()
        return line

    def end(self, *, patience_s: float = 2.0) -> int:
        """End the child and its group: close its stdin, then TERM, then KILL, each after `patience_s`.

        Returns its exit status, negative for the signal that ended it.
        """
        try:
            if not self.drain(patience_s):
                self._signal_group(signal.SIGTERM)
                self.drain(patience_s)
        finally:
            self.close()
        return self._child.returncode

    def drain(self, patience_s: float) -> bool:
        """Close the stdin of the child and drop its output; return whether it ends within `patience_s`."""
        self._discards = True
        self._go_on_reading()
        self.release()
        try:
            self._pump_until(lambda: self.exited, patience_s)
        except TimeoutError:
            return False
        return True

    def kill(self) -> None:
        if self._child.returncode is None:
            self._signal_group(signal.SIGKILL)  # also of a child that has ended: what it started may be left
            self._child.wait()

    def _signal_group(self, number: signal.Signals) -> None:
        try:
            os.killpg(self.pid, number)
        except (ProcessLookupError, PermissionError):
            pass

    def _pump_until(self, condition: Callable[[], bool], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not condition():
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self.pump(left)

    def await_exit(self, timeout_s: float) -> None:
        """Wait `timeout_s`; the exit status stays unread, so that the group can still be signalled."""
        time.sleep(timeout_s)  # there is nothing to read; `wait` would take the zombie away

    def _reads_stdout(self) -> bool:
        return any(key.data == "stdout" for key in self._watched())

    def _has_line(self) -> bool:
        found = self._received.find(b"\n", self._scanned) >= 0
        if not found:
            self._scanned = len(self._received)
        return found

    def _take_stdout(self, descriptor: int, chunk: bytes) -> None:
        if self._discards:
            return
        self._received += chunk
        if len(self._received) >= self._limit_bytes:
            self._selector.unregister(descriptor)
            self._paused = descriptor

    def _go_on_reading(self) -> None:
        if self._paused is not None:
            self._selector.register(self._paused, selectors.EVENT_READ, "stdout")
            self._paused = None

    def _keep_tail(self, chunk: bytes) -> None:
        self._stderr_tail += chunk
        if len(self._stderr_tail) > 2 * STDERR_TAIL_BYTES:
            del self._stderr_tail[:-STDERR_TAIL_BYTES]
