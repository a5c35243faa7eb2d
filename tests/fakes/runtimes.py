"""A Runtime of played parts, and a Docker that starts a sandbox in it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from fakes.containers import IMAGE_ID, inspected
from fakes.docker import FakeDocker, answer_check
from fakes.engines import INFO
from fakes.model import ScriptedModel, text_reply

from odek.app.runtime import Runtime
from odek.events import ignore
from odek.host import Host
from odek.sandbox.container import scripts
from odek.sandbox.docker import Docker
from odek.sandbox.spec import Limits, SandboxSpec

NONCE = "ab" * 16
CHECKED = "nonce=seen\nhome=writable\nworkspace=writable\nuid=1000\ngid=1000\n"


def fake_runtime(host: Host, docker: Docker, **parts: Any) -> Runtime:
    """Return a Runtime in which nobody can be asked, the model says "done", and chance is "abab…"; `parts` differ."""
    usual = {
        "new_model": lambda _: ScriptedModel([text_reply("done")]),
        "emit": ignore,
        "operator": None,
        "person": None,
        "random_hex": lambda size: "ab" * size,
        "sleep": lambda _: None,
        "clock": lambda: 1_800_000_000.0,
    }
    return Runtime(host=host, docker=docker, **{**usual, **parts})


def spec_of(host: Host, **fields: Any) -> SandboxSpec:
    """Return what a start in `host` with the image some/image:1 asks for; `fields` differ."""
    spec = SandboxSpec(
        image="some/image:1", image_id=IMAGE_ID, workdir=host.cwd, readonly=False,
        user=f"{host.uid}:{host.gid}", home="/tmp", limits=Limits(), umask=host.umask,
    )  # fmt: skip
    return replace(spec, **fields)


def script_start(docker: FakeDocker, spec: SandboxSpec) -> FakeDocker:
    """Let docker answer as an engine does that starts what `spec` asks for."""
    proofs = "".join(f"volume{number}=same\n" for number, _ in enumerate(spec.volumes, start=1))
    docker.on("version", stdout="28.0.0\n").on("info", stdout=INFO)
    docker.on("image", "inspect", stdout=f"{IMAGE_ID}\n")
    docker.on("ps")
    docker.on("run", stdout=f"{scripts.READY}\n", hold=True)
    docker.on("inspect", stdout=json.dumps([inspected(spec, name="odek-1-1", nonce=NONCE)]))
    docker.on("exec", has=scripts.CHECK_AND_RUN, hold=True, spare=True, react=answer_check(CHECKED + proofs))
    docker.on("exec", has=scripts.RUN, hold=True, spare=True)
    return docker.on("exec", has=scripts.CHECK, code=scripts.CHECKED, stdout=CHECKED + proofs)
