"""The findings of `odek sandbox doctor`, judged over what Docker says of itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.containers import FACTS

from odek.app.doctor import (
    Check,
    check_client,
    check_client_settings,
    check_engine_kind,
    check_leftovers,
    check_limits,
    check_place,
    check_sandbox,
    check_security,
    check_versions,
    failed_call,
)
from odek.process import Completed, Output
from odek.sandbox.engine import Engine


def done(text: str, code: int = 0, stderr: str = "") -> Completed:
    def stream(words: str) -> Output:
        return Output(head=words.encode(), tail=b"", size_bytes=len(words))

    return Completed(argv=("docker",), code=code, stdout=stream(text), stderr=stream(stderr), timed_out=False)


@pytest.mark.parametrize(
    ("client", "server", "verdict"),
    [
        ("28.2.2", "20.10.24+dfsg1", "ok"),
        ("20.10.0", "29.7.2", "ok"),
        ("19.03.1", "20.10.1", "fail"),
        ("28.0.0", "18.09.0", "fail"),
        ("", "28.0.0", "fail"),
        ("dev", "x", "fail"),
    ],
)
def test_engines_and_clients_before_20_10_are_told(client: str, server: str, verdict: str) -> None:
    """D-13: engines and clients from 20.10 on."""
    assert check_versions(client, server, Engine()).verdict == verdict


@pytest.mark.parametrize(("version", "verdict"), [("4.3.1", "ok"), ("5.8.6", "ok"), ("3.4.4", "fail")])
def test_versions_of_podman_are_its_own(version: str, verdict: str) -> None:
    """D-13."""
    assert check_versions(version, version, Engine(podman=True)).verdict == verdict


@pytest.mark.parametrize(
    ("check", "verdict"),
    [
        (check_client("/usr/bin/docker", ""), "ok"),
        (check_client(None, "/a:\x1b[2J"), "fail"),
        (check_security({"SecurityOptions": ["name=seccomp,profile=default"]}), "ok"),
        (check_security({"SecurityOptions": ["seccomp"]}), "ok"),
        (check_security({"SecurityOptions": ["name=apparmor"]}), "fail"),
        (check_security({"SecurityOptions": ["name=seccomp,profile=/etc/own.json"], "Architecture": "x86_64"}), "ok"),
        (check_security({}), "fail"),
        (check_engine_kind(Engine()), "ok"),
        (check_engine_kind(Engine(rootless=True)), "ok"),
        (check_engine_kind(Engine(podman=True)), "ok"),
        (check_engine_kind(Engine(remapped=True)), "fail"),
        (check_engine_kind(Engine(service=True)), "fail"),
        (check_limits({"CgroupVersion": "2"}, Engine()), "ok"),
        (check_limits({"SwapLimit": False}, Engine()), "ok"),
        (check_limits({}, Engine(unenforced=("sandbox_cpus",))), "warn"),
        (check_limits({}, Engine(unenforced=("sandbox_pids_limit",))), "fail"),
        (check_place({}, {"Name": "vm"}), "ok"),
        (check_place({"DOCKER_HOST": "unix:///run/docker.sock"}, {}), "ok"),
        (check_place({"DOCKER_HOST": "tcp://10.0.0.1:2375"}, {}), "warn"),
        (check_leftovers(()), "ok"),
        (check_leftovers(("odek-1-1",)), "warn"),
        (check_sandbox(FACTS), "ok"),
        (check_sandbox(replace(FACTS, workspace_writable=False)), "warn"),
        (check_sandbox(replace(FACTS, workspace_writable=False, readonly=True)), "ok"),
        (failed_call("info", done("", 1, "boom\nbang"), "fix"), "fail"),
    ],
)
def test_each_finding_has_its_verdict_and_a_remedy_where_it_is_not_ok(check: Check, verdict: str) -> None:
    assert check.verdict == verdict
    assert bool(check.fix) == (verdict != "ok")
    assert "\x1b" not in check.seen


def test_folder_of_another_user_is_named_with_its_owner() -> None:
    """A20: root in a folder of uid 1001, as with sudo and in CI."""
    stranger = replace(FACTS, user="0:0", workspace_writable=False, workspace_owner="1001:1002")
    check = check_sandbox(stranger)
    assert check.seen.endswith("; the working directory cannot be written; it belongs to 1001:1002")
    assert check.fix.startswith("--sandbox-user 1001:1002 runs the commands as its owner; or let uid 0 write it")
    unknown = check_sandbox(replace(stranger, workspace_owner=""))
    assert unknown.fix == "let uid 0 write it, or use --sandbox-readonly"


def test_settings_of_the_client_that_are_a_link_are_named() -> None:
    """F2: a sandbox in the project that holds them could write what `docker` runs."""
    assert check_client_settings("/h/.docker/config.json", "").verdict == "ok"
    linked = check_client_settings("/h/.docker/config.json", "/h/dotfiles/con\x1bfig.json")
    assert linked.verdict == "warn"
    assert "is a link to /h/dotfiles/con\\x1bfig.json" in linked.seen
