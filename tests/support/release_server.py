"""A server of releases on the loopback interface, which can be a hostile one."""

from __future__ import annotations

import hashlib
import http.server
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


def sums(files: Mapping[str, bytes]) -> bytes:
    return "".join(f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in files.items()).encode()


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent for a path in place of a file."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class ReleaseServer:
    """Answers with the files it has and writes down what it is asked for."""

    files: dict[str, bytes] = field(default_factory=dict)
    """path below /releases → content"""
    cut_off: set[str] = field(default_factory=set)
    """paths of which half is sent, under the full length"""
    answers: dict[str, Answer] = field(default_factory=dict)
    hold: threading.Event = field(default_factory=threading.Event)
    """while it is set, a connection stays open after what was sent"""
    asked: list[str] = field(default_factory=list)
    address: str = ""

    def publish(
        self, files: Mapping[str, bytes], *, listed: Mapping[str, bytes] | None = None, version: str = "1.2.3"
    ) -> None:
        """Offer `files` as a version and as the latest; `listed` is what SHA256SUMS speaks of."""
        note = json.dumps({"version": version}).encode()
        for place in (f"download/v{version}", "latest/download"):
            offered = {**files, "release.json": note, "SHA256SUMS": sums(files if listed is None else listed)}
            for name, content in offered.items():
                self.files[f"/releases/{place}/{name}"] = content

    def answer(self, path: str) -> Answer:
        self.asked.append(path)
        # a proxy is asked with the whole address
        path = "/" + path.split("/", 3)[3] if path.startswith("http://") else path
        content = self.files.get(path)
        return self.answers.get(path) or (Answer(404) if content is None else Answer(body=content))


@contextmanager
def serve_releases(tls: ssl.SSLContext | None = None) -> Iterator[ReleaseServer]:
    state = ReleaseServer()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = state.answer(self.path)
            self.send_response(answer.status)
            for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body[: len(answer.body) // 2] if self.path in state.cut_off else answer.body)
            while self.path in state.answers and state.hold.is_set():
                time.sleep(0.02)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        if tls is not None:
            listening.socket = tls.wrap_socket(listening.socket, server_side=True)
        state.address = f"http{'s' if tls else ''}://127.0.0.1:{listening.server_address[1]}/releases"
        thread = threading.Thread(target=listening.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield state
        listening.shutdown()
        thread.join()
