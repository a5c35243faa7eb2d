"""What kind of odek is running: the source, the one file, or the binary with a Python of its own."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Literal

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """Where odek comes from."""

    kind: Literal["source", "zip", "binary", "portable"]
    """"binary": PyInstaller's; "portable": the zip with a Python in front of it"""
    path: str
    """the file; of the source, the folder of the package"""

    @property
    def is_file(self) -> bool:
        return self.kind != "source"


def find_artifact() -> Artifact:
    """Return what is running."""
    if getattr(sys, "frozen", False):
        return Artifact(kind="binary", path=sys.executable)
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    holder = os.path.dirname(package)
    if os.path.isfile(holder):  # modules of the one file have paths below it
        if holder == sys.executable:
            return Artifact(kind="portable", path=holder)
        return Artifact(kind="zip", path=holder)
    return Artifact(kind="source", path=package)


def hash_artifact(artifact: Artifact) -> str:
    """Return the SHA-256 of the file as it is now, "" of the source or when it cannot be read."""
    if not artifact.is_file:
        return ""
    import hashlib

    digest = hashlib.sha256()
    try:
        with open(artifact.path, "rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
    except OSError:
        return ""
    return digest.hexdigest()


def describe_artifact(artifact: Artifact) -> str:
    """Return one line for people."""
    python = ".".join(map(str, sys.version_info[:3]))
    return f"{artifact.kind}, Python {python}, {sys.platform} {os.uname().machine}"
