"""What the workspaces of one process share of MCP servers: what was approved, and in `serve` those of this host."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock, Thread

from odek.cancel import CancelToken, use_token
from odek.errors import Cancelled, OdekError
from odek.mcp.connection import ServerFailed
from odek.mcp.server import Server
from odek.sandbox.errors import SandboxError


class StartedServer:
    """A server whose start goes on in a thread of its own."""

    def __init__(self, server: Server, token: CancelToken) -> None:
        """`token` ends the start, when it is cancelled."""
        self.server = server
        self.failure: Exception | None = ServerFailed("its start came to no end")
        """why it is not ready, once the start is over; None: it is"""
        self._thread = Thread(target=self._connect, args=(CancelToken(token),), daemon=True)
        self._thread.start()

    @property
    def starting(self) -> bool:
        return self._thread.is_alive()

    def wait(self, seconds: float) -> None:
        """Wait so long for the end of the start."""
        self._thread.join(seconds)

    def end(self) -> None:
        """End the server; its start must have been called off, or be over."""
        self._thread.join()
        try:
            self.server.close()
        except SandboxError:  # it has ended with its container
            pass

    def _connect(self, token: CancelToken) -> None:
        with use_token(token):
            try:
                self.server.connect()
                self.failure = None
            except (ServerFailed, OdekError) as error:
                self.failure = error
            except Cancelled:
                pass


@dataclass(slots=True, kw_only=True)
class SharedServers:
    """One for each process, or for each conversation where that has a process of its own."""

    approved: set[str] = field(default_factory=set)
    """what the operator has approved until odek ends"""
    outlive: bool = False
    """whether servers on this host outlive a workspace: in a process that has many, one set of them serves all"""
    token: CancelToken = field(default_factory=CancelToken)
    _on_host: dict[str, StartedServer] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def on_host(self, name: str, start: Callable[[], StartedServer]) -> StartedServer:
        """Return the server called `name`, started by `start` unless it was before."""
        with self._lock:
            if name not in self._on_host:
                self._on_host[name] = start()
            return self._on_host[name]

    def close(self) -> None:
        """End the servers that have outlived their workspaces."""
        self.token.cancel()
        end_all(list(self._on_host.values()))


def end_all(started: list[StartedServer], *, within_s: float = 15.0) -> None:
    """End servers at the same time; an exec may have to stop what one of them has started."""
    ends = [Thread(target=each.end, daemon=True) for each in started]
    for thread in ends:
        thread.start()
    deadline = time.monotonic() + within_s
    for thread in ends:
        thread.join(max(deadline - time.monotonic(), 0))
