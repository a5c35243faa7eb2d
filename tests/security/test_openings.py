"""What opens only when the operator says so: each is tried without a word and with it.

The first half of each test is the promise; the second shows that the attack is one, because Docker
itself, or an odek that was told to, does what was refused. The sentences are those of
docs/SANDBOXING.md.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from fakes.model_server import ModelServer, calls, text
from support.compose_project import Project
from support.docker_engine import Engine, gateway_of_the_bridge
from support.odek_process import Odek
from support.scenario import Scene, listener_on_the_host, run_script, tool_results

CANARY = "canary-7f3"
APPROVED = {"ODEK_APPROVE_PROJECT_SANDBOX": "1"}


def settings_of_the_operator(odek: Odek, **settings: object) -> None:
    """Add settings to the operator's file."""
    path = odek.home / ".odek" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))


def refused(odek: Odek, *flags: str, **options: object) -> str:
    """Return what odek says when it stops before the model is asked."""
    with ModelServer() as server:
        outcome = odek.run("run", "--base-url", server.base_url, *flags, "x", **options)  # type: ignore[arg-type]
        assert (outcome.code, server.requests) == (1, []), outcome.stderr
    return outcome.stderr


def printed(odek: Odek, command: str, *flags: str, **options: object) -> str:
    """Return what a command prints in a sandbox."""
    script = (calls(("shell", {"command": command, "timeout": 20})), text("done"))
    outcome, server = run_script(odek, *script, flags=flags, **options)
    assert outcome.code == 0, outcome.stderr
    return tool_results(server)[0]


def test_command_runs_on_the_host_only_where_the_operator_says_so(scene: Scene) -> None:
    """Never the host by mistake: a bad value stops the run; with `--no-sandbox` the same command leaves its mark."""
    assert scene.run("--sandbox-memory", "lots").summary == (1, 0, False)
    assert scene.run("--no-sandbox").summary == (0, 2, True)


@pytest.mark.parametrize("mode", ["host", "container:NAME", "ns:/proc/1/ns/net"])
def test_foreign_network_modes_are_refused(mode: str, sandboxed: Odek, docker_engine: Engine, base_image: str) -> None:
    """`host`, `container:…`, `ns:…` are refused: by the first two Docker reaches what listens on loopback only."""
    name = f"odek-security-mode-{os.getpid()}"
    wanted = mode.replace("NAME", name)
    assert f'"{wanted}"' in refused(sandboxed, "--sandbox-network", wanted)
    if mode == "host":
        with listener_on_the_host("127.0.0.1") as (port, came):
            reach = ("nc", "-w", "3", "127.0.0.1", str(port))
            docker_engine.run("run", "--rm", "--network", "host", base_image, *reach)
            assert len(came) == 1
    elif mode.startswith("container:"):
        serve = ("sh", "-c", "while :; do echo THROUGH | nc -l -p 6379; done")
        docker_engine.run("run", "--detach", "--rm", "--init", "--name", name, "--network", "none", base_image, *serve)
        try:
            reach = ("sh", "-c", "for i in 1 2 3 4 5; do nc -w 3 127.0.0.1 6379 </dev/null && exit; sleep 1; done")
            done = docker_engine.run("run", "--rm", "--network", wanted, base_image, *reach)
        finally:
            docker_engine.run("rm", "--force", name)
        assert done.stdout == "THROUGH\n"


@pytest.mark.docker_only
def test_beginning_of_a_network_id_is_no_name(sandboxed: Odek, docker_engine: Engine) -> None:
    """Networks are named exactly: Docker takes six digits of an ID for the default bridge, odek does not."""
    bridge = docker_engine.run("network", "inspect", "--format", "{{.Id}}", "bridge").stdout.strip()
    assert "not found" in refused(sandboxed, "--sandbox-networks", bridge[:6])
    assert docker_engine.run("network", "inspect", "--format", "{{.Name}}", bridge[:6]).stdout == "bridge\n"


@pytest.mark.docker_only
def test_only_attached_networks_are_reached(sandboxed: Odek, docker_engine: Engine, base_image: str) -> None:
    """Attached networks: a service is reached on the network that was named, and not without naming it."""
    project = Project(docker_engine, base_image)
    try:
        for key in ("front", "back"):
            project.network(key, internal=True)
        service = project.service("redis", f"{project.name}_back", answer="THROUGH")
        template = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        address = docker_engine.run("inspect", "--format", template, service).stdout.strip()
        # the service answers one at a time, and is gone for a moment in between
        ask = "for i in 1 2 3; do nc -w 2 {} 6379 </dev/null && break; sleep 0.3; done"
        reach = f"{ask.format('redis')}; {ask.format(address)}"
        front, back = (f"{project.name}_{key}" for key in ("front", "back"))
        assert "THROUGH" not in printed(sandboxed, reach, "--sandbox-networks", front)
        assert printed(sandboxed, reach, "--sandbox-networks", f"{front},{back}").count("THROUGH\n") == 2
    finally:
        project.close()


@pytest.mark.docker_only
def test_compose_networks_are_found_by_label_only(sandboxed: Odek, docker_engine: Engine, base_image: str) -> None:
    """A Compose project: `<project>_default` is not guessed; the network that carries the label is attached."""
    project = Project(docker_engine, base_image)
    try:
        project.network("default", labelled=False)
        assert "no network belongs to" in refused(sandboxed, "--sandbox-compose", project.name)
        project.network("labelled", internal=True)
        command = "ls /sys/class/net"
        assert "eth0" in printed(sandboxed, command, "--sandbox-compose", project.name)
    finally:
        project.close()


@pytest.mark.parametrize("volume", ["{outside}:/data", "../outside:/data", "./link:/data", "./link/deep:/data"])
def test_volumes_from_outside_are_refused(
    volume: str, sandboxed: Odek, tmp_path: Path, docker_engine: Engine, base_image: str
) -> None:
    """`sandbox_volumes` stay in the working directory: absolute paths, `..` and links are refused; Docker takes all."""
    outside, inside = tmp_path / "outside", sandboxed.cwd / "inside"
    (outside / "deep").mkdir(parents=True)
    inside.mkdir()
    for folder in (outside, outside / "deep", inside):
        (folder / "key").write_text(CANARY)
    (sandboxed.cwd / "link").symlink_to(outside)
    wanted = volume.format(outside=outside)
    settings_of_the_operator(sandboxed, sandbox_volumes=[wanted])
    assert "sandbox_volumes" in refused(sandboxed)
    option = os.path.join(sandboxed.cwd, wanted)
    shown = docker_engine.run("run", "--rm", "--network", "none", "--volume", option, base_image, "cat", "/data/key")
    assert shown.stdout == CANARY
    settings_of_the_operator(sandboxed, sandbox_volumes=["./inside:/data"])
    assert CANARY in printed(sandboxed, "cat /data/key")


EFFECTS = {
    "environment": ({"sandbox_env": {"ASKED": "7f3"}}, "echo seen-$ASKED", "seen-7f3"),
    "variable of the host": ({"sandbox_env": {"ASKED": "${HOST_VALUE}"}}, "echo seen-$ASKED", "seen-4711"),
    "network": ({"sandbox_network": "bridge"}, "echo $(ls /sys/class/net)", "eth0 lo"),
    "user": ({"sandbox_user": "4712:4712"}, "echo uid=$(id -u)", "uid=4712"),
    "volumes": ({"sandbox_volumes": ["./data:/data"]}, "cat /data/f", "content of the volume"),
}


@pytest.mark.parametrize("asked", EFFECTS)
def test_request_of_a_project_takes_effect_only_after_a_yes(asked: str, sandboxed: Odek) -> None:
    """A project's overrides need your word: without it the run stops, with it they are seen to work."""
    settings, command, effect = EFFECTS[asked]
    (sandboxed.cwd / "data").mkdir()
    (sandboxed.cwd / "data" / "f").write_text("content of the volume")
    (sandboxed.cwd / "odek.json").write_text(json.dumps(settings))
    env = {"HOST_VALUE": "4711"}
    assert "ODEK_APPROVE_PROJECT_SANDBOX" in refused(sandboxed, env=env)
    assert effect in printed(sandboxed, command, env={**env, **APPROVED})


def test_image_of_a_project_is_used_only_after_a_yes(sandboxed: Odek, docker_engine: Engine, base_image: str) -> None:
    """The same for an image of a stranger's, and for one that a Dockerfile.odek makes by code of the project."""
    evil = f"odek-security-evil:{os.getpid()}"
    built = f"FROM {base_image}\nRUN echo evil-{os.getpid()} >/evil\n"
    docker_engine.run("build", "--network", "none", "--tag", evil, "-", stdin=built.encode())
    config = sandboxed.home / ".odek" / "config.json"
    config.write_text(json.dumps({"dangerous": {"sandboxed": {"action": "allow"}}}))
    try:
        for name, content in (("odek.json", json.dumps({"sandbox_image": evil})), ("Dockerfile.odek", built)):
            (sandboxed.cwd / name).write_text(content)
            assert "ODEK_APPROVE_PROJECT_SANDBOX" in refused(sandboxed)
            assert f"evil-{os.getpid()}" in printed(sandboxed, "cat /evil", env=APPROVED)
            (sandboxed.cwd / name).unlink()
    finally:
        own = docker_engine.run("images", "--quiet", "--filter", "label=io.odek.dockerfile").stdout.split()
        docker_engine.run("rmi", "--force", evil, *own, check=False)


def test_bridge_reaches_the_host_and_says_so(sandboxed: Odek, docker_engine: Engine, base_image: str) -> None:
    """Not promised: `bridge` is no wall to this host (M-14); the startup line tells that it is in use."""
    gateway = gateway_of_the_bridge(docker_engine, base_image)
    with listener_on_the_host() as (port, came):
        script = (calls(("shell", {"command": f"nc -w 3 {gateway} {port} </dev/null && echo THROUGH"})), text("done"))
        outcome, server = run_script(sandboxed, *script, flags=("--sandbox-network", "bridge"))
        assert ("THROUGH" in tool_results(server)[0], len(came)) == (True, 1)
    assert (outcome.code, "odek: sandbox network=bridge " in outcome.stderr) == (0, True), outcome.stderr
