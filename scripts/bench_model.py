"""A model's server for scripts/bench: it notes when requests come in and how large odek is by then."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

WINDOW_TOKENS = 200_000  # of today's large models: a session of 10 000 messages does not fit
_CALLS_AT_ONCE = 32
LOOK = {"name": "file_info", "arguments": '{"path": "."}'}
COMMAND = {"name": "shell", "arguments": '{"command": "true"}'}
OUT_COMMAND = "yes 0123456789abcde | head -c 10000000"
OUT = {"name": "shell", "arguments": json.dumps({"command": OUT_COMMAND})}
IN_BYTES = 1_000_000
IN = {"name": "write_file", "arguments": json.dumps({"path": "in", "content": "0123456789abcd\n" * (IN_BYTES // 15)})}
READ_NAME, READ_BYTES = "read-this", 4000
READ = {"name": "read_file", "arguments": json.dumps({"path": READ_NAME})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request, as the server saw it."""

    arrived_s: float
    since_answer_s: float
    """since the answer before, or since odek was started"""
    resident_mb: float
    """of odek, when the request arrived"""
    spares: int = 0
    """execs of odek's that wait for a command, when it was answered"""
    spares_mb: float = 0.0
    """memory that is theirs alone"""


def steps_until(messages: int, *, begun_with: int = 0) -> list[int]:
    """Return for each reply how many calls it holds, so that a session grows to about `messages`."""
    replies = []
    count = begun_with + 1
    while count < messages:
        replies.append(max(min(messages - count - 1, _CALLS_AT_ONCE), 1))
        count += 1 + replies[-1]
    return replies


@dataclass(slots=True)
class ModelServer:
    """Runs odek against itself; a server for one run at a time."""

    requests: list[Request] = field(default_factory=list)
    replies: list[int] = field(default_factory=list)
    """calls in each reply to come; behind the last one stands the final answer"""
    call: dict[str, str] = field(default_factory=lambda: LOOK)
    """what each of these calls is"""
    thinks_s: float = 0.0
    """what an answer takes"""
    gap_s: float = 0.0
    """what each further call of an answer takes, which is then streamed"""
    pid: int = 0
    answered_s: float = 0.0
    http: ThreadingHTTPServer = field(init=False)

    def __post_init__(self) -> None:
        self.http = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"owner": self}))
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_address[1]}/v1"

    def run(self, argv: Sequence[str], replies: Sequence[int], *, env: dict[str, str], cwd: str) -> list[Request]:
        """Run odek with `argv`, answer it with `replies`, and return its requests; a failure ends the benchmark."""
        self.requests, self.replies = [], list(replies)
        self.answered_s = time.perf_counter()
        process = subprocess.Popen(
            argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.pid = process.pid
        _, stderr = process.communicate()
        if process.returncode:
            sys.exit(f"bench: {' '.join(argv)} ended with {process.returncode}\n{stderr.decode(errors='replace')}")
        return self.requests

    def note(self) -> None:
        now = time.perf_counter()
        self.requests.append(
            Request(arrived_s=now, since_answer_s=now - self.answered_s, resident_mb=resident_mb(self.pid))
        )

    def note_spares(self) -> None:
        """Note the clients that wait for a command now; a model that answers at once leaves no time for it."""
        if not self.thinks_s:
            return
        clients = [pid for pid in children(self.pid) if b"\0exec\0" in command_line(pid)]
        self.requests[-1] = replace(
            self.requests[-1], spares=len(clients), spares_mb=sum(private_mb(pid) for pid in clients)
        )

    def answer(self) -> bytes | list[bytes]:
        """Return the next answer: whole, or the events of a stream."""
        calls = self.replies.pop(0) if self.replies else 0
        entries = [{"id": f"call_{number}", "type": "function", "function": self.call} for number in range(calls)]
        if calls > 1 and self.gap_s:
            deltas = [{"delta": {"tool_calls": [{"index": at, **entry}]}} for at, entry in enumerate(entries)]
            chunks = [json.dumps({"choices": [{"index": 0, **each}]}) for each in deltas]
            chunks.append(json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}))
            return [f"data: {chunk}\n\n".encode() for chunk in (*chunks, "[DONE]")]
        message = {"role": "assistant", "content": "" if calls else "done", "tool_calls": entries}
        return json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()


class _Handler(BaseHTTPRequestHandler):
    owner: ModelServer

    def do_POST(self) -> None:
        self.owner.note()
        self.rfile.read(int(self.headers["Content-Length"]))
        answer = self.owner.answer()
        time.sleep(self.owner.thinks_s)
        if isinstance(answer, bytes):
            self.owner.note_spares()
            self.owner.answered_s = time.perf_counter()
            self._send(answer)
        else:
            self._stream(answer)

    def _stream(self, pieces: list[bytes]) -> None:
        *calls, end, done = pieces
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for piece in calls:
            self.wfile.write(piece)
            time.sleep(self.owner.gap_s)
        self.owner.note_spares()
        self.owner.answered_s = time.perf_counter()
        self.wfile.write(end + done)

    def do_GET(self) -> None:
        self._send(json.dumps({"data": [{"id": "m", "context_length": WINDOW_TOKENS}]}).encode())

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def children(pid: int) -> list[int]:
    """Return the children of a process."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def private_mb(pid: int) -> float:
    """Return the memory that no other process shares."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Private_Clean:", "Private_Dirty:"))) / 1024


def resident_mb(pid: int) -> float:
    """Return the memory of a process that is in use now."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0
