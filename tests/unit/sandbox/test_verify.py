"""The inspected container against the one that was asked for: each field wrong in turn."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from fakes.containers import IMAGE_ID, NONCE, SPEC, inspected

from odek.sandbox.container.verify import inspect_mismatches
from odek.sandbox.network.plan import NetworkPlan
from odek.sandbox.seccomp import profile_data
from odek.sandbox.spec import Limits, Mount

LIMITED = replace(SPEC, limits=Limits(pids=64, memory_bytes=1 << 29, nano_cpus=1_500_000_000))


def changed(value: Mapping[str, Any], path: str, new: object) -> dict[str, Any]:
    """Return `value` with the entry at a dotted path replaced; "DELETE" removes it."""
    result = copy.deepcopy(dict(value))
    *folders, last = path.split(".")
    place = result
    for folder in folders:
        place = place[folder]
    if new == "DELETE":
        del place[last]
    else:
        place[last] = new
    return result


@pytest.mark.parametrize(
    "spec",
    [
        SPEC,
        LIMITED,
        replace(SPEC, readonly=True),
        replace(SPEC, user="65534:65534"),
        replace(SPEC, networks=NetworkPlan(mode="bridge")),
        replace(SPEC, workdir='/w,s:"x"\n'),
        replace(SPEC, volumes=(Mount(source="/w/a", target="/a"), Mount(source="/w/b", target="/b", readonly=True))),
        replace(SPEC, git=Mount(source="/main/.git", target="/main/.git", readonly=True)),
    ],
)
def test_container_as_asked_for_has_no_mismatch(spec: Any) -> None:
    """R-30, R-37."""
    assert inspect_mismatches(inspected(spec), spec, nonce=NONCE) == ()


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("State.Running", False, "it runs: asked for True, found False"),
        ("State.Running", "true", "it runs: asked for True, found 'true'"),
        ("State", None, "it runs: asked for True, found None"),
        ("Config.Labels", {"io.odek.nonce": "other"}, "it is ours: asked for 'f00d', found 'other'"),
        ("Config.Labels", None, "it is ours: asked for 'f00d', found None"),
        ("Image", f"sha256:{'0' * 64}", f"image: asked for '{IMAGE_ID}', found 'sha256:{'0' * 64}'"),
        ("Config.User", "", "user of the keep-alive: asked for '65534:65534', found ''"),
        ("Config.User", "0:0", "user of the keep-alive: asked for '65534:65534', found '0:0'"),
        ("HostConfig.NetworkMode", "bridge", "network: asked for 'none', found 'bridge'"),
        ("HostConfig.NetworkMode", "host", "network: asked for 'none', found 'host'"),
        ("HostConfig.Privileged", True, "privileged: asked for False, found True"),
        ("HostConfig.Privileged", "DELETE", "privileged: asked for False, found None"),
        ("HostConfig.CapDrop", None, "dropped capabilities: asked for ['ALL'], found None"),
        ("HostConfig.CapDrop", ["CAP_CHOWN"], "dropped capabilities: asked for ['ALL'], found ['CAP_CHOWN']"),
        ("HostConfig.CapAdd", ["SYS_ADMIN"], "added capabilities: asked for [], found ['SYS_ADMIN']"),
        ("HostConfig.Devices", [{}], "devices: asked for [], found [{}]"),
        ("HostConfig.Init", None, "init: asked for True, found None"),
        ("HostConfig.AutoRemove", False, "removed when it ends: asked for True, found False"),
        ("HostConfig.PidsLimit", 0, "process limit: asked for 64, found 0"),
        ("HostConfig.PidsLimit", None, "process limit: asked for 64, found None"),
        ("HostConfig.PidsLimit", -1, "process limit: asked for 64, found -1"),
        ("HostConfig.Memory", 0, f"memory limit: asked for {1 << 29}, found 0"),
        ("HostConfig.Memory", "DELETE", f"memory limit: asked for {1 << 29}, found 0"),
        ("HostConfig.NanoCpus", 0, "CPU limit: asked for 1500000000, found 0"),
        ("HostConfig.PidMode", "host", "process namespace: asked for '', found 'host'"),
        ("HostConfig.IpcMode", "host", "memory namespace: asked for 'private', found 'host'"),
        ("HostConfig.GroupAdd", ["0"], "added groups: asked for None, found ['0']"),
        ("HostConfig.DeviceCgroupRules", ["a *:* rwm"], "rules for devices: asked for None, found ['a *:* rwm']"),
        ("HostConfig.DeviceRequests", [{"Driver": "x"}], "devices of drivers: asked for None, found [{'Driver': 'x'}]"),
        ("HostConfig.PortBindings", {"1/tcp": []}, "published ports: asked for None, found {'1/tcp': []}"),
        ("HostConfig.PublishAllPorts", True, "all ports published: asked for None, found True"),
        ("HostConfig.UTSMode", "host", "host name namespace: asked for 'private', found 'host'"),
        ("HostConfig.UsernsMode", "host", "user namespace: asked for 'private', found 'host'"),
        ("HostConfig.CgroupnsMode", "host", "control group namespace: asked for 'private', found 'host'"),
        ("HostConfig.MaskedPaths", [], "files of the kernel are not covered: MaskedPaths is empty"),
        ("HostConfig.MaskedPaths", None, "files of the kernel are not covered: MaskedPaths is empty"),
        ("HostConfig.ReadonlyPaths", [], "files of the kernel are not covered: ReadonlyPaths is empty"),
        ("HostConfig.SecurityOpt", None, "no-new-privileges is not in force, found []"),
        ("HostConfig.SecurityOpt", [], "no-new-privileges is not in force, found []"),
        ("HostConfig.SecurityOpt", ["no-new-privileges:false"],
        "no-new-privileges is not in force, found ['no-new-privileges:false']"),
        ("HostConfig.SecurityOpt", 7, "no-new-privileges is not in force, found []"),
        (
            "HostConfig.SecurityOpt",
            ["no-new-privileges", "seccomp=unconfined"],
            "a protection is switched off: ['no-new-privileges', 'seccomp=unconfined']",
        ),
        ("HostConfig.Dns", None, "resolver: asked for none of this host's, found []"),
        ("HostConfig.Dns", ["10.0.0.53"], "resolver: asked for none of this host's, found ['10.0.0.53']"),
        ("HostConfig.Tmpfs", None, "/tmp is not a tmpfs with noexec and nosuid, found ''"),
        ("HostConfig.Tmpfs", {"/tmp": "rw,nosuid"}, "/tmp is not a tmpfs with noexec and nosuid, found 'rw,nosuid'"),
        ("HostConfig.Tmpfs", {"/tmp": "rw,noexec"}, "/tmp is not a tmpfs with noexec and nosuid, found 'rw,noexec'"),
        (
            "HostConfig.Tmpfs",
            {"/tmp": "rw,nosuid,noexec,size=99999999999"},
            "/tmp: asked for nr_inodes=262144 and size=1073741824, found 'rw,nosuid,noexec,size=99999999999'",
        ),
        ("HostConfig.Tmpfs", {"/tmp": "rw"}, "/dev/shm is not a tmpfs with noexec and nosuid, found ''"),
        ("Mounts", [], "shared folders: asked for [('/workspace', '/w', True)], found []"),
        ("Mounts", None, "shared folders: asked for [('/workspace', '/w', True)], found []"),
        ("Mounts", ["x", 7, None], "shared folders: asked for [('/workspace', '/w', True)], found []"),
        (
            "Mounts",
            [{"Type": "bind", "Source": "/w", "Destination": "/workspace", "RW": False}],
            "shared folders: asked for [('/workspace', '/w', True)], found [('/workspace', '/w', False)]",
        ),
        (
            "Mounts",
            [{"Type": "bind", "Source": "/other", "Destination": "/workspace", "RW": True}],
            "shared folders: asked for [('/workspace', '/w', True)], found [('/workspace', '/other', True)]",
        ),
        (
            "Mounts",
            [{"Type": "volume", "Source": "/w", "Destination": "/workspace", "RW": True}],
            "shared folders: asked for [('/workspace', '/w', True)], found []",
        ),
        (
            "Mounts",
            [
                {"Type": "bind", "Source": "/w", "Destination": "/workspace", "RW": True},
                {"Type": "bind", "Source": "/", "Destination": "/host", "RW": True},
            ],
            "shared folders: asked for [('/workspace', '/w', True)], "
            "found [('/host', '/', True), ('/workspace', '/w', True)]",
        ),
    ],
)  # fmt: skip
def test_container_that_differs_in_one_thing_is_named(path: str, value: object, words: str) -> None:
    """R-30, R-37: engines drop limits with no more than a warning, and images bring settings of their own."""
    assert words in inspect_mismatches(changed(inspected(LIMITED), path, value), LIMITED, nonce=NONCE)


def test_limit_that_nobody_asked_for_is_a_mismatch() -> None:
    """R-30."""
    found = inspect_mismatches(inspected(LIMITED), replace(LIMITED, limits=Limits(pids=64)), nonce=NONCE)
    assert found == (f"memory limit: asked for 0, found {1 << 29}", "CPU limit: asked for 0, found 1500000000")


@pytest.mark.parametrize("option", ["no-new-privileges", "no-new-privileges:true", "no-new-privileges=true"])
def test_every_spelling_of_no_new_privileges_counts(option: str) -> None:
    """R-30, D-13."""
    assert inspect_mismatches(changed(inspected(SPEC), "HostConfig.SecurityOpt", [option]), SPEC, nonce=NONCE) == ()


def test_anonymous_volume_of_an_image_is_no_mismatch() -> None:
    """B20: VOLUME elsewhere is empty and goes with the container."""
    value = inspected(SPEC)
    value["Mounts"].append(
        {"Type": "volume", "Name": "x", "Source": "/var/lib/docker/x", "Destination": "/data", "RW": True}
    )
    assert inspect_mismatches(value, SPEC, nonce=NONCE) == ()


def test_anonymous_volume_over_a_part_of_the_workspace_is_a_mismatch() -> None:
    """R-37, B20: VOLUME /workspace/x would hide what lies there."""
    value = inspected(SPEC)
    value["Mounts"].append({"Type": "volume", "Name": "x", "Source": "/v", "Destination": "/workspace/x", "RW": True})
    assert inspect_mismatches(value, SPEC, nonce=NONCE) == (
        "the image declares a volume at /workspace/x, which would hide that folder of yours",
    )


GARBAGE: tuple[object, ...] = (None, 7, "text", [], [7], {}, {"x": 7}, True, {"": None}, [[]], [{}])


@pytest.mark.parametrize("garbage", GARBAGE)
@pytest.mark.parametrize(
    "path", ["State", "Config", "Config.Labels", "HostConfig", "HostConfig.SecurityOpt", "HostConfig.Tmpfs", "Mounts",
    "NetworkSettings"]
)  # fmt: skip
def test_inspect_of_any_shape_is_judged_and_no_error(path: str, garbage: object) -> None:
    """R-37: garbage stops the start with sentences, not with a bug."""
    found = inspect_mismatches(changed(inspected(SPEC), path, garbage), SPEC, nonce=NONCE)
    assert all(isinstance(words, str) for words in found)
    assert found or path == "NetworkSettings"


@pytest.mark.parametrize(
    "options",
    [
        ["no-new-privileges"],
        ["no-new-privileges", "seccomp={}"],
        ["no-new-privileges", "seccomp=" + "[" * 100_000],
        ["no-new-privileges", "seccomp=" + profile_data().decode().replace('"clone3"', '"setns"')],
        ["no-new-privileges", profile_data().decode()],
    ],
    ids=["engine's own", "empty", "not JSON", "changed", "another option"],
)
def test_filter_that_is_not_odeks_own_is_a_mismatch(options: list[str]) -> None:
    """S-5, R-37: whatever the client has read under the file's name, what counts is what the engine has got."""
    spec = replace(SPEC, seccomp_file="/h/seccomp.json")
    (found,) = inspect_mismatches(changed(inspected(SPEC), "HostConfig.SecurityOpt", options), spec, nonce=NONCE)
    assert found.startswith("odek's filter of system calls is not in force, found ['no-new-privileges'")
    assert len(found) < 250


def test_filter_is_odeks_own_however_the_client_spaces_it() -> None:
    """S-5: Docker's client sends it without its blanks."""
    spec = replace(SPEC, seccomp_file="/h/seccomp.json")
    compact = json.dumps(json.loads(profile_data()), separators=(",", ":"))
    options = ["no-new-privileges", f"seccomp={compact}"]
    assert inspect_mismatches(changed(inspected(SPEC), "HostConfig.SecurityOpt", options), spec, nonce=NONCE) == ()


def test_gits_data_that_is_missing_writable_or_not_asked_for_is_a_mismatch() -> None:
    """A19: what is shared for git is compared like every other mount."""
    git = Mount(source="/main/.git", target="/main/.git", readonly=True)
    with_git = replace(SPEC, git=git)
    assert "shared folders" in inspect_mismatches(inspected(SPEC), with_git, nonce=NONCE)[0]
    assert "shared folders" in inspect_mismatches(inspected(with_git), SPEC, nonce=NONCE)[0]
    writable = inspected(replace(SPEC, git=replace(git, readonly=False)))
    assert "shared folders" in inspect_mismatches(writable, with_git, nonce=NONCE)[0]
