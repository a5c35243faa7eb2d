"""podman through `podman-docker` answers in words of its own: those that count, put into Docker's. Pure.

Recorded from podman 4.3 (tests/fakes/engines.py); what is in Docker's words already goes through unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NOTICE = "Emulate Docker CLI using podman."
"""begins a line that the package's wrapper prints on stderr at every call"""

_PACKAGED_PROFILE = "/usr/share/containers/seccomp.json"
"""podman's own filter of system calls; any other file is an operator's"""


def docker_info(info: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what `info` says as Docker would; podman's is told by "Client": "podman"."""
    host = info.get("host")
    if not isinstance(host, Mapping):
        return info
    version = info.get("version")
    security = host.get("security")
    security = security if isinstance(security, Mapping) else {}
    controllers = host.get("cgroupControllers")
    controllers = controllers if isinstance(controllers, list) else []
    profile = security.get("seccompProfilePath")
    profile = "default" if profile in (None, "", _PACKAGED_PROFILE) else str(profile)
    options = ((f"name=seccomp,profile={profile}", "seccompEnabled"), ("name=rootless", "rootless"))
    return {
        "Client": "podman",
        "ServerVersion": version.get("Version", "") if isinstance(version, Mapping) else "",
        "Name": host.get("hostname", ""),
        "Architecture": host.get("arch", ""),
        "CgroupVersion": str(host.get("cgroupVersion", "")).removeprefix("v"),
        "SecurityOptions": [option for option, key in options if security.get(key) is True],
        "PidsLimit": "pids" in controllers,
        "MemoryLimit": "memory" in controllers,
        "SwapLimit": "memory" in controllers,
        "CpuCfsQuota": "cpu" in controllers,
    }


def docker_inspect(inspected: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `inspect` shows of a container as Docker would.

    podman lists the dropped capabilities one by one; what proves that none is left are the sets that
    the container really got. Its "private" process namespace is Docker's default. For its memory 4.3 shows
    "shareable" whatever was asked for, the host's own as well (M-29): what counts is what podman was asked for, and
    then what is mounted (mount_probe.py).
    """
    host = inspected.get("HostConfig")
    host = dict(host) if isinstance(host, Mapping) else {}
    if all(inspected.get(caps, ["?"]) in ([], None) for caps in ("EffectiveCaps", "BoundingCaps")):
        host["CapDrop"] = ["ALL"]
    if host.get("PidMode") == "private":
        host["PidMode"] = ""
    if host.get("IpcMode") == "shareable" and _asked_for(inspected, "--ipc") == {"private"}:
        host["IpcMode"] = "private"
    host.setdefault("CgroupnsMode", host.get("CgroupMode"))
    return {**inspected, "Image": f"sha256:{inspected.get('Image')}", "HostConfig": host}


def _asked_for(inspected: Mapping[str, Any], option: str) -> set[str]:
    """Return each value of an option in the command line that podman says it was started with."""
    config = inspected.get("Config")
    command = config.get("CreateCommand") if isinstance(config, Mapping) else None
    words = [str(word) for word in command] if isinstance(command, list) else []
    return {
        following if word == option else word.partition("=")[2]
        for word, following in zip(words, (*words[1:], ""), strict=False)
        if word.partition("=")[0] == option
    }
