"""What a run would do: outcome, values with their sources, command lines, both forms of output."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from fakes.approver import Answers
from fakes.docker import FakeDocker
from fakes.engines import INFO, ROOTLESS
from fakes.layering import make_host, make_layers
from fakes.runtimes import fake_runtime

from odek.app.config import config_of
from odek.app.explain import Explanation, explain_run
from odek.app.isolation import CommandProfile
from odek.app.runtime import owner_of
from odek.app.sandbox import SandboxPlan, plan_sandbox, sandbox_spec
from odek.approval.store import approval_key
from odek.cli.commands.sandbox_explain import explanation_to_json, fill, render_explanation, shell_word
from odek.config.settings import Settings
from odek.events import Event
from odek.sandbox.argv import build_argv, run_argv
from odek.sandbox.build.builder import INPUTS_LABEL, LABEL, digest_inputs
from odek.sandbox.image.reference import BUSYBOX_TAG
from odek.sandbox.network.plan import Network, NetworkPlan

PROFILE = CommandProfile(command="run")
A, B = "a" * 64, "b" * 64
IMAGE_ID = "sha256:" + "c" * 64
APP = Network(name="app_default", id=A, internal=False, compose_project="app")
BACK = Network(name="back", id=B, internal=True)


class Case:
    """Settings in a scratch folder, and a Docker that has `networks` and, unless `image` is "", each image."""

    def __init__(
        self,
        root: Path,
        *networks: Network,
        image: str = IMAGE_ID,
        info: Mapping[str, Any] | str = INFO,
        down: bool = False,
        asked: bool = True,
        **layers: Mapping[str, Any],
    ) -> None:
        """`asked`: there is a person for the project's questions."""
        self.bin = root / "bin"
        self.bin.mkdir(exist_ok=True)
        (self.bin / "docker").touch(mode=0o755)
        host = make_host(root, {"PATH": str(self.bin), **layers.get("env", {})}, uid=os.getuid())
        self.host = dataclasses.replace(host, pid=os.getpid())
        self.docker = FakeDocker()
        self.config = config_of(make_layers(**layers))  # type: ignore[arg-type]
        self.settings: Settings = self.config.settings
        self.runtime = fake_runtime(self.host, self.docker, emit=silent, operator=Answers() if asked else None)
        if down:
            self.docker.without_daemon()
            return
        self.docker.on("version", has="{{.Server.Arch}}", stdout="amd64\n").on("version", stdout="29\n")
        self.docker.on("info", stdout=info if isinstance(info, str) else json.dumps(info))
        self.docker.on("network", "ls", stdout="".join(map(listed, networks)))
        self.docker.on("network", "inspect", stdout=f"[{','.join(map(shown, networks))}]")
        if image:
            self.docker.on("image", "inspect", has="--format", stdout=f"{image}\n")
            self.docker.on("image", "inspect", stdout=json.dumps([{"Id": image, "Architecture": "amd64"}]))
        self.docker.on("image", "inspect", code=1, stderr="Error: No such image")

    def explain(self) -> Explanation:
        return explain_run(PROFILE, self.config, self.runtime)

    @property
    def plan(self) -> SandboxPlan:
        return plan_sandbox(self.config, self.runtime)


def silent(event: Event) -> None:
    raise AssertionError(event)


def listed(network: Network) -> str:
    return json.dumps([network.id, network.name, network.driver, network.scope]) + "\n"


def shown(network: Network) -> str:
    labels = {"com.docker.compose.project": network.compose_project} if network.compose_project else {}
    described = {
        "Name": network.name, "Id": network.id, "Driver": "bridge", "Scope": "local", "Internal": network.internal,
        "ConfigOnly": False, "Labels": labels, "Containers": {},
    }  # fmt: skip
    return json.dumps(described)


def sections(explanation: Explanation) -> dict[str, dict[str, tuple[object, str]]]:
    return {
        subject: {name: (value, origin) for name, value, origin in rows}
        for subject, rows in explanation.sections.items()
    }


def test_every_value_has_its_source(tmp_path: Path) -> None:
    """R-10, R-19: operator, project, variable and flag side by side."""
    (tmp_path / "work" / "there").mkdir(parents=True)
    case = Case(
        tmp_path,
        operator={"sandbox_memory": "1g", "sandbox_env": {"MINE": "canary-1", "BOTH": "canary-2"}},
        project={
            "sandbox_network": "bridge",
            "sandbox_env": {"BOTH": "x", "READS": "$A-${B}"},
            "sandbox_volumes": ["./there:/a", "./new:/b"],
            "sandbox_pids_limit": 64,
        },
        env={"ODEK_SANDBOX_READONLY": "1", "ODEK_REQUIRE_SANDBOX": "1", "A": "canary-3", "B": "canary-4"},
        flags={"sandbox_image": "python:3.12", "sandbox_user": "7:7"},
    )
    explanation = case.explain()
    request = case.plan.approval_request()
    work = case.host.cwd
    assert sections(explanation) == {
        "place": {
            "sandboxed": (True, "the default of odek run"),
            "explicit": (False, "the default of odek run"),
            "required": (True, "ODEK_REQUIRE_SANDBOX"),
            "docker": (f"{case.bin}/docker", "PATH"),
            "daemon": ("20.10.24+dfsg1", "Docker"),
            "without_daemon": ("stop", "ODEK_REQUIRE_SANDBOX is set"),
            "without_image": ("stop", "ODEK_REQUIRE_SANDBOX is set"),
        },
        "image": {
            "reference": ("python:3.12", "--sandbox-image"),
            "id": (IMAGE_ID, "Docker"),
            "action": ("use", "Docker"),
        },
        "network": {"mode": ("bridge", "./odek.json"), "result": ("bridge", "mode"), "internet": (True, "result")},
        "limits": {
            "pids": (64, "./odek.json"),
            "memory": ("1g", "~/.odek/config.json"),
            "cpus": (None, "default"),
            "tmp_bytes": (1 << 29, "default"),
        },
        "mounts": {
            "/workspace": (work, "the working directory"),
            "readonly": (True, "ODEK_SANDBOX_READONLY"),
            "/a": (f"{work}/there", "./odek.json"),
            "/b": (f"{work}/new", "./odek.json; the folder is made first"),
            "/tmp": ("tmpfs", "always"),
        },
        "user": {"user": ("7:7", "--sandbox-user"), "home": ("/tmp", "default")},
        "env": {
            "BOTH": ("set", "./odek.json"),
            "MINE": ("set", "~/.odek/config.json"),
            "READS": ("reads A, B", "./odek.json"),
        },
        "approval": {
            "state": ("asked for", "the terminal"),
            "key": (f"{approval_key(request)[:12]}:{approval_key(request)[65:77]}", "what is asked for, and where"),
            "asks": (
                [
                    "  network: bridge",
                    "  env:     BOTH, READS",
                    "  sets:    BOTH=x",
                    "  volume:  ./there:/a (read-only)",
                    "  volume:  ./new:/b (read-only)",
                    "  ⚠  sandbox_env values contain ${...} interpolation against host environment variables",
                    "  reads:   READS gets A, B",
                ],
                "./odek.json",
            ),
        },
    }
    for text in (render_explanation(explanation), json.dumps(explanation_to_json(explanation))):
        assert "canary" not in text


def test_command_is_the_one_that_a_start_runs(tmp_path: Path) -> None:
    """Placeholders stand only where every start differs."""
    case = Case(tmp_path, APP, BACK, flags={"sandbox_networks": ["app_default,back"], "sandbox_network": "bridge"})
    explanation, docker = case.explain(), f"{case.bin}/docker"
    spec = sandbox_spec(
        case.plan,
        engine=case.plan.engine(),
        networks=NetworkPlan(mode="bridge", attached=(APP, BACK)),
        image=case.plan.request.image.ref,
        image_id=IMAGE_ID,
        env=(),
        git=case.plan.git(),
    )
    owner = owner_of(case.host)
    labels = (
        ("io.odek.sandbox", "1"),
        ("io.odek.nonce", "NONCE"),
        ("io.odek.pid", "PID"),
        ("io.odek.start", "START"),
        ("io.odek.boot", owner.boot),
        ("io.odek.pidns", owner.pidns),
        ("io.odek.uid", str(owner.uid)),
    )
    assert explanation.commands == (
        (docker, *run_argv(spec, name="odek-PID-1", labels=labels)),
        (docker, "network", "connect", "--", A, "odek-PID-1"),
        (docker, "network", "connect", "--", B, "odek-PID-1"),
    )
    assert sections(explanation)["network"] == {
        "mode": ("bridge", "--sandbox-network"),
        "named": (["app_default", "back"], "--sandbox-networks"),
        "result": ("bridge+attached", "Docker"),
        "internet": (True, "result"),
        "attached": (
            [
                {"name": "app_default", "id": A, "internal": False, "compose_project": "app"},
                {"name": "back", "id": B, "internal": True, "compose_project": None},
            ],
            "Docker",
        ),
    }
    assert [note.split(":")[0] for note in explanation.notes] == [
        'network "app_default" is not internal',
        'network "back" is internal',
        "bridge is combined with attached networks",
        'while the sandbox runs, `docker compose down` cannot remove the networks of "app"; repeat it afterwards',
    ]


def test_image_that_is_not_there_is_pulled_first(tmp_path: Path) -> None:
    case = Case(tmp_path, image="", flags={"sandbox_image": "python:3.12"})
    explanation = case.explain()
    assert explanation.commands[0] == (f"{case.bin}/docker", "pull", "--", "python:3.12")
    assert "IMAGE-ID" in explanation.commands[1]
    assert (explanation.outcome, explanation.why) == (
        "sandbox",
        "the default of odek run; the Docker daemon answers and its image is pulled first",
    )


def test_dockerfile_of_the_project_is_built_first(tmp_path: Path) -> None:
    """R-36: the build that a start would run, what it is approved by, and no build where one of ours is there."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "Dockerfile.odek").write_text("FROM alpine:3.22\n")
    sha256 = hashlib.sha256(b"FROM alpine:3.22\n").hexdigest()
    case = Case(tmp_path, image="")
    explanation = case.explain()
    assert sections(explanation)["image"] == {
        "reference": (f"odek-sandbox:{sha256[:12]}", "./Dockerfile.odek"),
        "dockerfile_sha256": (sha256, "./Dockerfile.odek"),
        "build_network": (False, "default"),
        "id": (None, "Docker"),
        "action": ("build", "Docker"),
    }
    build = build_argv(
        case.host.cwd,
        tag=f"odek-sandbox:{sha256[:12]}",
        labels=(("io.odek.dockerfile", sha256), ("io.odek.inputs", "INPUTS")),
        id_file="ID-FILE",
        network=False,
        no_cache=False,
    )
    assert explanation.commands[0] == (f"{case.bin}/docker", *build)
    assert explanation.why == "the default of odek run; the Docker daemon answers and its image is built first"
    assert sections(explanation)["approval"]["asks"][1] == "./Dockerfile.odek"


def test_image_by_id_is_never_pulled(tmp_path: Path) -> None:
    """D-12."""
    explanation = Case(tmp_path, image="", flags={"sandbox_image": IMAGE_ID}).explain()
    assert [argv[1] for argv in explanation.commands] == ["run"]
    assert sections(explanation)["image"]["action"] == ("stop", "Docker")
    assert (explanation.outcome, explanation.why) == (
        "stop",
        f'no local image has the ID "{IMAGE_ID}" (--sandbox-image)',
    )


NETWORKS = {"flags": {"sandbox_networks": ["x"]}}
WIDENS = {"project": {"sandbox_network": "bridge"}}
DOWN = "the Docker daemon is not reachable"
NOBODY = "an approval is needed, and there is no terminal to ask for it"
UNSET = 'the variable "NOWHERE" is not set (./odek.json: sandbox_env.X)'


@pytest.mark.parametrize(
    ("layers", "seen", "outcome", "why"),
    [
        ({}, {}, "sandbox", "the default of odek run; the Docker daemon answers and everything is there"),
        ({}, {"down": True}, "host", f"{DOWN}, and no sandbox is demanded"),
        (
            {"flags": {"sandbox": True}},
            {"down": True},
            "stop",
            f"{DOWN}; not on this host, because a sandbox was asked for explicitly",
        ),
        (
            {"env": {"ODEK_REQUIRE_SANDBOX": "1"}},
            {"down": True},
            "stop",
            f"{DOWN}; not on this host, because ODEK_REQUIRE_SANDBOX is set",
        ),
        (NETWORKS, {"down": True}, "stop", f"{DOWN}; not on this host, because networks were asked for"),
        (NETWORKS, {}, "stop", 'network "x" not found by Docker (--sandbox-networks)'),
        (WIDENS, {}, "sandbox", "the default of odek run; the Docker daemon answers and everything is there"),
        (WIDENS, {"asked": False}, "stop", NOBODY),
        # the gate stands before the fall back: no sandbox, and yet no host
        (WIDENS, {"asked": False, "down": True}, "stop", NOBODY),
        ({"project": {"sandbox_env": {"X": "$NOWHERE"}}}, {}, "stop", UNSET),
        ({}, {"info": "{}"}, "stop", "the Docker engine does not describe itself"),
    ],
)
def test_outcome(layers: dict[str, Any], seen: dict[str, Any], outcome: str, why: str, tmp_path: Path) -> None:
    """R-4, R-6, R-7, R-8, R-60: as a run decides, in the order in which it does."""
    explanation = Case(tmp_path, **layers, **seen).explain()
    assert (explanation.outcome, explanation.why) == (outcome, why)


def test_all_problems_are_listed_in_the_order_of_a_run(tmp_path: Path) -> None:
    """Each once, though the failure of a look-up is that of all that depend on it."""
    unset = {"project": {"sandbox_env": {"X": "$NOWHERE"}}}
    problems = Case(tmp_path, down=True, asked=False, **unset).explain().problems
    assert problems == (NOBODY, UNSET, DOWN)
    assert Case(tmp_path, down=True, asked=False, **NETWORKS, **unset).explain().problems == (DOWN, UNSET)


def test_engine_decides_whom_commands_run_as_and_whether_they_do(tmp_path: Path) -> None:
    """R-31, D-13, B11: as a start does."""
    case = Case(tmp_path, info={**ROOTLESS, "PidsLimit": False})
    explanation = case.explain()
    refused = "this engine cannot enforce sandbox_pids_limit"
    assert (explanation.outcome, explanation.why) == ("stop", refused)
    assert sections(explanation)["user"]["user"] == ("0:0", "who started odek, who is uid 0 in a rootless engine")
    run = explanation.commands[-1]
    assert (
        "rw,noexec,nosuid,nodev,mode=1777,size=1073741824,nr_inodes=262144,uid=0,gid=0" in run[run.index("--tmpfs") + 1]
    )


def test_without_networks_known_there_is_no_command(tmp_path: Path) -> None:
    explanation = Case(tmp_path, down=True, **NETWORKS).explain()
    assert explanation.commands == ()
    assert sections(explanation)["network"]["attached"] == (None, "Docker")


def test_host_by_the_operators_word(tmp_path: Path) -> None:
    explanation = Case(tmp_path, env={"ODEK_NO_SANDBOX": "1"}).explain()
    assert render_explanation(explanation) == (
        "a run here works ON THIS HOST, without a sandbox\n"
        "  because ODEK_NO_SANDBOX\n\n"
        "place\n"
        "  sandboxed  no  (ODEK_NO_SANDBOX)\n"
        "  explicit   yes  (ODEK_NO_SANDBOX)\n"
        "  required   no  (default)\n"
    )
    assert explanation_to_json(explanation) == {
        "outcome": "host",
        "why": "ODEK_NO_SANDBOX",
        "problems": [],
        "notes": [],
        "place": {
            "sandboxed": {"value": False, "origin": "ODEK_NO_SANDBOX"},
            "explicit": {"value": True, "origin": "ODEK_NO_SANDBOX"},
            "required": {"value": False, "origin": "default"},
        },
        "commands": [],
    }


def test_home_out_of_sandbox_env_is_not_shown(tmp_path: Path) -> None:
    """R-17, R-32, S-9: neither as it is written nor with what a project would put into it."""
    case = Case(tmp_path, project={"sandbox_env": {"HOME": "/x/${TOKEN}"}}, env={"TOKEN": "canary"})
    explanation = case.explain()
    assert "HOME=/tmp" in explanation.commands[0]
    shown = render_explanation(explanation)
    assert ("canary" in shown, "/x/" in shown, "home  -  (sandbox_env)" in shown) == (False, False, True)


def test_heading_tells_of_the_question(tmp_path: Path) -> None:
    text = render_explanation(Case(tmp_path, **WIDENS).explain())
    assert text.splitlines()[0] == "a run here asks for an approval, then works in a sandbox"


def test_foreign_text_is_shown_harmlessly(tmp_path: Path) -> None:
    """R-64: a folder whose name moves the cursor and fakes lines."""
    folder = tmp_path / "a\x1b[2K\rb\nodek: sandbox network=none"
    folder.mkdir()
    case = Case(folder, project={"sandbox_volumes": ["./x\x1b[8m:/v"]})
    text = render_explanation(case.explain())
    assert not set(text) & {"\x1b", "\r"}
    assert not any(line.startswith("odek:") for line in text.splitlines())


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("plain", "plain"),
        ("", "''"),
        ("a b", "'a b'"),
        ("it's", "'it'\"'\"'s'"),
        ("é", "'é'"),
        ("a\nb", "$'a\\x0ab'"),
        ("\x1b[2K'\\", "$'\\x1b[2K\\'\\\\'"),
        ("\u202e", "$'\\xe2\\x80\\xae'"),
        ("\udcff", "$'\\xff'"),
    ],
)
def test_shell_word(text: str, word: str) -> None:
    """Each word means to a shell exactly what docker gets, on one line with nothing invisible in it."""
    assert shell_word(text) == word
    printed = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, check=True).stdout
    assert printed == text.encode("utf-8", "surrogateescape")


def test_filled_command_means_the_same() -> None:
    words = ["docker", "run", *(f"--flag{number} value{number}" for number in range(9)), "--", "image", "-c", "x y"]
    split = [part for word in words[:-1] for part in word.split()] + ["'x y'"]
    lines = fill(split, 40)
    script = "set -- " + "\n".join(lines) + "; printf '%s\\n' \"$@\""
    printed = subprocess.run(["sh", "-c", script], capture_output=True, check=True, text=True).stdout
    assert printed.split("\n") == [*split[:-1], "x y", ""]
    assert max(map(len, lines)) <= 42
    assert all(line.count("--flag") == line.count("value") for line in lines)


@pytest.mark.parametrize(
    ("image", "info", "layers", "notes"),
    [
        (
            "arm64",
            INFO,
            {"flags": {"sandbox_image": "i:1"}},
            ['the image "i:1" is for arm64, Docker\'s machine has amd64'],
        ),
        ("arm64/v8", INFO, {}, ["is for arm64/v8, Docker's machine has amd64"]),
        ("amd64", INFO, {}, []),
        ("", INFO, {"flags": {"sandbox_image": "i:1"}}, []),
    ],
)
def test_image_for_another_processor_is_named(
    image: str, info: str, layers: dict[str, Any], notes: list[str], tmp_path: Path
) -> None:
    """A9: as a start names it, which stops at its first program unless the machine emulates that processor."""
    case = Case(tmp_path, image="", info=info, **layers)
    described = json.dumps(
        [{"Id": IMAGE_ID, "Architecture": image.partition("/")[0], "Variant": image.partition("/")[2]}]
    )
    case.docker = FakeDocker().on("version", has="{{.Server.Arch}}", stdout="amd64\n").on("version", stdout="29\n")
    case.docker.on("info", stdout=info)
    if image:
        case.docker.on("image", "inspect", has="--format", stdout=f"{IMAGE_ID}\n")
        case.docker.on("image", "inspect", stdout=described)
    case.docker.on("image", "inspect", code=1, stderr="Error: No such image")
    case.runtime = fake_runtime(case.host, case.docker)
    explanation = case.explain()
    assert explanation.outcome == "sandbox"
    assert len(explanation.notes) == len(notes)
    assert all(part in note for part, note in zip(notes, explanation.notes, strict=True))


@pytest.mark.parametrize("local", [True, False])
def test_local_image_that_takes_the_place_of_the_default_is_named(local: bool, tmp_path: Path) -> None:
    """A9, D-23: the default is pulled, and where that fails a start uses the operator's own image."""
    case = Case(tmp_path, image="")
    docker = FakeDocker().on("version", has="{{.Server.Arch}}", stdout="amd64\n").on("version", stdout="29\n")
    docker.on("info", stdout=INFO)
    if local:
        docker.on("image", "inspect", has=BUSYBOX_TAG, stdout=f"{IMAGE_ID}\n")
    docker.on("image", "inspect", code=1, stderr="Error: No such image")
    case.runtime = fake_runtime(case.host, docker)
    explanation = case.explain()
    assert sections(explanation)["image"]["action"] == ("pull", "Docker")
    pin = case.plan.request.image.ref
    wanted = (f"where {pin} cannot be pulled, the local image {BUSYBOX_TAG} is used",) if local else ()
    assert explanation.notes == wanted


def test_same_build_in_another_home_is_used(tmp_path: Path) -> None:
    """A21: explained as a start does it: what the image's label proves is not built again."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "Dockerfile.odek").write_text("FROM alpine:3.22\n")
    case = Case(tmp_path, image="")
    dockerfile, base = case.plan.request.dockerfile, "sha256:" + "d" * 64
    assert dockerfile is not None
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty").chmod(0o700)
    digest = digest_inputs(dockerfile, (("alpine:3.22", base),), str(tmp_path / "empty"))
    labels = {LABEL: dockerfile.sha256, INPUTS_LABEL: digest}
    docker = FakeDocker().on("version", has="{{.Server.Arch}}", stdout="amd64\n").on("version", stdout="29\n")
    docker.on("info", stdout=INFO)
    docker.on("image", "inspect", has="alpine:3.22", stdout=f"{base}\n")
    docker.on("image", "inspect", stdout=json.dumps([{"Id": IMAGE_ID, "Config": {"Labels": labels}}]))
    case.runtime = fake_runtime(case.host, docker, operator=Answers())
    explanation = case.explain()
    assert sections(explanation)["image"]["action"] == ("use", "Docker")
    assert [argv[1] for argv in explanation.commands] == ["run"]
    assert not (tmp_path / "home" / ".odek" / "builds.json").exists()


@pytest.mark.parametrize("sandboxed", [True, False])
@pytest.mark.parametrize(("asked", "approval"), [(True, "asked for"), (False, "impossible")])
def test_mcp_servers_are_named_with_their_places(sandboxed: bool, asked: bool, approval: str, tmp_path: Path) -> None:
    """R-192, R-193: which would start, and where; nothing is started and nothing asked. No value is shown."""
    case = Case(
        tmp_path,
        asked=asked,
        operator={
            "mcp_servers": {
                "here": {"command": "docker", "sandbox": False},
                "inside": {"command": "x", "args": ["a b"], "env": {"A": "canary"}},
                "none": {"command": "/none", "sandbox": False},
            }
        },
        project={"mcp_servers": {"here": {"command": "y"}, "theirs": {"command": "./z", "sandbox": False}}},
        env={} if sandboxed else {"ODEK_NO_SANDBOX": "1"},
    )
    explanation = case.explain()
    no = "no: it runs in a sandbox only"
    wanted = "in the sandbox, when it is approved" if asked else "no: it needs an approval"
    home = case.host.home
    missing = 'no: there is no program "/none" outside of this project'
    assert sections(explanation)["mcp_servers"] == {
        "here": ({"starts": "ON THIS HOST", "in": home, "command": ["docker"]}, "~/.odek/config.json"),
        "inside": (
            {"starts": "in the sandbox" if sandboxed else no, "command": ["x", "a b"], "env": ["A"]},
            "~/.odek/config.json",
        ),
        "none": ({"starts": missing, "in": home, "command": ["/none"]}, "~/.odek/config.json"),
        "theirs": (
            {"starts": wanted if sandboxed else no, "approval": approval, "command": ["./z"]},
            "./odek.json",
        ),
    }
    assert "command x 'a b'" in render_explanation(explanation)
    assert "canary" not in json.dumps(explanation_to_json(explanation))
