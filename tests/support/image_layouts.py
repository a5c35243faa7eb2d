"""Image layouts of the OCI as other programs write them, made from parts."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def dump(value: object) -> bytes:
    return json.dumps(value).encode()


@dataclass(slots=True)
class ImageLayout:
    """A layout in the making; `files` is what it consists of."""

    files: dict[str, bytes] = field(default_factory=lambda: {"oci-layout": b'{"imageLayoutVersion": "1.0.0"}'})
    top: list[dict[str, Any]] = field(default_factory=list)

    def blob(self, data: bytes, media_type: str = "") -> dict[str, Any]:
        """Add a blob and return its descriptor."""
        digest = digest_of(data)
        self.files[f"blobs/sha256/{digest[7:]}"] = data
        return {"mediaType": media_type, "digest": digest, "size": len(data)}

    def image(
        self, *layers: bytes, architecture: str = "amd64", packed: bool = True, config: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Add an image and return the descriptor of its manifest."""
        stored = [gzip.compress(layer, mtime=0) if packed else layer for layer in layers]
        described = {
            "architecture": architecture,
            "os": "linux",
            "config": dict(config or {}),
            "rootfs": {"type": "layers", "diff_ids": [digest_of(layer) for layer in layers]},
        }
        suffix = "+gzip" if packed else ""
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.blob(dump(described), "application/vnd.oci.image.config.v1+json"),
            "layers": [self.blob(data, f"application/vnd.oci.image.layer.v1.tar{suffix}") for data in stored],
        }
        return self.blob(dump(manifest), MANIFEST) | {"platform": {"os": "linux", "architecture": architecture}}

    def index(self, *descriptors: dict[str, Any]) -> dict[str, Any]:
        """Add an index and return its descriptor."""
        return self.blob(dump({"schemaVersion": 2, "mediaType": INDEX, "manifests": list(descriptors)}), INDEX)

    def name(self, descriptor: dict[str, Any], name: str = "", key: str = "org.opencontainers.image.ref.name") -> None:
        """Put a descriptor into index.json."""
        self.top.append({**descriptor, "annotations": {key: name}} if name else descriptor)

    def all_files(self) -> dict[str, bytes]:
        return {**self.files, "index.json": dump({"schemaVersion": 2, "manifests": self.top})}

    def tar(self) -> bytes:
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as archive:
            for name, content in self.all_files().items():
                entry = tarfile.TarInfo(name)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
        return buffer.getvalue()

    def folder(self, place: Path) -> Path:
        for name, content in self.all_files().items():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_bytes(content)
        return place
