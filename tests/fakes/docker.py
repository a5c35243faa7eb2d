"""A docker client played from a script; satisfies sandbox.docker.Docker.

    docker = FakeDocker()
    docker.on("version", stdout="20.10.24\n")
    docker.on("exec", has=scripts.CHECK, code=42, stdout=check_output)
    docker.on("run", stdout="odek-ready\n", hold=True)

The first rule whose arguments begin the call, and that is not used up, answers it. A call without
a rule fails the test. Time stands still but for clients that hang: each `pump` of one moves
`now()` on by as long as it would have waited.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from odek.piped import Piped
from odek.process import HELPER_LIMIT_BYTES, Capture, Completed, Output
from odek.sandbox.container import scripts

KILLED = -9
_NO_DAEMON = "Cannot connect to the Docker daemon at unix:///s. Is the docker daemon running?\n"
_SLICE_S = 0.05  # as process.Running: no pump waits longer


@dataclass(slots=True)
class Rule:
    """What the client does when it is called like this."""

    prefix: tuple[str, ...]
    has: str
    stdout: bytes
    stderr: bytes
    code: int
    hang: bool
    hold: bool
    raises: BaseException | None
    raises_in_pump: BaseException | None
    react: Callable[[FakePending], None] | None
    times: int | None
    spare: bool = False
    used: int = 0

    def matches(self, args: tuple[str, ...], *, hold_stdin: bool) -> bool:
        left = (self.times is None or self.used < self.times) and (hold_stdin or not self.spare)
        return (
            left and args[: len(self.prefix)] == self.prefix and (not self.has or any(self.has in arg for arg in args))
        )


@dataclass(frozen=True, slots=True)
class Call:
    """One call as it came in."""

    args: tuple[str, ...]
    stdin: bytes | None
    hold_stdin: bool
    away: bool = False


@dataclass(slots=True)
class FakeDocker:
    """Plays rules; `calls` holds what was called, `clients` the clients in the same order."""

    calls: list[Call] = field(default_factory=list)
    clients: list[FakePending] = field(default_factory=list)
    watchers: list[FakePending] = field(default_factory=list)
    """what is to be called when this process is gone"""
    looked_ahead: list[tuple[str, ...]] = field(default_factory=list)
    """what was to be at work before it is asked for"""
    make: Callable[..., FakePending] = field(default_factory=lambda: FakePending)
    _rules: list[Rule] = field(default_factory=list)
    _now: float = 1000.0

    def on(
        self,
        *prefix: str,
        has: str = "",
        stdout: str | bytes = b"",
        stderr: str | bytes = b"",
        code: int = 0,
        hang: bool = False,
        hold: bool = False,
        raises: BaseException | None = None,
        raises_in_pump: BaseException | None = None,
        react: Callable[[FakePending], None] | None = None,
        times: int | None = None,
        spare: bool = False,
    ) -> FakeDocker:
        """Add a rule.

        `has`: a text that one of the arguments must hold. `hang`: it never ends by itself. `hold`:
        it ends when its stdin is released. `raises`: instead of starting; `raises_in_pump`: once,
        while it is waited for. `react`: called with the client as it starts, to choose its answer. `spare`: only
        for a client that is started ahead, its stdin held open.
        """
        rule = Rule(
            prefix, has, _bytes(stdout), _bytes(stderr), code, hang, hold, raises, raises_in_pump, react, times, spare
        )  # fmt: skip
        self._rules.append(rule)
        return self

    def without_daemon(self, *, times: int | None = None) -> FakeDocker:
        """Add what the client answers about a daemon that is not there, `times` times; then other rules answer."""
        self.on("info", stdout='{"ServerVersion": ""}\n', stderr=_NO_DAEMON, code=1, times=times)
        return self.on("version", stderr=_NO_DAEMON, code=1, times=times)

    def start(
        self,
        *args: str,
        stdin: bytes | Iterator[bytes] | None = None,
        hold_stdin: bool = False,
        limit_bytes: int = HELPER_LIMIT_BYTES,
        on_stdout: Callable[[bytes], None] | None = None,
        on_stderr: Callable[[bytes], None] | None = None,
        away: bool = False,
    ) -> FakePending:
        stdin = stdin if stdin is None or isinstance(stdin, bytes) else b"".join(stdin)
        rule = next((rule for rule in self._rules if rule.matches(args, hold_stdin=hold_stdin)), None)
        assert rule is not None, f"not in the script: docker {args!r}"
        rule.used += 1
        self.calls.append(Call(args, stdin, hold_stdin, away))
        if rule.raises is not None:
            raise rule.raises
        client = self.make(
            self, args, rule, stdin=stdin, limit_bytes=limit_bytes, on_stdout=on_stdout, on_stderr=on_stderr
        )
        self.clients.append(client)
        return client

    def ahead(self, *calls: tuple[str, ...]) -> AbstractContextManager[None]:
        self.looked_ahead += calls
        return nullcontext()  # a call counts when it is asked for

    def open_pipe(self, *args: str, on_stderr: Callable[[bytes], None]) -> Piped:
        raise AssertionError(f"not in the script: docker {args!r}, as a pipe, with {on_stderr}")

    def when_gone(self, *args: str) -> FakePending | None:
        rule = Rule((), "", b"", b"", 0, False, True, None, None, None, None)
        client = self.make(self, args, rule, stdin=None, limit_bytes=1, on_stdout=None, on_stderr=None)
        self.watchers.append(client)
        return client

    def kill_when_gone(self, client: FakePending) -> FakePending | None:
        return self.when_gone("kill", *client.args)

    def now(self) -> float:
        return self._now

    def pass_time(self, seconds: float) -> None:
        self._now += seconds

    def sleep(self, seconds: float) -> None:
        self._now += seconds

    def end_commands(self, _client: FakePending) -> None:
        """End every `exec` at work, as a `react` of what stops them."""
        for client in self.clients:
            client.ended = client.ended or client.args[0] == "exec"

    def called(self, *prefix: str) -> list[tuple[str, ...]]:
        """Return the calls that begin with `prefix`."""
        return [call.args for call in self.calls if call.args[: len(prefix)] == prefix]

    def assert_all_used(self) -> None:
        unused = [rule.prefix for rule in self._rules if not rule.used]
        assert not unused, f"never called: {unused!r}"

    def assert_no_client_left(self, *but: str) -> None:
        """Every client was waited for or closed, those apart whose arguments begin with `but`."""
        left = [client.args for client in self.clients if not client.closed]
        assert [args for args in left if not but or args[: len(but)] != but] == []


class FakePending:
    """A client at work; satisfies sandbox.docker.DockerProcess."""

    def __init__(
        self,
        docker: FakeDocker,
        args: tuple[str, ...],
        rule: Rule,
        *,
        stdin: bytes | None,
        limit_bytes: int,
        on_stdout: Callable[[bytes], None] | None,
        on_stderr: Callable[[bytes], None] | None,
    ) -> None:
        self.args = args
        self.stdin = stdin
        self.sent = b""
        """what was written to the held stdin, but for what was supplied"""
        self.on_send: Callable[[FakePending, bytes], None] | None = None
        self.on_supply: Callable[[FakePending], None] | None = None
        self.code = rule.code
        self.out = [rule.stdout] if rule.stdout else []
        """chunks of stdout still to come, one a pump"""
        self.err = [rule.stderr] if rule.stderr else []
        self.hang = rule.hang
        self.hold = rule.hold
        self.raises_in_pump = rule.raises_in_pump
        self.released = False
        self.killed = False
        self.closed = False
        self.ended = False
        """set by a test: the client has ended whatever it was to do"""
        self._docker = docker
        self._timed_out = False
        self._stdout = Capture(limit_bytes)
        self._stderr = Capture(limit_bytes)
        self._on_stdout = on_stdout or self._stdout.feed
        self._on_stderr = on_stderr or self._stderr.feed
        if rule.react is not None:
            rule.react(self)

    @property
    def exited(self) -> bool:
        if self.ended or self.killed:
            return True
        return not self.out and not self.err and not self.hang and (not self.hold or self.released)

    @property
    def finished(self) -> bool:
        return self.exited and (self.killed or not (self.out or self.err))

    @property
    def stdout(self) -> Output:
        return self._stdout.output()

    def pump(self, timeout_s: float) -> None:
        assert not self.closed, f"pumped after its end: docker {self.args!r}"
        if self.raises_in_pump is not None:
            error, self.raises_in_pump = self.raises_in_pump, None
            raise error
        if self.out:
            self._on_stdout(self.out.pop(0))
        elif self.err:
            self._on_stderr(self.err.pop(0))
        elif not self.exited:
            self._docker.pass_time(min(max(timeout_s, 0), _SLICE_S))

    def send(self, data: bytes) -> None:
        self.sent += data
        if self.on_send is not None:
            self.on_send(self, data)

    def supply(self, data: bytes) -> None:
        assert self.hold
        self.stdin, self.released = data, True
        if self.on_supply is not None:
            self.on_supply(self)

    def release(self) -> None:
        self.released = True

    def kill(self) -> None:
        if not self.exited:
            self.killed, self.code = True, KILLED

    def await_exit(self, timeout_s: float) -> None:
        if not self.exited:
            self._docker.pass_time(timeout_s)

    def close(self) -> None:
        self.kill()
        self.closed = True

    def wait(self, timeout_s: float) -> Completed:
        deadline = self._docker.now() + timeout_s
        try:
            while not self.finished:
                if self._docker.now() >= deadline:
                    self._timed_out = True
                    break
                self.pump(deadline - self._docker.now())
        finally:
            self.close()
        return self.completed()

    def completed(self) -> Completed:
        return Completed(
            argv=("docker", *self.args),
            code=self.code if self.exited else KILLED,
            stdout=self._stdout.output(),
            stderr=self._stderr.output(),
            timed_out=self._timed_out,
        )


def answer_check(found: str, *, code: int = scripts.CHECKED) -> Callable[[FakePending], None]:
    """Return a `react` for the first exec of a container: it says what its check has found, once that has its stdin."""

    def react(client: FakePending) -> None:
        mark = client.args[client.args.index(scripts.CHECK_AND_RUN) + 2]

        def send(client: FakePending, data: bytes) -> None:
            assert re.search(rb"\A[^\n]+\n#\.odek-nonce-[0-9a-f]+\n\Z", data)
            client.out.append(f"{found}\n{mark} {scripts.CHECKED_WORD} {code}\n".encode())
            client.on_send = None  # it says nothing more: a command gets an exec of its own

        client.on_send = send

    return react


def completed(*, code: int = 0, stdout: str = "", stderr: str = "", timed_out: bool = False) -> Completed:
    """Return a finished docker call."""
    return Completed(
        argv=("docker",), code=code, stdout=_output(stdout), stderr=_output(stderr), timed_out=timed_out
    )  # fmt: skip


def _output(text: str) -> Output:
    data = text.encode()
    return Output(head=data, tail=b"", size_bytes=len(data))


def _bytes(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text
