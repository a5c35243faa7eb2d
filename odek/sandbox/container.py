"""A running sandbox: commands and file accesses in it, and its end.

Satisfies executor.Executor. Commands and file contents travel on stdin; nothing of theirs is in an
argument. What a command may hold back is its output beyond the cap, never its exit status.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable

from odek.errors import ExecutableMissing, FileRefused, Interrupted
from odek.process import CommandResult, Completed
from odek.sandbox import scripts
from odek.sandbox.argv import exec_argv, inspect_argv, remove_argv
from odek.sandbox.docker import CALL_TIMEOUT_S, Docker, Pending, call, quote
from odek.sandbox.errors import SandboxLost
from odek.sandbox.facts import ContainerFacts
from odek.sandbox.paths import attachment_path, relative_path
from odek.sandbox.spec import ATTACHMENTS, WORKSPACE, SandboxSpec
from odek.text import visible

OUTPUT_LIMIT_BYTES = 1 << 18  # far more than a model is shown; the rest is counted, not kept
FILE_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 3.0
_QUIET_S = 0.15  # silence after the end of a command that counts as the end of its output
_LATE_OUTPUT_S = 2.0  # what the engine itself waits for output of background children
_STOPPED_S = 2.0
_MARKER_TAIL_BYTES = 4096
_KNOWN_MARKS = 1000  # calls whose servers are told from forgeries; their marks make one argument

_HELD = (
    "the output was still held open after the command had ended, probably by a background process; "
    "what it prints later is lost unless it is redirected to a file"
)
_REFUSALS = {
    scripts.LEFT_WORKSPACE: "it leaves the workspace",
    scripts.MISSING: "there is no such file",
    scripts.LOOP: "its links go round in circles",
    scripts.NO_FOLDER: "a folder on the way cannot be made",
    scripts.NOT_A_FILE: "it is not a regular file",
    scripts.NOT_WRITABLE: "it cannot be written",
    scripts.CHANGED: "it has changed since it was read",
}


class Container:
    """The box of one session."""

    workspace = WORKSPACE

    def __init__(
        self,
        docker: Docker,
        spec: SandboxSpec,
        facts: ContainerFacts,
        *,
        lease: Pending,
        new_nonce: Callable[[], str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.facts = facts
        self._docker = docker
        self._spec = spec
        self._lease = lease
        self._new_nonce = new_nonce
        self._clock = clock
        self._closed = False
        self._marks: list[str] = []
        self._prelude = _exports((*spec.env, ("HOME", facts.home)) if _home_moved(spec, facts) else spec.env)

    def run(self, command: str, *, timeout_s: float) -> CommandResult:
        """Run `command` with `sh` in /workspace.

        Stops its whole process tree when `timeout_s` have passed, or on Interrupted, which is then
        raised again. Raises SandboxLost when the container is gone or cannot stop the command.
        """
        self._require_alive()
        mark = self._new_nonce()
        self._marks.append(mark)
        end = _EndMarker(mark)
        started = self._clock()
        pending = self._docker.start(
            *self._exec(scripts.COMMAND, (mark, f"{self._spec.umask:04o}"), call=mark),
            stdin=(self._prelude + command).encode("utf-8", "surrogateescape"),
            limit_bytes=OUTPUT_LIMIT_BYTES,
            on_stderr=end.feed,
        )
        notes: tuple[str, ...] = ()
        try:
            ended = _pump_until(pending, end, started + timeout_s, self._clock)
            if not ended:
                notes = (self._stop(end, pending),)
            elif not pending.finished and "&" in command:
                notes = (_HELD,)
        except Interrupted:
            try:
                self._stop(end, pending)
            except SandboxLost:  # then nothing of it is left at all; the interrupt is still the news
                pass
            raise
        finally:
            pending.close()
        done = pending.completed()
        if ended and end.status is None:
            self._require_running(done)
        return CommandResult(
            output=done.stdout,
            code=(done.code if end.status is None else end.status) if ended else None,
            timed_out=not ended,
            duration_s=self._clock() - started,
            notes=notes,
        )

    def read(self, path: str, *, limit_bytes: int) -> bytes:
        """Return the bytes of a file of the workspace; see executor.Executor."""
        limit = str(limit_bytes + 1)
        attached = attachment_path(path) if self._spec.attachments else None
        arguments = (relative_path(path), limit) if attached is None else (attached, limit, ATTACHMENTS)
        done = self._file_call(scripts.READ, arguments, b"", limit_bytes)
        if done.code != 0:
            raise self._refusal(path, "read", done)
        if done.stdout.size_bytes > limit_bytes:
            raise FileRefused(f'cannot read "{visible(path)}": it is larger than {limit_bytes} bytes')
        return done.stdout.data

    def write(self, path: str, data: bytes, *, replacing: bytes | None) -> None:
        """Put `data` into a file of the workspace; see executor.Executor."""
        relative = relative_path(path)
        expected = "" if replacing is None else hashlib.sha256(replacing).hexdigest()
        temporary = f".odek-{self._new_nonce()}.tmp"
        arguments = (relative, f"{self._spec.umask:04o}", temporary, expected)
        done = self._file_call(scripts.WRITE, arguments, data, 0)
        if done.code != 0:
            raise self._refusal(path, "write", done)

    def attach(self, name: str, data: bytes) -> None:
        """Put a file into the folder of attached files, which the spec must have asked for (D-3).

        Nothing of it touches the host. Raises FileRefused.
        """
        done = self._file_call(scripts.ATTACH, (ATTACHMENTS, name, f"{self._spec.umask:04o}"), data, 0)
        if done.code != 0:
            raise self._refusal(f"{ATTACHMENTS}/{name}", "write", done)

    def close(self) -> str:
        """End the container. Return "" or a sentence about what was left behind. Never raises an
        ordinary error; may be called again."""
        if self._closed:
            return ""
        self._closed = True
        self._lease.release()
        deadline = self._clock() + CLOSE_TIMEOUT_S
        while not self._lease.exited and self._clock() < deadline:
            self._lease.pump(CLOSE_TIMEOUT_S)
        gone = self._lease.exited
        self._lease.close()
        if gone:
            return ""
        try:
            removed = call(self._docker, *remove_argv(self.facts.id), timeout_s=STOP_TIMEOUT_S)
            if removed.code == 0:
                return ""
        except ExecutableMissing:
            pass
        return f"container {self.facts.name} may still exist; remove it with `docker rm -f {self.facts.name}`"

    def _exec(self, script: str, args: tuple[str, ...], *, call: str = "") -> tuple[str, ...]:
        return exec_argv(self.facts.id, user=self._spec.user, script=script, args=args, call=call)

    def _file_call(self, script: str, args: tuple[str, ...], data: bytes, limit_bytes: int) -> Completed:
        self._require_alive()
        pending = self._docker.start(
            *self._exec(script, args), stdin=data, limit_bytes=2 * (limit_bytes + 1) + (1 << 16)
        )
        return pending.wait(FILE_TIMEOUT_S)

    def _refusal(self, path: str, doing: str, done: Completed) -> FileRefused:
        reason = _REFUSALS.get(done.code)
        if reason is None:
            self._require_running(done)
            words = quote(done).replace("\n", "; ")
            reason = "the container took too long" if done.timed_out else words or f"status {done.code}"
        elif done.code == scripts.NOT_WRITABLE and self._spec.readonly:
            reason = "the workspace is mounted read-only"
        return FileRefused(f'cannot {doing} "{visible(path)}": {reason}')

    def _stop(self, end: _EndMarker, pending: Pending) -> str:
        """Stop every process of the call; return what was done. Raises SandboxLost if that failed."""
        others = " ".join(mark for mark in self._marks[-_KNOWN_MARKS:] if mark != end.mark)
        stopped = self._call_beside(pending, self._exec(scripts.STOP, (end.mark, others, end.started)))
        if stopped.code not in (0, scripts.STOPPED_ALL):
            stopped = self._call_beside(pending, self._exec(scripts.STOP_ALL, ()))
        if stopped.code not in (0, scripts.STOPPED_ALL):
            self.close()
            raise SandboxLost(
                "a command could not be stopped, so the whole sandbox was taken down",
                hint="start again; what the command had written is in the working directory",
                detail=quote(stopped),
            )
        deadline = self._clock() + _STOPPED_S
        while not pending.finished and self._clock() < deadline:
            pending.pump(_STOPPED_S)
        if stopped.code == 0:
            return "the command and everything it had started was stopped"
        return "the command was stopped, and with it everything else that was running in the sandbox"

    def _call_beside(self, pending: Pending, argv: tuple[str, ...]) -> Completed:
        """Run a docker call while the output of `pending` is taken off its hands: an engine whose
        streams are stuck does not start another command in the container."""
        calling = self._docker.start(*argv)
        try:
            deadline = self._clock() + STOP_TIMEOUT_S
            while not calling.finished and self._clock() < deadline:
                pending.pump(0)
                calling.pump(0.01)
            return calling.wait(0.05)
        finally:
            calling.close()

    def _require_alive(self) -> None:
        if not self._closed:
            self._lease.pump(0)
            if not self._lease.exited:
                return
        raise _lost("its container is gone")

    def _require_running(self, done: Completed) -> None:
        """A client that ended without the wrapper's word: the command's doing, or the container's end?"""
        self._require_alive()
        state = call(self._docker, *inspect_argv(self.facts.id), timeout_s=CALL_TIMEOUT_S)
        if state.code != 0 or not _shows_running(state.stdout.data):
            raise _lost(quote(done) or "its container is gone")


class _EndMarker:
    """Watches the wrapper's stderr for its two lines: that the command begins, and that it has ended."""

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self.started = ""
        """when the wrapper started, in the clock ticks of the container's machine; "" until it has"""
        self.status: int | None = None
        self._began = re.compile(rf"(?:^|\n){re.escape(mark)} began ([0-9]{{1,20}})\n".encode())
        self._ended = re.compile(rf"(?:^|\n){re.escape(mark)} ([0-9]{{1,3}})\n".encode())
        self._seen = b""

    def feed(self, chunk: bytes) -> None:
        self._seen = (self._seen + chunk)[-_MARKER_TAIL_BYTES:]
        began, ended = self._began.search(self._seen), self._ended.search(self._seen)
        if began and not self.started:
            self.started = began.group(1).decode()
        if ended:
            self.status = int(ended.group(1))


def _pump_until(pending: Pending, end: _EndMarker, deadline: float, clock: Callable[[], float]) -> bool:
    """Return whether the command ended by itself before `deadline`.

    After its end, output that is still on its way is waited for, but not for what a background
    child may print later.
    """
    while end.status is None:
        if pending.finished:
            return True
        left = deadline - clock()
        if left <= 0:
            return False
        pending.pump(left)
    last_change = clock()
    latest = last_change + _LATE_OUTPUT_S
    size = pending.stdout.size_bytes
    while not pending.finished:
        now = clock()
        if now - last_change >= _QUIET_S or now >= latest:
            break
        pending.pump(_QUIET_S)
        if pending.stdout.size_bytes != size:
            size, last_change = pending.stdout.size_bytes, clock()
    return True


def _shows_running(inspected: bytes) -> bool:
    try:
        return json.loads(inspected)[0]["State"]["Running"] is True
    except (ValueError, TypeError, LookupError, RecursionError):
        return False


def _exports(pairs: tuple[tuple[str, str], ...]) -> str:
    """Return shell text that exports `pairs` byte for byte; it precedes the command on stdin."""
    return "".join("export {}='{}'\n".format(name, value.replace("'", "'\\''")) for name, value in pairs)


def _home_moved(spec: SandboxSpec, facts: ContainerFacts) -> bool:
    return facts.home != spec.home


def _lost(why: str) -> SandboxLost:
    return SandboxLost(
        f"the sandbox was lost: {why}",
        hint="nothing was moved to the host; start odek again",
    )
