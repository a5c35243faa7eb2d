"""Bundles with a real engine: made in one HOME, installed in another, or in a root without network and Python."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.bare_root import BareRoot, make_bare_root
from support.docker_engine import Engine, find_static_busybox
from support.load_module import load_recipe
from support.odek_process import ROOT, Odek, program_kind
from support.recordings import write_recording

pytestmark = pytest.mark.skipif(program_kind() == "source", reason="ODEK_BIN names no file")
PROGRAM = ROOT / os.environ.get("ODEK_BIN", "dist/none")
NAME = "odek-test-bundle:1"


@pytest.fixture
def image(docker_engine: Engine, base_image: str) -> Iterator[str]:
    """The ID of an image of its own, which a test can remove."""
    container = docker_engine.run("create", base_image, "true").stdout.strip()
    docker_engine.run("commit", "--change", "LABEL of=bundle", container, NAME)
    image_id = docker_engine.image_id(NAME)
    docker_engine.run("rm", container)
    yield image_id
    docker_engine.run("rmi", "--force", image_id, check=False)


def make(odek: Odek, image: str, *options: str) -> Path:
    """Make a bundle of the program under test, the image and settings, and take the image away."""
    settings = odek.home / "for-there.json"
    settings.write_text(json.dumps({"model": "there", "sandbox_memory": "256m"}))
    bundle = odek.cwd / "odek.sh"
    made = odek.run("bundle", "make", "odek.sh", "--image", NAME, "--config", str(settings), *options)
    assert made.code == 0, made.stderr
    sums = Path(f"{bundle}.sha256").read_text()
    assert sums == made.stdout.replace(str(bundle), "odek.sh")
    assert sorted(path.name for path in odek.cwd.iterdir()) == ["odek.sh", "odek.sh.sha256"]
    assert ("needs Python 3.10" in made.stderr) == (program_kind() == "zip")
    return bundle


def is_sandboxed(ran: subprocess.CompletedProcess[str], work: Path, image: str) -> bool:
    """Return whether the recording's command ran in a container of that image."""
    assert (ran.returncode, ran.stdout) == (0, "done\n"), ran.stderr
    assert (work / "made").exists()
    return f"odek: sandbox network=none pids=4096 image={image}" in ran.stderr.splitlines()


def test_bundle_goes_from_one_home_to_another(odek: Odek, image: str, docker_engine: Engine, tmp_path: Path) -> None:
    """R-320, R-321, R-323: the image comes with it, is set by its ID, and the first run uses it."""
    bundle = make(odek, image)
    shown = odek.run("bundle", "verify", "odek.sh", "--json")
    assert shown.code == 0, shown.stderr
    facts = json.loads(shown.stdout)
    assert [part["kind"] for part in facts["parts"]] == ["installer", "odek", "settings", "image"]
    tag = facts["parts"][3]["tag"].removeprefix("localhost/")  # podman's names have it
    assert (tag, facts["parts"][3]["ids"][0]) == (NAME, image)
    again = odek.run("bundle", "make", "odek.sh", "--image", NAME)
    assert (again.code, "exists already" in again.stderr) == (1, True)
    docker_engine.run("rmi", NAME)

    home, work = tmp_path / "there", tmp_path / "project"
    home.mkdir(mode=0o700)
    work.mkdir()
    env = {**odek.env(), "HOME": str(home)}

    def there(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=work, env=env, capture_output=True, text=True, timeout=300)

    installed = there("sh", str(bundle))
    assert docker_engine.image_id(NAME) == image
    settings = home / ".odek" / "config.json"
    written = {"model": "there", "sandbox_memory": "256m", "sandbox_image": image}
    assert json.loads(settings.read_text()) == written, installed.stderr
    assert "sandbox    started and verified" in installed.stdout
    # no key of a model there: that is what the doctor has to say, and nothing else
    assert (installed.returncode, installed.stdout.count("fail ")) == (1, 1), installed.stdout
    program = str(home / ".local" / "bin" / "odek")
    assert Path(program).read_bytes() == PROGRAM.read_bytes()
    assert (home / ".local" / "share" / "man" / "man1" / "odek.1").exists()
    recording = write_recording(tmp_path / "recording.jsonl", "touch made; hostname", expect="")
    ran = there(program, "run", "--base-url", recording, "go")
    assert is_sandboxed(ran, work, image)
    assert there("sh", str(bundle), "--no-doctor").returncode == 0
    assert json.loads(settings.read_text()) == written

    damaged = bytearray(bundle.read_bytes())
    damaged[-1] ^= 1
    bundle.write_bytes(damaged)
    refused = odek.run("bundle", "verify", "odek.sh")
    assert (refused.code, "image-1.tar.gz" in refused.stderr) == (1, True)


def system(kind: str) -> Path | None:
    """Return the folder of a Debian without Python, None for a root that has busybox alone."""
    if kind == "busybox":
        return None
    if not os.environ.get("ODEK_CHROOT"):
        pytest.skip("ODEK_CHROOT is not set")
    made = subprocess.run([ROOT / "scripts" / "chroot", "plain"], capture_output=True, text=True, timeout=900)
    assert made.returncode == 0, made.stderr
    return Path(made.stdout.strip())


@pytest.mark.parametrize("kind", ["busybox", "debian"])
def test_bundle_installs_without_network_and_python(
    kind: str, odek: Odek, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """R-321: in a root of its own, where Docker's socket is all that leads out; for the binaries."""
    busybox = find_static_busybox()
    if program_kind() == "zip" or (kind == "busybox" and load_recipe("glibc").libraries(PROGRAM.read_bytes())):
        pytest.skip("the zip needs a Python, this binary a C library")
    if os.geteuid() != 0 or busybox is None:
        pytest.skip("only root can change the root directory; busybox-static")
    debian = system(kind)
    # asked for here: where Docker is promised, a test that has them may not be skipped
    docker_engine: Engine = request.getfixturevalue("docker_engine")
    image: str = request.getfixturevalue("image")
    bundle = make(odek, image)
    shared = tmp_path / "shared"
    shared.mkdir()
    root = make_bare_root(tmp_path / "bare", docker_engine, shared=shared, busybox=Path(busybox), debian=debian)
    if not isinstance(root, BareRoot):
        pytest.skip(root)
    shutil.move(bundle, shared / "odek.sh")
    work = shared / "project"
    work.mkdir()
    docker_engine.run("rmi", NAME)
    recording = write_recording(shared / "recording.jsonl", "touch made; hostname")
    script = f"""
        command -v python3 || command -v python && exit 99
        wget -q -T 2 -O - http://1.1.1.1/ 2>/dev/null && exit 98
        sh {shared}/odek.sh --no-doctor || exit 97
        cat /root/.odek/config.json
        cd {work} && exec /root/.local/bin/odek run --base-url {recording} go
    """
    ran = root.run("sh", "-c", script)
    settings, brace, answer = ran.stdout.rpartition("}\n")
    assert (ran.returncode, answer) == (0, "done\n"), ran.stdout + ran.stderr
    assert json.loads(settings + brace)["sandbox_image"] == image
    ran.stdout = answer
    assert is_sandboxed(ran, work, image)
