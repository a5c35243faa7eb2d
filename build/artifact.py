"""Files for dist/: what they are called, and how they get there."""

from __future__ import annotations

import json
import os
import platform
import re
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
ZIP_NAME = "odek"
BUILT = "odek/built.json"
"""file in each artifact: its name in a release, and where releases are; `odek update` reads it (odek/packaged.py)"""


def binary_name(machine: str = "") -> str:
    """Return what a binary for a processor is called, by default this one's: odek-linux-x86_64."""
    return f"odek-{platform.system().lower()}-{machine or platform.machine()}"


def built(name: str) -> bytes:
    """Return the content of BUILT; the address is what ODEK_RELEASES says, "" for a build that is not for a release."""
    return json.dumps({"file": name, "releases": os.environ.get("ODEK_RELEASES", "")}).encode()


def odek_version() -> str:
    """Return what odek/__init__.py says."""
    found = re.search(r'^__version__ = "(.+)"$', (ROOT / "odek" / "__init__.py").read_text("utf-8"), re.MULTILINE)
    assert found
    return found[1]


def write_executable(path: Path, content: bytes) -> None:
    """Put `content` at `path` in one step, mode 0755, so that a running odek keeps its own file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.chmod(temporary, 0o755)  # noqa: S103 – a program for everybody
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
