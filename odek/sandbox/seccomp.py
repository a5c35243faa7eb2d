"""odek's own filter of system calls, and when it takes the place of the engine's (S-5).

The engines' own default leaves doors open that no network mode closes: sockets to a hypervisor
(AF_VSOCK, before 23.0), io_uring (before 25.0), the kernel's crypto sockets, netlink beyond routes, and
through the 32-bit `socketcall` every family. The profile is an allow list for a container without
capabilities. Where an operator has given the engine a profile of his own, that one stays.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

from odek.packaged import read_packaged

PROFILE_FILE = "seccomp.json"
OPTION = "seccomp="
_ENGINES_OWN = ("", "default", "builtin", "unconfined")
_MACHINES = ("x86_64", "amd64", "aarch64", "arm64")
"""where the profile's numbers of arguments hold; others have another order of them"""


def filter_of(info: Mapping[str, Any]) -> str | None:
    """Return the name of the profile that the engine uses by itself, None when it filters nothing. Pure.

    Engines say `name=seccomp,profile=default` (`builtin` since 23.0), or the path of an operator's own.
    """
    for option in info.get("SecurityOptions") or ():
        parts = str(option).split(",")
        if parts[0] in ("name=seccomp", "seccomp"):
            return next((part.removeprefix("profile=") for part in parts[1:] if part.startswith("profile=")), "")
    return None


def takes_own_profile(info: Mapping[str, Any]) -> bool:
    """Return whether odek's profile goes in place of the engine's own. Pure."""
    return filter_of(info) in _ENGINES_OWN and info.get("Architecture") in _MACHINES


@cache
def profile_data() -> bytes:
    """Return the profile as it is packaged."""
    return read_packaged("odek.sandbox", PROFILE_FILE)


def is_own_profile(option: str) -> bool:
    """Return whether a security option, as `docker inspect` shows it, is odek's profile."""
    if not option.startswith(OPTION):
        return False
    try:
        return bool(json.loads(option.removeprefix(OPTION)) == json.loads(profile_data()))
    except (ValueError, RecursionError):
        return False
