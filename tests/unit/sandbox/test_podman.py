"""podman's own words, put into Docker's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from fakes.containers import NONCE, SPEC, inspected
from fakes.docker import completed
from fakes.engines import podman_inspect

from odek.sandbox.container.verify import inspect_mismatches
from odek.sandbox.docker import docker_output
from odek.sandbox.engine import Engine
from odek.sandbox.podman import docker_inspect

PODMAN_SPEC = replace(SPEC, engine=Engine(podman=True))


def test_container_as_asked_for_has_no_mismatch() -> None:
    """D-13, R-37: what podman 4.3 shows of it."""
    shown = podman_inspect(inspected(PODMAN_SPEC))
    assert inspect_mismatches(docker_inspect(shown), PODMAN_SPEC, nonce=NONCE) == ()
    assert len(inspect_mismatches(shown, PODMAN_SPEC, nonce=NONCE)) == 4


@pytest.mark.parametrize(
    ("top", "host", "words"),
    [
        ({"EffectiveCaps": ["CAP_CHOWN"]}, {}, "dropped capabilities"),
        ({"BoundingCaps": ["CAP_CHOWN"]}, {}, "dropped capabilities"),
        ({"EffectiveCaps": ""}, {}, "dropped capabilities"),
        ({}, {"PidMode": "host"}, "process namespace"),
        ({}, {"IpcMode": "host"}, "memory namespace"),
        ({}, {"CgroupMode": "host"}, "control group namespace"),
        ({}, {"Tmpfs": {"/tmp": "rw,noexec,nosuid,nodev,mode=1777,rprivate,tmpcopyup"}}, "/tmp: asked for size="),
        ({}, {"Tmpfs": {"/tmp": "rw,noexec,nosuid,nodev,size=1,rprivate,tmpcopyup"}}, "/tmp: asked for size="),
        ({}, {"Tmpfs": {"/tmp": "rw,nosuid,nodev,size=1073741824"}}, "/tmp is not a tmpfs with noexec"),
        ({}, {"Tmpfs": {}}, "/tmp is not a tmpfs"),
        ({}, {"UTSMode": "host"}, "host name namespace"),
        ({}, {"GroupAdd": ["0"]}, "added groups"),
        ({}, {"PidsLimit": 0}, "process limit"),
        ({"Image": "0" * 64}, {}, "image"),
        ({"Image": None}, {}, "image"),
        ({"HostConfig": None}, {}, "privileged"),
    ],
)
def test_container_that_differs_is_still_found_out(top: dict[str, Any], host: dict[str, Any], words: str) -> None:
    """R-30, R-37: only the words are translated."""
    shown = podman_inspect(inspected(PODMAN_SPEC)) | top
    if host:
        shown["HostConfig"] |= host
    found = inspect_mismatches(docker_inspect(shown), PODMAN_SPEC, nonce=NONCE)
    assert any(line.startswith(words) for line in found), found


@pytest.mark.parametrize(
    ("command", "is_private"),
    [
        (["podman", "run", "--ipc", "private", "--", "i"], True),
        (["podman", "run", "--ipc=private", "i"], True),
        (["podman", "run", "--ipc", "shareable", "i"], False),
        (["podman", "run", "--ipc=host", "i"], False),
        (["podman", "run", "--ipc", "private", "--ipc", "host", "i"], False),
        (["podman", "run", "--ipc=private", "--ipc=container:x", "i"], False),
        (["podman", "run", "i", "--ipc"], False),
        (["podman", "run", "i"], False),
        ([], False),
        (None, False),
        ("--ipc private", False),
    ],
)
def test_shareable_memory_counts_as_private_where_that_was_asked_for(command: object, is_private: bool) -> None:
    """R-380: podman 4.3 shows "shareable" of any container, of one with the host's memory as well (M-29)."""
    shown = podman_inspect(inspected(PODMAN_SPEC))
    shown["Config"]["CreateCommand"] = command
    found = inspect_mismatches(docker_inspect(shown), PODMAN_SPEC, nonce=NONCE)
    assert bool(found) is not is_private
    del shown["Config"]["CreateCommand"]
    assert inspect_mismatches(docker_inspect(shown), PODMAN_SPEC, nonce=NONCE)


@pytest.mark.parametrize("missing", ["EffectiveCaps", "BoundingCaps"])
def test_capabilities_that_are_not_told_are_not_taken_as_dropped(missing: str) -> None:
    """R-30: fails closed."""
    shown = podman_inspect(inspected(PODMAN_SPEC))
    del shown[missing]
    assert any("capabilities" in line for line in inspect_mismatches(docker_inspect(shown), PODMAN_SPEC, nonce=NONCE))


def test_notice_of_the_wrapper_is_not_repeated() -> None:
    notice = "Emulate Docker CLI using podman. Create /etc/containers/nodocker to quiet msg.\n"
    assert docker_output(completed(stderr=f"{notice}Error: no such thing\n")) == "Error: no such thing"


def test_filter_of_system_calls_is_the_file_that_was_given() -> None:
    """S-5: podman shows its name, where Docker shows what is in it."""
    spec = replace(PODMAN_SPEC, seccomp_file="/home/user/.odek/seccomp-1.json")
    for option, wrong in (("/home/user/.odek/seccomp-1.json", False), ("/etc/seccomp.json", True), ("", True)):
        shown = podman_inspect(inspected(spec))
        shown["HostConfig"]["SecurityOpt"] = ["no-new-privileges", f"seccomp={option}"]
        found = inspect_mismatches(docker_inspect(shown), spec, nonce=NONCE)
        assert any("filter of system calls" in each for each in found) is wrong
