"""The connection to an exec is cut when the text has arrived and the news of its beginning has not."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

import pytest
from support.sandboxes import Boxes, output

from odek.sandbox.docker import DockerCli

BEGUN_S = 0.3  # for the wrapper to begin, on a busy machine


class CuttingProxy:
    """Stands between the docker client and the engine; once `armed`, it cuts the next exec that gets a text."""

    def __init__(self, path: str, engine: str) -> None:
        self.armed = False
        self.cuts = 0
        self._engine = engine
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            engine = socket.socket(socket.AF_UNIX)
            engine.connect(self._engine)
            cut = threading.Event()
            for work in (self._pass_up, self._pass_down):
                threading.Thread(target=work, args=(client, engine, cut), daemon=True).start()

    def _pass_up(self, client: socket.socket, engine: socket.socket, cut: threading.Event) -> None:
        while data := _received(client):
            if self.armed and b"end=" in data:
                self.armed = False
                self.cuts += 1
                cut.set()
                engine.sendall(data)
                time.sleep(BEGUN_S)
                client.shutdown(socket.SHUT_RDWR)
                return
            engine.sendall(data)
        _end(engine)

    def _pass_down(self, client: socket.socket, engine: socket.socket, cut: threading.Event) -> None:
        while data := _received(engine):
            if not cut.is_set():
                try:
                    client.sendall(data)
                except OSError:
                    return
        _end(client)


def _received(source: socket.socket) -> bytes:
    try:
        return source.recv(1 << 16)
    except OSError:
        return b""


def _end(target: socket.socket) -> None:
    try:
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass


@pytest.mark.docker_only  # podman has no daemon from which a client could be cut off (M-27)
@pytest.mark.parametrize("command", ["sleep 1", "exit 0", "exit 3", "kill -9 $$", "kill -9 $PPID"])
def test_command_whose_beginning_was_not_heard_is_not_run_again(command: str, boxes: Boxes, tmp_path: Path) -> None:
    """E1: in an exec that waits and in one of its own, while the command is at work and when it has ended."""
    engine = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock")
    if not engine.startswith("unix://"):
        pytest.skip("the engine listens on no socket of this machine")
    path = str(tmp_path / "s")
    proxy = CuttingProxy(path, engine.removeprefix("unix://"))
    box = boxes.start(docker=DockerCli(boxes.engine.client, {**os.environ, "DOCKER_HOST": f"unix://{path}"}))
    for name in ("own", "spare"):
        proxy.armed = True
        done = box.run(f"echo {name} >>ran; {command}", timeout_s=30)
        assert (name, done.code, done.timed_out) == (name, None, False)
        assert [note.split(":")[0] for note in done.notes] == ["whether the command ran is not known"]
        assert output(box, "cat ran") == "own\nspare\n"[: 4 if name == "own" else None]  # and a spare waits after it
    assert proxy.cuts == 2
    box.close()
    proxy.close()
