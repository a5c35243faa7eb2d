"""What kind of engine answers, from what engines really say, and what follows from it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fakes.docker import FakeDocker, completed
from fakes.engines import (
    DOCKER,
    INFO,
    PODMAN,
    PODMAN_ROOTLESS_V1,
    PODMAN_SERVICE,
    REMAPPED,
    ROOTLESS,
    ROOTLESS_V1,
)

from odek.errors import ExecutableMissing, SpawnFailed
from odek.sandbox.docker import INFO_ARGV
from odek.sandbox.engine import (
    Daemon,
    Engine,
    EngineRequirements,
    check_engine,
    find_daemon,
    own_user,
    query_engine,
    read_engine,
    read_info,
)
from odek.sandbox.errors import DaemonUnreachable, SandboxConfigError

PIDS, MEMORY, CPUS = LIMITS = ("sandbox_pids_limit", "sandbox_memory", "sandbox_cpus")
EVERYTHING = EngineRequirements(limits=LIMITS, attaches=True)
PLAIN = EngineRequirements(limits=(PIDS,))


def said(info: object) -> Any:
    return completed(stdout=json.dumps(info))


def podman_with(profile: str) -> dict[str, Any]:
    security = {**PODMAN["host"]["security"], "seccompProfilePath": profile}
    return {**PODMAN, "host": {**PODMAN["host"], "security": security}}


@pytest.mark.parametrize(
    ("info", "engine"),
    [
        (DOCKER, Engine()),
        (ROOTLESS, Engine(rootless=True, unenforced=(CPUS,))),
        (ROOTLESS_V1, Engine(rootless=True, unenforced=LIMITS)),
        (REMAPPED, Engine(remapped=True)),
        (PODMAN, Engine(podman=True, own_filter=True)),
        (podman_with("/usr/share/containers/seccomp.json"), Engine(podman=True, own_filter=True)),
        (podman_with("/etc/containers/seccomp.json"), Engine(podman=True)),
        (PODMAN_ROOTLESS_V1, Engine(podman=True, rootless=True, own_filter=True, unenforced=LIMITS)),
        (PODMAN_SERVICE, Engine(service=True)),
        ({"Name": "vm"}, Engine(unfiltered=True)),
        ({"SecurityOptions": None, "Plugins": None}, Engine(unfiltered=True)),
        ({"Plugins": {"Log": None}}, Engine(unfiltered=True)),
        ({"Plugins": ["k8s-file"]}, Engine(unfiltered=True)),
        (
            {"host": {"security": None, "cgroupControllers": None}},
            Engine(podman=True, unfiltered=True, unenforced=LIMITS),
        ),
        ({**DOCKER, "Architecture": "x86_64"}, Engine(own_filter=True)),
        ({**ROOTLESS_V1, "Architecture": "aarch64"}, Engine(rootless=True, own_filter=True, unenforced=LIMITS)),
    ],
    ids=lambda value: "" if isinstance(value, dict) else repr(value),
)
def test_engines_are_told_apart(info: dict[str, Any], engine: Engine) -> None:
    """D-13, B11: rootless Docker from podman, and both from the ordinary one."""
    assert read_engine(read_info(said(info))) == engine


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "template error", "{" * 5000, "[" * 5000 + "{"])
def test_info_that_cannot_be_read_is_empty(text: str) -> None:
    assert read_info(completed(stdout=text)) == {}


def test_info_of_a_call_that_failed_is_empty() -> None:
    """D-11: what is printed beside a failure counts for nothing."""
    assert read_info(completed(stdout=INFO, code=1)) == {}


def test_chatter_before_an_info_is_passed_over() -> None:
    """B25."""
    assert read_info(completed(stdout=f"What's next:\n    View it\n{INFO}")) == DOCKER


@pytest.mark.parametrize(
    ("engine", "needs"),
    [
        (Engine(), EVERYTHING),
        (Engine(rootless=True), EVERYTHING),
        (Engine(rootless=True, unenforced=(CPUS,)), EngineRequirements(limits=(PIDS, MEMORY))),
        (Engine(podman=True), PLAIN),
        (Engine(podman=True, rootless=True), PLAIN),
        (Engine(remapped=True), EngineRequirements(limits=(PIDS,), readonly=True)),
    ],
)
def test_engine_that_gives_what_is_needed_is_used(engine: Engine, needs: EngineRequirements) -> None:
    """D-13."""
    check_engine(engine, needs)


@pytest.mark.parametrize(
    ("engine", "needs", "words"),
    [
        (Engine(remapped=True), PLAIN, "remaps users"),
        (Engine(unfiltered=True), PLAIN, "does not filter system calls"),
        (Engine(service=True), PLAIN, "podman's service behind Docker's client"),
        (Engine(podman=True), EVERYTHING, "networks cannot be attached"),
        (Engine(unenforced=LIMITS), PLAIN, "this engine cannot enforce sandbox_pids_limit$"),
        (Engine(unenforced=LIMITS), EVERYTHING, "sandbox_pids_limit and sandbox_memory and sandbox_cpus$"),
        (Engine(rootless=True, unenforced=(CPUS,)), EVERYTHING, "this engine cannot enforce sandbox_cpus$"),
    ],
)
def test_engine_that_cannot_is_refused_in_one_sentence(engine: Engine, needs: EngineRequirements, words: str) -> None:
    """D-13, R-30, B11."""
    with pytest.raises(SandboxConfigError, match=words) as refused:
        check_engine(engine, needs)
    assert refused.value.hint != ""
    assert "\n" not in refused.value.message


def test_way_to_get_limits_depends_on_the_engine() -> None:
    hints = []
    for rootless in (False, True):
        with pytest.raises(SandboxConfigError) as refused:
            check_engine(Engine(rootless=rootless, unenforced=(PIDS,)), PLAIN)
        hints.append("user@.service" in refused.value.hint)
    assert hints == [False, True]


@pytest.mark.parametrize(
    ("engine", "user"),
    [
        (Engine(), "1000:100"),
        (Engine(podman=True), "1000:100"),
        (Engine(rootless=True), "0:0"),
        (Engine(podman=True, rootless=True), "0:0"),
    ],
)
def test_who_started_odek_has_another_uid_in_a_rootless_engine(engine: Engine, user: str) -> None:
    """R-31, B11: any other would be a subordinate uid that can neither read nor write as the user does."""
    assert own_user(engine, uid=1000, gid=100) == user


def test_engine_that_describes_itself_is_there() -> None:
    """R-410: one call tells both."""
    docker = FakeDocker().on("info", stdout=INFO)
    engine = query_engine(docker, find_daemon(docker, sleep=docker.sleep).info)
    check_engine(engine, EVERYTHING)
    assert engine == Engine()
    assert [call.args for call in docker.calls] == [INFO_ARGV]
    assert find_daemon(docker, sleep=docker.sleep).version == DOCKER["ServerVersion"]
    podman = FakeDocker().on("info", stdout=json.dumps(PODMAN))
    assert find_daemon(podman, sleep=podman.sleep).version == "4.3.1"


@pytest.mark.parametrize(
    "answer",
    [
        {"code": 1, "stdout": '{"ServerVersion": ""}'}, {"stdout": '{"ServerVersion": ""}'},
        {"code": 1, "stdout": INFO},
        {"stdout": '{"ServerVersion": 1}'}, {"stdout": "{}"}, {"stdout": ""}, {"stdout": "[]"}, {"code": 125},
        {"code": -9, "stdout": INFO}, {"hang": True}, {"hang": True, "stdout": INFO},
        {"raises": ExecutableMissing("cannot run docker")}, {"raises": SpawnFailed("cannot run docker")},
    ],
    ids=repr,
)  # fmt: skip
def test_any_other_description_proves_nothing(answer: dict[str, Any]) -> None:
    """R-410, D-11: the probe says what there is, whatever `docker info` has said; it finds no daemon, and nothing else.

    A daemon that came up in between is there: nothing runs on the host.
    """
    docker = FakeDocker().on("info", **answer).on("version", stdout="29\n")
    assert find_daemon(docker, sleep=docker.sleep) == Daemon(version="29")
    down = FakeDocker().on("info", **answer).on("version", code=1, stderr="Cannot connect to the Docker daemon at x.")
    with pytest.raises(DaemonUnreachable):
        find_daemon(down, sleep=down.sleep)
    refused = FakeDocker().on("info", **answer).on("version", code=1, stderr="no such context")
    with pytest.raises(SandboxConfigError):
        find_daemon(refused, sleep=refused.sleep)
    silent = FakeDocker().on("info", **answer).on("version", hang=True)
    with pytest.raises(DaemonUnreachable, match="did not answer within 10 seconds, twice"):
        find_daemon(silent, sleep=silent.sleep)
    assert silent.now() - 1000 <= 22


@pytest.mark.parametrize("answer", [{"stdout": ""}, {"stdout": INFO, "code": 1}, {"hang": True}])
def test_engine_that_does_not_describe_itself_is_refused(answer: dict[str, Any]) -> None:
    """D-11, B23: never read as "no daemon", in bounded time."""
    docker = FakeDocker().on("info", **answer)
    with pytest.raises(SandboxConfigError, match="the Docker engine does not describe itself"):
        query_engine(docker)
    assert docker.now() - 1000 <= 30
