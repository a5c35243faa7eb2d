"""Is the container that was started the one that was asked for? Checked from outside and from inside (R-30, R-37).

From outside: engines drop limits that the host does not support with no more than a warning, and an image
can bring settings of its own, so `docker inspect` of the running container is compared with the spec, and its
mounts with the folders that odek holds open (mount_probe.py). From inside, a command of the right user reports
what it sees; the file that it wrote shows on this machine whose its files are. Where that user may not use the
working directory, the error says to run as its owner (A20).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from odek.events import Notice, Sink
from odek.process import Completed
from odek.sandbox.argv import NO_RESOLVER, NONCE_LABEL, tmpfs_mounts
from odek.sandbox.container import scripts
from odek.sandbox.container.facts import ContainerFacts
from odek.sandbox.container.mount_probe import MountsOf, NonceFile, exchanged_error, prove_mounts, require_known_owner
from odek.sandbox.docker import Docker, docker_output, inspect
from odek.sandbox.engine import Engine
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.mounts import is_inside
from odek.sandbox.network.attach import ServiceNames, service_names
from odek.sandbox.network.checks import verify_attached
from odek.sandbox.podman import docker_inspect
from odek.sandbox.seccomp import is_own_profile
from odek.sandbox.spec import Mount, SandboxSpec
from odek.sandbox_grammar import WORKSPACE
from odek.text import truncate, visible


def is_closed_to(status: os.stat_result, user: str, engine: Engine) -> bool:
    """Return whether a folder of `status` cannot be entered by `user`, "uid:gid". Pure.

    A user by name is not judged. In an engine that maps users no uid of this machine is one of a container's.
    """
    uid, _, gid = user.partition(":")
    if engine.rootless or engine.remapped or not uid.isdecimal() or int(uid) == status.st_uid:
        return False
    group_enters = status.st_mode & stat.S_IXGRP and gid in ("", str(status.st_gid))
    return not (group_enters or status.st_mode & stat.S_IXOTH)


def other_owner(status: os.stat_result, user: str, engine: Engine) -> str:
    """Return "uid:gid" of who owns the folder and could write it in the sandbox, "" when that is `user` or root. Pure.

    root is never proposed.
    """
    if engine.rootless or engine.remapped or not status.st_mode & stat.S_IWUSR:
        return ""
    owner = f"{status.st_uid}:{status.st_gid}"
    return "" if status.st_uid == 0 or user.partition(":")[0] == str(status.st_uid) else owner


_SHOWN = 80  # characters of an option that a message repeats: a profile is long


def inspect_mismatches(inspected: Mapping[str, Any], spec: SandboxSpec, *, nonce: str) -> tuple[str, ...]:
    """Return what differs from `spec`, one sentence each; empty when the sandbox is as asked for."""
    host = _object(inspected, "HostConfig")
    return (
        *_differences(
            ("it runs", _object(inspected, "State").get("Running"), True),
            ("it is ours", nonce_of(inspected), nonce),
            ("image", inspected.get("Image"), spec.image_id),
            ("user of the keep-alive", _object(inspected, "Config").get("User"), spec.helper_user),
            ("network", host.get("NetworkMode"), spec.networks.run_network),
            ("privileged", host.get("Privileged"), False),
            ("dropped capabilities", host.get("CapDrop"), ["ALL"]),
            ("added capabilities", host.get("CapAdd") or [], []),
            ("devices", host.get("Devices") or [], []),
            ("init", host.get("Init"), True),
            ("removed when it ends", host.get("AutoRemove"), True),
            ("process limit", host.get("PidsLimit"), spec.limits.pids),
            ("memory limit", host.get("Memory") or 0, spec.limits.memory_bytes or 0),
            ("CPU limit", host.get("NanoCpus") or 0, spec.limits.nano_cpus or 0),
            ("process namespace", host.get("PidMode") or "", ""),
            ("memory namespace", host.get("IpcMode"), "private"),
            *_unasked(host),
        ),
        *_security_option(host, spec),
        *_resolver(host, spec),
        *(line for target, options in tmpfs_mounts(spec) for line in _tmpfs(host, target, options)),
        *_mounts(inspected, host, spec),
        *verify_attached(spec.networks, inspected),
    )


def nonce_of(inspected: Mapping[str, Any]) -> object:
    """Return the nonce of the start that made the container, None when no odek did."""
    return _object(_object(inspected, "Config"), "Labels").get(NONCE_LABEL)


def _differences(*rows: tuple[str, object, object]) -> Iterator[str]:
    for what, found, wanted in rows:
        if found != wanted:
            yield f"{what}: asked for {wanted!r}, found {found!r}"


def _unasked(host: Mapping[str, Any]) -> Iterator[tuple[str, object, object]]:
    """Yield rows of what odek never asks for, and a client's or an engine's own settings can add."""
    for what, key in (
        ("added groups", "GroupAdd"),
        ("rules for devices", "DeviceCgroupRules"),
        ("devices of drivers", "DeviceRequests"),
        ("published ports", "PortBindings"),
        ("all ports published", "PublishAllPorts"),
    ):
        yield what, host.get(key) or None, None
    for what, key in (
        ("host name namespace", "UTSMode"),
        ("user namespace", "UsernsMode"),
        ("control group namespace", "CgroupnsMode"),
    ):
        yield what, host.get(key) or "private", "private"


def _security_option(host: Mapping[str, Any], spec: SandboxSpec) -> Iterator[str]:
    options = [truncate(str(option), _SHOWN) for option in _list(host, "SecurityOpt")]
    if not any(
        option in ("no-new-privileges", "no-new-privileges:true", "no-new-privileges=true") for option in options
    ):
        yield f"no-new-privileges is not in force, found {options!r}"
    if any("unconfined" in str(option) for option in options):
        yield f"a protection is switched off: {options!r}"
    # podman shows which file it was given, and not what it has made of it
    named = f"seccomp={spec.seccomp_file}" if spec.engine.podman else ""
    for key in ("MaskedPaths", "ReadonlyPaths"):  # podman and old engines do not show them
        if key in host and not host[key]:
            yield f"files of the kernel are not covered: {key} is empty"
    if spec.seccomp_file and not any(
        is_own_profile(str(option)) or option == named for option in _list(host, "SecurityOpt")
    ):
        yield f"odek's filter of system calls is not in force, found {options!r}"


def _resolver(host: Mapping[str, Any], spec: SandboxSpec) -> Iterator[str]:
    if not spec.networks.internet and not spec.engine.podman and _list(host, "Dns") != [NO_RESOLVER]:
        yield f"resolver: asked for none of this host's, found {_list(host, 'Dns')!r}"


def _tmpfs(host: Mapping[str, Any], target: str, wanted: str) -> Iterator[str]:
    options = str(_object(host, "Tmpfs").get(target, "")).split(",")
    if not {"noexec", "nosuid"} <= set(options):
        yield f"{target} is not a tmpfs with noexec and nosuid, found {','.join(options)!r}"
        return
    bounds = {option for option in wanted.split(",") if option.startswith(("size=", "nr_inodes="))}
    if not bounds <= set(options):
        yield f"{target}: asked for {' and '.join(sorted(bounds))}, found {','.join(options)!r}"


def _mounts(inspected: Mapping[str, Any], host: Mapping[str, Any], spec: SandboxSpec) -> Iterator[str]:
    wanted = {(mount.target, mount.source, not mount.readonly) for mount in spec.mounts}
    mounts = [mount for mount in _list(inspected, "Mounts") if isinstance(mount, Mapping)]
    found = {
        (str(mount.get("Destination")), str(mount.get("Source")), mount.get("RW") is not False)
        for mount in mounts
        if mount.get("Type") == "bind"
    }
    if found != wanted:
        yield f"shared folders: asked for {sorted(wanted)!r}, found {sorted(found)!r}"
    # Elsewhere, volumes that the image declares are welcome: empty, and removed with the container.
    for mount in mounts:
        target = str(mount.get("Destination"))
        if mount.get("Type") != "bind" and target.startswith(f"{WORKSPACE}/") and target not in spec.covered:
            yield hidden_by_image(target)
    if not spec.engine.podman:  # it does not show what was asked for
        asked = [mount for mount in _list(host, "Mounts") if isinstance(mount, Mapping) and mount.get("Type") == "bind"]
        if not all(_object(mount, "BindOptions").get("NonRecursive") is True for mount in asked):
            yield "what is mounted below a shared folder is shared as well"


def hidden_by_image(target: str) -> str:
    """Return what is said of an image's volume in the workspace (A16)."""
    return f"the image declares a volume at {target}, which would hide that folder of yours"


def _list(value: Mapping[str, Any], key: str) -> list[Any]:
    inner = value.get(key)
    return inner if isinstance(inner, list) else []


def _object(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    inner = value.get(key)
    return inner if isinstance(inner, Mapping) else {}


_SPARE_HOME = "/dev/shm"

RunCheck = Callable[[str, tuple[str, ...], bytes], Completed]
"""ID of the container that was looked at, arguments and stdin of scripts.CHECK → how it ended"""


def verify_container(
    spec: SandboxSpec,
    name: str,
    marker: NonceFile,
    docker: Docker,
    *,
    nonce: str,
    emit: Sink,
    mounts_of: MountsOf,
    run_check: RunCheck,
) -> ContainerFacts:
    """Return what is true of the container `name`. Raises SandboxConfigError when it is not the one asked for.

    `nonce` is the one of the start that made it; `emit` takes notices for the user. What is seen from
    outside comes first: no program of the image runs as the user's before the mounts are the right ones. Then
    `run_check` runs scripts.CHECK in it.
    """
    with ExitStack() as cleanup:
        cleanup.callback(marker.remove)
        marker.make()
        inspected = _inspect(docker, name)
        _require_match(spec, docker_inspect(inspected) if spec.engine.podman else inspected, nonce)
        left = prove_mounts(spec, marker.folder, inspected, cleanup, mounts_of=mounts_of, mark=marker.nonce)
        arguments = (marker.name, marker.inode, *(text for volume in left for text in volume))
        stdin = f"{spec.home}\n#{marker.name}\n".encode("utf-8", "surrogateescape")
        checked = run_check(str(inspected.get("Id", "")), arguments, stdin)
    observed = _read_check(checked)
    _require_open(spec, observed, checked, marker)
    _require_working(spec, observed, checked, volumes=spec.volumes if left else ())
    require_known_owner(marker.owners, observed.get("uid", ""))
    services = service_names(spec.networks, str(inspected.get("Id", "")), docker)
    for note in services.notes:
        emit(Notice(note))
    return _facts(spec, inspected, observed, services, emit, marker)


def _inspect(docker: Docker, name: str) -> dict[str, Any]:
    shown = inspect(docker, "container", name)
    if not shown.done.timed_out and _object(shown.only or {}, "State").get("Running") is not True:
        # it may be an answer from before the container ran, or was made
        shown = inspect(docker, "container", name)
    if shown.only is None:
        raise SandboxConfigError(
            "Docker does not show the state of the container it has just started",
            hint="the image may have ended at once; `docker events` shows what happens",
            detail=docker_output(shown.done),
        )
    return shown.only


def _read_check(done: Completed) -> dict[str, str]:
    pairs = (line.partition("=") for line in done.stdout.text.splitlines())
    return {key: value for key, equals, value in pairs if equals}


def _require_match(spec: SandboxSpec, inspected: dict[str, Any], nonce: str) -> None:
    wrong = inspect_mismatches(inspected, spec, nonce=nonce)
    if wrong:
        raise SandboxConfigError(
            "the sandbox that Docker started is not the one that was asked for",
            hint="this engine does not enforce a setting; change the setting or the engine",
            detail="\n".join(visible(line) for line in wrong),
        )


def _require_open(spec: SandboxSpec, observed: dict[str, str], checked: Completed, marker: NonceFile) -> None:
    """Refuse a folder that is another user's alone: commands could not even enter it (A20)."""
    if marker.status is None or (checked.code == scripts.CHECKED and observed.get("nonce") == "seen"):
        return
    user = f"{observed['uid']}:{observed.get('gid', '')}" if "uid" in observed else spec.user
    if is_closed_to(marker.status, user, spec.engine):
        owner = other_owner(marker.status, user, spec.engine)
        raise SandboxConfigError(
            f'"{visible(spec.workdir)}" belongs to {marker.status.st_uid}:{marker.status.st_gid}, and is closed to the '
            f"sandbox user {visible(user)}",
            hint=f"--sandbox-user {owner} runs the commands as its owner"
            if owner
            else "open the folder to that user, or choose another one with sandbox_user",
            detail=docker_output(checked) if checked.code != scripts.CHECKED else "",
        )


def _require_working(
    spec: SandboxSpec, observed: dict[str, str], checked: Completed, *, volumes: tuple[Mount, ...]
) -> None:
    if checked.code != scripts.CHECKED:
        if "missing" in observed:
            raise SandboxConfigError(
                f'image "{visible(spec.image)}" has no `{visible(observed["missing"])}`',
                hint="use an image with the usual shell programs",
            )
        if "broken" in observed:
            raise SandboxConfigError(
                f'`{visible(observed["broken"])}` of image "{visible(spec.image)}" does not print what it is given',
                hint="use an image whose usual shell programs work",
                detail=docker_output(checked),
            )
        raise SandboxConfigError(
            f'commands cannot run in image "{visible(spec.image)}" as user "{visible(spec.user)}"',
            hint="the user must exist in the image when given by name, and /workspace must be open to it",
            detail=docker_output(checked),
        )
    if observed.get("uid") == spec.helper_user.partition(":")[0]:
        raise SandboxConfigError(
            f'user "{visible(spec.user)}" of image "{visible(spec.image)}" is the one that odek\'s own processes need',
            hint="choose another user for the commands with sandbox_user, by number",
        )
    if observed.get("nonce") != "seen":
        raise unseen_error(spec)
    for number, volume in enumerate(volumes, start=1):
        if observed.get(f"volume{number}") != "same":
            raise exchanged_error(volume)


def unseen_error(spec: SandboxSpec) -> SandboxConfigError:
    """Return the refusal of a daemon that has other files than odek: elsewhere, or around odek's own container."""
    return SandboxConfigError(
        f'the Docker daemon does not see "{visible(spec.workdir)}": on its machine it is another folder, or none',
        hint="use a daemon that shares this file system (DOCKER_HOST, `docker context ls`); from within a container, "
        "the folder must have the same path outside",
    )


def _facts(
    spec: SandboxSpec,
    inspected: dict[str, Any],
    observed: dict[str, str],
    services: ServiceNames,
    emit: Sink,
    marker: NonceFile,
) -> ContainerFacts:
    home = spec.home
    if observed.get("home") != "writable":
        if observed.get("spare") != "writable":
            raise SandboxConfigError(
                f'HOME "{visible(home)}" of image "{visible(spec.image)}" is not open to user "{visible(spec.user)}"',
                hint="give the sandbox a HOME that is, with sandbox_env, or another sandbox_user",
            )
        why = _why_no_home(spec, observed.get("nohome", ""))
        emit(Notice(f"HOME {visible(home)} {why}; commands get HOME={_SPARE_HOME}"))
        home = _SPARE_HOME
    writable = observed.get("workspace") == "writable"
    user = f"{observed.get('uid', '?')}:{observed.get('gid', '?')}"
    if not writable and not spec.readonly:
        emit(
            Notice(
                f"the working directory is not writable for the sandbox user {user}: commands can only read it"
                + _as_owner(marker, user, spec)
            )
        )
    return ContainerFacts(
        name=str(inspected.get("Name", "")).removeprefix("/"),
        id=str(inspected.get("Id", "")),
        image=spec.image,
        image_id=spec.image_id,
        user=user,
        home=home,
        network=spec.networks.label,
        internet=_reaches_internet(spec, observed, emit),
        networks=spec.networks.attached,
        service_names=services.names,
        pids_limit=spec.limits.pids,
        tmp_bytes=spec.limits.tmp_bytes,
        readonly=spec.readonly,
        left_out=spec.left_out,
        git=spec.git.target if spec.git else "",
        git_outside=spec.git_outside,
        workspace_writable=writable,
        workspace_owner="" if writable else _proposed_owner(marker, user, spec),
        started_at=_started_at(inspected),
        init_start=_init_start(observed),
    )


def _why_no_home(spec: SandboxSpec, seen: str) -> str:
    """Return why the HOME that was asked for cannot be kept; `seen` is what CHECK found in its place (A18). Pure."""
    if spec.readonly and is_inside(spec.home, WORKSPACE):
        return "lies in the working directory, which is read-only"
    if seen == "file":
        return "is not a folder"
    if seen == "missing" and any(is_inside(spec.home, folder) for folder in ("/tmp", _SPARE_HOME, WORKSPACE)):
        return f"could not be made by user {visible(spec.user)}"
    if seen == "missing":
        return f"is not in this image, and a folder is made for it only below /tmp, {_SPARE_HOME} and {WORKSPACE}"
    return "is not writable in this image"


def _as_owner(marker: NonceFile, user: str, spec: SandboxSpec) -> str:
    """Return who could write the folder: where odek can, too, and so can clear away what a start makes in it."""
    owner = other_owner(marker.status, user, spec.engine) if marker.status else ""
    if not owner or (marker.status and marker.owners[0] == marker.status.st_uid):  # the operator chose another user
        return ""
    return f"; --sandbox-user {owner} runs them as its owner" if not marker.inode else f"; it belongs to {owner}"


def _proposed_owner(marker: NonceFile, user: str, spec: SandboxSpec) -> str:
    """Return "uid:gid" of the folder's owner, "" where odek itself cannot write there, and so not tidy up after it."""
    return other_owner(marker.status, user, spec.engine) if marker.status and not marker.inode else ""


def _started_at(inspected: dict[str, Any]) -> str:
    state = inspected.get("State")
    return str(state.get("StartedAt") or "") if isinstance(state, dict) else ""


def _init_start(observed: dict[str, str]) -> str:
    """Return field 22 of proc(5)'s stat; what is printed begins with field 3."""
    fields = observed.get("init", "").split()
    return fields[19] if len(fields) > 19 and fields[19].isdecimal() else ""


def _reaches_internet(spec: SandboxSpec, observed: dict[str, str], emit: Sink) -> bool:
    """Return whether the internet counts as reachable: by what was asked for, or by what was seen inside."""
    if spec.networks.internet or "ipv6" not in observed:
        return spec.networks.internet
    emit(
        Notice(
            "a network that is internal has a way out by IPv6 in the sandbox, which this engine may not filter: "
            "commands that use the network are asked about"
        )
    )
    return True
