"""The life of a started container: whether it is still the one that was verified, and its end (R-38, R-42).

A container that was restarted is another one: its /tmp is empty, its servers are gone, and the pipe that
ends it with odek is no longer held by anything. One at its limits is made usable again, or given up.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from odek.errors import ExecutableMissing
from odek.process import Completed
from odek.sandbox.argv import exec_argv, remove_argv
from odek.sandbox.container import scripts
from odek.sandbox.container.facts import ContainerFacts
from odek.sandbox.container.failure_reasons import (
    COUNTERS,
    FORKED,
    Counters,
    explain_unrun,
    parse_counters,
    parse_init_start,
)
from odek.sandbox.docker import Docker, DockerProcess, docker_output, inspect, run_docker
from odek.sandbox.errors import SandboxGivenUp, SandboxLost
from odek.sandbox.spec import SandboxSpec

PROBE_TIMEOUT_S = 10.0
CLOSE_TIMEOUT_S = 3.0
REMOVE_TIMEOUT_S = 10.0
_MADE_ROOM = "everything that was running in the sandbox was stopped to make room for new commands"
_HINT = "nothing was moved to the host; start odek again"
RESTART_TIMEOUT_S = ROOM_TIMEOUT_S = 5.0
_RESTARTED = "its container was restarted from outside"


class Lifecycle:
    """Looks after one container."""

    def __init__(
        self,
        docker: Docker,
        spec: SandboxSpec,
        facts: ContainerFacts,
        *,
        lease: DockerProcess,
        watcher: DockerProcess | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`lease` ends the container when its stdin is closed, as the end of odek does; `watcher` removes it
        then, should its `sh` not end."""
        self.docker = docker
        self.spec = spec
        self.facts = facts
        self.clock = clock
        self._lease = lease
        self._watcher = watcher
        self._closed = False
        self.counters = Counters()
        """what had been counted when it was last looked at"""

    def close(self) -> str:
        """End the container. Return "" or a sentence about what was left behind. Never raises an
        ordinary error; may be called again."""
        if self._closed:
            return ""
        self._closed = True
        self._lease.pump(0)
        unheld = self._lease.exited  # podman's client ends when the container is restarted, which then runs on
        self._lease.release()
        deadline = self.clock() + CLOSE_TIMEOUT_S
        while not self._lease.exited and self.clock() < deadline:
            self._lease.pump(CLOSE_TIMEOUT_S)
        gone = self._lease.exited and not (unheld and self._state())
        self._lease.close()
        if not gone and not self._remove():
            if self._watcher is not None:
                self._watcher.release()  # it tries once more, when nothing waits for it
            return f"container {self.facts.name} may still exist; remove it with `docker rm -f {self.facts.name}`"
        if self._watcher is not None:
            self._watcher.close()
        return ""

    def _remove(self) -> bool:
        try:
            return run_docker(self.docker, *remove_argv(self.facts.id), timeout_s=REMOVE_TIMEOUT_S).code == 0
        except ExecutableMissing:
            return False

    def require_alive(self) -> None:
        """Raises SandboxLost when the lease has ended, and the container with it, or runs anew without it."""
        if not self._closed:
            self._lease.pump(0)
            if not self._lease.exited:
                return
            state = self._state()
            if _is_up(state) and self._is_another(state):
                self.give_up(_RESTARTED)
        raise lost("its container is gone")

    def require_running(self, words: str = "") -> dict[str, Any]:
        """Return the state of the container, as `inspect` shows it.

        Raises SandboxLost when it has ended, or runs anew. `words`: Docker's own, of a client that ended
        before it had run its command.
        """
        self.require_alive()
        deadline = self.clock() + RESTART_TIMEOUT_S
        state = self._state()
        while state and not _is_up(state) and self.clock() < deadline and not self._lease.exited:
            self._wait(0.2)  # a restart stops it first; one that has really ended is removed, too
            state = self._state()
        if not _is_up(state):
            self.close()
            raise lost(words or "its container is gone")
        if state.get("Restarting") is True or self._is_another(state):
            self.give_up(_RESTARTED)
        return state

    def _is_another(self, state: dict[str, Any]) -> bool:
        return self.facts.started_at not in ("", state.get("StartedAt"))

    def _wait(self, seconds: float) -> None:
        until = self.clock() + seconds
        while self.clock() < until and not self._lease.exited:
            self._lease.pump(seconds)

    def _state(self) -> dict[str, Any]:
        shown = inspect(self.docker, "container", self.facts.id, timeout_s=PROBE_TIMEOUT_S).only or {}
        state = shown.get("State")
        return state if isinstance(state, dict) else {}

    def require_same(self, refusal: str) -> None:
        """Raises SandboxLost when the wrapper has found that the container was restarted."""
        if refusal == scripts.RESTARTED:
            self.give_up(_RESTARTED)

    def give_up(self, why: str) -> None:
        """Take the container down, which may still run. Raises SandboxLost."""
        self.close()
        raise SandboxGivenUp(f"the sandbox was lost: {why}", hint=_HINT)

    def count(self) -> tuple[Counters, bool]:
        """Return what the control group has counted since it was last looked at, and whether a process can be made.

        Raises SandboxLost when this ran in another life of the container.
        """
        counted = run_docker(self.docker, *self.exec_argv(COUNTERS), timeout_s=PROBE_TIMEOUT_S)
        init = parse_init_start(counted.stdout.text)
        if init and self.facts.init_start and init != self.facts.init_start:
            self.give_up(_RESTARTED)
        before, self.counters = self.counters, parse_counters(counted.stdout.text, default=self.counters)
        return self.counters.since(before), counted.code == FORKED

    def require_usable(self) -> None:
        """Make room where no command can run any more. Raises SandboxLost; also in another life of the container."""
        if not self.count()[1]:
            self.make_room("a program of odek's own was ended in it")

    def recover(self, done: Completed, refusal: str = "") -> str:
        """Return why the command of `done` did not run, and what was done about it.

        Raises SandboxLost when no command can run in the container any more.
        """
        state = self.require_running(docker_output(done))
        if state.get("Paused") is True:
            return f"the container is paused; `docker unpause {self.facts.name}` lets it go on"
        before = self.counters
        usable = self.count()[1]
        why = self._explain(done, before, refusal)
        if usable:
            return why
        made_room = self.make_room(why)
        return f"{self._explain(done, before, refusal)}; {made_room}"  # podman can count only now

    def _explain(self, done: Completed, before: Counters, refusal: str) -> str:
        return explain_unrun(done, self.counters.since(before), self.spec, cut=refusal == scripts.CUT)

    def make_room(self, why: str) -> str:
        """Stop everything in a container in which no process can be made any more; return that in words.

        Raises SandboxLost when that does not help, or when it is not the same container any more.
        """
        self.require_running()
        deadline = self.clock() + ROOM_TIMEOUT_S
        while True:  # where the table is full an exec may not start either; and the killed take time to die
            run_docker(self.docker, *self.exec_argv(scripts.STOP_ALL), timeout_s=PROBE_TIMEOUT_S)
            if self.count()[1]:
                return _MADE_ROOM
            if self.clock() >= deadline:
                self.give_up(f"no command can be started in it any more: {why}")
            self._wait(0.2)

    def exec_argv(self, script: str, args: tuple[str, ...] = (), *, call: str = "") -> tuple[str, ...]:
        """Return the docker arguments that run a script in here; see argv.exec_argv."""
        return exec_argv(self.facts.id, user=self.spec.user, script=script, args=args, call=call)


def _is_up(state: dict[str, Any]) -> bool:
    """Return whether a container runs; podman says of a paused one that it does not. Pure."""
    return state.get("Running") is True or state.get("Paused") is True


def lost(why: str) -> SandboxLost:
    """Return the error that ends a session whose container is gone."""
    return SandboxLost(f"the sandbox was lost: {why}", hint=_HINT)
