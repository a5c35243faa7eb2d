"""What engines say of themselves: `docker info --format '{{json .}}'`, cut to what tells them apart.

Recorded from Docker 20.10.24 (root, rootless on control groups v1, userns-remap), podman 4.3.1 through
podman-docker (root, rootless on control groups v1), and client 28.2 on the socket of `podman system service`.
"""

from __future__ import annotations

import json
from typing import Any

_LOGS = ["awslogs", "fluentd", "gcplogs", "gelf", "journald", "json-file", "local", "logentries", "splunk", "syslog"]
DOCKER: dict[str, Any] = {
    "ID": "HJ6I:IJDG", "Driver": "overlay2", "Plugins": {"Volume": ["local"], "Log": _LOGS}, "MemoryLimit": True,
    "SwapLimit": True, "CpuCfsPeriod": True, "CpuCfsQuota": True, "PidsLimit": True, "CgroupDriver": "cgroupfs",
    "CgroupVersion": "1", "Name": "vm", "ServerVersion": "20.10.24+dfsg1", "InitBinary": "docker-init",
    "SecurityOptions": ["name=seccomp,profile=default"], "Warnings": None,
}  # fmt: skip
ROOTLESS_V1: dict[str, Any] = {
    **DOCKER, "MemoryLimit": False, "SwapLimit": False, "CpuCfsPeriod": False, "CpuCfsQuota": False,
    "PidsLimit": False, "CgroupDriver": "none", "SecurityOptions": ["name=seccomp,profile=default", "name=rootless"],
}  # fmt: skip
ROOTLESS: dict[str, Any] = {
    **ROOTLESS_V1, "MemoryLimit": True, "PidsLimit": True, "CgroupDriver": "systemd", "CgroupVersion": "2",
    "SecurityOptions": ["name=seccomp,profile=builtin", "name=rootless", "name=cgroupns"],
}  # fmt: skip
"""on control groups v2, where systemd hands on memory and pids unless told otherwise; not recorded but put together"""
REMAPPED: dict[str, Any] = {**DOCKER, "SecurityOptions": ["name=seccomp,profile=default", "name=userns"]}

PODMAN: dict[str, Any] = {
    "host": {
        "arch": "amd64", "cgroupManager": "cgroupfs", "cgroupVersion": "v1", "hostname": "vm",
        "cgroupControllers": ["cpuset", "cpu", "cpuacct", "blkio", "memory", "devices", "freezer", "pids"],
        "security": {"apparmorEnabled": False, "rootless": False, "seccompEnabled": True, "selinuxEnabled": False},
        "serviceIsRemote": False,
    },
    "store": {"graphDriverName": "overlay"},
    "plugins": {"log": ["k8s-file", "none", "passthrough", "journald"]},
    "version": {"APIVersion": "4.3.1", "Version": "4.3.1"},
}  # fmt: skip
PODMAN_ROOTLESS_V1: dict[str, Any] = {
    **PODMAN,
    "host": {
        **PODMAN["host"], "cgroupControllers": [], "security": {**PODMAN["host"]["security"], "rootless": True}
    },
}  # fmt: skip
PODMAN_SERVICE: dict[str, Any] = {
    **DOCKER, "Plugins": {"Volume": ["local"], "Log": ["k8s-file", "none", "passthrough", "journald"]},
    "ServerVersion": "4.3.1", "InitBinary": "", "IndexServerAddress": "", "Warnings": [],
}  # fmt: skip

INFO = json.dumps(DOCKER) + "\n"
"""of an ordinary engine"""


def podman_inspect(inspected: dict[str, Any]) -> dict[str, Any]:
    """Return what podman 4.3 shows of a container of which Docker shows `inspected`."""
    shown: dict[str, Any] = json.loads(json.dumps(inspected))
    shown["Image"] = shown["Image"].removeprefix("sha256:")
    for unknown in ("MaskedPaths", "ReadonlyPaths", "CgroupnsMode", "DeviceRequests", "DeviceCgroupRules"):
        del shown["HostConfig"][unknown]
    shown["EffectiveCaps"] = shown["BoundingCaps"] = None
    # as it was called by the package's wrapper
    shown["Config"]["CreateCommand"] = ["podman", "run", "--rm", "--ipc", "private", "--cgroupns", "private", "--init"]
    capabilities = "AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE NET_RAW SETFCAP SETGID"
    shown["HostConfig"] |= {
        "CapAdd": [], "CapDrop": [f"CAP_{name}" for name in capabilities.split()], "IpcMode": "shareable",
        "PidMode": "private", "UTSMode": "private",
        "Tmpfs": {folder: f"{options},rprivate,tmpcopyup" for folder, options in shown["HostConfig"]["Tmpfs"].items()},
        "CgroupMode": "private",
    }  # fmt: skip
    return shown
