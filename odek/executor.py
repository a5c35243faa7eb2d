"""Where the model's commands and file accesses happen: one protocol, two places.

`sandbox.container.Container` and `HostExecutor` (onhost/commands.py) both satisfy it; tools know nothing
else about where they run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from odek.errors import FileAccessDenied
from odek.listing import Entry, Listing, Walk
from odek.process import CommandRequest, CommandResult

Guard = Callable[[str], None]
"""gets a path relative to the workspace; raises FileAccessDenied when that must not be written"""


class Executor(Protocol):
    """Runs commands and reads and writes files of one workspace."""

    workspace: str
    """the workspace as commands see it: "/workspace" in the sandbox, the working directory on the host"""

    def run(self, command: str, *, timeout_s: float) -> CommandResult:
        """Run a shell command to its end or its limit; on Interrupted, stop it and re-raise."""
        ...

    def run_many(self, requests: Sequence[CommandRequest]) -> tuple[CommandResult, ...]:
        """Run shell commands at the same time, each as `run` does, with stdout and stderr apart."""
        ...

    def read(self, path: str, *, limit_bytes: int) -> bytes:
        """Return the bytes of a regular file inside the workspace.

        Raises FileAccessDenied when it is missing, not a regular file, larger than `limit_bytes`, or
        leaves the workspace by `..` or a link.
        """
        ...

    def read_many(
        self, paths: Sequence[str], *, limit_bytes: int, total_bytes: int
    ) -> tuple[bytes | FileAccessDenied, ...]:
        """Return for each of `paths` what `read` would return or raise.

        Together they may have at most `total_bytes`; what would exceed them is refused.
        """
        ...

    def write(self, path: str, data: bytes, *, replacing: bytes | None, guard: Guard | None = None) -> None:
        """Put `data` at `path`, atomically, keeping the mode of an existing file.

        Missing parent folders are made. With `replacing`, the file must still hold exactly those
        bytes. `guard` is asked about `path`, and about the place itself where links lead elsewhere,
        before anything is written there. Raises FileAccessDenied as `read` does, or when the place
        cannot be written.
        """
        ...

    def stat(self, path: str) -> Entry:
        """Return what is at `path`; a link there is not followed. Raises FileAccessDenied."""
        ...

    def walk(self, path: str, how: Walk) -> Listing:
        """Return what lies below the folder `path`, or the file `path` alone; "" is the workspace.

        A link at `path` is followed inside the workspace, links below it are listed and never
        followed. Raises FileAccessDenied when there is nothing or it leaves the workspace.
        """
        ...
