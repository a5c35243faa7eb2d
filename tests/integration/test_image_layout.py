"""Image layouts of the OCI, taken in by the engine that answers."""

from __future__ import annotations

import gzip
import json

import pytest
from support.docker_engine import Engine
from support.image_layouts import ImageLayout, dump
from support.odek_process import Odek


@pytest.mark.parametrize("form", ["tar.gz", "folder"])
def test_layout_is_loaded_and_runs(form: str, odek: Odek, docker_engine: Engine, base_image: str) -> None:
    """R-324: with packed layers, for two processors, found by the engine's own; a changed one loads nothing."""
    container = docker_engine.run("create", base_image, "true").stdout.strip()
    exported = odek.home / "root.tar"
    docker_engine.run("export", "--output", str(exported), container)
    docker_engine.run("rm", container)
    here = docker_engine.run("image", "inspect", "--format", "{{.Architecture}}", base_image).stdout.strip()
    layout, name = ImageLayout(), f"odek-test-layout:{form[:3]}"
    # two layers, one of them twice: engines take a layer of the same content for one
    config = {"Env": ["PATH=/bin"], "Labels": {"form": form}}
    mine = layout.image(exported.read_bytes(), _empty(), _empty(), architecture=here, config=config)
    other = layout.image(_empty(), architecture="s390x")
    index = layout.index(other, mine, _attestation(layout))
    layout.name(index, f"docker.io/library/{name}", "io.containerd.image.name")
    path = odek.cwd / "image"
    if form == "folder":
        layout.folder(path)
    else:
        path.write_bytes(gzip.compress(layout.tar(), 1))
    try:
        loaded = odek.run("sandbox", "image", "load", "image", "--id", index["digest"], "--json")
        assert loaded.code == 0, loaded.stderr
        facts = json.loads(loaded.stdout)
        assert facts["names"] == [f"docker.io/library/{name}"]
        assert docker_engine.image_id(name) == facts["id"]
        ran = docker_engine.run("run", "--rm", "--network", "none", name, "sh", "-c", "echo it runs")
        assert ran.stdout == "it runs\n"
        assert odek.run("sandbox", "image", "load", "image", "--id", facts["id"]).code == 0
        foreign = odek.run("sandbox", "image", "load", "image", "--id", f"sha256:{'0' * 64}")
        assert (foreign.code, "holds another image" in foreign.stderr) == (1, True)
    finally:
        docker_engine.run("rmi", "--force", name, check=False)


def _empty() -> bytes:
    return bytes(10240)


def _attestation(layout: ImageLayout) -> dict[str, object]:
    manifest = layout.blob(dump({"config": layout.blob(dump({"architecture": "unknown"})), "layers": []}))
    return {**manifest, "annotations": {"vnd.docker.reference.type": "attestation-manifest"}}
