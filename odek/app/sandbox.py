"""From settings to a running container, for every command alike: check, ask, start (R-8, R-60, D-11).

The order is part of the security: what can be checked without Docker is checked first, and the
approval gate comes before anything that could still fall back to the host.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from typing import TypeVar, cast

from odek.app.config import Config
from odek.app.git_data import GitData, find_git_data
from odek.app.openings import require_leavable, show_openings
from odek.app.project_approval import (
    ApprovalState,
    Grant,
    approval_request,
    approval_state,
    require_project_approval,
)
from odek.app.runtime import Runtime, owner_of
from odek.app.sandbox_image import (
    LocalImage,
    ensure_image,
    find_local_image,
    make_image,
    require_buildable,
)
from odek.app.sandbox_request import SandboxRequest, build_request
from odek.app.seccomp_file import profile_file, profile_path
from odek.app.shareable import require_shareable
from odek.approval.request import ApprovalRequest
from odek.config.settings import Settings
from odek.config.values import expand_marked
from odek.errors import OdekError
from odek.events import Notice, Sink, WarningIssued
from odek.host import Host, start_of
from odek.host_executor.files import PathWalk
from odek.sandbox.build.builder import Build, BuildOptions
from odek.sandbox.build.dockerfile import Dockerfile
from odek.sandbox.container.container import Container
from odek.sandbox.container.facts import ContainerFacts, planned_facts
from odek.sandbox.container.start import Surroundings, start
from odek.sandbox.docker import INFO_ARGV, find_image_argv, probe
from odek.sandbox.engine import Daemon, Engine, EngineRequirements, check_engine, find_daemon, own_user, query_engine
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.image.resolve import FoundImage
from odek.sandbox.network.attach import inspect_networks, service_names
from odek.sandbox.network.checks import removal_hint, require_unchanged, warnings
from odek.sandbox.network.plan import NetworkPlan
from odek.sandbox.spec import DEFAULT_HOME, Narrow, SandboxSpec, as_planned
from odek.sandbox.workdir import (
    open_source,
    open_workdir,
    require_same_workdir,
    resolve_volume,
)
from odek.sandbox_grammar import ENOUGH_PIDS, require_small_env
from odek.text import visible

T = TypeVar("T")


def _once(look_up: Callable[[SandboxPlan], T]) -> Callable[[SandboxPlan], T]:
    """Let a look-up happen when it is first needed, and once: what it returned or raised is kept."""

    @wraps(look_up)
    def kept(plan: SandboxPlan) -> T:
        known = plan.known
        if look_up.__name__ not in known:
            try:
                known[look_up.__name__] = look_up(plan)
            except OdekError as error:
                known[look_up.__name__] = error
        found = known[look_up.__name__]
        if isinstance(found, OdekError):
            raise found
        return cast("T", found)

    return kept


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxPlan:
    """The start of a sandbox as far as it can be known without changing anything.

    A start and its explanation walk through the same look-ups in the same order: `before_approval`, the question,
    `after_approval`. Each asks Docker when it is first needed, and once.
    """

    request: SandboxRequest
    config: Config
    runtime: Runtime
    known: dict[str, object] = field(default_factory=dict, init=False, repr=False)

    def seen_from(self, runtime: Runtime) -> SandboxPlan:
        """Return this plan, and what is known of it, for another conversation of this process."""
        plan = replace(self, runtime=runtime)
        plan.known.update(self.known)
        return plan

    @property
    def before_approval(self) -> tuple[Callable[[], object], ...]:
        """the look-ups that the question needs, which shows the IDs of networks"""
        return (self.engine, self.networks) if self.request.networks.attaches else ()

    @property
    def after_approval(self) -> tuple[Callable[[], object], ...]:
        """the other look-ups, in the order in which a start depends on them"""
        return (self.env, self.engine, self.local_image)

    def look_up_after_approval(self) -> None:
        """Make these look-ups. Docker is asked all at once, its answers are judged in their order. Raises OdekError."""
        image = () if self.request.dockerfile else (find_image_argv(self.request.image.ref),)
        engine = () if "described_engine" in self.known else (INFO_ARGV,)
        self.env()
        with self.runtime.docker.ahead(*engine, *image):
            for look_up in self.after_approval:
                look_up()

    @_once
    def daemon(self) -> str:
        """Return the version of the daemon that answers. Raises as `probe` does."""
        return self._found_daemon().version

    @_once
    def _found_daemon(self) -> Daemon:
        return find_daemon(self.runtime.docker, sleep=self.runtime.sleep)

    @_once
    def described_engine(self) -> Engine:
        """Return the engine, whether it is fit for this or not. Raises SandboxError."""
        return query_engine(self.runtime.docker, self._found_daemon().info)

    @_once
    def engine(self) -> Engine:
        """Return the engine, which gives what the sandbox needs. Raises SandboxError."""
        engine = self.described_engine()
        check_engine(engine, self._needs)
        require_leavable(self.request.below, rootless=engine.rootless)
        return engine

    @_once
    def networks(self) -> NetworkPlan:
        """Return the networks, those to be attached as Docker has them. Raises SandboxError."""
        if not self.request.networks.attaches:
            return NetworkPlan(mode=self.request.networks.mode)
        self.engine()
        return inspect_networks(self.request.networks, self.runtime.docker)

    def approval_request(self, networks: NetworkPlan | None = None) -> ApprovalRequest:
        """Return what the project asks for, with these `networks` or those that were looked up."""
        return approval_request(
            self.config.overrides,
            networks or self.networks(),
            self.runtime.host,
            self.request.dockerfile,
            readonly=self.config.settings.sandbox.readonly,
            build_network=self.config.settings.build_network,
        )

    def approval_state(self) -> ApprovalState:
        """Return whether the project's request needs an answer. Raises SandboxError and StateFileError."""
        runtime = self.runtime
        return approval_state(self.approval_request(), self.config.settings, runtime.host, runtime.operator)

    @_once
    def env(self) -> tuple[tuple[str, str], ...]:
        """Return the variables of the sandbox, those of the project with what they read. Raises ConfigError."""
        settings = self.config.settings
        env = expand_marked(
            settings.sandbox.env, settings.sandbox.raw_env, self.runtime.host.env, origin="./odek.json: sandbox_env"
        )
        require_small_env(env, f"{settings.origin_of('sandbox_env')}: sandbox_env")
        return env

    @_once
    def local_image(self) -> LocalImage | None:
        """Return the image if it is here; None: a start pulls or builds it. Raises SandboxError."""
        request, runtime = self.request, self.runtime
        self.engine()
        require_same_workdir(runtime.host.cwd, runtime.host.cwd_id)  # the question may have been open for long
        return find_local_image(
            request.image, request.dockerfile, runtime.host, docker=runtime.docker, emit=runtime.emit
        )

    @_once
    def git(self) -> GitData:
        """Return where the working directory's git data is now; a start looks again."""
        return find_git_data(self.runtime.host.cwd, uid=self.runtime.host.uid)

    def facts(self, *, name: str) -> ContainerFacts:
        """Return what a container called `name` will be, as far as that is planned (R-110). Raises OdekError."""
        local = self.local_image()
        spec = sandbox_spec(
            self,
            engine=self.engine(),
            networks=self.networks(),
            image=self.request.image.ref,
            image_id=local.found.id if local else "",
            env=self.env(),
            git=self.git(),
        )
        return planned_facts(spec, name=name, services=service_names(spec.networks, "", self.runtime.docker).names)

    @property
    def _needs(self) -> EngineRequirements:
        return EngineRequirements(
            limits=self.request.limits.settings,
            readonly=self.config.settings.sandbox.readonly,
            attaches=self.request.networks.attaches,
        )


def plan_sandbox(config: Config, runtime: Runtime, *, attachments: bool = False) -> SandboxPlan:
    """Return the plan of a start, all that needs no Docker checked; `attachments`: files are given to it.

    Raises SandboxConfigError, ConfigError or UsageError.
    """
    if config.settings.required_probes:
        from odek.app.verification import require_known_probes

        require_known_probes(config.settings)
    request = build_request(config.settings, runtime.host, runtime.emit)
    return SandboxPlan(request=replace(request, attachments=attachments), config=config, runtime=runtime)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedSandbox:
    """A sandbox that can be started, more than once: approved, its image there (R-105)."""

    plan: SandboxPlan
    grant: Grant
    image: str
    """the name of the image"""
    found: FoundImage


OnPlanned = Callable[["ContainerFacts | None"], None]
"""gets what a container will be if all goes as planned, None where that is not known"""


def start_sandbox(plan: SandboxPlan, *, narrow: Narrow = as_planned, on_planned: OnPlanned | None = None) -> Container:
    """Return the running container, after the operator's answer where it needs one; see `start_prepared`.

    Raises ApprovalDenied and StateFileError from the gate, and SandboxError.
    """
    return start_prepared(prepare_sandbox(plan), narrow=narrow, on_planned=on_planned)


def prepare_sandbox(plan: SandboxPlan) -> PreparedSandbox:
    """Do what comes before a start: look up, ask, get the image. Raises as `start_sandbox` does."""
    request, settings, runtime = plan.request, plan.config.settings, plan.runtime
    for look_up in plan.before_approval:
        look_up()
    if request.networks.attaches:
        for note in service_names(plan.networks(), "", runtime.docker).notes:
            runtime.emit(Notice(note))  # two checkouts behind one name are pointed out before the question
    asked = plan.approval_request()
    grant = require_project_approval(asked, settings, runtime.host, runtime.operator, runtime.emit)
    plan.look_up_after_approval()
    image, found = ensure_image(
        plan.local_image(),
        request.image,
        request.dockerfile,
        runtime.host,
        network=settings.build_network,
        docker=runtime.docker,
        emit=runtime.emit,
    )
    return PreparedSandbox(plan=plan, grant=grant, image=image, found=found)


def start_prepared(
    prepared: PreparedSandbox,
    *,
    expected: NetworkPlan | None = None,
    labels: tuple[tuple[str, str], ...] = (),
    verify: bool = True,
    narrow: Narrow = as_planned,
    on_planned: OnPlanned | None = None,
) -> Container:
    """Look once more at all that can have changed since the question, and start.

    A network that joined the Compose project or was created again stops it (R-63), and so does a request that the grant
    was not given for, and, if it is to `verify`, a probe that is open. `expected` are the networks, if not those of the
    plan; `labels` are of the container. `on_planned` is called while Docker makes the container. Raises ApprovalDenied,
    StateFileError and SandboxError.
    """
    plan, runtime, host = prepared.plan, prepared.plan.runtime, prepared.plan.runtime.host
    require_same_workdir(host.cwd, host.cwd_id)  # what a build was sent is in its image
    expected = networks = expected or plan.networks()
    if plan.request.networks.attaches:
        networks = inspect_networks(plan.request.networks, runtime.docker)
        require_unchanged(expected, networks)
        _show_networks(networks, runtime.emit)
    prepared.grant.require(plan.approval_request(networks))
    git = find_git_data(host.cwd, uid=host.uid)
    shares_git = plan.config.settings.sandbox.git
    show_openings(plan.request.below, host.cwd, git, runtime.emit, shares_git=shares_git)
    with ExitStack() as undo:
        for folder in plan.request.missing_folders:
            undo.callback(_remove_folders, _make_folder(folder, host, runtime.emit), host)
        _require_same_volumes(plan)
        spec = sandbox_spec(
            plan,
            engine=plan.engine(),
            networks=networks,
            image=prepared.image,
            image_id=prepared.found.id,
            env=plan.env(),
            git=git,
        )
        spec = narrow(replace(spec, image_volumes=prepared.found.volumes))
        # of these two the proof tells more than the plan: a request with less would only be asked again
        is_known = not networks.attached and spec.user.replace(":", "").isdecimal()
        container = start_spec(spec, runtime, labels, on_planned, is_known=is_known)
        undo.pop_all()
    if verify:
        require_closed(container, plan.config.settings, runtime, plan.daemon)
    return container


def require_closed(
    container: Container, settings: Settings, runtime: Runtime, daemon: Callable[[], str] | None = None
) -> None:
    """Let go of a container that was not found closed, if the settings ask for that.

    `daemon` returns the engine's version; None: it is asked. Raises SandboxConfigError and StateFileError.
    """
    if not settings.verification_asked_by:
        return
    from odek.app.verification import require_verified  # few starts ask for it

    try:
        version = daemon() if daemon else probe(runtime.docker, sleep=runtime.sleep)
        require_verified(container, settings, runtime, daemon=version)
    except BaseException:
        container.close()
        raise


def start_spec(
    spec: SandboxSpec,
    runtime: Runtime,
    labels: tuple[tuple[str, str], ...] = (),
    on_planned: OnPlanned | None = None,
    *,
    is_known: bool = False,
) -> Container:
    """Start what `spec` says, and name a low process limit where that may be the cause of a failure.

    `is_known`: `on_planned` gets what it says.
    """
    surroundings = Surroundings(
        owner=owner_of(runtime.host),
        start_of=start_of,
        new_nonce=partial(runtime.random_hex, 16),
        emit=runtime.emit,
        labels=labels,
        on_begun=lambda name: on_planned(planned_facts(spec, name=name) if is_known else None) if on_planned else None,
        expects_commands=on_planned is not None,
    )
    try:
        with profile_file(spec.engine, runtime.host) as path:
            return start(replace(spec, seccomp_file=path), runtime.docker, surroundings)
    except SandboxConfigError as error:
        if spec.limits.pids >= ENOUGH_PIDS:
            raise
        raise SandboxConfigError(
            f"{error.message}; the process limit of {spec.limits.pids} may be the cause",
            hint=f"an engine has threads of its own in the container: try {ENOUGH_PIDS}",
            detail=error.detail,
        ) from error


def _require_same_volumes(plan: SandboxPlan) -> None:
    """Raise SandboxConfigError when a volume would not pass any more: a link was put in its place."""
    settings = plan.config.settings
    origin = settings.origin_of("sandbox_volumes")
    for text in settings.sandbox.volumes:
        mount, missing = resolve_volume(text, workdir=plan.runtime.host.cwd, origin=origin)
        if missing or replace(mount, readonly=settings.sandbox.readonly) not in plan.request.volumes:
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
    if made:
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


def build_sandbox_image(dockerfile: Dockerfile, config: Config, runtime: Runtime, *, no_cache: bool) -> Build:
    """Build the image of `dockerfile` now, whether it was built before or not, after the operator's answer.

    The checks and the gate are those of a start. Raises ApprovalDenied, StateFileError and SandboxError.
    """
    host, network = runtime.host, config.settings.build_network
    require_shareable(host)
    if not network:
        require_buildable(dockerfile)
    request = approval_request((), NetworkPlan(), host, dockerfile, build_network=network)
    require_project_approval(request, config.settings, host, runtime.operator, runtime.emit)
    probe(runtime.docker, sleep=runtime.sleep)
    options = BuildOptions(network=network, no_cache=no_cache)
    return make_image(dockerfile, host, options, docker=runtime.docker, emit=runtime.emit)


def sandbox_spec(
    plan: SandboxPlan,
    *,
    engine: Engine,
    networks: NetworkPlan,
    image: str,
    image_id: str,
    env: tuple[tuple[str, str], ...],
    git: GitData,
) -> SandboxSpec:
    """Return the sandbox that is started: the plan with what is known since. Pure."""
    request, settings, host = plan.request, plan.config.settings, plan.runtime.host
    return SandboxSpec(
        image=image,
        image_id=image_id,
        networks=networks,
        workdir=host.cwd,
        workdir_id=host.cwd_id,
        readonly=settings.sandbox.readonly,
        user=request.user or own_user(engine, uid=host.uid, gid=host.gid),
        engine=engine,
        home=dict(env).get("HOME", DEFAULT_HOME),
        limits=request.limits,
        env=env,
        seccomp_file=profile_path(engine, host),
        volumes=request.volumes,
        covered=request.covered,
        left_out=request.below,
        git=git.mount if settings.sandbox.git else None,
        git_outside=git.is_outside and not (git.mount and settings.sandbox.git),
        umask=host.umask,
        attachments=request.attachments,
    )


def _show_networks(plan: NetworkPlan, emit: Sink) -> None:
    for warning in warnings(plan):
        emit(WarningIssued(warning))
    hint = removal_hint(plan)
    if hint:
        emit(Notice(hint))
