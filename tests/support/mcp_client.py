"""A client of `odek mcp` that sees every byte: lines in, messages out, nothing hidden by a library."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from support.odek_process import Odek, pid_of_odek

from odek.mcp.messages import CAPABILITIES_KEY, CLIENT_KEY, LEGACY, MODERN, VERSION_KEY

LONG_S = 60.0
INFO = {"name": "test", "version": "1"}
FORMS = {"elicitation": {"form": {}}}


def modern_meta(capabilities: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the `_meta` of a modern request."""
    return {VERSION_KEY: MODERN, CAPABILITIES_KEY: dict(capabilities or {}), CLIENT_KEY: INFO}


class McpClient:
    """Starts `odek mcp` and talks to it; ended with the test at the latest, as its process is."""

    def __init__(self, odek: Odek, *arguments: str, env: Mapping[str, str] | None = None) -> None:
        self.process = odek.start("mcp", *arguments, env=env, stdin=subprocess.PIPE)
        self.messages: list[Any] = []
        self.stderr: list[str] = []
        self._ids = 0
        self._came: queue.Queue[Any] = queue.Queue()
        self._threads = [
            threading.Thread(target=self._read_stdout, daemon=True),
            threading.Thread(target=self._read_stderr, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def _read_stdout(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            assert line.isascii(), line
            self._came.put(json.loads(line))
        self._came.put(None)

    def _read_stderr(self) -> None:
        assert self.process.stderr
        self.stderr += self.process.stderr

    @property
    def pid(self) -> int:
        return pid_of_odek(self.process.pid)

    def send_line(self, line: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def send(self, method: str, params: Mapping[str, Any] | None = None, *, id: Any = None) -> Any:  # noqa: A002
        """Send a request and return its id."""
        if id is None:
            self._ids += 1
            id = self._ids  # noqa: A001
        self.send_line(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}))
        return id

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        self.send_line(json.dumps({"jsonrpc": "2.0", "method": method, "params": params or {}}))

    def answer_question(self, question: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        self.send_line(json.dumps({"jsonrpc": "2.0", "id": question["id"], "result": result}))

    def wait_for(self, wanted: Callable[[Any], bool], *, timeout_s: float = LONG_S) -> Any:
        """Return the first message that is `wanted`; messages before it are kept in `messages`."""
        for message in self.messages:
            if wanted(message):
                return message
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                message = self._came.get(timeout=max(deadline - time.monotonic(), 0.01))
            except queue.Empty:
                raise AssertionError(f"no such message\n{self.messages}\n{self.stderr}") from None
            assert message is not None, f"stdout ended\n{self.messages}\n{self.stderr}"
            self.messages.append(message)
            if wanted(message):
                return message

    def answer_to(self, id: Any) -> Any:  # noqa: A002
        return self.wait_for(lambda message: isinstance(message, dict) and message.get("id") == id)

    def request(self, method: str, params: Mapping[str, Any] | None = None) -> Any:
        """Send a request and return its result."""
        answer = self.answer_to(self.send(method, params))
        assert "result" in answer, answer
        return answer["result"]

    def initialize(self, version: str = LEGACY[0], capabilities: Mapping[str, Any] | None = None) -> Any:
        params = {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": INFO}
        result = self.request("initialize", params)
        self.notify("notifications/initialized")
        return result

    def begin(self, tool: str, *, meta: Mapping[str, Any] | None = None, **arguments: Any) -> Any:
        """Send a call and return its id."""
        return self.send("tools/call", {"name": tool, "arguments": arguments} | ({"_meta": meta} if meta else {}))

    def call(self, tool: str, **arguments: Any) -> tuple[str, bool]:
        """Return the text of a call's result, and whether that is an error."""
        return text_of(self.answer_to(self.begin(tool, **arguments))["result"])

    def end(self, *, timeout_s: float = LONG_S) -> int:
        """End the input and return the exit code."""
        assert self.process.stdin
        self.process.stdin.close()
        self.process.stdin = None
        return self.wait(timeout_s=timeout_s)

    def close_output(self) -> None:
        """Go away from the output only; the server notices when it has something to say."""
        assert self.process.stdout
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, self.process.stdout.fileno())
        os.close(nothing)
        for _ in range(3):
            try:
                self.send("ping")
            except BrokenPipeError:
                self.process.stdin = None
                return
            time.sleep(0.1)

    def kill(self, number: signal.Signals, *, timeout_s: float = LONG_S) -> int:
        self.process.send_signal(number)
        return self.wait(timeout_s=timeout_s)

    def wait(self, *, timeout_s: float = LONG_S) -> int:
        code = self.process.wait(timeout_s)
        for thread in self._threads:
            thread.join(timeout_s)
        while (message := self._came.get(timeout=timeout_s)) is not None:
            self.messages.append(message)
        return code


def text_of(result: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the one text of a result, and whether that is an error."""
    (item,) = result["content"]
    assert item["type"] == "text"
    assert "structuredContent" not in result
    assert result.get("isError") in (None, True)
    return str(item["text"]), result.get("isError", False)
