"""The place where calls are carried out: prepared when odek starts, opened by the first call that needs it (R-171).

A client starts a second copy of a server to see what it offers, and never uses it: that costs no container. What
fails is tried again by a later call, five seconds later at the earliest.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Lock

from odek.app.config import Config
from odek.app.isolation import CommandProfile, decide_sandbox
from odek.app.prepared_sandboxes import PreparedSandboxes
from odek.app.runtime import Runtime
from odek.app.sandbox import plan_sandbox, prepare_sandbox
from odek.app.workspace import Workspace, open_workspace, quote_docker
from odek.cancel import CancelToken
from odek.errors import OdekError, UsageError
from odek.mcp_server.background import Background
from odek.sandbox.container.facts import ContainerFacts
from odek.sandbox.errors import SandboxLost

RETRY_S = 5.0


class Place:
    """One workspace at a time, for all calls of the process; may be used by several threads."""

    def __init__(
        self,
        profile: CommandProfile,
        config: Config,
        runtime: Runtime,
        *,
        changed: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`changed` is called, in any thread, when it is known better what the place is."""
        self.config = config
        self.runtime = runtime
        self.decision = decide_sandbox(profile, config.settings)
        self.profile = profile
        self._changed = changed
        self._clock = clock
        self._token = CancelToken()
        self._lock = Lock()
        self._prepared: Background[PreparedSandboxes] | None = None
        self._opening: Background[Workspace] | None = None
        self._failed_s = 0.0
        """when the last opening failed"""
        self._facts: ContainerFacts | None = None
        """of the container, or of the one that is planned"""
        self._planned = Event()

    def prepare(self) -> None:
        """Begin to make ready what a start needs; returns at once."""
        with self._lock:
            self._prepare()

    def facts(self, *, timeout_s: float) -> ContainerFacts | None:
        """Return what the container is, or will be; None where that is not known in time, and on the host."""
        if self.decision.sandboxed:
            self._planned.wait(timeout_s)
        return self._facts

    def workspace(self) -> Workspace:
        """Return the workspace, open; waits for that. Raises OdekError."""
        with self._lock:
            if self._opening is None or (self._opening.failed and self._clock() >= self._failed_s + RETRY_S):
                self._opening = Background(self._open, self._token)
            opening = self._opening
        return opening.wait()

    def is_open(self) -> bool:
        """Return whether there is a workspace at present."""
        opening = self._opening
        return opening is not None and opening.done and not opening.failed

    def lost(self, workspace: Workspace, error: SandboxLost) -> SandboxLost:
        """Close a workspace whose container is gone, once; return `error` with its cause. The next call opens one."""
        if not self._is_current(workspace):
            return SandboxLost("the sandbox was started anew meanwhile, or lost by another call", hint="call again")
        explained = workspace.explain_loss(error)
        self._drop(workspace)
        hint = "the next call gets a new container; what the old one had in /tmp is gone"
        return SandboxLost(explained.message, hint=hint, detail=explained.detail)

    def restart(self) -> Workspace:
        """Return a new workspace; what is at work in the old one ends. Raises OdekError."""
        if not self.decision.sandboxed:
            raise UsageError("commands run on this host; there is no sandbox to start again")
        with self._lock:
            opening = self._opening
        if opening is not None and not opening.failed:
            self._drop(opening.wait())
        return self.workspace()

    def close(self) -> None:
        """End the workspace, and what is being made ready."""
        self._token.cancel()
        with self._lock:
            opening, prepared = self._opening, self._prepared
        for work in (opening, prepared):
            if work is not None:
                work.join(RETRY_S)
        if self.is_open() and opening is not None:
            opening.wait().close()

    def _is_current(self, workspace: Workspace) -> bool:
        opening = self._opening
        return opening is not None and opening.done and not opening.failed and opening.wait() is workspace

    def _drop(self, workspace: Workspace) -> None:
        with self._lock:
            if not self._is_current(workspace):
                return  # another call was quicker
            self._opening = None
        workspace.close()

    def _prepare(self) -> Background[PreparedSandboxes] | None:
        if self.decision.sandboxed and (self._prepared is None or self._prepared.failed):
            self._prepared = Background(self._make_ready, self._token)
        return self._prepared

    def _make_ready(self) -> PreparedSandboxes:
        runtime = self.runtime
        try:
            plan = plan_sandbox(self.config, runtime)
            for look_up in plan.before_approval:
                look_up()
            self._facts = plan.facts(name=f"odek-{runtime.host.pid}-1")
        finally:
            self._planned.set()  # also when it failed: there is nothing to wait for
        self._changed()
        return PreparedSandboxes(prepare_sandbox(plan), hint="start this server again, by its client")

    def _open(self) -> Workspace:
        try:
            with self._lock:
                preparing = self._prepare()
            start = preparing.wait().start if preparing is not None else None
            workspace = open_workspace(self.profile, self.config, self.runtime, start=start)
        except BaseException as error:
            self._failed_s = self._clock()
            if isinstance(error, OdekError):  # the client gets the message and the hint
                quote_docker(error, self.runtime.emit)
            raise
        if workspace.facts is not None and workspace.facts != self._facts:
            self._facts = workspace.facts
            self._planned.set()
            self._changed()
        return workspace
