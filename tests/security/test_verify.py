"""`odek sandbox verify`: nothing is open in the sandbox, and each probe finds its protection missing."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from support.odek_process import Odek
from support.sandboxes import Boxes, OddImages
from support.weakened_sandbox import PROTECTIONS, Proof, without_option

from odek.sandbox import probes
from odek.sandbox.probes import Circumstances, Verdict, read_verdicts, render_script
from odek.sandbox.spec import Limits

BODY = Path(probes.__file__).with_name("probes.sh").read_text()
PROTECTIONS.setdefault("private cgroups", without_option("--cgroupns "))

# protection that is taken away → the probes that must say so
FOUND_BY = {
    "capabilities": {"cap.bounding"},
    "no-new-privileges": {"no_new_privs"},
    "seccomp": {"seccomp.mode"},
    "noexec": {"tmp.noexec"},
    "nosuid": {"tmp.nosuid"},
    "nodev": {"tmp.nodev"},
    "size of tmp": {"tmp.size"},
    "number of files": {"tmp.inodes"},
    "helper user": {"keepalive.signal", "keepalive.environ", "keepalive.descriptors"},
    "process limit": {"limits.pids"},
    "network none": {"net.interfaces", "net.routes"},
    "read-only": {"workspace.readonly"},
}


def found_open(verdicts: tuple[Verdict, ...]) -> dict[str, str]:
    return {verdict.id: verdict.seen for verdict in verdicts if verdict.status == "OPEN"}


def attack(boxes: Boxes, circumstances: Circumstances, **changes: object) -> tuple[Verdict, ...]:
    box = boxes.start(**changes)
    done = box.run(render_script(BODY, circumstances), timeout_s=60)
    return read_verdicts(done.output.text, circumstances)


@pytest.mark.parametrize("protection", FOUND_BY)
def test_a_protection_that_is_missing_is_found(protection: str, proof: Proof) -> None:
    """Each probe can fail: it says OPEN once its protection is taken away."""
    readonly = protection == "read-only"
    circumstances = Circumstances(networks=False, readonly=readonly, hit_limits=False)
    # a keep-alive of the commands' own user is the one that they could end
    user = "0:0" if protection == "helper user" else "1000:1000"
    weak = proof.weakened(protection, readonly=readonly, user=user)
    verdicts = read_verdicts(weak.output(render_script(BODY, circumstances)), circumstances)
    assert FOUND_BY[protection] - set(found_open(verdicts)) == set()


@pytest.mark.parametrize("shell", ["busybox", "dash", "bash"])
def test_nothing_is_open_with_any_shell(shell: str, boxes: Boxes, odd_images: OddImages) -> None:
    """As a user and as root, writable and read-only, with limits that are reached."""
    plain = Circumstances(networks=False, readonly=False, hit_limits=False)
    program = shutil.which(shell)
    if shell != "busybox" and program is None:
        pytest.skip(f"no {shell} here")
    image = boxes.image if shell == "busybox" else odd_images.make(shell=program or "")
    assert found_open(attack(boxes, plain, image=image, user="1000:1000")) == {}
    if shell == "busybox":
        assert found_open(attack(boxes, plain, user="0:0")) == {}
        readonly = Circumstances(networks=False, readonly=True, hit_limits=True)
        limits = Limits(pids=128, memory_bytes=96 << 20, nano_cpus=500_000_000)
        assert found_open(attack(boxes, readonly, readonly=True, user="1000:1000", limits=limits)) == {}


def test_verify_attacks_from_both_sides_and_leaves_nothing(sandboxed: Odek) -> None:
    """S-5, S-6, S-7, S-9, S-10, S-16: what SECURITY.md promises, seen on this machine; --json for programs."""
    done = sandboxed.run("sandbox", "verify", "--json")
    report = json.loads(done.stdout)
    opened = [verdict for verdict in report["verdicts"] if verdict["status"] == "OPEN"]
    assert (opened, done.code) == ([], 0)
    assert report["counts"]["ok"] >= 110
    outside = {verdict["id"]: verdict["status"] for verdict in report["verdicts"] if verdict["id"].startswith("host.")}
    assert outside == {"host.pids": "ok", "host.owner": "ok", "host.sigkill": "ok", "host.clean": "ok"}
    assert list(sandboxed.cwd.iterdir()) == []


def test_verify_without_a_sandbox_fails_like_a_run_that_insists(sandboxed: Odek) -> None:
    """It never attacks the host: without a daemon there is an error and no verdict."""
    done = sandboxed.run("sandbox", "verify", env={"DOCKER_HOST": "unix:///nowhere/docker.sock"})
    assert (done.code, done.stdout) == (1, "")
    assert "daemon" in done.stderr
