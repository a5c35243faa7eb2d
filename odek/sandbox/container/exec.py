"""Commands at work in the container: how they are started, followed and stopped.

They travel on stdin, marked by their environment, and end with everything they started when their
time is up or the turn is interrupted (R-40). Output beyond the cap may be held back, the exit status never.
The wrapper's stderr (scripts.RUN) carries lines of ours, each with the mark of the call; where the
command's own stderr comes the same way, those lines are taken out of it again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from odek.errors import Cancelled, ExecutableMissing
from odek.executor import CommandResult
from odek.piped import STDERR_TAIL_BYTES, Piped
from odek.process import Capture, Completed, Follower, Output, wait_all
from odek.sandbox.container import scripts
from odek.sandbox.container.lifecycle import Lifecycle
from odek.sandbox.container.scripts import pack_script, pack_text
from odek.sandbox.docker import DockerProcess, docker_output
from odek.sandbox.errors import SandboxError, SandboxGivenUp, SandboxLost
from odek.text import visible_lines

Client = DockerProcess | Piped

_QUIET_S = 0.15  # silence after the end of a command that counts as the end of its output
_LATE_OUTPUT_S = 2.0  # what the engine itself waits for output of background children
_MARKER_TAIL_BYTES = 4096
_WORDS_BYTES = 1 << 14  # of Docker's own, where the command's stderr comes another way


class ExitMarker:
    """Watches the wrapper's stderr for its lines: that the command begins, that it has ended, or why it did not run."""

    def __init__(self, mark: str, limit_bytes: int = _WORDS_BYTES) -> None:
        """`limit_bytes`: how much is kept of what else comes that way."""
        self.mark = mark
        self._capture = Capture(limit_bytes)
        self.began = False
        self.started = ""
        """when the command's shell started, in the clock ticks of the container's machine; "" until it has"""
        self.status: int | None = None
        self.refusal = ""
        """the wrapper's word for why it has run nothing; "" as long as it has not said so"""
        line = (
            rf"(?:^|\n){re.escape(mark)} (?:began (?P<began>[0-9]{{0,20}})|(?P<status>[0-9]{{1,3}})|(?P<word>[a-z]+))\n"
        )
        self._line = re.compile(line.encode())
        self._seen = b""

    def feed(self, chunk: bytes) -> None:
        self._capture.feed(chunk)
        seen = self._seen + chunk
        start = 0
        while found := self._line.search(seen, start):
            self._note(found)
            start = found.end() - 1  # its line end may be the one before the next line
        self._seen = seen[-_MARKER_TAIL_BYTES:]

    def _note(self, found: re.Match[bytes]) -> None:
        if found["began"] is not None:
            if not self.began:
                self.began, self.started = True, found["began"].decode()
        elif found["status"] is not None:
            self.status = int(found["status"])
        elif not self.began:  # afterwards it would be the command's own word
            self.refusal = found["word"].decode()

    def has_run(self, code: int) -> bool | None:
        """Return whether the command has run at all, as a client that ended with `code` shows; None: not known.

        A client that was killed may have taken the news with it.
        """
        if self.began:
            return True
        return None if code < 0 and not self.refusal and self.status is None else False

    @property
    def stderr(self) -> Output:
        """what else came that way: of Docker, and of a command whose stderr is apart"""
        seen = self._capture.output()
        if seen.omitted_bytes == 0:
            data = self._without_ours(seen.data)
            return Output(head=data, tail=b"", size_bytes=len(data))
        head, tail = self._without_ours(seen.head), self._without_ours(seen.tail)
        taken = len(seen.head) - len(head) + len(seen.tail) - len(tail)
        return Output(head=head, tail=tail, size_bytes=seen.size_bytes - taken)

    def _without_ours(self, data: bytes) -> bytes:
        ended = f"{self.mark} {self.refusal or self.status}\n"
        for line in (f"{self.mark} began {self.started}\n", f"\n{ended}", ended):
            data = data.replace(line.encode(), b"", 1)
        return data


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One command at work."""

    pending: DockerProcess
    end: ExitMarker
    started: float
    timeout_s: float
    apart: bool
    """whether its stderr is apart from its stdout"""
    forks: bool
    """whether its text may put something into the background"""


def follow(job: Job, clock: Callable[[], float]) -> Follower:
    """Wait for the end of a command, a step at a time; False when its time was up first.

    After its end, output that is still on its way is waited for, but not for what a background
    child may print later.
    """
    pending = job.pending
    while job.end.status is None:
        if pending.finished:
            return True
        left = job.started + job.timeout_s - clock()
        if left <= 0:
            return False
        yield left
    last_change = clock()
    latest = last_change + _LATE_OUTPUT_S
    size = pending.stdout.size_bytes
    while not pending.finished:
        now = clock()
        if now - last_change >= _QUIET_S or now >= latest:
            break
        yield _QUIET_S
        if pending.stdout.size_bytes != size:
            size, last_change = pending.stdout.size_bytes, clock()
    return True


OUTPUT_LIMIT_BYTES = 1 << 18  # far more than a model is shown; the rest is counted, not kept
STOP_TIMEOUT_S = 10.0
_STOPPED_S = 5.0  # for the client of a stopped command to end, on a busy machine
_BACKGROUND = re.compile(rb"(?<![<>&])&(?![>&])")  # what may put a process into the background
_PIPE_PATIENCE_S = 2.0  # for a program to end when its input has
_KNOWN_MARKS = 1000  # calls whose servers are told from forgeries; their marks make one argument

_HELD = (
    "the output was still held open after the command had ended, probably by a background process; "
    "what it prints later is lost unless it is redirected to a file"
)
_UNKNOWN_END = "how the command ended is not known: the connection to it was lost"
_UNKNOWN_RUN = "whether the command ran is not known: the docker client was killed; look before it is run again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of one shell text."""

    result: CommandResult
    unrun: Completed | None = None
    """the client that ended without having run it; None: it ran, or that is not known"""
    refusal: str = ""
    """the wrapper's word for that, where it had one"""
    unsaid: bool = False
    """whether it ended without the wrapper's word: the command killed its wrapper, or the container was restarted"""


class ContainerPipe:
    """A program in the container that one talks to line by line; used by one thread at a time."""

    def __init__(self, child: Piped, end: ExitMarker, commands: Commands) -> None:
        self._child = child
        self._end = end
        self._commands = commands

    def send_line(self, line: bytes, *, timeout_s: float) -> None:
        """See Piped.send_line."""
        self._child.send_line(line, timeout_s=timeout_s)

    def receive_line(self, *, timeout_s: float) -> bytes | None:
        """See Piped.receive_line. Raises SandboxLost when the output has ended with the container."""
        line = self._child.receive_line(timeout_s=timeout_s)
        if line is None:
            self._commands.require_own_end(self._child, self._end)
        return line

    @property
    def stderr_tail(self) -> bytes:
        """the last 64 KiB that the program has printed on stderr"""
        return self._end.stderr.data[-STDERR_TAIL_BYTES:]

    @property
    def status(self) -> int | None:
        """the program's exit status; None as long as it has none"""
        return self._end.status

    def close(self) -> None:
        """End the program: close its stdin, and stop what is left of it and of what it has started."""
        self._commands.close_pipe(self._child, self._end)


class Commands:
    """Runs shell texts in one container."""

    def __init__(self, life: Lifecycle, new_nonce: Callable[[], str]) -> None:
        self._life = life
        self._new_nonce = new_nonce
        self._marks: list[str] = []

    def run(
        self, texts: Sequence[bytes], timeouts_s: Sequence[float], *, apart: bool, limit_bytes: int
    ) -> tuple[Outcome, ...]:
        """Run shell texts at the same time, to their ends or their limits.

        Raises SandboxLost when the container is gone or cannot stop one of them.
        """
        self._life.require_alive()
        jobs: list[Job] = []
        results: dict[int, Outcome] = {}

        def unfinished() -> list[Job]:
            return [job for index, job in enumerate(jobs) if index not in results]

        try:
            for text, timeout_s in zip(texts, timeouts_s, strict=True):
                jobs.append(self._begin(text, timeout_s, apart=apart, limit_bytes=limit_bytes))
            waits = {index: (job.pending.pump, follow(job, self._life.clock)) for index, job in enumerate(jobs)}
            for index, ended in wait_all(waits):
                results[index] = self._result(jobs[index], unfinished(), ended=ended)
        except (Cancelled, ExecutableMissing):
            self._stop_all(unfinished())
            raise
        finally:
            for job in jobs:
                job.pending.close()
        return tuple(results[index] for index in range(len(jobs)))

    def _begin(self, text: bytes, timeout_s: float, *, apart: bool, limit_bytes: int) -> Job:
        mark = self._new_nonce()
        self._marks.append(mark)
        end = ExitMarker(mark, OUTPUT_LIMIT_BYTES)
        started = self._life.clock()
        pending = self._life.docker.start(
            *self._life.exec_argv(scripts.RUN, (mark, self._life.facts.init_start), call=mark),
            stdin=pack_text(text, mark, umask=self._life.spec.umask, apart=apart),
            limit_bytes=limit_bytes,
            on_stderr=end.feed,
        )
        return Job(
            pending=pending,
            end=end,
            started=started,
            timeout_s=timeout_s,
            apart=apart,
            forks=_BACKGROUND.search(text) is not None,
        )

    def run_script(
        self, script: str, args: Sequence[str], data: bytes, *, timeout_s: float, limit_bytes: int
    ) -> Outcome:
        """Run one of the file scripts with `data` as its stdin; the client is killed when its time is up.

        Raises SandboxLost when the container is gone.
        """
        self._life.require_alive()
        mark = self._new_nonce()
        self._marks.append(mark)
        end = ExitMarker(mark, OUTPUT_LIMIT_BYTES)
        started = self._life.clock()
        pending = self._life.docker.start(
            *self._life.exec_argv(scripts.RUN, (mark, self._life.facts.init_start), call=mark),
            stdin=pack_script(script, args, mark, umask=self._life.spec.umask, data=data),
            limit_bytes=limit_bytes,
            on_stderr=end.feed,
        )
        done = pending.wait(timeout_s)
        job = Job(pending=pending, end=end, started=started, timeout_s=timeout_s, apart=True, forks=False)
        return self._outcome(job, done, ended=not done.timed_out, notes=())

    def open_pipe(self, text: str, argv: Sequence[str], *, timeout_s: float) -> ContainerPipe:
        """Start a shell text with `argv` as its arguments and a pipe as its stdin. Raises SandboxLost."""
        self._life.require_alive()
        mark = self._new_nonce()
        self._marks.append(mark)
        end = ExitMarker(mark, 2 * STDERR_TAIL_BYTES)
        child = self._life.docker.open_pipe(
            *self._life.exec_argv(scripts.RUN, (mark, self._life.facts.init_start), call=mark), on_stderr=end.feed
        )
        header = pack_script(text, argv, mark, umask=self._life.spec.umask).rstrip(b"\n")
        try:
            child.send_line(header, timeout_s=timeout_s)
        except OSError as error:  # it takes no input, or not in time
            try:
                self.require_own_end(child, end)
            finally:
                child.close()
            words = visible_lines(end.stderr.text)
            raise SandboxError("the container does not start another program", detail=words) from error
        except BaseException:
            child.close()
            raise
        return ContainerPipe(child, end, self)

    def close_pipe(self, child: Piped, end: ExitMarker) -> None:
        """End what `open_pipe` has started. Raises SandboxLost when that is not possible."""
        try:
            child.drain(_PIPE_PATIENCE_S)
            self._life.require_alive()
            self._stop(end, (child,), spare_orphans=True)
        finally:
            child.close()

    def require_own_end(self, child: Piped, end: ExitMarker) -> None:
        """Return when the output of a pipe has ended with its program. Raises SandboxLost when the container has."""
        ended = child.drain(_PIPE_PATIENCE_S)
        self._life.require_same(end.refusal)
        self._life.require_alive()
        if ended and end.status is None:
            child.close()
            done = replace(child.completed(), stderr=end.stderr)
            self._life.require_running("" if end.began else docker_output(done))

    def _result(self, job: Job, others: Sequence[Job], *, ended: bool) -> Outcome:
        """Return what came of a job; `others` are still at work."""
        notes: tuple[str, ...] = ()
        if not ended:
            streams = (job.pending, *(other.pending for other in others if other is not job))
            notes = (self._stop(job.end, streams),)
        elif not job.pending.finished and job.forks:
            notes = (_HELD,)
        job.pending.close()
        return self._outcome(job, job.pending.completed(), ended=ended, notes=notes)

    def _outcome(self, job: Job, done: Completed, *, ended: bool, notes: tuple[str, ...]) -> Outcome:
        """Judge a client that has ended, or was ended. A status of 0 is the wrapper's word or none."""
        end = job.end
        done = replace(done, stderr=end.stderr)
        self._life.require_same(end.refusal)
        has_run = end.has_run(done.code) if ended else True
        code = end.status if has_run else None
        if ended and end.status is None:
            self._life.require_running("" if has_run else docker_output(done))
            if has_run and done.code > 0:
                code = done.code  # of a command that killed its wrapper
            elif has_run:
                notes = (*notes, _UNKNOWN_END)
            elif has_run is None:
                notes = (*notes, _UNKNOWN_RUN)
        result = CommandResult(
            output=done.stdout,
            code=code if ended else None,
            timed_out=not ended,
            duration_s=self._life.clock() - job.started,
            notes=notes,
            stderr=end.stderr if job.apart else None,
        )
        unsaid = bool(ended and has_run and end.status is None)
        return Outcome(result=result, unrun=done if has_run is False else None, refusal=end.refusal, unsaid=unsaid)

    def _stop_all(self, jobs: Sequence[Job]) -> None:
        try:
            for job in jobs:
                self._stop(job.end, (job.pending, *(other.pending for other in jobs if other is not job)))
        except SandboxLost:  # then nothing of them is left at all; the interrupt is still the news
            pass

    def _stop(self, end: ExitMarker, streams: Sequence[Client], *, spare_orphans: bool = False) -> str:
        """Stop every process of a call; return what was done. Raises SandboxLost if that failed.

        `streams` are the clients at work, that of the call first. `spare_orphans`: what carries no mark and
        has lost its parent may be of a later call.
        """
        marks = " ".join(mark for mark in self._marks[-_KNOWN_MARKS:] if mark != end.mark)
        arguments = (end.mark, marks, end.started, *(("1",) if spare_orphans else ()))
        stopped = self._call_beside(streams, self._life.exec_argv(scripts.STOP, arguments))
        if not self._has_stopped(stopped, streams):
            stopped = self._call_beside(streams, self._life.exec_argv(scripts.STOP_ALL))
            if not self._has_stopped(stopped, streams):
                self._life.close()
                raise SandboxGivenUp(
                    "a command could not be stopped, so the whole sandbox was taken down",
                    hint="start again; what the command had written is in the working directory",
                    detail=docker_output(stopped),
                )
        if stopped.code == 0:
            return "the command and everything it had started was stopped"
        return "the command was stopped, and with it everything else that was running in the sandbox"

    def _has_stopped(self, stopped: Completed, streams: Sequence[Client]) -> bool:
        """Return whether a stop of the first of `streams` did what it says.

        What runs as root in there can put another program in the place of `sh`; the client, which ends
        when its command has ended and let go of its output, is a witness out of its reach.
        """
        if stopped.code not in (0, scripts.STOPPED_ALL):
            return False
        pending, *others = streams
        deadline = self._life.clock() + _STOPPED_S
        while not pending.finished and self._life.clock() < deadline:
            for stream in others:
                stream.pump(0)
            pending.pump(0.01 if others else _STOPPED_S)
        return pending.finished

    def _call_beside(self, streams: Sequence[Client], argv: tuple[str, ...]) -> Completed:
        """Run a docker call while the output of `streams` is taken off their hands: an engine whose
        streams are stuck does not start another command in the container."""
        calling = self._life.docker.start(*argv)
        try:
            deadline = self._life.clock() + STOP_TIMEOUT_S
            while not calling.finished and self._life.clock() < deadline:
                for pending in streams:
                    pending.pump(0)
                calling.pump(0.01)
            return calling.wait(0.05)
        finally:
            calling.close()
