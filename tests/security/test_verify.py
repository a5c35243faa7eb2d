"""`odek sandbox verify`: nothing is open in the sandbox, and each probe finds its protection missing."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from fakes.model_server import ModelServer, text
from support.docker_engine import Engine
from support.odek_process import Odek, Outcome
from support.sandboxes import Boxes, OddImages, kind_of
from support.weakened_sandbox import PROTECTIONS, Proof, in_words_with, with_option, without_option

from odek.sandbox import probes
from odek.sandbox.probes import Circumstances, Verdict, read_verdicts, render_script
from odek.sandbox.spec import Limits

BODY = Path(probes.__file__).with_name("probes.sh").read_text()
PROTECTIONS.setdefault(
    "control groups", with_option("--mount", "type=bind,source=/sys/fs/cgroup,target=/sys/fs/cgroup")
)
PROTECTIONS.setdefault("processor limit", without_option("--cpus ", "--cpu-period ", "--cpu-quota "))
PROTECTIONS.setdefault("no core dumps", in_words_with("core=", "core=0", "core=-1"))

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
    "no resolver": {"net.resolver"},
    "private cgroups": {"cgroup.namespace"},
    "control groups": {"cgroup.procs"},
    "no core dumps": {"limits.core"},
    "tmpfs": {"tmp.noexec", "tmp.size", "tmp.inodes"},
}
DOCKERS_OWN = ("number of files", "no resolver")
"""what podman refuses to give, so that it cannot be taken away (M-30)"""


def open_here(engine: Engine) -> set[str]:
    """Return what is open in any sandbox of this engine: a tmpfs of podman's has no number of files (M-30)."""
    return {"tmp.inodes"} if kind_of(engine.client).podman else set()


def found_open(verdicts: tuple[Verdict, ...]) -> dict[str, str]:
    return {verdict.id: verdict.seen for verdict in verdicts if verdict.status == "OPEN"}


def attack(boxes: Boxes, circumstances: Circumstances, **changes: object) -> tuple[Verdict, ...]:
    box = boxes.start(**changes)
    done = box.run(render_script(BODY, circumstances), timeout_s=60)
    return read_verdicts(done.output.text, circumstances)


@pytest.mark.parametrize(
    "protection",
    [pytest.param(each, marks=pytest.mark.docker_only) if each in DOCKERS_OWN else each for each in FOUND_BY],
)
def test_a_protection_that_is_missing_is_found(protection: str, proof: Proof) -> None:
    """Each probe can fail: it says OPEN once its protection is taken away."""
    readonly = protection == "read-only"
    circumstances = Circumstances(networks=False, readonly=readonly, hit_limits=False)
    # a keep-alive of the commands' own user is the one that they could end; control groups are root's
    user = "0:0" if protection in ("helper user", "control groups") else "1000:1000"
    weak = proof.weakened(protection, readonly=readonly, user=user)
    verdicts = read_verdicts(weak.output(render_script(BODY, circumstances)), circumstances)
    assert FOUND_BY[protection] - set(found_open(verdicts)) == set()


def test_a_control_group_that_can_be_made_is_found(proof: Proof) -> None:
    """R-332: what counts is a group, not a folder in the tmpfs that holds them, which some runtimes leave writable."""
    circumstances = Circumstances(networks=False, readonly=False, hit_limits=False)
    # root's capabilities are those with which the container's own user begins
    weak = proof.weakened("control groups", "capabilities", "helper user", user="0:0")
    opened = found_open(read_verdicts(weak.output(render_script(BODY, circumstances)), circumstances))
    assert "/sys/fs/cgroup" in opened.get("cgroup.mkdir", "")


def test_a_limit_that_is_missing_is_found(proof: Proof) -> None:
    """One that was asked for and that the kernel knows nothing of."""
    asked = Circumstances(networks=False, readonly=False, hit_limits=False, memory_limited=True, cpu_limited=True)
    limits = Limits(memory_bytes=96 << 20, nano_cpus=500_000_000)
    weak = proof.weakened("memory limit", "processor limit", user="1000:1000", limits=limits)
    verdicts = read_verdicts(weak.output(render_script(BODY, asked)), asked)
    assert {"limits.memory", "limits.cpu"} - set(found_open(verdicts)) == set()


@pytest.mark.parametrize("shell", ["busybox", "dash", "bash"])
def test_nothing_is_open_with_any_shell(shell: str, boxes: Boxes, odd_images: OddImages) -> None:
    """As a user and as root, writable and read-only, with limits that are reached."""
    plain = Circumstances(networks=False, readonly=False, hit_limits=False)
    program = shutil.which(shell)
    if shell != "busybox" and program is None:
        pytest.skip(f"no {shell} here")
    image = boxes.image if shell == "busybox" else odd_images.make(shell=program or "")
    assert set(found_open(attack(boxes, plain, image=image, user="1000:1000"))) == open_here(boxes.engine)
    if shell == "busybox":
        assert set(found_open(attack(boxes, plain, user="0:0"))) == open_here(boxes.engine)
        readonly = Circumstances(networks=False, readonly=True, hit_limits=True)
        limits = Limits(pids=128, memory_bytes=96 << 20, nano_cpus=500_000_000)
        found = found_open(attack(boxes, readonly, readonly=True, user="1000:1000", limits=limits))
        assert set(found) == open_here(boxes.engine)


def test_verify_attacks_from_both_sides_and_leaves_nothing(sandboxed: Odek, docker_engine: Engine) -> None:
    """S-5, S-6, S-7, S-9, S-10, S-16: what SECURITY.md promises, seen on this machine; --json for programs."""
    done = sandboxed.run("sandbox", "verify", "--json")
    report = json.loads(done.stdout)
    opened = {verdict["id"] for verdict in report["verdicts"] if verdict["status"] == "OPEN"}
    assert (opened, done.code) == (open_here(docker_engine), 1 if open_here(docker_engine) else 0)
    assert report["counts"]["ok"] >= 110
    outside = {verdict["id"]: verdict["status"] for verdict in report["verdicts"] if verdict["id"].startswith("host.")}
    assert outside == {"host.pids": "ok", "host.owner": "ok", "host.sigkill": "ok", "host.clean": "ok"}
    assert list(sandboxed.cwd.iterdir()) == []


@pytest.mark.docker_only  # podman has no daemon (M-27)
def test_verify_without_a_sandbox_fails_like_a_run_that_insists(sandboxed: Odek) -> None:
    """It never attacks the host: without a daemon there is an error and no verdict."""
    done = sandboxed.run("sandbox", "verify", env={"DOCKER_HOST": "unix:///nowhere/docker.sock"})
    assert (done.code, done.stdout) == (1, "")
    assert "daemon" in done.stderr


def run_verified(odek: Odek, *flags: str, env: dict[str, str] | None = None) -> Outcome:
    with ModelServer(text("done")) as server:
        done = odek.run("run", "--base-url", server.base_url, *flags, "a task", env=env)
        assert len(server.requests) == (1 if done.code == 0 else 0), done.stderr
        return done


@pytest.mark.docker_only  # with podman tmp.inodes is open in every sandbox (M-30)
def test_run_that_requires_it_starts_only_in_a_sandbox_that_was_found_closed(sandboxed: Odek) -> None:
    """R-4, R-8: attacked before the first use of such a sandbox, remembered by engine, kernel and settings."""
    first = run_verified(sandboxed, env={"ODEK_REQUIRE_VERIFIED": "1"})
    assert (first.code, "the sandbox was attacked: " in first.stderr) == (0, True), first.stderr
    again = run_verified(sandboxed, "--require", "net.routes,call.mount")
    assert (again.code, "attacked" in again.stderr) == (0, False), again.stderr
    other = run_verified(sandboxed, "--sandbox-readonly", "--require", "workspace.readonly")
    assert (other.code, "the sandbox was attacked: " in other.stderr) == (0, True), other.stderr
    lacking = run_verified(sandboxed, "--require", "host.sigkill")
    assert lacking.code == 1
    assert "host.sigkill: not tried (--require)" in lacking.stderr
    assert sandboxed.run("sandbox", "verify", "--require", "host.sigkill").code == 0
    assert run_verified(sandboxed, "--require", "host.sigkill").code == 0
    refused = sandboxed.run("sandbox", "verify", "--require", "hit.tmp")
    assert (refused.code, "hit.tmp: not tried" in refused.stderr) == (1, True)
    assert list(sandboxed.cwd.iterdir()) == []


def test_run_that_requires_it_stops_where_a_protection_is_missing(
    sandboxed: Odek, docker_engine: Engine, tmp_path: Path
) -> None:
    """One that no start looks at: the limit of core dumps."""
    weak = tmp_path / "bin" / "docker"
    weak.parent.mkdir()
    weak.write_text(
        '#!/bin/sh\nfor word; do\n  shift\n  [ "$word" = core=0 ] && word=core=-1\n'
        f'  set -- "$@" "$word"\ndone\nexec {docker_engine.client} "$@"\n'
    )
    weak.chmod(0o755)
    env = {"PATH": f"{weak.parent}:{os.environ['PATH']}", "ODEK_REQUIRE_VERIFIED": "1"}
    done = run_verified(sandboxed, env=env)
    assert (done.code, done.stdout) == (1, "")
    missing = sorted({"limits.core", *open_here(docker_engine)})
    assert f"the sandbox is open: {', '.join(missing)} (ODEK_REQUIRE_VERIFIED)" in done.stderr
    assert "ON THIS HOST" not in done.stderr
    assert f", {len(missing)} open" in done.stderr
    shown = sandboxed.run("sandbox", "verify", env=env)
    assert (shown.code, "OPEN limits.core" in shown.stdout) == (1, True)
