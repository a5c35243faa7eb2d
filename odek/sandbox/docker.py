"""The docker client as a seam, and the one question that tells whether a daemon is there.

`Docker` is what the sandbox needs of it; `DockerCli` is the real one; tests bring a fake that
fails on an unscripted call. Only `probe` may find the daemon unreachable (D-11): its command line
holds nothing that a user, a project or a model chose, so its outcome cannot be steered.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol

from odek.errors import ExecutableMissing, SpawnFailed
from odek.events import Progress, Sink
from odek.patterns import pattern
from odek.piped import Piped
from odek.process import HELPER_LIMIT_BYTES, Capture, Completed, Output, Running, run_attached, start_watcher
from odek.sandbox.errors import DaemonUnreachable, SandboxConfigError
from odek.sandbox.podman import NOTICE
from odek.text import truncate, visible, visible_lines

PROBE_ARGV = ("version", "--format", "{{.Server.Version}}")
INFO_ARGV = ("info", "--format", "{{json .}}")
_TRUE_FOR_S = 5.0  # what was asked ahead: a question may be open meanwhile, and a daemon come or go
PROBE_TIMEOUT_S = 10.0
CALL_TIMEOUT_S = 30.0
PROGRESS_EVERY_S = 5.0
_QUOTED_LINES = 20
_STYLE = pattern(r"\x1b\[[0-9;]*m")
_WHEN_GONE = 'while read -r _; do :; done; exec "$@" </dev/null >/dev/null 2>&1'
# the client has a process group of its own
_KILL_WHEN_GONE = """\
below() { for child in $(cat "/proc/$1/task/"*/children 2>/dev/null); do echo "$child"; below "$child"; done; }
while read -r _; do :; done
all=$(below "$1") tries=0
kill -s TERM -- "-$1"
while kill -s 0 "$1" 2>/dev/null && [ $((tries += 1)) -le 20 ]; do sleep 0.1; all="$all $(below "$1")"; done
for each in $all; do all="$all $(below "$each")"; done
for each in "-$1" $all; do kill -s KILL -- "$each"; done 2>/dev/null
"""
"""ends a client and what it has started: podman's own, or a signal at a bad moment, would leave a build's RUN step at
work, a process in a container that is the client's grandchild (M-28)"""
_AWAY = "/proc"  # where nothing can be made
_END_S = 3.0  # it has two seconds
_NOT_DOCKER_HINT = "`docker version` must print a server version; `command -v docker` shows which program it is"

# How Docker's client says that nobody answered (20.10 to 29).
_NOBODY_THERE = pattern(
    r"Cannot connect to the Docker daemon at |failed to connect to the docker API at "
    r"|error during connect: .*(?:connection refused|no such host|no such file or directory|i/o timeout"
    r"|deadline exceeded|no route to host|(?:network|host) is (?:unreachable|down)|connection timed out"
    r"|Temporary failure in name resolution|server misbehaving|has exited with exit status 255)"
    r"|[Uu]nable to connect to Podman socket|Cannot connect to Podman",
)
_DENIED = pattern(r"permission denied while trying to connect to the (?:Docker daemon|docker API)", re.IGNORECASE)
OWN_FAILURES = (1, 125)
"""exit statuses with which Docker's client, and podman's, say that something was refused"""
_VERSIONS_APART = pattern(
    r"client version (?P<client>[0-9.]+) is too (?P<how>old|new)\b(?:.*?API version is (?P<limit>[0-9]+[0-9.]*[0-9]))?"
    r"|API version (?P<daemon>[0-9.]+) is not supported by this client"
)
"""how a daemon says that a client's API is not one of its own, and a client (from 29 on) that a daemon's is not"""
_NO_START = pattern(r"Failed to initialize|unable to resolve docker endpoint")
_ANSWERED = pattern(
    r"Error response from daemon|request returned|malformed HTTP|connection reset|: EOF\b|\btls: |x509: "
    r"|server gave HTTP response to HTTPS client|Client sent an HTTP request to an HTTPS server"
)

# Variables of the user that would change what our own calls mean.
_DROPPED = pattern(
    r"DOCKER_DEFAULT_PLATFORM|DOCKER_CONTENT_TRUST.*|DOCKER_BUILDKIT|BUILDX_.*|BUILDKIT_.*|ODEK_.*|.*_API_KEY"
)

# buildx runs git in the context of a build to describe it, and git runs what the .git/config there
# names (core.fsmonitor): on this host, before anything is contained.
_FIXED = {
    "DOCKER_CLI_HINTS": "false",
    "BUILDX_GIT_INFO": "false",
    "BUILDX_GIT_LABELS": "false",
    "BUILDX_GIT_CHECK_DIRTY": "false",
    "BUILDX_NO_DEFAULT_ATTESTATIONS": "true",
}


class DockerProcess(Protocol):
    """A docker client at work: the part of process.Running that the sandbox uses."""

    @property
    def exited(self) -> bool: ...
    @property
    def finished(self) -> bool: ...
    @property
    def stdout(self) -> Output: ...
    def pump(self, timeout_s: float) -> None: ...
    def send(self, data: bytes) -> None: ...
    def supply(self, data: bytes) -> None: ...
    def release(self) -> None: ...
    def kill(self) -> None: ...
    def await_exit(self, timeout_s: float) -> None: ...
    def close(self) -> None: ...
    def wait(self, timeout_s: float) -> Completed: ...
    def completed(self) -> Completed: ...


class Docker(Protocol):
    """Starts one docker command; arguments are what follows `docker`."""

    def start(
        self,
        *args: str,
        stdin: bytes | Iterator[bytes] | None = None,
        hold_stdin: bool = False,
        limit_bytes: int = HELPER_LIMIT_BYTES,
        on_stdout: Callable[[bytes], None] | None = None,
        on_stderr: Callable[[bytes], None] | None = None,
        away: bool = False,
    ) -> DockerProcess:
        """Return the client at work, `away` from the working directory if need be. Raises ExecutableMissing."""
        ...

    def ahead(self, *calls: tuple[str, ...]) -> AbstractContextManager[None]:
        """Have `calls`, which only look, at work from the beginning of the block on, at the same time.

        `start` with the same arguments returns the client that works already, so that the answers are judged in the
        order in which they are asked for, and failures said there. What was not asked for is ended with the block. A
        call that an outer block has at work is not made twice.
        """
        ...

    def open_pipe(self, *args: str, on_stderr: Callable[[bytes], None]) -> Piped:
        """Return the client at work, to be talked to line by line. Raises ExecutableMissing."""
        ...

    def when_gone(self, *args: str) -> DockerProcess | None:
        """Have one docker command run when this process has ended, or when what is returned is released.

        Closing what is returned calls it off. None: there is nothing that could do it.
        """
        ...

    def kill_when_gone(self, client: DockerProcess) -> DockerProcess | None:
        """Have a client ended when this process has ended; closing what is returned calls it off. None as above."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Begun:
    """A call that was started ahead and not asked for yet."""

    args: tuple[str, ...]
    client: Running
    since_s: float


class DockerCli:
    """The real client, with an environment in which its calls mean what they say."""

    def __init__(
        self,
        executable: str,
        env: Mapping[str, str],
        *,
        settle: Callable[[], Mapping[str, str]] = dict,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`settle` is asked once, before the first call, for variables that go before those of `env`."""
        self._executable = executable
        self._settle = settle
        self._is_settled = False
        self._env = {name: value for name, value in env.items() if not _DROPPED.fullmatch(name)}
        self._env |= _FIXED
        self._clock = clock
        self._begun: deque[_Begun] = deque()

    def start(
        self,
        *args: str,
        stdin: bytes | Iterator[bytes] | None = None,
        hold_stdin: bool = False,
        limit_bytes: int = HELPER_LIMIT_BYTES,
        on_stdout: Callable[[bytes], None] | None = None,
        on_stderr: Callable[[bytes], None] | None = None,
        away: bool = False,
    ) -> DockerProcess:
        is_plain = stdin is None and not hold_stdin and on_stdout is None and on_stderr is None
        return (self._take_begun(args) if is_plain else None) or Running(
            (self._executable, *args),
            env=self._settled(),
            stdin=stdin,
            hold_stdin=hold_stdin,
            cwd=_AWAY if away and os.path.isdir(_AWAY) else None,
            limit_bytes=limit_bytes,
            on_stdout=on_stdout,
            on_stderr=on_stderr,
        )

    @contextmanager
    def ahead(self, *calls: tuple[str, ...]) -> Iterator[None]:
        begun: list[_Begun] = []
        try:
            for args in calls:
                if any(args == known.args for known in self._begun):
                    continue
                with suppress(ExecutableMissing, SandboxConfigError):  # said when it is asked for
                    client = Running((self._executable, *args), env=self._settled())
                    begun.append(_Begun(args=args, client=client, since_s=self._clock()))
            self._begun.extend(begun)
            yield
        finally:
            self._drop(begun)

    def _drop(self, begun: Iterable[_Begun]) -> None:
        for entry in begun:
            with suppress(ValueError):  # of those that were asked for
                self._begun.remove(entry)
                entry.client.close()

    def _take_begun(self, args: tuple[str, ...]) -> Running | None:
        for entry in tuple(self._begun):
            with suppress(ValueError):  # another thread was quicker
                if entry.args == args:
                    self._begun.remove(entry)
                    if self._clock() - entry.since_s <= _TRUE_FOR_S:
                        return entry.client
                    entry.client.close()
        return None

    def open_pipe(self, *args: str, on_stderr: Callable[[bytes], None]) -> Piped:
        return Piped((self._executable, *args), env=self._settled(), on_stderr=on_stderr)

    def when_gone(self, *args: str) -> DockerProcess | None:
        return start_watcher(_WHEN_GONE, self._executable, *args, env=self._settled())

    def kill_when_gone(self, client: DockerProcess) -> DockerProcess | None:
        if not isinstance(client, Running):
            return None
        return start_watcher(_KILL_WHEN_GONE, str(client.pid), env={"PATH": os.defpath})

    def attach(self, *args: str) -> int:
        """Run a command on this process's own terminal or streams and return its exit status."""
        return run_attached((self._executable, *args), env=self._settled())

    def _settled(self) -> Mapping[str, str]:
        if not self._is_settled:
            self._env |= self._settle()
            self._is_settled = True
        return self._env


class ClientMissing(ExecutableMissing):
    """There is no program `docker` on PATH at all."""


class NoDocker:
    """The client of a machine without one: every call says so."""

    def start(self, *_args: str, **_options: object) -> DockerProcess:
        raise ClientMissing("docker was not found on PATH")

    def ahead(self, *_calls: tuple[str, ...]) -> AbstractContextManager[None]:
        return nullcontext()

    def open_pipe(self, *_args: str, **_options: object) -> Piped:
        raise ClientMissing("docker was not found on PATH")

    def when_gone(self, *_args: str) -> DockerProcess | None:
        return None

    def kill_when_gone(self, _client: DockerProcess) -> DockerProcess | None:
        return None


def run_docker(docker: Docker, *args: str, stdin: bytes | None = None, timeout_s: float = CALL_TIMEOUT_S) -> Completed:
    """Run one docker command to its end."""
    return docker.start(*args, stdin=stdin).wait(timeout_s)


def run_long(
    docker: Docker,
    *args: str,
    doing: str,
    emit: Sink,
    timeout_s: float,
    every_s: float = PROGRESS_EVERY_S,
    stdin: bytes | Iterator[bytes] | None = None,
    limit_bytes: int = HELPER_LIMIT_BYTES,
    clock: Callable[[], float] = time.monotonic,
) -> Completed:
    """Run one docker command that may take minutes; the client is ended with odek, or when its time is up.

    Every `every_s` seconds `emit` gets `doing`, how long it has taken, and the last line that was printed:
    some commands report on stdout, some on stderr.
    """
    errors = Capture(limit_bytes)
    started = shown = clock()
    client = docker.start(*args, stdin=stdin, limit_bytes=limit_bytes, on_stderr=errors.feed)
    watcher = docker.kill_when_gone(client)
    try:
        while not client.finished and clock() - started <= timeout_s:
            if clock() - shown >= every_s:
                shown = clock()
                last = _last_line(client.stdout.text) or _last_line(errors.output().text)
                emit(Progress(f"{doing}: {shown - started:.0f} s, {last or 'waiting'}"))
            client.pump(0.5)
        timed_out = not client.finished
    finally:
        if watcher is not None:
            _end_by(watcher, client)
        client.close()
    return replace(client.completed(), stderr=errors.output(), timed_out=timed_out)


def _end_by(watcher: DockerProcess, client: DockerProcess) -> None:
    """End a client that is still at work as the end of odek would, and its watcher in any case."""
    if not client.exited:
        watcher.release()
        deadline = time.monotonic() + _END_S
        while not watcher.exited and time.monotonic() < deadline:
            client.await_exit(0.02)  # until then its pid stays taken, and the watcher waits
            watcher.await_exit(0.02)
    watcher.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspected:
    """What an `inspect` has shown."""

    done: Completed
    objects: tuple[dict[str, Any], ...] | None
    """those that exist, some of several may not (then the exit status is 1); None: Docker printed something else"""

    @property
    def only(self) -> dict[str, Any] | None:
        """the one object that was asked for; None when it is not there, or that is not known"""
        return self.objects[0] if self.done.code == 0 and self.objects is not None and len(self.objects) == 1 else None


def inspect(docker: Docker, kind: str, *names: str, timeout_s: float = CALL_TIMEOUT_S) -> Inspected:
    """Look at containers, images or networks by name or ID; `kind` is "container", "image" or "network"."""
    done = run_docker(docker, *inspect_argv(kind, *names), timeout_s=timeout_s)
    return Inspected(done=done, objects=None if done.timed_out else _read_array(done.stdout.text))


def inspect_argv(kind: str, *names: str) -> tuple[str, ...]:
    """Return the arguments after `docker` that show objects of one kind as JSON."""
    head = ("inspect", "--type", kind) if kind == "container" else (kind, "inspect")
    return (*head, "--", *names)


def find_image_argv(ref: str) -> tuple[str, ...]:
    """Return the arguments that print the ID of a local image, and after a blank its volumes as a JSON object."""
    if not ref.strip("0123456789abcdef"):  # it would also match the beginning of an image's ID
        ref += ":latest"
    return ("image", "inspect", "--format", "{{.Id}} {{with .Config}}{{json .Volumes}}{{end}}", "--", ref)


def probe(docker: Docker, *, sleep: Callable[[float], None], timed_out: bool = False) -> str:
    """Return the version of the daemon.

    Raises DaemonUnreachable when there is none, and SandboxConfigError when something answered
    that is not a usable daemon. One more try follows a time-out, the caller's as well (`timed_out`): a machine that
    wakes up is slow.
    """
    try:
        done = None if timed_out else run_docker(docker, *PROBE_ARGV, timeout_s=PROBE_TIMEOUT_S)
        if done is None or done.timed_out:
            sleep(1.0)
            done = run_docker(docker, *PROBE_ARGV, timeout_s=PROBE_TIMEOUT_S)
    except SpawnFailed as error:  # nothing was learned about client or daemon: stop rather than run on the host
        raise SandboxConfigError(
            f"the docker client cannot be started: {error.message}",
            hint="`ulimit -a` shows the limits of this shell; a very large environment is another cause",
        ) from error
    except ClientMissing as error:
        raise DaemonUnreachable(
            "no client",
            "the docker client was not found on PATH",
            hint="install Docker (on Debian: apt-get install docker.io)",
        ) from error
    except ExecutableMissing as error:  # it is there, and is not a program that runs here
        raise SandboxConfigError(
            f"the docker client cannot be started: {error.message}", hint=_NOT_DOCKER_HINT
        ) from error
    return read_probe(done)


def read_probe(done: Completed) -> str:
    """Return the version that a finished probe reports; raises as `probe` does. Pure."""
    words = done.stderr.text
    version = done.stdout.text.strip()
    if done.timed_out:
        raise DaemonUnreachable(
            "no answer",
            f"the Docker daemon did not answer within {PROBE_TIMEOUT_S:.0f} seconds, twice",
            hint="restart Docker; `docker version` must print a server version",
        )
    if done.code == 0 and version:
        return version
    if done.code < 0:  # killed before it could tell; that says nothing about the daemon
        raise SandboxConfigError(
            f"the docker client was ended by signal {-done.code} before it could ask the daemon",
            hint="try again; `docker version` must print a server version",
            detail=docker_output(done),
        )
    apart = _VERSIONS_APART.search(words) if done.code in OWN_FAILURES and not version else None
    if apart:
        raise SandboxConfigError(
            "the docker client and the Docker daemon have no version of the API in common",
            hint=_versions_hint(apart),
            detail=docker_output(done),
        )
    if done.code == 0 or version[:1].isdigit() or _ANSWERED.search(words):
        raise SandboxConfigError(
            "something answers in place of a Docker daemon, but not with a version",
            hint="check DOCKER_HOST, `docker context ls` and the versions of client and daemon",
            detail=docker_output(done),
        )
    # Exit status and words must both be those with which Docker's client says that nobody answered; a
    # program of another kind, or a client that could not tell its daemon, has neither (D-25).
    if done.code in OWN_FAILURES and _DENIED.search(words):
        raise DaemonUnreachable(
            "permission denied",
            "no permission to talk to the Docker daemon",
            hint="add your user to the group that owns the Docker socket, and log in again",
            detail=docker_output(done),
        )
    if done.code in OWN_FAILURES and _NOBODY_THERE.search(words) and not _NO_START.search(words):
        raise DaemonUnreachable(
            "no connection",
            "the Docker daemon is not reachable",
            hint="start Docker, or check DOCKER_HOST and `docker context ls`",
            detail=docker_output(done),
        )
    raise SandboxConfigError(
        f"the docker client failed before it could ask a daemon (exit status {done.code})",
        hint=_NOT_DOCKER_HINT,
        detail=docker_output(done),
    )


def _versions_hint(apart: re.Match[str]) -> str:
    """Return which of the two is to be brought up to date. Pure."""
    pinned = "; unset DOCKER_API_VERSION if it is set"
    if apart["how"] == "old":
        needed = f" of API {apart['limit']} or newer" if apart["limit"] else ""
        return f"install a newer docker client{needed}: `docker version` shows the one on PATH{pinned}"
    known = apart["limit"] or apart["daemon"]
    return f"update the Docker daemon{f', which knows API {known}' if known else ''}, or use an older client{pinned}"


def _read_array(text: str) -> tuple[dict[str, Any], ...] | None:
    """Return the objects that an `inspect` has printed, None when it printed something else.

    Lines before the array are a client's chatter (B25).
    """
    start = 0 if text.startswith("[") else text.find("\n[") + 1
    try:
        value = json.loads(text[start:])
    except (ValueError, RecursionError):
        return None
    return tuple(value) if isinstance(value, list) and all(isinstance(each, dict) for each in value) else None


def describe_end(done: Completed) -> str:
    """Return how a client ended, in a few words."""
    return f"signal {-done.code}" if done.code < 0 else f"exit status {done.code}"


def docker_output(done: Completed) -> str:
    """Return Docker's own words, safe to print and of bounded length; they are never parsed.

    stdout comes after stderr because the runtime's refusals arrive there.
    """
    text = visible_lines("\n".join(part for part in (done.stderr.text.strip(), done.stdout.text.strip()) if part))
    lines = [line[:500] for line in text.splitlines() if line.strip() and not line.startswith(NOTICE)]
    return "\n".join(lines[-_QUOTED_LINES:])


def without_style(text: str) -> str:
    """Return a client's output without its colours."""
    return _STYLE.sub("", text)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in re.split(r"[\r\n]+", without_style(text)) if line.strip()]
    return visible(truncate(lines[-1], 100)) if lines else ""
