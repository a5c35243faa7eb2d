"""Networks and containers as Docker Compose makes them, and Docker Compose itself."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import shutil
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from support.debian_packages import unpack
from support.docker_engine import Engine

SOCKET = "/var/run/docker.sock"
ANSWER = "while :; do echo {text} | nc -l -p {port}; done"


class Project:
    """Networks and containers as Docker Compose makes them; everything goes when the test is over."""

    def __init__(self, engine: Engine, image: str) -> None:
        self.engine = engine
        self.name = f"odektest{secrets.token_hex(4)}"
        self._image = image
        self._networks: list[str] = []
        self._containers: list[str] = []

    def network(self, key: str, *, internal: bool = False, labelled: bool = True, name: str = "") -> str:
        """Make the network PROJECT_KEY (or `name`) and return its full ID."""
        labels = self._labels(f"com.docker.compose.network={key}") if labelled else ()
        flags = ("--internal",) if internal else ()
        full_id = self.engine.run("network", "create", *flags, *labels, name or f"{self.name}_{key}").stdout.strip()
        self._networks.append(full_id)
        return full_id

    def twin(self, name: str) -> str | None:
        """Make a network of that name beside the one there is, as old engines let the API do."""
        connection = UnixConnection(SOCKET)
        body = json.dumps({"Name": name, "CheckDuplicate": False, "Driver": "bridge"})
        connection.request("POST", "/v1.40/networks/create", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        if response.status != 201:
            return None
        full_id: str = answer["Id"]
        self._networks.append(full_id)
        return full_id

    def service(
        self,
        service: str,
        network: str,
        *,
        answer: str = "",
        port: int = 6379,
        folder: str = "/src/app",
        image: str = "",
        command: tuple[str, ...] = (),
        aliases: tuple[str, ...] = (),
    ) -> str:
        """Start the container of a service, reachable by its name, and return the container's ID.

        Unless `command` says otherwise, it answers every connection to `port` with one line.
        """
        labels = self._labels(
            f"com.docker.compose.service={service}", f"com.docker.compose.project.working_dir={folder}"
        )
        started = command or ("sh", "-c", ANSWER.format(text=answer or service, port=port))
        named = tuple(word for alias in (service, *aliases) for word in ("--network-alias", alias))
        container = self.engine.run(
            "run", "--detach", "--init", "--name", f"{self.name}-{service}-{len(self._containers)}",
            "--network", network, *named, *labels, image or self._image, *started,
        ).stdout.strip()  # fmt: skip
        self._containers.append(container)
        return container

    def adopt(self, full_id: str) -> None:
        """Remove a network that something else made with the others."""
        self._networks.append(full_id)

    def remove_network(self, full_id: str) -> None:
        self.engine.run("network", "rm", full_id)
        self._networks.remove(full_id)

    def existing(self) -> list[str]:
        """Return the networks of this project that are still there."""
        listed = self.engine.run("network", "ls", "--no-trunc", "--quiet").stdout.split()
        return [full_id for full_id in self._networks if full_id in listed]

    def close(self) -> None:
        if self._containers:
            self.engine.run("rm", "--force", *self._containers, check=False)
        for full_id in self._networks:
            self.engine.run("network", "rm", full_id, check=False)

    def _labels(self, *labels: str) -> tuple[str, ...]:
        every = (f"com.docker.compose.project={self.name}", *labels)
        return tuple(word for label in every for word in ("--label", label))


class UnixConnection(http.client.HTTPConnection):
    """HTTP over the engine's socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(self._path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compose:
    """A Docker Compose that works here."""

    argv: tuple[str, ...]
    env: dict[str, str] = field(default_factory=dict)

    def run(self, *arguments: str, cwd: Path) -> None:
        """Run `docker compose ARGUMENT…` in the folder of a project."""
        env = {**os.environ, **self.env}
        command = [*self.argv, *arguments]
        done = subprocess.run(command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def find_compose(engine: Engine, folder: Path) -> Compose:
    """Return the Compose of this machine, else Debian's, unpacked below `folder`. Raises RuntimeError."""
    if engine.run("compose", "version", check=False).returncode == 0:
        return Compose(argv=(engine.client, "compose"))
    program = shutil.which("docker-compose")
    if program:
        return Compose(argv=(program,))
    root = unpack(folder, "docker-compose")
    for path in sorted(root.rglob("docker-compose")):
        if path.is_file() and path.read_bytes()[:4] == b"\x7fELF":
            return Compose(argv=(str(path),))
    packages = str(root / "usr" / "lib" / "python3" / "dist-packages")
    return Compose(argv=("/usr/bin/python3", str(root / "usr/bin/docker-compose")), env={"PYTHONPATH": packages})
