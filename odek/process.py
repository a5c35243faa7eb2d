"""Child processes: the only place that imports subprocess.

A child gets its own session (a Ctrl-C at the terminal reaches odek alone), an explicit
environment, and no input but the bytes given to it. Its output is kept as a head and a tail of
bounded size with the true byte count, however much it prints (R-41).
"""

from __future__ import annotations

import errno
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass

from odek.cancel import current_token
from odek.errors import ExecutableMissing, SpawnFailed

READ_CHUNK = 1 << 16
HELPER_LIMIT_BYTES = 8 << 20  # what an `inspect` of many containers may need, with room to spare
# what execve(2) says of the program itself; anything else is the machine's or this process's trouble
_NO_PROGRAM = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ENOEXEC, errno.ELOOP)
_SLICE_S = 0.05  # how often a child that closed no pipe is asked whether it has ended


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What one stream carried: all of it, or its two ends."""

    head: bytes
    tail: bytes
    size_bytes: int

    @property
    def omitted_bytes(self) -> int:
        return self.size_bytes - len(self.head) - len(self.tail)

    @property
    def data(self) -> bytes:
        """head and tail together: the whole stream when nothing was omitted"""
        return self.head + self.tail

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", errors="replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """A child that has ended, or was ended."""

    argv: tuple[str, ...]
    code: int
    """exit status; negative: the signal that ended it"""
    stdout: Output
    stderr: Output
    timed_out: bool


class Capture:
    """Collects a stream in bounded memory: the first and the last `limit_bytes` / 2 of it."""

    def __init__(self, limit_bytes: int) -> None:
        self._side = max(limit_bytes // 2, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self.size_bytes = 0

    def feed(self, chunk: bytes) -> None:
        self.size_bytes += len(chunk)
        room = self._side - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        if len(self._tail) > 4 * self._side + READ_CHUNK:  # trimmed rarely, so that it costs O(1) a byte
            del self._tail[: -self._side]

    def output(self) -> Output:
        return Output(head=bytes(self._head), tail=bytes(self._tail[-self._side :]), size_bytes=self.size_bytes)


class Running:
    """A child at work. `pump` moves bytes; nothing happens between two calls of it."""

    def __init__(
        self,
        argv: tuple[str, ...],
        *,
        env: Mapping[str, str],
        stdin: bytes | Iterator[bytes] | None = None,
        hold_stdin: bool = False,
        cwd: str | None = None,
        limit_bytes: int = HELPER_LIMIT_BYTES,
        on_stdout: Callable[[bytes], None] | None = None,
        on_stderr: Callable[[bytes], None] | None = None,
    ) -> None:
        """Start `argv`.

        `stdin` is written and then closed; None means /dev/null. An iterator is asked for its next piece, which is not
        empty, when the child has taken the one before. With `hold_stdin` the pipe stays
        open until `release` or `supply`. `on_stdout` and `on_stderr` get each chunk instead of the capture.
        Raises ExecutableMissing; SpawnFailed when that is not the program's fault.
        """
        self.argv = argv
        self._stdout = Capture(limit_bytes)
        self._stderr = Capture(limit_bytes)
        self._on_stdout = on_stdout or self._stdout.feed
        self._on_stderr = on_stderr or self._stderr.feed
        self._timed_out = False
        try:
            self._selector = selectors.DefaultSelector()  # first: without a descriptor for it nothing is started
        except OSError as error:
            raise _not_started(argv, error) from error
        try:
            self._child = _spawn(argv, env=env, cwd=cwd, with_pipe=hold_stdin or stdin is not None)
        except ExecutableMissing:
            self._selector.close()
            raise
        # what an iterator raises is raised by `pump`, where a child that was started is looked after
        self._further = None if stdin is None or isinstance(stdin, bytes) else stdin
        self._pending = memoryview(stdin if isinstance(stdin, bytes) else b"")
        self._hold_stdin = hold_stdin
        self._stdin_refused = False
        self._register_pipes()

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def exited(self) -> bool:
        """whether the child itself has ended (a grandchild may still hold its pipes)"""
        return self._child.poll() is not None

    @property
    def finished(self) -> bool:
        """whether the child has ended and nothing more can arrive from it"""
        return not self._readers() and self.exited

    def pump(self, timeout_s: float) -> None:
        """Move what can be moved, waiting at most `timeout_s` (and never long) for the first byte.

        A cancel of this thread's token is raised (cancel.py).
        """
        current_token().raise_if_cancelled()
        if not self._watched():
            self.await_exit(min(max(timeout_s, 0), _SLICE_S))
            return
        for key, _ in self._selector.select(min(max(timeout_s, 0), _SLICE_S)):
            if key.data == "stdin":
                self._write_stdin()
            else:
                self._read(key.fd, key.data)

    def send(self, data: bytes) -> None:
        """Write a few bytes to the held stdin. A child that has ended does not want them."""
        assert self._child.stdin is not None
        try:
            os.write(self._child.stdin.fileno(), data)
        except BrokenPipeError:
            pass

    def supply(self, data: bytes) -> None:
        """Have `data` written to the held stdin, which is then closed, while this child is pumped."""
        assert self._child.stdin is not None
        assert self._hold_stdin
        self._pending = memoryview(data)
        self._hold_stdin = False
        os.set_blocking(self._child.stdin.fileno(), False)
        self._selector.register(self._child.stdin, selectors.EVENT_WRITE, "stdin")

    def release(self) -> None:
        """Close stdin: the child sees the end of its input. What was not written yet is not written any more."""
        self._hold_stdin = False
        self._pending, self._further = memoryview(b""), None
        stdin = self._child.stdin
        if stdin is None or stdin.closed:
            return
        if any(key.fileobj is stdin for key in self._watched()):
            self._selector.unregister(stdin)
        self._close_stdin()

    def kill(self) -> None:
        """End the child and its process group. Safe to call at any time, more than once."""
        if not self.exited:
            try:
                os.killpg(self._child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self._child.wait()

    def close(self) -> None:
        """Kill the child if need be, and let go of its pipes."""
        self.kill()
        self._selector.close()
        for pipe in (self._child.stdin, self._child.stdout, self._child.stderr):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass

    def wait(self, timeout_s: float) -> Completed:
        """Return when the child has finished; kill it when `timeout_s` have passed before."""
        deadline = time.monotonic() + timeout_s
        try:
            while not self.finished:
                left = deadline - time.monotonic()
                if left <= 0:
                    self._timed_out = True
                    break
                self.pump(left)
        finally:
            self.close()
        return self.completed()

    def completed(self) -> Completed:
        """Return what has been collected; the child must have ended."""
        code = self._child.returncode
        return Completed(
            argv=self.argv,
            code=code if code is not None else -signal.SIGKILL,
            stdout=self._stdout.output(),
            stderr=self._stderr.output(),
            timed_out=self._timed_out,
        )

    @property
    def stdout(self) -> Output:
        """what has arrived so far"""
        return self._stdout.output()

    @property
    def stderr(self) -> Output:
        """what has arrived so far, unless `on_stderr` takes it"""
        return self._stderr.output()

    def _register_pipes(self) -> None:
        for pipe, name in ((self._child.stdout, "stdout"), (self._child.stderr, "stderr")):
            assert pipe is not None
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, name)
        if self._child.stdin is None:
            return
        if self._pending or self._further is not None:
            os.set_blocking(self._child.stdin.fileno(), False)
            self._selector.register(self._child.stdin, selectors.EVENT_WRITE, "stdin")
        elif not self._hold_stdin:
            self._close_stdin()

    def _readers(self) -> bool:
        return any(key.data != "stdin" for key in self._watched())

    def _watched(self) -> list[selectors.SelectorKey]:
        """Return the pipes from or to which something may still go; none of a child that was closed."""
        return list((self._selector.get_map() or {}).values())  # None after its close

    def await_exit(self, timeout_s: float) -> None:
        """Wait for the child alone, which is not read from meanwhile; also in a turn that was cancelled."""
        try:
            self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            pass

    def _read(self, descriptor: int, name: str) -> None:
        try:
            chunk = os.read(descriptor, READ_CHUNK)
        except BlockingIOError:
            return
        if not chunk:
            try:
                self._selector.unregister(descriptor)
            except KeyError:  # another thread has seen the end of a shared child as well
                pass
        elif name == "stdout":
            self._take_stdout(descriptor, chunk)
        else:
            self._on_stderr(chunk)

    def _take_stdout(self, descriptor: int, chunk: bytes) -> None:
        del descriptor
        self._on_stdout(chunk)

    def _write_stdin(self) -> None:
        assert self._child.stdin is not None
        try:
            written = os.write(self._child.stdin.fileno(), self._pending[:READ_CHUNK])
            self._pending = self._pending[written:]
        except BlockingIOError:
            return
        except BrokenPipeError:  # the child does not want the rest
            self._pending, self._further = memoryview(b""), None
            self._stdin_refused = True
        if not self._pending and self._further is not None:
            self._pending = memoryview(next(self._further, b""))
        if not self._pending:
            self._selector.unregister(self._child.stdin)
            if not self._hold_stdin:
                self._close_stdin()

    def _close_stdin(self) -> None:
        if self._child.stdin is not None and not self._child.stdin.closed:
            try:
                self._child.stdin.close()
            except BrokenPipeError:
                pass


def run(
    argv: tuple[str, ...],
    *,
    env: Mapping[str, str],
    stdin: bytes | None = None,
    timeout_s: float,
    cwd: str | None = None,
    limit_bytes: int = HELPER_LIMIT_BYTES,
) -> Completed:
    """Run `argv` to its end, or kill it after `timeout_s`. Raises ExecutableMissing."""
    return Running(argv, env=env, stdin=stdin, cwd=cwd, limit_bytes=limit_bytes).wait(timeout_s)


def start_watcher(script: str, *args: str, env: Mapping[str, str]) -> Running | None:
    """Start a shell that reads from a pipe of this process, for what must happen when this process is gone.

    It runs `script` with `args`; the end of its input is the end of this process, however that comes. It has
    a session of its own, so that no key and no closed terminal ends it first. None: it could not be started.
    """
    try:
        return Running(("/bin/sh", "-c", script, "odek-watcher", *args), env=env, hold_stdin=True, cwd="/")
    except ExecutableMissing:
        return None


def start_detached(argv: tuple[str, ...], *, env: Mapping[str, str]) -> None:
    """Start a program that lives on without this process, as a browser; what it prints goes nowhere.

    Raises ExecutableMissing.
    """
    try:
        subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=dict(env),
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        raise _not_started(argv, error) from error


def run_attached(argv: tuple[str, ...], *, env: Mapping[str, str]) -> int:
    """Run `argv` on this process's own terminal or streams and return its exit status.

    For a person at work in a child: it shares the session, so that job control and Ctrl-C are its
    own. Raises ExecutableMissing.
    """
    try:
        with subprocess.Popen(argv, env=dict(env)) as child:
            return child.wait()
    except OSError as error:
        raise _not_started(argv, error) from error


def _spawn(
    argv: tuple[str, ...], *, env: Mapping[str, str], cwd: str | None, with_pipe: bool
) -> subprocess.Popen[bytes]:
    """Start a child in a session of its own; it inherits no descriptor. `with_pipe`: its stdin is one."""
    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.PIPE if with_pipe else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
    except OSError as error:
        raise _not_started(argv, error) from error


def _not_started(argv: tuple[str, ...], error: OSError) -> ExecutableMissing:
    kind = ExecutableMissing if error.errno in _NO_PROGRAM else SpawnFailed
    return kind(f"cannot run {argv[0]}: {error.strerror}")


Pump = Callable[[float], None]
"""`pump` of a child: moves bytes, waiting at most so many seconds"""
Follower = Generator[float, None, bool]
"""yields how long its child may be waited for, in seconds; returns whether the child ended by itself"""

# Between two rounds: long enough to cost nothing while all are silent, short enough for a full pipe
# of each child (64 KiB) to be emptied at 13 MB/s.
_PAUSE_S = 0.005


def wait_all(jobs: Mapping[int, tuple[Pump, Follower]]) -> Iterator[tuple[int, bool]]:
    """Yield the key of each job when its follower is done, with what that returned; one thread serves all children.

    What is waited for differs by place (sandbox, host), so a follower decides it, one step at a time.
    """
    active = dict(jobs)
    while active:
        alone = len(active) == 1
        pause_s = _PAUSE_S
        for key, (pump, follower) in tuple(active.items()):
            try:
                wait_s = next(follower)
            except StopIteration as stop:
                del active[key]
                yield key, stop.value
                continue
            pump(wait_s if alone else 0)
            pause_s = min(pause_s, wait_s)
        if not alone and active:
            pump, _ = next(iter(active.values()))
            pump(pause_s)
