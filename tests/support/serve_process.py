"""`odek serve` as a process, and `curl` as its client."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from support.odek_process import Odek, pid_of_odek
from support.web_server import Answer, Client, parse_answer

URL = re.compile(r"http://(?P<host>127\.0\.0\.1|\[::1\]|[a-z.]+):?(?P<port>[0-9]*)/#token=(?P<token>[0-9a-f]{64})")


@dataclass(slots=True, kw_only=True)
class ServeProcess:
    """A server that has printed its URL."""

    process: subprocess.Popen[str]
    url: str
    stdout: list[str] = field(default_factory=list)
    stderr: list[str] = field(default_factory=list)
    _readers: list[threading.Thread] = field(default_factory=list)

    @property
    def pid(self) -> int:
        return pid_of_odek(self.process.pid)

    @property
    def token(self) -> str:
        return self._part("token")

    @property
    def port(self) -> int:
        return int(self._part("port"))

    @property
    def base(self) -> str:
        return self.url.partition("/#")[0]

    def ask(self, method: str, path: str, body: object = None, *arguments: str) -> Answer:
        """Ask with the token, by `curl`."""
        data = () if body is None else ("--data-binary", body if isinstance(body, str) else json.dumps(body))
        typed = () if body is None else ("-H", "Content-Type: application/json")
        bearer = ("-H", f"Authorization: Bearer {self.token}")
        return curl("-X", method, *bearer, *typed, *data, *arguments, f"{self.base}{path}")

    def wait_for_log(self, text: str, timeout_s: float = 60) -> None:
        """Wait until stderr holds `text`."""
        wait_until(lambda: text in self.log, timeout_s, lambda: f"{text!r} is not in {self.log}")

    @property
    def log(self) -> str:
        return "".join(self.stderr)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit status."""
        os.kill(self.pid, number)
        code = self.process.wait(30)
        for reader in self._readers:
            reader.join(30)
        return code

    def _part(self, name: str) -> str:
        found = URL.fullmatch(self.url)
        assert found, self.url
        return found[name]


@contextmanager
def serving_process(odek: Odek, *arguments: str, env: Mapping[str, str] | None = None) -> Iterator[ServeProcess]:
    """Start `odek serve`, wait for its URL, and end it."""
    process = odek.start("serve", *arguments, env=env)
    made = ServeProcess(process=process, url="")
    assert process.stdout is not None
    assert process.stderr is not None
    first = process.stdout.readline()
    made.stdout.append(first)
    for stream, lines in ((process.stdout, made.stdout), (process.stderr, made.stderr)):
        reader = threading.Thread(target=_read, args=(stream, lines), daemon=True)
        reader.start()
        made._readers.append(reader)
    try:
        if not first:
            made.process.wait(30)
            made._readers[1].join(30)
            raise AssertionError(f"no URL: {made.log}")
        made.url = str(json.loads(first)["url"]) if first.startswith("{") else first.strip()
        yield made
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                made.end()


def _read(stream: IO[str], lines: list[str]) -> None:
    for line in stream:
        lines.append(line)


def curl(*arguments: str) -> Answer:
    """Run curl and return what it got; the last answer, where there were several."""
    done = subprocess.run(
        ("curl", "-sS", "-i", "--max-time", "60", *arguments), capture_output=True, check=False, timeout=90
    )
    assert done.stdout, done.stderr.decode()
    data = done.stdout
    while data.startswith(b"HTTP/1.1 100"):
        data = data.partition(b"\r\n\r\n")[2]
    return parse_answer(data)


def wait_until(condition: Any, timeout_s: float = 60, why: Any = lambda: "") -> None:
    """Wait until `condition()` is true. Raises AssertionError."""
    import time

    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, why()
        time.sleep(0.05)


def stream_of(server: ServeProcess, session: str, *, after: str = "") -> Client:
    """Return a connection on which the events of `session` come."""
    import socket

    client = Client(socket.create_connection(("127.0.0.1", server.port), timeout=60))
    query = f"?after={after}" if after else ""
    lines = (
        f"GET /api/sessions/{session}/events{query} HTTP/1.1",
        f"Host: 127.0.0.1:{server.port}",
        f"Authorization: Bearer {server.token}",
    )
    client.send("\r\n".join((*lines, "", "")).encode())
    return client


def sockets_of(pid: int) -> set[str]:
    """Return the sockets that a process holds, by inode."""
    found = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            target = os.readlink(entry)
            if target.startswith("socket:"):
                found.add(target)
    return found


def descendants(pid: int) -> list[int]:
    """Return the processes that `pid` and its children have started and that live."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            found += [int(child) for child in (task / "children").read_text().split()]
    return [each for child in found for each in (child, *_living(child))]


def _living(pid: int) -> list[int]:
    try:
        return descendants(pid)
    except OSError:
        return []
