"""From settings to a running container, for every command alike: check, ask, start (R-8, R-60, D-11).

The order is part of the security: what can be checked without Docker is checked first, and the
approval gate stands before anything that could still fall back to the host.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace

from odek.app.openings import below_workdir, git_data_outside, is_folder, require_leavable, tell_of_openings
from odek.app.project_approval import approval_request, require_project_approval
from odek.app.sandbox_image import choose_image, ensure_image, make_image, require_buildable
from odek.app.seccomp_file import profile_file, profile_path
from odek.approval.gate import Operator
from odek.approval.request import ApprovalRequest
from odek.config.options import Source
from odek.config.resolve import Override
from odek.config.settings import Settings
from odek.config.values import expand_marked
from odek.events import Notice, Sink, WarningIssued
from odek.host import Host, home_of_owner, read_identity, start_of
from odek.host_executor.files import PathWalk
from odek.sandbox.build.builder import Build, BuildOptions
from odek.sandbox.build.dockerfile import Dockerfile
from odek.sandbox.client_config import read_client_config
from odek.sandbox.container.container import Container
from odek.sandbox.container.owner import Owner
from odek.sandbox.container.start import Surroundings, start
from odek.sandbox.docker import Docker, probe
from odek.sandbox.engine import Engine, EngineRequirements, detect_engine, own_user
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.image.reference import ImageChoice
from odek.sandbox.mounts import read_mounts
from odek.sandbox.network.attach import inspect_networks, service_names
from odek.sandbox.network.checks import removal_hint, require_unchanged, warnings
from odek.sandbox.network.plan import NetworkPlan, NetworkRequest
from odek.sandbox.spec import DEFAULT_HOME, DEFAULT_TMP_BYTES, Limits, Mount, SandboxSpec, require_apart, usual_tmp_size
from odek.sandbox.workdir import (
    check_workdir,
    open_source,
    open_workdir,
    require_own_files,
    require_same_workdir,
    resolve_volume,
)
from odek.sandbox_grammar import ENOUGH_PIDS, WORKSPACE, require_small_env
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
    """where in the container an empty folder stands for those of them that are folders"""
    dockerfile: Dockerfile | None = None
    """what the image is built from; None when it is not built"""
    attachments: bool = False
    """whether there are files from outside the working directory to be given to it"""


def build_request(settings: Settings, host: Host, emit: Sink) -> SandboxRequest:
    """Check everything that needs no Docker. Raises SandboxConfigError or ConfigError."""
    sandbox = settings.sandbox
    origin = settings.origin_of
    _check_workdir(host)
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


def _check_workdir(host: Host) -> None:
    client = read_client_config(host.env, home=host.home)  # one that cannot name its daemon is not "unreachable"
    check_workdir(
        host.cwd,
        home=host.home,
        docker_host=client.host,  # that of a context as well (F5)
        docker_config=client.folder,
        home_of_owner=home_of_owner(host.cwd),
    )


def start_sandbox(
    draft: SandboxRequest,
    settings: Settings,
    overrides: Sequence[Override],
    host: Host,
    *,
    docker: Docker,
    operator: Operator | None,
    emit: Sink,
    new_nonce: Callable[[], str],
    sleep: Callable[[float], None],
) -> Container:
    """Return the running container that `draft` describes, after the operator's word where it needs one.

    Networks are looked at before the question, which shows their IDs, and once more after it: one
    that joined the Compose project or was made anew in between stops the run (R-63).
    Raises ApprovalDenied and StateFileError from the gate, and SandboxError.
    """
    plan = NetworkPlan(mode=draft.networks.mode)
    if draft.networks.attaches:
        engine = detect_engine(docker, needs_of(draft, settings), sleep=sleep)
        plan = inspect_networks(draft.networks, docker)
        for note in service_names(plan, "", docker).notes:
            emit(Notice(note))  # two checkouts behind one name are pointed out before the question
    request = approval_request(overrides, plan, host, draft.dockerfile, readonly=settings.sandbox.readonly)
    require_project_approval(request, settings, host, operator, emit)
    env = expand_marked(settings.sandbox.env, settings.sandbox.raw_env, host.env, origin="./odek.json: sandbox_env")
    require_small_env(env, f"{settings.origin_of('sandbox_env')}: sandbox_env")
    if not draft.networks.attaches:
        engine = detect_engine(docker, needs_of(draft, settings), sleep=sleep)
    require_same_workdir(host.cwd, host.cwd_id)  # the question may have stood for long
    image, found = ensure_image(
        draft.image, draft.dockerfile, host, network=settings.build_network, docker=docker, emit=emit
    )
    require_same_workdir(host.cwd, host.cwd_id)  # what a build was sent is in its image
    if draft.networks.attaches:
        require_unchanged(plan, inspect_networks(draft.networks, docker))
        _tell_of_networks(plan, emit)
    require_leavable(draft.below, rootless=engine.rootless)
    tell_of_openings(draft.below, host.cwd, emit)
    with ExitStack() as undo:
        for folder in draft.missing_folders:
            undo.callback(_remove_folders, _make_folder(folder, host, emit), host)
        _require_same_volumes(draft, settings, host)
        spec = sandbox_spec(draft, settings, host, engine=engine, plan=plan, image=image, image_id=found.id, env=env)
        spec = replace(spec, image_volumes=found.volumes)
        container = _start(spec, host, docker, _surroundings(host, new_nonce, emit))
        undo.pop_all()
    return container


def _start(spec: SandboxSpec, host: Host, docker: Docker, world: Surroundings) -> Container:
    """Start, and name a low process limit where that may be the cause of a failure."""
    try:
        with profile_file(spec.engine, host) as path:
            return start(replace(spec, seccomp_file=path), docker, world)
    except SandboxConfigError as error:
        if spec.limits.pids >= ENOUGH_PIDS:
            raise
        raise SandboxConfigError(
            f"{error.message}; the process limit of {spec.limits.pids} may be the cause",
            hint=f"some engines need up to {ENOUGH_PIDS} for their own part of a start",
            detail=error.detail,
        ) from error


def needs_of(draft: SandboxRequest, settings: Settings) -> EngineRequirements:
    """Return what `draft` asks of its engine. Pure."""
    return EngineRequirements(
        limits=draft.limits.settings, readonly=settings.sandbox.readonly, attaches=draft.networks.attaches
    )


def _require_same_volumes(draft: SandboxRequest, settings: Settings, host: Host) -> None:
    """Raise SandboxConfigError when a volume would not pass any more: a link was put in its place."""
    origin = settings.origin_of("sandbox_volumes")
    for text in settings.sandbox.volumes:
        mount, missing = resolve_volume(text, workdir=host.cwd, origin=origin)
        if missing or replace(mount, readonly=settings.sandbox.readonly) not in draft.volumes:
            raise SandboxConfigError(
                f'volume "{visible(text)}" changed while the sandbox was made ready', hint="start odek again"
            )


def _make_folder(folder: str, host: Host, emit: Sink) -> tuple[str, ...]:
    """Make a folder below the working directory, following no link (R-33).

    Returns what was made, relative to the working directory, the innermost first.
    """
    walk = PathWalk(host.cwd, f'"{visible(folder)}"', create=True)
    made: list[str] = []
    try:
        for part in os.path.relpath(folder, host.cwd).split("/"):
            is_new = not _exists(part, walk.folder)
            walk.enter(part)
            if is_new:
                made.insert(0, walk.path)
    except OSError as error:
        _remove_folders(tuple(made), host)
        raise SandboxConfigError(
            f'the folder "{visible(folder)}" cannot be made for sandbox_volumes: {error.strerror}',
            hint="make it yourself, or take it out of sandbox_volumes",
        ) from error
    finally:
        walk.close()
    emit(Notice(f"made the folder {visible(folder)} for sandbox_volumes"))
    return tuple(made)


def _exists(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def _remove_folders(made: tuple[str, ...], host: Host) -> None:
    """Remove the folders that a refused start has made, as far as they are empty, following no link (A15)."""
    with suppress(OSError, SandboxConfigError):
        workdir = open_workdir(host.cwd, host.cwd_id)
        try:
            for path in made:
                parent, _, name = path.rpartition("/")
                folder = open_source(workdir, parent)
                try:
                    os.rmdir(name, dir_fd=folder)
                finally:
                    os.close(folder)
        finally:
            os.close(workdir)


def build_sandbox_image(
    dockerfile: Dockerfile,
    settings: Settings,
    host: Host,
    *,
    no_cache: bool,
    docker: Docker,
    operator: Operator | None,
    emit: Sink,
    sleep: Callable[[float], None],
) -> Build:
    """Build the image of `dockerfile` now, whether it was built before or not, after the operator's word.

    The checks and the gate are those of a start. Raises ApprovalDenied, StateFileError and SandboxError.
    """
    _check_workdir(host)
    if not settings.build_network:
        require_buildable(dockerfile)
    request = ApprovalRequest(
        project_dir=host.cwd, dockerfile_sha256=dockerfile.sha256, ignore_sha256=dockerfile.ignore_sha256
    )
    require_project_approval(request, settings, host, operator, emit)
    probe(docker, sleep=sleep)
    options = BuildOptions(network=settings.build_network, no_cache=no_cache)
    return make_image(dockerfile, host, options, docker=docker, emit=emit)


def sandbox_spec(
    draft: SandboxRequest,
    settings: Settings,
    host: Host,
    *,
    engine: Engine,
    plan: NetworkPlan,
    image: str,
    image_id: str,
    env: tuple[tuple[str, str], ...],
) -> SandboxSpec:
    """Return the sandbox that is started: `draft` with what only Docker and the gate could tell."""
    return SandboxSpec(
        image=image,
        image_id=image_id,
        networks=plan,
        workdir=host.cwd,
        workdir_id=host.cwd_id,
        readonly=settings.sandbox.readonly,
        user=draft.user or own_user(engine, uid=host.uid, gid=host.gid),
        engine=engine,
        home=dict(env).get("HOME", DEFAULT_HOME),
        limits=draft.limits,
        env=env,
        seccomp_file=profile_path(engine, host),
        volumes=draft.volumes,
        covered=draft.covered,
        left_out=draft.below,
        git_outside=git_data_outside(host.cwd),
        umask=host.umask,
        attachments=draft.attachments,
    )


def _surroundings(host: Host, new_nonce: Callable[[], str], emit: Sink) -> Surroundings:
    return Surroundings(owner=owner_of(host), start_of=start_of, new_nonce=new_nonce, emit=emit)


def owner_of(host: Host) -> Owner:
    """Return who the containers of this process belong to."""
    me = read_identity(host.pid)
    return Owner(
        pid=host.pid,
        start=me.start_ticks if me else "",
        boot=me.boot_id if me else "",
        pidns=me.pid_namespace if me else "",
        uid=host.uid,
    )


def _request_networks(settings: Settings, emit: Sink) -> NetworkRequest:
    sandbox, origin = settings.sandbox, settings.origin_of
    _tell_of_inherited_networks(settings, emit)
    return NetworkRequest(
        mode=sandbox.network,
        names=sandbox.networks,
        names_origin=origin("sandbox_networks"),
        compose_project=sandbox.compose_project,
        compose_origin=origin("sandbox_compose_project"),
    )


def _tell_of_inherited_networks(settings: Settings, emit: Sink) -> None:
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


def _tell_of_networks(plan: NetworkPlan, emit: Sink) -> None:
    for warning in warnings(plan):
        emit(WarningIssued(warning))
    hint = removal_hint(plan)
    if hint:
        emit(Notice(hint))
