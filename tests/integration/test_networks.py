"""Existing networks on a real engine: a Compose-like project, and everything that must be refused."""

from __future__ import annotations

import json
import os
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from fakes.notices import texts_to
from support.compose_project import SOCKET, Project
from support.docker_engine import LABEL, Engine

from odek.sandbox.container.container import Container
from odek.sandbox.container.owner import Owner
from odek.sandbox.container.start import Surroundings, start
from odek.sandbox.docker import DockerCli, DockerProcess
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.network.attach import ServiceNames, inspect_networks, service_names
from odek.sandbox.network.checks import network_diff, require_unchanged, warnings
from odek.sandbox.network.plan import NetworkPlan, NetworkRequest
from odek.sandbox.spec import Limits, SandboxSpec

pytestmark = pytest.mark.docker_only  # with podman each of them is refused before it is looked at

Starter = Callable[[NetworkPlan], Container]


@pytest.fixture
def project(docker_engine: Engine, base_image: str) -> Iterator[Project]:
    made = Project(docker_engine, base_image)
    yield made
    made.close()


@pytest.fixture
def docker(docker_engine: Engine) -> DockerCli:
    return DockerCli(docker_engine.client, dict(os.environ))


@pytest.fixture
def said() -> list[str]:
    """What the user was told."""
    return []


@pytest.fixture
def sandbox(
    docker_engine: Engine, base_image: str, docker: DockerCli, said: list[str], tmp_path: Path
) -> Iterator[Starter]:
    """Starts a sandbox on the networks of a plan."""
    started: list[Container] = []

    def start_on(plan: NetworkPlan) -> Container:
        spec = make_spec(plan, docker_engine, base_image, tmp_path)
        container = start(spec, docker, make_world(said))
        started.append(container)
        return container

    yield start_on
    for container in started:
        assert container.close() == ""


def make_spec(plan: NetworkPlan, engine: Engine, image: str, workdir: Path) -> SandboxSpec:
    return SandboxSpec(
        image=image,
        image_id=engine.run("image", "inspect", "--format", "{{.Id}}", image).stdout.strip(),
        networks=plan,
        workdir=str(workdir),
        readonly=False,
        user=f"{os.getuid()}:{os.getgid()}",
        home="/tmp",
        limits=Limits(),
    )


def make_world(said: list[str]) -> Surroundings:
    owner = Owner(pid=os.getpid(), start="1", boot="test", pidns=secrets.token_hex(4), uid=os.getuid())
    return Surroundings(
        owner=owner, start_of=lambda _: "1", new_nonce=lambda: secrets.token_hex(8), emit=texts_to(said)
    )


def asked(*names: str, project: str = "", mode: str = "none") -> NetworkRequest:
    return NetworkRequest(mode=mode, names=names, names_origin="--sandbox-networks", compose_project=project)


def output(container: Container, command: str) -> str:
    return container.run(command, timeout_s=20).output.text


def attached_ids(engine: Engine, container: Container) -> dict[str, str]:
    template = "{{json .NetworkSettings.Networks}}"
    networks = json.loads(engine.run("inspect", "--format", template, container.facts.id).stdout)
    return {name: entry["NetworkID"] for name, entry in networks.items()}


def test_services_of_a_compose_project_answer_by_name(project: Project, docker: DockerCli, sandbox: Starter) -> None:
    """R-53, R-54, R-57, R-71: all networks of the project, each service by its Compose name."""
    front, back = project.network("default"), project.network("backend", internal=True)
    project.service("redis", front, answer="PONG")
    project.service("postgres", back, answer="ready", port=5432)
    plan = inspect_networks(asked(project=project.name), docker)
    box = sandbox(plan)
    assert output(box, "nc -w 5 redis 6379 </dev/null; nc -w 5 postgres 5432 </dev/null") == "PONG\nready\n"
    assert [
        (network.name, network.id, network.internal, network.compose_project) for network in box.facts.networks
    ] == [
        (f"{project.name}_backend", back, True, project.name),
        (f"{project.name}_default", front, False, project.name),
    ]
    assert (box.facts.network, box.facts.internet) == ("attached", True)
    assert box.facts.service_names == ("postgres", "redis")


def test_attached_network_replaces_none(project: Project, docker: DockerCli, sandbox: Starter) -> None:
    """R-55: the container is on the named network and on nothing else."""
    front = project.network("front", labelled=False)
    project.network("other", labelled=False)
    box = sandbox(inspect_networks(asked(f"{project.name}_front"), docker))
    assert attached_ids(project.engine, box) == {f"{project.name}_front": front}
    assert (box.facts.network, box.facts.internet, box.facts.service_names) == ("attached", True, ())


def test_bridge_and_attached_networks_are_both_used(project: Project, docker: DockerCli, sandbox: Starter) -> None:
    """R-55."""
    back = project.network("back", internal=True)
    project.service("redis", back, answer="PONG")
    box = sandbox(inspect_networks(asked(f"{project.name}_back", mode="bridge"), docker))
    bridge = project.engine.run("network", "inspect", "--format", "{{.Id}}", "bridge").stdout.strip()
    assert attached_ids(project.engine, box) == {"bridge": bridge, f"{project.name}_back": back}
    assert output(box, "nc -w 5 redis 6379 </dev/null") == "PONG\n"
    assert (box.facts.network, box.facts.internet) == ("bridge+attached", True)


def test_sandbox_gets_no_alias(project: Project, docker: DockerCli, sandbox: Starter) -> None:
    """R-54: the only names are those that Docker itself gives every container."""
    project.network("a")
    project.network("b")
    box = sandbox(inspect_networks(asked(project=project.name), docker))
    entries = json.loads(
        project.engine.run("inspect", "--format", "{{json .NetworkSettings.Networks}}", box.facts.id).stdout
    )
    hostname = output(box, "hostname").strip()
    names = {name for entry in entries.values() for name in entry["Aliases"] or ()}
    assert names <= {box.facts.id[:12], box.facts.name, hostname}
    assert hostname.startswith("odek-")


def test_networks_outlive_the_sandbox(project: Project, docker: DockerCli, sandbox: Starter) -> None:
    """R-54: closing removes the container and no network."""
    made = [project.network("a"), project.network("b", internal=True)]
    box = sandbox(inspect_networks(asked(project=project.name), docker))
    assert box.close() == ""
    assert project.existing() == made


def test_other_sandboxes_are_no_services(project: Project, docker: DockerCli, sandbox: Starter) -> None:
    """R-57."""
    front = project.network("default")
    plan = inspect_networks(asked(project=project.name), docker)
    sandbox(plan)
    project.service("redis", front)
    assert sandbox(plan).facts.service_names == ("redis",)


def test_service_that_looks_like_hex_is_listed(project: Project, docker: DockerCli) -> None:
    """R-57: only the container's own short ID is dropped."""
    front = project.network("default")
    project.service("cafe", front)
    plan = inspect_networks(asked(project=project.name), docker)
    assert service_names(plan, "", docker) == ServiceNames(names=("cafe",))


def test_two_checkouts_of_one_project_are_pointed_out(
    project: Project, docker: DockerCli, sandbox: Starter, said: list[str]
) -> None:
    """B28: two redis behind one name, before the start for the approval and at the start."""
    one, two = project.network("one"), project.network("two")
    project.service("redis", one, folder="/a/app")
    project.service("redis", two, folder="/b/app")
    plan = inspect_networks(asked(project=project.name), docker)
    expected = (
        'the name "redis" has several owners and may lead to either: '
        f'service "redis" of Compose project "{project.name}" in "/a/app"; '
        f'service "redis" of Compose project "{project.name}" in "/b/app"',
        f'Compose project "{project.name}" has containers from 2 folders: "/a/app", "/b/app"',
    )
    assert service_names(plan, "", docker).notes == expected
    sandbox(plan)
    assert tuple(said) == expected


def test_host_answers_on_an_internal_network(project: Project, docker: DockerCli, sandbox: Starter) -> None:
    """B27, M-2, R-56: what is said of an internal network does not cover the host, which is reachable."""
    back = project.network("back", internal=True)
    gateway = project.engine.run(
        "network", "inspect", "--format", "{{(index .IPAM.Config 0).Gateway}}", back
    ).stdout.strip()
    plan = inspect_networks(asked(f"{project.name}_back"), docker)
    box = sandbox(plan)
    with socket.create_server(("0.0.0.0", 0)) as listener:
        listener.settimeout(20)
        greeter = threading.Thread(target=greet_once, args=(listener,))
        greeter.start()
        heard = output(box, f"nc -w 5 {gateway} {listener.getsockname()[1]} </dev/null")
        greeter.join()
    assert heard == "the host\n"
    assert box.facts.internet is False
    assert warnings(plan) == (
        f'network "{project.name}_back" is internal: no internet that way, but services of this machine that listen '
        "on all addresses may be reachable",
    )


def greet_once(listener: socket.socket) -> None:
    try:
        connection, _ = listener.accept()
    except TimeoutError:
        return
    with connection:
        connection.sendall(b"the host\n")


def test_missing_network_is_refused(project: Project, docker: DockerCli) -> None:
    """R-52: nothing is started."""
    with pytest.raises(SandboxConfigError) as error:
        inspect_networks(asked(f"{project.name}_default"), docker)
    assert error.value.message == f'network "{project.name}_default" not found by Docker (--sandbox-networks)'


def test_project_that_is_not_running_is_refused_though_its_default_network_exists(
    project: Project, docker: DockerCli
) -> None:
    """R-53, B28: `<project>_default` without the label is not the project's; nor is the project `PROJECT-x`."""
    project.network("default", labelled=False)
    with pytest.raises(SandboxConfigError) as error:
        inspect_networks(asked(project=project.name), docker)
    assert (
        error.value.message == f'no network belongs to the Compose project "{project.name}" (sandbox_compose_project)'
    )


def test_part_of_a_project_name_is_no_project(project: Project, docker: DockerCli) -> None:
    """B28: the label is compared as a whole."""
    project.network("default")
    with pytest.raises(SandboxConfigError):
        inspect_networks(asked(project=project.name[:-1]), docker)


def test_beginning_of_an_id_is_refused(project: Project, docker: DockerCli) -> None:
    """B26: the default bridge is not reached by six digits of its ID."""
    bridge = project.engine.run("network", "inspect", "--format", "{{.Id}}", "bridge").stdout.strip()
    for wanted in (bridge[:6], bridge[:12], bridge):
        with pytest.raises(SandboxConfigError) as error:
            inspect_networks(asked(wanted), docker)
        assert error.value.message == f'network "{wanted}" not found by Docker (--sandbox-networks)'


def test_network_named_like_the_beginning_of_an_id_is_the_named_one(
    project: Project, docker: DockerCli, sandbox: Starter
) -> None:
    """B26: the name counts, whatever Docker's own lookup would do with it."""
    other = project.network("other")
    named = project.network("x", labelled=False, name=other[:12])
    box = sandbox(inspect_networks(asked(other[:12]), docker))
    assert list(attached_ids(project.engine, box).values()) == [named]


def test_two_networks_of_one_name_are_refused_with_both_ids(project: Project, docker: DockerCli) -> None:
    """B26."""
    name = f"{project.name}_dup"
    first = project.network("dup")
    if not os.path.exists(SOCKET):
        pytest.skip("the engine's socket is elsewhere")
    second = project.twin(name)
    if second is None:
        assert project.engine.release >= (25, 0), "only later engines refuse a second network"
        return
    with pytest.raises(SandboxConfigError) as error:
        inspect_networks(asked(name), docker)
    ids = ", ".join(sorted((first, second)))
    assert error.value.message == f'2 networks have the name "{name}" (--sandbox-networks): {ids}'


def test_network_that_only_holds_a_configuration_is_refused(project: Project, docker: DockerCli) -> None:
    """R-52."""
    name = f"{project.name}_template"
    project.engine.run("network", "create", "--config-only", name)
    try:
        with pytest.raises(SandboxConfigError) as error:
            inspect_networks(asked(name), docker)
    finally:
        project.engine.run("network", "rm", name)
    assert error.value.message == (
        f'network "{name}" cannot be attached: it only holds a configuration for other networks (--sandbox-networks)'
    )


@pytest.mark.parametrize("driver", ["macvlan", "ipvlan"])
def test_network_of_another_driver_is_refused_by_name(driver: str, project: Project, docker: DockerCli) -> None:
    """E5: also as a part of a Compose project that has a bridge network too; nothing is left out silently."""
    project.network("front")
    name = f"{project.name}_lan"
    label = f"--label=com.docker.compose.project={project.name}"
    # without a parent, on a dummy interface that the engine makes
    made = project.engine.run("network", "create", "--driver", driver, label, name, check=False)
    if made.returncode != 0:
        assert "operation not supported" in made.stderr  # a kernel without the driver has no such network either
        return
    refusal = f'network "{name}" cannot be attached: its driver is "{driver}", not "bridge"'
    try:
        for request in (asked(name), asked(f"{project.name}_front", name), asked(project=project.name)):
            with pytest.raises(SandboxConfigError) as error:
                inspect_networks(request, docker)
            assert error.value.message.startswith(refusal)
    finally:
        project.engine.run("network", "rm", name)


def test_recreated_network_is_another_network(
    project: Project, docker: DockerCli, sandbox: Starter, docker_engine: Engine
) -> None:
    """R-63, B26: the comparison stops it, and if it did not, the full ID would."""
    old = project.network("default")
    approved = inspect_networks(asked(project=project.name), docker)
    project.remove_network(old)
    new = project.network("default")
    now = inspect_networks(asked(project=project.name), docker)
    assert network_diff(approved, now) == (
        f'network "{project.name}_default" was recreated: approved as {old}, now {new}',
    )
    with pytest.raises(SandboxConfigError):
        require_unchanged(approved, now)
    with pytest.raises(SandboxConfigError) as error:
        sandbox(approved)
    assert error.value.message == f'network "{project.name}_default" ({old}) is gone'
    assert own_sandboxes(docker_engine) == []


def test_network_that_joins_the_project_is_a_change(project: Project, docker: DockerCli) -> None:
    """R-63."""
    project.network("default")
    approved = inspect_networks(asked(project=project.name), docker)
    late = project.network("late")
    now = inspect_networks(asked(project=project.name), docker)
    assert network_diff(approved, now) == (f'network "{project.name}_late" ({late}) has joined and was not approved',)


def test_failure_to_connect_the_rest_removes_the_container(
    project: Project, docker: DockerCli, sandbox: Starter, docker_engine: Engine
) -> None:
    """R-54: the network is named, the container goes, the other network stays."""
    kept = project.network("a")
    gone = project.network("b")
    plan = inspect_networks(asked(project=project.name), docker)
    project.remove_network(gone)
    with pytest.raises(SandboxConfigError) as error:
        sandbox(plan)
    assert error.value.message == f'Docker did not connect the sandbox to network "{project.name}_b" ({gone})'
    assert own_sandboxes(docker_engine) == []
    assert project.existing() == [kept]


class Meddler:
    """A docker client behind whose back somebody connects each new sandbox to one more network."""

    def __init__(self, docker: DockerCli, engine: Engine, network: str) -> None:
        self._docker = docker
        self._engine = engine
        self._network = network

    def when_gone(self, *args: str) -> DockerProcess | None:
        return self._docker.when_gone(*args)

    def ahead(self, *_calls: tuple[str, ...]) -> AbstractContextManager[None]:
        return nullcontext()  # each call passes `start` when it is asked for

    def start(self, *args: str, **options: Any) -> DockerProcess:
        if args[0] == "inspect":
            self._engine.run("network", "connect", self._network, args[-1])
        return self._docker.start(*args, **options)


@pytest.mark.parametrize("mode", ["none", "bridge"])
def test_network_that_was_not_asked_for_stops_the_start(
    project: Project, docker: DockerCli, said: list[str], tmp_path: Path, base_image: str, mode: str
) -> None:
    """R-37, R-54: the attached networks are an exact set."""
    project.network("a")
    other = project.network("other", labelled=False)
    plan = inspect_networks(asked(project=project.name, mode=mode), docker)
    meddler = Meddler(docker, project.engine, other)
    with pytest.raises(SandboxConfigError) as error:
        start(make_spec(plan, project.engine, base_image, tmp_path), meddler, make_world(said))
    assert (error.value.message, error.value.detail) == (
        "the sandbox that Docker started is not the one that was asked for",
        f"network {project.name}_other ({other}): attached, not asked for",
    )
    assert own_sandboxes(project.engine) == []


def own_sandboxes(engine: Engine) -> list[str]:
    """Return the sandboxes of this process that exist."""
    return engine.run(
        "ps", "--all", "--quiet", "--filter", f"label={LABEL}", "--filter", f"label=io.odek.pid={os.getpid()}"
    ).stdout.split()
