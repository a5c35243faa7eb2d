"""The container on a real engine: its flags, its user, its environment, its folder."""

from __future__ import annotations

import itertools
import os
import re
import threading
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from support.docker_engine import Engine
from support.sandboxes import Boxes, command_lines, output

from odek.sandbox.argv import NONCE_LABEL
from odek.sandbox.container.container import Container
from odek.sandbox.container.scripts import CHECK
from odek.sandbox.docker import DockerCli, DockerProcess
from odek.sandbox.errors import SandboxConfigError
from odek.sandbox.seccomp import is_own_profile
from odek.sandbox.spec import Limits, Mount
from odek.sandbox_grammar import MIN_PIDS_LIMIT

ME = f"{os.getuid()}:{os.getgid()}"
USERS = sorted({ME, "12345:54321", "0:0"})


@pytest.mark.docker_only
def test_every_flag_is_in_force(boxes: Boxes) -> None:
    """R-30, R-32."""
    limits = Limits(pids=100, memory_bytes=64 << 20, nano_cpus=500_000_000)
    shown = boxes.inspect(boxes.start(limits=limits))
    host = shown["HostConfig"]
    assert {
        "AutoRemove": host["AutoRemove"],
        "Init": host["Init"],
        "CapDrop": host["CapDrop"],
        "CapAdd": host["CapAdd"],
        "Privileged": host["Privileged"],
        "SecurityOpt": host["SecurityOpt"][:1],
        "own seccomp profile": [is_own_profile(option) for option in host["SecurityOpt"][1:]],
        "PidsLimit": host["PidsLimit"],
        "Memory": host["Memory"],
        "NanoCpus": host["NanoCpus"],
        "NetworkMode": host["NetworkMode"],
        "IpcMode": host["IpcMode"],
        "CgroupnsMode": host["CgroupnsMode"],
        "PidMode": host["PidMode"],
        "OomScoreAdj": host["OomScoreAdj"],
        "LogConfig": host["LogConfig"]["Type"],
        "Ulimits": host["Ulimits"],
        "RestartPolicy": host["RestartPolicy"]["Name"],
        "Devices": host["Devices"],
        "PortBindings": host["PortBindings"],
    } == {
        "AutoRemove": True,
        "Init": True,
        "CapDrop": ["ALL"],
        "CapAdd": None,
        "Privileged": False,
        "SecurityOpt": ["no-new-privileges"],
        "own seccomp profile": [True],
        "PidsLimit": 100,
        "Memory": 64 << 20,
        "NanoCpus": 500_000_000,
        "NetworkMode": "none",
        "IpcMode": "private",
        "CgroupnsMode": "private",
        "PidMode": "",
        "OomScoreAdj": 500,
        "LogConfig": "none",
        "Ulimits": [{"Name": "core", "Hard": 0, "Soft": 0}],
        "RestartPolicy": "no",
        "Devices": [],
        "PortBindings": {},
    }
    assert {"noexec", "nosuid", "nodev"} <= set(host["Tmpfs"]["/tmp"].split(","))
    assert [(mount["Type"], mount["Source"], mount["Destination"], mount["RW"]) for mount in shown["Mounts"]] == [
        ("bind", str(boxes.workdir), "/workspace", True)
    ]
    config = shown["Config"]
    assert (config["WorkingDir"], config["User"], config["Healthcheck"]["Test"]) == (
        "/workspace",
        "65534:65534",
        ["NONE"],
    )
    assert re.fullmatch(rf"/odek-{os.getpid()}-[0-9]+", shown["Name"])
    assert {"io.odek.sandbox", "io.odek.pid", "io.odek.start", "io.odek.boot", "io.odek.pidns", "io.odek.uid"} < set(
        config["Labels"]
    )


def test_process_limit_limits(boxes: Boxes) -> None:
    """R-30."""
    box = boxes.start(limits=Limits(pids=32))
    done = box.run("i=0; while [ $i -lt 60 ]; do sleep 5 >/dev/null 2>&1 & i=$((i+1)); done; echo all", timeout_s=20)
    assert "all" not in done.output.text


@pytest.mark.parametrize("user", USERS)
def test_commands_run_as_the_user_with_a_writable_home(user: str, boxes: Boxes) -> None:
    """R-31, B10: also one that no passwd file knows; files on the host are that user's."""
    boxes.workdir.chmod(0o777)
    box = boxes.start(user=user)
    uid, _, gid = user.partition(":")
    assert output(box, "id -u; id -g; pwd; echo $HOME; touch $HOME/x && echo writable; umask").splitlines() == [
        uid, gid or "0", "/workspace", "/tmp", "writable", "0022",
    ]  # fmt: skip
    assert box.facts.user == f"{uid}:{gid or 0}"
    if uid == str(os.getuid()) or os.getuid() == 0:
        box.run("touch f; mkdir d", timeout_s=10)
        box.write("g/h", b"x", replacing=None)
        made = {
            path.name: (path.stat().st_uid, path.stat().st_mode & 0o777) for path in sorted(boxes.workdir.rglob("*"))
        }
        assert made == {"d": (int(uid), 0o755), "f": (int(uid), 0o644), "g": (int(uid), 0o755), "h": (int(uid), 0o644)}


@pytest.mark.parametrize(("umask", "modes"), [(0o077, (0o600, 0o700)), (0o002, (0o664, 0o775))])
def test_umask_is_the_one_of_the_invoking_process(umask: int, modes: tuple[int, int], boxes: Boxes) -> None:
    """B10: for commands and for the file tools."""
    box = boxes.start(umask=umask)
    box.run("touch f; mkdir d", timeout_s=10)
    box.write("e/g", b"", replacing=None)
    made = {name: (boxes.workdir / name).stat().st_mode & 0o777 for name in ("f", "d", "e/g", "e")}
    assert made == {"f": modes[0], "d": modes[1], "e/g": modes[0], "e": modes[1]}


@pytest.mark.parametrize("user", [*USERS, "65534:65534"])
def test_commands_cannot_signal_read_or_end_the_sandboxs_own_processes(user: str, boxes: Boxes) -> None:
    """R-31, D-10: whoever they run as."""
    box = boxes.start(user=user)
    attack = (
        "for p in /proc/[0-9]*; do p=${p#/proc/}; "
        '  [ "$(cat /proc/$p/comm)" = docker-init ] || grep -q odek-ready /proc/$p/cmdline || continue; '
        "  [ $p = $$ ] && continue; "
        "  kill -0 $p 2>/dev/null && echo signalled $p; "
        "  cat /proc/$p/environ 2>/dev/null && echo read $p; "
        "  ls /proc/$p/fd 2>/dev/null | grep -q . && echo listed $p; "
        "  echo x >/proc/$p/fd/0 && echo wrote $p; "
        "  echo looked; "
        "done 2>/dev/null"
    )
    assert output(box, attack) == "looked\nlooked\n"
    assert box.run("kill -KILL -1", timeout_s=10).code != 0
    assert output(box, "echo alive") == "alive\n"


class CommandLinePoll:
    """Looks at the arguments of every process on the machine, again and again, for a secret."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._poll)
        self.found: set[tuple[bytes, ...]] = set()
        self.looks = 0

    def _poll(self) -> None:
        while not self._over.is_set():
            self.looks += 1
            self.found |= {tuple(words) for _, words in command_lines() if any(self._secret in word for word in words)}
            time.sleep(0.005)

    def __enter__(self) -> CommandLinePoll:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def test_environment_arrives_byte_for_byte_and_in_no_argument(boxes: Boxes, capfd: pytest.CaptureFixture[str]) -> None:
    """R-32, B15, B16: line ends, equal signs, quotes, empty values; the client keeps its own variables."""
    env = (
        ("DB_PASS", "canary-7f3"),
        ("MULTI", "a\nb\n"),
        ("EQ", "x=y=z"),
        ("QUOTES", 'it\'s "$x" `y` \\ $(z) ü \udcff'),
        ("EMPTY", ""),
        ("DOCKER_HOST", "tcp://127.0.0.1:1"),
        ("LD_PRELOAD", "/evil.so"),
        ("PATH", "/evil:/bin"),
    )
    with CommandLinePoll(b"canary-7f3") as poll:
        box = boxes.start(env=env)
        shown = "; ".join(f'printf "%s|" "${{{name}?unset}}"' for name, _ in env)
        done = box.run(shown, timeout_s=20)
        inspected = boxes.inspect(box)
        box.close()
    assert poll.looks > 10
    assert poll.found == set()
    expected = "".join(f"{value}|" for _, value in env).encode("utf-8", "surrogateescape")
    assert done.output.data.endswith(expected)
    assert "canary-7f3" not in repr(inspected)
    assert "canary-7f3" not in "".join(capfd.readouterr())


def test_environment_of_the_host_stays_out(boxes: Boxes) -> None:
    """R-32: nothing but the image's variables, HOME, and empty proxies."""
    docker = DockerCli(boxes.engine.client, dict(os.environ) | {"HOSTVAR": "hostsecret", "HTTP_PROXY": "http://u:p@h"})
    box = boxes.start(docker=docker)
    names = {line.partition("=")[0] for line in output(box, "env").splitlines()}
    engines = {"container", "TERM"} & names if boxes.kind.podman else set()  # 4.3 sets both
    proxies = {"HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY"}
    assert names == {
        "PATH",
        "HOSTNAME",
        "HOME",
        "PWD",
        "SHLVL",
        "ODEK_CALL",
        *proxies,
        *map(str.lower, proxies),
        *engines,
    }
    assert output(box, 'echo "[$HTTP_PROXY$https_proxy]"') == "[]\n"


ODD_NAMES = [
    "o t 2026-01-01T10:00:00 (ü) 日本",
    'it\'s "q" $x `y`',
    "w,s,readonly=a;b",
    "a\nb\tc\rd",
    "-x back\\slash \u202e",
]


@pytest.mark.parametrize("name", ODD_NAMES)
def test_folder_of_any_name_is_the_one_that_is_mounted(name: str, boxes: Boxes) -> None:
    """R-34, B12."""
    boxes.workdir = boxes.workdir / name / "proj"
    boxes.workdir.mkdir(parents=True)
    box = boxes.start()
    assert output(box, "pwd; echo ok > out.txt") == "/workspace\n"
    box.write("d/in.txt", b"in", replacing=None)
    assert (boxes.workdir / "out.txt").read_text() == "ok\n"
    assert (boxes.workdir / "d" / "in.txt").read_bytes() == b"in"


def test_read_only_workspace_cannot_be_written(boxes: Boxes) -> None:
    """R-30: whatever the folder's mode."""
    boxes.workdir.chmod(0o777)
    (boxes.workdir / "f").write_text("old")
    box = boxes.start(readonly=True)
    assert box.run("echo x > f; rm f; touch g; mkdir d; mount -o remount,rw /workspace", timeout_s=10).code != 0
    assert {path.name: path.read_text() for path in boxes.workdir.iterdir()} == {"f": "old"}
    assert (box.facts.readonly, box.facts.workspace_writable) == (True, False)
    assert boxes.said == []


def test_smallest_process_limit_that_is_taken_is_enough_for_a_start(boxes: Boxes) -> None:
    """A17, R-375: the proof runs, and so do commands one after the other."""
    box = boxes.start(limits=Limits(pids=MIN_PIDS_LIMIT))
    assert [output(box, "echo works") for _ in range(10)] == ["works\n"] * 10


@pytest.mark.parametrize("user", ["0:0", "12345:54321"])
def test_folder_that_the_user_cannot_write_is_told(user: str, boxes: Boxes) -> None:
    """R-37, R-71, A20: root without its capabilities is an ordinary user; no file is left of the attempt.

    The way out that is named is one.
    """
    if user == "0:0" and os.getuid() == 0:
        os.chown(boxes.workdir, 12345, 54321)
    box = boxes.start(user=user)
    assert box.facts.workspace_writable is False
    (said,) = boxes.said
    words = f"the working directory is not writable for the sandbox user {user}: commands can only read it"
    assert said.startswith(words)
    assert list(boxes.workdir.iterdir()) == []
    if user == "0:0" and os.getuid() == 0:
        assert said == f"{words}; --sandbox-user 12345:54321 runs them as its owner"
        assert box.facts.workspace_owner == "12345:54321"
        boxes.workdir.chmod(0o700)
        with pytest.raises(SandboxConfigError, match="and is closed to the sandbox user 0:0") as refused:
            boxes.start(user=user)
        assert refused.value.hint == "--sandbox-user 12345:54321 runs the commands as its owner"
        boxes.said.clear()
        assert (boxes.start(user="12345:54321").facts.workspace_writable, boxes.said) == (True, [])


def test_volumes_are_mounted_where_they_were_asked_for(boxes: Boxes) -> None:
    """R-32, R-33, B12: odd sources and odd targets."""
    for name in ("in:put", "b,c", "r"):
        (boxes.workdir / name).mkdir()
        (boxes.workdir / name / "f").write_text(name)
    box = boxes.start(
        volumes=(
            Mount(source=str(boxes.workdir / "in:put"), target="/data"),
            Mount(source=str(boxes.workdir / "b,c"), target='/opt/x,y"z'),
            Mount(source=str(boxes.workdir / "r"), target="/home/r", readonly=True),
        )
    )
    assert output(box, "cat /data/f '/opt/x,y\"z/f' /home/r/f") == "in:putb,cr"
    assert box.run("touch /home/r/g", timeout_s=10).code != 0


class Tampering:
    """The real client, with one thing done before a call that holds a text."""

    def __init__(self, docker: DockerCli, text: str, act: Any) -> None:
        self._docker = docker
        self._text = text
        self._act = act

    def when_gone(self, *args: str) -> DockerProcess | None:
        return self._docker.when_gone(*args)

    def ahead(self, *_calls: tuple[str, ...]) -> AbstractContextManager[None]:
        return nullcontext()  # each call passes `start` when it is asked for

    def start(self, *args: str, **options: Any) -> DockerProcess:
        if any(self._text in argument for argument in args):
            self._act()
        return self._docker.start(*args, **options)


def test_daemon_that_does_not_see_the_folder_is_found_out(boxes: Boxes) -> None:
    """R-37, B22: the file that odek has made is not there inside; nothing stays behind."""

    def hide() -> None:
        for path in boxes.workdir.glob(".odek-nonce-*"):
            path.unlink()

    with pytest.raises(SandboxConfigError, match="the Docker daemon does not see"):
        boxes.start(docker=Tampering(boxes.docker, CHECK, hide))
    assert (boxes.existing(os.getpid()), list(boxes.workdir.iterdir())) == ([], [])


def test_names_of_others_are_left_alone(boxes: Boxes, docker_engine: Engine, base_image: str) -> None:
    """R-30, R-106, B09: a stopped container has the name that is next; each sandbox sees its own folder."""
    one = boxes.start()
    number = int(one.facts.name.rpartition("-")[2])
    taken = f"odek-{os.getpid()}-{number + 1}"
    foreign = docker_engine.run(
        "create", "--name", taken, "--label", f"{NONCE_LABEL}=x", base_image, "true"
    ).stdout.strip()
    try:
        two, three = boxes.start(), boxes.start()
        assert re.fullmatch(rf"{taken}-[0-9a-f]{{6}}", two.facts.name)
        assert three.facts.name == f"odek-{os.getpid()}-{number + 2}"
        one.close()
        assert output(two, "echo mine") == "mine\n"
        assert docker_engine.run("inspect", "--format", "{{.Id}}", taken).stdout.strip() == foreign
    finally:
        docker_engine.run("rm", "--force", foreign)


def test_two_of_one_pid_at_the_same_moment_get_a_sandbox_each(
    boxes: Boxes, docker_engine: Engine, base_image: str, tmp_path: Path
) -> None:
    """B09: as from two PID namespaces on one daemon; neither works in the other's, nor removes it."""
    others = []
    for number in range(3):
        folder = tmp_path / f"work{number}"
        folder.mkdir()
        others.append(Boxes(engine=docker_engine, image=base_image, workdir=folder, numbers=itertools.count(10_000)))
    together = threading.Barrier(len(others))
    seen: dict[int, str] = {}

    def work(number: int) -> None:
        (others[number].workdir / "whose").write_text(str(number))
        together.wait(30)
        seen[number] = output(others[number].start(), "cat whose")

    try:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(len(others))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == {number: str(number) for number in range(len(others))}
        names = sorted(box.facts.name for other in others for box in other._open)
        assert [len(name.split("-")) for name in names] == [3, 4, 4]
        assert len(boxes.existing(os.getpid())) == len(others)
    finally:
        for other in others:
            other.close()


def test_container_reaches_no_file_of_the_host_but_its_folder(box: Container, boxes: Boxes, tmp_path: Path) -> None:
    """R-44, R-33: a link in the folder leads nowhere outside."""
    (tmp_path / "secret").write_text("hostsecret")
    (boxes.workdir / "link").symlink_to(tmp_path / "secret")
    assert box.run("cat link ../secret /workspace/../../secret", timeout_s=10).output.text.count("No such file") == 3
