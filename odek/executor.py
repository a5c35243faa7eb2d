"""Where the model's commands and file accesses happen: one protocol, two places.

`sandbox.container.Container` and `HostExecutor` (hostexec.py) both satisfy it; tools know nothing
else about where they run.
"""

from __future__ import annotations

from typing import Protocol

from odek.process import CommandResult


class Executor(Protocol):
    """Runs commands and reads and writes files of one workspace."""

    workspace: str
    """the workspace as commands see it: "/workspace" in the sandbox, the working directory on the host"""

    def run(self, command: str, *, timeout_s: float) -> CommandResult:
        """Run a shell command to its end or its limit; on Interrupted, stop it and re-raise."""
        ...

    def read(self, path: str, *, limit_bytes: int) -> bytes:
        """Return the bytes of a regular file inside the workspace.

        Raises FileRefused when it is missing, not a regular file, larger than `limit_bytes`, or
        leaves the workspace by `..` or a link.
        """
        ...

    def write(self, path: str, data: bytes, *, replacing: bytes | None) -> None:
        """Put `data` at `path`, atomically, keeping the mode of an existing file.

        Missing parent folders are made. With `replacing`, the file must still hold exactly those
        bytes. Raises FileRefused as `read` does, or when the place cannot be written.
        """
        ...
