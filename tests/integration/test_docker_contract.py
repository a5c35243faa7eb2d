"""The recorded answers of docker, held against the engine at hand: one list of calls, two sides."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Iterator, Mapping

import pytest
from fakes.docker import FakeDocker
from fakes.recorded import RECORDS, Record
from support.docker_engine import Engine

from odek.sandbox.container import scripts
from odek.sandbox.docker import PROBE_ARGV, Docker, DockerCli, read_probe, run_docker
from odek.sandbox.errors import DaemonUnreachable, SandboxConfigError
from odek.sandbox.podman import NOTICE

by_name = pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)


def check(record: Record, docker: Docker, words: Mapping[str, str]) -> None:
    args = tuple(fill(argument, words) for argument in record.args)
    done = run_docker(docker, *args)
    assert done.code in record.allowed, done
    assert re.fullmatch(record.stdout_like, done.stdout.text), done
    assert re.fullmatch(record.stderr_like, done.stderr.text), done


def fill(argument: str, words: Mapping[str, str]) -> str:
    """Return `argument` with its {word} filled in; Go's {{templates}} stay."""
    return re.sub(r"(?<!\{)\{([a-z_]+)\}(?!\})", lambda match: words[match.group(1)], argument)


@by_name
def test_record_keeps_its_own_promise(record: Record) -> None:
    """D-13: what the unit tests play is what the pattern says."""
    docker = FakeDocker().on(*record.args, stdout=record.stdout, stderr=record.stderr, code=record.code)
    check(record, docker, {word: f"{{{word}}}" for word in ("image", "image_id", "name", "label")})


@pytest.fixture(scope="module")
def words(docker_engine: Engine, base_image: str) -> Iterator[dict[str, str]]:
    """A container to ask about, and what its records call it."""
    name = f"odek-test-{secrets.token_hex(4)}"
    label = f"odek.test={name}"
    docker_engine.run(
        "run", "--detach", "--rm", "--init", "--network", "none", "--name", name, "--label", label,
        "--label", 'odd=a\n"b\t', base_image, "sleep", "300",
    )  # fmt: skip
    image_id = docker_engine.image_id(base_image)
    yield {"image": base_image, "image_id": image_id, "name": name, "label": label}
    docker_engine.run("rm", "--force", name)


@pytest.mark.parametrize(
    "record",
    [pytest.param(each, marks=pytest.mark.docker_only) if each.dockers_own else each for each in RECORDS],
    ids=lambda record: record.name,
)
def test_engine_keeps_the_promise_of_the_record(record: Record, docker_engine: Engine, words: dict[str, str]) -> None:
    """D-13, D-11: exit status and shape; of the words, no more than the product relies on."""
    check(record, DockerCli(docker_engine.client, dict(os.environ)), words)


@pytest.mark.parametrize("address", ["unix:///nonexistent/docker.sock", "tcp://127.0.0.1:1", "unix://{file}"])
@pytest.mark.docker_only
def test_probe_of_the_real_client_finds_no_daemon(address: str, docker_engine: Engine, tmp_path: object) -> None:
    """R-7, D-11: whatever words the client at hand has for it."""
    host = address.format(file=__file__)
    docker = DockerCli(docker_engine.client, dict(os.environ) | {"DOCKER_HOST": host})
    with pytest.raises(DaemonUnreachable):
        read_probe(run_docker(docker, *PROBE_ARGV))


@pytest.mark.docker_only
def test_probe_of_a_client_that_cannot_name_its_daemon_stops(docker_engine: Engine) -> None:
    """A2: no daemon was asked, so none is unreachable: nothing falls back to the host."""
    docker = DockerCli(docker_engine.client, dict(os.environ) | {"DOCKER_HOST": "nonsense://x"})
    with pytest.raises(SandboxConfigError, match="before it could ask a daemon"):
        read_probe(run_docker(docker, *PROBE_ARGV))


def test_held_stdin_is_a_lease(docker_engine: Engine, words: dict[str, str]) -> None:
    """R-38: the attached client says the word, lives as long as its stdin, and the container with it."""
    name = f"{words['name']}-lease"
    docker = DockerCli(docker_engine.client, dict(os.environ))
    lease = docker.start(
        "run", "--rm", "--interactive", "--sig-proxy=false", "--init", "--pull", "never", "--network", "none",
        "--name", name, "--entrypoint", "sh", "--", words["image_id"], "-c", scripts.KEEP_ALIVE,
        hold_stdin=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 20
        while scripts.READY.encode() not in lease.stdout.data and time.monotonic() < deadline:
            lease.pump(0.1)
        assert not lease.exited
        assert run_docker(docker, "inspect", "--type", "container", "--", name).code == 0
        lease.release()
        done = lease.wait(20)
        assert (done.timed_out, done.stdout.text) == (False, f"{scripts.READY}\n")
        assert re.fullmatch(rf"({re.escape(NOTICE)}.*\n)?", done.stderr.text)
        assert run_docker(docker, "inspect", "--type", "container", "--", name).code != 0
    finally:
        lease.close()
