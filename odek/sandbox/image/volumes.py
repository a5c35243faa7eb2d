"""The volumes that an image declares: where they are allowed to be (A16, E8).

Each becomes an empty folder of its own in the container, made by the engine as root, after the links of the
image have been followed. One that reaches the workspace would hide a folder of the user's, and its mount point
would be made in there.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from odek.sandbox.argv import bind_option
from odek.sandbox.container.verify import hidden_by_image
from odek.sandbox.docker import Docker, docker_output, run_docker
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.mounts import is_inside
from odek.sandbox.spec import Mount, SandboxSpec
from odek.sandbox_grammar import WORKSPACE
from odek.text import visible

_PROBE_TIMEOUT_S = 60.0
_ENGINES = ("/etc/hostname", "/etc/hosts", "/etc/resolv.conf", "/proc", "/sys")
_HINT = "use another image, or one built from it without that VOLUME"


def read_volumes(value: object) -> tuple[str, ...]:
    """Return the paths of an image's `Config.Volumes`, sorted. Pure. Raises TypeError when it is not an object."""
    if value is not None and not isinstance(value, dict):
        raise TypeError
    return tuple(sorted(_normal(path) for path in value or ()))


def require_apart(declared: Sequence[str]) -> None:
    """Refuse volumes that would hide what odek or the engine puts into the container. Pure. Raises SandboxConfigError.

    Only what their names say; links of the image are looked at by `probe_volumes`.
    """
    for path in declared:
        if is_inside(path, WORKSPACE):
            raise SandboxConfigError(visible(hidden_by_image(path)), hint=_HINT)
        if any(is_inside(path, folder) for folder in _ENGINES):
            raise SandboxConfigError(f"the image declares a volume at {visible(path)}", hint=_HINT)


def probe_volumes(spec: SandboxSpec, docker: Docker, *, labels: Sequence[tuple[str, str]]) -> None:
    """Raise SandboxConfigError when a volume leads into the workspace by a link of the image.

    The engine is let try it, with the folder read-only, and with its own init as the only program: no mount
    point can be made there, and no program of the image runs. One that exists already is found by the proof of
    the start, and leaves nothing behind.
    """
    done = run_docker(
        docker, "run", "--rm", "--init", "--pull", "never", "--network", "none", "--cap-drop", "ALL",
        "--security-opt", "no-new-privileges", "--no-healthcheck", "--log-driver", "none",
        *(item for key, value in labels for item in ("--label", f"{key}={value}")),
        "--mount", bind_option(Mount(source=spec.workdir, target=WORKSPACE, readonly=True)),
        "--entrypoint", "/sbin/docker-init", "--", spec.image_id, "--version",
        timeout_s=_PROBE_TIMEOUT_S,
    )  # fmt: skip
    if done.code != 0 or done.timed_out:
        names = ", ".join(visible(path) for path in spec.image_volumes[:8])
        raise SandboxConfigError(
            f"the image declares volumes ({names}), and one of them leads into {WORKSPACE}, where it would hide a "
            "folder of yours",
            hint=_HINT,
            detail=docker_output(done),
        )


def _normal(path: str) -> str:
    return os.path.normpath("/" + str(path).lstrip("/"))  # as the engines do, without a look at links
