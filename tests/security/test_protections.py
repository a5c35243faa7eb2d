"""One attack on each protection of the container: it fails in the sandbox, and succeeds without that protection.

Where several protections stop an attack, the others are taken away as well, so that each of them is
seen to hold alone. The sentences are those of docs/SANDBOXING.md.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import pytest
from support.docker_engine import Engine, gateway_of_the_bridge
from support.sandboxes import OddImages, clients_of, output
from support.scenario import listener_on_the_host
from support.weakened_sandbox import PROTECTIONS, CarelessDocker, Proof, with_option

from odek.sandbox.docker import DockerCli
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.network.attach import inspect_networks
from odek.sandbox.network.plan import NetworkRequest
from odek.sandbox.spec import Limits

SOMEBODY = "12345:54321"
ROOT = "0:0"
PROTECTIONS.setdefault("mknod", with_option("--cap-add", "MKNOD"))  # not one of podman 5's default capabilities


def test_no_capabilities(proof: Proof) -> None:
    """No capabilities, for root neither (`--cap-drop ALL`): root cannot give a file of yours to another user.

    Where the keep-alive is nobody's, engines like 20.10 give root none in `docker exec`; that is no promise of theirs.
    """
    attack = "touch f; chown 4711:4711 f && echo THROUGH"
    proof.stops(attack, by="capabilities", besides=("helper user",), user=ROOT)


def test_no_root_by_default(proof: Proof) -> None:
    """Non-root by default (`--user`): no file of root's is planted in the folder on the host."""
    attack = "touch planted; [ $(stat -c %u planted) = 0 ] && echo THROUGH; rm planted"
    proof.stops(attack, by="user", user=SOMEBODY)


def test_no_change_of_the_folders_owner_and_mode(proof: Proof) -> None:
    """Non-root by default (`--user`): the workspace itself is neither given away nor opened to all."""
    owner = proof.boxes.workdir.stat()
    attack = f"chmod 4777 . && chown 4711 . && echo THROUGH; chown {owner.st_uid}:{owner.st_gid} .; chmod 777 ."
    proof.stops(attack, by="user", besides=("capabilities",), user=SOMEBODY)


def test_home_is_writable(proof: Proof) -> None:
    """`HOME` is the writable /tmp: whoever the commands run as can keep settings and caches."""
    proof.stops("touch $HOME/.settings || echo THROUGH", by="home", user=SOMEBODY)


def test_home_is_writable_in_an_image_with_a_closed_tmp(proof: Proof, odd_images: OddImages) -> None:
    """The same where /tmp of the image is root's; M-4: a tmpfs takes over the mode of that folder."""
    closed = odd_images.make(modes={"tmp": 0o755})
    proof.stops("touch $HOME/.settings || echo THROUGH", by="tmp for all", user=SOMEBODY, image=closed)


def test_no_privilege_escalation(proof: Proof, setuid_image: str) -> None:
    """No privilege escalation (`no-new-privileges`): a setuid program of the image does not become root."""
    attack = "/bin/reveal /etc/passwd | grep -q root && echo THROUGH"
    proof.stops(attack, by="no-new-privileges", user=SOMEBODY, image=setuid_image)


def test_no_programs_in_tmp(proof: Proof) -> None:
    """No executable /tmp (`noexec`): what was downloaded there does not run."""
    proof.stops("cp /bin/busybox /tmp/busybox; /tmp/busybox echo THROUGH", by="noexec")


def test_no_setuid_in_tmp(proof: Proof, setuid_image: str) -> None:
    """No setuid in /tmp (`nosuid`): nor does a program that root has left there lend its rights."""
    proof.stops(
        "/tmp/reveal /etc/passwd | grep -q root && echo THROUGH",
        by="nosuid",
        besides=("noexec", "no-new-privileges"),
        prepare="cp /bin/reveal /tmp/reveal; chmod 4755 /tmp/reveal",
        user=SOMEBODY,
        image=setuid_image,
    )


def test_no_devices_in_tmp(proof: Proof) -> None:
    """No devices in /tmp (`nodev`)."""
    attack = "mknod /tmp/zero c 1 5 && head -c 1 /tmp/zero >/tmp/read && [ -s /tmp/read ] && echo THROUGH"
    proof.stops(attack, by="nodev", besides=("capabilities", "mknod", "helper user"), user=ROOT)


def test_system_calls_are_filtered(proof: Proof) -> None:
    """Docker's seccomp filter: nobody makes a user namespace, in which every user is a root with all capabilities."""
    proof.stops("unshare -U true 2>/dev/null && echo THROUGH", by="seccomp")


def test_process_limit(proof: Proof) -> None:
    """A process limit (`--pids-limit`): a command cannot start processes without end."""
    attack = "i=0; while [ $i -lt 60 ]; do sleep 3 >/dev/null 2>&1 & i=$((i+1)); done; echo THROUGH"
    proof.stops(attack, by="process limit", limits=Limits(pids=32))


def test_memory_limit(proof: Proof) -> None:
    """`sandbox_memory`, swap included: nor take more memory than it is given."""
    attack = """awk 'BEGIN { s = "x"; while (length(s) < 40000000) s = s s; print "THROUGH" }'"""
    proof.stops(attack, by="memory limit", limits=Limits(pids=64, memory_bytes=16 << 20))


def test_memory_that_tmp_may_take(proof: Proof) -> None:
    """A bounded /tmp (`size=`, `nr_inodes=`): no command fills the machine's memory, with bytes or with empty files."""
    small = Limits(pids=64, tmp_bytes=2 << 20)
    attack = "head -c 3000000 /dev/zero >/tmp/big && echo THROUGH; rm /tmp/big"
    proof.stops(attack, by="size of tmp", limits=small)
    if proof.boxes.kind.podman:
        return  # it refuses a number of files (M-30)
    for folder, files in (("/tmp", 1500), ("/dev/shm", 20000)):
        many = f"cd {folder}; i=0; while [ $i -lt {files} ]; do : >$i || exit; i=$((i+1)); done; echo THROUGH"
        proof.stops(many, by="number of files", besides=("size of tmp",), limits=small)


def test_dead_processes_are_buried(proof: Proof) -> None:
    """`--init`: processes whose parent has gone do not pile up until the limit is reached."""
    attack = (
        "for i in 1 2 3; do (sleep 0.1 &) done; sleep 1; grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null; "
        "grep -q '^State:.Z' /proc/[0-9]*/status 2>/dev/null && echo THROUGH"
    )
    proof.stops(attack, by="init")


def test_proxies_of_the_client_stay_out(proof: Proof, docker_engine: Engine, tmp_path: Path) -> None:
    """No variables of the host; M-12: Docker's client adds its proxies, with their passwords, podman its caller's."""
    proxy = "http://user:canary-7f3@proxy.example:3128"
    settings = {"proxies": {"default": {"httpProxy": proxy, "httpsProxy": proxy, "noProxy": "canary-7f3"}}}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    docker = DockerCli(docker_engine.client, dict(os.environ) | {"DOCKER_CONFIG": str(tmp_path), "https_proxy": proxy})
    proof.stops("env | grep -q canary-7f3 && echo THROUGH", by="proxies", docker=docker)


def test_network_none_reaches_nobody(proof: Proof) -> None:
    """No network (`--network none`): the host, which the default bridge reaches, is not reached."""
    gateway = gateway_of_the_bridge(proof.boxes.engine, proof.boxes.image)
    with listener_on_the_host() as (port, came):
        attack = f"nc -w 3 {gateway} {port} </dev/null && echo THROUGH"
        proof.stops(attack, by="network none")
        assert len(came) == 1


def test_read_only_workspace(proof: Proof) -> None:
    """Read-only workspace (`sandbox_readonly`): files can be read, none is changed, made or removed."""
    (proof.boxes.workdir / "f").write_text("old")
    (proof.boxes.workdir / "f").chmod(0o666)
    attack = "cat f >/dev/null && { echo new >f || touch g || rm f; } 2>/dev/null && echo THROUGH; echo old >f"
    proof.stops(attack, by="read-only", readonly=True)
    assert {path.name for path in proof.boxes.workdir.iterdir()} == {"f"}


def test_no_state_persists(proof: Proof, tmp_path: Path) -> None:
    """Auto-cleanup (`--rm`): what a command has left in the container ends with it."""
    keep = "echo kept >/var/kept; echo done"
    box = proof.boxes.start(user=ROOT)
    assert output(box, keep) == "done\n"
    box.close()
    assert proof.boxes.existing(os.getpid()) == []
    weak = proof.weakened("rm", user=ROOT)
    weak.output(keep)
    weak.lease.release()
    weak.await_state("exited")
    proof.boxes.engine.run("cp", f"{weak.name}:/var/kept", str(tmp_path / "kept"))
    assert (tmp_path / "kept").read_text() == "kept\n"


def test_commands_do_not_end_the_sandbox(proof: Proof) -> None:
    """An isolated keep-alive, commands by `docker exec` as another user; M-9: else `kill -1` ends all."""
    kill = "kill -KILL -1"
    box = proof.boxes.start(user=ROOT)
    box.run(kill, timeout_s=10)
    assert output(box, "echo alive") == "alive\n"
    weak = proof.weakened("helper user", user=ROOT)
    weak.output(kill)
    weak.await_state("", "removing")


def test_container_ends_with_its_odek(proof: Proof) -> None:
    """Ephemeral: a killed odek takes its container along, since it holds the pipe that keeps it (`--interactive`)."""
    proof.boxes.start()
    (client,) = clients_of(os.getpid())
    os.kill(client, signal.SIGKILL)
    proof.boxes.await_gone(os.getpid())
    weak = proof.weakened("lease")
    assert weak.lease.exited
    time.sleep(1)
    assert weak.state() == "running"


@pytest.mark.docker_only  # with podman networks are refused
def test_sandbox_takes_no_name_of_a_service(proof: Proof, docker_engine: Engine, base_image: str) -> None:
    """Attached networks: no alias is added, so the sandbox cannot pose as the database of its neighbours."""
    name = f"odek-security-alias-{os.getpid()}"
    docker_engine.run("network", "create", "--internal", name)
    redis = ("run", "--rm", "--network", name, base_image, "nslookup", "redis")
    try:
        wanted = NetworkRequest(mode="none", names=(name,), names_origin="test", compose_project="")
        networks = inspect_networks(wanted, proof.boxes.docker)
        box = proof.boxes.start(networks=networks)
        assert docker_engine.run(*redis, check=False).returncode != 0
        box.close()
        weak = proof.weakened("no alias", networks=networks)
        assert docker_engine.run(*redis, check=False).returncode == 0
        docker_engine.run("rm", "--force", weak.name)
    finally:
        docker_engine.run("network", "rm", name)


FOUND_OUT = (
    "capabilities", "no-new-privileges", "seccomp", "own seccomp profile", "noexec", "nosuid", "tmpfs", "size of tmp",
    "helper user", "process limit", "memory limit", "init", "rm", "network none", "read-only", "private ipc",
    "host's ipc", "private cgroups", pytest.param("number of files", marks=pytest.mark.docker_only),  # M-30
)  # fmt: skip


@pytest.mark.parametrize("protection", FOUND_OUT)
def test_engine_that_drops_a_protection_is_found_out(protection: str, proof: Proof) -> None:
    """R-37, R-380: whatever the engine said, the container that runs is looked at; the run stops, nothing is left."""
    docker = CarelessDocker(proof.boxes.engine.client, dict(os.environ))
    docker.without = (protection,)
    limits = Limits(pids=64, memory_bytes=64 << 20)
    with pytest.raises(SandboxConfigError) as refused:
        proof.boxes.start(docker=docker, limits=limits, readonly=True)
    assert refused.value.message == "the sandbox that Docker started is not the one that was asked for"
    assert proof.boxes.existing(os.getpid()) == []
