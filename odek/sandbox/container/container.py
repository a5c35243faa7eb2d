"""A running sandbox: commands and file accesses in it, and its end.

Satisfies executor.Executor. Commands and file contents travel on stdin; nothing of theirs is in an
argument.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

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
from odek.process import Completed
from odek.sandbox.container import file_protocol, scripts
from odek.sandbox.container.exec import Commands, ContainerPipe, Outcome
from odek.sandbox.container.exec_stream import OUTPUT_LIMIT_BYTES
from odek.sandbox.container.facts import ContainerFacts
from odek.sandbox.container.failure_reasons import Counters, explain_command, name_limit, needs_counters
from odek.sandbox.container.file_protocol import attachment_path, is_attachment, relative_path, relative_place
from odek.sandbox.container.lifecycle import Lifecycle
from odek.sandbox.container.spares import WaitingExec
from odek.sandbox.docker import Docker, DockerProcess
from odek.sandbox.spec import DEFAULT_HOME, SandboxSpec
from odek.sandbox_grammar import ATTACHMENTS, WORKSPACE
from odek.text import truncate, visible, visible_lines

FILE_TIMEOUT_S = 60.0
_LAST_WORDS_BYTES = 4096  # of a failed command, to find the reason in
_SHELL_VARIABLES = "/tmp/.odek-variables"
_MAX_REDIRECTIONS = 3
# Docker's own, Ctrl-P Ctrl-Q, belong to shells and editors, and so may those of the user's configuration.
# The first key waits for the next one, so it is a rare one, too.
_NO_DETACH_KEYS = "ctrl-^,ctrl-_,ctrl-^,ctrl-],ctrl-^,ctrl-_,ctrl-^,ctrl-]"

_REFUSALS = {
    scripts.LEFT_WORKSPACE: "it leaves the workspace",
    scripts.MISSING: "there is no such file",
    scripts.LOOP: "its links go round in circles",
    scripts.NO_FOLDER: "a folder on the way cannot be made",
    scripts.NOT_A_FILE: "it is not a regular file",
    scripts.NOT_WRITABLE: "it cannot be written",
    scripts.CHANGED: "it has changed since it was read",
    scripts.ELSEWHERE: "its links change all the time",
    scripts.INCOMPLETE: "its content did not arrive as a whole",
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
        lease: DockerProcess,
        watcher: DockerProcess | None = None,
        new_nonce: Callable[[], str],
        clock: Callable[[], float] = time.monotonic,
        spares: int = 0,
        first: WaitingExec | None = None,
    ) -> None:
        """`lease` and `watcher`: see Lifecycle; `spares`: how many execs may wait for a command, as `first` does."""
        self.facts = facts
        self.spec = spec
        """what it was started as"""
        self._new_nonce = new_nonce
        self._life = Lifecycle(docker, spec, facts, lease=lease, watcher=watcher, clock=clock)
        self._commands = Commands(self._life, new_nonce, spares=spares, first=first)
        home = (("HOME", facts.home),) if facts.home != dict(spec.env).get("HOME", DEFAULT_HOME) else ()
        self._prelude = _exports((*spec.env, *home))

    def expect(self, count: int) -> None:
        """See executor.Executor: execs are started that wait for them, and those beyond the usual few ended."""
        self._commands.expect(count)

    def run(self, command: str, *, timeout_s: float) -> CommandResult:
        """Run `command` with `sh` in /workspace.

        Stops its whole process tree when `timeout_s` have passed, or on a cancel, which is then
        raised again. Raises SandboxLost when the container is gone or cannot stop the command.
        """
        watch = current_watch()
        if watch is not None:
            watch.begin()
        (result,) = self._run_all((CommandRequest(command=command, timeout_s=timeout_s),), apart=False, watch=watch)
        return result

    def run_many(self, requests: Sequence[CommandRequest]) -> tuple[CommandResult, ...]:
        """Run commands at the same time, each as `run` does; see executor.Executor."""
        return self._run_all(requests, apart=True)

    def read(self, path: str, *, limit_bytes: int) -> bytes:
        """Return the bytes of a file of the workspace; see executor.Executor."""
        limit = str(limit_bytes + 1)
        if self.spec.attachments and is_attachment(path):
            arguments: tuple[str, ...] = (attachment_path(path), limit, ATTACHMENTS)
        else:
            arguments = (relative_path(path), limit)
        done = self._file_call(scripts.READ, arguments, b"", limit_bytes)
        if done.result.code != 0:
            raise self._refusal(path, "read", done)
        if done.result.output.size_bytes > limit_bytes:
            raise FileAccessDenied(f'cannot read "{visible(path)}": it is larger than {limit_bytes} bytes')
        return done.result.output.data

    def read_many(
        self, paths: Sequence[str], *, limit_bytes: int, total_bytes: int
    ) -> tuple[bytes | FileAccessDenied, ...]:
        """Return the bytes of several files by one call; see executor.Executor."""
        if self.spec.attachments and any(map(is_attachment, paths)):  # a few: one by one will do
            return tuple(self._read_or_refusal(path, limit_bytes) for path in paths)
        mark = self._new_nonce()
        text = file_protocol.read_command(paths, mark, limit_bytes=limit_bytes, total_bytes=total_bytes)
        done = self._look(text, timeout_s=FILE_TIMEOUT_S, limit_bytes=total_bytes + file_protocol.room_for(paths))
        return file_protocol.parse_contents(
            done.output.head, paths, mark, limit_bytes=limit_bytes, total_bytes=total_bytes
        )

    def write(
        self, path: str, data: bytes, *, replacing: bytes | None, guard: Callable[[str], None] | None = None
    ) -> None:
        """Put `data` into a file of the workspace; see executor.Executor."""
        relative = place = relative_path(path)
        expected = "" if replacing is None else hashlib.sha256(replacing).hexdigest()
        temporary = f".odek-{self._new_nonce()}.tmp"
        arguments = (relative, temporary, str(len(data)), expected)
        for _ in range(_MAX_REDIRECTIONS):
            if guard is not None:
                guard(place)
            wanted = () if guard is None else (place,)
            done = self._file_call(scripts.WRITE, (*arguments, *wanted), data, 0)
            if done.result.code == 0:
                return
            if done.result.code != scripts.ELSEWHERE:
                break
            place = done.result.output.data.decode("utf-8", "surrogateescape")
        raise self._refusal(path, "write", done)

    def stat(self, path: str) -> Entry:
        """Return what is at a path; see executor.Executor."""
        return self._list(path, ScanOptions(depth=0), follow=False).top

    def walk(self, path: str, how: ScanOptions) -> DirScan:
        """Return what is in a folder; see executor.Executor."""
        return self._list(path, how, follow=True)

    def _read_or_refusal(self, path: str, limit_bytes: int) -> bytes | FileAccessDenied:
        try:
            return self.read(path, limit_bytes=limit_bytes)
        except FileAccessDenied as refusal:
            return refusal

    def attach(self, name: str, data: bytes) -> None:
        """Put a file into the folder of attached files, which the spec must have asked for (D-3).

        Nothing of it touches the host. Raises FileAccessDenied.
        """
        done = self._file_call(scripts.ATTACH, (ATTACHMENTS, name, str(len(data))), data, 0)
        if done.result.code != 0:
            raise self._refusal(f"{ATTACHMENTS}/{name}", "write", done)

    def close(self) -> str:
        """End the container. Return "" or a sentence about what was left behind. Never raises an
        ordinary error; may be called again."""
        left = self._life.close()
        self._commands.close()
        return left

    def open_pipe(self, argv: Sequence[str], *, env: tuple[tuple[str, str], ...] = ()) -> ContainerPipe:
        """Start a program in /workspace, to be talked to line by line on its stdin and stdout (R-109).

        It gets `env` besides the variables of every command. Raises SandboxLost, and SandboxError when it cannot be
        started. A program that the image lacks ends at once, with status 127 and its shell's words on stderr.
        """
        return self._commands.open_pipe(f'{self._prelude}{_exports(env)}exec "$@"', argv, timeout_s=FILE_TIMEOUT_S)

    def shell_argv(self, command: tuple[str, ...], *, terminal: bool) -> tuple[str, ...]:
        """Return the docker arguments with which a person works in here; no command: a shell.

        The variables of the commands go there through a file in /tmp, for arguments are public.
        """
        self.run(f"umask 077; export -p >{_SHELL_VARIABLES}", timeout_s=FILE_TIMEOUT_S)
        argv = self._life.exec_argv(scripts.SHELL, (_SHELL_VARIABLES, f"{self.spec.umask:04o}", *(command or ("sh",))))
        return (argv[0], "--tty", "--detach-keys", _NO_DETACH_KEYS, *argv[1:]) if terminal else argv

    def _run_all(
        self, requests: Sequence[CommandRequest], *, apart: bool, watch: OutputWatch | None = None
    ) -> tuple[CommandResult, ...]:
        prelude, *texts = (
            text.encode("utf-8", "surrogateescape")
            for text in (self._prelude, *(request.command for request in requests))
        )
        limits = [request.timeout_s for request in requests]
        outcomes = self._commands.run(
            texts, limits, apart=apart, limit_bytes=OUTPUT_LIMIT_BYTES, prelude=prelude, watch=watch
        )
        return tuple(map(self._explained, outcomes))

    def _explained(self, outcome: Outcome) -> CommandResult:
        """Add to a failure what the kernel knows of it (R-42)."""
        result = outcome.result
        if outcome.unrun is not None:
            why = self._recover(outcome.unrun, outcome.refusal)
            return replace(result, notes=(*result.notes, f"the command did not run: {why}"))
        streams = (result.output, result.stderr) if result.stderr else (result.output,)
        words = "\n".join(stream.data[-_LAST_WORDS_BYTES:].decode("utf-8", "replace") for stream in streams)
        is_counted = outcome.unsaid or needs_counters(result.code, words)
        counted, usable = self._life.count() if is_counted else (Counters(), True)
        notes = explain_command(result.code, words, counted=counted, spec=self.spec)
        if not usable:
            limit = name_limit(result.code, words, counted, self.spec)
            notes = (*notes, self._life.make_room(limit or _last_end(result)))
        return replace(result, notes=(*result.notes, *notes)) if notes else result

    def _list(self, path: str, how: ScanOptions, *, follow: bool) -> DirScan:
        place = relative_place(path)
        mark = self._new_nonce()
        text = file_protocol.list_command(place, how, mark, follow=follow)
        done = self._look(text, timeout_s=how.timeout_s, limit_bytes=file_protocol.LISTING_LIMIT_BYTES)
        if done.code and not done.timed_out:
            raise FileAccessDenied(f'cannot look at "{visible(path)}": {_look_refusal(done)}')
        return file_protocol.parse_listing(done, place, mark, how)

    def _look(self, text: bytes, *, timeout_s: float, limit_bytes: int) -> CommandResult:
        """Run one of our own scripts as commands are run; its stdout is kept from the beginning on.

        Raises FileAccessDenied when it did not run to its end, and was not stopped either.
        """
        (done,) = self._commands.run((text,), (timeout_s,), apart=True, limit_bytes=2 * limit_bytes)
        if done.unsaid:
            self._life.require_usable()
        if done.result.code is None and not done.result.timed_out:
            raise FileAccessDenied(f"cannot look at files: {self._why_not(done)}")
        return done.result

    def _file_call(self, script: str, args: tuple[str, ...], data: bytes, limit_bytes: int) -> Outcome:
        done = self._commands.run_script(
            script, args, data, timeout_s=FILE_TIMEOUT_S, limit_bytes=2 * (limit_bytes + 1) + (1 << 16)
        )
        if done.unsaid:
            self._life.require_usable()
        return done

    def _refusal(self, path: str, doing: str, done: Outcome) -> FileAccessDenied:
        code = done.result.code
        reason = _REFUSALS.get(code or 0)
        words = truncate(_words(done.result), 300)
        if done.result.timed_out:
            reason = "the container took too long"
        elif code is None:
            reason = self._why_not(done)
        elif reason is None:
            reason = words or f"status {code}"
        elif code == scripts.NOT_WRITABLE and self.spec.readonly:
            reason = "the workspace is mounted read-only"
        elif words:  # a full disk, a program that the image lacks
            reason = f"{reason} ({words})"
        return FileAccessDenied(f'cannot {doing} "{visible(path)}": {reason}')

    def _why_not(self, done: Outcome) -> str:
        """Return why a script of ours came to no end."""
        return "; ".join(done.result.notes) if done.unrun is None else self._recover(done.unrun, done.refusal)

    def _recover(self, unrun: Completed, refusal: str) -> str:
        self._commands.drop_spares()  # they take room, and may be what is stopped to make some
        return self._life.recover(unrun, refusal)


def _last_end(result: CommandResult) -> str:
    if result.code is None:
        return "nothing was heard of the last command; its shell may have been replaced or killed"
    return f"the last command ended with status {result.code}"


def _words(result: CommandResult) -> str:
    """Return what the programs of a file script have said, in one line."""
    streams = (result.stderr, result.output) if result.stderr else (result.output,)
    lines = "\n".join(visible_lines(stream.text.strip()) for stream in streams).splitlines()
    return "; ".join(line for line in lines if line.strip())


def _look_refusal(done: CommandResult) -> str:
    if done.code == scripts.NO_PROGRAM:
        return f"the image has no {visible(done.output.text)}"
    return _REFUSALS.get(done.code or 0, f"status {done.code}")


def _exports(pairs: tuple[tuple[str, str], ...]) -> str:
    """Return shell text that exports `pairs` byte for byte; it precedes the command on stdin."""
    return "".join("export {}='{}'\n".format(name, value.replace("'", "'\\''")) for name, value in pairs)
