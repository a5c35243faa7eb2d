"""All of isolation_table.py: the whole way of a run, from the bytes of the files to the first `docker run`.

Docker alone is played.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.docker import FakeDocker
from fakes.engines import INFO
from fakes.layering import make_host, make_layers
from fakes.notices import Notes
from fakes.runtimes import fake_runtime
from support.isolation_table import VALUES, Cell, cells, expected, files_and_variables, parsed_flags

from odek.app.config import config_of
from odek.app.isolation import CommandProfile
from odek.app.workspace import open_workspace
from odek.config.settings import OPTIONS
from odek.errors import OdekError
from odek.host import Host
from odek.sandbox.docker import ClientMissing

NETWORK_ID = "b" * 64
IMAGE_ID = "sha256:" + "a" * 64


class Started(BaseException):
    """The sandbox was about to be started: no way leads to the host any more."""


def outcome(cell: Cell, host: Host) -> str:
    operator, project, env = files_and_variables(cell)
    runtime = fake_runtime(replace(host, env={**host.env, **env}), docker_of(cell), emit=Notes())
    try:
        config = config_of(make_layers(operator=operator, project=project or None, env=env, flags=parsed_flags(cell)))
        with open_workspace(CommandProfile(command="run"), config, runtime) as workspace:
            assert workspace.facts is None
            return "host"
    except Started:
        return "sandbox"
    except OdekError:
        return "stop"


def docker_of(cell: Cell) -> FakeDocker:
    """Return a client as the cell has it; a daemon that is there gives whatever exists."""
    docker = FakeDocker()
    if cell.daemon == "no client":
        missing = ClientMissing("docker was not found on PATH")
        return docker.on("info", raises=missing).on("version", raises=missing)
    if cell.daemon != "there":
        return docker.without_daemon()
    docker.on("version", stdout="28.0.0\n").on("info", stdout=INFO)
    docker.on("network", "ls", stdout=json.dumps([NETWORK_ID, "back", "bridge", "local"]) + "\n")
    network: Mapping[str, object] = {
        "Name": "back", "Id": NETWORK_ID, "Driver": "bridge", "Scope": "local", "Internal": True, "Containers": {},
        "Options": {}, "Labels": {"com.docker.compose.project": "shop"}, "EnableIPv6": False, "IPAM": {"Config": []},
    }  # fmt: skip
    docker.on("network", "inspect", stdout=json.dumps([network]))
    if cell.image == "there":
        docker.on("image", "inspect", stdout=f"{IMAGE_ID}\n")
    docker.on("image", "inspect", code=1, stderr="Error: No such image")
    docker.on("pull", code=1, stderr="Error response from daemon: pull access denied")
    return docker.on("ps").on("run", raises=Started())


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Host:
    made = make_host(tmp_path_factory.mktemp("machine"), uid=os.getuid())
    (Path(made.cwd) / "data").mkdir()
    return replace(made, gid=os.getgid())


@pytest.mark.once
@pytest.mark.parametrize("key", VALUES)
def test_place_in_every_cell(key: str, host: Host) -> None:
    """R-7, A1 to A5: the table says where each cell ends; the first ones that differ are shown."""
    found = [(cell, expected(cell), outcome(cell, host)) for cell in cells(key)]
    assert [each for each in found if each[1] != each[2]][:3] == []


def test_table_has_every_setting_of_the_sandbox() -> None:
    """R-12: a new one needs its values here."""
    assert set(VALUES) == {option.key for option in OPTIONS if option.group == "sandbox"}


def test_table_reaches_every_outcome() -> None:
    """R-7: and is not made of stops."""
    counted = Counter(expected(cell) for key in VALUES for cell in cells(key))
    assert min(counted[each] for each in ("sandbox", "host", "stop")) > 400, counted
