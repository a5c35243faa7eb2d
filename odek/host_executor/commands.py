"""Shell commands and file accesses on the host: the executor of runs without a sandbox.

Nothing contains a command here: it has the rights of the user who started odek. Guaranteed is that it
cannot read the terminal, does not inherit secrets (F-7), and ends at its limit with the processes it
started (R-40). Files are accessed by `host_executor/files.py`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from odek.cancel import current_token
from odek.errors import FileAccessDenied
from odek.executor import (
    CommandRequest,
    CommandResult,
    DirScan,
    Entry,
    OutputWatch,
    ScanOptions,
    current_watch,
)
from odek.host_executor.files import WorkspaceFiles
from odek.host_executor.processes import LimitTag, has_processes, stop_processes, tag_process
from odek.host_executor.tree import WorkspaceTree
from odek.process import Follower, Running, start_watcher, wait_all
from odek.secret_names import is_secret_name
from odek.text import visible

OUTPUT_LIMIT_BYTES = 256 << 10  # both ends of what tools/shell.py shows, at four bytes a character
TRAILING_OUTPUT_S = 0.1  # B02: for what is still in the pipe when the shell has gone
MARK_VARIABLE = "ODEK_COMMAND_ID"
_GOES_ON = "a background process goes on, also when odek has ended; stop it with `kill` when it is not needed any more"
_KEPT_PIPES = 16  # background jobs whose output is drained at the same time

# Commands have no terminal. Some editors would wait all the same, for keys that cannot come, and git starts one where a
# message is missing (B06); an editor that changes nothing would make `git rebase -i` rewrite history.
_NO_EDITOR = "echo 'no terminal for an editor: pass the text as an argument, or set GIT_EDITOR' >&2; false"
_NO_TERMINAL = {"TERM": "dumb", "GIT_EDITOR": _NO_EDITOR, "GIT_SEQUENCE_EDITOR": _NO_EDITOR}

# The command arrives on stdin, because one argument holds at most 128 KiB (B14), and is gone from
# the shell's variables before it runs. The dot keeps trailing newlines out of the substitution's
# hands; `command -p` finds cat where PATH is broken or starts in the workspace.
# What does not end in its mark is a part, left by an odek that was killed while it wrote, and is not run.
_SCRIPT = (
    "odek_command=$(command -p cat 2>/dev/null || cat; echo .); exec 2>&1; "
    "[ -r /dev/null ] || { echo 'the command did not run: this system has no /dev/null' >&2; exit 125; }; "
    "exec </dev/null; "
    f'case $odek_command in *"#${MARK_VARIABLE}.") ;; '
    "*) echo 'the command did not run: it did not arrive as a whole' >&2; exit 125 ;; esac; "
    f'odek_command=${{odek_command%"#${MARK_VARIABLE}."}}; eval "unset -v odek_command; $odek_command"'
)
_SCRIPT_SEPARATE_STDERR = _SCRIPT.replace("exec 2>&1; ", "")


# Reads "+ PID MARK SIGNALS QUEUE" for a command that starts, the last two being its LimitTag, and "+ - MARK - -"
# before it does; "- PID MARK - -" for one that has ended. At the end of its input, which is the end of odek however
# that came, it kills the process groups of those that are still at work, and what else carries their marks or tags.
_WHEN_GONE = f"""\
calls=
while read -r sign pid mark signals queue; do
  rest=
  for call in $calls; do case $call in *":$mark:"*) ;; *) rest="$rest $call" ;; esac; done
  calls=$rest
  [ "$sign" = - ] || calls="$calls $pid:$mark:$signals:$queue"
done
[ -w /dev/null ] && exec 2>/dev/null
for call in $calls; do kill -KILL -- "-${{call%%:*}}"; done
for call in $calls $calls; do
  rest=${{call#*:}}
  mark=${{rest%%:*}} rest=${{rest#*:}}
  tagged=$(grep -sl "^Max msgqueue size  *${{rest#*:}} " /proc/[0-9]*/limits)
  tagged=$(grep -sl "^Max pending signals  *${{rest%:*}} " $tagged /dev/null)
  for file in $tagged $(grep -sl "{MARK_VARIABLE}=$mark" /proc/[0-9]*/environ); do
    pid=${{file#/proc/}}
    kill -KILL "${{pid%/*}}"
  done
done
"""


def scrub_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return `env` without the variables whose names say that they hold a secret (F-7)."""
    return {name: value for name, value in env.items() if not is_secret_name(name)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """One command at work."""

    running: Running
    mark: str
    """value of MARK_VARIABLE in its processes"""
    tag: LimitTag | None
    started: float
    timeout_s: float
    separate_stderr: bool
    """whether stderr does not join stdout"""

    def stop(self) -> int:
        """End its processes; return how many could not be ended."""
        return stop_processes(self.running.pid, f"{MARK_VARIABLE}={self.mark}", self.tag)


class HostExecutor:
    """Implements `executor.Executor` for the working directory of this machine."""

    def __init__(
        self, *, cwd: str, env: Mapping[str, str], new_id: Callable[[], str] = lambda: os.urandom(8).hex()
    ) -> None:
        """Work in `cwd` (absolute, links resolved) with what `scrub_environment` leaves of `env`.

        `new_id` gives each command the value by which its processes are found again.
        """
        self.workspace = cwd
        self._env = scrub_environment(env)
        self._new_id = new_id
        self._files = WorkspaceFiles(cwd)
        self._tree = WorkspaceTree(cwd)
        self._background: list[Running] = []
        self._watcher: Running | None = None

    def expect(self, count: int) -> None:
        """See `executor.Executor.expect`: a shell of this host is there at once."""

    def run(self, command: str, *, timeout_s: float) -> CommandResult:
        """Run `command` with /bin/sh; see `executor.Executor.run`. Raises ExecutableMissing."""
        watch = current_watch()
        if watch is not None:
            watch.begin()
        request = CommandRequest(command=command, timeout_s=timeout_s)
        (result,) = self._run_all((request,), script=_SCRIPT, watch=watch)
        return result

    def run_many(self, requests: Sequence[CommandRequest]) -> tuple[CommandResult, ...]:
        """Run commands at the same time; see `executor.Executor.run_many`. Raises ExecutableMissing."""
        return self._run_all(requests, script=_SCRIPT_SEPARATE_STDERR)

    def read(self, path: str, *, limit_bytes: int) -> bytes:
        """Return the bytes of a file; see `executor.Executor.read`."""
        return self._files.read(path, limit_bytes=limit_bytes)

    def read_many(
        self, paths: Sequence[str], *, limit_bytes: int, total_bytes: int
    ) -> tuple[bytes | FileAccessDenied, ...]:
        """Return the bytes of several files; see `executor.Executor.read_many`."""
        found: list[bytes | FileAccessDenied] = []
        for path in paths:
            current_token().raise_if_cancelled()
            try:
                data = self._files.read(path, limit_bytes=limit_bytes)
            except FileAccessDenied as refusal:
                found.append(refusal)
                continue
            total_bytes -= len(data)
            found.append(data if total_bytes >= 0 else _too_much(path))
        return tuple(found)

    def write(
        self, path: str, data: bytes, *, replacing: bytes | None, guard: Callable[[str], None] | None = None
    ) -> None:
        """Replace or create a file; see `executor.Executor.write`."""
        self._files.write(path, data, replacing=replacing, guard=guard)

    def stat(self, path: str) -> Entry:
        """Return what is at a path; see `executor.Executor.stat`."""
        return self._tree.stat(path)

    def walk(self, path: str, how: ScanOptions) -> DirScan:
        """Return what is in a folder; see `executor.Executor.walk`."""
        return self._tree.walk(path, how)

    def close(self) -> None:
        """Let go of the output of background jobs; the jobs themselves go on."""
        while self._background:
            self._background.pop().close()
        if self._watcher is not None:
            self._watcher.close()

    def _run_all(
        self, requests: Sequence[CommandRequest], *, script: str, watch: OutputWatch | None = None
    ) -> tuple[CommandResult, ...]:
        jobs: list[_Job] = []
        results: dict[int, CommandResult] = {}
        try:
            for request in requests:
                jobs.append(self._start(request, script))
            for index, ended in wait_all(
                {i: (job.running.pump, self._follow(job, watch)) for i, job in enumerate(jobs)}
            ):
                results[index] = self._result(jobs[index], ended=ended)
        except BaseException:  # a cancel above all: no command outlives the turn that asked for it
            for index, job in enumerate(jobs):
                if index not in results:
                    job.stop()
                    job.running.close()
                    self._tell_watcher("-", job.running.pid, job.mark)
            raise
        return tuple(results[index] for index in range(len(jobs)))

    def _start(self, request: CommandRequest, script: str) -> _Job:
        mark = self._new_id()
        started = time.monotonic()
        self._tell_watcher("+", "-", mark)
        running = Running(
            ("/bin/sh", "-c", script, "sh"),
            env={**self._env, **_NO_TERMINAL, MARK_VARIABLE: mark},
            stdin=f"{request.command}#{mark}".encode(),
            cwd=self.workspace,
            limit_bytes=OUTPUT_LIMIT_BYTES,
        )
        tag = tag_process(running.pid, mark)  # the shell has no command yet, and so no children
        self._tell_watcher("+", running.pid, mark, tag)
        return _Job(
            running=running,
            mark=mark,
            tag=tag,
            started=started,
            timeout_s=request.timeout_s,
            separate_stderr=script != _SCRIPT,
        )

    def _follow(self, job: _Job, watch: OutputWatch | None) -> Follower:
        """Wait until the shell has ended (True) or its time is up (False)."""
        running = job.running
        deadline = job.started + job.timeout_s
        silence_at: float | None = None
        while not running.finished:
            now = time.monotonic()
            if running.exited:
                silence_at = silence_at or now + TRAILING_OUTPUT_S
                if now >= silence_at:
                    break
            elif now >= deadline:
                return False
            yield (silence_at or deadline) - now
            self._drain()
            if watch is not None:
                watch.look(lambda: running.stdout)
        return True

    def _result(self, job: _Job, *, ended: bool) -> CommandResult:
        """Collect what a command printed; keep its pipes open while a background process still holds them."""
        running = job.running
        left = 0 if ended else job.stop()
        self._tell_watcher("-", running.pid, job.mark)
        output, errors = running.stdout, running.stderr
        if ended and not running.finished:
            self._keep(running)
            notes: tuple[str, ...] = (
                "a background process goes on and holds the output open; what it prints from now on is not shown",
            )
        else:
            running.close()
            notes = (_stop_note(left),) if not ended else (_GOES_ON,) if has_processes(running.pid) else ()
        code = running.completed().code
        return CommandResult(
            output=output,
            code=_shell_code(code) if ended else None,
            timed_out=not ended,
            duration_s=time.monotonic() - job.started,
            notes=notes,
            stderr=errors if job.separate_stderr else None,
        )

    def _tell_watcher(self, sign: str, pid: int | str, mark: str, tag: LimitTag | None = None) -> None:
        if self._watcher is None:
            self._watcher = start_watcher(_WHEN_GONE, env={"PATH": os.defpath})
        if self._watcher is not None:
            limits = f"{tag.signals} {tag.queue_bytes}" if tag else "- -"
            self._watcher.send(f"{sign} {pid} {mark} {limits}\n".encode())

    def _keep(self, running: Running) -> None:
        # a closed pipe would end the job with SIGPIPE, a full one would block it: keep it drained
        self._background.append(running)
        if len(self._background) > _KEPT_PIPES:
            self._background.pop(0).close()

    def _drain(self) -> None:
        for running in tuple(self._background):
            running.pump(0)
            if running.finished:
                self._background.remove(running)
                running.close()


def _too_much(path: str) -> FileAccessDenied:
    return FileAccessDenied(f'"{visible(path)}" was not read: too much at once')


def _stop_note(left: int) -> str:
    if left:
        return f"the command was stopped, but {left} of its processes could not be ended and may still run"
    return "the command was stopped, with every process of it that could be found"


def _shell_code(code: int) -> int:
    """Return the status as a shell would report it: 128 + N for a shell ended by signal N."""
    return 128 - code if code < 0 else code
