"""A sandbox as it is asked for, and as `docker inspect` shows it."""

from __future__ import annotations

from typing import Any

from odek.sandbox.argv import tmpfs_mounts
from odek.sandbox.container.facts import ContainerFacts
from odek.sandbox.spec import Limits, SandboxSpec
from odek.sandbox_grammar import WORKSPACE

IMAGE_ID = f"sha256:{'a' * 64}"
CONTAINER_ID = "c" * 64
NONCE = "f00d"
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
    mounts = [(spec.workdir, WORKSPACE, not spec.readonly)]
    mounts += [(volume.source, volume.target, not volume.readonly) for volume in spec.volumes]
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
            "SecurityOpt": ["no-new-privileges"],
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
