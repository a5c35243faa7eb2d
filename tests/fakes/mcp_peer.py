"""A scripted MCP server at the other end of a pipe, with a clock of its own: time passes only where one waits."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Reply = bytes | Mapping[str, Any]
End = None
"""in place of a line: the output ends"""


def answer(asked: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a request."""
    return {"jsonrpc": "2.0", "id": asked["id"], "result": result}


def error(asked: Mapping[str, Any], code: int, words: str) -> dict[str, Any]:
    """Return the answer to a request that is an error."""
    return {"jsonrpc": "2.0", "id": asked["id"], "error": {"code": code, "message": words}}


def tool(name: str, description: str = "does something", **schema: Any) -> dict[str, Any]:
    """Return a tool as servers list it."""
    return {"name": name, "description": description, "inputSchema": {"type": "object", "properties": {}, **schema}}


@dataclass(slots=True)
class Clock:
    """Seconds that pass when they are waited for."""

    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(slots=True)
class Peer:
    """A pipe to a server that reacts to each message with the lines that `react` returns; None ends its output."""

    react: Callable[[dict[str, Any]], Iterable[Reply | None]]
    clock: Clock = field(default_factory=Clock)
    stderr_tail: bytes = b""
    sent: list[dict[str, Any]] = field(default_factory=list)
    closed: int = 0
    _lines: deque[bytes | None] = field(default_factory=deque)

    def send_line(self, line: bytes, *, timeout_s: float) -> None:
        assert timeout_s > 0
        if self.closed or (self._lines and self._lines[-1] is None):
            raise BrokenPipeError
        message = json.loads(line)
        self.sent.append(message)
        self.put(*self.react(message))

    def put(self, *replies: Reply | None) -> None:
        """Let the server print something of its own accord."""
        for reply in replies:
            self._lines.append(json.dumps(reply).encode() if isinstance(reply, Mapping) else reply)

    def receive_line(self, *, timeout_s: float) -> bytes | None:
        assert timeout_s > 0
        self.clock.now += 0.001
        if not self._lines:
            self.clock.now += timeout_s
            raise TimeoutError
        return self._lines.popleft() if self._lines[0] is not None else None

    def close(self) -> None:
        self.closed += 1

    @property
    def methods(self) -> list[str]:
        """what was asked and noted, in order"""
        return [message.get("method", "(answer)") for message in self.sent]


def legacy(
    tools: Sequence[Mapping[str, Any]] = (),
    *,
    call: Callable[[dict[str, Any]], Iterable[Reply | None]] | None = None,
    version: str = "2025-11-25",
    unknown: str = "error",
) -> Callable[[dict[str, Any]], Iterable[Reply | None]]:
    """Return a server of the legacy era; to what it does not know it answers with an error, or not (`silence`)."""

    def react(message: dict[str, Any]) -> Iterable[Reply | None]:
        match message.get("method"):
            case "initialize":
                return [answer(message, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {}})]
            case "tools/list":
                return [answer(message, {"tools": list(tools)})]
            case "tools/call" if call:
                return call(message)
            case None | "notifications/initialized" | "notifications/cancelled":
                return []
        return [] if unknown == "silence" else [error(message, -32601, "no such method")]

    return react


def modern(
    tools: Sequence[Mapping[str, Any]] = (), *, call: Callable[[dict[str, Any]], Iterable[Reply | None]] | None = None
) -> Callable[[dict[str, Any]], Iterable[Reply | None]]:
    """Return a server of the modern era."""

    def react(message: dict[str, Any]) -> Iterable[Reply | None]:
        match message.get("method"):
            case "server/discover":
                said = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "resultType": "complete"}
                return [answer(message, said)]
            case "tools/list":
                return [answer(message, {"tools": list(tools), "resultType": "complete"})]
            case "tools/call" if call:
                return call(message)
            case None | "notifications/cancelled":
                return []
        return [error(message, -32601, "no such method")]

    return react
