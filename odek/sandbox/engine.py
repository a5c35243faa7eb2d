"""What kind of engine answers, and what follows from it for a sandbox (D-13, R-30, R-31, B11).

Not every engine that takes Docker's commands keeps Docker's promises: a rootless one gives uid 0 of a
container the files of the user who runs it, and those of others to nobody; one with remapped users gives
every file to a stranger; some cannot enforce a limit and say so nowhere but here. Each is either used
as it must be, or refused in one sentence before anything is started.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from odek.errors import ExecutableMissing
from odek.process import Completed
from odek.sandbox.docker import INFO_ARGV, PROBE_TIMEOUT_S, Docker, docker_output, probe, run_docker
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.podman import docker_info
from odek.sandbox.seccomp import filter_of, takes_own_profile

_CONTROLLERS = (
    ("PidsLimit", "sandbox_pids_limit"),
    ("MemoryLimit", "sandbox_memory"),
    ("CpuCfsQuota", "sandbox_cpus"),
)
_PODMAN_LOGS = "k8s-file"  # a log driver that Docker has never had


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """How an engine differs from a Docker daemon that root runs for this machine, which is the default."""

    podman: bool = False
    """podman's own client under the name of docker: some of its options and answers are worded otherwise"""
    service: bool = False
    """Docker's client, but podman's service behind it"""
    rootless: bool = False
    """uid 0 in a container is who runs the engine, every other uid is one that nobody here has"""
    remapped: bool = False
    """no uid in a container is anybody here (userns-remap)"""
    unfiltered: bool = False
    """no system call is filtered in its containers, and none can be"""
    own_filter: bool = False
    """whether odek's filter of system calls takes the place of the engine's"""
    unenforced: tuple[str, ...] = ()
    """the settings whose limits it cannot enforce"""


DOCKER = Engine()


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineRequirements:
    """What a sandbox asks of its engine."""

    limits: tuple[str, ...] = ()
    """the settings whose limits are to hold"""
    readonly: bool = False
    attaches: bool = False
    """whether existing networks are to be attached"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Daemon:
    """A daemon that answers."""

    version: str
    info: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """what it says of itself, in Docker's words; {}: it was not asked, or the answer cannot be read"""


def find_daemon(docker: Docker, *, sleep: Callable[[float], None]) -> Daemon:
    """Return the daemon that answers. Raises as `probe` does.

    One call where all is well: what `docker info` says holds the version, too. Any other answer to it proves nothing:
    only `probe` finds a daemon unreachable (D-11).
    """
    try:
        done = run_docker(docker, *INFO_ARGV, timeout_s=PROBE_TIMEOUT_S)
    except ExecutableMissing:
        return Daemon(version=probe(docker, sleep=sleep))
    info = {} if done.timed_out else read_info(done)
    version = info.get("ServerVersion")
    if isinstance(version, str) and version:
        return Daemon(version=version, info=info)
    return Daemon(version=probe(docker, sleep=sleep, timed_out=done.timed_out))


def query_engine(docker: Docker, known: Mapping[str, Any] | None = None) -> Engine:
    """Return what the engine is, asking it unless `known` is what it has said. Raises SandboxConfigError."""
    if known:
        return read_engine(known)
    done = run_docker(docker, *INFO_ARGV)
    info = read_info(done)
    if not info:
        raise SandboxConfigError(
            "the Docker engine does not describe itself",
            hint="`docker info` must answer; restart Docker",
            detail=docker_output(done),
        )
    return read_engine(info)


def read_info(done: Completed) -> Mapping[str, Any]:
    """Return what `docker info` says, in Docker's words; {} when it says nothing that can be read. Pure."""
    text = done.stdout.text
    try:
        value = json.loads(text[max(text.find("{"), 0) :])  # a client may chatter before it (B25)
    except (ValueError, RecursionError):
        return {}
    return docker_info(value) if isinstance(value, dict) and done.code == 0 else {}


def read_engine(info: Mapping[str, Any]) -> Engine:
    """Return the kind of engine that `read_info` has found. Pure."""
    options = [str(option) for option in info.get("SecurityOptions") or ()]
    plugins = info.get("Plugins")
    logs = plugins.get("Log") if isinstance(plugins, Mapping) else None
    podman = info.get("Client") == "podman"
    return Engine(
        podman=podman,
        service=not podman and isinstance(logs, list) and _PODMAN_LOGS in logs,
        rootless=any(option.startswith("name=rootless") for option in options),
        remapped=any(option.startswith("name=userns") for option in options),
        unfiltered=filter_of(info) is None,
        own_filter=takes_own_profile(info),
        unenforced=tuple(setting for key, setting in _CONTROLLERS if info.get(key) is False),
    )


def own_user(engine: Engine, *, uid: int, gid: int) -> str:
    """Return the uid:gid by which the user with `uid` and `gid` goes in the containers of `engine`. Pure."""
    return "0:0" if engine.rootless else f"{uid}:{gid}"


def check_engine(engine: Engine, needs: EngineRequirements) -> None:
    """Refuse an engine that cannot give the sandbox that is asked for. Pure. Raises SandboxConfigError."""
    if engine.service:
        raise SandboxConfigError(
            "podman's service behind Docker's client is not supported",
            hint="use podman's own client under the name docker (package podman-docker), or a Docker engine",
        )
    if engine.unfiltered:
        raise SandboxConfigError(
            "this engine does not filter system calls: it, or its kernel, is without seccomp",
            hint="use a kernel with CONFIG_SECCOMP_FILTER and an engine built with seccomp; `docker info` shows it",
        )
    if engine.podman and needs.attaches:
        raise SandboxConfigError(
            "networks cannot be attached to a sandbox of podman's: it does not tell which ones a container is on",
            hint='use --sandbox-network "bridge" or "none", or a Docker engine',
        )
    if engine.remapped and not needs.readonly:
        raise SandboxConfigError(
            "this Docker engine remaps users (userns-remap): files from the sandbox would belong to a stranger",
            hint="use --sandbox-readonly, or an engine without userns-remap",
        )
    missing = [setting for setting in engine.unenforced if setting in needs.limits]
    if missing:
        raise SandboxConfigError(f"this engine cannot enforce {' and '.join(missing)}", hint=limits_hint(engine))


def limits_hint(engine: Engine) -> str:
    """Return how an engine gets to enforce limits. Pure."""
    if engine.rootless:
        return (
            "a rootless engine needs control groups v2, with the controllers cpu, memory and pids delegated to your "
            "user by systemd (Delegate= of user@.service)"
        )
    return "switch the control group's controller on in the kernel; `docker info` warns of what is missing"
