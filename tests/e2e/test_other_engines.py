"""Engines that are not Docker, or that see other files: told apart, and refused in one sentence (B11, B22)."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from fakes.engines import PODMAN_ROOTLESS_V1, PODMAN_SERVICE, REMAPPED, ROOTLESS_V1
from fakes.fake_docker import FakeDockerProgram
from fakes.model_server import ModelServer, calls, text
from support.docker_engine import Engine
from support.odek_process import Odek
from support.scenario import Scene, run_script, tool_results

STOPPED = (1, 0, False)
EMULATION = "Emulate Docker CLI using podman. Create /etc/containers/nodocker to quiet msg.\n"


@pytest.mark.parametrize(
    ("info", "sentence"),
    [
        (ROOTLESS_V1, "this engine cannot enforce sandbox_pids_limit"),
        (PODMAN_ROOTLESS_V1, "this engine cannot enforce sandbox_pids_limit"),
        (REMAPPED, "this Docker engine remaps users (userns-remap): files from the sandbox would belong to a stranger"),
        (PODMAN_SERVICE, "podman's service behind Docker's client is not supported"),
    ],
    ids=["rootless Docker", "rootless podman", "userns-remap", "podman's service"],
)
def test_engine_that_cannot_keep_a_promise_is_refused_in_one_sentence(
    info: dict[str, Any], sentence: str, scene: Scene, tmp_path: Path
) -> None:
    """B11, D-13, R-30: before anything is started; no file of a wrong owner, no command on the host."""
    program = FakeDockerProgram(
        tmp_path / "bin",
        [
            {"argv": ["version"], "stdout": "5.8.6\n", "stderr": EMULATION},
            {"argv": ["info"], "stdout": json.dumps(info), "stderr": EMULATION},
            {"argv": ["image", "inspect"], "hang": True},  # begun at the same time, and ended unread
        ],
    )
    ended = scene.run("--sandbox-image", "some/image:1", env={"PATH": program.path})
    assert ended.summary == STOPPED, ended.outcome.stderr
    assert ended.outcome.stderr.startswith(f"odek: error: {sentence}\nodek: hint: ")
    assert list(scene.odek.cwd.iterdir()) == []
    program.assert_scripted()


if os.geteuid() == 0 and shutil.which("unshare"):  # only root can mount; elsewhere tests/integration/test_container.py

    @pytest.mark.docker_only
    def test_daemon_with_other_files_at_the_same_path_is_found_out(
        odek: Odek, docker_engine: Engine, base_image: str
    ) -> None:
        """B22: odek sees a folder that the daemon does not see, as from within a container that has only the socket."""
        (odek.cwd / "marker.txt").write_text("of the daemon's side")
        script = 'mount -t tmpfs tmpfs "$PWD"; cd "$PWD"; echo mine >marker.txt; exec "$@"'
        odek.argv = ("unshare", "--mount", "sh", "-ec", script, "sh", *odek.argv)
        with ModelServer() as server:
            outcome = odek.run("run", "--base-url", server.base_url, "--sandbox-image", base_image, "x")
            assert (outcome.code, outcome.stdout, len(server.requests)) == (1, "", 1), outcome.stderr
        assert "/workspace is not " in outcome.stderr
        assert "the Docker daemon sees other files under that path" in outcome.stderr
        assert sorted(path.name for path in odek.cwd.iterdir()) == ["marker.txt"]


@pytest.mark.docker_only
@pytest.mark.parametrize("chosen", ["DOCKER_CONTEXT", "DOCKER_HOST", "docker context use"])
def test_chosen_daemon_is_asked_by_every_call(
    chosen: str, odek: Odek, docker_engine: Engine, base_image: str, tmp_path: Path
) -> None:
    """B22: the selected context or host is that of each call, the removal and the listing included."""
    socket = tmp_path / "s"
    os.symlink("/var/run/docker.sock", socket)
    program = FakeDockerProgram(tmp_path / "bin", [{"argv": [], "real": docker_engine.client}])
    env = {"PATH": program.path}
    folder = odek.home / ".docker"
    if chosen != "DOCKER_HOST":
        made = odek.home / ".docker"
        made.mkdir()
        create = [
            docker_engine.client,
            "--config",
            str(made),
            "context",
            "create",
            "there",
            "--docker",
            f"host=unix://{socket}",
        ]
        import subprocess

        subprocess.run(create, check=True, capture_output=True)
    if chosen == "DOCKER_CONTEXT":
        env["DOCKER_CONTEXT"] = "there"
    elif chosen == "DOCKER_HOST":
        env["DOCKER_HOST"] = f"unix://{socket}"
    else:
        (folder / "config.json").write_text(json.dumps({"currentContext": "there"}))
    script = (calls(("shell", {"command": "echo alive"})), text("done"))
    outcome, server = run_script(odek, *script, flags=("--sandbox-image", base_image), env=env)
    assert (outcome.code, "alive" in tool_results(server)[0]) == (0, True), outcome.stderr
    made_calls = program.calls()
    assert {"info", "image", "ps", "run", "inspect", "exec"} <= {call["argv"][0] for call in made_calls}
    seen = {tuple(call["env"].get(name) for name in ("DOCKER_CONTEXT", "DOCKER_HOST", "HOME")) for call in made_calls}
    assert seen == {(env.get("DOCKER_CONTEXT"), env.get("DOCKER_HOST"), str(odek.home))}
