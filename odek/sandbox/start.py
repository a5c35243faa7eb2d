"""Starting a container and proving that it is the one that was asked for (R-30, R-37, R-38).

Whatever goes wrong here, an interrupt included, the container is taken down again; if odek is
killed outright, the lease takes it down (argv.run_argv).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from odek.errors import ExecutableMissing
from odek.process import Completed
from odek.sandbox import scripts
from odek.sandbox.argv import (
    LABEL,
    NONCE_LABEL,
    exec_argv,
    inspect_argv,
    list_by_label_argv,
    remove_argv,
    run_argv,
)
from odek.sandbox.container import Container
from odek.sandbox.diagnosis import explain_no_start
from odek.sandbox.docker import CALL_TIMEOUT_S, Docker, Pending, call, quote, read_array
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.facts import ContainerFacts
from odek.sandbox.networks import connect_rest, explain_refusal, service_names
from odek.sandbox.noncefile import NonceFile, require_known_owner
from odek.sandbox.owner import LIST_TEMPLATE, Owner, choose_leftovers, parse_listing
from odek.sandbox.services import ServiceNames
from odek.sandbox.spec import SandboxSpec
from odek.sandbox.verify import mismatches, nonce_of
from odek.text import plural, visible

START_TIMEOUT_S = 60.0  # a loaded machine may need long; nothing is lost by waiting
_LEASE_GRACE_S = 1.0
_MAX_NAMES = 20
_LEASE_BYTES = 1 << 16
_SPARE_HOME = "/dev/shm"
_SWEEP_TIMEOUT_S = 5.0  # nobody is to wait for other people's leftovers
# Another odek's container may be gone again before it can be looked at. These words may be anybody's, so
# they buy a few more attempts and nothing else.
_NAME_TAKEN = "already in use"
_ATTEMPTS_ON_WORDS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a start needs of the world besides Docker."""

    owner: Owner
    start_of: Callable[[int], str | None]
    """the start of the living process with a pid, None when there is none"""
    new_nonce: Callable[[], str]
    notify: Callable[[str], None]
    """takes a sentence for the user"""
    clock: Callable[[], float] = time.monotonic


def start(spec: SandboxSpec, docker: Docker, world: Surroundings) -> Container:
    """Return a running, verified container. Raises SandboxConfigError."""
    nonce = world.new_nonce()
    marker = NonceFile(spec.workdir, world.new_nonce(), identity=spec.workdir_id)
    lease: Pending | None = None
    with ExitStack() as cleanup:
        listing = docker.start(*list_by_label_argv(f"{LABEL}=1", LIST_TEMPLATE))  # runs beside the start
        cleanup.callback(listing.close)
        try:
            name, lease = _run(spec, docker, world, nonce)
            connect_rest(spec.plan, name, docker)
            facts = _prove(spec, name, marker, docker, world, nonce)
            container = Container(docker, spec, facts, lease=lease, new_nonce=world.new_nonce, clock=world.clock)
            _sweep(listing, docker, world)
            lease = None
        finally:
            if lease is not None:
                _abandon(lease, docker, world, nonce)
    return container


def _prove(
    spec: SandboxSpec, name: str, marker: NonceFile, docker: Docker, world: Surroundings, nonce: str
) -> ContainerFacts:
    """Return what is true of the container. Raises SandboxConfigError when it is not the one asked for."""
    with ExitStack() as cleanup:
        cleanup.callback(marker.remove)
        marker.make()
        inspecting = docker.start(*inspect_argv(name))
        cleanup.callback(inspecting.close)
        arguments = (marker.name, marker.inode, *_volume_arguments(spec))
        asking = exec_argv(name, user=spec.user, script=scripts.CHECK, args=arguments)
        checked = call(docker, *asking, stdin=spec.home.encode("utf-8", "surrogateescape"))
        inspected = _read_inspect(inspecting.wait(CALL_TIMEOUT_S))
    observed = _read_check(checked)
    _require_match(spec, inspected, nonce)
    _require_working(spec, observed, checked)
    require_known_owner(marker.owners, observed.get("uid", ""))
    services = service_names(spec.plan, str(inspected.get("Id", "")), docker)
    for note in services.notes:
        world.notify(note)
    return _facts(spec, inspected, observed, services, world)


def _run(spec: SandboxSpec, docker: Docker, world: Surroundings, nonce: str) -> tuple[str, Pending]:
    labels = world.owner.labels(nonce)
    for number in range(1, _MAX_NAMES + 1):
        name = f"odek-{world.owner.pid}-{number}"
        lease = docker.start(*run_argv(spec, name=name, labels=labels), hold_stdin=True, limit_bytes=_LEASE_BYTES)
        started = world.clock()
        ready = False
        try:
            ready = _await_ready(lease, world)
        finally:
            if not ready:
                _abandon(lease, docker, world, nonce)
        if ready:
            return name, lease
        done = lease.completed()
        by_words = number <= _ATTEMPTS_ON_WORDS and _NAME_TAKEN in done.stderr.text
        if not by_words and not _taken_by_another(name, docker, nonce):
            late = world.clock() - started >= START_TIMEOUT_S
            raise explain_refusal(spec.plan, docker) or explain_no_start(
                spec, done, waited_s=START_TIMEOUT_S if late else None
            )
    raise SandboxConfigError(
        f"the container names odek-{world.owner.pid}-1 to -{_MAX_NAMES} are all taken",
        hint="look at `docker ps --all` and remove what is not needed",
    )


def _await_ready(lease: Pending, world: Surroundings) -> bool:
    deadline = world.clock() + START_TIMEOUT_S
    while not lease.finished and world.clock() < deadline:
        if scripts.READY.encode() in lease.stdout.data:
            return True
        lease.pump(deadline - world.clock())
    return scripts.READY.encode() in lease.stdout.data and not lease.exited


def _abandon(lease: Pending, docker: Docker, world: Surroundings, nonce: str) -> None:
    """Take down whatever a start has made so far. The client is not killed at once: it may be about
    to create the container, which then sees its lease closed and ends by itself."""
    lease.release()
    deadline = world.clock() + _LEASE_GRACE_S
    while not lease.finished and world.clock() < deadline:
        lease.pump(_LEASE_GRACE_S)
    ended = lease.exited
    if ended:
        lease.close()
    _remove_by_nonce(docker, nonce)
    if not ended:
        lease.close()
        _remove_by_nonce(docker, nonce)


def _remove_by_nonce(docker: Docker, nonce: str) -> None:
    try:
        listed = call(docker, *list_by_label_argv(f"{NONCE_LABEL}={nonce}", "{{.ID}}"), timeout_s=5.0)
        names = tuple(listed.stdout.text.split())
        if names:
            call(docker, *remove_argv(*names), timeout_s=10.0)
    except ExecutableMissing:  # no process can be started at present; the closed lease ends the container
        pass


def _taken_by_another(name: str, docker: Docker, nonce: str) -> bool:
    """Whether a container of that name exists that we did not make (B09)."""
    done = call(docker, *inspect_argv(name))
    return done.code == 0 and nonce_of(_read_inspect(done)) != nonce


def _read_inspect(done: Completed) -> dict[str, Any]:
    value = read_array(done)
    if done.code == 0 and value is not None and len(value) == 1:
        return value[0]
    raise SandboxConfigError(
        "Docker does not tell the state of the container it has just started",
        hint="the image may have ended at once; `docker events` shows what happens",
        detail=quote(done),
    )


def _read_check(done: Completed) -> dict[str, str]:
    pairs = (line.partition("=") for line in done.stdout.text.splitlines())
    return {key: value for key, equals, value in pairs if equals}


def _require_match(spec: SandboxSpec, inspected: dict[str, Any], nonce: str) -> None:
    wrong = mismatches(inspected, spec, nonce=nonce)
    if wrong:
        raise SandboxConfigError(
            "the sandbox that Docker started is not the one that was asked for",
            hint="this engine does not enforce a setting; change the setting or the engine",
            detail="\n".join(visible(line) for line in wrong),
        )


def _require_working(spec: SandboxSpec, observed: dict[str, str], checked: Completed) -> None:
    if checked.code != scripts.CHECKED:
        if "missing" in observed:
            raise SandboxConfigError(
                f'image "{visible(spec.image)}" has no `{visible(observed["missing"])}`',
                hint="use an image with the usual shell programs",
            )
        raise SandboxConfigError(
            f'commands cannot run in image "{visible(spec.image)}" as user "{visible(spec.user)}"',
            hint="the user must exist in the image when given by name, and /workspace must be open to it",
            detail=quote(checked),
        )
    if observed.get("uid") == spec.helper_user.partition(":")[0]:
        raise SandboxConfigError(
            f'user "{visible(spec.user)}" of image "{visible(spec.image)}" is the one that odek\'s own processes need',
            hint="choose another user for the commands with sandbox_user, by number",
        )
    if observed.get("nonce") != "seen":
        raise SandboxConfigError(
            f'the Docker daemon does not see "{visible(spec.workdir)}": /workspace is another folder',
            hint="use a local daemon: this one sees other files (DOCKER_HOST, `docker context ls`)",
        )
    for number, volume in enumerate(spec.volumes, start=1):
        if observed.get(f"volume{number}") != "same":
            raise SandboxConfigError(
                f'"{visible(volume.target)}" in the sandbox is not "{visible(volume.source)}" of the working directory',
                hint="a folder on the way was exchanged while the sandbox was started, or is closed to its user",
            )


def _volume_arguments(spec: SandboxSpec) -> tuple[str, ...]:
    pairs = ((os.path.relpath(volume.source, spec.workdir), volume.target) for volume in spec.volumes)
    return tuple(text for pair in pairs for text in pair)


def _facts(
    spec: SandboxSpec,
    inspected: dict[str, Any],
    observed: dict[str, str],
    services: ServiceNames,
    world: Surroundings,
) -> ContainerFacts:
    home = spec.home
    if observed.get("home") != "writable":
        if observed.get("spare") != "writable":
            raise SandboxConfigError(
                f'HOME "{visible(home)}" of image "{visible(spec.image)}" is not open to user "{visible(spec.user)}"',
                hint="give the sandbox a HOME that is, with sandbox_env, or another sandbox_user",
            )
        world.notify(f"HOME {visible(home)} is not writable in this image; commands get HOME={_SPARE_HOME}")
        home = _SPARE_HOME
    writable = observed.get("workspace") == "writable"
    user = f"{observed.get('uid', '?')}:{observed.get('gid', '?')}"
    if not writable and not spec.readonly:
        world.notify(f"the working directory is not writable for the sandbox user {user}: commands can only read it")
    return ContainerFacts(
        name=str(inspected.get("Name", "")).removeprefix("/"),
        id=str(inspected.get("Id", "")),
        image=spec.image,
        image_id=spec.image_id,
        user=user,
        home=home,
        network=spec.plan.label,
        internet=spec.plan.internet,
        networks=spec.attached,
        service_names=services.names,
        shared_names=services.shared,
        pids_limit=spec.limits.pids,
        readonly=spec.readonly,
        workspace_writable=writable,
    )


def _sweep(listing: Pending, docker: Docker, world: Surroundings) -> None:
    """Remove what dead odeks left behind. Never an obstacle: a failure is not the user's problem."""
    done = listing.wait(_SWEEP_TIMEOUT_S)
    if done.code != 0:
        return
    leftovers = choose_leftovers(parse_listing(done.stdout.text), me=world.owner, start_of=world.start_of)
    if not leftovers:
        return
    try:
        removed = call(docker, *remove_argv(*leftovers), timeout_s=_SWEEP_TIMEOUT_S)
    except ExecutableMissing:
        return
    if removed.code == 0:
        world.notify(f"removed {plural(len(leftovers), 'container')} that an earlier odek left behind")
