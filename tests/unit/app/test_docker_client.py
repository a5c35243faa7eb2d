"""The folder of Docker's client, on the disk."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from fakes.layering import make_host

from odek.app.docker_client import ClientFolder
from odek.errors import ExecutableMissing
from odek.host import Host
from odek.sandbox.docker import DockerCli
from odek.sandbox.errors import SandboxConfigError


@pytest.fixture
def host(tmp_path: Path) -> Host:
    made = make_host(tmp_path, uid=os.getuid())
    settings = Path(made.home, ".docker", "config.json")
    settings.parent.mkdir(parents=True, exist_ok=True)
    Path(made.home, ".odek").mkdir(mode=0o700, exist_ok=True)
    settings.write_text('{"credsStore": "pass", "cliPluginsExtraDirs": ["/evil"]}')
    return made


def settings(variables: Mapping[str, str]) -> object:
    return json.loads(Path(variables["DOCKER_CONFIG"], "config.json").read_text())


def test_the_folder_is_private_and_made_anew_when_the_settings_change(host: Host) -> None:
    """F2."""
    first = ClientFolder(host).environment()
    assert list(first) == ["DOCKER_CONFIG"]
    folder = Path(first["DOCKER_CONFIG"])
    assert folder.is_relative_to(f"{host.home}/.odek/docker")
    assert settings(first) == {"credsStore": "pass"}
    modes = {path.stat().st_mode & 0o777 for path in (folder.parent, folder, folder / "config.json")}
    assert modes == {0o700, 0o600}
    inode = (folder / "config.json").stat().st_ino
    assert ClientFolder(host).environment() == first
    assert (folder / "config.json").stat().st_ino == inode
    Path(host.home, ".docker/config.json").write_text("{}")
    assert settings(ClientFolder(host).environment()) == {}
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_without_a_home_the_folder_is_for_this_run_only(host: Host, tmp_path: Path) -> None:
    """F2, D10: CI without HOME, a demo that leaves the operator's files alone."""
    from dataclasses import replace

    own = ClientFolder(replace(host, home="", env={**host.env, "DOCKER_CONFIG": f"{host.home}/.docker"}))
    variables = own.environment()
    assert settings(variables) == {"credsStore": "pass"}
    folder = Path(variables["DOCKER_CONFIG"])
    assert folder.stat().st_mode & 0o777 == 0o700
    del own
    assert not folder.exists()


def test_certificates_are_found_where_they_were(host: Host) -> None:
    """F2: DOCKER_TLS_VERIFY alone means those in the folder of the settings."""
    from dataclasses import replace

    Path(host.home, ".docker/ca.pem").write_text("x")
    asking = replace(host, env={**host.env, "DOCKER_TLS_VERIFY": "1"})
    assert ClientFolder(asking).environment()["DOCKER_CERT_PATH"] == f"{host.home}/.docker"


@pytest.mark.parametrize("target", ["fifo", "/dev/zero", "/proc/self/mem"])
def test_settings_that_are_no_file_stop_and_do_not_hang(target: str, host: Host) -> None:
    """F2, E2: ~/.docker/config.json is a link into a project, and what is there is exchanged."""
    path = Path(host.home, ".docker/config.json")
    path.unlink()
    os.mkfifo(path.with_name("fifo"))
    path.symlink_to(target)
    with pytest.raises(SandboxConfigError):
        ClientFolder(host).environment()


def test_a_client_asks_for_its_folder_once_and_before_the_first_call(host: Host) -> None:
    """F2: a command that needs no Docker writes nothing."""
    asked: list[int] = []

    def settle() -> Mapping[str, str]:
        asked.append(1)
        return {"DOCKER_CONFIG": "/own"}

    docker = DockerCli("/usr/bin/env", {"DOCKER_CONFIG": "/users", "X": "1"}, settle=settle)
    assert asked == []
    for _ in range(2):
        shown = docker.start().wait(10).stdout.text.splitlines()  # type: ignore[attr-defined]
        assert {"DOCKER_CONFIG=/own", "X=1"} <= set(shown)
    assert asked == [1]
    with pytest.raises(ExecutableMissing):
        DockerCli("/nonexistent", {}).start()
