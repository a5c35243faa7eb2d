"""Starting a container: what is proved, and that every failure takes down what was made."""

from __future__ import annotations

import itertools
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from fakes.containers import CONTAINER_ID, FACTS, SECRET, SPEC, answer, inspected
from fakes.docker import FakeDocker, FakePending, answer_check
from fakes.engines import podman_inspect
from fakes.notices import texts_to
from support.privileges import may_become_others

from odek.errors import ExecutableMissing, Interrupted
from odek.sandbox.argv import run_argv
from odek.sandbox.container import scripts
from odek.sandbox.container.container import Container
from odek.sandbox.container.owner import LIST_TEMPLATE, Owner
from odek.sandbox.container.scripts import end_nonce, pack_text
from odek.sandbox.container.start import PATIENCE_S, START_TIMEOUT_S, Surroundings, start
from odek.sandbox.engine import Engine
from odek.sandbox.errors import SandboxConfigError, SandboxLost
from odek.sandbox.mounts import MountPoint, place_of, read_mounts
from odek.sandbox.network.plan import Network, NetworkPlan
from odek.sandbox.spec import Mount, SandboxSpec

OWNER = Owner(pid=7, start="42", boot="boot-1", pidns="pid:[1]", uid=1000)
NONCE, MARKER = "f00d", "0002"
SWEEP = ("ps", "--all", "--no-trunc", "--filter", "label=io.odek.sandbox=1", "--format", LIST_TEMPLATE)
OURS = ("ps", "--all", "--no-trunc", "--filter", f"label=io.odek.nonce={NONCE}", "--format", "{{.ID}}")
SEEN = "nonce=seen\nhome=writable\nspare=writable\nworkspace=writable\nuid=1000\ngid=1000\n"
READY = f"{scripts.READY}\n"
CONFLICT = (
    'docker: Error response from daemon: Conflict. The container name "/odek-7-1" is already in use by container "x".\n'
)
NETWORK = Network(name="back", id="b" * 64, internal=True)


@dataclass
class Scene:
    """A folder, a scripted Docker, and what was said."""

    spec: SandboxSpec
    docker: FakeDocker = field(default_factory=FakeDocker)
    said: list[str] = field(default_factory=list)
    living: dict[int, str] = field(default_factory=dict)
    mounts_of: Callable[[int], tuple[MountPoint, ...]] = lambda _: ()
    temporary_folder: str = "/nowhere"
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    expects_commands: bool = False

    def start(self) -> Container:
        nonces = iter((NONCE, MARKER, SECRET, "0003", "0004"))
        world = Surroundings(
            owner=OWNER,
            start_of=self.living.get,
            new_nonce=lambda: next(nonces),
            next_number=self.numbers.__next__,
            emit=texts_to(self.said),
            clock=self.docker.now,
            temporary_folder=lambda: self.temporary_folder,
            mounts_of=self.mounts_of,
            expects_commands=self.expects_commands,
        )
        return start(self.spec, self.docker, world)

    @property
    def leases(self) -> list[FakePending]:
        return [client for client in self.docker.clients if client.args[0] == "run"]

    def assert_nothing_left(self) -> None:
        """R-38: the lease is closed, the container was looked for by its nonce, no client and no file is left."""
        assert all(lease.released and lease.closed for lease in self.leases)
        assert not self.leases or self.docker.called(*OURS)
        self.docker.assert_no_client_left()
        assert os.listdir(self.spec.workdir) == []

    def fails(self, words: str) -> SandboxConfigError:
        with pytest.raises(SandboxConfigError, match=words) as refused:
            self.start()
        self.assert_nothing_left()
        return refused.value


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    tmp_path.chmod(0o755)
    return Scene(replace(SPEC, workdir=str(tmp_path)))


def shown(spec: SandboxSpec, change: Callable[[dict[str, Any]], object] = lambda _: None, **names: str) -> str:
    value = inspected(spec, **names)
    change(value)
    return json.dumps([value])


def script(scene: Scene, *but: str, check: str = SEEN, left: str = f"{CONTAINER_ID}\n") -> FakeDocker:
    """Script a start in which all goes well, but for the steps named, which the test scripts first."""
    docker = scene.docker
    rules: dict[str, Callable[[], object]] = {
        "sweep": lambda: docker.on(*SWEEP),
        "run": lambda: docker.on("run", stdout=READY, hold=True),
        "inspect": lambda: docker.on("inspect", stdout=shown(scene.spec)),
        "check": lambda: docker.on("exec", has=scripts.CHECK, code=scripts.CHECKED, stdout=check),
        "ours": lambda: docker.on(*OURS, stdout=left),
        "rm": lambda: docker.on("rm", "--force", "--volumes", "--", CONTAINER_ID),
    }
    for step, rule in rules.items():
        if step not in but:
            rule()
    return docker


def test_start_gives_a_container_with_what_was_observed(scene: Scene) -> None:
    """R-30, R-31, R-37: the calls, in their order, and the facts."""
    docker = script(scene)
    container = scene.start()
    assert container.facts == FACTS
    assert [call.args[:2] for call in docker.calls] == [
        ("run", "--rm"),
        ("ps", "--all"),
        ("inspect", "--type"),
        ("exec", "--interactive"),
    ]
    assert docker.calls[0].args == run_argv(scene.spec, name="odek-7-1", labels=OWNER.labels(NONCE))
    assert docker.calls[0].hold_stdin
    assert docker.calls[2].args == ("inspect", "--type", "container", "--", "odek-7-1")
    assert docker.calls[3].args == (
        "exec", "--interactive", "--user", "1000:1000", CONTAINER_ID, "sh", "-c", scripts.CHECK, "sh",
        f".odek-nonce-{MARKER}", "",
    )  # fmt: skip
    assert docker.calls[3].stdin == f"/tmp\n#.odek-nonce-{MARKER}\n".encode()
    docker.assert_no_client_left("run")
    assert not scene.leases[0].released
    assert (os.listdir(scene.spec.workdir), scene.said) == ([], [])


@pytest.mark.skipif(not may_become_others(), reason="only root can give a file away")
def test_start_looks_at_the_owner_of_what_the_container_writes(scene: Scene) -> None:
    """R-31, B11: nothing is left of the attempt."""

    def write(_: object) -> None:
        path = Path(scene.spec.workdir, f".odek-nonce-{MARKER}.w")
        path.touch()
        os.chown(path, 200000, 200000)

    scene.docker.on("exec", has=scripts.CHECK, code=42, stdout=SEEN, react=write)
    script(scene, "check")
    scene.fails("would belong to user 200000 of this machine")


def test_nonce_file_is_there_while_the_container_looks_and_gone_afterwards(scene: Scene) -> None:
    """R-37."""
    there: list[list[str]] = []
    scene.docker.on(
        "exec", has=scripts.CHECK, code=42, stdout=SEEN, react=lambda _: there.append(os.listdir(scene.spec.workdir))
    )  # fmt: skip
    script(scene, "check")
    scene.start()
    assert there == [[f".odek-nonce-{MARKER}"]]
    assert os.listdir(scene.spec.workdir) == []


@pytest.mark.parametrize(
    ("check", "facts", "said"),
    [
        (SEEN.replace("uid=1000\ngid=1000", "uid=12\ngid=34"), {"user": "12:34"}, []),
        (
            SEEN.replace("home=writable\n", ""),
            {"home": "/dev/shm"},
            ["HOME /tmp is not writable in this image; commands get HOME=/dev/shm"],
        ),
        (
            SEEN.replace("workspace=writable\n", ""),
            {"workspace_writable": False},
            ["the working directory is not writable for the sandbox user 1000:1000: commands can only read it"],
        ),
        ("a hint of somebody's\n" + SEEN, {}, []),
    ],
)
def test_facts_are_what_was_observed_and_not_what_was_asked_for(
    check: str, facts: dict[str, Any], said: list[str], scene: Scene
) -> None:
    """R-31, R-71."""
    script(scene, check=check)
    assert scene.start().facts == replace(FACTS, **facts)
    assert scene.said == said


@pytest.mark.skipif(not may_become_others(), reason="only root can give a folder away")
@pytest.mark.parametrize(
    ("owner", "engine", "way"),
    [
        ((4711, 4712), Engine(), "; --sandbox-user 4711:4712 runs them as its owner"),
        ((4711, 4712), Engine(rootless=True), ""),
        ((1000, 1000), Engine(), ""),
        ((0, 0), Engine(), ""),
    ],
)
def test_folder_of_another_user_names_the_way_out(
    owner: tuple[int, int], engine: Engine, way: str, scene: Scene
) -> None:
    """A20: root in a folder of somebody else's, as with sudo and in CI; root itself is never proposed."""
    os.chown(scene.spec.workdir, *owner)
    scene.spec = replace(scene.spec, engine=engine)
    script(scene, check=SEEN.replace("workspace=writable\n", ""))
    facts = scene.start().facts
    words = "the working directory is not writable for the sandbox user 1000:1000: commands can only read it"
    assert scene.said == [words + way]
    assert facts.workspace_owner == ("4711:4712" if way else "")


@pytest.mark.skipif(not may_become_others(), reason="only root can give a folder away")
@pytest.mark.parametrize(
    ("owner", "code", "check", "hint"),
    [
        (4711, scripts.CHECKED, "home=writable\nuid=1000\ngid=1000\n", "--sandbox-user 4711:4712 runs"),
        (4711, 126, "OCI runtime exec failed: chdir to cwd: permission denied\n", "--sandbox-user 4711:4712 runs"),
        (0, scripts.CHECKED, "home=writable\nuid=1000\ngid=1000\n", "open the folder to that user"),
    ],
)
def test_folder_that_is_closed_to_the_user_is_named_as_the_cause(
    owner: int, code: int, check: str, hint: str, scene: Scene
) -> None:
    """A20: mode 0700; it is not the daemon that does not see it, and not the image."""
    os.chown(scene.spec.workdir, owner, 4712)
    os.chmod(scene.spec.workdir, 0o700)
    scene.docker.on("exec", has=scripts.CHECK, code=code, stdout=check)
    script(scene, "check")
    refused = scene.fails(f"belongs to {owner}:4712, and is closed to the sandbox user 1000:1000")
    assert refused.hint.startswith(hint)


def test_read_only_workspace_is_not_complained_of_when_it_was_asked_for(scene: Scene) -> None:
    """R-32."""
    scene.spec = replace(scene.spec, readonly=True)
    script(scene, check=SEEN.replace("workspace=writable\n", ""))
    assert scene.start().facts == replace(FACTS, readonly=True, workspace_writable=False)
    assert scene.said == []


def test_commands_of_a_moved_home_get_it(scene: Scene) -> None:
    """R-31."""
    docker = script(scene, check=SEEN.replace("home=writable\n", ""))
    docker.on("exec", has=scripts.RUN, react=answer())
    scene.start().run("true", timeout_s=1)
    assert docker.calls[-2].stdin == pack_text(
        b"export HOME='/dev/shm'\ntrue", "0003", end_nonce(SECRET, "0003"), umask=0o022, apart=False
    )


def test_home_of_the_operator_is_in_no_argument(scene: Scene) -> None:
    """R-32, S-9, B15: it is a value of sandbox_env, and arguments are public."""
    scene.spec = replace(scene.spec, home="/canary", env=(("HOME", "/canary"),))
    docker = script(scene)
    docker.on("exec", has=scripts.RUN, react=answer())
    scene.start().run("true", timeout_s=1)
    assert [call.stdin for call in docker.calls if call.args[0] == "exec" and not call.hold_stdin] == [
        f"/canary\n#.odek-nonce-{MARKER}\n".encode(),
        pack_text(b"export HOME='/canary'\ntrue", "0003", end_nonce(SECRET, "0003"), umask=0o022, apart=False),
    ]
    assert "canary" not in repr([call.args for call in docker.calls])


def mounts_like_asked(folder: str, shows: dict[str, str]) -> tuple[MountPoint, ...]:
    """Return the mounts of a container: each target shows that part of `folder`."""
    descriptor = os.open(folder, os.O_RDONLY)
    place = place_of(descriptor, read_mounts("self"))
    os.close(descriptor)
    assert place is not None
    engines = ("0:1", f"/containers/{CONTAINER_ID}/hosts", "/etc/hosts")
    lines = (engines, *((place.device, f"{place.root}{part}", target) for target, part in shows.items()))
    return tuple(
        MountPoint(number=n, device=device, root=root, target=target, options=frozenset({"rw"}), kind="ext4")
        for n, (device, root, target) in enumerate(lines)
    )


def test_volumes_are_looked_at_from_inside_where_the_container_does_not_show_here(scene: Scene) -> None:
    """R-33, S-6, F1: each by its place in the workspace, its target, and a file that odek has put into it."""
    folder = scene.spec.workdir
    os.mkdir(f"{folder}/a b")
    scene.spec = replace(
        scene.spec, volumes=(Mount(source=f"{folder}/a b", target="/data"), Mount(source=folder, target="/all"))
    )
    docker = script(scene, check=f"{SEEN}volume1=same\nvolume2=same\n")
    scene.start()
    file = f".odek-nonce-{MARKER}"
    assert docker.calls[3].args[-8:] == (file, "", "a b", "/data", f"{file}-0", ".", "/all", f"{file}-1")
    assert sorted(os.listdir(folder)) == ["a b"]
    assert os.listdir(f"{folder}/a b") == []


def test_mounts_are_proved_from_outside_before_the_image_is_asked(scene: Scene) -> None:
    """F1: what the kernel tells of the container's first process decides; the image's shell is not asked then."""
    folder = scene.spec.workdir
    os.mkdir(f"{folder}/v")
    scene.spec = replace(scene.spec, volumes=(Mount(source=f"{folder}/v", target="/data"),))
    docker = script(scene, "inspect")
    docker.on("inspect", stdout=shown(scene.spec, lambda value: value["State"].update(Pid=4711)))
    scene.mounts_of = {4711: mounts_like_asked(folder, {"/workspace": "", "/data": "/v"})}.get  # type: ignore[assignment]
    scene.start()
    assert docker.calls[3].args[-2:] == (f".odek-nonce-{MARKER}", "")


@pytest.mark.parametrize(
    ("shows", "words"),
    [
        ({"/workspace": "", "/data": "/../other"}, "/data is not"),
        ({"/workspace": "/v", "/data": "/v"}, "/workspace is not"),
        ({"/workspace": ""}, "/data: 0 mounts"),
        ({"/workspace": "", "/data": "/v", "/workspace/x": "/v"}, "/workspace/x is another mount"),
        ({"/workspace": "", "/data": "/v", "/dev/shm": "/v"}, "/dev/shm is this machine's own"),
    ],
)
def test_mount_that_is_another_one_takes_the_container_down(shows: dict[str, str], words: str, scene: Scene) -> None:
    """F1, E8, R-380: nothing is run in it as the user."""
    folder = scene.spec.workdir
    os.mkdir(f"{folder}/v")
    scene.spec = replace(scene.spec, volumes=(Mount(source=f"{folder}/v", target="/data"),))
    docker = script(scene, "inspect")
    docker.on("inspect", stdout=shown(scene.spec, lambda value: value["State"].update(Pid=4711)))
    scene.mounts_of = {4711: mounts_like_asked(folder, shows)}.get  # type: ignore[assignment]
    with pytest.raises(SandboxConfigError, match=words):
        scene.start()
    assert not docker.called("exec")
    assert docker.called("rm")


@pytest.mark.parametrize("seen", ["", "volume1=same\n", "volume2=same\nvolume3=same\n", "volume1=\nvolume2=same\n"])
def test_volume_that_is_not_the_one_of_the_workspace_takes_the_container_down(seen: str, scene: Scene) -> None:
    """R-33, S-6: Docker follows a link that was put there after the check."""
    folder = scene.spec.workdir
    os.mkdir(f"{folder}/a")
    Path(folder, "b").touch()
    volumes = tuple(Mount(source=f"{folder}/{name}", target=f"/{name}") for name in "ab")
    scene.spec = replace(scene.spec, volumes=volumes)
    script(scene, check=SEEN + seen)
    with pytest.raises(SandboxConfigError, match="in the sandbox is not") as caught:
        scene.start()
    refused = caught.value
    assert scene.docker.called("rm")
    assert refused.hint.startswith("a folder on the way was exchanged")


def test_facts_name_the_attached_networks(scene: Scene) -> None:
    """R-54, R-71: the first at the start, verified, none of its names an alias of ours."""
    scene.spec = replace(scene.spec, networks=NetworkPlan(attached=(NETWORK,)))
    docker = script(scene)
    docker.on("network", "inspect", "--", NETWORK.id, stdout=json.dumps([{"Name": "back", "Id": NETWORK.id}]))
    facts = scene.start().facts
    assert (facts.network, facts.internet, facts.networks) == ("attached", False, (NETWORK,))


WAY_OUT = "a network that is internal has a way out by IPv6 in the sandbox, which this engine may not filter: "


@pytest.mark.parametrize(
    ("plan", "route", "internet", "said"),
    [
        (NetworkPlan(attached=(NETWORK,)), "ipv6=eth0\n", True, True),
        (NetworkPlan(attached=(NETWORK,)), "", False, False),
        (NetworkPlan(), "ipv6=eth0\n", True, True),
        (NetworkPlan(attached=(replace(NETWORK, internal=False),)), "ipv6=eth0\n", True, False),
        (NetworkPlan(attached=(replace(NETWORK, internal=False),)), "", True, False),
    ],
)
def test_internet_is_what_was_seen_inside(
    plan: NetworkPlan, route: str, internet: bool, said: bool, scene: Scene
) -> None:
    """E4, E5: a route out by IPv6 counts, whatever the network is called; the class of danger follows."""
    scene.spec = replace(scene.spec, networks=plan)
    docker = script(scene, check=SEEN + route)
    docker.on("network", "inspect", "--", NETWORK.id, stdout=json.dumps([{"Name": "back", "Id": NETWORK.id}]))
    assert scene.start().facts.internet is internet
    assert [note.startswith(WAY_OUT) for note in scene.said] == [True] * said


@pytest.mark.parametrize(
    ("code", "check", "words"),
    [
        (scripts.CHECKED, SEEN.replace("nonce=seen\n", ""), "the Docker daemon does not see"),
        (scripts.CHECKED, "", "the Docker daemon does not see"),
        (1, "missing=cat\n", 'image "alpine:3.22" has no `cat`'),
        (1, "missing=\x1b[2J\n", r"has no `\\x1b\[2J`"),
        (
            126,
            "OCI runtime exec failed: exec failed: unable to start container process\r\n",
            "commands cannot run in image",
        ),
        (0, SEEN, "commands cannot run in image"),
        (255, "", "commands cannot run in image"),
        (
            scripts.CHECKED,
            SEEN.replace("home=writable\nspare=writable\n", ""),
            'HOME "/tmp" of image "alpine:3.22" is not open',
        ),
        (scripts.CHECKED, SEEN.replace("uid=1000", "uid=65534"), "is the one that odek's own processes need"),
    ],
)
def test_container_that_does_not_prove_itself_is_taken_down(code: int, check: str, words: str, scene: Scene) -> None:
    """R-37, R-31, D-10, B21, B22: a remote daemon, an image without the programs, a user that is nobody."""
    scene.docker.on("exec", has=scripts.CHECK, code=code, stdout=check)
    script(scene, "check")
    scene.fails(words)
    assert scene.docker.called("rm")


@pytest.mark.parametrize(
    "words",
    [
        'docker: invalid mount config for type "bind": bind source path does not exist: {}.\n',
        "Error: statfs {}: no such file or directory\n",
    ],
    ids=["Docker", "podman"],
)
def test_folder_that_the_daemon_has_not_is_named_as_the_cause(words: str, scene: Scene) -> None:
    """B22, R-37: a remote daemon, or odek in a container of its own; the words choose a sentence, no more."""
    scene.docker.on("run", code=125, stderr=words.format(scene.spec.workdir))
    scene.docker.on("inspect", code=1, stdout="[]\n")
    script(scene, "run", "inspect", left="")
    refused = scene.fails(f'^the Docker daemon does not see "{scene.spec.workdir}"')
    assert "same path outside" in refused.hint


def test_answers_of_podman_prove_a_container_too(scene: Scene) -> None:
    """D-13, R-37."""
    scene.spec = replace(scene.spec, engine=Engine(podman=True))
    scene.docker.on("inspect", stdout=shown(scene.spec, lambda value: value.update(podman_inspect(value))))
    script(scene, "inspect")
    assert scene.start().facts == FACTS


@pytest.mark.parametrize("podman", [False, True])
def test_monitor_of_podman_is_not_started_in_the_working_directory(podman: bool, scene: Scene) -> None:
    """R-404: Docker's client is, for it may be given addresses and certificates by relative paths."""
    if podman:
        scene.spec = replace(scene.spec, engine=Engine(podman=True))
        scene.docker.on("inspect", stdout=shown(scene.spec, lambda value: value.update(podman_inspect(value))))
    script(scene, *(["inspect"] if podman else []))
    scene.start()
    assert {call.args[0] for call in scene.docker.calls if call.away} == ({"run"} if podman else set())


def test_what_a_check_makes_after_it_was_given_up_is_removed(scene: Scene) -> None:
    """R-37: it goes on without its client until the container is gone."""
    late = Path(scene.spec.workdir, f".odek-nonce-{MARKER}.w")
    scene.docker.on("exec", has=scripts.CHECK, code=1)
    scene.docker.on("rm", "--force", react=lambda _: late.touch())
    script(scene, "check", "rm")
    scene.fails("commands cannot run in image")
    assert scene.docker.called("rm")


def test_check_that_hangs_is_given_up(scene: Scene) -> None:
    """B23."""
    scene.docker.on("exec", has=scripts.CHECK, hang=True)
    script(scene, "check")
    before = scene.docker.now()
    scene.fails("commands cannot run in image")
    assert scene.docker.now() - before < 60


@pytest.mark.parametrize(
    "words",
    [
        "",
        "[]",
        "{}",
        "null",
        "hint: try x\n[",
        '[{"Id":"x"},{}]',
        "[7]",
        "not json",
        pytest.param("[" * 5000, id="deep"),
        '"text"',
    ],
)
def test_unreadable_inspect_takes_the_container_down(words: str, scene: Scene) -> None:
    """B25, R-37: fails closed."""
    scene.docker.on("inspect", stdout=words)
    script(scene, "inspect")
    scene.fails("Docker does not show the state of the container")


@pytest.mark.parametrize(
    ("code", "hang"), [(1, False), (0, True)]
)  # fmt: skip
def test_failed_inspect_takes_the_container_down(code: int, hang: bool, scene: Scene) -> None:
    """R-37, B23: words on stdout beside a failure count for nothing."""
    scene.docker.on("inspect", stdout=shown(scene.spec), code=code, hang=hang)
    script(scene, "inspect")
    scene.fails("Docker does not show the state of the container")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda value: value["State"].update(Running=False), "it runs: asked for True, found False"),
        (lambda value: value["HostConfig"].update(PidsLimit=0), "process limit: asked for 4096, found 0"),
        (lambda value: value.update(Image="sha256:other"), "image: asked for"),
        (lambda value: value["Config"]["Labels"].update({"io.odek.nonce": "\x1b[2J"}), "it is ours: asked for 'f00d'"),
        (
            lambda value: value["NetworkSettings"]["Networks"].update(x={"NetworkID": "d" * 64}),
            "attached, not asked for",
        ),
    ],
)
def test_container_that_is_not_as_asked_for_is_taken_down_and_the_difference_told(
    change: Callable[[dict[str, Any]], object], words: str, scene: Scene
) -> None:
    """R-30, R-37."""
    scene.docker.on("inspect", stdout=shown(scene.spec, change))
    script(scene, "inspect")
    refused = scene.fails("is not the one that was asked for")
    assert words in refused.detail
    assert "\x1b" not in refused.detail


def test_chatter_before_the_answer_of_an_inspect_is_passed_over(scene: Scene) -> None:
    """B25."""
    scene.docker.on("inspect", stdout="hint: [x]\n\n" + shown(scene.spec))
    script(scene, "inspect")
    assert scene.start().facts == FACTS


def fail_run(scene: Scene, **answer: Any) -> None:
    scene.docker.on("run", **answer)
    scene.docker.on("inspect", code=1, stdout="[]\n")
    script(scene, "run", "inspect", left="")


@pytest.mark.parametrize("code", [0, 1, 125, 126, 127, 255, -9])
def test_run_that_ends_is_a_failure_whatever_its_code(code: int, scene: Scene) -> None:
    """R-30, D-11: 0 means nothing (an entrypoint, an architecture), and the words are only quoted."""
    fail_run(scene, code=code, stderr="Cannot connect to the Docker daemon. No such image. \x1b[2J permission denied\n")
    refused = scene.fails('^Docker did not start the sandbox from image "alpine:3.22"$')
    assert refused.detail == "Cannot connect to the Docker daemon. No such image. \\x1b[2J permission denied"
    assert len(scene.leases) == 1


@pytest.mark.parametrize(
    "words",
    [
        "standard_init_linux.go:228: exec user process caused: exec format error\n",
        "[FATAL tini (7)] exec sh failed: Exec format error\n",
        "exec /bin/sh: exec format error\n",
    ],
)
def test_image_for_another_processor_is_named_with_both(words: str, scene: Scene) -> None:
    """E14: the image's and the daemon's, asked for only when the start has failed like this."""
    described = json.dumps([{"Id": SPEC.image_id, "Architecture": "arm64", "Variant": "v8", "Config": None}])
    scene.docker.on("version", "--format", "{{.Server.Arch}}", stdout="amd64\n")
    scene.docker.on("image", "inspect", "--", SPEC.image_id, stdout=described)
    fail_run(scene, code=1, stderr=words)
    refused = scene.fails("Docker did not start the sandbox")
    assert refused.hint == 'the image "alpine:3.22" is for arm64/v8, Docker\'s machine has amd64; choose one for it'


@pytest.mark.parametrize("words", ["odek-read", "an entrypoint talks\n", f"{CONTAINER_ID}\n"])
def test_run_that_says_something_else_is_a_failure(words: str, scene: Scene) -> None:
    """R-30."""
    fail_run(scene, stdout=words, code=0)
    scene.fails("Docker did not start the sandbox")


def test_run_that_says_it_is_ready_and_ends_is_a_failure(scene: Scene) -> None:
    """R-37."""
    fail_run(scene, stdout=READY, code=0)
    scene.fails("Docker did not start the sandbox")


def test_run_that_never_says_a_word_is_given_up(scene: Scene) -> None:
    """B23: the daemon answers, so it is slow and not absent; client killed, container looked for before and after."""
    scene.docker.on("run", hang=True).on("version", stdout="1\n")
    scene.docker.on("inspect", code=1)
    script(scene, "run", "inspect")
    before = scene.docker.now()
    scene.fails(rf"^Docker did not start the sandbox within {START_TIMEOUT_S:.0f} seconds$")
    assert scene.docker.now() - before < START_TIMEOUT_S + 5
    assert scene.said == ["Docker is still preparing the container"]
    assert scene.leases[0].killed
    assert len(scene.docker.called(*OURS)) == 2
    assert len(scene.docker.called("rm")) == 2


def test_slow_start_is_waited_for(scene: Scene) -> None:
    """B23: a cold engine, or one that unpacks a big image."""

    def get_ready_late(lease: FakePending) -> None:
        lease.out, pump = [], lease.pump
        begun = scene.docker.now()

        def late(timeout_s: float) -> None:
            if scene.docker.now() - begun > PATIENCE_S + 1 and not lease.stdout.data:
                lease.out.append(READY.encode())
            pump(timeout_s)

        lease.pump = late  # type: ignore[method-assign]

    scene.docker.on("run", hold=True, react=get_ready_late).on("version", stdout="1\n")
    script(scene, "run")
    assert scene.start().facts == FACTS
    assert scene.said == ["Docker is still preparing the container"]


def ready_after(scene: Scene, seconds: float) -> Callable[[FakePending], None]:
    """Return a rule's `react` for a lease whose container runs only then."""

    def react(lease: FakePending) -> None:
        pump, begun = lease.pump, scene.docker.now()

        def late(timeout_s: float) -> None:
            if scene.docker.now() - begun > seconds and not lease.stdout.data:
                lease.out.append(READY.encode())
            pump(min(timeout_s, seconds / 2))

        lease.pump = late  # type: ignore[method-assign]

    return react


LOOK = ("inspect", "--type", "container", "--", "odek-7-1")


@pytest.mark.parametrize(
    ("seconds", "change", "looks"),
    [
        (0.3, {}, [LOOK]),
        (0.01, {}, []),  # it runs already
        (0.3, {"networks": NetworkPlan(attached=(NETWORK, replace(NETWORK, id="c" * 64)))}, []),
        (0.3, {"engine": Engine(podman=True)}, []),
    ],
    ids=["starting", "at once", "another network is to come", "podman"],
)
def test_container_is_looked_at_while_it_starts(
    seconds: float, change: dict[str, Any], looks: list[tuple[str, ...]], scene: Scene
) -> None:
    """R-412: where the answer then is that of the container as it is used."""
    scene.spec = replace(scene.spec, **change)
    scene.docker.on("run", hold=True, react=ready_after(scene, seconds))
    scene.docker.on("network").on("exec", code=1)
    script(scene, "run", "check")
    with suppress(SandboxConfigError):  # not every one of these becomes one that is asked for
        scene.start()
    assert scene.docker.looked_ahead == looks


@pytest.mark.parametrize(
    "early",
    [
        {"code": 1, "stderr": "Error: No such container: odek-7-1\n", "stdout": "[]\n"},
        {"stdout": '[{"State": {"Running": false, "Pid": 0}, "Mounts": []}]'},
        {"stdout": "[{}]"},
    ],
    ids=["not made yet", "not started yet", "without a state"],
)
def test_answer_from_before_the_container_ran_does_not_count(early: dict[str, Any], scene: Scene) -> None:
    """R-412: it is asked again, once; what the second answer says is judged."""
    scene.docker.on("inspect", **early, times=1)
    script(scene)
    assert scene.start().facts == FACTS
    assert len(scene.docker.called("inspect")) == 2


def test_container_that_is_not_shown_is_asked_for_twice_at_most(scene: Scene) -> None:
    """R-412, R-37: nor does a second one that says nothing."""
    scene.docker.on("inspect", code=1, stderr="Error: No such container: odek-7-1\n", stdout="[]\n")
    script(scene, "inspect")
    scene.fails("does not show the state of the container")
    assert len(scene.docker.called("inspect")) == 2


@pytest.mark.parametrize("answer", [{"hang": True}, {"code": 1, "stderr": "Cannot connect"}], ids=["hangs", "is gone"])
def test_start_that_hangs_because_the_daemon_does_ends_within_half_a_minute(
    answer: dict[str, Any], scene: Scene
) -> None:
    """B23, D-11: nothing answers any more, the removal included; no fall back."""
    scene.docker.on("run", hang=True).on("version", **answer).on(*OURS, hang=True)
    script(scene, "run", "ours")
    before = scene.docker.now()
    with pytest.raises(SandboxLost, match="stopped answering while the sandbox was started"):
        scene.start()
    assert scene.docker.now() - before <= 30
    scene.assert_nothing_left()


def test_name_of_another_container_is_left_alone_and_a_random_one_taken(scene: Scene) -> None:
    """R-30, R-106, B09: a conflict is retried once under a random name, never "freed" by force."""
    docker = scene.docker
    other = f"odek-7-1-{NONCE}"
    docker.on("run", has="odek-7-1", code=125, stderr=CONFLICT, times=1)
    docker.on("inspect", has=other, stdout=shown(scene.spec, name=other))
    script(scene, "inspect", left="")
    assert scene.start().facts.name == other
    assert docker.called("rm") == []
    docker.assert_no_client_left("run")


def test_second_conflict_ends_the_start_with_dockers_own_words(scene: Scene) -> None:
    """R-106, B09, D-11: the words may be anybody's, so they buy one more attempt."""
    fail_run(scene, code=125, stderr=CONFLICT)
    assert "already in use" in scene.fails("Docker did not start the sandbox").detail
    assert len(scene.leases) == 2


def test_containers_of_a_process_are_numbered_and_each_is_started_once(scene: Scene) -> None:
    """R-106: the n-th start is one `docker run`, however many there were before and whether they still run."""
    docker = scene.docker
    for number in range(1, 31):
        name = f"odek-7-{number}"
        docker.on("inspect", has=name, stdout=shown(scene.spec, name=name), times=1)
    script(scene, "inspect", left="")
    names = [scene.start().facts.name for _ in range(30)]
    assert names == [f"odek-7-{number}" for number in range(1, 31)]
    assert len(scene.leases) == 30


def test_process_has_one_counter_that_threads_share() -> None:
    """R-106: no number is given out twice."""
    worlds = [Surroundings(owner=OWNER, start_of=lambda _: None, new_nonce=str, emit=print) for _ in range(2)]
    found: list[int] = []

    def take(world: Surroundings) -> None:
        found.extend(world.next_number() for _ in range(2000))

    threads = [threading.Thread(target=take, args=(world,)) for world in (*worlds, *worlds)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == len(found) == 8000


@pytest.mark.parametrize("step", ["run", "check", "inspect", "sweep"])
@pytest.mark.parametrize("at", ["start", "wait"])
def test_interrupt_takes_down_what_was_made(step: str, at: str, scene: Scene) -> None:
    """R-38, B08: in every phase."""
    answer: dict[str, Any] = (
        {"raises": Interrupted(2)} if at == "start" else {"raises_in_pump": Interrupted(2), "stdout": "x"}
    )
    prefix = {"run": ("run",), "check": ("exec",), "inspect": ("inspect",), "sweep": SWEEP}[step]
    scene.docker.on(*prefix, **answer)
    script(scene, *({step} - {"sweep"}))
    with pytest.raises(Interrupted):
        scene.start()
    scene.assert_nothing_left()


@pytest.mark.parametrize("answers", [True, False])
def test_start_that_is_given_up_waits_for_a_slow_engine(answers: bool, scene: Scene) -> None:
    """R-414: its client ends by itself after some seconds; killed earlier, the container would be made all the same."""
    listed: dict[str, Any] = {} if answers else {"code": 1, "stderr": "Cannot connect to the Docker daemon"}

    def end_late(lease: FakePending) -> None:
        pump = lease.pump

        def late(timeout_s: float) -> None:
            if lease.released and scene.docker.now() - released[0] >= 3:
                lease.ended = True
            pump(timeout_s)

        def release() -> None:
            released.append(scene.docker.now())
            lease.released = True

        released: list[float] = []
        lease.pump, lease.release = late, release  # type: ignore[method-assign]

    scene.docker.on("run", hang=True, react=end_late, raises_in_pump=Interrupted(2)).on(*OURS, **listed)
    script(scene, "run", "ours")
    with pytest.raises(Interrupted):
        scene.start()
    (lease,) = scene.leases
    assert (lease.released, lease.closed, lease.killed) == (True, True, not answers)
    assert len(scene.docker.called(*OURS)) == 2


def test_interrupt_during_an_attach_takes_down_what_was_made(scene: Scene) -> None:
    """R-38, R-54: and removes no network."""
    second = Network(name="front", id="e" * 64, internal=False)
    scene.spec = replace(scene.spec, networks=NetworkPlan(attached=(NETWORK, second)))
    scene.docker.on("network", "connect", "--", second.id, "odek-7-1", raises_in_pump=Interrupted(15), stdout="x")
    script(scene)
    with pytest.raises(Interrupted):
        scene.start()
    scene.assert_nothing_left()
    assert [call for call in scene.docker.called("network") if call[1] != "connect"] == []


@pytest.mark.parametrize("step", ["run", "check", "inspect"])
def test_client_that_cannot_be_started_any_more_takes_down_what_was_made(step: str, scene: Scene) -> None:
    """R-38: out of processes, out of memory, the program replaced."""
    prefix = {"run": "run", "check": "exec", "inspect": "inspect"}[step]
    scene.docker.on(prefix, raises=ExecutableMissing("cannot run docker: Cannot allocate memory"))
    scene.docker.on(*OURS, raises=ExecutableMissing("cannot run docker: Cannot allocate memory"))
    script(scene, step, "ours")
    with pytest.raises(ExecutableMissing):
        scene.start()
    assert all(lease.released and lease.closed for lease in scene.leases)
    scene.docker.assert_no_client_left()
    assert os.listdir(scene.spec.workdir) == []


def test_working_directory_that_has_gone_takes_the_container_down(scene: Scene) -> None:
    """R-37, R-38."""
    script(scene)
    os.rmdir(scene.spec.workdir)
    with pytest.raises(SandboxConfigError, match=r'the working directory ".*" cannot be read: No such file'):
        scene.start()
    assert all(lease.released and lease.closed for lease in scene.leases)
    scene.docker.assert_no_client_left()
    os.mkdir(scene.spec.workdir)


def test_daemon_that_dies_in_between_is_a_stop_and_not_its_absence(scene: Scene) -> None:
    """D-11: no DaemonUnreachable after the first probe, whatever is said."""
    down = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n"
    for prefix in ("run", "inspect", "ps", "exec"):
        scene.docker.on(prefix, code=1, stderr=down)
    scene.fails("Docker did not start the sandbox")


def leftover(container: str, **changes: str) -> str:
    fields = {"pid": "8", "start": "1", "boot": "boot-1", "pidns": "pid:[1]", "uid": "1000"} | changes
    return "\t".join((container, *map(json.dumps, fields.values()))) + "\n"


def test_leftovers_of_dead_owners_are_swept_by_id_and_said_so(scene: Scene) -> None:
    """R-38, B07: nothing else ever is."""
    dead, other_dead = "1" * 64, "2" * 64
    listing = (
        leftover(dead)
        + leftover("3" * 64, pid="9", start="5")
        + leftover(other_dead, pid="9", start="4")
        + leftover("4" * 64, boot="boot-0")
        + leftover("5" * 64, uid="0")
        + leftover("6" * 64, pidns="pid:[2]")
        + leftover("7" * 64, pid="no")
    )
    scene.living[9] = "5"
    scene.docker.on(*SWEEP, stdout=listing)
    scene.docker.on("rm", "--force", "--volumes", "--", dead, other_dead)
    script(scene, "sweep")
    scene.start()
    assert scene.docker.called("rm") == [("rm", "--force", "--volumes", "--", dead, other_dead)]
    assert scene.said == ["removed 2 containers that an earlier odek left behind"]


def test_leftovers_are_swept_one_by_one_with_podman(scene: Scene) -> None:
    """R-38, R-383: another odek may have been faster with one of them (M-33)."""
    dead, other_dead = "1" * 64, "2" * 64
    scene.spec = replace(scene.spec, engine=Engine(podman=True))
    scene.docker.on("inspect", stdout=shown(scene.spec, lambda value: value.update(podman_inspect(value))))
    scene.docker.on(*SWEEP, stdout=leftover(dead) + leftover(other_dead)).on("rm", "--force")
    script(scene, "sweep", "inspect")
    scene.start()
    assert [call[-1] for call in scene.docker.called("rm")] == [dead, other_dead]


@pytest.mark.parametrize(
    "answers",
    [
        {"sweep": {"code": 1}},
        {"sweep": {"hang": True}},
        {"sweep": {"stdout": "nonsense\n\x00\t\t\n"}},
        {"sweep": {"stdout": leftover("1" * 64)}, "rm": {"code": 1, "stderr": "removal is already in progress"}},
        {"sweep": {"stdout": leftover("1" * 64)}, "rm": {"hang": True}},
        {"sweep": {"stdout": leftover("1" * 64)}, "rm": {"raises": ExecutableMissing("cannot run docker")}},
    ],
)
def test_sweep_that_fails_blocks_nothing(answers: dict[str, dict[str, Any]], scene: Scene) -> None:
    """B07, B23: not for long either."""
    scene.docker.on(*SWEEP, **answers["sweep"])
    scene.docker.on("rm", **answers.get("rm", {}))
    script(scene, "sweep", "rm")
    before = scene.docker.now()
    assert scene.start().facts == FACTS
    assert (scene.said, scene.docker.now() - before <= 10) == ([], True)
    scene.docker.assert_no_client_left("run")


def test_start_sweeps_the_copies_of_killed_builds(scene: Scene, tmp_path_factory: pytest.TempPathFactory) -> None:
    """E13: each start, not only the next build; another living odek's copy stays."""
    folder = tmp_path_factory.mktemp("tmp")
    for name, pid in (("deadaaaa", 8), ("liveaaaa", 9)):
        (folder / f"odek-build-{name}").mkdir(mode=0o700)
        (folder / f"odek-build-{name}" / "owner").write_text(replace(OWNER, pid=pid).line())
    scene.temporary_folder, scene.living = str(folder), {9: "42"}
    script(scene)
    scene.start()
    assert os.listdir(folder) == ["odek-build-liveaaaa"]


def test_the_exec_that_checks_the_container_waits_for_the_first_command(scene: Scene) -> None:
    """R-254, R-37: one exec, behind the proof of the mounts; it gets nothing else before that of the rest."""
    scene.expects_commands = True
    docker = scene.docker.on("exec", has=scripts.CHECK_AND_RUN, hold=True, spare=True, react=answer_check(SEEN))
    script(scene, "check")
    container = scene.start()
    assert [call.args[0] for call in docker.calls] == ["run", "ps", "inspect", "exec"]
    (waiting,) = (client for client in docker.clients if client.args[0] == "exec")
    assert not waiting.closed
    assert waiting.sent == f"/tmp\n#.odek-nonce-{MARKER}\n".encode()
    assert container.facts == FACTS
    container.expect(1)
    assert len(docker.called("exec")) == 1


@pytest.mark.parametrize(("pids", "home"), [(63, "/tmp"), (64, "/tmp"), (64, "/" + "long/" * 1000)])
def test_exec_waits_only_where_there_is_room_for_it(pids: int, home: str, scene: Scene) -> None:
    """R-254: nor does the one that a HOME is sent to which its pipe may not take at once."""
    scene.expects_commands = True
    scene.spec = replace(scene.spec, limits=replace(scene.spec.limits, pids=pids), home=home)
    docker = scene.docker.on("exec", has=scripts.CHECK_AND_RUN, hold=True, spare=True, react=answer_check(SEEN))
    script(scene)
    scene.start()
    (call,) = (call for call in docker.calls if call.args[0] == "exec")
    assert (scripts.CHECK_AND_RUN in call.args) == (pids == 64 and home == "/tmp")


@pytest.mark.parametrize(
    ("scripted", "words"),
    [
        ({"react": answer_check("missing=cat", code=1)}, "has no `cat`"),
        ({"react": answer_check("", code=1)}, "commands cannot run in image"),
        ({"react": answer_check(SEEN.replace("nonce=seen\n", ""))}, "does not see"),
        ({"stderr": "OCI runtime exec failed: no sh\n", "code": 126, "hold": False}, "commands cannot run in image"),
        ({"hang": True}, "commands cannot run in image"),
        ({"stdout": f"{SEEN}\n0003 checked x\n", "hold": False, "code": 42}, "commands cannot run in image"),
        ({"stdout": f"{SEEN}\n0009 checked 42\n", "hold": False}, "commands cannot run in image"),
    ],
)
def test_exec_that_waits_ends_with_a_start_that_fails(scripted: dict[str, Any], words: str, scene: Scene) -> None:
    """R-254, R-37: also where it ends by itself, with whatever status, before the check is over."""
    scene.expects_commands = True
    scene.docker.on("exec", has=scripts.CHECK_AND_RUN, spare=True, **{"hold": True, **scripted})
    script(scene, "check")
    error = scene.fails(words)
    assert ("OCI runtime exec failed" in error.detail) == ("stderr" in scripted)
