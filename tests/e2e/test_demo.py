"""`odek demo`, replay files, and the local image: odek without a key, a registry or a network (R-87)."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.model_server import ModelServer, calls, text
from support.docker_engine import Engine, find_static_busybox
from support.odek_process import Odek
from support.pty_session import Talk
from support.serve_process import serving_process, wait_until

from odek.demo.project import FILES
from odek.demo.recording import render_recording

ANSWER = json.loads(render_recording().splitlines()[-1])["content"] + "\n"
LOCAL_IMAGE = "odek-busybox:local"


@pytest.fixture
def scratch(odek: Odek, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment with a TMPDIR of its own; at the end nothing is left there, at home, or in the folder."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    temporary.chmod(0o1777)
    for folder in (tmp_path, *list(tmp_path.parents)[:2]):
        folder.chmod(0o711)  # the sandbox's user must reach what is below
    yield {"TMPDIR": str(temporary)}
    left = [str(path) for place in (temporary, odek.home, odek.cwd) for path in sorted(place.rglob("*"))]
    assert left == []


def every_object(engine: Engine) -> set[str]:
    """Return every network and volume of the engine, whoever made it."""
    networks = engine.run("network", "ls", "--quiet", "--no-trunc").stdout.split()
    return {*networks, *engine.run("volume", "ls", "--quiet").stdout.split()}


@pytest.fixture
def nothing_left(docker_engine: Engine) -> Iterator[None]:
    before = every_object(docker_engine)
    yield
    own = {name for name in every_object(docker_engine) - before if name.startswith("odek")}
    assert own == set()


def test_demo_shows_a_whole_run_and_leaves_nothing(
    odek: Odek, docker_engine: Engine, base_image: str, scratch: dict[str, str], nothing_left: None
) -> None:
    """R-87: the answer on stdout, the story on stderr; not one container, network, volume or file remains."""
    outcome = odek.run("demo", env=scratch, timeout_s=300)
    assert (outcome.code, outcome.stdout) == (0, ANSWER), outcome.stderr
    for told in (
        "2 failed",
        "0 failed",
        "odek: sandbox network=none pids=4096 image=",
        "capabilities: 0000000000000000",
    ):
        assert told in outcome.stderr
    assert [line for line in outcome.stderr.splitlines() if "│ WORKED" in line] == []


def test_demo_at_a_terminal_breaks_lines_between_words(
    odek: Odek, docker_engine: Engine, base_image: str, scratch: dict[str, str]
) -> None:
    """R-87: the first screen of most people is shown as a run's is: rendered, folded, the numbers last."""
    with Talk(odek, "demo", env=scratch, columns=80) as talk:
        code, shown = talk.end()
    assert max(map(len, shown[shown.index("slugify.sh replaced") :].splitlines())) <= 80
    words = " ".join(shown.split())
    assert (code, " ".join(ANSWER.split()) in words) == (0, True), shown
    assert "task: The test of this project fails. Find out why, fix it, and then show what this" in words
    assert "model calls" in words[-40:]


def test_demo_as_events(odek: Odek, docker_engine: Engine, base_image: str, scratch: dict[str, str]) -> None:
    """R-81: --json."""
    outcome = odek.run("demo", "--json", env=scratch, timeout_s=300)
    events = [json.loads(line) for line in outcome.stdout.splitlines()]
    assert (outcome.code, events[-1]["event"], events[-1]["answer"] + "\n") == (0, "finished", ANSWER), outcome.stderr


def test_demo_is_deaf_to_settings_and_to_the_folder(
    odek: Odek, docker_engine: Engine, base_image: str, tmp_path: Path
) -> None:
    """R-87: a project's files, an operator's settings and variables do not change the demo."""
    (odek.cwd / "odek.json").write_text("{ not even JSON")
    (odek.cwd / "Dockerfile.odek").write_text("FROM scratch\n")
    (odek.home / ".odek").mkdir(mode=0o700)
    (odek.home / ".odek" / "config.json").write_text(json.dumps({"sandbox": False, "tools": {"enabled": []}}))
    outcome = odek.run("demo", env={"ODEK_NO_SANDBOX": "1", "ODEK_MODEL": "x", "ODEK_MAX_ITER": "1"}, timeout_s=300)
    assert (outcome.code, outcome.stdout) == (0, ANSWER), outcome.stderr


def test_demo_never_runs_on_the_host(odek: Odek, tmp_path: Path, scratch: dict[str, str]) -> None:
    """R-7: it asks for the sandbox explicitly; without a daemon it stops, and leaves nothing."""
    outcome = odek.run("demo", env={**scratch, "DOCKER_HOST": "unix:///nowhere/docker.sock"})
    assert (outcome.code, outcome.stdout) == (1, "")
    assert outcome.stderr.startswith("odek: error: ")


def test_demo_that_is_interrupted_leaves_nothing(
    odek: Odek, docker_engine: Engine, base_image: str, scratch: dict[str, str]
) -> None:
    """R-38: at several moments."""
    for moment_s in (0.15, 0.4, 0.7):
        process = odek.start("demo", env=scratch)
        time.sleep(moment_s)
        process.send_signal(signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=30)
        assert process.returncode in (143, -signal.SIGTERM) or stdout == ANSWER, stderr


def test_recording_of_a_real_model_plays_back(
    odek: Odek, docker_engine: Engine, base_image: str, tmp_path: Path
) -> None:
    """R-87: --record writes while a model answers; replay: gives the same answer without one."""
    place, image = tmp_path / "talk.jsonl", ("--sandbox-image", base_image)
    with ModelServer(calls(("shell", {"command": "echo made >f; cat f"})), text("it says made")) as server:
        recorded = odek.run("run", "--base-url", server.base_url, "--record", str(place), *image, "x")
    assert (recorded.code, recorded.stdout) == (0, "it says made\n"), recorded.stderr
    (odek.cwd / "f").unlink()
    played = odek.run("run", "--base-url", f"replay:{place}", *image, "x")
    assert (played.code, played.stdout) == (0, "it says made\n"), played.stderr
    assert (odek.cwd / "f").read_text() == "made\n"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (["{"], "recording"),
        ([], "recording"),
        ([{"odek_replay": 99}], "99"),
        ([{"odek_replay": 1}], "recording"),
        ([{"odek_replay": 1}, {"content": "x", "expect": ["never said"]}], "never said"),
    ],
    ids=["no JSON", "empty", "version", "no reply", "unmet"],
)
def test_recording_that_cannot_be_played(lines: list[object], said: str, odek: Odek) -> None:
    """R-87: an error with a reason, before or instead of an answer."""
    place = odek.cwd / "recording.jsonl"
    place.write_text("".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines))
    outcome = odek.run("run", "--no-sandbox", "--base-url", "replay:recording.jsonl", "x")
    assert (outcome.code, outcome.stdout, said in outcome.stderr) == (1, "", True), outcome.stderr


def test_recording_that_is_not_there_costs_no_container(odek: Odek) -> None:
    """F-20: a model that cannot be had stops before Docker is asked."""
    outcome = odek.run("run", "--base-url", "replay:nowhere", "x", env={"DOCKER_HOST": "unix:///nowhere/s"})
    assert (outcome.code, "nowhere" in outcome.stderr, "Docker" in outcome.stderr) == (1, True, False), outcome.stderr


def test_local_image_is_made_from_the_hosts_busybox(odek: Odek, docker_engine: Engine, base_image: str) -> None:
    """The image command prints name and ID; the image runs commands."""
    tag = f"odek-e2e-busybox:{os.getpid()}"
    try:
        outcome = odek.run("sandbox", "image", "bootstrap", "--tag", tag)
        assert outcome.code == 0, outcome.stderr
        name, identity = outcome.stdout.split()
        assert name == tag
        assert docker_engine.image_id(tag) == f"sha256:{identity[-64:]}"
        with ModelServer(calls(("shell", {"command": "uname"})), text("done")) as server:
            used = odek.run("run", "--base-url", server.base_url, "--sandbox-image", identity, "x")
        assert (used.code, used.stdout) == (0, "done\n"), used.stderr
    finally:
        docker_engine.run("rmi", "--force", tag, check=False)


@pytest.mark.parametrize("kind", ["missing", "a script", "dynamic", "a folder"])
def test_local_image_is_not_made_from_something_else(
    kind: str, odek: Odek, docker_engine: Engine, tmp_path: Path
) -> None:
    """A file that could not run in an empty image is refused in a sentence, and no image is made."""
    path = {"dynamic": Path("/bin/sh"), "a folder": tmp_path}.get(kind, tmp_path / "busybox")
    if kind == "a script":
        path.write_text("#!/bin/sh\n")
        path.chmod(0o755)
    tag = f"odek-e2e-none:{os.getpid()}"
    outcome = odek.run("sandbox", "image", "bootstrap", "--tag", tag, "--busybox", str(path))
    assert (outcome.code, outcome.stdout, outcome.stderr.startswith("odek: error: ")) == (1, "", True), outcome.stderr
    assert "internal error" not in outcome.stderr
    assert docker_engine.run("image", "inspect", tag, check=False).returncode in (1, 125)  # podman's


def test_scratch_project_of_the_demo_is_what_the_recording_expects() -> None:
    assert {name for name, _ in FILES} == {"README.md", "slugify.sh", "test.sh"}
    assert find_static_busybox() is None or ANSWER.count("\n") == 2


@pytest.mark.once
def test_demo_in_a_browser_begins_at_the_login_and_leaves_nothing(
    odek: Odek, docker_engine: Engine, base_image: str, scratch: dict[str, str], nothing_left: None
) -> None:
    """R-120: `odek serve --demo` asks before the attacks of the recording, and its answer is the recorded one."""
    with serving_process(odek, "--demo", env=scratch) as server:
        assert server.ask("GET", "/api/state").json["sessions"] == []
        login = server.ask("POST", "/api/login", {"token": server.token})
        assert login.status == 200
        sessions = server.ask("GET", "/api/state").json["sessions"]
        assert isinstance(sessions, list)
        (session,) = (f"/api/sessions/{each['id']}" for each in sessions)

        def open_card() -> dict[str, str] | None:
            cards = server.ask("GET", session).json["approvals"]
            assert isinstance(cards, list)
            return cards[0] if cards else None

        wait_until(open_card)
        card = open_card()
        assert card is not None
        answer = {"answer": "once", "digest": card["digest"]}
        assert server.ask("POST", f"{session}/approvals/{card['id']}", answer).status == 200
        wait_until(lambda: server.ask("GET", session).json["state"] == "idle")
        entries = server.ask("GET", session).json["entries"]
        assert isinstance(entries, list)
        assert entries[-1]["text"] == ANSWER.strip()
        assert server.end() == 128 + signal.SIGTERM
