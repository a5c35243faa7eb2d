"""Did Docker really do what it was asked? The inspected container against the spec (R-30, R-37). Pure.

Engines drop limits that the host does not support with no more than a warning, and an image can
bring settings of its own; what counts is what inspect says of the running container.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from odek.sandbox.argv import NO_RESOLVER, NONCE_LABEL, tmpfs_mounts
from odek.sandbox.attachment import verify_attached
from odek.sandbox.seccomp import is_own_profile
from odek.sandbox.spec import WORKSPACE, SandboxSpec
from odek.text import truncate

_SHOWN = 80  # characters of an option that a message repeats: a profile is long


def mismatches(inspected: Mapping[str, Any], spec: SandboxSpec, *, nonce: str) -> tuple[str, ...]:
    """Return what differs from `spec`, one sentence each; empty when the sandbox is as asked for."""
    host = _object(inspected, "HostConfig")
    return (
        *_differences(
            ("it runs", _object(inspected, "State").get("Running"), True),
            ("it is ours", nonce_of(inspected), nonce),
            ("image", inspected.get("Image"), spec.image_id),
            ("user of the keep-alive", _object(inspected, "Config").get("User"), spec.helper_user),
            ("network", host.get("NetworkMode"), spec.plan.first),
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
        ),
        *_security_option(host, spec),
        *_resolver(host, spec),
        *(line for target, options in tmpfs_mounts(spec) for line in _tmpfs(host, target, options, spec)),
        *_mounts(inspected, host, spec),
        *verify_attached(spec.plan, inspected),
    )


def nonce_of(inspected: Mapping[str, Any]) -> object:
    """Return the nonce of the start that made the container, None when no odek did."""
    return _object(_object(inspected, "Config"), "Labels").get(NONCE_LABEL)


def _differences(*rows: tuple[str, object, object]) -> Iterator[str]:
    for what, found, wanted in rows:
        if found != wanted:
            yield f"{what}: asked for {wanted!r}, found {found!r}"


def _security_option(host: Mapping[str, Any], spec: SandboxSpec) -> Iterator[str]:
    options = [truncate(str(option), _SHOWN) for option in _list(host, "SecurityOpt")]
    if not any(
        option in ("no-new-privileges", "no-new-privileges:true", "no-new-privileges=true") for option in options
    ):
        yield f"no-new-privileges is not in force, found {options!r}"
    if any("unconfined" in str(option) for option in options):
        yield f"a protection is switched off: {options!r}"
    if spec.seccomp_file and not any(is_own_profile(str(option)) for option in _list(host, "SecurityOpt")):
        yield f"odek's filter of system calls is not in force, found {options!r}"


def _resolver(host: Mapping[str, Any], spec: SandboxSpec) -> Iterator[str]:
    if not spec.plan.internet and not spec.engine.podman and _list(host, "Dns") != [NO_RESOLVER]:
        yield f"resolver: asked for none of this host's, found {_list(host, 'Dns')!r}"


def _tmpfs(host: Mapping[str, Any], target: str, wanted: str, spec: SandboxSpec) -> Iterator[str]:
    options = str(_object(host, "Tmpfs").get(target, "")).split(",")
    if not {"noexec", "nosuid"} <= set(options):
        yield f"{target} is not a tmpfs with noexec and nosuid, found {','.join(options)!r}"
    elif not spec.engine.podman:  # it words its options otherwise
        bounds = {option for option in wanted.split(",") if option.startswith(("size=", "nr_inodes="))}
        if not bounds <= set(options):
            yield f"{target}: asked for {' and '.join(sorted(bounds))}, found {','.join(options)!r}"


def _mounts(inspected: Mapping[str, Any], host: Mapping[str, Any], spec: SandboxSpec) -> Iterator[str]:
    wanted = {(WORKSPACE, spec.workdir, not spec.readonly)}
    wanted |= {(volume.target, volume.source, not volume.readonly) for volume in spec.volumes}
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
