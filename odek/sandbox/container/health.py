"""Is the container still the one that was proved, and can commands still run in it? (R-42)

A container that was restarted is another one: its /tmp is empty, its servers are gone, and the pipe that
ends it with odek is no longer held by anything. One at its limits is made usable again, or given up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from odek.process import Completed
from odek.sandbox.argv import exec_argv
from odek.sandbox.container import scripts
from odek.sandbox.container.facts import ContainerFacts
from odek.sandbox.container.failure_reasons import (
    COUNTERS,
    FORKED,
    Counters,
    explain_unrun,
    parse_counters,
)
from odek.sandbox.docker import Docker, docker_output, inspect, run_docker
from odek.sandbox.errors import SandboxGivenUp, SandboxLost
from odek.sandbox.spec import SandboxSpec

PROBE_TIMEOUT_S = 10.0
_MADE_ROOM = "everything that was running in the sandbox was stopped to make room for new commands"
_HINT = "nothing was moved to the host; start odek again"
_RESTARTED = "its container was restarted from outside"


class Health:
    """Looks after one container."""

    def __init__(self, docker: Docker, spec: SandboxSpec, facts: ContainerFacts, *, close: Callable[[], str]) -> None:
        """`close` takes the container down."""
        self._docker = docker
        self._spec = spec
        self._facts = facts
        self._close = close
        self.counters = Counters()
        """what had been counted when it was last looked at"""

    def require_running(self, done: Completed) -> dict[str, Any]:
        """Return the state of the container, as `inspect` shows it.

        Raises SandboxLost when that is another one than it was, or it has ended; `done` is the client
        that ended without our wrapper's word.
        """
        shown = (inspect(self._docker, "container", self._facts.id).only or {}).get("State")
        state = shown if isinstance(shown, dict) else {}
        if state.get("Running") is not True:
            self._close()
            raise lost(docker_output(done) or "its container is gone")
        if state.get("Restarting") is True or self._facts.started_at not in ("", state.get("StartedAt")):
            self.give_up(_RESTARTED)
        return state

    def require_same(self, refusal: str) -> None:
        """Raises SandboxLost when the wrapper has found that the container was restarted."""
        if refusal == scripts.RESTARTED:
            self.give_up(_RESTARTED)

    def give_up(self, why: str) -> None:
        """Take the container down, which may still run. Raises SandboxLost."""
        self._close()
        raise SandboxGivenUp(f"the sandbox was lost: {why}", hint=_HINT)

    def count(self) -> tuple[Counters, bool]:
        """Return what the control group has counted since it was last looked at, and whether a process can be made."""
        counted = run_docker(self._docker, *self._exec(COUNTERS), timeout_s=PROBE_TIMEOUT_S)
        before, self.counters = self.counters, parse_counters(counted.stdout.text, default=self.counters)
        return self.counters.since(before), counted.code == FORKED

    def recover(self, done: Completed, refusal: str = "") -> str:
        """Return why the command of `done` did not run, and what was done about it.

        Raises SandboxLost when no command can run in the container any more.
        """
        state = self.require_running(done)
        if state.get("Paused") is True:
            return f"the container is paused; `docker unpause {self._facts.name}` lets it go on"
        counted, usable = self.count()
        why = explain_unrun(done, counted, self._spec, cut=refusal == scripts.CUT)
        return why if usable else f"{why}; {self.make_room(why)}"

    def make_room(self, why: str) -> str:
        """Stop everything in a container in which no process can be made any more; return that in words.

        Raises SandboxLost when that does not help.
        """
        run_docker(self._docker, *self._exec(scripts.STOP_ALL), timeout_s=PROBE_TIMEOUT_S)
        if not self.count()[1]:
            self.give_up(f"no command can be started in it any more: {why}")
        return _MADE_ROOM

    def _exec(self, script: str) -> tuple[str, ...]:
        return exec_argv(self._facts.id, user=self._spec.user, script=script)


def lost(why: str) -> SandboxLost:
    """Return the error that ends a session whose container is gone."""
    return SandboxLost(f"the sandbox was lost: {why}", hint=_HINT)
