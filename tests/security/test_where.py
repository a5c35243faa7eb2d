"""Where commands run: never on the host what was meant for the sandbox."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path

import pytest
from fakes.fake_docker import FakeDockerProgram
from fakes.model_server import ModelServer, calls, text
from support.docker_engine import Engine
from support.odek_process import Odek
from support.scenario import ANSWER, DEAD_REGISTRY, DEAD_SOCKET, Scene, run_script, tool_results, tools_only

STOPPED = (1, 0, False)
DOWN = {"DOCKER_HOST": DEAD_SOCKET}
AWAY = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"


@pytest.mark.parametrize(
    "firm", [("--sandbox",), ("--sandbox-networks", "a"), ("--sandbox-compose", "a"), ("--sandbox-readonly",)], ids=str
)
def test_asked_for_and_not_to_be_had(firm: tuple[str, ...], scene: Scene) -> None:
    """S-1 What is meant for the sandbox never runs on the host. A sandbox that cannot be had stops the run. Two causes
    let it go on on the host, after a warning, where every command that does more than read or change your files is
    asked about or refused: there is no Docker client or no daemon answers where it looks, or no registry
    gives a well-formed image of yours or the default; and only if the sandbox, networks and read-only were not asked
    for, `ODEK_REQUIRE_SANDBOX` is not set, and the session was not begun in the sandbox.
    """
    assert scene.run(*firm, env=DOWN).summary == STOPPED


def test_required_and_not_to_be_had(scene: Scene) -> None:
    """S-1: the switch makes every outcome on the host an error, an opt-out included."""
    for flags, env in (((), DOWN), (("--no-sandbox",), {}), ((), {"ODEK_NO_SANDBOX": "1"})):
        assert scene.run(*flags, env={**env, "ODEK_REQUIRE_SANDBOX": "1"}).summary == STOPPED


def test_fall_back_asks_about_commands(scene: Scene) -> None:
    """S-1: with the settings as they come, nobody there to be asked means no."""
    scene.operator(dangerous={})
    ended = scene.run(env=DOWN)
    assert (ended.outcome.code, ended.model_calls, ended.ran_on_host) == (0, 2, False)
    assert ended.outcome.stderr.startswith("odek: warning: ")
    assert "ON THIS HOST, WITHOUT A SANDBOX" in ended.outcome.stderr.splitlines()[0]


@pytest.mark.parametrize("broken", ["run", "exec", "inspect"])
def test_engine_that_fails_later(
    broken: str, scene: Scene, docker_engine: Engine, base_image: str, tmp_path: Path
) -> None:
    """S-1: once a daemon has answered, nothing that goes wrong leads to the host.

    S-20 Nothing comes of a model's reply before the sandbox is proved: none of it is shown, stored or run. `odek run`
    and `odek continue` ask for the first one while Docker makes the container, but not before everything is approved
    and the image is there, when no way leads to the host any more, nor before the task is stored in a session that is
    kept. What is proved to be other than planned is told to the model in a new request, and the first reply is dropped.
    Where the start fails after that, the provider has seen the task, and that is all. With attached networks, with
    attached files, with MCP servers and in `odek repl` and `odek serve`, the first request follows the proof; the
    connection for it may be opened before, once everything is approved.
    """
    shim = tmp_path / "bin"
    shim.mkdir()
    words = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
    script = f'#!/bin/sh\ncase $1 in {broken}) echo "{words}" >&2; exit 1;; esac\nexec {docker_engine.client} "$@"\n'
    (shim / "docker").write_text(script)
    (shim / "docker").chmod(0o755)
    ended = scene.run("--sandbox-image", base_image, env={"PATH": f"{shim}:{os.environ['PATH']}"})
    assert (ended.outcome.code, ended.outcome.stdout, ended.ran_on_host) == (1, "", False), ended.outcome.stderr
    assert ended.model_calls == (0 if broken == "run" and not ended.model_calls else 1)
    assert list(scene.odek.cwd.iterdir()) == []


def test_reply_to_what_was_planned_has_no_effect_in_what_was_proved(
    odek: Odek, docker_engine: Engine, base_image: str, tmp_path: Path
) -> None:
    """S-20, R-251: the planned name is taken, so the model is asked again, and only its second reply counts."""
    words = "the container name is already in use"
    taken = {"argv": ["run"], "times": 1, "code": 125, "stderr": words, "delay_s": 1, "unread": True}
    program = FakeDockerProgram(tmp_path / "bin", [taken, {"argv": [], "real": docker_engine.client}])
    steps = calls(("shell", {"command": "touch planned"})), calls(("shell", {"command": "touch proved"})), text("done")
    with ModelServer(*steps) as server:
        outcome = odek.run(
            *("run", "--base-url", server.base_url, "--sandbox-image", base_image, "a task"),
            env={"PATH": program.path},
        )
        assert (outcome.code, outcome.stdout) == (0, "done\n"), outcome.stderr
        server.assert_all_used()
        names = [re.findall(r"- Container: (\S+)", request.body.decode()) for request in server.requests]
    assert names[0] != names[1] == names[2]
    assert [path.name for path in odek.cwd.iterdir()] == ["proved"]
    assert "planned" not in outcome.stderr


def test_what_is_given_is_not_sent_before_the_proof(
    scene: Scene, docker_engine: Engine, base_image: str, tmp_path: Path
) -> None:
    """S-20: and without files it is, so that this test can fail; also in a session that is kept (R-251)."""
    (scene.odek.cwd / "given.txt").write_text("x")
    program = FakeDockerProgram(
        tmp_path / "bin", [{"argv": ["inspect"], "stdout": "[]"}, {"argv": [], "real": docker_engine.client}]
    )
    for more, seen in ((("--ctx", "given.txt"), 0), ((), 1), (("--session",), 1)):
        ended = scene.run("--sandbox-image", base_image, *more, env={"PATH": program.path})
        assert (ended.outcome.code, ended.outcome.stdout, ended.model_calls) == (1, "", seen), ended.outcome.stderr


@pytest.mark.parametrize(
    "broken",
    [
        f'image) echo "{AWAY}" >&2; exit 1',
        "image) exit 0",
        "image) kill -9 $$",
        "image) exit 127",
        f'image) echo "No such image" >&2; exit 1;; pull) echo "{AWAY}" >&2; exit 1',
        'image) echo "No such image" >&2; exit 1;; pull) echo "unexpected EOF" >&2; exit 1',
        'image) echo "No such image" >&2; exit 1;; pull) exit 127',
    ],
)
def test_engine_that_is_restarted_while_an_image_is_looked_up(
    broken: str, scene: Scene, docker_engine: Engine, base_image: str, tmp_path: Path
) -> None:
    """S-1: it answers before and after; the image lies there, or no registry has refused it."""
    (tmp_path / "docker").write_text(f'#!/bin/sh\ncase $1 in {broken};; esac\nexec {docker_engine.client} "$@"\n')
    (tmp_path / "docker").chmod(0o755)
    scene.operator(sandbox_image=base_image)
    ended = scene.run(env={"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert ended.summary == STOPPED, ended.outcome.stderr


def test_sandbox_that_is_lost_in_mid_run(sandboxed: Odek, docker_engine: Engine, tmp_path: Path) -> None:
    """S-1: the container is removed under a running session: the run ends, the next command is not run at all."""
    mark = tmp_path / "mark"

    def remove(_: object) -> object:
        (identity,) = docker_engine.containers_of(process.pid)
        docker_engine.run("rm", "--force", identity)
        return calls(("shell", {"command": f"echo ran >{mark}"}))

    with ModelServer(calls(("shell", {"command": "true"})), remove, text("done")) as server:  # type: ignore[arg-type]
        process = sandboxed.start("run", "--base-url", server.base_url, "x")
        stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout, mark.exists()) == (1, "", False), stderr
    assert "the sandbox was lost" in stderr


def test_project_cannot_bring_it_about(scene: Scene, docker_engine: Engine) -> None:
    """S-2 A project cannot bring about either: an image that it named and that cannot be pulled stops the run, and its
    `"sandbox": false` does not count.
    """
    scene.project(sandbox_image=DEAD_REGISTRY)
    assert scene.run(env={"ODEK_APPROVE_PROJECT_SANDBOX": "1"}).summary == STOPPED


def test_project_cannot_switch_the_requirement_off(scene: Scene) -> None:
    """S-2: where no daemon answers."""
    scene.project(sandbox=False)
    assert scene.run(env={**DOWN, "ODEK_REQUIRE_SANDBOX": "1"}).summary == STOPPED


def test_projects_false_does_not_switch_the_sandbox_off(sandboxed: Odek) -> None:
    """S-2: the sandbox starts all the same."""
    (sandboxed.cwd / "odek.json").write_text('{"sandbox": false}')
    outcome, server = run_script(sandboxed, calls(("shell", {"command": "pwd"})), text(ANSWER))
    assert (outcome.code, "/workspace\n" in tool_results(server)[0]) == (0, True), outcome.stderr


@pytest.mark.parametrize(
    "operator",
    [
        {"sandbox_network": "host"},
        {"sandbox_memory": "0"},
        {"sandbox_cpus": "0"},
        {"sandbox_pids_limit": 0},
        {"sandbox_user": "-1:0"},
        {"sandbox_image": "--privileged"},
        {"sandbox_volumes": ["/:/host"]},
        {"sandbox_volumes": ["..:/up"]},
    ],
    ids=str,
)
def test_bad_value_with_the_daemon_down(operator: dict[str, object], scene: Scene) -> None:
    """S-3 A bad value (network, limit, user, image name, volume) stops the run also when the daemon is down."""
    scene.operator(**operator)
    assert scene.run(env=DOWN).summary == STOPPED


def test_nothing_of_the_working_directory_is_run(
    sandboxed: Odek, docker_engine: Engine, base_image: str, tmp_path: Path
) -> None:
    """S-4 odek itself runs no program from the working directory, on no `PATH`, and imports nothing from it; nor does
    Docker's client, for credential helpers or plugins: it reads a copy of your settings that names no plugins
    (docs/SANDBOXING.md). More of the client in test_docker_client.
    """
    mark = tmp_path / "hostile code ran"
    programs = ("docker", "docker-credential-desktop", "sh", "git", "busybox", "python3", "python3.11", "nc", "cat")
    for folder in (sandboxed.cwd, sandboxed.cwd / "bin"):
        folder.mkdir(exist_ok=True)
        for name in programs:
            (folder / name).write_text(f'#!/bin/sh\necho "$0" >>"{mark}"\nexit 1\n')
            (folder / name).chmod(0o755)
        for name in (*sys.stdlib_module_names, "odek", "sitecustomize", "usercustomize"):
            (folder / f"{name}.py").write_text(f"open({str(mark)!r}, 'a').write({name!r})\n")
    link = tmp_path / "looks-harmless"
    link.symlink_to(sandboxed.cwd / "bin")
    path = ":".join(["", ".", "bin", str(sandboxed.cwd), str(sandboxed.cwd / "bin"), str(link), os.environ["PATH"]])
    env = {"PATH": path, "PYTHONPATH": f".:{sandboxed.cwd}", "PYTHONSTARTUP": "os.py", "PYTHONHOME": str(sandboxed.cwd)}
    outcome, _ = run_script(sandboxed, calls(("shell", {"command": "true"})), text(ANSWER), env=env)
    assert not mark.exists(), mark.read_text()
    assert (outcome.code, outcome.stdout) == (0, f"{ANSWER}\n"), outcome.stderr
    made = sandboxed.run("sandbox", "image", "bootstrap", "--tag", f"odek-security:{os.getpid()}", env=env)
    docker_engine.run("rmi", "--force", f"odek-security:{os.getpid()}", check=False)
    assert (made.code, mark.exists()) == (0, False), made.stderr


def test_what_the_docker_client_starts_is_not_of_the_working_directory_either(odek: Odek, tmp_path: Path) -> None:
    """S-4: its credential helper is looked for on PATH when an image is pulled."""
    mark = tmp_path / "hostile code ran"
    (odek.cwd / "docker-credential-planted").write_text(f'#!/bin/sh\necho "$0 $*" >>"{mark}"\nexit 1\n')
    (odek.cwd / "docker-credential-planted").chmod(0o755)
    (odek.home / ".docker").mkdir()
    (odek.home / ".docker" / "config.json").write_text(json.dumps({"credsStore": "planted"}))
    env = {"PATH": f"{odek.cwd}:{os.environ['PATH']}", "ODEK_API_KEY": "none"}
    outcome = odek.run("run", "--sandbox", "--sandbox-image", DEAD_REGISTRY, "x", env=env)
    assert (outcome.code, mark.exists()) == (1, False), outcome.stderr


def test_settings_of_the_docker_client_in_the_project_stop_the_run(odek: Odek, tmp_path: Path) -> None:
    """S-4: DOCKER_CONFIG led there; its folder cli-plugins holds programs that the client runs on this host."""
    mark = tmp_path / "hostile code ran"
    plugins = odek.cwd / ".docker" / "cli-plugins"
    plugins.mkdir(parents=True)
    (plugins / "docker-buildx").write_text(f'#!/bin/sh\necho "$0 $*" >>"{mark}"\nexit 1\n')
    (plugins / "docker-buildx").chmod(0o755)
    (odek.cwd / "Dockerfile.odek").write_text("FROM scratch\n")
    env = {"DOCKER_CONFIG": str(odek.cwd / ".docker"), "ODEK_APPROVE_PROJECT_SANDBOX": "1", "ODEK_API_KEY": "none"}
    for command in (("run", "x"), ("sandbox", "build"), ("sandbox", "shell", "--", "true"), ("sandbox", "explain")):
        outcome = odek.run(*command, env=env)
        assert (command, outcome.code, mark.exists()) == (command, 1, False), outcome.stderr
        assert "holds the settings of Docker's client" in outcome.stderr


def test_docker_client_that_is_killed_is_no_reason_for_the_host(scene: Scene) -> None:
    """S-1: nothing is known of the daemon then."""
    shim = scene.folder / "bin"
    shim.mkdir()
    (shim / "docker").write_text("#!/bin/sh\nkill -9 $$\n")
    (shim / "docker").chmod(0o755)
    ended = scene.run(env={"PATH": f"{shim}:{os.environ['PATH']}"})
    assert ended.summary == STOPPED
    assert "ended by signal 9" in ended.outcome.stderr


def test_docker_of_the_working_directory_is_not_the_only_one_taken(scene: Scene) -> None:
    """S-4: where the only docker on PATH is the project's, there is none; and the run may not go on explicitly."""
    (scene.odek.cwd / "docker").write_text(f"#!/bin/sh\necho ran >{scene.mark}\n")
    (scene.odek.cwd / "docker").chmod(0o755)
    ended = scene.run("--sandbox", env={"PATH": f"{scene.odek.cwd}:{tools_only(scene.folder / 'bin')}"})
    assert ended.summary == STOPPED
    assert "docker client was not found on PATH" in ended.outcome.stderr


def test_settings_of_the_docker_client_in_the_folder_are_not_read(sandboxed: Odek) -> None:
    """S-4: neither a .docker folder nor an .env file of the project steers odek or its client."""
    (sandboxed.cwd / ".docker").mkdir()
    (sandboxed.cwd / ".docker" / "config.json").write_text(json.dumps({"currentContext": "nowhere"}))
    (sandboxed.cwd / ".env").write_text(
        "DOCKER_HOST=tcp://127.0.0.1:1\nODEK_NO_SANDBOX=1\nHTTP_PROXY=http://127.0.0.1:1\n"
    )
    outcome, server = run_script(sandboxed, calls(("shell", {"command": "pwd"})), text(ANSWER))
    assert (outcome.code, "/workspace\n" in tool_results(server)[0]) == (0, True), outcome.stderr
