"""The Docker engine that tests use: its client, and a local image made without a registry."""

from __future__ import annotations

import hashlib
import http.client
import io
import json
import shutil
import socket
import struct
import subprocess
import tarfile
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LABEL = "io.odek.sandbox"
"""label of every container, network and volume that odek makes"""

PASSWD = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"
GROUP = "root:x:0:\nnobody:x:65534:\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """A Docker engine that answers."""

    client: str
    """absolute path of the docker program"""
    version: str
    address: str = ""
    """of the daemon, as a URL; "": not known"""

    @property
    def release(self) -> tuple[int, int]:
        """first two numbers of the version"""
        major, minor, *_ = self.version.split(".")
        return int(major), int(minor)

    def run(
        self, *arguments: str, stdin: bytes | None = None, check: bool = True, timeout_s: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run `docker ARGUMENT…`; with `check`, a failure is an error that shows Docker's words."""
        done = subprocess.run([self.client, *arguments], input=stdin or b"", capture_output=True, timeout=timeout_s)
        text = subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        )
        assert not check or text.returncode == 0, f"{' '.join(text.args)}: {text.stderr}"
        return text

    def image_id(self, reference: str) -> str:
        """Return the ID of a local image as Docker writes it; podman leaves its first part out (M-27)."""
        return f"sha256:{self.run('image', 'inspect', '--format', '{{.Id}}', reference).stdout.strip()[-64:]}"

    def labelled(self) -> frozenset[str]:
        """Return "kind id" of every container, network and volume that odek made and nobody removed.

        Each test with Docker asks twice, so the socket is asked where there is one: clients take twenty times as long.
        """
        try:
            return self._labelled_by_socket()
        except (OSError, http.client.HTTPException):
            return self._labelled_by_client()

    def _labelled_by_socket(self) -> frozenset[str]:
        asked = f"filters={urllib.parse.quote(json.dumps({'label': [LABEL]}))}"
        connection = _SocketConnection(self.address)
        try:
            found = [f"container {each['Id']}" for each in connection.ask(f"/containers/json?all=1&{asked}")]
            found += [f"network {each['Id']}" for each in connection.ask(f"/networks?{asked}")]
            found += [f"volume {each['Name']}" for each in connection.ask(f"/volumes?{asked}")["Volumes"] or ()]
        finally:
            connection.close()
        return frozenset(found)

    def _labelled_by_client(self) -> frozenset[str]:
        label = f"label={LABEL}"
        listings = {
            "container": ("ps", "--all", "--no-trunc", "--filter", label, "--format", "{{.ID}}"),
            "network": ("network", "ls", "--no-trunc", "--filter", label, "--format", "{{.ID}}"),
            "volume": ("volume", "ls", "--filter", label, "--format", "{{.Name}}"),
        }
        return frozenset(
            f"{kind} {line}" for kind, listing in listings.items() for line in self.run(*listing).stdout.split()
        )

    def containers_of(self, pid: int) -> list[str]:
        """Return the IDs of the containers that belong to the odek process `pid`."""
        label = f"label=io.odek.pid={pid}"
        return self.run("ps", "--all", "--quiet", "--no-trunc", "--filter", label).stdout.split()


class _SocketConnection(http.client.HTTPConnection):
    """HTTP on the socket of a daemon."""

    def __init__(self, address: str) -> None:
        super().__init__("docker", timeout=60)
        self._kind, _, self._path = address.partition("://")

    def connect(self) -> None:
        if self._kind != "unix":
            raise ConnectionError("the daemon has no socket here")
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)

    def ask(self, path: str) -> Any:
        self.request("GET", path)
        answer = self.getresponse()
        data = answer.read()
        if answer.status != 200:
            raise http.client.HTTPException(f"{path}: {answer.status}")
        return json.loads(data)


def find_engine() -> Engine | str:
    """Return the engine that answers, or why there is none."""
    client = shutil.which("docker")
    if client is None:
        return "no docker on PATH"
    command = [client, "version", "--format", "{{.Server.Version}}"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20)
    except subprocess.TimeoutExpired:
        return "the Docker engine does not answer"
    version = done.stdout.strip()
    if done.returncode != 0 or not version:
        return done.stderr.strip()
    context = [client, "context", "inspect", "--format", "{{.Endpoints.docker.Host}}"]
    shown = subprocess.run(context, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20)
    return Engine(client=client, version=version, address=shown.stdout.strip() if shown.returncode == 0 else "")


def gateway_of_the_bridge(engine: Engine, image: str) -> str:
    """Return this host's address for containers on the default bridge; inspect does not name it on all engines."""
    route = engine.run("run", "--rm", "--network", "bridge", image, "ip", "route", "show", "default").stdout.split()
    return route[route.index("via") + 1]


def find_static_busybox() -> Path | None:
    """Return a busybox that runs without any library, or None."""
    path = shutil.which("busybox")
    return Path(path) if path and _is_static(Path(path)) else None


def _is_static(path: Path) -> bool:
    """Return whether an ELF file asks for no program interpreter (PT_INTERP, 3: the dynamic loader)."""
    data = path.read_bytes()
    if data[:5] != b"\x7fELF\x02":
        return False
    order = "<" if data[5] == 1 else ">"
    (start,) = struct.unpack_from(order + "Q", data, 0x20)
    size, count = struct.unpack_from(order + "HH", data, 0x36)
    return all(struct.unpack_from(order + "I", data, start + index * size) != (3,) for index in range(count))


def import_base_image(engine: Engine, busybox: Path) -> str:
    """Return the reference of an image that holds `busybox` and its applets; make it if need be."""
    archive = _root_filesystem(busybox)
    reference = f"odek-test-base:{hashlib.sha256(archive).hexdigest()[:12]}"
    shown = engine.run("image", "inspect", reference, check=False)
    # podman's own is one of the OCI; one that a test has saved and loaded since may hide instructions (M-28)
    if (
        shown.returncode != 0
        or "application/vnd.docker.distribution.manifest" in shown.stdout.partition("ManifestType")[2]
    ):
        engine.run("import", "--change", 'CMD ["sh"]', "-", reference, stdin=archive)
    return reference


def _root_filesystem(busybox: Path) -> bytes:
    applets = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for entry, content in _entries(busybox.read_bytes(), applets):
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def _entries(busybox: bytes, applets: list[str]) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    folders = {"bin": 0o755, "etc": 0o755, "root": 0o700, "tmp": 0o1777, "usr": 0o755, "usr/bin": 0o755, "var": 0o755}
    for name, mode in folders.items():
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode = tarfile.DIRTYPE, mode
        yield entry, b""
    files = {
        "bin/busybox": (busybox, 0o755),
        "etc/passwd": (PASSWD.encode(), 0o644),
        "etc/group": (GROUP.encode(), 0o644),
    }
    for name, (content, mode) in files.items():
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(content), mode
        yield entry, content
    links = {f"bin/{applet}" for applet in applets} - {"bin/busybox"} | {"usr/bin/env"}
    for name in sorted(links):
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname = tarfile.SYMTYPE, "/bin/busybox"
        yield entry, b""
