"""A place from which Docker's client can read odek's filter of system calls."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from odek.errors import StateFileError
from odek.host import Host
from odek.sandbox.engine import Engine
from odek.sandbox.seccomp import profile_data
from odek.state import StateFolder


def profile_path(engine: Engine, host: Host) -> str:
    """Return where the profile lies for a start on `engine`, "" when the engine's own is used."""
    return StateFolder(host.operator_home).path(_name()) if engine.own_filter else ""


@contextmanager
def profile_file(engine: Engine, host: Host) -> Iterator[str]:
    """Hold the path of a private file with the profile, "" when the engine's own is used.

    It is written once, to the operator's folder; where that cannot be written, to a temporary file
    for the moment. What the client has read is compared after the start (sandbox/container/verify.py).
    """
    if not engine.own_filter:
        yield ""
        return
    folder, name = StateFolder(host.operator_home), _name()
    try:
        if folder.read(name) != profile_data():
            folder.write(name, profile_data())
        path = folder.path(name)
    except StateFileError:
        path = ""
    if path:
        yield path
        return
    with _temporary_file() as path:
        yield path


@contextmanager
def _temporary_file() -> Iterator[str]:
    import tempfile

    descriptor, path = tempfile.mkstemp(prefix="odek-seccomp-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(profile_data())
        yield path
    finally:
        with suppress(OSError):
            os.unlink(path)


def _name() -> str:
    return f"seccomp-{hashlib.sha256(profile_data()).hexdigest()[:12]}.json"
