"""`odek sandbox explain`: what it finds out by looking, without starting, pulling or building anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.docker_engine import Engine
from support.docker_log import DockerLog
from support.odek_process import Odek
from support.scenario import DEAD_REGISTRY, DEAD_SOCKET, tools_only

IMPLICIT = "no sandbox is demanded"


@pytest.fixture
def log(docker_engine: Engine, tmp_path: Path) -> DockerLog:
    """The real docker, every call written down."""
    return DockerLog.make(tmp_path / "shim", docker_engine.client)


def explain(odek: Odek, log: DockerLog, *flags: str, **env: str) -> dict[str, Any]:
    """Return the explanation; nothing may have been changed for it."""
    outcome = odek.run("sandbox", "explain", "--json", *flags, env={"PATH": log.path, **env})
    assert (outcome.code, log.changing()) == (0, []), outcome.stderr
    return json.loads(outcome.stdout)


def summary(explanation: dict[str, Any]) -> tuple[str, str]:
    return explanation["outcome"], explanation["why"]


def test_image_that_is_there(odek: Odek, log: DockerLog, base_image: str, docker_engine: Engine) -> None:
    explanation = explain(odek, log, "--sandbox-image", base_image)
    image_id = docker_engine.image_id(base_image)
    assert summary(explanation) == (
        "sandbox",
        "the default of odek run; the Docker daemon answers and everything is there",
    )
    assert explanation["place"]["daemon"] == {"value": docker_engine.version, "origin": "Docker"}
    assert explanation["image"] == {
        "reference": {"value": base_image, "origin": "--sandbox-image"},
        "id": {"value": image_id, "origin": "Docker"},
        "action": {"value": "use", "origin": "Docker"},
    }


def test_image_that_is_not_there_is_not_pulled(odek: Odek, log: DockerLog) -> None:
    explanation = explain(odek, log, "--sandbox-image", DEAD_REGISTRY)
    assert (explanation["outcome"], explanation["image"]["action"]["value"]) == ("sandbox", "pull")
    assert [command[1] for command in explanation["commands"]] == ["pull", "run"]


@pytest.mark.docker_only
@pytest.mark.parametrize(
    ("flags", "env", "outcome", "reason"),
    [
        ((), {}, "host", f"and {IMPLICIT}"),
        (("--sandbox",), {}, "stop", "; not on this host, because a sandbox was asked for explicitly"),
        ((), {"ODEK_REQUIRE_SANDBOX": "1"}, "stop", "; not on this host, because ODEK_REQUIRE_SANDBOX is set"),
        (("--sandbox-networks", "x"), {}, "stop", "; not on this host, because networks were asked for"),
    ],
)
def test_daemon_that_is_down(
    flags: tuple[str, ...], env: dict[str, str], outcome: str, reason: str, odek: Odek, log: DockerLog
) -> None:
    """R-7: what a run would do then, and no waiting for it."""
    explanation = explain(odek, log, *flags, DOCKER_HOST=DEAD_SOCKET, **env)
    why = "the Docker daemon is not reachable"
    assert summary(explanation) == (outcome, why + (reason if reason.startswith(";") else f", {reason}"))
    assert (explanation["place"]["daemon"]["value"], explanation["image"]["id"]["value"]) == (None, None)


def test_no_docker_at_all(odek: Odek, tmp_path: Path) -> None:
    outcome = odek.run("sandbox", "explain", "--json", env={"PATH": tools_only(tmp_path / "tools")})
    explanation = json.loads(outcome.stdout)
    assert summary(explanation) == ("host", f"the docker client was not found on PATH, and {IMPLICIT}")
    assert explanation["place"]["docker"] == {"value": None, "origin": "PATH"}


@pytest.mark.docker_only
def test_network_that_is_missing(odek: Odek, log: DockerLog) -> None:
    explanation = explain(odek, log, "--sandbox-networks", "odek-test-no-such-network")
    message = 'network "odek-test-no-such-network" not found by Docker (--sandbox-networks)'
    assert (*summary(explanation), explanation["problems"]) == ("stop", message, [message])
    assert (explanation["commands"], explanation["network"]["attached"]["value"]) == ([], None)


def test_approval_that_is_needed_given_or_impossible(odek: Odek, log: DockerLog, base_image: str) -> None:
    """R-60, R-61."""
    (odek.cwd / "odek.json").write_text(json.dumps({"sandbox_image": base_image, "sandbox_env": {"A": "$NOT_SET"}}))
    explanation = explain(odek, log, NOT_SET="canary")
    assert summary(explanation) == ("stop", "an approval is needed, and there is no terminal to ask for it")
    assert explanation["approval"]["state"] == {"value": "impossible", "origin": "no terminal"}
    assert "canary" not in json.dumps(explanation)
    explanation = explain(odek, log, ODEK_APPROVE_PROJECT_SANDBOX="1")
    assert summary(explanation) == ("stop", 'the variable "NOT_SET" is not set (./odek.json: sandbox_env.A)')
    assert explanation["approval"]["state"]["value"] == "given by the environment"


def test_value_that_a_run_refuses_is_refused_in_the_same_words(odek: Odek, log: DockerLog) -> None:
    """R-8."""
    flags = ("--sandbox-memory", "1m")
    env = {"PATH": log.path}
    explained = odek.run("sandbox", "explain", *flags, env=env)
    ran = odek.run("run", *flags, "--base-url", "http://127.0.0.1:1", "a task", env=env)
    assert (explained.code, explained.stdout, explained.stderr) == (1, "", ran.stderr)


def test_command_line_of_run_fits(odek: Odek, log: DockerLog) -> None:
    """A whole command line of `run`, its task and its flags for the model included."""
    flags = ("--no-sandbox", "--model", "m", "--max-iter", "3", "fix the tests")
    assert summary(explain(odek, log, *flags)) == ("host", "--no-sandbox")


def test_for_people(odek: Odek, log: DockerLog, base_image: str) -> None:
    outcome = odek.run("sandbox", "explain", "--sandbox-image", base_image, env={"PATH": log.path})
    shown = outcome.stdout.splitlines()
    assert (outcome.code, outcome.stderr, shown[0]) == (0, "", "a run here works in a sandbox")
    headings = [line for line in shown[2:] if line and not line.startswith(" ")]
    assert headings == ["place", "image", "network", "limits", "mounts", "user", "approval", "commands"]
