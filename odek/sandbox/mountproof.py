"""Is each mount what was approved? By identity, from outside (R-33, R-37, D-22).

On a machine of its own, as that of Docker Desktop or of a remote engine, the container's processes do not
show here. There a file that odek puts into each folder through its own descriptor must show at the target,
which the image's shell tells: so a folder that was exchanged is still seen, by an image that does not lie.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from odek.sandbox.argv import tmpfs_mounts
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.mounts import Expected, MountPoint, are_of_container, displaced, place_of, read_mounts
from odek.sandbox.noncefile import NonceFile
from odek.sandbox.spec import WORKSPACE, Mount, SandboxSpec
from odek.sandbox.workdir import open_source
from odek.text import visible

MountsOf = Callable[[int], tuple[MountPoint, ...]]


def prove_mounts(
    spec: SandboxSpec, folder: int, inspected: Mapping[str, Any], cleanup: ExitStack, *, mounts_of: MountsOf, mark: str
) -> tuple[tuple[str, str, str], ...]:
    """Prove the mounts of the running container that `inspect` shows; `folder` is the open working directory.

    Returns what is left for a command inside to look at: for each volume its place below the workspace, its
    target, and a file that must show there, "" where none could be made. They go with `cleanup`.
    Raises SandboxConfigError.
    """
    sources = [_open(folder, volume, spec) for volume in spec.volumes]
    for descriptor in sources:
        cleanup.callback(os.close, descriptor)
    inside = _mounts_inside(inspected, mounts_of)
    here = read_mounts("self") if inside else ()
    places = [place_of(descriptor, here) for descriptor in (folder, *sources)]
    whole = (Mount(source=spec.workdir, target=WORKSPACE, readonly=spec.readonly), *spec.volumes)
    if inside:
        expected = tuple(
            Expected(source=mount.source, target=mount.target, readonly=mount.readonly, place=place)
            for mount, place in zip(whole, places, strict=True)
        )
        tmpfs = tuple(target for target, _ in tmpfs_mounts(spec))
        _require_none(displaced(inside, expected, covered=spec.covered, tmpfs=tmpfs))
        if None not in places:
            return ()
    return tuple(
        (
            os.path.relpath(volume.source, spec.workdir),
            volume.target,
            _put_mark(volume, descriptor, f"{mark}-{n}", cleanup),
        )
        for n, (volume, descriptor) in enumerate(zip(spec.volumes, sources, strict=True))
    )


def exchanged_error(volume: Mount) -> SandboxConfigError:
    """Return the refusal of a volume that is not what lies in the working directory."""
    return SandboxConfigError(
        f'"{visible(volume.target)}" in the sandbox is not "{visible(volume.source)}" of the working directory',
        hint="a folder on the way was exchanged while the sandbox was started, or is closed to its user",
    )


def _mounts_inside(inspected: Mapping[str, Any], mounts_of: MountsOf) -> tuple[MountPoint, ...]:
    """Return the mounts of the container, () where its processes do not show on this machine."""
    state = inspected.get("State")
    pid = state.get("Pid") if isinstance(state, Mapping) else None
    inside = mounts_of(pid) if isinstance(pid, int) and pid > 0 else ()
    return inside if are_of_container(inside, str(inspected.get("Id", ""))) else ()


def _open(folder: int, volume: Mount, spec: SandboxSpec) -> int:
    try:
        return open_source(folder, os.path.relpath(volume.source, spec.workdir))
    except OSError as error:  # a link now, or gone
        raise exchanged_error(volume) from error


def _require_none(differences: tuple[str, ...]) -> None:
    if differences:
        raise SandboxConfigError(
            "the sandbox shows other folders than those that were asked for: "
            + "; ".join(visible(line) for line in differences),
            hint="either the Docker daemon sees other files under that path than odek does (odek in a container or a "
            "mount namespace), or something was exchanged during the start, or the image has links or volumes there",
        )


def _put_mark(volume: Mount, descriptor: int, mark: str, cleanup: ExitStack) -> str:
    """Return the name of a new file in a folder; "" for a file, and where nothing may be written."""
    status = os.fstat(descriptor)
    if not stat.S_ISDIR(status.st_mode):
        return ""
    marker = NonceFile(volume.source, mark, identity=(status.st_dev, status.st_ino))
    cleanup.callback(marker.remove)
    marker.make()
    return "" if marker.inode else marker.name
