"""Podman under the name of docker, as the package podman-docker gives it; where podman is there and works."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.docker_engine import find_static_busybox
from support.odek_process import Odek
from support.recordings import write_recording
from support.sandboxes import PROGRAMS
from support.scenario import Scene

from odek.sandbox.offline.busybox import image_archive

pytestmark = pytest.mark.podman

IMAGE = "localhost/odek-test-podman:1"
WRAPPER = """\
#!/bin/sh
echo "Emulate Docker CLI using podman. Create /etc/containers/nodocker to quiet msg." >&2
command=$1
shift
[ "$command" != run ] || set -- {limits} "$@"
exec {podman} --root {store}/root --runroot {store}/run --storage-driver vfs --runtime {runtime} "$command" "$@"
"""


@dataclass(frozen=True, slots=True)
class Podman:
    """A `docker` that is podman."""

    folder: Path

    @property
    def path(self) -> str:
        return f"{self.folder}{os.pathsep}{os.environ['PATH']}"

    def run(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([self.folder / "docker", *arguments], input=stdin, capture_output=True, timeout=120)

    def containers(self) -> list[str]:
        listed = self.run("ps", "--all", "--filter", "label=io.odek.sandbox=1", "--format", "{{.Names}}")
        return listed.stdout.decode().split()


@pytest.fixture
def podman(tmp_path: Path) -> Iterator[Podman]:
    """The podman of this machine, with a runtime that starts containers here, and a store of the test's own."""
    program, busybox = shutil.which("podman"), find_static_busybox()
    if program is None or busybox is None:
        pytest.skip("no podman, or no static busybox")
    # podman asks for more open files and processes than this process may have, and gives up
    limits = " ".join(
        f"--ulimit {name}={min(1024, resource.getrlimit(limit)[1] % 2**63)}"
        for name, limit in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC))
    )
    with tempfile.TemporaryDirectory(prefix="odek-", ignore_cleanup_errors=True) as store:  # podman wants a short path
        made = Podman(tmp_path / "bin")
        made.folder.mkdir()
        words = ""
        for runtime in filter(shutil.which, ("crun", "runc")):
            (made.folder / "docker").write_text(
                WRAPPER.format(podman=program, runtime=runtime, limits=limits, store=store)
            )
            (made.folder / "docker").chmod(0o755)
            made.run("import", "-", IMAGE, stdin=image_archive(busybox.read_bytes(), PROGRAMS))
            tried = made.run(
                "run", "--rm", "--init", "--ulimit", "core=0", "--network", "none", IMAGE, "sh", "-c", "true"
            )
            if tried.returncode == 0:
                yield made
                return
            words = tried.stderr.decode()
    pytest.skip(f"podman starts no container here: {words}")


@pytest.fixture
def on_podman(podman: Podman, scene: Scene) -> Odek:
    scene.operator(sandbox_image=IMAGE)
    return scene.odek


def test_run_on_podman_is_right_or_refused(podman: Podman, on_podman: Odek, tmp_path: Path) -> None:
    """D-13, B11: files belong to who started odek, and the container goes; or one sentence says what does not work."""
    model = write_recording(
        tmp_path / "model.jsonl", "cat marker.txt >new.txt", "echo home >$HOME/f; cat new.txt $HOME/f; kill -9 -1",
        expect="seen\nhome\n",
    )  # fmt: skip
    (on_podman.cwd / "marker.txt").write_text("seen\n")
    done = on_podman.run("run", "--sandbox", "--base-url", model, "a task", env={"PATH": podman.path})
    said = json.loads(podman.run("info", "--format", "{{json .}}").stdout)
    if "pids" not in said["host"]["cgroupControllers"]:
        assert (done.code, "this engine cannot enforce sandbox_pids_limit" in done.stderr) == (1, True), done
        assert os.listdir(on_podman.cwd) == ["marker.txt"]
    else:
        assert (done.code, done.stdout) == (0, "done\n"), done
        written = on_podman.cwd / "new.txt"
        assert (written.read_text(), written.stat().st_uid) == ("seen\n", os.getuid())
    assert podman.containers() == []


def test_full_memory_leaves_no_file_behind_a_link_of_the_folder(
    podman: Podman, on_podman: Odek, tmp_path: Path
) -> None:
    """R-404: with control groups v1 podman's monitor makes an empty file `oom` where it was started (M-34)."""
    model = write_recording(
        tmp_path / "model.jsonl", "ln -s ../made oom; awk 'BEGIN { x = \"0123456789\"; while (1) x = x x }'; sleep 1"
    )
    flags = ("--sandbox", "--sandbox-memory", "32m", "--base-url", model)
    done = on_podman.run("run", *flags, "a task", env={"PATH": podman.path})
    if "cannot enforce" not in done.stderr:
        assert (done.code, os.listdir(on_podman.cwd)) == (0, ["oom"]), done
    assert "made" not in os.listdir(on_podman.cwd.parent)


def test_networks_are_refused_on_podman(podman: Podman, on_podman: Odek) -> None:
    """D-13: in one sentence, before anything is started."""
    flags = ("--sandbox-networks", "backend", "--base-url", "http://127.0.0.1:1")
    done = on_podman.run("run", *flags, "a task", env={"PATH": podman.path})
    assert (done.code, done.stdout) == (1, "")
    assert "networks cannot be attached to a sandbox of podman's" in done.stderr


def test_nothing_is_open_in_its_sandbox(podman: Podman, odek: Odek) -> None:
    """`odek sandbox verify` on another engine; podman refuses a bound on the number of files in a tmpfs."""
    folder = odek.home / ".odek"
    folder.mkdir(mode=0o700)
    (folder / "config.json").write_text(json.dumps({"sandbox_image": IMAGE}))
    (folder / "config.json").chmod(0o600)
    done = odek.run("sandbox", "verify", "--json", env={"PATH": podman.path})
    assert done.code in (0, 1), done.stderr
    report = json.loads(done.stdout)
    assert {each["id"]: each["seen"] for each in report["verdicts"] if each["status"] == "OPEN"} == {
        "tmp.inodes": "no number"
    }
    assert podman.containers() == []
