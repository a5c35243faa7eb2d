"""What Docker does otherwise than is widely believed, and that odek is not taken in by it.

Each test shows the fact on the engine at hand first; without it the rest would prove nothing. The
numbers are those of the list of measured facts. 7.2 is in test_networks.py, 7.3 in test_build.py,
7.6 in tests/e2e/test_fallback.py; 7.4, 7.9 and 7.12 in tests/security/test_protections.py, 7.14 in
tests/security/test_openings.py.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest
from fakes.model_server import calls, text
from support.docker_engine import Engine
from support.odek_process import Odek
from support.sandboxes import Boxes, OddImages, output
from support.scenario import Scene, run_script, tool_results

from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.image.reference import ImageChoice
from odek.sandbox.image.resolve import resolve_image


@pytest.fixture
def scene(odek: Odek, tmp_path: Path) -> Scene:
    return Scene(odek=odek, folder=tmp_path)


def test_attached_file_arrives_in_a_read_only_sandbox(
    odek: Odek, boxes: Boxes, docker_engine: Engine, base_image: str, tmp_path: Path
) -> None:
    """Docker facts 7.1, R-43: `docker cp` cannot write to a read-only mount; a memory of the container's own can."""
    (tmp_path / "outside.txt").write_text("attached")
    box = boxes.start(readonly=True)
    copied = docker_engine.run("cp", str(tmp_path / "outside.txt"), f"{box.facts.id}:/workspace/x", check=False)
    assert (copied.returncode != 0, list(boxes.workdir.iterdir())) == (True, [])
    script = (calls(("shell", {"command": "cat /ctx/outside.txt"})), text("done"))
    flags = ("--sandbox-image", base_image, "--sandbox-readonly", "--ctx", str(tmp_path / "outside.txt"))
    outcome, server = run_script(odek, *script, flags=flags)
    assert (outcome.code, "\nattached" in tool_results(server)[0]) == (0, True), outcome.stderr


def test_words_of_the_user_in_dockers_mouth_decide_nothing(
    scene: Scene, boxes: Boxes, docker_engine: Engine, base_image: str
) -> None:
    """Docker facts 7.5, D-11: Docker repeats a value; read as its own words, it would mean "no daemon, so the host"."""
    words = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
    echoed = docker_engine.run("run", "--rm", "--memory", words, base_image, "true", check=False)
    assert echoed.returncode != 0
    assert words in echoed.stderr or boxes.kind.podman  # 5.8 repeats nothing
    for flag in ("--sandbox-memory", "--sandbox-cpus", "--sandbox-user", "--sandbox-network", "--sandbox-image"):
        assert scene.run(flag, words).summary == (1, 0, False)


def test_start_that_docker_calls_a_success_is_proven(
    boxes: Boxes, odd_images: OddImages, docker_engine: Engine, base_image: str
) -> None:
    """Docker facts 7.7, 7.15, R-37: `run --detach` succeeds though nothing runs; an entrypoint swallows the command."""
    entrypoint = odd_images.make('ENTRYPOINT ["/bin/busybox", "false"]')
    for image, command in ((base_image, "nosuchprogram"), (entrypoint, "sleep")):
        run = ("run", "--detach", "--init", "--network", "none")
        started = docker_engine.run(*run, image, command, "1000", check=False)
        identity = started.stdout.strip()
        try:
            assert (started.returncode, docker_engine.run("wait", identity).stdout != "0\n") == (0, True)
        finally:
            docker_engine.run("rm", "--force", identity)
    assert output(boxes.start(image=entrypoint), "echo alive") == "alive\n"
    without_a_shell = odd_images.make(programs=("cat",))
    with pytest.raises(SandboxConfigError, match="Docker did not start the sandbox from image"):
        boxes.start(image=without_a_shell)


def test_command_does_not_outlive_its_client(boxes: Boxes, docker_engine: Engine) -> None:
    """Docker facts 7.8, R-40: a killed client leaves its command at work; a command that odek stops has ended."""
    box = boxes.start()
    client = subprocess.Popen(
        [docker_engine.client, "exec", box.facts.id, "sleep", "7777"], stdin=subprocess.DEVNULL, start_new_session=True
    )
    deadline = time.monotonic() + 20
    while "sleep 7777" not in boxes.processes(box):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    client.kill()
    client.wait()
    time.sleep(0.5)
    assert "sleep 7777" in boxes.processes(box)
    assert box.run("sleep 7778", timeout_s=0.5).timed_out
    assert "sleep 7778" not in boxes.processes(box)


def test_folder_is_mounted_whole_or_not_at_all(boxes: Boxes, docker_engine: Engine, base_image: str) -> None:
    """Docker facts 7.10, R-34: `-v` ends a path at its colon, and makes a folder that is missing."""
    odd, gone = boxes.workdir / "a:b", boxes.workdir / "gone"
    odd.mkdir()
    run = ("run", "--rm", "--network", "none")
    assert docker_engine.run(*run, "--volume", f"{odd}:/data", base_image, "true", check=False).returncode != 0
    docker_engine.run(*run, "--volume", f"{gone}:/data", base_image, "true", check=not boxes.kind.podman)
    assert gone.is_dir() is not boxes.kind.podman
    boxes.workdir = odd
    assert output(boxes.start(), "echo mine >f; cat f") == "mine\n"
    assert (odd / "f").read_text() == "mine\n"
    boxes.workdir = odd / "missing"
    with pytest.raises(SandboxConfigError):
        boxes.start()
    assert not boxes.workdir.exists()


@pytest.mark.parametrize("limit", ["pids-limit", "memory", "cpus"])
def test_limit_of_nothing_is_not_taken_for_no_limit(
    limit: str, scene: Scene, docker_engine: Engine, base_image: str
) -> None:
    """Docker facts 7.11, R-32: to Docker 0 means without limit."""
    docker_engine.run("run", "--rm", "--network", "none", f"--{limit}", "0", base_image, "true")
    assert scene.run(f"--sandbox-{limit}", "0").summary == (1, 0, False)


def test_tag_beside_a_digest_counts_for_nothing(boxes: Boxes, docker_engine: Engine, base_image: str) -> None:
    """Docker facts 7.13, D-12: whoever can tag images cannot stand in for a pinned one; its very ID can."""
    name = f"odek-test-pinned:{os.getpid()}"
    docker_engine.run("tag", base_image, name)
    identity = docker_engine.image_id(name)
    other = f"sha256:{'0' * 64}"

    def found(ref: str, *local_ids: tuple[str, str]) -> str:
        choice = ImageChoice(ref=ref, origin="test", chosen_by_project=False, local_ids=local_ids)
        return resolve_image(choice, boxes.docker)

    try:
        assert found(name) == identity
        assert found(f"{name}@{other}", ("", other)) == ""
        assert found(f"{name}@{other}", ("amd64-of-another-kind", identity)) == ""
        assert found(f"{name}@{other}", ("", identity)) == identity
    finally:
        docker_engine.run("rmi", name)
