"""What the settings ask of a sandbox, checked as far as that needs no Docker (R-8)."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from odek.app.openings import below_workdir, is_folder
from odek.app.sandbox_image import (
    choose_image,
)
from odek.app.shareable import require_shareable
from odek.config.options import Source
from odek.config.settings import Settings
from odek.events import Notice, Sink
from odek.host import Host
from odek.sandbox.build.dockerfile import Dockerfile
from odek.sandbox.image.reference import ImageChoice
from odek.sandbox.mounts import read_mounts
from odek.sandbox.network.plan import NetworkRequest
from odek.sandbox.spec import (
    DEFAULT_TMP_BYTES,
    Limits,
    Mount,
    require_apart,
    usual_tmp_size,
)
from odek.sandbox.workdir import (
    require_own_files,
    resolve_volume,
)
from odek.sandbox_grammar import WORKSPACE
from odek.text import visible


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxRequest:
    """A sandbox as the settings ask for it: checked, not yet approved, no Docker asked."""

    image: ImageChoice
    networks: NetworkRequest
    limits: Limits
    user: str
    """as asked for; "" for who started odek, which is another uid in some engines"""
    volumes: tuple[Mount, ...]
    missing_folders: tuple[str, ...]
    """volume sources that must be made"""
    below: tuple[str, ...] = ()
    """what this machine has mounted below the working directory, relative to it"""
    covered: tuple[str, ...] = ()
    """where in the container an empty folder takes the place of each of them that is a folder"""
    dockerfile: Dockerfile | None = None
    """what the image is built from; None when it is not built"""
    attachments: bool = False
    """whether there are files from outside the working directory to be given to it"""


def build_request(settings: Settings, host: Host, emit: Sink) -> SandboxRequest:
    """Check everything that needs no Docker. Raises SandboxConfigError or ConfigError."""
    sandbox = settings.sandbox
    origin = settings.origin_of
    require_shareable(host)
    here = read_mounts("self")
    below = below_workdir(host.cwd, here)
    resolved = [resolve_volume(text, workdir=host.cwd, origin=origin("sandbox_volumes")) for text in sandbox.volumes]
    volumes = tuple(mount for mount, _ in resolved)
    require_apart(volumes, origin=origin("sandbox_volumes"))
    by_project = settings.source_of("sandbox_volumes") is Source.PROJECT
    require_own_files(volumes, host.cwd, here, below=below, by_project=by_project, origin=origin("sandbox_volumes"))
    if sandbox.readonly:  # a promise about this machine's files, whichever way they are reached (D-22)
        volumes = tuple(replace(volume, readonly=True) for volume in volumes)
    image, dockerfile = choose_image(settings, host)
    return SandboxRequest(
        image=image,
        dockerfile=dockerfile,
        networks=_request_networks(settings, emit),
        limits=limits_of(settings),
        user=sandbox.user,
        volumes=volumes,
        below=below,
        covered=tuple(f"{WORKSPACE}/{path}" for path in below if is_folder(os.path.join(host.cwd, path))),
        missing_folders=tuple(mount.source for mount, missing in resolved if missing),
    )


def limits_of(settings: Settings) -> Limits:
    """Return the limits that `settings` ask for. Pure."""
    sandbox, tmp_source = settings.sandbox, settings.source_of("sandbox_tmp_size")
    memory = sandbox.memory.value if sandbox.memory else None
    tmp_size, usual = sandbox.tmp_size.value, usual_tmp_size(memory)
    if tmp_source is Source.DEFAULT:
        tmp_size = usual
    elif tmp_source is Source.PROJECT and tmp_size <= DEFAULT_TMP_BYTES:
        tmp_size = min(tmp_size, usual)  # above, it lowers a larger size that the operator has chosen
    return Limits(
        pids=sandbox.pids_limit,
        memory_bytes=memory,
        nano_cpus=sandbox.cpus.value if sandbox.cpus else None,
        tmp_bytes=tmp_size,
    )


def _request_networks(settings: Settings, emit: Sink) -> NetworkRequest:
    sandbox, origin = settings.sandbox, settings.origin_of
    _note_inherited_networks(settings, emit)
    return NetworkRequest(
        mode=sandbox.network,
        names=sandbox.networks,
        names_origin=origin("sandbox_networks"),
        compose_project=sandbox.compose_project,
        compose_origin=origin("sandbox_compose_project"),
    )


def _note_inherited_networks(settings: Settings, emit: Sink) -> None:
    """Say that `none` means "no other network": it takes no attached one away."""
    for key, word in (("sandbox_networks", "--sandbox-networks"), ("sandbox_compose_project", "--sandbox-compose")):
        attached, mode = settings.resolved[key], settings.resolved["sandbox_network"]
        if attached.value and mode.value == "none" and mode.source > attached.source:
            emit(
                Notice(
                    f"{mode.origin} none means no other network: those of {visible(attached.origin)} stay attached; "
                    f"{word} none leaves them out"
                )
            )
