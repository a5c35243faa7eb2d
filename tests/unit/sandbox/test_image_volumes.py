"""The volumes that an image declares."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes.containers import IMAGE_ID, SPEC
from fakes.docker import FakeDocker

from odek.sandbox.argv import run_argv, tmpfs_mounts
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.image.resolve import FoundImage, look_up
from odek.sandbox.image.volumes import probe_volumes, read_volumes, require_apart


@pytest.mark.parametrize(
    ("stdout", "found"),
    [
        (f'{IMAGE_ID} {{"/b":{{}},"/a/":{{}},"x//y":{{}}}}\n', FoundImage(id=IMAGE_ID, volumes=("/a", "/b", "/x/y"))),
        (f"{IMAGE_ID} null\n", FoundImage(id=IMAGE_ID)),
        (f"{IMAGE_ID} \n", FoundImage(id=IMAGE_ID)),
        (f'chatter\n{IMAGE_ID} {{"/a":{{}}}}\n', FoundImage(id=IMAGE_ID, volumes=("/a",))),
    ],
)
def test_volumes_of_an_image_are_read(stdout: str, found: FoundImage) -> None:
    """A16, E8: with its ID, by one call."""
    docker = FakeDocker().on("image", "inspect", stdout=stdout)
    assert look_up(IMAGE_ID, docker) == found
    assert len(docker.calls) == 1


def test_volume_that_goes_up_is_where_it_ends() -> None:
    """A16: as the engines take its path."""
    paths = ("/x/../workspace/sub", "//data/./a/", "../etc/hosts", "/tmp/a/../b", "/..")
    assert read_volumes({path: {} for path in paths}) == ("/", "/data/a", "/etc/hosts", "/tmp/b", "/workspace/sub")
    with pytest.raises(SandboxConfigError, match="at /workspace/sub"):
        require_apart(read_volumes({"/x/../workspace/sub": {}}))


@pytest.mark.parametrize("volumes", ["[1]", "{", "{no}", "null null", "1", '"/a"'])
def test_volumes_that_cannot_be_read_stop_the_start(volumes: str) -> None:
    """A16, E8: never as if there were none."""
    with pytest.raises(SandboxConfigError, match="Docker does not say"):
        look_up("i:1", FakeDocker().on("image", "inspect", stdout=f"{IMAGE_ID} {volumes}\n"))


@pytest.mark.parametrize("path", ["/workspace", "/workspace/x", "/workspace/a/b/c"])
def test_volume_in_the_workspace_is_refused(path: str) -> None:
    """A16: by its name, in words."""
    with pytest.raises(SandboxConfigError) as refused:
        require_apart(("/data", path))
    assert refused.value.message == f"the image declares a volume at {path}, which would hide that folder of yours"


def test_volume_over_what_the_engine_mounts_is_refused() -> None:
    """F1: the container is known by these files."""
    with pytest.raises(SandboxConfigError, match="the image declares a volume at /etc/hosts"):
        require_apart(("/etc/hosts",))
    require_apart(("/data", "/workspaces", "/etc/app", "/tmp/sub"))


def test_volume_below_a_tmpfs_gets_its_options() -> None:
    """E8: programs could run there."""
    spec = replace(SPEC, image_volumes=("/data", "/dev/shm/x", "/tmp/sub", "/tmpfs"))
    mounts = dict(tmpfs_mounts(spec))
    assert (mounts["/tmp/sub"], mounts["/dev/shm/x"]) == (mounts["/tmp"], mounts["/tmp"])
    assert not {"/data", "/tmpfs"} & mounts.keys()
    assert f"/tmp/sub:{mounts['/tmp']}" in run_argv(spec, name="n", labels=())


def test_image_whose_link_leads_a_volume_into_the_workspace_is_refused() -> None:
    """E8: tried with the folder read-only, with the engine's own init as the only program."""
    spec = replace(SPEC, image_volumes=("/app/node_modules",))
    docker = FakeDocker().on("run", code=125, stderr="docker: read-only file system\n")
    with pytest.raises(SandboxConfigError, match=r"declares volumes \(/app/node_modules\), and one of them leads into"):
        probe_volumes(spec, docker, labels=(("a", "b"),))
    args = docker.calls[0].args
    assert 'type=bind,"source=/w","target=/workspace",readonly,bind-nonrecursive' in args
    assert args[-5:] == ("--entrypoint", "/sbin/docker-init", "--", IMAGE_ID, "--version")
    probe_volumes(spec, FakeDocker().on("run"), labels=())
