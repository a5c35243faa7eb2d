"""The calls to Docker: what is asked, and that every failure stops with the network's name."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from fakes.docker_calls import DockerCalls

from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.network.attach import ServiceNames, connect_rest, explain_refusal, inspect_networks, service_names
from odek.sandbox.network.plan import Network, NetworkPlan, NetworkRequest

A, B, C = "a" * 64, "b" * 64, "c" * 64
OWN, REDIS = "1" * 64, "2" * 64
LIST = ("network", "ls", "--no-trunc", "--format", "[{{json .ID}},{{json .Name}},{{json .Driver}},{{json .Scope}}]")
LIST_APP = (*LIST, "--filter", "label=com.docker.compose.project=app")
FRONT, BACK = Network(name="front", id=A, internal=False), Network(name="back", id=B, internal=True)
PLAN = NetworkPlan(attached=(FRONT, BACK))
DAEMON = "Error response from daemon: no"


def raw(
    name: str, full_id: str, *, internal: bool = False, project: str = "", members: tuple[str, ...] = ()
) -> dict[str, Any]:
    return {
        "Name": name,
        "Id": full_id,
        "Driver": "bridge",
        "Scope": "local",
        "Internal": internal,
        "ConfigOnly": False,
        "Labels": {"com.docker.compose.project": project} if project else {},
        "Containers": {member: {} for member in members},
    }


def listing(*networks: tuple[str, str], driver: str = "bridge", scope: str = "local") -> str:
    """Return what `docker network ls` prints of (full ID, name)."""
    return "".join(json.dumps([full_id, name, driver, scope]) + "\n" for full_id, name in networks)


def request(*names: str, project: str = "") -> NetworkRequest:
    return NetworkRequest(
        names=names, names_origin="--sandbox-networks", compose_project=project, compose_origin="./odek.json"
    )


@pytest.mark.parametrize("mode", ["none", "bridge"])
def test_docker_is_not_asked_when_no_network_is_wanted(mode: str) -> None:
    """R-55."""
    assert inspect_networks(NetworkRequest(mode=mode), DockerCalls()) == NetworkPlan(mode=mode)


def test_named_network_is_listed_and_inspected_by_its_full_id() -> None:
    """R-52: Docker never sees the name, so it cannot take it for the beginning of an ID."""
    docker = (
        DockerCalls()
        .on(*LIST, stdout=listing((A, "front"), (B, "back"), (C, "bridge")))
        .on("network", "inspect", "--", B, stdout=json.dumps([raw("back", B, internal=True)]))
    )
    assert inspect_networks(request("back"), docker) == NetworkPlan(attached=(BACK,))
    docker.assert_all_used()


def test_names_and_project_are_inspected_together_once() -> None:
    """D-8, R-53: the label filter finds the project, nothing is guessed."""
    docker = (
        DockerCalls()
        .on(*LIST, stdout=listing((A, "front"), (B, "back")))
        .on(*LIST_APP, stdout=listing((B, "back"), (C, "app_default")))
        .on(
            "network",
            "inspect",
            "--",
            B,
            C,
            stdout=json.dumps([raw("back", B, internal=True, project="app"), raw("app_default", C, project="app")]),
        )
    )
    assert inspect_networks(request("back", project="app"), docker) == NetworkPlan(
        attached=(
            Network(name="back", id=B, internal=True, compose_project="app"),
            Network(name="app_default", id=C, internal=False, compose_project="app"),
        )
    )


def test_chatter_beside_listing_and_inspect_is_passed_over() -> None:
    """B25."""
    docker = (
        DockerCalls()
        .on(*LIST, stdout=f"WARNING: something\n{listing((A, 'front'))}", stderr="WARNING: IPv4 forwarding is disabled")
        .on("network", "inspect", "--", A, stdout="Tip: try docker scout\n" + json.dumps([raw("front", A)]))
    )
    assert inspect_networks(request("front"), docker) == NetworkPlan(attached=(FRONT,))


def test_name_that_fakes_a_line_of_the_listing_is_refused() -> None:
    """R-52, R-64: what inspect says of the ID decides."""
    docker = (
        DockerCalls()
        .on(*LIST, stdout=listing((A, "x"), (B, "front")))
        .on("network", "inspect", "--", B, stdout=json.dumps([raw("x\n" + B + "\tfront", B)]))
    )
    with pytest.raises(SandboxConfigError) as error:
        inspect_networks(request("front"), docker)
    assert error.value.message == 'network "front" not found by Docker (--sandbox-networks)'


def test_project_with_a_network_of_a_swarm_is_refused_before_anything_is_inspected() -> None:
    """E5: never a part of what was asked for."""
    mesh = listing(("te9o6zwbvpaqnjf9dzsaifnr1", "app_mesh"), driver="overlay", scope="swarm")
    docker = DockerCalls().on(*LIST_APP, stdout=listing((A, "app_default")) + mesh)
    with pytest.raises(SandboxConfigError) as error:
        inspect_networks(request(project="app"), docker)
    assert error.value.message == (
        'network "app_mesh" cannot be attached: its driver is "overlay", not "bridge" (./odek.json)'
    )


def test_network_of_a_project_that_goes_away_between_listing_and_inspect_is_missed() -> None:
    """E5: it is not left out in silence."""
    docker = (
        DockerCalls()
        .on(*LIST_APP, stdout=listing((A, "app_default"), (B, "app_back")))
        .on(
            "network", "inspect", "--", A, B, code=1, stderr="Error: No such network",
            stdout=json.dumps([raw("app_default", A, project="app")]),
        )
    )  # fmt: skip
    with pytest.raises(SandboxConfigError) as error:
        inspect_networks(request(project="app"), docker)
    assert error.value.message == (
        f'network {B} of the Compose project "app" went away while odek looked at it (./odek.json)'
    )


@pytest.mark.parametrize(
    ("left", "missing"),
    [([], "back"), ([raw("back", B)], "front"), ([raw("front", A)], "back")],
    ids=["both", "second", "first"],
)
def test_network_that_goes_away_between_listing_and_inspect_is_missing(left: list[object], missing: str) -> None:
    """R-52."""
    docker = (
        DockerCalls()
        .on(*LIST, stdout=listing((A, "front"), (B, "back")))
        .on("network", "inspect", "--", B, A, stdout=json.dumps(left), stderr="Error: No such network", code=1)
    )
    with pytest.raises(SandboxConfigError) as error:
        inspect_networks(request("back", "front"), docker)
    assert error.value.message == f'network "{missing}" not found by Docker (--sandbox-networks)'


def test_project_that_does_not_run_is_refused_without_inspecting_anything() -> None:
    """R-53, B28: `<project>_default` is not tried."""
    with pytest.raises(SandboxConfigError) as error:
        inspect_networks(request(project="app"), DockerCalls().on(*LIST_APP, stdout=""))
    assert error.value.message == 'no network belongs to the Compose project "app" (./odek.json)'


PROJECT_SUBJECT = 'the networks of Compose project "app" (./odek.json)'
NAME_SUBJECT = 'network "front" (--sandbox-networks)'


@pytest.mark.parametrize(
    ("ask", "docker", "message"),
    [
        (
            lambda docker: inspect_networks(request("front"), docker),
            DockerCalls().on(*LIST, stderr=DAEMON, code=1),
            f"Docker does not list its networks: {NAME_SUBJECT} cannot be found",
        ),
        (
            lambda docker: inspect_networks(request(project="app"), docker),
            DockerCalls().on(*LIST_APP, stdout=listing((A, "front")), stderr=DAEMON, code=125),
            f"Docker does not list its networks: {PROJECT_SUBJECT} cannot be found",
        ),
        (
            lambda docker: inspect_networks(request("front"), docker),
            DockerCalls()
            .on(*LIST, stdout=listing((A, "front")))
            .on("network", "inspect", "--", A, stderr=DAEMON, code=1),
            f"Docker does not describe {NAME_SUBJECT}",
        ),
        (
            lambda docker: inspect_networks(request("front"), docker),
            DockerCalls()
            .on(*LIST, stdout=listing((A, "front")))
            .on("network", "inspect", "--", A, stdout='{"a": 1}', stderr=DAEMON),
            f"Docker does not describe {NAME_SUBJECT}",
        ),
        (
            lambda docker: inspect_networks(request("front"), docker),
            DockerCalls()
            .on(*LIST, stdout=listing((A, "front")))
            .on("network", "inspect", "--", A, stdout="[1]", stderr=DAEMON),
            f"Docker does not describe {NAME_SUBJECT}",
        ),
        (
            lambda docker: connect_rest(PLAN, "odek-1-1", docker),
            DockerCalls().on("network", "connect", "--", B, "odek-1-1", stderr=DAEMON, code=1),
            f'Docker did not connect the sandbox to network "back" ({B})',
        ),
        (
            lambda docker: service_names(PLAN, OWN, docker),
            DockerCalls().on("network", "inspect", "--", A, B, stderr=DAEMON, code=1),
            'Docker does not describe network "front", "back"',
        ),
        (
            lambda docker: service_names(PLAN, OWN, docker),
            DockerCalls()
            .on("network", "inspect", "--", A, B, stdout=json.dumps([raw("front", A, members=(REDIS,))]))
            .on("inspect", "--type", "container", "--", REDIS, stderr=DAEMON, code=1),
            'Docker does not describe the containers on network "front", "back"',
        ),
    ],
    ids=["list", "list project", "inspect", "object", "numbers", "connect", "members", "containers"],
)
def test_failure_of_docker_stops_with_its_words_and_the_network(
    ask: Callable[[DockerCalls], object], docker: DockerCalls, message: str
) -> None:
    """R-7, R-54: a configuration error, whatever the code was."""
    with pytest.raises(SandboxConfigError) as error:
        ask(docker)
    assert error.value.message == message
    assert error.value.detail.startswith(DAEMON)
    docker.assert_all_used()


@pytest.mark.parametrize("code", [-9, 0])
def test_docker_that_does_not_answer_in_time_is_a_failure(code: int) -> None:
    """D-11: every call has a limit, and running into it decides nothing in anybody's favour."""
    docker = DockerCalls().on("network", "connect", "--", B, "odek-1-1", code=code, timed_out=True)
    with pytest.raises(SandboxConfigError) as error:
        connect_rest(PLAN, "odek-1-1", docker)
    assert error.value.detail == "Docker did not answer within 30 seconds"


@pytest.mark.parametrize(
    ("plan", "connected"),
    [
        (NetworkPlan(), ()),
        (NetworkPlan(mode="bridge"), ()),
        (NetworkPlan(attached=(FRONT,)), ()),
        (PLAN, (B,)),
        (NetworkPlan(mode="bridge", attached=(FRONT, BACK)), (A, B)),
    ],
)
def test_rest_is_connected_by_full_id_and_without_alias(plan: NetworkPlan, connected: tuple[str, ...]) -> None:
    """R-54."""
    docker = DockerCalls()
    for full_id in connected:
        docker.on("network", "connect", "--", full_id, "odek-1-1")
    connect_rest(plan, "odek-1-1", docker)
    assert docker.calls == [("network", "connect", "--", full_id, "odek-1-1") for full_id in connected]


def test_services_are_read_from_the_other_members() -> None:
    """R-57."""
    redis = {
        "Id": REDIS,
        "Name": "/app-redis-1",
        "Config": {"Labels": {}},
        "NetworkSettings": {"Networks": {"front": {"NetworkID": A, "Aliases": ["redis", REDIS[:12]]}}},
    }
    docker = (
        DockerCalls()
        .on(
            "network",
            "inspect",
            "--",
            A,
            B,
            stdout=json.dumps([raw("front", A, members=(REDIS, OWN)), raw("back", B, members=(OWN, "ep-1234"))]),
        )
        .on("inspect", "--type", "container", "--", REDIS, stdout=json.dumps([redis]))
    )
    assert service_names(PLAN, OWN, docker) == ServiceNames(names=("redis",))


def test_services_are_none_when_nobody_else_is_there() -> None:
    """R-57."""
    docker = DockerCalls().on("network", "inspect", "--", A, B, stdout=json.dumps([raw("front", A, members=(OWN,))]))
    assert service_names(PLAN, OWN, docker) == ServiceNames()


@pytest.mark.parametrize("mode", ["none", "bridge"])
def test_services_are_not_asked_for_when_nothing_is_attached(mode: str) -> None:
    """R-57."""
    assert service_names(NetworkPlan(mode=mode), OWN, DockerCalls()) == ServiceNames()


def test_refused_start_is_explained_by_a_network_that_is_gone() -> None:
    """R-54."""
    docker = DockerCalls().on("network", "inspect", "--", A, stdout="[]", stderr="Error: No such network", code=1)
    error = explain_refusal(PLAN, docker)
    assert error is not None
    assert (error.message, error.detail) == (f'network "front" ({A}) is gone', "Error: No such network\n[]")


def test_refused_start_has_another_cause_when_the_network_is_there() -> None:
    """R-54."""
    assert explain_refusal(PLAN, DockerCalls().on("network", "inspect", "--", A, stdout="[{}]")) is None


@pytest.mark.parametrize("plan", [NetworkPlan(), NetworkPlan(mode="bridge", attached=(FRONT,))])
def test_refused_start_has_another_cause_when_no_attached_network_was_first(plan: NetworkPlan) -> None:
    """R-54."""
    assert explain_refusal(plan, DockerCalls()) is None
