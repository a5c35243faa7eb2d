"""scripts/update-default-image against a registry on the loopback, by way of the real docker client (D-12)."""

from __future__ import annotations

import hashlib
import json
import shutil
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from support.load_module import load_script

from odek.sandbox.image.reference import parse_default_digests

LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
PLATFORMS = ({"architecture": "amd64", "os": "linux"}, {"architecture": "arm64", "os": "linux", "variant": "v8"})

pytestmark = pytest.mark.skipif(not shutil.which("docker"), reason="no docker client is installed")


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@dataclass
class Registry:
    """Documents by digest; `sent` replaces what is sent for one."""

    documents: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    sent: dict[str, bytes] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    address: str = ""

    def put(self, kind: str, content: Mapping[str, object]) -> dict[str, object]:
        """Keep a document and return its descriptor."""
        data = json.dumps(content).encode()
        self.documents[digest_of(data)] = (kind, data)
        return {"mediaType": kind, "digest": digest_of(data), "size": len(data)}

    def answer(self, path: str) -> tuple[str, bytes] | None:
        self.asked.append(path)
        if path == "/v2/":
            return "application/json", b"{}"
        digest = path.rpartition("/")[2]
        if not path.startswith("/v2/library/alpine/") or digest not in self.documents:
            return None
        kind, data = self.documents[digest]
        return kind, self.sent.get(digest, data)


@pytest.fixture
def registry() -> Iterator[Registry]:
    registry = Registry()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        default_request_version = "HTTP/1.1"  # an attempt at TLS gets an answer by which the client knows HTTP

        def do_GET(self) -> None:
            found = registry.answer(self.path)
            kind, data = found or ("application/json", b'{"errors": []}')
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
            if "sha256:" in self.path:
                self.send_header("Docker-Content-Digest", self.path.rpartition("/")[2])
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data)

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        registry.address = f"127.0.0.1:{server.server_port}"
        yield registry
        server.shutdown()
        thread.join()


def put_image(
    registry: Registry, folder: Path, name: str = "alpine", *, platforms: Any = PLATFORMS
) -> dict[str, dict[str, str]]:
    """Fill `registry` with an image for two processors, pin it in `folder`, and return the digests to find."""
    expected, manifests = {}, []
    for platform in platforms:
        config = registry.put(
            "application/vnd.docker.container.image.v1+json",
            {**platform, "config": {}, "rootfs": {"type": "layers", "diff_ids": []}, "history": []},
        )
        manifest = registry.put(MANIFEST, {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": []})
        manifests.append({**manifest, "platform": platform})
        expected[platform["architecture"]] = {"config": str(config["digest"]), "manifest": str(manifest["digest"])}
    index = registry.put(LIST, {"schemaVersion": 2, "mediaType": LIST, "manifests": manifests})
    (folder / "default.Dockerfile").write_text(f"FROM {name}:3.22@{index['digest']}\n")
    return expected


def test_digests_of_every_processor_are_written(
    registry: Registry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """D-12: asked by the digest of the pin; the file is one that odek reads."""
    expected = put_image(registry, tmp_path)
    assert load_script("update-default-image").main(["--mirror", registry.address], tmp_path) == 0
    data = (tmp_path / "default.digests.json").read_bytes()
    index = json.loads(data)["index"]
    assert json.loads(data)["architectures"] == expected
    assert f"/v2/library/alpine/manifests/{index}" in registry.asked
    assert len(parse_default_digests(data, pin=f"alpine:3.22@{index}")) == 5
    assert capsys.readouterr().out.startswith("default.digests.json: 2 processors of alpine:3.22@sha256:")


@pytest.mark.parametrize("fault", ["another index", "another manifest", "nothing"])
def test_registry_that_sends_something_else_writes_nothing(
    fault: str, registry: Registry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """D-12: what is trusted later as the default is not what a mirror says, but what has the digest."""
    put_image(registry, tmp_path)
    kinds = {"another index": LIST, "another manifest": MANIFEST}
    for digest, (kind, data) in list(registry.documents.items()):
        if fault == "nothing":
            del registry.documents[digest]
        elif kind == kinds[fault]:
            registry.sent[digest] = data.replace(b'"schemaVersion"', b' "schemaVersion"')
    assert load_script("update-default-image").main(["--mirror", registry.address], tmp_path) == 1
    assert not (tmp_path / "default.digests.json").exists()
    assert capsys.readouterr().err.startswith("update-default-image: ")


@pytest.mark.parametrize(
    ("name", "mirror", "asked"),
    [
        ("alpine", "", ["alpine"]),
        ("registry.example/team/alpine", "", ["registry.example/team/alpine"]),
        ("alpine", "mirror.example:5000", ["mirror.example:5000/library/alpine"]),
        ("team/alpine", "127.0.0.1:5000", ["--insecure", "127.0.0.1:5000/team/alpine"]),
    ],
)
def test_the_registry_is_the_one_of_the_name(name: str, mirror: str, asked: list[str]) -> None:
    """D8: or the mirror; by the digest, and without TLS on this machine only."""
    command = load_script("update-default-image").describe_command(f"{name}:3.22@sha256:{'1' * 64}", mirror)
    asked[-1] += f"@sha256:{'1' * 64}"
    assert command == ["docker", "manifest", "inspect", "--verbose", *asked]


@pytest.mark.parametrize(
    "platforms",
    [
        (),
        PLATFORMS[:1],
        ({"architecture": "amd64", "os": "windows"}, PLATFORMS[1]),
        ({"architecture": "unknown", "os": "unknown"}, PLATFORMS[1]),
    ],
)
def test_an_image_without_a_processor_of_the_releases_writes_nothing(
    platforms: Any, registry: Registry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """D8: the files of a release are for amd64 and arm64; without their digests `docker load` brings no default."""
    put_image(registry, tmp_path, platforms=platforms)
    assert load_script("update-default-image").main(["--mirror", registry.address], tmp_path) == 1
    assert not (tmp_path / "default.digests.json").exists()
    assert "update-default-image: " in capsys.readouterr().err
