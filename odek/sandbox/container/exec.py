"""Commands at work in the container: how they are started, followed and stopped.

They travel on stdin, marked by their environment, and end with everything they started when their
time is up or the turn is interrupted (R-40). Output beyond the cap may be held back, the exit status never.
Each is given to a wrapper (scripts.RUN), one that was started ahead where there is one (spares.py), whose lines
of ours exec_stream.py takes out of the output again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from odek.errors import Cancelled, ExecutableMissing
from odek.executor import CommandResult, OutputWatch
from odek.patterns import pattern
from odek.piped import STDERR_TAIL_BYTES, Piped
from odek.process import Completed, Follower, wait_all
from odek.sandbox.container import scripts
from odek.sandbox.container.exec_stream import ExecStreams
from odek.sandbox.container.lifecycle import Lifecycle
from odek.sandbox.container.scripts import pack_pipe, pack_script, pack_text
from odek.sandbox.container.spares import Spares, WaitingExec
from odek.sandbox.docker import DockerProcess, docker_output
from odek.sandbox.errors import SandboxError, SandboxGivenUp, SandboxLost
from odek.text import visible_lines

Client = DockerProcess | Piped

_QUIET_S = 0.15  # silence after the end of a command with `&` that counts as the end of its output
_LATE_OUTPUT_S = 2.0  # what the engine itself waits for output of background children


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One text that is to be run."""

    pack: Callable[[str, str], bytes]
    """mark and end of a call → the stdin of its wrapper"""
    timeout_s: float
    limit_bytes: int
    """of its stdout that are kept"""
    apart: bool
    """whether its stderr is separate from its stdout"""
    forks: bool
    """whether it may put something into the background"""
    stops: bool
    """whether it is stopped, with all it started, when its time is up; a script of ours is left to itself"""
    watch: OutputWatch | None = None
    """what is shown of its stdout while it runs"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One text at work."""

    task: Task
    process: DockerProcess
    streams: ExecStreams
    started: float
    spare: bool
    """whether it was given to an exec that was started ahead"""


def follow(job: Job, clock: Callable[[], float]) -> Follower:
    """Wait for the end of a text, a step at a time; False when its time was up first.

    The end comes behind all of its output. Of what children in the background print, what comes at once is waited for.
    """
    process, streams = job.process, job.streams
    while not streams.ended:
        if process.finished:
            return True
        left = job.started + job.task.timeout_s - clock()
        if left <= 0:
            return False
        yield left
        if job.task.watch is not None:
            job.task.watch.look(lambda: streams.stdout)
    if not job.task.forks:
        return True
    last_change = clock()
    latest = last_change + _LATE_OUTPUT_S
    size = streams.stdout.size_bytes
    while not process.finished:
        now = clock()
        if now - last_change >= _QUIET_S or now >= latest:
            break
        yield _QUIET_S
        if streams.stdout.size_bytes != size:
            size, last_change = streams.stdout.size_bytes, clock()
    return True


STOP_TIMEOUT_S = 10.0
_BEGINS_S = 1.0  # for a text that is on its way to begin, so that a stop finds it
_SCRIPT_ENDS_S = 2.0  # for a script of ours to tidy up
_STOPPED_S = 5.0  # for the client of a stopped command to end, on a busy machine
_BACKGROUND = pattern(rb"(?<![<>&])&(?![>&])")  # what may put a process into the background
_PIPE_PATIENCE_S = 2.0  # for a program to end when its input has
_KNOWN_MARKS = 1000  # calls whose servers are known from forgeries; their marks make one argument

_HELD = (
    "the output was still held open after the command had ended, probably by a background process; "
    "what it prints later is lost unless it is redirected to a file"
)
_KILLED = 128 + 9
_SWEPT = (
    "it was probably killed when another command had to be stopped, and everything in the sandbox with it; look before "
    "it is run again"
)
_UNKNOWN_END = "how the command ended is not known: the connection to it was lost"
_UNKNOWN_RUN = (
    "whether the command ran is not known: its shell was killed, or the connection to it was lost; "
    "look before it is run again"
)


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
    spare: bool = False
    """whether it was given to an exec that was started ahead"""


class ContainerPipe:
    """A program in the container that one talks to line by line; used by one thread at a time."""

    def __init__(self, child: Piped, streams: ExecStreams, commands: Commands) -> None:
        self._child = child
        self._streams = streams
        self._commands = commands

    def send_line(self, line: bytes, *, timeout_s: float) -> None:
        """See Piped.send_line."""
        self._child.send_line(line, timeout_s=timeout_s)

    def receive_line(self, *, timeout_s: float) -> bytes | None:
        """See Piped.receive_line. Raises SandboxLost when the output has ended with the container."""
        line = self._child.receive_line(timeout_s=timeout_s)
        if line is None:
            self._commands.require_own_end(self._child, self._streams)
        return line

    @property
    def stderr_tail(self) -> bytes:
        """the last 64 KiB that the program has printed on stderr"""
        return self._streams.stderr.data[-STDERR_TAIL_BYTES:]

    @property
    def status(self) -> int | None:
        """the program's exit status; None as long as it has none"""
        return self._streams.status

    def close(self) -> None:
        """End the program: close its stdin, and stop what is left of it and of what it has started."""
        self._commands.close_pipe(self._child, self._streams)


class Commands:
    """Runs shell texts in one container."""

    def __init__(
        self, life: Lifecycle, new_nonce: Callable[[], str], *, spares: int, first: WaitingExec | None = None
    ) -> None:
        """`spares`: how many execs may wait for a text; `first` does already."""
        self._life = life
        self._new_nonce = new_nonce
        self._secret = new_nonce()
        self._marks: list[str] = []
        self._pipe_marks: dict[str, None] = {}
        """of programs that are talked to: they live for as long as the session, whatever else is stopped"""
        self._stopping: set[str] = set()
        """marks of what is being stopped at present, in any thread"""
        self._swept_s = float("-inf")
        """when a stop has last ended everything in the container"""
        self._spares = Spares(self._start, most=spares, clock=life.clock)
        if first is not None:
            self._marks.append(first.streams.mark)
            self._spares.add(first)

    def run(
        self,
        texts: Sequence[bytes],
        timeouts_s: Sequence[float],
        *,
        apart: bool,
        limit_bytes: int,
        prelude: bytes = b"",
        watch: OutputWatch | None = None,
    ) -> tuple[Outcome, ...]:
        """Run shell texts at the same time, to their ends or their limits; `watch` sees the output of a single one.

        `prelude` is shell text of odek's own that goes before each, and puts nothing into the background.
        Raises SandboxLost when the container is gone or cannot stop one of them.
        """
        kind = [partial(pack_text, prelude + text, umask=self._life.spec.umask, apart=apart) for text in texts]
        forks = [_BACKGROUND.search(text) is not None for text in texts]
        tasks = [
            Task(
                pack=pack,
                timeout_s=timeout_s,
                limit_bytes=limit_bytes,
                apart=apart,
                forks=each,
                stops=True,
                watch=watch,
            )
            for pack, timeout_s, each in zip(kind, timeouts_s, forks, strict=True)
        ]
        return self._run(tasks)

    def run_script(
        self, script: str, args: Sequence[str], data: bytes, *, timeout_s: float, limit_bytes: int
    ) -> Outcome:
        """Run one of the file scripts with `data` as its stdin; the client is killed when its time is up.

        Raises SandboxLost when the container is gone.
        """
        pack = partial(pack_script, script, args, umask=self._life.spec.umask, data=data)
        task = Task(pack=pack, timeout_s=timeout_s, limit_bytes=limit_bytes, apart=True, forks=False, stops=False)
        (outcome,) = self._run([task])
        return outcome

    def open_pipe(self, text: str, argv: Sequence[str], *, timeout_s: float) -> ContainerPipe:
        """Start a shell text with `argv` as its arguments and a pipe as its stdin. Raises SandboxLost."""
        self._life.require_alive()
        streams = self._new_streams()
        mark = streams.mark
        child = self._life.docker.open_pipe(*self._wrapper(mark), on_stderr=streams.feed_stderr)
        header = pack_pipe(text, argv, mark, streams.end, umask=self._life.spec.umask).rstrip(b"\n")
        try:
            child.send_line(header, timeout_s=timeout_s)
        except OSError as error:  # it takes no input, or not in time
            try:
                self.require_own_end(child, streams)
            finally:
                child.close()
            words = visible_lines(streams.stderr.text)
            raise SandboxError("the container does not start another program", detail=words) from error
        except BaseException:
            child.close()
            raise
        self._pipe_marks[mark] = None
        return ContainerPipe(child, streams, self)

    def close_pipe(self, child: Piped, streams: ExecStreams) -> None:
        """End what `open_pipe` has started. Raises SandboxLost when that is not possible."""
        try:
            try:
                child.drain(_PIPE_PATIENCE_S)
            finally:  # a cancel meanwhile is raised once: the stop waits in peace
                self._life.require_alive()
                self._stop(streams, (child,), spare_orphans=True)
        finally:
            self._pipe_marks.pop(streams.mark, None)
            child.close()

    def require_own_end(self, child: Piped, streams: ExecStreams) -> None:
        """Return when the output of a pipe has ended with its program. Raises SandboxLost when the container has."""
        ended = child.drain(_PIPE_PATIENCE_S)
        self._life.require_same(streams.refusal)
        self._life.require_alive()
        if ended and streams.status is None:
            child.close()
            done = replace(child.completed(), stderr=streams.stderr)
            self._life.require_running("" if streams.began else docker_output(done))

    def expect(self, texts: int) -> None:
        """Have an exec wait for each of so many texts, as far as there may be; see Spares.expect."""
        self._spares.expect(texts)

    def drop_spares(self) -> None:
        """End the execs that wait."""
        self._spares.drop()

    def close(self) -> None:
        """End the execs that wait, and start no more."""
        self._spares.close()

    def _run(self, tasks: Sequence[Task]) -> tuple[Outcome, ...]:
        self._life.require_alive()
        with self._spares.used_by(len(tasks)):
            outcomes = list(self._run_once(tasks, ahead=True))
            again = [place for place, outcome in enumerate(outcomes) if outcome.spare and outcome.unrun is not None]
            if again:  # an exec that had waited and ended without beginning has run nothing
                second = self._run_once([tasks[place] for place in again], ahead=False)
                for place, outcome in zip(again, second, strict=True):
                    outcomes[place] = outcome
        return tuple(outcomes)

    def _run_once(self, tasks: Sequence[Task], *, ahead: bool) -> tuple[Outcome, ...]:
        """Run each of `tasks`; `ahead`: in an exec that waits, where there is one."""
        jobs: list[Job] = []
        results: dict[int, Outcome] = {}

        def unfinished() -> list[Job]:
            return [job for index, job in enumerate(jobs) if index not in results]

        try:
            for task in tasks:
                jobs.append(self._begin(task, ahead=ahead))
            waits = {index: (job.process.pump, follow(job, self._life.clock)) for index, job in enumerate(jobs)}
            for index, ended in wait_all(waits):
                results[index] = self._result(jobs[index], unfinished(), ended=ended)
        except (Cancelled, ExecutableMissing):
            self._stop_all(unfinished())
            raise
        finally:
            for job in jobs:
                job.process.close()
        return tuple(results[index] for index in range(len(jobs)))

    def _begin(self, task: Task, *, ahead: bool) -> Job:
        started = self._life.clock()
        spare = self._spares.take() if ahead else None
        if spare is not None:
            spare.streams.expect(apart=task.apart, limit_bytes=task.limit_bytes)
            spare.process.supply(task.pack(spare.streams.mark, spare.streams.end))
        work = spare or self._start(task)
        return Job(
            process=work.process, streams=work.streams, task=task, started=started, spare=spare is not None
        )  # fmt: skip

    def _start(self, task: Task | None = None) -> WaitingExec:
        """Start an exec of the wrapper, with the text of `task` or to wait for one."""
        streams = self._new_streams()
        if task:
            streams.expect(apart=task.apart, limit_bytes=task.limit_bytes)
        process = self._life.docker.start(
            *self._wrapper(streams.mark),
            stdin=task.pack(streams.mark, streams.end) if task else None,
            hold_stdin=task is None,
            on_stdout=streams.feed_stdout,
            on_stderr=streams.feed_stderr,
        )
        return WaitingExec(process=process, streams=streams)

    def _wrapper(self, mark: str) -> tuple[str, ...]:
        return self._life.exec_argv(scripts.RUN, (mark, self._life.facts.init_start), call=mark)

    def _new_streams(self) -> ExecStreams:
        mark = self._new_nonce()
        self._marks.append(mark)  # also of one that waits: it must not look like a stranger to STOP
        return ExecStreams(mark, scripts.end_nonce(self._secret, mark))

    def _result(self, job: Job, others: Sequence[Job], *, ended: bool) -> Outcome:
        """Return what came of a job; `others` are still at work."""
        notes: tuple[str, ...] = ()
        if not ended:
            job.process.release()  # what it has not got by now must not begin
        if not ended and job.task.stops:
            clients = (job.process, *(other.process for other in others if other is not job))
            notes = (self._stop(job.streams, clients),)
        elif ended and job.task.forks and not job.process.finished:
            notes = (_HELD,)
        job.process.close()
        return self._outcome(job, job.process.completed(), ended=ended, notes=notes)

    def _outcome(self, job: Job, done: Completed, *, ended: bool, notes: tuple[str, ...]) -> Outcome:
        """Judge a client that has ended, or was ended. A status of 0 is the wrapper's word or none."""
        streams = job.streams
        done = replace(done, stdout=streams.stdout, stderr=streams.stderr)
        self._life.require_same(streams.refusal)
        has_run = streams.has_run if ended else True
        code = streams.status if has_run else None
        if ended and streams.status is None:
            self._life.require_running("" if has_run else docker_output(done))
            if has_run and done.code > 0:
                code = done.code  # of a command that killed its wrapper
            elif has_run:
                notes = (*notes, _UNKNOWN_END)
            elif has_run is None:
                notes = (*notes, _UNKNOWN_RUN)
        if code == _KILLED and (self._stopping or self._swept_s >= job.started):
            notes = (*notes, _SWEPT)
        result = CommandResult(
            output=streams.stdout,
            code=code if ended else None,
            timed_out=not ended,
            duration_s=self._life.clock() - job.started,
            notes=notes,
            stderr=streams.stderr if job.task.apart else None,
        )
        unrun = done if has_run is False else None
        unsaid = ended and has_run is not False and streams.status is None
        return Outcome(result=result, unrun=unrun, refusal=streams.refusal, unsaid=unsaid, spare=job.spare)

    def _stop_all(self, jobs: Sequence[Job]) -> None:
        """Stop what a cancel has ended. Another cancel meanwhile is raised when that is done."""
        for job in jobs:  # before one is stopped: the clients are pumped then
            job.process.release()
        left, cancelled = list(jobs), list[Cancelled]()
        while left:
            job = left[0]
            clients = (job.process, *(other.process for other in jobs if other is not job))
            try:
                if job.task.stops or not self._await(clients, lambda: False, _SCRIPT_ENDS_S):
                    self._stop(job.streams, clients)
            except SandboxLost:  # then nothing of them is left at all; the interrupt is still the news
                break
            except Cancelled as another:  # a token raises each cause once, so this goes on in peace
                cancelled.append(another)
                continue
            left.pop(0)
        if cancelled:
            raise cancelled[-1]

    def _stop(self, call: ExecStreams, clients: Sequence[Client], *, spare_orphans: bool = False) -> str:
        """Stop every process of a call; return what was done. Raises SandboxLost if that failed.

        `clients` are those at work, that of the call first. `spare_orphans`: what carries no mark and
        has lost its parent may be of a later call.
        """
        self._stopping.add(call.mark)
        try:
            code = self._stopped(call, clients, spare_orphans=spare_orphans)
        finally:
            self._stopping.discard(call.mark)
        if code == 0:
            return "the command and everything it had started was stopped"
        self._swept_s = self._life.clock()
        return "the command was stopped, and with it everything else that was running in the sandbox"

    def _stopped(self, call: ExecStreams, clients: Sequence[Client], *, spare_orphans: bool) -> int:
        """Stop a call, or everything; return the status of the script that did it. Raises SandboxLost."""
        self._await(clients, lambda: call.began, _BEGINS_S)
        known = dict.fromkeys((*self._pipe_marks, *self._marks[-_KNOWN_MARKS:]))
        marks = " ".join(mark for mark in known if mark != call.mark)
        arguments = (call.mark, marks, call.started, *(("1",) if spare_orphans else ()))
        stopped = self._run_while_draining(clients, self._life.exec_argv(scripts.STOP, arguments))
        if not self._has_stopped(stopped, clients):
            stopped = self._run_while_draining(clients, self._life.exec_argv(scripts.STOP_ALL))
            if not self._has_stopped(stopped, clients):
                self._life.close()
                raise SandboxGivenUp(
                    "a command could not be stopped, so the whole sandbox was taken down",
                    hint="start again; what the command had written is in the working directory",
                    detail=docker_output(stopped),
                )
        return stopped.code

    def _has_stopped(self, stopped: Completed, clients: Sequence[Client]) -> bool:
        """Return whether a stop of the first of `clients` did what it says.

        What runs as root in there can put another program in the place of `sh`; the client, which ends
        when its command has ended and let go of its output, is a witness out of its reach.
        """
        return stopped.code in (0, scripts.STOPPED_ALL) and self._await(clients, lambda: False, _STOPPED_S)

    def _await(self, clients: Sequence[Client], is_enough: Callable[[], bool], seconds: float) -> bool:
        """Wait for the end of the first of `clients`, or until `is_enough`; return whether it has ended."""
        client, *others = clients
        deadline = self._life.clock() + seconds
        while not client.finished and not is_enough() and self._life.clock() < deadline:
            for other in others:
                other.pump(0)
            client.pump(0.01 if others else deadline - self._life.clock())
        return client.finished

    def _run_while_draining(self, clients: Sequence[Client], argv: tuple[str, ...]) -> Completed:
        """Run a docker call while the output of `clients` is taken off their hands: an engine whose
        streams are stuck does not start another command in the container."""
        calling = self._life.docker.start(*argv)
        try:
            deadline = self._life.clock() + STOP_TIMEOUT_S
            while not calling.finished and self._life.clock() < deadline:
                for client in clients:
                    client.pump(0)
                calling.pump(0.01)
            return calling.wait(0.05)
        finally:
            calling.close()
