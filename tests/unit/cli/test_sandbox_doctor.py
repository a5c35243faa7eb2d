"""odek sandbox doctor: what it finds of the image, and with which one it starts."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from fakes.docker import FakeDocker
from fakes.engines import INFO
from fakes.layering import make_host, make_layers
from fakes.runtimes import fake_runtime

from odek.app.config import config_of
from odek.app.sandbox import plan_sandbox
from odek.cli.commands.sandbox_doctor import check_image
from odek.sandbox.image.reference import BUSYBOX_TAG

ID = "sha256:" + "c" * 64


@pytest.mark.parametrize(
    ("flags", "here", "processor", "verdict", "fix", "starts"),
    [
        ({"sandbox_image": "i:1"}, "i:1", "amd64", "ok", "", "i:1"),
        ({"sandbox_image": "i:1"}, "i:1", "arm64", "warn", "is for arm64, Docker's machine has amd64", "i:1"),
        ({"sandbox_image": "i:1"}, "", "", "fail", "docker pull it", "i:1"),
        ({"sandbox_image": "i:1"}, BUSYBOX_TAG, "amd64", "fail", f"--sandbox-image {BUSYBOX_TAG} is here", "i:1"),
        ({}, BUSYBOX_TAG, "amd64", "warn", f"the local image {BUSYBOX_TAG} is used", BUSYBOX_TAG),
        ({}, "", "", "fail", "`odek sandbox image bootstrap` makes a small one", None),
    ],
)
def test_image_as_a_start_would_have_it(
    flags: dict[str, object], here: str, processor: str, verdict: str, fix: str, starts: str | None, tmp_path: Path
) -> None:
    """A9, D-23: another processor and the local image in place of the default are named; nothing is pulled."""
    docker = FakeDocker().on("version", has="{{.Server.Arch}}", stdout="amd64\n").on("version", stdout="29\n")
    docker.on("info", stdout=INFO)
    if here:
        docker.on("image", "inspect", has=here, stdout=f"{ID}\n")
        docker.on("image", "inspect", "--", ID, stdout=json.dumps([{"Id": ID, "Architecture": processor}]))
    docker.on("image", "inspect", code=1, stderr="Error: No such image")
    runtime = fake_runtime(make_host(tmp_path, uid=os.getuid()), docker)
    planned = plan_sandbox(config_of(make_layers(flags=flags)), runtime)
    check, plan = check_image(planned)
    assert (check.verdict, fix in check.fix, docker.called("pull")) == (verdict, True, []), check
    assert plan.request.image.ref == (starts or planned.request.image.ref)
    if plan is not planned:
        local = plan.local_image()
        assert local is not None
        assert local.found.id == ID
