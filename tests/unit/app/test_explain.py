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
from fakes.layering import make_host, make_layers

from odek.app.bootstrap import CommandProfile, firmness_of, intent_of
from odek.app.explain import Asked, Explanation, Look, explain_host, explain_sandbox
from odek.app.project_approval import approval_request
from odek.app.sandbox import build_request, sandbox_spec
from odek.approval.store import approval_key
from odek.cli.explain_view import explanation_to_json, fill, render_explanation, shell_word
from odek.config.resolve import project_overrides, resolve
from odek.config.settings import Settings
from odek.errors import ConfigError
from odek.sandbox.argv import build_argv, run_argv
from odek.sandbox.container.owner import Owner
from odek.sandbox.engine import Engine
from odek.sandbox.errors import DaemonUnreachable, SandboxConfigError
from odek.sandbox.network.plan import Network, NetworkPlan

PROFILE = CommandProfile(command="run")
A, B = "a" * 64, "b" * 64
IMAGE_ID = "sha256:" + "c" * 64
OWNER = Owner(pid=4711, start="123", boot="boot", pidns="pid:[1]", uid=1000)
APP = Network(name="app_default", id=A, internal=False, compose_project="app")
BACK = Network(name="back", id=B, internal=True)
UNREACHABLE = DaemonUnreachable("no connection", "the Docker daemon is not reachable", hint="start it")
GONE = SandboxConfigError('network "x" not found by Docker (--sandbox-networks)')


class Silent:
    def note(self, text: str) -> None:
        raise AssertionError(text)

    def warn(self, text: str, hint: str = "") -> None:
        raise AssertionError(text + hint)


class Case:
    """Settings in a scratch folder, and what a look at the machine says."""

    def __init__(self, root: Path, **layers: Mapping[str, Any]) -> None:
        self.host = make_host(root, uid=os.getuid())
        self.layers = make_layers(**layers)  # type: ignore[arg-type]
        self.settings: Settings = resolve(self.layers)
        intent = intent_of(PROFILE, self.settings)
        draft = build_request(self.settings, self.host, Silent())
        self.asked = Asked(
            settings=self.settings,
            layers=self.layers,
            host=self.host,
            intent=intent,
            draft=draft,
            firmness=firmness_of(PROFILE, self.settings, intent, draft),
            owner=OWNER,
        )

    def look(self, *attached: Network, **changes: Any) -> Look:
        plan = NetworkPlan(mode=self.asked.draft.networks.mode, attached=attached)
        request = approval_request(project_overrides(self.layers), plan, self.host)
        state = "not needed" if request.is_empty else "asked for"
        seen = Look(client="/bin/docker", version="29", plan=plan, image_id=IMAGE_ID, request=request, approval=state)
        return dataclasses.replace(seen, **changes)

    def explain(self, *attached: Network, **changes: Any) -> Explanation:
        return explain_sandbox(self.asked, self.look(*attached, **changes))


def sections(explanation: Explanation) -> dict[str, dict[str, tuple[object, str]]]:
    return {
        section.name: {entry.name: (entry.value, entry.origin) for entry in section.entries}
        for section in explanation.sections
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
    request = case.look().request
    assert request is not None
    work = case.host.cwd
    assert sections(explanation) == {
        "place": {
            "sandboxed": (True, "the default of odek run"),
            "explicit": (False, "the default of odek run"),
            "required": (True, "ODEK_REQUIRE_SANDBOX"),
            "docker": ("/bin/docker", "PATH"),
            "daemon": ("29", "Docker"),
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
                    "  volume:  ./there:/a",
                    "  volume:  ./new:/b",
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
    case = Case(tmp_path, flags={"sandbox_networks": ["app_default,back"], "sandbox_network": "bridge"})
    explanation = case.explain(APP, BACK)
    plan = NetworkPlan(mode="bridge", attached=(APP, BACK))
    spec = sandbox_spec(
        case.asked.draft,
        case.settings,
        case.host,
        engine=Engine(),
        plan=plan,
        image=case.asked.draft.image.ref,
        image_id=IMAGE_ID,
        env=(),
    )
    labels = (
        ("io.odek.sandbox", "1"),
        ("io.odek.nonce", "NONCE"),
        ("io.odek.pid", "PID"),
        ("io.odek.start", "START"),
        ("io.odek.boot", "boot"),
        ("io.odek.pidns", "pid:[1]"),
        ("io.odek.uid", "1000"),
    )
    assert explanation.commands == (
        ("/bin/docker", *run_argv(spec, name="odek-PID-1", labels=labels)),
        ("/bin/docker", "network", "connect", "--", A, "odek-PID-1"),
        ("/bin/docker", "network", "connect", "--", B, "odek-PID-1"),
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
    explanation = Case(tmp_path, flags={"sandbox_image": "python:3.12"}).explain(image_id="")
    assert explanation.commands[0] == ("/bin/docker", "pull", "--", "python:3.12")
    assert "IMAGE-ID" in explanation.commands[1]
    assert (explanation.outcome, explanation.why) == (
        "sandbox",
        "the default of odek run; the Docker daemon answers and its image is pulled first",
    )


def test_dockerfile_of_the_project_is_built_first(tmp_path: Path) -> None:
    """R-36: the build that a start would run, what it is approved by, and no build where one of ours is there."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "Dockerfile.odek").write_text("FROM alpine:3.22\n")
    case = Case(tmp_path)
    sha256 = hashlib.sha256(b"FROM alpine:3.22\n").hexdigest()
    request = approval_request((), NetworkPlan(), case.host, case.asked.draft.dockerfile)
    explanation = case.explain(image_id="", request=request, approval="asked for")
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
    assert explanation.commands[0] == ("/bin/docker", *build)
    assert explanation.why == "the default of odek run; the Docker daemon answers and its image is built first"
    assert sections(explanation)["approval"]["asks"][1] == "./Dockerfile.odek"
    assert [argv[1] for argv in case.explain().commands] == ["run"]


def test_image_by_id_is_never_pulled(tmp_path: Path) -> None:
    """D-12."""
    explanation = Case(tmp_path, flags={"sandbox_image": IMAGE_ID}).explain(image_id="")
    assert [argv[1] for argv in explanation.commands] == ["run"]
    assert sections(explanation)["image"]["action"] == ("stop", "Docker")
    assert (explanation.outcome, explanation.why) == (
        "stop",
        "no local image has that ID, and such an image is never pulled",
    )


NETWORKS = {"flags": {"sandbox_networks": ["x"]}}
DOWN = {"version": "", "failure": UNREACHABLE, "image_id": ""}
LOST = {**DOWN, "plan": None, "request": None, "approval": "unknown"}
WIDENS = {"project": {"sandbox_network": "bridge"}}


@pytest.mark.parametrize(
    ("layers", "seen", "outcome", "why"),
    [
        ({}, {}, "sandbox", "the default of odek run; the Docker daemon answers and everything is there"),
        ({}, DOWN, "host", "the Docker daemon is not reachable, and nobody insists on a sandbox"),
        (
            {"flags": {"sandbox": True}},
            DOWN,
            "stop",
            "the Docker daemon is not reachable; not on this host, because a sandbox was asked for explicitly",
        ),
        (
            {"env": {"ODEK_REQUIRE_SANDBOX": "1"}},
            DOWN,
            "stop",
            "the Docker daemon is not reachable; not on this host, because ODEK_REQUIRE_SANDBOX is set",
        ),
        (
            NETWORKS,
            LOST,
            "stop",
            "the Docker daemon is not reachable; not on this host, because networks were asked for",
        ),
        (NETWORKS, {"plan": None, "plan_failure": GONE, "approval": "unknown"}, "stop", GONE.message),
        (WIDENS, {}, "sandbox", "the default of odek run; the Docker daemon answers and everything is there"),
        (
            WIDENS,
            {"approval": "impossible"},
            "stop",
            "an approval is needed, and there is no terminal to ask for it",
        ),
        (
            WIDENS,  # the gate stands before the fall back: no sandbox, and yet no host
            {**DOWN, "approval": "impossible"},
            "stop",
            "an approval is needed, and there is no terminal to ask for it",
        ),
        (
            {"project": {"sandbox_env": {"X": "$NOWHERE"}}},
            {"env_failure": ConfigError('the variable "NOWHERE" is not set')},
            "stop",
            'the variable "NOWHERE" is not set',
        ),
        (
            {},
            {"version": "", "failure": SandboxConfigError("something answers")},
            "stop",
            "something answers",
        ),
    ],
)
def test_outcome(layers: dict[str, Any], seen: dict[str, Any], outcome: str, why: str, tmp_path: Path) -> None:
    """R-4, R-6, R-7, R-8, R-60: as a run decides, in the order in which it does."""
    explanation = Case(tmp_path, **layers).explain(**seen)
    assert (explanation.outcome, explanation.why) == (outcome, why)


def test_all_problems_are_listed_in_the_order_of_a_run(tmp_path: Path) -> None:
    env_failure = ConfigError("unset")
    seen: dict[str, Any] = {"approval": "impossible", "env_failure": env_failure}
    assert Case(tmp_path).explain(**DOWN, **seen).problems == (
        "an approval is needed, and there is no terminal to ask for it",
        "unset",
        "the Docker daemon is not reachable",
    )
    assert Case(tmp_path, **NETWORKS).explain(**{**LOST, "env_failure": env_failure}).problems == (
        "the Docker daemon is not reachable",
        "unset",
    )


def test_engine_decides_whom_commands_run_as_and_whether_they_do(tmp_path: Path) -> None:
    """R-31, D-13, B11: as a start does."""
    refused = SandboxConfigError("this engine cannot enforce sandbox_pids_limit")
    explanation = Case(tmp_path).explain(engine=Engine(rootless=True), failure=refused)
    assert (explanation.outcome, explanation.why) == ("stop", refused.message)
    assert sections(explanation)["user"]["user"] == ("0:0", "who started odek, who is uid 0 in a rootless engine")
    (run,) = explanation.commands
    assert (
        "rw,noexec,nosuid,nodev,mode=1777,size=1073741824,nr_inodes=262144,uid=0,gid=0" in run[run.index("--tmpfs") + 1]
    )


def test_without_networks_known_there_is_no_command(tmp_path: Path) -> None:
    explanation = Case(tmp_path, **NETWORKS).explain(**LOST)
    assert explanation.commands == ()
    assert sections(explanation)["network"]["attached"] == (None, "Docker")


def test_host_by_the_operators_word(tmp_path: Path) -> None:
    settings = resolve(make_layers(env={"ODEK_NO_SANDBOX": "1"}))
    explanation = explain_host(settings, intent_of(PROFILE, settings))
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
