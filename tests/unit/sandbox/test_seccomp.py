"""odek's filter of system calls: when it is used, and what must never get into it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from odek.sandbox.seccomp import filter_of, profile_data, takes_own_profile

RULES: list[dict[str, Any]] = json.loads(profile_data())["syscalls"]
NEEDS_A_CAPABILITY = [
    "acct",
    "add_key",
    "bpf",
    "chroot",
    "clock_settime",
    "create_module",
    "delete_module",
    "fanotify_init",
    "finit_module",
    "fsconfig",
    "fsmount",
    "fsopen",
    "fspick",
    "get_mempolicy",
    "init_module",
    "ioperm",
    "iopl",
    "kcmp",
    "kexec_file_load",
    "kexec_load",
    "keyctl",
    "lookup_dcookie",
    "mbind",
    "mount",
    "mount_setattr",
    "move_mount",
    "move_pages",
    "nfsservctl",
    "open_by_handle_at",
    "open_tree",
    "perf_event_open",
    "pidfd_getfd",
    "pivot_root",
    "quotactl",
    "reboot",
    "request_key",
    "set_mempolicy",
    "setdomainname",
    "sethostname",
    "setns",
    "settimeofday",
    "stime",
    "swapoff",
    "swapon",
    "syslog",
    "umount",
    "umount2",
    "unshare",
    "uselib",
    "userfaultfd",
    "ustat",
    "vhangup",
    "vm86",
    "vm86old",
]
DOORS = ("io_uring_setup", "io_uring_enter", "io_uring_register", "socketcall", "modify_ldt", "clone3")


def allowed(**having: object) -> set[str]:
    found = (rule for rule in RULES if rule["action"] == "SCMP_ACT_ALLOW")
    return {
        name for rule in found if all(rule.get(key) == value for key, value in having.items()) for name in rule["names"]
    }


def test_profile_is_an_allow_list() -> None:
    """S-5: what it does not name is refused, so a call of a later kernel is."""
    profile = json.loads(profile_data())
    assert (profile["defaultAction"], profile["defaultErrnoRet"]) == ("SCMP_ACT_ERRNO", 1)
    assert {rule["action"] for rule in RULES} == {"SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO"}
    assert "version 1" in RULES[0]["comment"]


@pytest.mark.parametrize("name", [*NEEDS_A_CAPABILITY, *DOORS])
def test_call_is_never_allowed(name: str) -> None:
    """S-5: what needs a capability that commands do not have, and what hides from the filter."""
    assert name not in allowed()


def test_calls_with_arguments_that_matter_are_allowed_with_them_only() -> None:
    """S-5: four families of sockets, of netlink the routes, no namespace, addresses stay random."""
    assert {"socket", "socketpair", "clone", "personality"}.isdisjoint(allowed(args=None))
    values = {
        name: [
            tuple((arg["index"], arg["value"], arg["op"]) for arg in rule["args"])
            for rule in RULES
            if name in rule["names"] and rule["action"] == "SCMP_ACT_ALLOW"
        ]
        for name in ("socket", "socketpair", "clone")
    }
    same = "SCMP_CMP_EQ"
    assert values == {
        "socket": [((0, 1, same),), ((0, 2, same),), ((0, 10, same),), ((0, 16, same), (2, 0, same))],
        "socketpair": [((0, 1, same),)],
        "clone": [((0, 0x7E020000, "SCMP_CMP_MASKED_EQ"),)],
    }


def test_socketcall_is_refused_before_any_socket_is_allowed() -> None:
    """S-5: libseccomp opens it for each rule on sockets, and runc drops a rule with the default's errno."""
    places = {name: place for place, rule in reversed(list(enumerate(RULES))) for name in rule["names"]}
    rule = RULES[places["socketcall"]]
    assert places["socketcall"] < places["socket"]
    assert (rule["action"], rule["errnoRet"]) == ("SCMP_ACT_ERRNO", 38)
    assert rule["errnoRet"] != json.loads(profile_data())["defaultErrnoRet"]


@pytest.mark.parametrize(
    ("options", "machine", "name", "own"),
    [
        (["name=seccomp,profile=default"], "x86_64", "default", True),
        (["name=apparmor", "name=seccomp,profile=builtin", "name=cgroupns"], "aarch64", "builtin", True),
        (["name=seccomp,profile=unconfined"], "aarch64", "unconfined", True),
        (["seccomp"], "x86_64", "", True),
        (["name=seccomp,profile=/etc/docker/own.json"], "x86_64", "/etc/docker/own.json", False),
        (["name=seccomp,profile=default"], "s390x", "default", False),
        (["name=seccomp,profile=default"], None, "default", False),
        (["name=apparmor"], "x86_64", None, False),
        (["name=seccompx"], "x86_64", None, False),
        (None, "x86_64", None, False),
    ],
)
def test_profile_goes_in_place_of_the_engines_own_only(
    options: list[str] | None, machine: str | None, name: str | None, own: bool
) -> None:
    """S-5: an operator's own profile stays; elsewhere arguments have another order."""
    info = {"SecurityOptions": options, "Architecture": machine}
    assert (filter_of(info), takes_own_profile(info)) == (name, own)
