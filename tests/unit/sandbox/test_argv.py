"""Whole command lines, compared word for word."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest

from odek.sandbox import argv
from odek.sandbox.container import scripts
from odek.sandbox.docker import find_image_argv, inspect_argv
from odek.sandbox.engine import Engine
from odek.sandbox.network.plan import Network, NetworkPlan
from odek.sandbox.spec import Limits, Mount, SandboxSpec

IMAGE = f"sha256:{'a' * 64}"
NETWORK = Network(name="n", id="b" * 64, internal=True)
PLAIN = SandboxSpec(
    image="alpine:3.22",
    image_id=IMAGE,
    workdir="/w",
    readonly=False,
    user="1000:100",
    home="/tmp",
    limits=Limits(),
)
FULL = SandboxSpec(
    image="alpine:3.22",
    image_id=IMAGE,
    workdir='/w,s:"x"',
    readonly=True,
    user="65534",
    home="/canary-home",
    limits=Limits(pids=64, memory_bytes=6291456, nano_cpus=1_500_000_000),
    env=(("SECRET", "canary-7f3"),),
    volumes=(Mount(source="/w/a", target="/data"), Mount(source="/w/b", target="/b", readonly=True)),
    networks=NetworkPlan(attached=(NETWORK,)),
)
SHARED_MEMORY = "/dev/shm:rw,noexec,nosuid,nodev,mode=1777,size=67108864,nr_inodes=16384"
PROXIES = (
    "--env", "HTTP_PROXY=", "--env", "http_proxy=", "--env", "HTTPS_PROXY=", "--env", "https_proxy=",
    "--env", "FTP_PROXY=", "--env", "ftp_proxy=", "--env", "ALL_PROXY=", "--env", "all_proxy=",
    "--env", "NO_PROXY=", "--env", "no_proxy=",
)  # fmt: skip


def test_run_of_a_plain_sandbox() -> None:
    """R-30, R-32, D-10."""
    assert argv.run_argv(PLAIN, name="odek-7-1", labels=(("io.odek.sandbox", "1"), ("io.odek.pid", "7"))) == (
        "run", "--rm", "--interactive", "--sig-proxy=false", "--init", "--pull", "never",
        "--name", "odek-7-1", "--hostname", "odek-7-1",
        "--label", "io.odek.sandbox=1", "--label", "io.odek.pid=7",
        "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
        "--pids-limit", "4096",
        "--network", "none", "--dns", "0.0.0.0", "--dns-search", ".",
        "--ipc", "private", "--cgroupns", "private", "--ulimit", "core=0", "--oom-score-adj", "500",
        "--log-driver", "none", "--no-healthcheck", "--stop-timeout", "1",
        "--user", "65534:65534",
        "--tmpfs", "/tmp:rw,noexec,nosuid,nodev,mode=1777,size=1073741824,nr_inodes=262144,uid=1000,gid=100",
        "--tmpfs", SHARED_MEMORY,
        "--mount", 'type=bind,"source=/w","target=/workspace",bind-nonrecursive',
        "--workdir", "/workspace",
        "--env", "HOME=/tmp", *PROXIES,
        "--entrypoint", "sh", "--", IMAGE, "-c", scripts.KEEP_ALIVE,
    )  # fmt: skip


def test_run_of_a_sandbox_with_everything() -> None:
    """R-30, R-32, R-33, R-54: volumes, limits, the network by its ID; no value of sandbox_env."""
    line = argv.run_argv(FULL, name="odek-7-2", labels=())
    assert line == (
        "run", "--rm", "--interactive", "--sig-proxy=false", "--init", "--pull", "never",
        "--name", "odek-7-2", "--hostname", "odek-7-2",
        "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
        "--pids-limit", "64", "--memory", "6291456", "--memory-swap", "6291456", "--cpus", "1.5",
        "--network", "b" * 64, "--dns", "0.0.0.0", "--dns-search", ".",
        "--ipc", "private", "--cgroupns", "private", "--ulimit", "core=0", "--oom-score-adj", "500",
        "--log-driver", "none", "--no-healthcheck", "--stop-timeout", "1",
        "--user", "65533:65533",
        "--tmpfs", "/tmp:rw,noexec,nosuid,nodev,mode=1777,size=1073741824,nr_inodes=262144,uid=65534",
        "--tmpfs", SHARED_MEMORY,
        "--mount", 'type=bind,"source=/w,s:""x""","target=/workspace",readonly,bind-nonrecursive',
        "--mount", 'type=bind,"source=/w/a","target=/data",bind-nonrecursive',
        "--mount", 'type=bind,"source=/w/b","target=/b",readonly,bind-nonrecursive',
        "--workdir", "/workspace",
        "--env", "HOME=/tmp", *PROXIES,
        "--entrypoint", "sh", "--", IMAGE, "-c", scripts.KEEP_ALIVE,
    )  # fmt: skip
    assert "canary" not in repr(line)


@pytest.mark.parametrize(
    ("nano", "text"),
    [
        (10_000_000, "0.01"),
        (1_000_000_000, "1"),
        (2_000_000_001, "2.000000001"),
        (10_000_000_000, "10"),
        (100_000_000, "0.1"),
    ],
)
def test_cpus_are_written_exactly(nano: int, text: str) -> None:
    """R-32."""
    spec = SandboxSpec(
        image="i", image_id=IMAGE, workdir="/w", readonly=False, user="0", home="/",
        limits=Limits(nano_cpus=nano)
    )  # fmt: skip
    line = argv.run_argv(spec, name="n", labels=())
    assert line[line.index("--cpus") + 1] == text


@pytest.mark.parametrize(
    ("user", "owner"),
    [
        ("1000:100", ",uid=1000,gid=100"),
        ("1000", ",uid=1000"),
        ("app:100", ",gid=100"),
        ("app", ""),
        ("0:0", ",uid=0,gid=0"),
        ("1:g", ",uid=1"),
    ],
)
def test_tmpfs_belongs_to_the_user_of_the_commands(user: str, owner: str) -> None:
    """R-30: writable whatever mode the image's /tmp has."""
    spec = SandboxSpec(image="i", image_id=IMAGE, workdir="/w", readonly=False, user=user, home="/", limits=Limits())
    assert argv.tmpfs_options(spec) == f"rw,noexec,nosuid,nodev,mode=1777,size=1073741824,nr_inodes=262144{owner}"
    podman = replace(spec, engine=Engine(podman=True))  # D-13: it refuses owners
    assert argv.tmpfs_options(podman) == "rw,noexec,nosuid,nodev,mode=1777,size=1073741824"


@pytest.mark.parametrize(("size", "files"), [(1 << 20, 1024), (1 << 30, 262144), (3 << 30, 786432)])
def test_every_tmpfs_is_bounded(size: int, files: int) -> None:
    """R-30: by bytes, and by files, which take the kernel's own memory; podman makes /dev/shm itself."""
    spec = replace(PLAIN, limits=Limits(tmp_bytes=size), attachments=True)
    line = argv.run_argv(spec, name="n", labels=())
    mounts = [line[place + 1] for place, word in enumerate(line) if word == "--tmpfs"]
    bounds = f"size={size},nr_inodes={files}"
    assert [bounds in mount for mount in mounts] == [True, True, False]
    assert mounts[2] == SHARED_MEMORY
    podman = argv.run_argv(replace(spec, engine=Engine(podman=True)), name="n", labels=())
    mounts = [podman[place + 1] for place, word in enumerate(podman) if word == "--tmpfs"]
    place = podman.index("--image-volume")  # E8: or it makes them, through links, in the user's folder
    assert podman[place + 1] == "ignore"
    assert "--image-volume" not in argv.run_argv(spec, name="n", labels=())
    assert [mount.rpartition(",")[2] for mount in mounts] == [f"size={size}"] * 2


OPEN6 = replace(NETWORK, internal=False, ipv6=True)
DNS, IPV6 = ("--dns", "0.0.0.0", "--dns-search", "."), ("--sysctl", "net.ipv6.conf.all.disable_ipv6=1")


@pytest.mark.parametrize(
    ("mode", "attached", "engine", "flags"),
    [
        ("none", (), Engine(), DNS),
        ("none", (NETWORK,), Engine(), DNS),
        ("none", (NETWORK, replace(NETWORK, ipv6=True)), Engine(), (*DNS, *IPV6)),
        ("none", (NETWORK, OPEN6), Engine(), ()),
        ("bridge", (replace(NETWORK, ipv6=True),), Engine(), ()),
        ("bridge", (), Engine(), ()),
        ("none", (), Engine(podman=True), ()),
    ],
)
def test_sandbox_without_the_internet_has_no_way_to_it_by_name_or_ipv6(
    mode: str, attached: tuple[Network, ...], engine: Engine, flags: tuple[str, ...]
) -> None:
    """E4: the host's resolver is neither named nor asked; podman takes no resolver beside network none."""
    line = argv.run_argv(
        replace(PLAIN, networks=NetworkPlan(mode=mode, attached=attached), engine=engine), name="n", labels=()
    )
    start = line.index("--network") + 2
    assert line[start : line.index("--ipc")] == flags


HOSTILE = [
    "plain",
    "o t",
    "a:b:ro",
    "a,readonly",
    'a"b',
    '"',
    '""',
    "a,source=/",
    "a\nb",
    "ü",
    "a=b",
    "\\",
    "a'b",
    ",",
    'a","target=/etc',
]


@pytest.mark.parametrize("name", HOSTILE)
def test_bind_option_carries_any_path(name: str) -> None:
    """R-34: read back by a CSV reader, as Docker does."""
    option = argv.bind_option(Mount(source=f"/w/{name}", target="/workspace", readonly=True))
    (fields,) = (
        csv.reader([option], strict=True) if "\n" not in option else csv.reader(option.splitlines(True), strict=True)
    )
    assert fields == ["type=bind", f"source=/w/{name}", "target=/workspace", "readonly", "bind-nonrecursive"]


@pytest.mark.parametrize("name", [name for name in HOSTILE if "\n" not in name])
def test_bind_option_carries_any_target(name: str) -> None:
    """R-33: a target cannot smuggle a second source or target into the option."""
    option = argv.bind_option(Mount(source="/w/x", target=f"/data/{name}"))
    (fields,) = csv.reader([option], strict=True)
    assert fields == ["type=bind", "source=/w/x", f"target=/data/{name}", "bind-nonrecursive"]


def test_exec_runs_the_script_as_the_user_with_positional_arguments() -> None:
    """D-10, B15: what the arguments are not is the command."""
    assert argv.exec_argv("id", user="1:2", script="echo", args=("a", "-b")) == (
        "exec", "--interactive", "--user", "1:2", "id", "sh", "-c", "echo", "sh", "a", "-b",
    )  # fmt: skip
    assert argv.exec_argv("id", user="1:2", script="echo", call="m") == (
        "exec", "--interactive", "--user", "1:2", "--env", "ODEK_CALL=m", "id", "sh", "-c", "echo", "sh",
    )  # fmt: skip


def test_cover_is_in_words_that_docker_and_podman_know() -> None:
    """F4, A6: of a tmpfs podman knows no `readonly` (M-30)."""
    assert argv.cover_option('/workspace/a,"b') == 'type=tmpfs,"target=/workspace/a,""b",ro'


def test_other_lines() -> None:
    """R-38, R-54, D-12: options end before the first name."""
    assert inspect_argv("container", "a", "b") == ("inspect", "--type", "container", "--", "a", "b")
    assert argv.remove_argv("a") == ("rm", "--force", "--volumes", "--", "a")
    form = "{{.Id}} {{with .Config}}{{json .Volumes}}{{end}}"
    assert find_image_argv("-x") == ("image", "inspect", "--format", form, "--", "-x")
    assert find_image_argv("cafe")[-1] == "cafe:latest"
    assert argv.pull_argv("-x") == ("pull", "--", "-x")
    assert argv.list_by_label_argv("l=1", "{{.ID}}") == (
        "ps", "--all", "--no-trunc", "--filter", "label=l=1", "--format", "{{.ID}}",
    )  # fmt: skip
    form = "[{{json .ID}},{{json .Name}},{{json .Driver}},{{json .Scope}}]"
    assert argv.list_networks_argv() == ("network", "ls", "--no-trunc", "--format", form)
    assert argv.list_networks_argv(project="app") == (
        "network", "ls", "--no-trunc", "--format", form, "--filter", "label=com.docker.compose.project=app",
    )  # fmt: skip
    assert inspect_argv("network", "a", "b") == ("network", "inspect", "--", "a", "b")
    assert argv.connect_argv("n", "c") == ("network", "connect", "--", "n", "c")


def test_gits_data_is_mounted_read_only_at_the_path_where_it_is_looked_for() -> None:
    """A19."""
    spec = replace(PLAIN, git=Mount(source='/m,"x/.git', target="/main/.git", readonly=True))
    line = argv.run_argv(spec, name="n", labels=())
    assert 'type=bind,"source=/m,""x/.git","target=/main/.git",readonly,bind-nonrecursive' in line
