"""A sandbox that was prepared once, and what may have changed by a later start."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from fakes.docker import FakeDocker
from fakes.engines import DOCKER, INFO
from fakes.layering import make_host, make_layers
from fakes.runtimes import fake_runtime, script_start, spec_of

from odek.app.config import config_of
from odek.app.prepared_sandboxes import PreparedSandboxes, SandboxChanged
from odek.app.sandbox import plan_sandbox, prepare_sandbox

UNFILTERED = json.dumps({**DOCKER, "SecurityOptions": ["name=userns"]})


@pytest.mark.parametrize(
    ("info", "words"),
    [
        (json.dumps({**DOCKER, "ServerVersion": "29.0.0"}), r"version 20\.10\.24\+dfsg1 then, 29\.0\.0 now"),
        (UNFILTERED, "its security options or its limits are others"),
    ],
)
def test_engine_that_is_another_one_starts_nothing(tmp_path: Path, info: str, words: str) -> None:
    """R-140, R-30: a daemon is upgraded, or started with other options, below a server that runs for weeks.

    What was checked of the old one does not hold for it, nor what ODEK_REQUIRE_VERIFIED knows.
    """
    host = replace(make_host(tmp_path, uid=os.getuid()), gid=os.getgid())
    docker = FakeDocker()
    docker.on("info", stdout=INFO, times=2).on("info", stdout=info)
    script_start(docker, spec_of(host))
    runtime = fake_runtime(host, docker)
    config = config_of(make_layers(operator={"sandbox_image": "some/image:1"}))
    sandboxes = PreparedSandboxes(prepare_sandbox(plan_sandbox(config, runtime)), hint="again")
    sandboxes.require_unchanged(runtime)
    with pytest.raises(SandboxChanged, match=words):
        sandboxes.start(runtime)
    assert docker.called("run") == []
