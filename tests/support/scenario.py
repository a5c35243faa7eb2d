"""A run of odek with a scripted model whose command leaves a mark where it runs.

The operator's file allows every command without a question, so that nothing but the sandbox keeps a
command from the host: if the mark is not there, no command ran there.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fakes.model_server import ModelServer, Step, calls, text
from support.odek_process import Odek, Outcome

ANSWER = "the final answer"
DEAD_SOCKET = "unix:///nowhere/docker.sock"
DEAD_REGISTRY = "127.0.0.1:1/no-such-image:1"
TOOLS = ("sh", "cat", "sleep")  # what commands of the model need; docker is left out on purpose


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run ended, and what the model saw of it."""

    outcome: Outcome
    model_calls: int
    ran_on_host: bool
    system_prompt: str = ""

    @property
    def summary(self) -> tuple[int, int, bool]:
        """exit code, requests to the model, whether the command ran on the host"""
        return self.outcome.code, self.model_calls, self.ran_on_host


@dataclass(slots=True, kw_only=True)
class Scene:
    """See the module."""

    odek: Odek
    folder: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def mark(self) -> Path:
        """what the command of the model makes when it runs on the host; the sandbox has no such folder"""
        return self.folder / "mark-of-the-host"

    def operator(self, **settings: object) -> None:
        """Write the operator's file."""
        folder = self.odek.home / ".odek"
        folder.mkdir(mode=0o700, exist_ok=True)
        content = {"dangerous": {"action": "allow"}, **settings}
        (folder / "config.json").write_text(json.dumps(content))
        (folder / "config.json").chmod(0o600)

    def project(self, **settings: object) -> None:
        """Write ./odek.json."""
        (self.odek.cwd / "odek.json").write_text(json.dumps(settings))

    def run(self, *flags: str, env: Mapping[str, str] | None = None, timeout_s: float = 60) -> Ended:
        """Run a task to its end; the model asks for one command, then gives its answer."""
        if not (self.odek.home / ".odek").exists():
            self.operator()
        with ModelServer(calls(("shell", {"command": f"sh -c 'echo ran >{self.mark}'"})), text(ANSWER)) as server:
            outcome = self.odek.run(
                *("run", "--base-url", server.base_url, *flags, "a task"),
                env=self.env | dict(env or {}),
                timeout_s=timeout_s,
            )
            requests = list(server.requests)
        ran = self.mark.exists()
        self.mark.unlink(missing_ok=True)
        system = requests[0].json["messages"][0]["content"] if requests else ""
        return Ended(outcome=outcome, model_calls=len(requests), ran_on_host=ran, system_prompt=system)


def run_script(
    odek: Odek, *script: Step, flags: tuple[str, ...] = (), **options: object
) -> tuple[Outcome, ModelServer]:
    """Run one task against a model with `script`; return how it ended and the server with its requests."""
    with ModelServer(*script) as server:
        outcome = odek.run("run", "--base-url", server.base_url, *flags, "a task", **options)  # type: ignore[arg-type]
    return outcome, server


def tool_results(server: ModelServer) -> list[str]:
    """Return what the model was told of its calls, in order, from the last request."""
    return [message["content"] for message in server.requests[-1].json["messages"] if message["role"] == "tool"]


def tools_only(folder: Path) -> str:
    """Return a PATH on which everything that odek needs is found, and no docker."""
    folder.mkdir()
    os.symlink(os.path.realpath(sys.executable), folder / "python3")
    for tool in TOOLS:
        os.symlink(shutil.which(tool) or "", folder / tool)
    return str(folder)


@contextmanager
def listening_socket(path: Path, reply: bytes | None = None) -> Iterator[str]:
    """Serve a socket that never answers, or answers everything with `reply`; its DOCKER_HOST."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen(64)
    held: list[socket.socket] = []

    def accept() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            held.append(connection)
            if reply is not None:
                connection.recv(1 << 16)
                connection.sendall(reply)
                connection.shutdown(socket.SHUT_RDWR)

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"unix://{path}"
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()
        for connection in held:
            connection.close()


@contextmanager
def listener_on_the_host(address: str = "0.0.0.0") -> Iterator[tuple[int, list[str]]]:
    """Accept connections, on every address of this host unless told which: the port, and who came."""
    came: list[str] = []
    with socket.socket() as server:
        server.bind((address, 0))
        server.listen()

        def accept() -> None:
            while True:
                try:
                    connection, peer = server.accept()
                except OSError:
                    return
                came.append(str(peer))
                connection.close()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield server.getsockname()[1], came
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
