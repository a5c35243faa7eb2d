"""A docker program that talks, dawdles or hangs, around the real one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from fakes.fake_docker import UNSCRIPTED, FakeDockerProgram
from support.sandboxes import Boxes, output

from odek.sandbox.docker import DockerCli, probe, run_docker
from odek.sandbox.errors import SandboxConfigError

NOISE = (
    "WARNING: IPv4 forwarding is disabled. Networking will not work.\n"
    "WARNING: The requested image's platform (linux/arm64) does not match the detected host platform (linux/amd64)\n"
    "Emulate Docker CLI using podman. Create /etc/containers/nodocker to quiet msg.\n"
    "DEPRECATED: The legacy builder is deprecated.\n"
)


def wrap(folder: Path, real: str, *rules: dict[str, Any]) -> FakeDockerProgram:
    return FakeDockerProgram(folder, [*({"real": real, **rule} for rule in rules), {"argv": [], "real": real}])


def client(program: FakeDockerProgram, **env: str) -> DockerCli:
    return DockerCli(str(program.program), {**os.environ, **env})


def test_warnings_beside_every_answer_change_nothing(boxes: Boxes, tmp_path: Path) -> None:
    """B25: on stderr at every call, and a hint on stdout before the answers of inspect."""
    program = wrap(
        tmp_path / "bin",
        boxes.engine.client,
        {"argv": ["inspect"], "stderr": NOISE, "stdout": "What's next:\n    View [a summary]\n"},
        {"argv": [], "stderr": NOISE},
    )
    docker = client(program, DOCKER_CLI_HINTS="true", LC_ALL="de_DE.UTF-8")
    assert probe(docker, sleep=lambda _: None) != ""
    box = boxes.start(docker=docker)
    assert output(box, "echo alive") == "alive\n"
    box.write("f", b"x", replacing=None)
    assert box.read("f", limit_bytes=1) == b"x"
    assert (box.close(), boxes.existing(os.getpid()), boxes.said) == ("", [], [])
    assert {call["env"]["DOCKER_CLI_HINTS"] for call in program.calls()} == {"false"}


def test_unreadable_answer_takes_the_real_container_down(boxes: Boxes, tmp_path: Path) -> None:
    """B25, R-38: fails closed, and leaves nothing."""
    program = FakeDockerProgram(
        tmp_path / "bin",
        [{"argv": ["inspect"], "stdout": "[{]"}, {"argv": [], "real": boxes.engine.client}],
    )
    with pytest.raises(SandboxConfigError, match="does not show the state"):
        boxes.start(docker=client(program))
    assert boxes.existing(os.getpid()) == []
    assert list(boxes.workdir.iterdir()) == []


def test_client_that_dawdles_changes_nothing(boxes: Boxes, tmp_path: Path) -> None:
    """B23: slow is not absent."""
    program = wrap(tmp_path / "bin", boxes.engine.client, {"argv": [], "delay_s": 0.3})
    box = boxes.start(docker=client(program))
    assert output(box, "echo alive") == "alive\n"


def test_program_without_a_rule_for_a_call_says_so(tmp_path: Path) -> None:
    """The fake fails on an unscripted call, and writes down what it was asked."""
    program = FakeDockerProgram(
        tmp_path / "bin",
        [{"argv": ["version"], "stdout": "1\n", "times": 1}, {"argv": ["exec"], "has": "x=1", "code": 3}],
    )
    docker = client(program, CANARY="7f3")
    codes = [
        run_docker(docker, *args, stdin=stdin).code
        for args, stdin in (
            (("version",), None),
            (("version",), None),
            (("exec", "a x=1"), b"in\xff"),
            (("exec",), b""),
        )
    ]
    assert codes == [0, UNSCRIPTED, 3, UNSCRIPTED]
    assert [(made["argv"], made["rule"], made["stdin"]) for made in program.calls()] == [
        (["version"], 0, ""), (["version"], None, ""), (["exec", "a x=1"], 1, "in\\xff"), (["exec"], None, ""),
    ]  # fmt: skip
    assert program.calls()[0]["env"]["CANARY"] == "7f3"
    with pytest.raises(AssertionError):
        program.assert_scripted()
