"""Dockerfile.odek and images in files, on the program itself: asked about, built, run, carried."""

from __future__ import annotations

import hashlib
import json
import os
import pty
import re
import secrets
import select
import subprocess
import time
from collections.abc import Iterator

import pytest
from fakes.model_server import ModelServer, calls, text
from support.docker_engine import Engine
from support.odek_process import Odek
from support.scenario import listener_on_the_host, run_script, tool_results

APPROVED = {"ODEK_APPROVE_PROJECT_SANDBOX": "1"}
PATIENCE_S = 60.0


class Built:
    """A project with a Dockerfile.odek."""

    def __init__(self, odek: Odek, engine: Engine, base: str) -> None:
        self.odek, self.engine = odek, engine
        self._base, self._nonce = base, secrets.token_hex(8)
        self.write("COPY tool.sh /t")
        (odek.cwd / "tool.sh").write_text("from the image\n")

    def write(self, *lines: str) -> None:
        content = "\n".join((f"FROM {self._base}", f"LABEL odek.test={self._nonce}", *lines, "")).encode()
        (self.odek.cwd / "Dockerfile.odek").write_bytes(content)
        self.sha256 = hashlib.sha256(content).hexdigest()
        self.tag = f"odek-sandbox:{self.sha256[:12]}"

    def close(self) -> None:
        listed = self.engine.run("images", "--quiet", "--filter", f"label=odek.test={self._nonce}").stdout
        for image in listed.split():
            self.engine.run("rmi", "--force", image, check=False)
        self.engine.run("image", "prune", "--force", "--filter", f"label=odek.test={self._nonce}")


@pytest.fixture
def built(odek: Odek, docker_engine: Engine, base_image: str) -> Iterator[Built]:
    project = Built(odek, docker_engine, base_image)
    yield project
    project.close()


def test_commands_run_in_the_image_that_the_project_brings(built: Built) -> None:
    """R-36, R-39: approved by the operator, built, named in the startup line; the second run builds nothing."""
    for builds in (1, 0):
        script = (calls(("shell", {"command": "cat /t"})), text("done"))
        outcome, server = run_script(built.odek, *script, env=APPROVED)
        assert (outcome.code, outcome.stdout) == (0, "done\n"), outcome.stderr
        assert "from the image" in tool_results(server)[0]
        assert f"odek: sandbox network=none pids=4096 image={built.tag}\n" in outcome.stderr
        assert (
            len(re.findall(f"^odek: building {built.tag} from Dockerfile.odek", outcome.stderr, re.MULTILINE)) == builds
        )


def test_build_that_nobody_approved_stops_before_the_model(built: Built) -> None:
    """R-36, R-61, R-7: no terminal, no approval: exit 1, file and variable named, nothing built."""
    outcome, server = run_script(built.odek, text("never said"))
    assert (outcome.code, outcome.stdout, server.requests) == (1, "", [])
    assert "./Dockerfile.odek" in outcome.stderr
    assert "ODEK_APPROVE_PROJECT_SANDBOX=1" in outcome.stderr
    assert built.engine.run("image", "inspect", built.tag, check=False).returncode != 0


def test_failed_build_stops_and_never_runs_on_the_host(built: Built) -> None:
    """R-7: also where the sandbox is the default and nobody asked for it."""
    built.write("RUN exit 7")
    outcome, server = run_script(built.odek, text("never said"), env=APPROVED)
    assert (outcome.code, server.requests) == (1, [])
    assert "odek: error: Dockerfile.odek could not be built\n" in outcome.stderr


def test_question_is_asked_at_the_terminal_and_trust_is_kept(built: Built) -> None:
    """R-36, R-60: the question shows the digest; after "t" the next run asks nothing."""
    with ModelServer(text("one"), text("two")) as server:
        arguments = ("run", "--base-url", server.base_url, "a task")
        first = run_at_terminal(built.odek, arguments, answer="t")
        second = run_at_terminal(built.odek, arguments, answer=None)
    shown = first.replace("\r\n", "\n")
    assert "WARNING: the project (./Dockerfile.odek) requests an image build:\n" in shown
    assert built.sha256 in re.sub(r"\n\s+\+ |\s", "", shown)
    assert "Approve? [y = once / t = trust this project / N]" in shown
    assert ("Approve?" in second, "two" in second) == (False, True)


def run_at_terminal(odek: Odek, arguments: tuple[str, ...], answer: str | None) -> str:
    """Run odek with a pseudo-terminal as its controlling one; answer its question, and return all it showed."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*odek.argv, *arguments], stdin=slave, stdout=slave, stderr=slave, cwd=odek.cwd, env=odek.env(),
        start_new_session=True, preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),
    )  # fmt: skip
    os.close(slave)
    shown = ""
    deadline = time.monotonic() + PATIENCE_S
    try:
        while time.monotonic() < deadline:
            if answer is not None and "/ N]" in shown:
                time.sleep(0.5)  # what is typed before the question can be read is thrown away
                os.write(master, f"{answer}\n".encode())
                answer = None
            if select.select([master], [], [], 0.1)[0]:
                try:
                    shown += os.read(master, 65536).decode(errors="replace")
                except OSError:  # the last one at the terminal has gone
                    break
        process.wait(max(deadline - time.monotonic(), 1))
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(master)
    return shown


def test_build_command_builds_anew_each_time_and_says_what(built: Built) -> None:
    """R-36."""
    outcome = built.odek.run("sandbox", "build", "--json", env=APPROVED)
    assert outcome.code == 0, outcome.stderr
    said = json.loads(outcome.stdout)
    image_id = built.engine.image_id(built.tag)
    assert said == {"tag": built.tag, "id": image_id, "dockerfile_sha256": built.sha256}
    (built.odek.cwd / "tool.sh").write_text("changed\n")
    outcome = built.odek.run("sandbox", "build", "--no-cache", env=APPROVED)
    assert outcome.stdout.startswith(f"{built.tag} sha256:")
    assert outcome.stdout != f"{built.tag} {image_id}\n"


def test_build_command_without_a_dockerfile_says_so(odek: Odek) -> None:
    outcome = odek.run("sandbox", "build")
    assert (outcome.code, outcome.stdout) == (1, "")
    assert outcome.stderr.startswith("odek: error: there is no Dockerfile.odek here\n")


def test_image_is_saved_and_loaded_by_file(odek: Odek, docker_engine: Engine, base_image: str) -> None:
    """D-12."""
    image_id = docker_engine.image_id(base_image)
    saved = odek.run("sandbox", "image", "save", "x.tar", "--image", base_image)
    assert (saved.code, saved.stdout) == (0, f"{image_id}\n"), saved.stderr
    refused = odek.run("sandbox", "image", "load", "x.tar")
    # for a processor whose ID of the default is not shipped, the same is said in other words
    told = r"holds another image than the expected one|cannot be verified to hold the pinned default: its ID on "
    assert (refused.code, bool(re.search(told, refused.stderr))) == (1, True), refused.stderr
    assert "give that one with --id" in refused.stderr
    loaded = odek.run("sandbox", "image", "load", "x.tar", "--id", image_id, "--json")
    assert json.loads(loaded.stdout)["id"] == image_id
    every_run = "or for every run: the same command with --set"
    assert loaded.stderr.endswith(f"odek: use it with --sandbox-image {image_id}, {every_run}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "say what to do: odek sandbox ACTION"),
        (("bild",), '"bild" is not an action of odek sandbox'),
        (("image",), "say what to do: odek sandbox image ACTION"),
        (("build", "x"), "unrecognized arguments: x"),
        (("image", "save"), "name one file"),
        (("image", "save", "a", "b"), "name one file"),
        (("image", "load", "a", "--id", "sha256:1", "--image", "x"), "--id and --image exclude each other"),
    ],
)
def test_misuse_is_explained(arguments: tuple[str, ...], message: str, odek: Odek) -> None:
    """R-80."""
    outcome = odek.run("sandbox", *arguments)
    assert (outcome.code, outcome.stdout) == (2, "")
    assert outcome.stderr.startswith(f"odek: error: {message}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--image", "alpine:3"), "a name says nothing about the content of an image"),
        (("--id", "alpine"), "--id wants"),
    ],
)
def test_expected_image_must_be_named_by_its_content(
    arguments: tuple[str, ...], message: str, odek: Odek, docker_engine: Engine
) -> None:
    """D-12."""
    outcome = odek.run("sandbox", "image", "load", "x.tar", *arguments)
    assert (outcome.code, outcome.stderr.startswith(f"odek: error: {message}")) == (2, True)


@pytest.mark.parametrize("action", ["", "build", "image bootstrap", "image save", "image load"])
def test_every_action_explains_itself(action: str, odek: Odek) -> None:
    """R-80."""
    outcome = odek.run("sandbox", *action.split(), "--help")
    assert (outcome.code, outcome.stderr) == (0, "")
    assert outcome.stdout.startswith("usage: odek sandbox")


def test_base_of_a_build_is_pulled_without_the_switch(built: Built) -> None:
    """B17, D-2: what docs/SANDBOXING.md does not promise; the daemon asks the registry before any RUN step."""
    with listener_on_the_host("127.0.0.1") as (port, came):
        (built.odek.cwd / "Dockerfile.odek").write_text(f"FROM 127.0.0.1:{port}/base:1\nRUN true\n")
        outcome, server = run_script(built.odek, text("never said"), env=APPROVED)
        assert (outcome.code, server.requests, came != []) == (1, [], True), outcome.stderr
    assert f"odek: pulling image 127.0.0.1:{port}/base:1\n" in outcome.stderr


@pytest.mark.docker_only  # podman builds with the rights of its caller, which are too few here
def test_folder_that_may_not_be_read_is_named(built: Built) -> None:
    """B19: in the way of a COPY it stops the build, by its name, and at no other place does it matter."""
    closed = built.odek.cwd / "closed"
    closed.mkdir()
    (closed / "f").write_text("x")
    closed.chmod(0)
    if os.geteuid() == 0:  # root reads everything, unless that right is taken away
        drop = ("setpriv", "--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search")
        built.odek.argv = (*drop, *built.odek.argv)
    try:
        built.write("COPY closed /c")
        refused, server = run_script(built.odek, text("never said"), env=APPROVED)
        assert (refused.code, server.requests, "closed" in refused.stderr) == (1, [], True), refused.stderr
        built.write()
        outcome, _ = run_script(built.odek, text("done"), env=APPROVED)
        assert (outcome.code, outcome.stdout) == (0, "done\n"), outcome.stderr
    finally:
        closed.chmod(0o755)
