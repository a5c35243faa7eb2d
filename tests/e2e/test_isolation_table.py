"""Where a run ends up, as real processes: settings x who says them x what Docker's client finds (A1 to A5).

No cell needs an engine. The operator allows every command, so the mark on the host tells whether one ran there.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from fakes.engines import INFO
from fakes.fake_docker import FakeDockerProgram
from fakes.model_server import ModelServer, text
from support import isolation_table
from support.scenario import DEAD_SOCKET, Scene, tools_only

HOST, STOP, USAGE = (0, 2, True), (1, 0, False), (2, 0, False)
DOWN = {"DOCKER_HOST": DEAD_SOCKET}
ENGINE_WITHOUT_IMAGES = [
    {"argv": ["version"], "stdout": "28.0.0\n"},
    {"argv": ["info"], "stdout": INFO},
    {"argv": ["image", "inspect"], "code": 1, "stderr": "Error: No such image\n"},
    {"argv": ["network", "ls"], "code": 1, "stderr": "Error response from daemon: not in the script\n"},
    {"argv": ["pull"], "code": 1, "stderr": "Error response from daemon: pull access denied\n"},
]


@dataclass(frozen=True)
class Cell:
    wanted: tuple[int, int, bool]
    named: str = ""
    flags: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    operator: dict[str, object] = field(default_factory=dict)
    project: dict[str, object] = field(default_factory=dict)


CELLS = {
    "A2 nobody there": Cell(HOST, "daemon is not reachable", env=DOWN),
    "A2 scheme": Cell(STOP, "DOCKER_HOST", env={"DOCKER_HOST": "foo://bar"}),
    "A2 http": Cell(STOP, "DOCKER_HOST", env={"DOCKER_HOST": "http://127.0.0.1:1"}),
    "A2 npipe": Cell(STOP, "DOCKER_HOST", env={"DOCKER_HOST": "npipe:////./pipe/x"}),
    "A2 bare path": Cell(STOP, "DOCKER_HOST", env={"DOCKER_HOST": "/var/run/docker.sock"}),
    "A2 context": Cell(STOP, "DOCKER_CONTEXT", env={"DOCKER_CONTEXT": "gone"}),
    "A2 certificates": Cell(STOP, "DOCKER_TLS_VERIFY", env={**DOWN, "DOCKER_TLS_VERIFY": "1"}),
    "A2 API version": Cell(STOP, "DOCKER_API_VERSION", env={**DOWN, "DOCKER_API_VERSION": "x"}),
    "A1 hex digits": Cell(STOP, "looks like an image ID", ("--sandbox-image", "0123456789ab"), DOWN),
    "A1 capitals": Cell(STOP, '"BUSYBOX:1"', ("--sandbox-image", "BUSYBOX:1"), DOWN),
    "A1 scratch": Cell(STOP, '"scratch"', env={**DOWN, "ODEK_SANDBOX_IMAGE": "scratch"}),
    "A1 too long": Cell(STOP, "~/.odek/config.json", env=DOWN, operator={"sandbox_image": "a" * 256}),
    "A3 project's empty list": Cell(
        STOP, "networks were asked for", env=DOWN, operator={"sandbox_networks": ["a"]},
        project={"sandbox_networks": [], "sandbox_compose_project": ""},
    ),
    "A4 empty flag": Cell(STOP, "--sandbox-networks is empty", ("--sandbox-networks", ""), DOWN),
    "A4 empty variable": Cell(STOP, "ODEK_SANDBOX_NETWORKS is empty", env={**DOWN, "ODEK_SANDBOX_NETWORKS": ""}),
    "A4 empty compose": Cell(STOP, "--sandbox-compose is empty", ("--sandbox-compose", ""), DOWN),
    "A4 nothing to drop": Cell(HOST, "WITHOUT A SANDBOX", ("--sandbox-networks", "none"), DOWN),
    "R-7 attacked": Cell(STOP, "ODEK_REQUIRE_VERIFIED is set", env={**DOWN, "ODEK_REQUIRE_VERIFIED": "1"}),
    "R-7 probes": Cell(STOP, "--require is set", ("--require", "net.routes"), DOWN),
    "R-8 probes": Cell(USAGE, '"net.route" is not a probe (--require)', ("--require", "net.route"), DOWN),
    "R-4 attacked": Cell(
        STOP, "ODEK_REQUIRE_VERIFIED forbids it", ("--no-sandbox",), {"ODEK_REQUIRE_VERIFIED": "1"}
    ),
    "R-4 probes": Cell(STOP, "--require forbids it", ("--no-sandbox", "--require", "net.routes")),
    "A5 flag": Cell(STOP, "read-only was asked for", ("--sandbox-readonly",), DOWN),
    "A5 variable": Cell(STOP, "read-only was asked for", env={**DOWN, "ODEK_SANDBOX_READONLY": "1"}),
    "A5 operator": Cell(STOP, "read-only was asked for", env=DOWN, operator={"sandbox_readonly": True}),
    "A5 project": Cell(STOP, "read-only was asked for", env=DOWN, project={"sandbox_readonly": True}),
    "A5 opt-out": Cell(USAGE, "(--sandbox-readonly)", ("--no-sandbox", "--sandbox-readonly")),
    "A5 opt-out of a project": Cell(
        USAGE, "./odek.json", env={"ODEK_NO_SANDBOX": "1"}, project={"sandbox_readonly": True}
    ),
    "A5 void settings": Cell(HOST, "sandbox_memory (--sandbox-memory)", ("--sandbox-memory", "64m"), DOWN),
    "A30 memory": Cell(STOP, '"512mb"', ("--sandbox-memory", "512mb"), DOWN),
}  # fmt: skip


@pytest.mark.parametrize("name", CELLS)
def test_place_of_a_run(name: str, scene: Scene) -> None:
    """A1, A2, A3, A4, A5: the host is reached in the cells where the fall back is allowed, and in no other."""
    cell = CELLS[name]
    scene.operator(**cell.operator)
    if cell.project:
        scene.project(**cell.project)
    ended = scene.run(*cell.flags, env=cell.env)
    assert (ended.summary, cell.named in ended.outcome.stderr) == (cell.wanted, True), ended.outcome.stderr


@pytest.mark.parametrize("code", [0, 1, 2, 99, 126, 127])
@pytest.mark.parametrize("words", ["", "usage: docker [-display host:dpy]\n", "Failed to initialize: no context\n"])
def test_program_that_is_not_docker_never_leads_to_the_host(code: int, words: str, scene: Scene) -> None:
    """A2: a `docker` of another kind."""
    program = FakeDockerProgram(scene.folder / "bin", [{"argv": [], "code": code, "stderr": words}])
    ended = scene.run(env={"PATH": program.path})
    assert ended.summary == STOP, ended.outcome.stderr


def test_settings_of_the_client_that_are_not_json_stop(scene: Scene) -> None:
    """A2: what daemon they named is not known."""
    folder = scene.odek.home / ".docker"
    folder.mkdir()
    for content in ("{bad", json.dumps({"currentContext": "gone"})):
        (folder / "config.json").write_text(content)
        ended = scene.run()
        assert (ended.summary, "config.json" in ended.outcome.stderr) == (STOP, True), ended.outcome.stderr


def test_without_any_client_the_run_falls_back(scene: Scene, tmp_path: Path) -> None:
    """R-7: no client at all is a machine without Docker; unless its daemon was misnamed (A2)."""
    path = tools_only(tmp_path / "tools")
    assert scene.run(env={"PATH": path}).summary == HOST
    assert scene.run(env={"PATH": path, "DOCKER_HOST": "foo://bar"}).summary == STOP


def sampled() -> list[isolation_table.Cell]:
    """Return one cell of the generated table for each setting and source, its other sides taken in turn."""
    groups: dict[tuple[str, str], list[isolation_table.Cell]] = {}
    for key in isolation_table.VALUES:
        for cell in isolation_table.cells(key):
            if cell.daemon != "there" or cell.image == "missing":
                groups.setdefault((key, cell.source), []).append(cell)
    return [group[index * 7919 % len(group)] for index, group in enumerate(groups.values())]


@pytest.mark.parametrize("cell", sampled(), ids=lambda cell: f"{cell.key}-{cell.source}-{cell.value}")
def test_place_in_a_sample_of_the_generated_table(cell: isolation_table.Cell, scene: Scene, tmp_path: Path) -> None:
    """A1 to A5, R-7: the rules of isolation_table.py hold for the program as it is delivered."""
    (scene.odek.cwd / "data").mkdir()
    operator, project, env = isolation_table.files_and_variables(cell)
    scene.operator(**operator)
    if project:
        scene.project(**project)
    ended = scene.run(*isolation_table.command_line(cell), env={**daemon_of(cell, tmp_path), **env})
    if isolation_table.expected(cell) == "host":
        assert ended.summary == HOST, ended.outcome.stderr
    else:
        assert (ended.outcome.code in (1, 2), ended.model_calls, ended.ran_on_host) == (True, 0, False), (
            ended.outcome.stderr
        )


def daemon_of(cell: isolation_table.Cell, folder: Path) -> dict[str, str]:
    """Return the variables with which a run finds the daemon of `cell`."""
    if cell.daemon == "no client":
        return {"PATH": tools_only(folder / "tools")}
    if cell.daemon != "there":
        return DOWN
    return {"PATH": FakeDockerProgram(folder / "bin", ENGINE_WITHOUT_IMAGES).path}


def test_first_event_tells_a_fall_back_and_its_reason(scene: Scene) -> None:
    """A22: a script sees where commands ran, in a run and when the session goes on."""
    outcome = scene.run("--json", "--session", env=DOWN).outcome
    began = json.loads(outcome.stdout.splitlines()[0])
    with ModelServer(text("more")) as server:
        again = scene.odek.run("continue", "--base-url", server.base_url, "--json", "go on", env=DOWN)
    assert again.code == 1, "a session that wanted a sandbox does not go on on the host"
    assert (began["event"], began["turn"], began["place"]) == ("session", 1, "host")
    assert began["reason"] == "the Docker daemon is not reachable"
