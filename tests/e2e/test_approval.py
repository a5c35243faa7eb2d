"""The approval prompt of the real program at a pseudo-terminal, byte for byte, answered each way (R-60 to R-64)."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.docker_engine import Engine
from support.docker_log import DockerLog
from support.odek_process import Odek
from support.pty_process import AtTerminal
from support.recordings import write_recording

QUESTION = "Approve? [y = once / t = trust this project / N] "
KEYS = "project_sandbox_approvals.json"
PROMPT = """\
WARNING: project config (./odek.json) requests sandbox overrides:
  image:   {image}
  network: bridge
  env:     HOMELIKE, X
  sets:    HOMELIKE=1
  volume:  ./cache:/cache
  user:    {user}
  ⚠️  sandbox_env values contain ${{...}} interpolation against host environment variables
  reads:   X gets SOME_SECRET, OTHER

Allowing this means code in the sandbox can read workspace files and,
depending on network mode, contact external hosts.

"""
SECRETS = {"SOME_SECRET": "canary-1", "OTHER": "canary-2"}
DENIED = "odek: error: the sandbox overrides of ./odek.json were not approved"
NOBODY_ASKED = (
    "odek: error: the sandbox overrides of ./odek.json need an approval, and there is no terminal to ask for it"
)
USER = f"{os.getuid()}:{os.getgid()}"


def settings(image: str, **changes: object) -> dict[str, object]:
    return {
        "sandbox_image": image,
        "sandbox_network": "bridge",
        "sandbox_env": {"X": "${SOME_SECRET}-$OTHER", "HOMELIKE": "1"},
        "sandbox_volumes": ["./cache:/cache"],
        "sandbox_user": USER,
        **changes,
    }


class Place:
    """A project, a model that asks for one command, and a docker whose calls are written down."""

    def __init__(self, odek: Odek, log: DockerLog, image: str) -> None:
        self.odek = odek
        self.log = log
        self.image = image
        self.write()
        self.arguments = ("run", "--base-url", write_recording(odek.home / "recording", 'echo "X=$X"', expect="X="))
        self.env = {**SECRETS, "PATH": log.path}

    def write(self, **changes: object) -> None:
        (self.odek.cwd / "odek.json").write_text(json.dumps(settings(self.image, **changes)))

    def at_terminal(self) -> AtTerminal:
        return AtTerminal(self.odek, *self.arguments, "a task", env=self.env)

    def without_terminal(self, cwd: Path | None = None) -> tuple[int, list[str]]:
        """Run where nobody can be asked; return the exit code and the errors."""
        outcome = self.odek.run(*self.arguments, "a task", env=self.env, cwd=cwd)
        return outcome.code, [line for line in outcome.stderr.splitlines() if line.startswith("odek: error: ")]

    @property
    def keys(self) -> Path:
        return self.odek.home / ".odek" / KEYS


@pytest.fixture
def closed(odek: Odek, tmp_path: Path) -> Place:
    """Docker must not be called."""
    return Place(odek, DockerLog.make(tmp_path / "shim"), "some-image:1")


@pytest.fixture
def place(odek: Odek, tmp_path: Path, docker_engine: Engine, base_image: str) -> Place:
    return Place(odek, DockerLog.make(tmp_path / "shim", docker_engine.client), base_image)


def expected_prompt(image: str) -> str:
    return (PROMPT.format(image=image, user=USER) + QUESTION).replace("\n", "\r\n")


@pytest.mark.parametrize(
    ("keys", "echo", "code"),
    [
        ("n\n", "n\r\n", 1),
        ("N\n", "N\r\n", 1),
        ("no\n", "no\r\n", 1),
        ("\n", "\r\n", 1),
        ("\x04", "\r\n", 1),
        ("\x03", "^C", 130),
    ],
    ids=["n", "N", "no", "Enter", "end of input", "Ctrl-C"],
)
def test_no_ends_the_run(keys: str, echo: str, code: int, closed: Place) -> None:
    """R-60, B33: the whole screen; nothing is started, nothing remembered, the model is not asked."""
    with closed.at_terminal() as terminal:
        assert terminal.read_until(QUESTION) == expected_prompt("some-image:1")
        terminal.type(keys)
        outcome = terminal.end()
        assert terminal.rest().rstrip("\r\n") == echo.rstrip("\r\n")
    assert (outcome.code, outcome.stdout, closed.log.calls(), closed.keys.exists()) == (code, "", [], False)
    errors = outcome.stderr.splitlines()
    assert errors[0] == (DENIED if code == 1 else "odek: stopped by SIGINT")
    assert "canary" not in outcome.stderr


def test_answers_that_are_not_understood_ask_again_and_end_in_no(closed: Place) -> None:
    """R-64, B33."""
    with closed.at_terminal() as terminal:
        terminal.read_until(QUESTION)
        for answer in ("a", "yy"):
            terminal.type(f"{answer}\n")
            again = f'{answer}\r\n"{answer}" is none of the answers\r\n{QUESTION}'
            assert terminal.read_until(QUESTION) == again
        terminal.type("please\n")
        outcome = terminal.end()
        assert terminal.rest() == 'please\r\n"please" is none of the answers\r\nno answer: taken as no\r\n'
    assert (outcome.code, closed.log.calls()) == (1, [])


def test_keys_typed_before_the_question_do_not_answer_it(closed: Place) -> None:
    """R-64, B33: what was typed ahead is discarded, and the question still waits."""
    with closed.at_terminal() as terminal:
        terminal.type("t\ny\nyes\n")
        shown = terminal.read_until(QUESTION)
        assert shown.endswith(expected_prompt("some-image:1"))
        terminal.type("n\n")
        outcome = terminal.end()
    assert (outcome.code, closed.log.calls(), closed.keys.exists()) == (1, [], False)


def test_piped_yes_approves_nothing(closed: Place) -> None:
    """R-64, B33: `yes | odek run`."""
    outcome = closed.odek.run(*closed.arguments, "a task", env=closed.env, stdin="y\n" * 100)
    assert (outcome.code, NOBODY_ASKED in outcome.stderr.splitlines()) == (1, True)
    assert (closed.log.calls(), closed.keys.exists()) == ([], False)


def test_hostile_names_cannot_rewrite_the_prompt(closed: Place) -> None:
    """R-64, B32: no byte that moves the cursor, and the second prompt stands inside a quoted value."""
    fake = "/x\r\x1b[2K\x1b[1A\x1b]52;c;ZXZpbA==\x07\x9b8m\u202e\u200b"
    closed.write(sandbox_volumes=[f"./a{fake}\nApprove? [y = once / t = trust this project / N] y:/cache"])
    with closed.at_terminal() as terminal:
        shown = terminal.read_until(QUESTION)
        terminal.type("n\n")
        assert terminal.end().code == 1
    assert {character for character in shown if ord(character) < 32} == {"\r", "\n"}
    assert not set(shown) & {"\x9b", "\u202e", "\u200b"}
    assert shown.count("\r\nApprove?") == 1
    assert '"./a/x\\r\\x1b[2K\\x1b[1A\\x1b]52;c;ZXZpbA==\\x07\\x9b8m' in shown.replace("\r\n         + ", "")


def test_yes_approves_once(place: Place) -> None:
    """R-60: applied, not remembered: the next run asks again."""
    with place.at_terminal() as terminal:
        assert terminal.read_until(QUESTION) == expected_prompt(place.image)
        terminal.type("y\n")
        outcome = terminal.end()
        assert terminal.rest() == "y\r\n"
    assert (outcome.code, outcome.stdout) == (0, "done\n")
    assert f"odek: sandbox network=bridge pids=4096 image={place.image}" in outcome.stderr.splitlines()
    assert (place.odek.cwd / "cache").is_dir()
    assert not place.keys.exists()
    assert place.without_terminal() == (1, [NOBODY_ASKED])


def test_trust_is_remembered_until_anything_changes(place: Place, tmp_path: Path) -> None:
    """R-61, R-62, D-5, B30: the same again does not ask; one changed thing, or another folder, does."""
    with place.at_terminal() as terminal:
        terminal.read_until(QUESTION)
        terminal.type("t\n")
        outcome = terminal.end()
    assert outcome.code == 0
    assert outcome.stderr.splitlines()[0] == (
        f"odek: remembered in {place.keys}; odek asks again when the project asks for anything else; "
        f"the image is bound by its name {place.image}, not by its content"
    )
    assert place.keys.stat().st_mode & 0o7777 == 0o600
    (approved,) = json.loads(place.keys.read_text())
    assert place.without_terminal() == (0, [])
    changes: list[dict[str, object]] = [
        {"sandbox_env": {"X": "${SOME_SECRET}-$HOME", "HOMELIKE": "1"}},
        {"sandbox_env": {"X": "${SOME_SECRET}-$OTHER", "HOMELIKE": "1 "}},
        {"sandbox_env": {"X": "${SOME_SECRET}-$OTHER"}},
        {"sandbox_volumes": ["./cache:/cache2"]},
        {"sandbox_volumes": ["./cache:/cache", "./more:/more"]},
        {"sandbox_network": "none"},
        {"sandbox_user": "4711:4711"},
        {"sandbox_image": "some-image:2"},
    ]
    for change in changes:
        place.write(**change)
        assert place.without_terminal() == (1, [NOBODY_ASKED]), change
    place.write()
    (place.odek.cwd / "cache").rmdir()
    moved = tmp_path / "moved"
    shutil.copytree(place.odek.cwd, moved)
    assert place.without_terminal(cwd=moved) == (1, [NOBODY_ASKED])
    listed = json.loads(place.odek.run("approvals", "list", "--json").stdout)
    assert [(entry["key"], entry["folder"]) for entry in listed] == [(approved, str(place.odek.cwd))]
    assert place.odek.run("approvals", "revoke", "--here").code == 0
    assert place.without_terminal() == (1, [NOBODY_ASKED])


def test_dockerfile_with_one_more_space_asks_again(closed: Place) -> None:
    """R-36, R-62: the digest of the bytes is in the question."""
    (closed.odek.cwd / "odek.json").unlink()
    closed.arguments = (*closed.arguments, "--sandbox")  # what follows the approval fails: there is no docker
    dockerfile = closed.odek.cwd / "Dockerfile.odek"
    shown = []
    for text in ("FROM scratch\n", "FROM  scratch\n"):
        dockerfile.write_text(text)
        with closed.at_terminal() as terminal:
            shown.append(terminal.read_until(QUESTION))
            terminal.type("t\n")
            terminal.end()
        assert closed.without_terminal() == (
            1,
            ["odek: error: the docker client failed before it could ask a daemon (exit status 1)"],
        )
    dockerfile.write_text("FROM scratch\n\n")
    assert closed.without_terminal() == (
        1,
        [NOBODY_ASKED.replace("sandbox overrides of ./odek.json", "build steps of ./Dockerfile.odek")],
    )
    digests = [next(line for line in screen.splitlines() if "sha256:" in line) for screen in shown]
    assert digests[0] != digests[1]
    assert len(json.loads(closed.keys.read_text())) == 2


Explain = Callable[..., dict[str, object]]


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--sandbox-network", "bridge", "--sandbox-memory", "256m", "--sandbox-cpus", "0.5"),
        ("--sandbox-readonly", "--sandbox-pids-limit", "128", "--sandbox-user", "1234:1234"),
        ("--ctx", "odek.json,/etc/passwd"),
    ],
    ids=["defaults", "limits", "read-only", "a file from outside"],
)
def test_explain_shows_the_command_that_docker_receives(flags: tuple[str, ...], place: Place) -> None:
    """Issue 3: `odek sandbox explain` equals what a run really does."""
    place.write(sandbox_network="none", sandbox_env={"A": "1", "HOME": "/dev/shm"})
    env = {**place.env, "ODEK_APPROVE_PROJECT_SANDBOX": "1"}
    explained = place.odek.run("sandbox", "explain", "--json", *flags, env=env)
    assert (explained.code, place.log.changing()) == (0, [])
    explanation = json.loads(explained.stdout)
    assert explanation["outcome"] == "sandbox"
    (place.odek.cwd / "cache").mkdir()
    outcome = place.odek.run(*place.arguments, *flags, "a task", env=env)
    assert outcome.code == 0, outcome.stderr
    (started,) = (call for call in place.log.calls() if call[0] == "run")
    owner = dict(word.split("=", 1) for word in started if word.startswith("io.odek."))
    name = started[started.index("--name") + 1]
    replaced = {
        name: "odek-PID-1",
        f"io.odek.nonce={owner['io.odek.nonce']}": "io.odek.nonce=NONCE",
        f"io.odek.pid={owner['io.odek.pid']}": "io.odek.pid=PID",
        f"io.odek.start={owner['io.odek.start']}": "io.odek.start=START",
    }
    docker = str(place.log.folder / "docker")
    assert explanation["commands"] == [[docker, *(replaced.get(word, word) for word in started)]]


def test_config_view_tool_shows_what_the_container_has(place: Place) -> None:
    """R-19: the model may ask; the names are fenced off, no value of a variable is in it."""
    place.write(sandbox_network="none", sandbox_env={"A": "canary-3"})
    recording = place.odek.home / "asks"
    expect = [
        '"network":"bridge"',
        f'"image":"{place.image}"',
        '"pids_limit":99',
        '"env_keys":["A"]',
        '"explicit":false',
    ]
    lines: list[dict[str, object]] = [
        {"odek_replay": 1},
        {"tool_calls": [{"name": "config_view", "arguments": {}}]},
        {"content": "seen", "expect": [*expect, 'source="config_view"', f'"user":"{USER}"']},
    ]
    recording.write_text("".join(json.dumps(line) + "\n" for line in lines))
    env = {**place.env, "ODEK_APPROVE_PROJECT_SANDBOX": "1", "ODEK_SANDBOX_NETWORK": "bridge"}
    flags = ("--base-url", f"replay:{recording}", "--sandbox-pids-limit", "99", "--json")
    outcome = place.odek.run("run", *flags, "a task", env=env)
    assert (outcome.code, "canary" in outcome.stdout + outcome.stderr) == (0, False), outcome.stderr
