"""Engines that do not share this machine's files.

A daemon elsewhere is played by a client that starts the container on another folder: what the daemon
would find under that path on its own machine.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.sandboxes import Boxes

from odek.sandbox.docker import DockerCli
from odek.sandbox.errors import SandboxConfigError

FAR = """\
#!/bin/sh
# what is at {here} is on the daemon's machine what is at {there} on this one
case $1 in
run)
  for word in "$@"; do
    shift
    set -- "$@" "$(printf '%s\\n' "$word" | sed 's|{here}|{there}|')"
  done ;;
inspect)
  {client} "$@" >"$0.out"
  status=$?
  sed 's|{there}|{here}|' "$0.out"
  exit $status ;;
esac
exec {client} "$@"
"""


def far_client(boxes: Boxes, folder: Path, there: Path) -> DockerCli:
    folder.mkdir()
    program = folder / "docker"
    program.write_text(FAR.format(here=boxes.workdir, there=there, client=boxes.engine.client))
    program.chmod(0o755)
    return DockerCli(str(program), dict(os.environ))


@pytest.mark.parametrize("readonly", [False, True])
def test_daemon_with_another_folder_of_that_name_is_refused_and_left_as_it_was(
    readonly: bool, boxes: Boxes, tmp_path: Path
) -> None:
    """R-37, B22: neither an empty /workspace, nor a file of odek's on the other machine."""
    there = tmp_path / "there"
    there.mkdir()
    (boxes.workdir / "marker.txt").write_text("1")
    with pytest.raises(SandboxConfigError, match=r"/workspace is not .*: it shows ") as refused:
        boxes.start(docker=far_client(boxes, tmp_path / "bin", there), readonly=readonly)
    assert "the Docker daemon sees other files under that path" in refused.value.hint
    assert (os.listdir(there), os.listdir(boxes.workdir)) == ([], ["marker.txt"])
    assert boxes.existing(os.getpid()) == []


def test_daemon_without_such_a_folder_is_refused_and_makes_none(boxes: Boxes, tmp_path: Path) -> None:
    """R-37, B22: Docker's `-v` would make an empty one."""
    there = tmp_path / "there"
    with pytest.raises(SandboxConfigError) as refused:
        boxes.start(docker=far_client(boxes, tmp_path / "bin", there))
    assert not there.exists()
    assert str(there) in refused.value.detail
    assert boxes.existing(os.getpid()) == []


def test_folder_that_is_only_here_is_named_as_the_cause(boxes: Boxes, tmp_path: Path) -> None:
    """B22: as with odek in a container of its own, and the daemon outside of it."""
    hidden = tmp_path / "hidden"
    program = tmp_path / "docker"
    program.write_text(
        f'#!/bin/sh\n[ "$1" = run ] && mv {hidden} {hidden}.away\n{boxes.engine.client} "$@"\nstatus=$?\n'
        f'[ "$1" = run ] && mv {hidden}.away {hidden}\nexit $status\n'
    )
    program.chmod(0o755)
    hidden.mkdir()
    with pytest.raises(SandboxConfigError, match=f'^the Docker daemon does not see "{hidden}"'):
        boxes.start(docker=DockerCli(str(program), dict(os.environ)), workdir=str(hidden))
    assert os.listdir(hidden) == []
