"""Starting a container and proving that it is the one that was asked for (R-30, R-37, R-38).

Whatever goes wrong here, an interrupt included, the container is taken down again; if odek is
killed outright, the lease takes it down (argv.run_argv).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

from odek.errors import ExecutableMissing
from odek.events import Notice, Sink
from odek.process import Completed
from odek.sandbox.argv import (
    LABEL,
    NONCE_LABEL,
    exec_argv,
    list_by_label_argv,
    remove_argv,
    run_argv,
)
from odek.sandbox.build.scratch import sweep_scratch
from odek.sandbox.container import scripts
from odek.sandbox.container.container import Container
from odek.sandbox.container.exec_stream import ExecStreams
from odek.sandbox.container.failure_reasons import explain_no_start
from odek.sandbox.container.mount_probe import NonceFile
from odek.sandbox.container.owner import LIST_TEMPLATE, Owner, choose_leftovers, parse_listing
from odek.sandbox.container.spares import WaitingExec, room_for_spares
from odek.sandbox.container.verify import verify_container
from odek.sandbox.docker import (
    CALL_TIMEOUT_S,
    PROBE_ARGV,
    Docker,
    DockerProcess,
    docker_output,
    inspect_argv,
    run_docker,
)
from odek.sandbox.errors import SandboxLost
from odek.sandbox.image.resolve import OTHER_PROCESSOR, explain_processor
from odek.sandbox.image.volumes import probe_volumes, require_apart
from odek.sandbox.mounts import MountPoint, read_mounts
from odek.sandbox.network.attach import connect_rest, explain_refusal
from odek.sandbox.spec import SandboxSpec
from odek.sandbox.workdir import require_same_workdir
from odek.text import plural

# Preparing a container takes a second, but an engine that was just switched on, or that unpacks or copies
# a big image first (containerd's store, vfs), may need much longer, and slow is not absent. So what ends a
# start early, well within half a minute (B23), is an engine that does not answer any more; one that does
# has a minute.
PATIENCE_S = 15.0
START_TIMEOUT_S = 60.0
_STILL_THERE_S = 3.0
_MADE_S = 0.08  # by then Docker has made the container, mostly, and starts it
_LEASE_GRACE_S = 1.0
_SLOW_LEASE_GRACE_S = 3.0
_SUFFIX_DIGITS = 6
_LEASE_BYTES = 1 << 16
_SWEEP_TIMEOUT_S = 5.0  # a start does not wait for other users' leftovers
_SENT_BYTES = 4096  # the pipe takes them, whatever becomes of its reader; a longer HOME is not a path
_NAME_TAKEN = "already in use"  # said by Docker and podman; an image can say it as well, and gets one more start by it


def temporary_folder() -> str:
    """Return where builds put their copies of a project."""
    import tempfile  # not before the container is there

    return tempfile.gettempdir()


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a start needs of the world besides Docker."""

    owner: Owner
    start_of: Callable[[int], str | None]
    """the start of the living process with a pid, None when there is none"""
    new_nonce: Callable[[], str]
    next_number: Callable[[], int] = itertools.count(1).__next__
    """numbers the containers of this process; one step of the interpreter, so threads need no lock"""
    emit: Sink
    """takes a sentence for the user"""
    labels: tuple[tuple[str, str], ...] = ()
    """of the container, besides those of its owner"""
    on_begun: Callable[[str], None] = lambda _: None
    """takes the name that the container will have, unless that is taken, while Docker makes it"""
    expects_commands: bool = False
    """whether an exec is to wait for the first command as soon as the container is there"""
    clock: Callable[[], float] = time.monotonic
    temporary_folder: Callable[[], str] = temporary_folder
    """where builds of this user put their copies of a project"""
    mounts_of: Callable[[int], tuple[MountPoint, ...]] = read_mounts
    """what the process with a pid of this machine has mounted; () when that is not known"""


def start(spec: SandboxSpec, docker: Docker, world: Surroundings) -> Container:
    """Return a running, verified container; `world.on_begun` is called once it is being made. Raises SandboxError."""
    nonce = world.new_nonce()
    marker = NonceFile(spec.workdir, world.new_nonce(), identity=spec.workdir_id)
    lease: DockerProcess | None = None
    spares = room_for_spares(spec.limits.pids)
    first: list[WaitingExec] = []
    require_apart(spec.image_volumes)
    if spec.image_volumes and not spec.engine.podman:
        probe_volumes(spec, docker, labels=world.owner.labels(nonce))
    with ExitStack() as cleanup:
        listing: list[DockerProcess] = []

        def look_early(name: str) -> None:
            """Ask about the container while it is started: Docker answers when that is done, and no client's start
            is waited for then (R-412). podman looks at it in this client, which is slower while another starts it."""
            if not spec.engine.podman and not spec.networks.connect_networks:
                cleanup.enter_context(docker.ahead(inspect_argv("container", name)))

        def list_leftovers() -> None:
            listing.append(docker.start(*list_by_label_argv(f"{LABEL}=1", LIST_TEMPLATE)))
            cleanup.callback(listing[0].close)

        try:
            name, lease = _run(spec, docker, world, nonce, meanwhile=list_leftovers, look_early=look_early)
            connect_rest(spec.networks, name, docker)

            def run_check(found: str, args: tuple[str, ...], stdin: bytes) -> Completed:
                if not (spares and world.expects_commands) or len(stdin) > _SENT_BYTES:
                    argv = exec_argv(found, user=spec.user, script=scripts.CHECK, args=args)
                    return run_docker(docker, *argv, stdin=stdin)
                first.append(_start_first(spec, found, args, docker, world))
                return _check_in(first[0], stdin, world)

            facts = verify_container(
                spec, name, marker, docker, nonce=nonce, emit=world.emit, mounts_of=world.mounts_of,
                run_check=run_check,
            )  # fmt: skip
            container = Container(
                docker, spec, facts, lease=lease, watcher=docker.when_gone(*remove_argv(facts.id)),
                new_nonce=world.new_nonce, clock=world.clock, spares=spares, first=next(iter(first), None),
            )  # fmt: skip
            _sweep(listing[0], docker, world, one_by_one=spec.engine.podman)
            lease = None
        finally:
            if lease is not None:
                for waiting in first:
                    waiting.process.close()
                _abandon(lease, docker, world, nonce)
                marker.remove_late()
    return container


def _start_first(
    spec: SandboxSpec, container: str, args: tuple[str, ...], docker: Docker, world: Surroundings
) -> WaitingExec:
    """Start the exec that checks the container with `args`, and waits for the first command behind that: one start.

    It need not know when the container's first process started: it does not outlive it.
    """
    streams = ExecStreams(world.new_nonce(), world.new_nonce(), checks=True)
    given = (streams.mark, "", *args)
    argv = exec_argv(container, user=spec.user, script=scripts.CHECK_AND_RUN, args=given, call=streams.mark)
    process = docker.start(*argv, hold_stdin=True, on_stdout=streams.feed_stdout, on_stderr=streams.feed_stderr)
    return WaitingExec(process=process, streams=streams)


def _check_in(first: WaitingExec, stdin: bytes, world: Surroundings) -> Completed:
    """Return how the check of an exec ended, which waits from now on; as a failure where the exec ended before it."""
    process, streams = first.process, first.streams
    process.send(stdin)
    deadline = world.clock() + CALL_TIMEOUT_S
    while streams.checked is None and not process.finished and world.clock() < deadline:
        process.pump(deadline - world.clock())
    if streams.checked is None:
        process.close()
    code = 1 if streams.checked is None else streams.checked  # the exec's own status could be that of a check
    return replace(process.completed(), code=code, stdout=streams.stdout, stderr=streams.stderr)


def _run(
    spec: SandboxSpec,
    docker: Docker,
    world: Surroundings,
    nonce: str,
    *,
    meanwhile: Callable[[], None],
    look_early: Callable[[str], None],
) -> tuple[str, DockerProcess]:
    """Return the name of a container that runs, and its lease; `meanwhile` is called while Docker makes it, and then
    `look_early` with its name while it starts it.

    The name can be taken by another odek with this pid, in another PID namespace on the same daemon, or
    by a stranger: their container is left alone, and a random name is tried.
    """
    labels = (*world.owner.labels(nonce), *world.labels)
    numbered = f"odek-{world.owner.pid}-{world.next_number()}"
    for name in (numbered, f"{numbered}-{nonce[:_SUFFIX_DIGITS]}"):
        argv = run_argv(spec, name=name, labels=labels)
        # podman's monitor may leave a file in the folder where it is started, through a link of that name (M-34)
        lease = docker.start(*argv, hold_stdin=True, limit_bytes=_LEASE_BYTES, away=spec.engine.podman)
        started = world.clock()
        ready = False
        try:
            if name == numbered:
                world.on_begun(name)
                meanwhile()
            ready = _await_ready(lease, docker, world, partial(look_early, name))
        finally:
            if not ready:
                _abandon(lease, docker, world, nonce)
        if ready:
            return name, lease
        done = lease.completed()
        if _NAME_TAKEN not in done.stderr.text:
            break
    late = world.clock() - started >= START_TIMEOUT_S
    require_same_workdir(spec.workdir, spec.workdir_id)
    raise explain_refusal(spec.networks, docker) or explain_no_start(
        spec, done, waited_s=START_TIMEOUT_S if late else None, processor=_explain_processor(spec, done, docker)
    )


def _explain_processor(spec: SandboxSpec, done: Completed, docker: Docker) -> str:
    if not OTHER_PROCESSOR.search(done.stderr.text + done.stdout.text):
        return ""
    return explain_processor(((spec.image, spec.image_id),), docker)


def _await_ready(lease: DockerProcess, docker: Docker, world: Surroundings, look_early: Callable[[], None]) -> bool:
    """Return whether the container runs. Raises SandboxLost when the engine has stopped answering meanwhile."""
    started = world.clock()
    if not _watch(lease, world, until=started + _MADE_S) and not lease.finished:
        look_early()
    if not _watch(lease, world, until=started + PATIENCE_S) and not lease.finished:
        probed = run_docker(docker, *PROBE_ARGV, timeout_s=_STILL_THERE_S)
        if probed.code != 0 or probed.timed_out:
            raise SandboxLost(
                "the Docker daemon stopped answering while the sandbox was started",
                hint="restart Docker; `docker version` must print a server version",
                detail=docker_output(probed),
            )
        world.emit(Notice("Docker is still preparing the container"))
        _watch(lease, world, until=started + START_TIMEOUT_S)
    return scripts.READY.encode() in lease.stdout.data and not lease.exited


def _watch(lease: DockerProcess, world: Surroundings, *, until: float) -> bool:
    """Return whether the container has said by then that it runs."""
    while not lease.finished and world.clock() < until:
        if scripts.READY.encode() in lease.stdout.data:
            return True
        lease.pump(until - world.clock())
    return False


def _abandon(lease: DockerProcess, docker: Docker, world: Surroundings, nonce: str) -> None:
    """Take down whatever a start has made so far. The client is not killed at once: it may be about
    to create the container, which then sees its lease closed and ends by itself."""
    lease.release()
    _await_end(lease, world, _LEASE_GRACE_S)
    ended = lease.exited
    if ended:
        lease.close()
    answers = _remove_by_nonce(docker, nonce)
    if not ended:
        if answers:  # a slow engine, which may make the container yet that it was asked for
            _await_end(lease, world, _SLOW_LEASE_GRACE_S)
        lease.close()
        _remove_by_nonce(docker, nonce)


def _await_end(lease: DockerProcess, world: Surroundings, seconds: float) -> None:
    deadline = world.clock() + seconds
    while not lease.finished and world.clock() < deadline:
        lease.pump(seconds)


def _remove_by_nonce(docker: Docker, nonce: str) -> bool:
    """Remove what a start has made; return whether the engine answers."""
    try:
        listed = run_docker(docker, *list_by_label_argv(f"{NONCE_LABEL}={nonce}", "{{.ID}}"), timeout_s=5.0)
        names = tuple(listed.stdout.text.split())
        if names:
            run_docker(docker, *remove_argv(*names), timeout_s=10.0)
    except ExecutableMissing:  # no process can be started at present; the closed lease ends the container
        return False
    return listed.code == 0 and not listed.timed_out


def _sweep(listing: DockerProcess, docker: Docker, world: Surroundings, *, one_by_one: bool) -> None:
    """Remove what dead odeks left behind. Never an obstacle: a failure is not the user's problem."""
    sweep_scratch(world.temporary_folder(), me=world.owner, start_of=world.start_of)
    done = listing.wait(_SWEEP_TIMEOUT_S)
    if done.code != 0:
        return
    leftovers = choose_leftovers(parse_listing(done.stdout.text), me=world.owner, start_of=world.start_of)
    if not leftovers:
        return
    # podman removes none of several of which one is gone, and says that it did (M-33)
    groups = tuple((each,) for each in leftovers) if one_by_one else (tuple(leftovers),)
    try:
        removed = [run_docker(docker, *remove_argv(*group), timeout_s=_SWEEP_TIMEOUT_S) for group in groups]
    except ExecutableMissing:
        return
    if all(done.code == 0 for done in removed):
        world.emit(Notice(f"removed {plural(len(leftovers), 'container')} that an earlier odek left behind"))
