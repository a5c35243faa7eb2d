"""Sandboxes for many conversations of one process: prepared once, compared with the present before each start (R-140).

What was looked up, asked and built at the start holds until something of it changes. A change is named and refuses the
start; it is never followed, and never leads to the host. What a *project* asked for and the operator approved is held
to its networks: once they differed, nothing is started until odek is, also if they are undone (D-17). Networks that
the operator named are looked up anew each time.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock

from odek import safefile
from odek.app.runtime import Runtime
from odek.app.sandbox import PreparedSandbox, SandboxPlan, start_prepared
from odek.events import Notice, WarningIssued
from odek.sandbox.build.context import read_dockerfile
from odek.sandbox.build.dockerfile import NAME, Dockerfile
from odek.sandbox.container.container import Container
from odek.sandbox.engine import find_daemon, query_engine
from odek.sandbox.errors import SandboxConfigError, SandboxError
from odek.sandbox.image.resolve import find_image
from odek.sandbox.network.attach import inspect_networks
from odek.sandbox.network.checks import network_changes, network_diff
from odek.sandbox.network.plan import NetworkPlan
from odek.sandbox.workdir import require_same_workdir, resolve_volume
from odek.text import visible

_NETWORK_KEYS = frozenset(("sandbox_networks", "sandbox_compose_project"))
_PROJECT_FILE = "odek.json"
_PROJECT_FILE_LIMIT = 1 << 20
_SHOWN_DIGITS = 12


class SandboxChanged(SandboxError):
    """What a sandbox was prepared for is no longer so; nothing is started."""


@dataclass(slots=True)
class _Seen:
    """What the last start found."""

    networks: NetworkPlan
    project_file: str
    refusal: SandboxChanged | None = None


class PreparedSandboxes:
    """Starts containers of one prepared sandbox; safe to be used by several threads."""

    def __init__(self, prepared: PreparedSandbox, *, hint: str) -> None:
        """`hint` says how to be asked again, for the errors."""
        self._prepared = prepared
        self._hint = hint
        self._by_project = any(override.key in _NETWORK_KEYS for override in prepared.plan.config.overrides)
        self._lock = Lock()
        plan = prepared.plan
        self._seen = _Seen(networks=plan.networks(), project_file=_digest_of(plan.runtime.host.cwd))

    @property
    def plan(self) -> SandboxPlan:
        return self._prepared.plan

    @property
    def refusal(self) -> SandboxChanged | None:
        """why nothing is started until odek is; None: nothing is known of that"""
        with self._lock:
            return self._seen.refusal

    def require_unchanged(self, runtime: Runtime) -> NetworkPlan:
        """Return the networks of the next start. Raises SandboxChanged, and SandboxError when Docker does not answer.

        About five docker calls.
        """
        refusal = self.refusal
        if refusal is not None:
            raise refusal
        self._require_same_files()
        self._require_engine(runtime)
        self._require_image(runtime)
        return self._require_networks(runtime)

    def start(self, runtime: Runtime, *, labels: tuple[tuple[str, str], ...] = ()) -> Container:
        """Return a running container with `labels`. Raises as `require_unchanged` and `start_prepared` do."""
        networks = self.require_unchanged(runtime)
        self._note_project_file(runtime)
        prepared = replace(self._prepared, plan=self.plan.seen_from(runtime))
        try:
            return start_prepared(prepared, expected=networks, labels=labels)
        except SandboxError:
            self._require_networks(runtime)  # changed at this very moment: the refusal says so, and stays
            raise

    def _require_same_files(self) -> None:
        """Compare the folder, its volumes and its Dockerfile."""
        host, request, settings = self.plan.runtime.host, self.plan.request, self.plan.config.settings
        try:
            require_same_workdir(host.cwd, host.cwd_id)
            for text in settings.sandbox.volumes:
                mount, missing = resolve_volume(text, workdir=host.cwd, origin=settings.origin_of("sandbox_volumes"))
                readonly = mount.readonly or settings.sandbox.readonly
                known = replace(mount, readonly=readonly) in request.volumes
                if not known or (missing and mount.source not in request.missing_folders):
                    raise self._changed(f'volume "{visible(text)}" is not what it was')
            now = None if settings.sandbox.image else read_dockerfile(host.cwd)
        except SandboxConfigError as error:
            raise self._changed(error.message) from error
        if _digests(now) != _digests(request.dockerfile):
            then = _shown(request.dockerfile)
            raise self._changed(f"{NAME} or its .dockerignore changed: {then} when odek started, now {_shown(now)}")

    def _require_engine(self, runtime: Runtime) -> None:
        """Compare the engine: how a container is made, and what was verified of it, was decided for that one."""
        then, known = self.plan.daemon(), self.plan.described_engine()
        daemon = find_daemon(runtime.docker, sleep=runtime.sleep)
        now, engine = daemon.version, query_engine(runtime.docker, daemon.info)
        if (now, engine) != (then, known):
            version = f"version {visible(then)} then, {visible(now)} now"
            how = version if now != then else "its security options or its limits are others"
            raise self._changed(f"the Docker engine is not the one that there was when odek started: {how}")

    def _require_image(self, runtime: Runtime) -> None:
        image, image_id = self._prepared.image, self._prepared.found.id
        if not find_image(image_id, runtime.docker):
            raise self._changed(f'the image "{visible(image)}" ({image_id}) is gone; nothing is pulled or built again')

    def _require_networks(self, runtime: Runtime) -> NetworkPlan:
        plan = self.plan
        if not plan.request.networks.attaches:
            return plan.networks()
        try:
            networks = inspect_networks(plan.request.networks, runtime.docker)
        except SandboxConfigError as error:
            raise self._changed(error.message, detail=error.detail) from error
        if self._by_project:
            differences = network_diff(plan.networks(), networks)
            if differences:
                raise self._latch(differences)
            return networks
        with self._lock:
            before, self._seen.networks = self._seen.networks, networks
        for change in network_changes(before, networks):
            runtime.emit(WarningIssued(change, hint="the operator named it, so the sandbox gets it as it is now"))
        return networks

    def _latch(self, differences: tuple[str, ...]) -> SandboxChanged:
        refusal = self._changed(
            f"the networks are no longer those that were approved: {'; '.join(differences)}",
        )
        with self._lock:
            self._seen.refusal = self._seen.refusal or refusal
            return self._seen.refusal

    def _changed(self, message: str, *, detail: str = "") -> SandboxChanged:
        return SandboxChanged(message, hint=self._hint, detail=detail)

    def _note_project_file(self, runtime: Runtime) -> None:
        now = _digest_of(runtime.host.cwd)
        with self._lock:
            changed, self._seen.project_file = now != self._seen.project_file, now
        if changed:
            runtime.emit(Notice(f"{_PROJECT_FILE} has changed; what it says now counts after a restart"))


def _digest_of(folder: str) -> str:
    """Return the digest of the project's settings; "" where they cannot be read, which a restart says."""
    with suppress(OSError, safefile.TooLarge, safefile.NotRegular):
        path = os.path.join(folder, _PROJECT_FILE)
        return hashlib.sha256(safefile.read_regular(path, limit_bytes=_PROJECT_FILE_LIMIT)).hexdigest()
    return ""


def _digests(dockerfile: Dockerfile | None) -> tuple[str, str]:
    return (dockerfile.sha256, dockerfile.ignore_sha256) if dockerfile else ("", "")


def _shown(dockerfile: Dockerfile | None) -> str:
    if dockerfile is None:
        return "there is none"
    ignore = f", .dockerignore {dockerfile.ignore_sha256[:_SHOWN_DIGITS]}" if dockerfile.ignore else ""
    return f"sha256 {dockerfile.sha256[:_SHOWN_DIGITS]}{ignore}"
