"""A sandbox as it is asked for, and as `docker inspect` shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fakes.docker import FakePending

from odek.sandbox.argv import tmpfs_mounts
from odek.sandbox.container.facts import ContainerFacts
from odek.sandbox.container.scripts import end_nonce
from odek.sandbox.spec import Limits, SandboxSpec

IMAGE_ID = f"sha256:{'a' * 64}"
CONTAINER_ID = "c" * 64
NONCE = "f00d"
SECRET = "5" * 32
"""the first nonce of a container: what the ends of its calls are made of"""
SPEC = SandboxSpec(
    image="alpine:3.22",
    image_id=IMAGE_ID,
    workdir="/w",
    readonly=False,
    user="1000:1000",
    home="/tmp",
    limits=Limits(),
)
FACTS = ContainerFacts(
    name="odek-7-1",
    id=CONTAINER_ID,
    image="alpine:3.22",
    image_id=IMAGE_ID,
    user="1000:1000",
    home="/tmp",
    network="none",
    internet=False,
    pids_limit=4096,
    tmp_bytes=1 << 30,
    readonly=False,
    workspace_writable=True,
)


def inspected(spec: SandboxSpec, *, name: str = "odek-7-1", nonce: str = NONCE) -> dict[str, Any]:
    """Return what Docker shows of a container that is exactly as `spec` asks."""
    mounts = [(mount.source, mount.target, not mount.readonly) for mount in spec.mounts]
    mode, attached = spec.networks.mode, spec.networks.attached
    networks = {mode: {"NetworkID": "9" * 64}} if not attached or mode == "bridge" else {}
    networks |= {network.name: {"NetworkID": network.id} for network in attached}
    return {
        "Id": CONTAINER_ID,
        "Name": f"/{name}",
        "Image": spec.image_id,
        "State": {"Running": True},
        "Config": {"Labels": {"io.odek.nonce": nonce}, "User": spec.helper_user},
        "HostConfig": {
            "NetworkMode": spec.networks.run_network,
            "Privileged": False,
            "CapDrop": ["ALL"],
            "CapAdd": None,
            "Devices": [],
            "Init": True,
            "AutoRemove": True,
            "PidsLimit": spec.limits.pids,
            "Memory": spec.limits.memory_bytes or 0,
            "NanoCpus": spec.limits.nano_cpus or 0,
            "PidMode": "",
            "IpcMode": "private",
            "GroupAdd": None,
            "DeviceCgroupRules": None,
            "DeviceRequests": None,
            "PortBindings": {},
            "PublishAllPorts": False,
            "UTSMode": "",
            "UsernsMode": "",
            "CgroupnsMode": "private",
            "MaskedPaths": ["/proc/kcore"],
            "ReadonlyPaths": ["/proc/sys"],
            "SecurityOpt": ["no-new-privileges", *_given_filter(spec)],
            "Dns": [] if spec.networks.internet else ["0.0.0.0"],
            "Tmpfs": dict(tmpfs_mounts(spec)),
            "Mounts": [
                {"Type": "bind", "Source": source, "Target": target, "BindOptions": {"NonRecursive": True}}
                for source, target, _ in mounts
            ],
        },
        "Mounts": [
            {"Type": "bind", "Source": source, "Destination": target, "RW": writable}
            for source, target, writable in mounts
        ],
        "NetworkSettings": {"Networks": networks},
    }


def answer(
    status: int | None = 0, *, out: bytes = b"", err: bytes = b"", after: bytes = b""
) -> Callable[[FakePending], None]:
    """Return how a client with the wrapper answers: what its text prints, and the wrapper's lines around it.

    `status` None: the text does not end. `after`: what comes on stderr behind its end.
    """

    def react(client: FakePending) -> None:
        mark = call_of(client)
        end = end_nonce(SECRET, mark)
        client.out = [f"\n{end} began 4711\n".encode(), *([out] if out else [])]
        client.err = [f"\n{mark} ready\n".encode(), *([err] if err else [])]
        if status is not None:
            client.out.append(f"\n{end} {status}\n".encode())
            client.err.append((b"" if b"'joint" in (client.stdin or b"") else f"\n{end} {status}\n".encode()) + after)

    return react


def call_of(client: FakePending) -> str:
    """Return the mark of the call."""
    return next(word.partition("=")[2] for word in client.args if word.startswith("ODEK_CALL="))


def _given_filter(spec: SandboxSpec) -> list[str]:
    """podman shows the file that it was given; Docker what is in it, which most tests go without"""
    return [f"seccomp={spec.seccomp_file}"] if spec.engine.podman and spec.seccomp_file else []
