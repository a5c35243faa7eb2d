"""The ways a sandbox can fail. Which of them may fall back to the host is decided in app/isolation.py."""

from __future__ import annotations

from typing import Literal

from odek.errors import OdekError

UnreachableBecause = Literal["no client", "no answer", "permission denied", "no connection"]


class SandboxError(OdekError):
    """The sandbox cannot be had, or was lost."""

    source = code = "sandbox"


class SandboxConfigError(SandboxError):
    """What was asked for can never work, or Docker refused it while it answered."""

    code = "sandbox_settings"


class SandboxLost(SandboxError):
    """The running container is gone, or can no longer be trusted to stop what it runs (R-42)."""

    code = "sandbox_lost"


class DaemonUnreachable(SandboxError):
    """The first probe found no Docker daemon (D-11); nothing later may be read as this."""

    code = "no_daemon"

    def __init__(self, because: UnreachableBecause, message: str, *, hint: str, detail: str = "") -> None:
        super().__init__(message, hint=hint, detail=detail)
        self.because = because


class ImageUnavailable(SandboxError):
    """The daemon answers and the reference is well-formed, but the image cannot be pulled."""

    code = "no_image"


class SandboxGivenUp(SandboxLost):
    """odek itself took the container down; its events would tell of nothing else."""
