"""What the container can reach: attacks from the inside, and what inspect says from the outside."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.model_server import ModelServer, ServedRequest, calls, text
from support.docker_engine import Engine, gateway_of_the_bridge
from support.odek_process import Odek
from support.scenario import listener_on_the_host, run_script, tool_results

from odek.sandbox.podman import docker_inspect
from odek.sandbox.seccomp import OPTION, is_own_profile

CANARY = "canary-7f3"


def output_of(odek: Odek, *commands: str, flags: tuple[str, ...] = ()) -> list[str]:
    """Run commands in one sandbox, one after the other, and return what each printed, without the fence."""
    # each in a reply of its own: commands of one reply run side by side, and some of these kill what they reach
    script = (*(calls(("shell", {"command": command, "timeout": 20})) for command in commands), text("done"))
    outcome, server = run_script(odek, *script, flags=flags)
    assert outcome.code == 0, outcome.stderr
    results = tool_results(server)
    return ["\n".join(line for line in result.splitlines() if "untrusted_content_" not in line) for result in results]


def inspect_during(odek: Odek, engine: Engine, *flags: str) -> dict[str, object]:
    """Return what `docker inspect` says of the container while a run waits for its model.

    At its second request: the first one may come before the container is there (S-20).
    """
    seen: dict[str, object] = {}

    def look(_: ServedRequest) -> object:
        (identity,) = engine.containers_of(process.pid)
        seen.update(json.loads(engine.run("inspect", identity).stdout)[0])
        return text("done")

    with ModelServer(calls(("shell", {"command": "true"})), look) as server:  # type: ignore[arg-type]
        process = odek.start("run", "--base-url", server.base_url, *flags, "x")
        _, stderr = process.communicate(timeout=60)
    assert process.returncode == 0, stderr
    return seen


def test_container_has_no_privileges(sandboxed: Odek, docker_engine: Engine) -> None:
    """S-5 No capabilities, no privilege escalation, no device, a filter of system calls that is never weaker than
    Docker's own, a process limit, `/tmp` without programs and setuid, and of bounded size; proved by inspecting the
    running container.
    """
    seen = inspect_during(sandboxed, docker_engine)
    podman = "OCIRuntime" in seen
    host = (docker_inspect(seen) if podman else seen)["HostConfig"]
    assert isinstance(host, dict)
    wanted = {
        "CapDrop": ["ALL"], "CapAdd": [] if podman else None, "Privileged": False, "Devices": [], "PidsLimit": 4096,
        "PidMode": "", "IpcMode": "private", "UTSMode": "private" if podman else "", "NetworkMode": "none",
        "AutoRemove": True,
    }  # fmt: skip
    assert {key: host[key] for key in wanted} == wanted
    privileges, seccomp = host["SecurityOpt"]
    if podman:  # shows the name of the file
        seccomp = OPTION + Path(seccomp.removeprefix(OPTION)).read_text()
    assert (privileges, is_own_profile(seccomp)) == ("no-new-privileges", True)
    assert {"noexec", "nosuid", "nodev", f"size={1 << 30}"} <= set(host["Tmpfs"]["/tmp"].split(","))


def test_container_has_no_privileges_seen_from_inside(sandboxed: Odek) -> None:
    """S-5: the kernel says the same, and the attacks fail, for root too."""
    attacks = (
        "grep -E '^(CapInh|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status | tr -s '\\t' ' '",
        "cp /bin/busybox /tmp/x && chmod 4755 /tmp/x && /tmp/x true; echo $?",
        "mount -t tmpfs none /mnt; echo $?; unshare -Ur true 2>&1 | tail -n 1",
        "mknod /tmp/d b 8 0 || echo refused; ls /dev | tr '\\n' ' '",
        "chown 1:1 /workspace/f; chmod 4755 /workspace/f && echo set",
        "echo 1 >/proc/sys/kernel/panic || echo refused; echo b >/proc/sysrq-trigger || echo refused",
    )
    (sandboxed.cwd / "f").write_text("")
    status, program, mounting, devices, _, kernel = output_of(sandboxed, *attacks, flags=("--sandbox-user", "0:0"))
    zero = "0000000000000000"
    assert status.splitlines()[:7] == [
        *(f"Cap{name}: {zero}" for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")),
        "NoNewPrivs: 1",
        "Seccomp: 2",
    ]
    assert ("ermission denied" in program, "\n0\n" in f"\n{program}\n") == (True, False), program
    assert ("denied" in mounting or "not permitted" in mounting) is True, mounting
    assert "refused" in devices
    names = set(devices.split("refused")[-1].splitlines()[1].split()) if "\n" in devices else set()
    assert names & {"sda", "vda", "nvme0n1", "kvm", "mem", "kmsg", "fuse", "dri"} == set()
    assert kernel.count("refused") == 2
    assert (sandboxed.cwd / "f").stat().st_uid == os.getuid()


def test_only_the_working_directory_is_shared(sandboxed: Odek, docker_engine: Engine, tmp_path: Path) -> None:
    """S-6 Of the host's files only the working directory is shared. Not if that is `/`, a system folder, anybody's
    home or the keys and start-up files in it, or holds the Docker socket or the settings of Docker's client. What
    is put in its place, or in that of a volume, while odek asks, builds, pulls and starts is not shared either:
    each mount is compared with the folder that odek holds open, by what the kernel tells of the container's first
    process. No program of the image has a part in that, where the engine runs on this machine; where it does not
    (Docker Desktop, a remote engine, odek in a container, a folder on NFS), the image's shell must show a file that
    odek has put into each folder. What is mounted below the folder (`/proc` of a chroot, a disk) is left out and
    named; an empty folder is there.
    """
    (tmp_path / "beside").write_text(CANARY)
    seen = inspect_during(sandboxed, docker_engine)
    assert [(mount["Type"], mount["Source"], mount["Destination"]) for mount in seen["Mounts"]] == [  # type: ignore[attr-defined]
        ("bind", os.path.realpath(sandboxed.cwd), "/workspace")
    ]
    beside, socket_there = output_of(
        sandboxed, f"cat {tmp_path}/beside /workspace/../beside; ls {sandboxed.home}", "ls /var/run/docker.sock /run"
    )
    assert (CANARY in beside, "docker.sock" in socket_there.replace("ls: /var/run/docker.sock", "")) == (False, False)


@pytest.mark.parametrize("folder", ["/", "/etc", "/usr", "/var", "/home", "/run", "/dev", "/proc", "/root", "HOME"])
def test_folder_that_no_sandbox_may_see(folder: str, sandboxed: Odek) -> None:
    """S-6: started there, odek stops; it does not share a part of it instead."""
    cwd = sandboxed.home if folder == "HOME" else Path(folder)
    if not cwd.is_dir():
        pytest.skip(f"this machine has no {folder}")
    with ModelServer() as server:
        outcome = sandboxed.run("run", "--base-url", server.base_url, "x", cwd=cwd)
        assert (outcome.code, server.requests) == (1, []), outcome.stderr
    assert outcome.stderr.startswith("odek: error: ")


def test_folder_that_holds_the_docker_socket(sandboxed: Odek, tmp_path: Path) -> None:
    """S-6: the socket is the key to the whole host."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(sandboxed.cwd / "docker.sock"))
        host = f"unix://{sandboxed.cwd}/docker.sock"
        with ModelServer() as server:
            outcome = sandboxed.run("run", "--base-url", server.base_url, "x", env={"DOCKER_HOST": host})
            assert (outcome.code, server.requests) == (1, []), outcome.stderr


def test_network_none_has_no_way_out(sandboxed: Odek, docker_engine: Engine, base_image: str) -> None:
    """S-7 With network `none` (the default) there is no way out, not to the host either, but for sockets in the folder
    that programs of this machine listen on: they are named at the start. The folders where all programs put theirs
    (`/tmp`, `/var/tmp`, `/dev/shm`, `/run/user/…`) are refused.
    """
    gateway = gateway_of_the_bridge(docker_engine, base_image)
    with listener_on_the_host() as (port, came):
        addresses = ["127.0.0.1", gateway, "169.254.169.254", "192.0.2.1", "::1"]
        commands = [f"nc -w 2 {address} {port} </dev/null && echo THROUGH" for address in addresses]
        devices, names, *tries = output_of(
            sandboxed,
            "ls /sys/class/net; cat /proc/net/route | tail -n +2",
            "nslookup example.com || echo none",
            *commands,
        )
        assert devices.splitlines()[:-1] == ["lo"]
        assert "none" in names
        assert ([result for result in tries if "THROUGH" in result], came) == ([], [])
        # the same command, with the network that the operator may choose: the host is there to be reached
        assert "THROUGH" in output_of(sandboxed, commands[1], flags=("--sandbox-network", "bridge"))[0]


@pytest.fixture
def network(docker_engine: Engine) -> Iterator[tuple[str, str]]:
    """Name and full ID of a network of somebody's."""
    name = f"odek-security-{os.getpid()}"
    identity = docker_engine.run("network", "create", "--internal", name).stdout.strip()
    yield name, identity
    docker_engine.run("network", "rm", name)


@pytest.mark.docker_only  # with podman networks are refused
def test_networks_are_exactly_those_named(sandboxed: Odek, docker_engine: Engine, network: tuple[str, str]) -> None:
    """S-8 Attached networks are exactly those that were named and shown, by full ID; nothing is guessed, a prefix does
    not count, and one that joined or was made again in between stops the run.
    """
    name, identity = network
    for wrong in (identity, identity[:12], name[:-1], name.upper(), "bridge", "host", f"none,{name}", "default"):
        with ModelServer() as server:
            outcome = sandboxed.run("run", "--base-url", server.base_url, "--sandbox-networks", wrong, "x")
            assert (outcome.code, server.requests) == (1, []), (wrong, outcome.stderr)
    seen = inspect_during(sandboxed, docker_engine, "--sandbox-networks", name)
    attached = seen["NetworkSettings"]["Networks"]  # type: ignore[index]
    assert {key: value["NetworkID"] for key, value in attached.items()} == {name: identity}
    own = {str(seen["Id"])[:12], str(seen["Name"]).removeprefix("/")}
    assert set(attached[name]["Aliases"] or []) <= own
    # the word that switches off what weaker settings name attaches nothing
    config = sandboxed.home / ".odek" / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"sandbox_networks": [name]}))
    seen = inspect_during(sandboxed, docker_engine, "--sandbox-networks", "none")
    assert set(seen["NetworkSettings"]["Networks"]) == {"none"}  # type: ignore[index]


def test_compose_network_that_is_not_labelled_is_not_guessed(
    sandboxed: Odek, docker_engine: Engine, network: tuple[str, str]
) -> None:
    """S-8: a network named like a project's default one does not count."""
    name, _ = network
    docker_engine.run("network", "create", f"{name}p_default")
    try:
        with ModelServer() as server:
            outcome = sandboxed.run("run", "--base-url", server.base_url, "--sandbox-compose", f"{name}p", "x")
            assert (outcome.code, server.requests) == (1, []), outcome.stderr
    finally:
        docker_engine.run("network", "rm", f"{name}p_default")


def watch_argv(word: str, stop: threading.Event, found: list[str]) -> None:
    """Look at every argument list of this machine until `stop`."""
    while not stop.is_set():
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and entry.name != str(os.getpid()):
                with contextlib.suppress(OSError):
                    line = (entry / "cmdline").read_bytes()
                    if word.encode() in line:
                        found.append(line.decode(errors="replace"))
        time.sleep(0.002)


def test_secrets_stay_where_they_belong(sandboxed: Odek, docker_engine: Engine) -> None:
    """S-9 Your API key and your environment are not in the container. Values of `sandbox_env` are in no argument list,
    no log, and no `docker inspect`.
    """
    key, variable = "sk-canary-key", "canary-of-the-environment"
    config = sandboxed.home / ".odek" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "sandbox_env": {"DB_PASS": CANARY}}))
    argv: list[str] = []
    inspected: list[str] = []

    def look(_: ServedRequest) -> object:
        inspected.append(docker_engine.run("inspect", *docker_engine.containers_of(process.pid)).stdout)
        return text("done")

    command = (
        "[ ${#DB_PASS} = 10 ] && echo arrived; env; mount; cat /workspace/* 2>/dev/null; "
        "for f in /proc/[0-9]*/environ; do cat $f 2>/dev/null; done"
    )
    stop = threading.Event()
    watcher = threading.Thread(target=watch_argv, args=("canary", stop, argv))
    watcher.start()
    try:
        with ModelServer(calls(("shell", {"command": command})), look) as server:  # type: ignore[arg-type]
            process = sandboxed.start(
                *("run", "--base-url", server.base_url, "--interaction-mode", "verbose", "--json", "x"),
                env={"ODEK_API_KEY": key, "MY_TOKEN": variable, "ODEK_DEBUG": "1"},
            )
            _, stderr = process.communicate(timeout=60)
    finally:
        stop.set()
        watcher.join()
    assert process.returncode == 0, stderr
    assert server.requests[0].headers["authorization"] == f"Bearer {key}"
    (result,) = tool_results(server)
    # the value is there, and odek hides it from the model once more
    assert ("arrived\n" in result, "DB_PASS=" in result) == (True, True)
    assert [secret for secret in (CANARY, key, variable) if secret in result] == []
    assert (argv, "canary" in inspected[0], "canary" in stderr) == ([], False, False)


def test_commands_cannot_touch_what_keeps_the_sandbox_alive(sandboxed: Odek) -> None:
    """S-10 Commands cannot signal, read or end what keeps the sandbox alive."""
    attacks = (
        "kill -9 1; kill -15 1; kill -9 -1; killall -9 sh; echo tried",
        "cat /proc/1/environ /proc/1/mem 2>&1 | head -n 2; ls -l /proc/1/fd /proc/1/cwd",
        "for p in /proc/[0-9]*; do echo x >$p/fd/0; echo x >$p/fd/1; done 2>&1 | grep -c denied | tail -n 1",
        "for p in /proc/[0-9]*; do echo 1000 >$p/oom_score_adj; done; echo tried",
        "echo still here",
    )
    *_, reading, writing, _, last = output_of(sandboxed, *attacks, flags=("--sandbox-user", "1000:1000"))
    assert "ermission denied" in reading
    assert int(writing.splitlines()[-2]) >= 2
    assert last.startswith("still here\n")


def test_root_of_the_container_cannot_touch_it_either(sandboxed: Odek) -> None:
    """S-10: uid 0 without capabilities is nobody special."""
    attacks = ("kill -9 1; kill -9 -1; echo tried", "cat /proc/1/environ; echo x >/proc/1/fd/0", "echo still here")
    _, reading, last = output_of(sandboxed, *attacks, flags=("--sandbox-user", "0:0"))
    assert (reading.count("ermission denied"), last.startswith("still here\n")) == (2, True), reading


def test_file_tools_reach_no_further_than_commands(sandboxed: Odek, tmp_path: Path) -> None:
    """S-11 File tools reach what commands reach and no more: nothing outside the workspace, whatever links and races
    do; a read-only workspace is read-only for them.
    """
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text(CANARY)
    links = {
        "file": outside / "secret",
        "folder": outside,
        "dangling": outside / "new",
        "absolute": Path("/etc/passwd"),
    }
    for name, target in links.items():
        (sandboxed.cwd / name).symlink_to(target)
    paths = ["file", "folder/secret", "absolute", "../outside/secret", "/etc/passwd", f"{outside}/secret", "a/../../x"]
    reads = [("read_file", {"path": path}) for path in paths]
    writes = [("write_file", {"path": path, "content": "owned"}) for path in [*paths, "dangling", "folder/new"]]
    patches = [("patch", {"path": path, "old_string": CANARY, "new_string": "owned"}) for path in paths]
    outcome, server = run_script(sandboxed, calls(*reads, *writes, *patches), text("done"))
    assert outcome.code == 0, outcome.stderr
    results = tool_results(server)
    assert len(results) == len(reads) + len(writes) + len(patches)
    assert [result for result in results if CANARY in result or '"success":true' in result] == []
    assert sorted(path.name for path in outside.iterdir()) == ["secret"]
    assert (outside / "secret").read_text() == CANARY


def test_file_tools_lose_every_race(sandboxed: Odek, tmp_path: Path) -> None:
    """S-11: a command that swaps a folder for a link again and again gets nothing written outside."""
    outside = tmp_path / "outside"
    outside.mkdir()
    swap = "mkdir d e; (while :; do mv d f; ln -s /tmp d; rm d; mv f d; done) >/dev/null 2>&1 &"
    (sandboxed.cwd / "swap.sh").write_text(swap.replace("/tmp", str(outside)))
    writes = [("write_file", {"path": f"d/{number}", "content": "owned"}) for number in range(15)]
    outcome, _ = run_script(sandboxed, calls(("shell", {"command": "sh swap.sh"}), *writes), text("done"))
    assert (outcome.code, list(outside.iterdir())) == (0, []), outcome.stderr


def test_read_only_workspace_is_read_only_for_the_file_tools(sandboxed: Odek) -> None:
    """S-11: and for commands."""
    (sandboxed.cwd / "f").write_text("old")
    attempts = calls(
        ("write_file", {"path": "f", "content": "new"}),
        ("write_file", {"path": "g", "content": "new"}),
        ("patch", {"path": "f", "old_string": "old", "new_string": "new"}),
        ("shell", {"command": "echo new >f; mount -o remount,rw /workspace; rm f"}),
    )
    outcome, _ = run_script(sandboxed, attempts, text("done"), flags=("--sandbox-readonly",))
    assert (outcome.code, os.listdir(sandboxed.cwd), (sandboxed.cwd / "f").read_text()) == (0, ["f"], "old")


@pytest.mark.parametrize("exchanged", ["volume", "working directory"])
def test_what_is_put_in_the_place_of_a_shared_folder(
    exchanged: str, sandboxed: Odek, docker_engine: Engine, tmp_path: Path
) -> None:
    """S-6: by another sandbox that has the folder above, at the moment before Docker mounts it."""
    beside, shim = tmp_path / "beside", tmp_path / "bin"
    for folder in (beside, shim, sandboxed.cwd / "cache"):
        folder.mkdir()
    (beside / "key").write_text(CANARY)
    place = sandboxed.cwd / "cache" if exchanged == "volume" else sandboxed.cwd
    (shim / "docker").write_text(
        f'#!/bin/sh\ncase $1 in run) mv "{place}" "{tmp_path}/old"; ln -s "{beside}" "{place}" ;; esac\n'
        f'exec {docker_engine.client} "$@"\n'
    )
    (shim / "docker").chmod(0o755)
    settings = json.loads((sandboxed.home / ".odek" / "config.json").read_text())
    settings["sandbox_volumes"] = ["./cache:/data"] if exchanged == "volume" else []
    (sandboxed.home / ".odek" / "config.json").write_text(json.dumps(settings))
    with ModelServer() as server:
        env = {"PATH": f"{shim}:{os.environ['PATH']}"}
        outcome = sandboxed.run("run", "--base-url", server.base_url, "x", env=env)
        assert (outcome.code, outcome.stdout, len(server.requests)) == (1, "", 1), outcome.stderr
    assert "is not" in outcome.stderr or "cannot be read" in outcome.stderr


def test_home_out_of_sandbox_env_is_as_secret_as_the_rest(sandboxed: Odek, docker_engine: Engine) -> None:
    """S-9: it used to be an argument of docker run."""
    settings = json.loads((sandboxed.home / ".odek" / "config.json").read_text())
    settings["sandbox_env"] = {"HOME": f"/dev/shm/{CANARY}"}
    (sandboxed.home / ".odek" / "config.json").write_text(json.dumps(settings))
    assert CANARY not in json.dumps(inspect_during(sandboxed, docker_engine))
